#!/bin/bash
# Requests in by one NIC and out by another, in zero-copy mode; and where a NIC has no such mode.
. /common.sh

N_NEW=1000
# The share of a backend among three alike, within five standard deviations.
is_third() {
	awk -v c="$(field "$1")" -v n="$(field requests)" \
		'BEGIN { d = c - n / 3; exit !(n > 0 && d * d <= 25 * n * 2 / 9) }'
}
is_spread() { is_clean $N_NEW && is_third b1 && is_third b2 && is_third b3; }

test_mode() {
	start_daemon --interface lb0 --interface lb1 --xdp-mode zerocopy
	expect "concuryd starts with --xdp-mode zerocopy" is_ready
	expect "xdp_mode: zerocopy of every queue in /v1/status" is_zerocopy status
	status | jq -r '.workers[].queues[] | "figures: \(.interface) queue \(.queue): xdp_mode: \(.xdp_mode)"'
	expect "the kernel says so of every socket" are_sockets_zerocopy sockets
	make_vips > /run/made 2>&1
	wait_for 60 are_resolved
	expect "all DIPs are resolved" are_resolved dips
}

test_new_connections() { # FAMILY ADDRESS
	start_load -c 20 -H 'Connection: close' "http://$2/name" -- $N_NEW
	wait_for 120 is_enough
	sleep 2
	end_load
	expect "$1: a connection for each request, in equal shares" is_spread show_load
	echo "figures: $kind, $1, new connections: $(field per_s) a second; $(grep '^counts:' $out)"
}

# Each answer says how many moved; without an answer it was not changed.
none_moved() { [ "$(jq -s 'length == 3 and all(.change.flows_moved == 0)' /run/changes)" = true ] && [ "$known" -ge 201 ]; }
# Each connection was used, and not only before the change.
is_open_clean() { is_clean 400 && [ $lasted = yes ]; }
is_again_clean() { is_clean 100 && [ $lasted = yes ]; }
is_download_whole() { cmp -s /run/download /srv/file; }

test_change() {
	start_load -c 200 "http://$VIP4/name" -- 1000
	in_ns client curl -sS --max-time 240 --limit-rate 400k -o /run/download "http://$VIP4/file" &
	local download=$!
	wait_for 120 is_enough
	known=$(api GET consistency | jq .flows_known)
	: > /run/changes
	for weight in 5 0 2; do
		api PATCH vips/web/dips/b2 "{\"weight\": $weight}" >> /run/changes
		sleep 1
	done
	expect "weights changed over $known known connections: 0 moved" none_moved cat /run/changes
	sleep 2
	end_load
	expect "200 open connections over the changes: no request lost" is_open_clean show_load
	echo "figures: $kind, 200 open connections: $(field per_s) requests a second; $(grep '^counts:' $out)"
	wait $download
	expect "a download over the changes is whole" is_download_whole
}

counters() { api GET counters; }
is_forwarded() {
	counters | jq -e '([.interfaces[] | select(.name == "lb0").rx_packets] | add) > 5000 and
		([.interfaces[] | select(.name == "lb1").tx_packets] | add) > 5000 and
		([.drops[]] | add) == 0' > /dev/null
}
consistency() { api GET consistency; }
is_consistent() {
	consistency | jq -e '.violations_total == 0 and .flows_unlearned_total == 0 and
		.flows_forgotten_total == 0' > /dev/null
}

test_counters() {
	expect "in by one NIC, out by the other, nothing dropped" is_forwarded counters
	counters | jq -r '.interfaces[] | "figures: \(.name) rx_packets \(.rx_packets), tx_packets \(.tx_packets)"'
	expect "no violation of consistency" is_consistent consistency
}

# Killed and started again under load: queues and rings are taken over while frames come. Meanwhile the MTU may
# have been changed.
test_restart() { # MTU
	start_load -c 50 "http://$VIP4/name" -- 200
	wait_for 120 is_enough
	sleep 2
	stop_daemon KILL
	set_mtus "$1"
	start_daemon --interface lb0 --interface lb1 --xdp-mode zerocopy
	expect "after kill -9 in zero-copy mode again" is_zerocopy status
	sleep 2
	end_load
	expect "no connection lost by that" is_again_clean show_load
	[ "$1" = 1500 ] || expect_full_frames "$1"
}

round() { # KIND MAC MAC MTU-AFTER-RESTART
	kind=$1
	take_nics "$2" "$3"
	test_mode
	test_new_connections IPv4 $VIP4
	test_new_connections IPv6 "[$VIP6]"
	test_change
	expect_full_frames 1500
	test_counters
	test_restart "$4"
	stop_daemon TERM
	concuryd --detach --interface lb0 --interface lb1 > /dev/null 2>&1
	rm -rf /run/concury.db* /dev/shm/concury
	set_mtus 1500
}

# Without iommu_platform virtio has no zero-copy mode: asked for, an error that says so; else copy mode.
is_refused() { [ $code = 1 ] && grep -q 'nic9 queue 0: cannot bind in zero-copy mode' $LOG; }
test_without() {
	kind="virtio-net without iommu_platform"
	ip link set "$(nic_of 02:00:00:09:00:04)" name nic9
	ip link set nic9 up
	concuryd $STORES --listen unix:$API --interface nic9 --xdp-mode zerocopy > $LOG 2>&1
	code=$?
	expect "--xdp-mode zerocopy is refused" is_refused
	start_daemon --interface nic9
	expect "auto takes copy mode, and says why" is_copy status
	stop_daemon TERM
	ip link set nic9 down
}

round virtio-net 02:00:00:09:00:02 02:00:00:09:01:02 3000
[ $IGB = 0 ] || round igb 02:00:00:09:00:03 02:00:00:09:01:03 1500
test_without
