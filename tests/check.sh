#!/bin/bash
# All tests, in the order of their cost; what `make check` runs after the packages are there. The last
# line is 'N passed, N failed'.
set -u
cd "$(dirname "$0")/.." || exit 1
make=(make --no-print-directory -j"$(nproc)")
mkdir -p build
rm -rf build/test-counts build/test-logs
rm -rf /dev/shm/concury-test.* /dev/shm/concury-bench.* /dev/shm/concury-sim.* /var/tmp/concury-bench.*

# step NAME COMMAND...: a check that is one test in itself.
step() {
	local name=$1 log=build/test-logs/$1.log start
	shift
	mkdir -p build/test-logs
	start=$(date +%s)
	if "$@" > "$log" 2>&1; then
		echo "1 0" >> build/test-counts
		printf '  %-8s %-28s passed (%d s)\n' step "$name" $(($(date +%s) - start))
	else
		echo "0 1" >> build/test-counts
		printf '  %-8s %-28s FAILED (%d s), its last 60 lines:\n' step "$name" $(($(date +%s) - start))
		tail -60 "$log"
	fi
}

step build "${make[@]}" all unit-build bench-build sim-build experiment-build
# Unit tests share the cores; all else has them to itself.
TEST_JOBS=$(nproc) "${make[@]}" unit
"${make[@]}" sim
tests/run.sh model tests/model/*.sh
step layers tests/layers.sh
# The tests with real clients mostly wait: what only computes takes the cores that they leave.
(
	renice -n 19 -p $BASHPID > /dev/null
	step golden "${make[@]}" golden
	step lint tests/lint.sh
	step asan-build "${make[@]}" asan-build
	step tsan-build "${make[@]}" tsan-build
) &
tests/run.sh e2e tests/e2e/test_*.py
wait
TEST_JOBS=$(nproc) step asan "${make[@]}" asan
TEST_JOBS=$(nproc) step tsan "${make[@]}" tsan
for fuzz in tests/fuzz/*.sh; do
	[ -e "$fuzz" ] && step "fuzz-$(basename "$fuzz" .sh)" "$fuzz"
done

awk '{p += $1; f += $2} END {printf "%d passed, %d failed\n", p, f; exit !(p > 0 && f == 0)}' \
	build/test-counts
