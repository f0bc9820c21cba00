#!/bin/bash
# All tests, in the order of their cost; what `make check` runs after the packages are there. What failed
# is told once more at the end; the last line is 'N passed, N failed'.
set -u
cd "$(dirname "$0")/.." || exit 1
make=(make --no-print-directory -j"$(nproc)")
mkdir -p build
rm -rf build/test-counts build/test-logs build/test-failed build/not-tested
mkdir -p build/test-logs
rm -rf /dev/shm/concury-test.* /dev/shm/concury-bench.* /dev/shm/concury-sim.* /var/tmp/concury-bench.*

# step NAME COMMAND...: a check that is one test in itself.
step() {
	local name=$1 log=build/test-logs/$1.log start
	shift
	start=$(date +%s)
	if "$@" > "$log" 2>&1; then
		echo "1 0" >> build/test-counts
		printf '  %-8s %-28s passed (%d s)\n' step "$name" $(($(date +%s) - start))
	else
		echo "0 1" >> build/test-counts
		printf '  %-8s %-28s FAILED (%d s), its last 60 lines:\n' step "$name" $(($(date +%s) - start))
		tail -60 "$log"
		echo "step $name" >> build/test-failed
	fi
}

# In a guest of its own. Where its kernel cannot be had that is no failure, nor passed: it is said at the end.
zerocopy() {
	local log=build/test-logs/zerocopy-kernel.log
	tests/zerocopy/run.sh fetch > "$log" 2>&1
	if [ $? = 2 ]; then
		echo "zero-copy mode, VLANs and bonds were NOT TESTED: $(tail -n 1 "$log")" >> build/not-tested
		printf '  %-8s %s\n' zerocopy "$(cat build/not-tested)"
	else
		sed -n 's/^igb: not tested/zero-copy mode of igb was NOT TESTED/p' "$log" >> build/not-tested
		tests/run.sh zerocopy tests/zerocopy/run.sh tests/zerocopy/links.sh
	fi
}

step build "${make[@]}" all unit-build bench-build sim-build experiment-build
# Unit tests share the cores.
TEST_JOBS=$(nproc) "${make[@]}" unit
# The simulation takes all cores, and has to be done in two minutes.
"${make[@]}" sim
# What only computes takes the cores that the guest, and then the tests with real clients, leave.
(
	renice -n 19 -p $BASHPID > /dev/null
	step debian-root "${make[@]}" debian-root
	step lint tests/lint.sh
	step asan-build "${make[@]}" asan-build
	step tsan-build "${make[@]}" tsan-build
	tests/run.sh model tests/model/*.sh
	tests/run.sh bench tests/bench/test_*.py
	step layers tests/layers.sh
	step golden "${make[@]}" golden
) &
zerocopy
tests/run.sh e2e tests/e2e/test_*.py
wait
TEST_JOBS=$(nproc) step asan "${make[@]}" asan
TEST_JOBS=$(nproc) step tsan "${make[@]}" tsan
for fuzz in tests/fuzz/*.sh; do
	step "fuzz-$(basename "$fuzz" .sh)" "$fuzz" &
done
wait

[ ! -e build/test-failed ] || { echo "failed:"; cat build/test-failed; }
[ ! -e build/not-tested ] || cat build/not-tested
awk '{p += $1; f += $2} END {printf "%d passed, %d failed\n", p, f; exit !(p > 0 && f == 0)}' \
	build/test-counts
