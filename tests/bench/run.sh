#!/bin/bash
# Run every bench program in build/bench, print what they print, and gather their results in
# build/bench.json, a list of {"bench", "case", "layout", "value", "unit"}; targets have "most" and "met", too.
set -u
cd "$(dirname "$0")/../.." || exit 1
lines=build/bench.json.lines
rm -f "$lines" build/bench.json
bad=0

shopt -s nullglob
for prog in build/bench/bench_*; do
	[ -f "$prog" ] && [ -x "$prog" ] || continue
	echo "$(basename "$prog"):"
	BENCH_JSON=$lines "$prog" || { echo "$(basename "$prog"): failed (exit $?)"; bad=1; }
done
if [ ! -s "$lines" ]; then
	echo "no results"
	exit 1
fi
{ echo '['; sed '$!s/$/,/' "$lines"; echo ']'; } > build/bench.json
echo "targets: $(grep -c '"met": true' "$lines") met, $(grep -c '"met": false' "$lines") missed"
rm -f "$lines"
echo "wrote build/bench.json"
exit $bad
