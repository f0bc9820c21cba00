#!/bin/bash
# Fuzz the API's router and codec: replay the corpus, then try new inputs for FUZZ_SECONDS (10). Exit 0
# if nothing was found; an input that fails is left in build/fuzz/. New inputs that reach new code stay
# in build/fuzz/ too.
set -eu
cd "$(dirname "$0")/../.."
out=build/fuzz
corpus=tests/fuzz/corpus/api
mkdir -p $out/api-corpus

# What the API stands on comes from the library as it is; what is fuzzed is compiled anew.
make --no-print-directory build/libconcury.a > $out/api.log 2>&1 || { tail -20 $out/api.log; exit 1; }
clang -std=gnu11 -O1 -g -Wall -Wextra -Werror -D_GNU_SOURCE -DCONCURY_VERSION='"0"' -Iforwarder -I. -pthread \
	-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer \
	-o $out/api tests/fuzz/fuzz_api.c tests/unit/api_fake.c api/server/*.c forwarder/control/model.c \
	build/libconcury.a -lxdp -lbpf -lmnl -lmicrohttpd -lgnutls -ljansson -lsqlite3 -lm

n=$(find $corpus -type f | wc -l)
[ "$n" -gt 0 ] || { echo "$corpus is empty"; exit 1; }
find $corpus -type f -print0 | sort -z | xargs -0 $out/api -artifact_prefix=$out/api- 2> $out/api.log ||
	{ tail -40 $out/api.log; exit 1; }
echo "replayed $n inputs"
$out/api -artifact_prefix=$out/api- -max_total_time="${FUZZ_SECONDS:-10}" -max_len=2048 -timeout=10 \
	-dict=tests/fuzz/api.dict -print_final_stats=1 $out/api-corpus $corpus > $out/api.log 2>&1 ||
	{ tail -40 $out/api.log; exit 1; }
grep -E 'number_of_executed_units|^#.*DONE' $out/api.log
