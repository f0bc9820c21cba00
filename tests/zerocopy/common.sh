# What the tests in the guest share; sourced by guest.sh and by each test_*.sh, in bash.
#
#    client (10.9.0.1) ---- lb0 [concuryd] lb1 ---- b1, b2, b3 (10.9.1.11 ...; nginx, the VIPs on lo)
#
# Every line is a NIC of qemu on a hub; all but the load balancer's are in namespaces. Requests come in by
# lb0 and leave by lb1, without copying; answers go back through the same two NICs by the kernel's own
# routing, that is past steer. The VIPs are on no interface here but routed to it.
#
# A test says what it is about in $kind.
set -u
API=/run/concury.sock
VIP4=10.9.9.100
VIP6=fd09:9::100
LOG=/run/concuryd.log
BACKENDS="b1 b2 b3"
kind=set-up
. /settings

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

# The two NICs that a test is about get names and addresses; the ones before lose them.
take_nics() { # MAC MAC
	local name mac
	for name in lb0 lb1; do
		[ -e /sys/class/net/$name ] || continue
		mac=$(cat /sys/class/net/$name/address)
		ip addr flush dev $name
		ip link set $name down
		ip link set $name name "x${mac//:/}"
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

set_mtus() { # MTU
	ip link set lb0 mtu "$1"
	ip link set lb1 mtu "$1"
	for host in client $BACKENDS; do in_ns $host ip link set eth0 mtu "$1"; done
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

# --- load ----------------------------------------------------------------------------------------

# start_load ARGUMENT... URL [-- N]: wrk until end_load; what it says is in $out, and $lasted is no if it
# ended before.
out=/run/wrk
client=client # its namespace
start_load() {
	rm -f /run/enough
	ip netns exec $client wrk -t 1 -d 300s --timeout 60s -s /count.lua "$@" > $out 2>&1 &
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

# --- frames of full length -----------------------------------------------------------------------

# Echo requests to a VIP are answered by a worker; an upload is frames from client to backend.
pinged=/run/pinged
uploaded=/run/uploaded
show_ping() { cat $pinged; }
show_upload() { cat $uploaded; }
is_answered() {
	in_ns client busybox ping -c 5 -W 5 -s $((mtu - 28)) $VIP4 > $pinged 2>&1
	grep -q ' 0% packet loss' $pinged
}
is_uploaded() {
	in_ns client curl -sS --max-time 60 --data-binary @/srv/file "http://$VIP4/upload" > $uploaded 2>&1
	[ "$(cat $uploaded)" = "$(stat -c %s /srv/file)" ]
}
expect_full_frames() { # MTU
	mtu=$1
	expect "echo requests of $mtu bytes to the VIP are answered" is_answered show_ping
	expect "an upload in packets of $mtu bytes is whole" is_uploaded show_upload
}
