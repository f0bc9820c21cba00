#!/bin/bash
# The tests, in the guest, by bash. Prints "ok - name" or "not ok - name (why)", and figures.
#
#    client (10.9.0.1) ---- lb0 [concuryd] lb1 ---- b1, b2, b3 (10.9.1.11 ...; nginx, the VIPs on lo)
#
# Every line is a NIC of qemu on a hub; all but the load balancer's are in namespaces. Requests come in by
# lb0 and leave by lb1, without copying; answers go back through the same two NICs by the kernel's own
# routing, that is past steer. The VIPs are on no interface here but routed to it.
set -u
API=/run/concury.sock
VIP4=10.9.9.100
VIP6=fd09:9::100
LOG=/run/concuryd.log
BACKENDS="b1 b2 b3"

# expect NAME CONDITION [EVIDENCE...]: the condition is a command without arguments; the evidence is what to
# run and print if it is false.
expect() {
	local name=$1
	if "$2"; then
		echo "ok - $kind: $name"
		return
	fi
	shift 2
	echo "not ok - $kind: $name"
	[ $# = 0 ] || "$@" 2>&1 | head -20 | sed 's/^/    | /'
	tail -15 $LOG | sed 's/^/    | /'
}
in_ns() { ip netns exec "$@"; }
api() { # METHOD PATH [BODY]
	local type=application/json
	[ "$1" != PATCH ] || type=application/merge-patch+json
	curl -sS --max-time 60 --unix-socket $API -X "$1" -H "Content-Type: $type" ${3:+-d "$3"} \
		"http://localhost/v1/$2"
}
# wait_for SECONDS COMMAND...
wait_for() {
	local end=$(($(cut -d. -f1 /proc/uptime) + $1))
	shift
	until "$@"; do
		[ "$(cut -d. -f1 /proc/uptime)" -lt $end ] || return 1
		sleep 0.1
	done
}
nic_of() { # MAC
	grep -lix "$1" /sys/class/net/*/address | cut -d/ -f5
}

# --- the network ---------------------------------------------------------------------------------

add_host() { # NAMESPACE MAC IPV4/LEN IPV6/LEN
	local dev=$(nic_of "$2")
	ip netns add "$1"
	ip link set "$dev" netns "$1"
	in_ns "$1" bash -e <<-END
		sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
		ip link set lo up
		ip link set $dev name eth0
		ip addr add $3 dev eth0
		ip addr add $4 dev eth0 nodad
		ip link set eth0 up
	END
}

add_backend() { # NAME NUMBER
	add_host "$1" 02:00:00:09:01:"$2" "10.9.1.$2/24" "fd09:1::$2/64"
	in_ns "$1" bash -e <<-END
		sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
		ip addr add $VIP4/32 dev lo
		ip addr add $VIP6/128 dev lo nodad
		ip route add default via 10.9.1.2
		ip route add default via fd09:1::2
	END
	mkdir -p "/run/$1"
	sed "s/@NAME@/$1/g" /nginx.conf > "/run/$1/nginx.conf"
	in_ns "$1" nginx -p "/run/$1" -e "/run/$1/error.log" -c "/run/$1/nginx.conf" &
}

make_network() {
	local n=11
	sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 \
		net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
	ip link set lo up
	add_host client 02:00:00:09:00:01 10.9.0.1/24 fd09::1/64
	in_ns client ip route add $VIP4 via 10.9.0.2
	in_ns client ip route add $VIP6 via fd09::2
	for b in $BACKENDS; do
		add_backend $b $n
		n=$((n + 1))
	done
}

# The two NICs that this round is about get names and addresses; the ones before lose them.
take_nics() { # MAC MAC
	for name in lb0 lb1; do
		! [ -e /sys/class/net/$name ] || { ip link set $name down; ip link set $name name old_$name; }
	done
	ip link set "$(nic_of "$1")" name lb0
	ip link set "$(nic_of "$2")" name lb1
	ip link set lb0 up
	ip link set lb1 up
	ip addr add 10.9.0.2/24 dev lb0
	ip addr add 10.9.1.2/24 dev lb1
	ip addr add fd09::2/64 dev lb0 nodad
	ip addr add fd09:1::2/64 dev lb1 nodad
	for host in client $BACKENDS; do
		in_ns $host ip neigh flush dev eth0
	done
}

# --- concuryd ------------------------------------------------------------------------------------

STORES="--database /run/concury.db --state-dir /dev/shm/concury"
is_ready() { grep -q ' ready$' $LOG; }
start_daemon() { # ARGUMENT...
	: > $LOG
	concuryd $STORES --listen unix:$API --flows 100000 "$@" >> $LOG 2>&1 &
	pid=$!
	wait_for 120 is_ready
}
stop_daemon() { # SIGNAL
	kill "-$1" $pid
	wait $pid 2> /dev/null
}
status() { api GET status; }
modes() { status | jq -r '[.workers[].queues[].xdp_mode] | unique | join(" ")'; }
is_zerocopy() { is_ready && [ "$(modes)" = zerocopy ]; }
is_copy() { is_ready && [ "$(modes)" = copy ] && grep -q 'no zero-copy mode, using copy mode' $LOG; }
# The kernel's own word: each AF_XDP socket's packet memory is used without copying.
sockets() { ss --xdp -e; }
are_sockets_zerocopy() { [ "$(sockets | grep -c 'zc:1')" -gt 0 ] && ! sockets | grep -q 'zc:0'; }

dips() { for v in web web6; do api GET vips/$v/dips; done; }
are_resolved() { [ "$(dips | jq -r '.items[].state' | grep -c '^up$')" = 6 ]; }
make_vips() {
	local n=11
	api PUT vips/web "{\"address\": \"$VIP4\", \"port\": 80, \"protocol\": \"tcp\"}"
	api PUT vips/web6 "{\"address\": \"$VIP6\", \"port\": 80, \"protocol\": \"tcp\"}"
	for b in $BACKENDS; do
		api PUT vips/web/dips/$b "{\"address\": \"10.9.1.$n\", \"weight\": 1}"
		api PUT vips/web6/dips/$b "{\"address\": \"fd09:1::$n\", \"weight\": 1}"
		n=$((n + 1))
	done
}

# --- the tests -----------------------------------------------------------------------------------

# start_load ARGUMENT... URL [-- N]: wrk until end_load; what it says is in $out, and $lasted is no if it
# ended before.
out=/run/wrk
start_load() {
	rm -f /run/enough
	ip netns exec client wrk -t 1 -d 300s --timeout 60s -s /count.lua "$@" > $out 2>&1 &
	wrk=$!
}
end_load() {
	lasted=no
	kill -INT $wrk && lasted=yes
	wait $wrk
}
is_enough() { [ -e /run/enough ]; }
show_load() { cat $out; }
field() { sed -n "s/^counts:.* $1 \([0-9]*\).*/\1/p" $out; }
n_faults() { echo $(($(field strange) + $(field connect) + $(field read) + $(field write) + $(field timeout))); }
# At least so many answers, each whole and from a backend, and no connection in trouble.
is_clean() { grep -q '^counts:' $out && [ "$(field requests)" -ge "$1" ] && [ "$(n_faults)" = 0 ]; }
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

# Killed and started again under load: queues and rings are taken over while frames come.
test_restart() {
	start_load -c 50 "http://$VIP4/name" -- 200
	wait_for 120 is_enough
	sleep 2
	stop_daemon KILL
	start_daemon --interface lb0 --interface lb1 --xdp-mode zerocopy
	expect "after kill -9 in zero-copy mode again" is_zerocopy status
	sleep 2
	end_load
	expect "no connection lost by that" is_again_clean show_load
}

round() { # KIND MAC MAC
	kind=$1
	take_nics "$2" "$3"
	test_mode
	test_new_connections IPv4 $VIP4
	test_new_connections IPv6 "[$VIP6]"
	test_change
	test_counters
	test_restart
	stop_daemon TERM
	concuryd --detach --interface lb0 --interface lb1 > /dev/null 2>&1
	rm -rf /run/concury.db* /dev/shm/concury
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
}

kind=set-up
N_NEW=1000
. /settings
make_network
round virtio-net 02:00:00:09:00:02 02:00:00:09:01:02
[ $IGB = 0 ] || round igb 02:00:00:09:00:03 02:00:00:09:01:03
test_without
