#!/bin/bash
# Check the model of the park handshake with spin, every state of it: safety (assertions, processes
# blocked for ever), then liveness under weak fairness. Then each deliberate fault must be found, the
# handshake without its re-check after poll first of all: else the model could find nothing.
set -u
cd "$(dirname "$0")/../.." || exit 1
model=$PWD/tests/model/park.pml
work=${BUILD:-build}/model
mkdir -p "$work" && cd "$work" || exit 1
failed=0

report() { # report OK NAME DETAIL
	if [ "$1" = 1 ]; then
		echo "ok - model: $2 ($3)"
	else
		echo "not ok - model: $2 ($3)"
		failed=1
	fi
}

build() { # build "SPIN_FLAGS" GCC_FLAG...: makes ./pan
	local flags=$1
	shift
	rm -f pan pan.* park.pml.trail
	# shellcheck disable=SC2086
	spin $flags -a "$model" > spin.log 2>&1 && gcc -w "$@" -o pan pan.c >> spin.log 2>&1 && return 0
	cat spin.log
	return 1
}

# What a search says: "errors: 0" counts only if it has seen all states and was not cut short.
states() { sed -n 's/^ *\([0-9]*\) states, stored.*/\1 states/p' pan.log; }
complete() {
	grep -q 'errors: 0$' pan.log && [ -n "$(states)" ] &&
		! grep -Eq 'Search not completed|max search depth too small|out of memory' pan.log
}

holds() { # holds NAME "SPIN_FLAGS": no assertion fails, nobody is blocked for ever
	local ok=0
	: > pan.log
	build "$2" -O1 -DSAFETY -DNOCLAIM && ./pan -m10000 > pan.log 2>&1
	complete && ok=1
	[ $ok = 1 ] || cat pan.log
	report $ok "$1" "$(states)"
}

eventually() { # eventually NAME FORMULA: of the pan that was built
	local ok=0
	./pan -a -f -N "$2" -m10000 > pan.log 2>&1
	complete && ok=1
	[ $ok = 1 ] || cat pan.log
	report $ok "$1" "$(states)"
}

finds() { # finds NAME "SPIN_FLAGS" ERROR: the first error is this one, and there is a trail to it
	local ok=0 found
	: > pan.log
	build "$2" -O0 -DSAFETY -DNOCLAIM && ./pan -m10000 > pan.log 2>&1
	found=$(sed -n 's/^pan:[0-9]*: \(.*\) (at depth.*/\1/p' pan.log | head -1)
	[[ $found == "$3"* ]] && [ -s park.pml.trail ] && ok=1
	report $ok "finds $1" "${found:-nothing found}"
}

holds "no packet is touched between drain and swap, nobody waits for ever" ""
holds "nor when a worker is stopped meanwhile" "-DSTOPS -DPUBLISHES=1"
build "-DPUBLISHES=1" -O1 -DNFAIR=3 || failed=1
eventually "control's wait ends" publish_ends
eventually "a packet that came is taken" packet_taken
eventually "no worker stays parked" none_parked
finds "a worker that does not look again after poll" "-DFAULT_NO_RECHECK" "assertion violated"
finds "a swap without a drain" "-DFAULT_NO_DRAIN" "assertion violated"
finds "a worker that parks without a wake" "-DFAULT_PARKS_SILENTLY" "invalid end state"
finds "a worker that goes to sleep over a hold" "-DFAULT_SLEEPS_BLINDLY" "invalid end state"
finds "a release without a wake" "-DFAULT_RELEASES_SILENTLY" "invalid end state"
finds "a stop that does not wake the sleeper" "-DSTOPS -DPUBLISHES=1 -DFAULT_STOPS_SILENTLY" "invalid end state"
exit $failed
