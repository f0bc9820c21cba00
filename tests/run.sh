#!/bin/bash
# tests/run.sh GROUP PROGRAM...: run test programs, TEST_JOBS (default: 1) at a time, each with a time
# limit, its output in build/test-logs/. Understands Check's closing line ("100%: Checks: 12, Failures:
# 0, Errors: 0") and lines "ok - name" / "not ok - name". Adds its counts to build/test-counts, what
# failed to build/test-failed, and prints a line for each program. Exit 1 if anything failed or a
# program ran no test.
set -u
group=$1
shift
cd "$(dirname "$0")/.." || exit 1
logs=build/test-logs/$group
mkdir -p "$logs"
limit=${TEST_LIMIT_S:-600}
# Limits of single tests are there for what hangs, not for a busy machine.
export CK_TIMEOUT_MULTIPLIER=${CK_TIMEOUT_MULTIPLIER:-4}
jobs=${TEST_JOBS:-1}

# run_one PROGRAM: prints its line, writes "passed failed" beside its log.
run_one() {
	local prog=$1 name log start rc p f checks failures errors
	name=$(basename "$prog")
	log=$logs/$name.log
	start=$(date +%s)
	timeout -k 20 "$limit" "$prog" < /dev/null > "$log" 2>&1
	rc=$?
	p=$(grep -c '^ok - ' "$log")
	f=$(grep -c '^not ok - ' "$log")
	while read -r checks failures errors; do
		p=$((p + checks - failures - errors))
		f=$((f + failures + errors))
	done < <(sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\)$/\1 \2 \3/p' "$log")
	if [ $rc -ne 0 ] && [ $f -eq 0 ]; then
		f=1
	elif [ $rc -eq 0 ] && [ $((p + f)) -eq 0 ]; then
		echo "$name ran no test" >> "$log"
		f=1
	fi
	printf '  %-8s %-28s %4d passed, %d failed (%d s)\n' "$group" "$name" $p $f $(($(date +%s) - start))
	if [ $f -gt 0 ]; then
		echo "---- $log (exit $rc), its last 60 lines:"
		tail -60 "$log"
		{ echo "$prog (exit $rc):"; tail -20 "$log"; } >> build/test-failed
		echo "----"
	fi
	echo "$p $f" > "$logs/$name.counts"
}

rm -f "$logs"/*.counts
for prog in "$@"; do
	while [ "$(jobs -pr | wc -l)" -ge "$jobs" ]; do
		wait -n
	done
	run_one "$prog" &
done
wait
passed=0
failed=0
for prog in "$@"; do
	# A program whose counts are not there has not been run to its end.
	read -r p f < "$logs/$(basename "$prog").counts" || { p=0 f=1; }
	passed=$((passed + p))
	failed=$((failed + f))
done
echo "$passed $failed" >> build/test-counts
[ $failed -eq 0 ]
