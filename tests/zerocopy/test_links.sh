#!/bin/bash
# Interfaces that stand on others. VLANs, between the NICs in zero-copy mode: frames change from one to
# another, lose their tag, or get one. Bonds of veth devices with a bridge as the switch, in namespaces of
# their own:
#
#    c2 (10.8.0.1) ------------------------ |     |
#    s_b1, s_b2, s_b3 (10.8.0.11 ...; ----- | br0 | ==== bond0 (10.8.0.2) and bond0.20 (10.8.20.2)
#           in VLAN 20 10.8.20.11 ...)      |     |      [concuryd, in namespace lb]
. /common.sh

# ask URL: N requests or some more, a connection for each.
N=200
ask() {
	start_load -c 4 -H 'Connection: close' "$1" -- $N
	wait_for 60 is_enough
	end_load
}
show_answers() { cat $out; api GET counters | jq -c '{drops, interfaces}'; }
# All requests were answered, by every backend.
is_answered() { is_clean $N && [ "$(field b1)" -gt 0 ] && [ "$(field b2)" -gt 0 ] && [ "$(field b3)" -gt 0 ]; }
is_up() { # VIP N: so many DIPs are up
	[ "$(api GET "vips/$1/dips" | jq -r '.items[].state' | grep -c '^up$')" = "$2" ]
}

# --- VLANs ---------------------------------------------------------------------------------------

add_vlan() { # NAMESPACE PARENT ID ADDRESS4 ADDRESS6; namespace 1: the one here
	local in=()
	[ "$1" = 1 ] || in=(in_ns "$1")
	"${in[@]}" ip link add link "$2" name "$2.$3" type vlan id "$3"
	"${in[@]}" ip addr add "$4" dev "$2.$3"
	"${in[@]}" ip addr add "$5" dev "$2.$3" nodad
	"${in[@]}" ip link set "$2.$3" up
}

make_vlans() {
	local n=11
	add_vlan client eth0 10 10.9.10.1/24 fd09:10::1/64
	add_vlan 1 lb0 10 10.9.10.2/24 fd09:10::2/64
	add_vlan 1 lb1 20 10.9.20.2/24 fd09:20::2/64
	for b in $BACKENDS; do
		add_vlan $b eth0 20 10.9.20.$n/24 fd09:20::$n/64
		in_ns $b ip route add 10.9.10.0/24 via 10.9.20.2
		in_ns $b ip route add fd09:10::/64 via fd09:20::2
		n=$((n + 1))
	done
}
# Where the client's requests go out.
take_side() { # VIA4 VIA6
	in_ns client ip route replace $VIP4 via "$1"
	in_ns client ip route replace $VIP6 via "$2"
}
# The DIPs' addresses: 10.9.NET.11 and fd09:NET::11 ...
make_dips() { # NET MODE PORT
	local n=11 b
	for vip in web web6; do
		api DELETE "vips/$vip?force=true" > /dev/null
		wait_for 20 is_none "$vip"
	done
	api PUT vips/web "{\"address\": \"$VIP4\", \"port\": $3, \"protocol\": \"tcp\", \"mode\": \"$2\"}"
	api PUT vips/web6 "{\"address\": \"$VIP6\", \"port\": $3, \"protocol\": \"tcp\", \"mode\": \"$2\"}"
	for b in $BACKENDS; do
		local port=
		[ "$2" != nat ] || port=', "port": 80'
		api PUT vips/web/dips/$b "{\"address\": \"10.9.$1.$n\"$port}"
		api PUT vips/web6/dips/$b "{\"address\": \"fd09:$1::$n\"$port}"
		n=$((n + 1))
	done
	wait_for 60 are_resolved
}
is_none() { [ "$(curl -s -o /dev/null -w '%{http_code}' --unix-socket $API "http://localhost/v1/vips/$1")" = 404 ]; }

try_both() { # NAME PORT
	ask "http://$VIP4:$2/name"
	expect "$1, IPv4" is_answered show_answers
	ask "http://[$VIP6]:$2/name"
	expect "$1, IPv6" is_answered show_answers
}
is_translated() { [ "$(dips | jq -s '[.[].items[].return_packets] | add')" -ge $((6 * N)) ]; }
has_no_drop() { api GET counters | jq -e '([.drops[]] | add) == 0' > /dev/null; }

test_vlans() {
	kind="VLANs"
	make_vlans
	start_daemon --interface lb0.10 --interface lb1 --xdp-mode zerocopy
	expect "a VLAN's parent is served for it, in zero-copy mode" is_zerocopy status
	make_dips 20 l2 80 > /run/made 2>&1
	take_side 10.9.10.2 fd09:10::2
	try_both "from one VLAN into another" 80
	take_side 10.9.0.2 fd09::2
	try_both "into a VLAN" 80
	make_dips 1 l2 80 > /run/made 2>&1
	take_side 10.9.10.2 fd09:10::2
	try_both "out of a VLAN" 80
	make_dips 20 nat 8080 > /run/made 2>&1
	try_both "mode nat, from one VLAN into another and back" 8080
	expect "mode nat: answers come by concuryd" is_translated dips
	expect "nothing dropped" has_no_drop show_answers
	stop_daemon TERM
	take_side 10.9.0.2 fd09::2
	concuryd --detach --interface lb0.10 --interface lb1 > /dev/null 2>&1
	ip link del lb0.10
	ip link del lb1.20
	rm -rf /run/concury.db* /dev/shm/concury
}

# --- bonds ---------------------------------------------------------------------------------------

# A port of the switch and what is at its other end. Tags stay in the frames, as on a wire.
plug() { # PORT NAMESPACE NAME
	ip link add "$1" netns sw type veth peer name "$3" netns "$2"
	in_ns "$2" ethtool -K "$3" tx off txvlan off rxvlan off > /dev/null 2>&1
	in_ns sw ethtool -K "$1" tx off txvlan off rxvlan off > /dev/null 2>&1
	in_ns sw ip link set "$1" up
}
add_bonded_host() { # NAME ADDRESS4 [ADDRESS4 in VLAN 20]
	ip netns add "$1"
	in_ns "$1" ip link set lo up
	plug "p_$1" "$1" eth0
	in_ns sw ip link set "p_$1" master br0
	in_ns "$1" ip addr add "$2" dev eth0
	in_ns "$1" ip link set eth0 up
	[ -n "${3:-}" ] || return 0
	add_vlan "$1" eth0 20 "$3" "fd08:20::${3##*.}"
	in_ns "$1" sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 \
		net.ipv4.conf.all.rp_filter=0
	in_ns "$1" ip addr add $VIP4/32 dev lo
	mkdir -p "/run/$1"
	sed "s/@NAME@/${1#s_}/g" /nginx.conf > "/run/$1/nginx.conf"
	in_ns "$1" nginx -p "/run/$1" -e "/run/$1/error.log" -c "/run/$1/nginx.conf" &
}
make_switch() {
	local n=11
	for ns in sw lb; do
		ip netns add $ns
		in_ns $ns ip link set lo up
	done
	in_ns sw ip link add br0 type bridge
	in_ns sw ip link set br0 up
	add_bonded_host c2 10.8.0.1/24
	in_ns c2 ip route add $VIP4 via 10.8.0.2
	for b in $BACKENDS; do
		add_bonded_host "s_$b" 10.8.0.$n/24 10.8.20.$n/24
		n=$((n + 1))
	done
	plug p0 lb s0
	plug p1 lb s1
}
make_bond() { # OPTIONS: in namespace lb
	in_ns lb ip link add bond0 type bond "$@" miimon 50
	for slave in s0 s1; do
		in_ns lb ip link set $slave down
		in_ns lb ip link set $slave master bond0
	done
	in_ns lb ip link set bond0 up
	in_ns lb ip addr add 10.8.0.2/24 dev bond0
	add_vlan lb bond0 20 10.8.20.2/24 fd08:20::2/64
}
start_bonded_daemon() {
	: > $LOG
	ip netns exec lb concuryd $STORES --listen unix:$API --flows 100000 "$@" >> $LOG 2>&1 &
	pid=$!
	wait_for 60 is_ready
}
make_bonded_vip() { # NET
	local n=11 b
	api DELETE "vips/web?force=true" > /dev/null
	wait_for 20 is_none web
	api PUT vips/web "{\"address\": \"$VIP4\", \"port\": 80, \"protocol\": \"tcp\"}"
	for b in $BACKENDS; do
		api PUT vips/web/dips/$b "{\"address\": \"10.8.$1.$n\"}"
		n=$((n + 1))
	done
	wait_for 30 is_up web 3
}
serves_slaves() { [ "$(status | jq -r '[.interfaces[].name] | sort | join(" ")')" = "s0 s1" ]; }
tx_of() { api GET counters | jq --arg name "$1" '[.interfaces[] | select(.name == $name).tx_packets] | add'; }
uses_other() { [ "$(in_ns lb cat /sys/class/net/bond0/bonding/active_slave)" = s1 ]; }
left_by_other() { [ "$(tx_of s1)" -gt "$before" ]; }
left_by_both() { [ "$(tx_of s0)" -gt $s0 ] && [ "$(tx_of s1)" -gt $s1 ]; }
show_bond() { in_ns lb cat /proc/net/bonding/bond0; show_answers; }
end_bond() {
	stop_daemon TERM
	in_ns lb concuryd --detach --interface bond0 > /dev/null 2>&1
	in_ns lb ip link del bond0
	rm -rf /run/concury.db* /dev/shm/concury
}

test_backup() {
	kind="bond with a backup"
	make_bond mode active-backup
	for p in p0 p1; do in_ns sw ip link set $p master br0; done
	start_bonded_daemon --interface bond0
	expect "its slaves are served for it" serves_slaves status
	make_bonded_vip 0 > /run/made 2>&1
	ask "http://$VIP4/name"
	expect "requests are answered" is_answered show_bond
	make_bonded_vip 20 > /run/made 2>&1
	ask "http://$VIP4/name"
	expect "into a VLAN on top of it" is_answered show_bond

	in_ns c2 curl -sS --max-time 60 --limit-rate 500k -o /run/download "http://$VIP4/file" &
	local download=$!
	sleep 1
	before=$(tx_of s1)
	in_ns sw ip link set p0 down
	wait_for 10 uses_other
	ask "http://$VIP4/name"
	expect "by the other slave, when the one in use has lost its carrier" left_by_other show_bond
	expect "requests are answered by it" is_answered show_bond
	wait $download
	expect "a download over the change is whole" is_download_whole show_bond
	in_ns sw ip link set p0 up
	end_bond
}
is_download_whole() { cmp -s /run/download /srv/file; }

test_lacp() {
	kind="bond by LACP"
	in_ns sw ip link add bond1 type bond mode 802.3ad miimon 50 lacp_rate fast xmit_hash_policy layer3+4
	for p in p0 p1; do
		in_ns sw ip link set $p nomaster
		in_ns sw ip link set $p down
		in_ns sw ip link set $p master bond1
	done
	in_ns sw ip link set bond1 master br0
	in_ns sw ip link set bond1 up
	make_bond mode 802.3ad lacp_rate fast
	sleep 4 # the two sides come to terms
	start_bonded_daemon --interface bond0.20 --interface bond0
	expect "its slaves are served for it, once" serves_slaves status
	make_bonded_vip 20 > /run/made 2>&1
	s0=$(tx_of s0) s1=$(tx_of s1)
	ask "http://$VIP4/name"
	expect "requests are answered" is_answered show_bond
	expect "DIPs are spread over the slaves" left_by_both show_bond
	in_ns sw ip link set p0 down
	sleep 3
	ask "http://$VIP4/name"
	expect "requests are answered when a slave has failed" is_answered show_bond
	end_bond
}

test_bonds() {
	client=c2
	make_switch
	test_backup
	test_lacp
}

take_nics 02:00:00:09:00:02 02:00:00:09:01:02
test_vlans
test_bonds
