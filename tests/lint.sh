#!/bin/bash
# clang-tidy and cppcheck over the C sources; any finding fails.
set -u
cd "$(dirname "$0")/.." || exit 1
mapfile -t src < <(git ls-files -co --exclude-standard 'forwarder/*.c' 'schema/*.c' 'api/*.c' | grep -v '\.bpf\.c$')
flags=(-std=gnu11 -D_GNU_SOURCE '-DCONCURY_VERSION="x"' '-DCONCURY_COMMIT="x"' -Iforwarder -I. -Ibuild/gen)
bad=0

printf '%s\n' "${src[@]}" | xargs -P "$(nproc)" -n 4 sh -c '
	clang-tidy --quiet "$@" -- -std=gnu11 -D_GNU_SOURCE -DCONCURY_VERSION=\"x\" -DCONCURY_COMMIT=\"x\" -Iforwarder -I. -Ibuild/gen 2>/dev/null' tidy || bad=1
cppcheck -q -j "$(nproc)" --std=c11 --enable=warning,performance,portability --inline-suppr \
	--suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches --error-exitcode=1 \
	"${flags[@]:1}" "${src[@]}" || bad=1
exit $bad
