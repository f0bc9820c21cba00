#!/bin/bash
# Fuzz packet/: replay the corpus, then try new inputs for FUZZ_SECONDS (10). Exit 0 if nothing was found;
# an input that fails is left in build/fuzz/. New inputs that reach new code stay in build/fuzz/ too.
set -eu
cd "$(dirname "$0")/../.."
out=${BUILD:-build}/fuzz
corpus=tests/fuzz/corpus/packet
mkdir -p $out/packet-corpus

clang -std=gnu11 -O1 -g -Wall -Wextra -Werror -D_GNU_SOURCE -Iforwarder -I. \
	-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer \
	-o $out/packet tests/fuzz/fuzz_packet.c tests/fuzz/fuzz_rewrite.c tests/fuzz/fuzz_split.c tests/unit/naive_parse.c \
	tests/unit/frames.c forwarder/packet/*.c forwarder/base/addr.c

n=$(find $corpus -type f | wc -l)
[ "$n" -gt 0 ] || { echo "$corpus is empty"; exit 1; }
find $corpus -type f -print0 | sort -z | xargs -0 $out/packet -artifact_prefix=$out/packet- 2> $out/packet.log ||
	{ tail -40 $out/packet.log; exit 1; }
echo "replayed $n inputs"
$out/packet -artifact_prefix=$out/packet- -max_total_time="${FUZZ_SECONDS:-10}" -max_len=2048 -timeout=10 \
	-print_final_stats=1 $out/packet-corpus $corpus > $out/packet.log 2>&1 ||
	{ tail -40 $out/packet.log; exit 1; }
grep -E 'number_of_executed_units|^#.*DONE' $out/packet.log
