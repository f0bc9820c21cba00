#!/bin/bash
# Concury at work, on one machine, without touching its network:
#
#     client ----+               +---- b1  nginx, the VIP on lo
#                |   a bridge    +---- b2
#     lb --------+               +---- ... b5
#     (concuryd; the VIP on eth0)
#
# Each box is a network namespace. Answers go from the backends straight to the client.
#
#   demo.sh         run it              KEEP=1 demo.sh   and leave everything running
#   demo.sh clean   remove what KEEP=1, or a killed run, has left
#
# Exit 0: every connection finished where it began, and the shares are what the weights say.
set -u -o pipefail
cd "$(dirname "$0")/../.." || exit 1

CONCURYD=${BUILD:-build}/bin/concuryd
RUN=/run/concury-demo            # configurations, logs, the database, files to download
SOCKET=/run/concury-demo.sock    # the API
STATE=/dev/shm/concury-demo      # known flows, which outlive the process
NS=concury-demo                  # prefix of the namespaces
VIP=10.9.0.100
CLIENT2=10.9.0.3                 # a second address of the client
BACKENDS="b1 b2 b3 b4 b5"        # b5 joins later
CONNECTIONS=4000
DOWNLOADS=24                     # slow ones, open while the pool changes
KEEP_ALIVES=24
RATE=$((256 * 1024))             # bytes a second of a slow download
SIZE=$((7 * 1024 * 1024))        # so each takes 28 seconds
REQUESTS=60                      # of each keep-alive connection, two a second

[ -t 1 ] && { bold=$'\e[1m'; dim=$'\e[2m'; red=$'\e[31m'; green=$'\e[32m'; off=$'\e[0m'; }
title() { printf '\n%s%s%s\n' "${bold-}" "$*" "${off-}"; }
say() { printf '  %s\n' "$*"; }
good() { printf '  %s%s%s\n' "${green-}" "$*" "${off-}"; }
bad() { printf '  %s%s%s\n' "${red-}" "$*" "${off-}"; failed=1; }
die() { bad "$*"; exit 1; }
failed=0

in_ns() { local ns=$1; shift; ip netns exec "$NS-$ns" "$@"; }
address() {
	case $1 in
	client) echo 10.9.0.1 ;;
	lb) echo 10.9.0.2 ;;
	b*) echo "10.9.0.1${1#b}" ;;
	esac
}

# --- the API, by curl ----------------------------------------------------------------------------

# api METHOD PATH [JSON]: what is shown is what is done.
api() {
	curl -sS --fail-with-body --unix-socket $SOCKET -X "$1" "http://concury$2" \
		${3:+-H 'Content-Type: application/json' -d "$3"} || die "$1 $2 was refused"
}

# change WHAT METHOD PATH [JSON]: a change while connections are open, and what it did.
change() {
	local what=$1
	shift
	api "$@" > $RUN/answer || exit 1
	jq -r --arg what "$what" '.change | [$what, .flows_known, .flows_pinned, .dcodes_moved,
		.build_us, .pause_us, .flows_moved] | @tsv' $RUN/answer | {
		IFS=$'\t' read -r what known pinned dcodes build pause moved
		printf '  %-26s %12d %8d %8d %8d us %5d us   flows moved: %d\n' \
			"$what" "$known" "$pinned" "$dcodes" "$build" "$pause" "$moved"
		[ "$moved" = 0 ]
	} || bad "a change moved flows"
}

# --- the laboratory ------------------------------------------------------------------------------

remove() {
	local ns pid
	for ns in $(ip netns list | awk -v p="$NS-" 'index($1, p) == 1 {print $1}'); do
		for pid in $(ip netns pids "$ns" 2> /dev/null); do
			kill -9 "$pid" 2> /dev/null
		done
		while [ -n "$(ip netns pids "$ns" 2> /dev/null)" ]; do sleep 0.05; done
		ip netns del "$ns"
	done
	rm -rf $RUN $STATE $SOCKET
}

wire() { # NAME: a namespace with an eth0 on the bridge
	ip netns add "$NS-$1"
	in_ns "$1" ip link set lo up
	# One queue each: a native XDP program wants no fewer RX queues than its peer has TX queues.
	ip link add eth0 netns "$NS-$1" numrxqueues 1 numtxqueues 1 type veth \
		peer name "port-$1" netns $NS-switch numrxqueues 1 numtxqueues 1
	in_ns switch ip link set "port-$1" master bridge up
	in_ns "$1" ip address add "$(address "$1")/24" dev eth0
	in_ns "$1" ip link set eth0 up
}

build_network() {
	ip netns add $NS-switch
	in_ns switch ip link add bridge type bridge
	in_ns switch ip link set bridge up
	wire client
	in_ns client ip address add $CLIENT2/24 dev eth0
	in_ns client sysctl -qw net.ipv4.ip_local_port_range='1024 65535'
	wire lb
	in_ns lb ip address add $VIP/32 dev eth0 # so that the kernel answers ARP for it
	for b in $BACKENDS; do
		wire "$b"
		# A backend takes packets to the VIP, but must not answer ARP for it.
		in_ns "$b" sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
		in_ns "$b" ip address add $VIP/32 dev lo
	done
}

start_nginx() { # BACKEND
	mkdir -p "$RUN/$1"
	cat > "$RUN/$1/nginx.conf" <<-END
		user root;
		worker_processes 1;
		pid $RUN/$1/pid;
		error_log $RUN/$1/error.log warn;
		events { worker_connections 4096; }
		http {
			access_log off;
			keepalive_timeout 600;
			keepalive_requests 1000000;
			client_body_temp_path $RUN/$1/t1; proxy_temp_path $RUN/$1/t2;
			fastcgi_temp_path $RUN/$1/t3; uwsgi_temp_path $RUN/$1/t4; scgi_temp_path $RUN/$1/t5;
			server {
				listen 80 backlog=1024;
				add_header X-Backend $1;
				location / { return 200 "$1\n"; }
				location = /file { alias $RUN/file; limit_rate \$arg_rate; }
			}
		}
	END
	in_ns "$1" nginx -e "$RUN/$1/error.log" -c "$RUN/$1/nginx.conf" 9>&- || die "nginx does not start"
}

start_concuryd() {
	in_ns lb setsid "$CONCURYD" --interface eth0 --database $RUN/concury.db --state-dir $STATE \
		--listen 127.0.0.1:8080 --listen unix:$SOCKET --flows 200000 \
		< /dev/null > $RUN/concuryd.log 2>&1 9>&- &
	for _ in $(seq 200); do
		grep -q 'ready$' $RUN/concuryd.log && return
		kill -0 $! 2> /dev/null || break
		sleep 0.05
	done
	cat $RUN/concuryd.log
	die "concuryd does not start"
}

wait_resolved() {
	for _ in $(seq 100); do
		api GET /v1/vips/web/dips | jq -e 'all(.items[]; .state != "unresolved")' > /dev/null && return
		sleep 0.1
	done
	die "some DIP's next hop is not resolved"
}

# --- measuring -----------------------------------------------------------------------------------

# Connections one after another, each with its own TCP handshake; the backends' names to $RUN/landed.
connect() { # N SOURCE-ADDRESS
	local left=$1 part
	: > $RUN/landed
	printf '  '
	while [ "$left" -gt 0 ]; do
		part=$((left < 200 ? left : 200))
		in_ns client curl -sS --fail --max-time 20 --interface "$2" -H 'Connection: close' \
			"http://$VIP/?[1-$part]" >> $RUN/landed || die "a connection failed"
		left=$((left - part))
		printf '.'
	done
	printf ' %d connections\n' "$1"
}

# The table of shares; fails if one is off by more than chance allows (5 standard deviations).
shares() {
	sort $RUN/landed | uniq -c > $RUN/counts
	api GET /v1/vips/web/dips | jq -r '.items[] |
		[.id, .address, if .state == "draining" then 0 else .weight end] | @tsv' |
		awk -v n="$(wc -l < $RUN/landed)" -v counts=$RUN/counts '
		BEGIN { while ((getline line < counts) > 0) { split(line, f, " "); got[f[2]] = f[1] } }
		{ id[NR] = $1; address[NR] = $2; weight[NR] = $3; total += $3 }
		END {
			printf "\n  %-5s %-12s %6s %10s %10s\n", "DIP", "address", "weight", "expected", "measured"
			for (i = 1; i <= NR; i++) {
				p = weight[i] / total; m = got[id[i]] / n
				bar = ""; for (k = 0; k < int(m * 50 + 0.5); k++) bar = bar "#"
				d = m - p; if (d < 0) d = -d
				off = d > 5 * sqrt(p * (1 - p) / n) + 1e-9
				printf "  %-5s %-12s %6d %9.2f%% %9.2f%%  %s%s\n", id[i], address[i], weight[i],
					100 * p, 100 * m, bar, off ? "  <-- off" : ""
				wrong += off
			}
			exit wrong > 0
		}' || bad "a share is off"
}

# --- connections that must not move --------------------------------------------------------------

open_downloads() {
	for i in $(seq $DOWNLOADS); do
		in_ns client curl -sS --max-time 120 -D "$RUN/get.$i.head" -o "$RUN/get.$i.body" \
			"http://$VIP/file?rate=$RATE" 2> "$RUN/get.$i.error" 9>&- &
		echo $! >> $RUN/pids
	done
}

# One curl each, one connection each, two requests a second; "NAME NEW-CONNECTIONS" a line.
open_keep_alives() {
	for i in $(seq $KEEP_ALIVES); do
		in_ns client curl -sS --max-time 120 --rate 2/s -w '%{num_connects}\n' "http://$VIP/?[1-$REQUESTS]" \
			2> "$RUN/keep.$i.error" 9>&- | paste -d ' ' - - > "$RUN/keep.$i" &
		echo $! >> $RUN/pids
	done
}

wait_for_all() {
	local pid left=1 shown=
	printf '  still open:'
	while [ $left -gt 0 ]; do
		left=0
		for pid in $(cat $RUN/pids); do
			kill -0 "$pid" 2> /dev/null && left=$((left + 1))
		done
		[ "$left" = "$shown" ] || printf ' %d' $left
		shown=$left
		sleep 1
	done
	printf '\n\n'
}

# A table by backend: what began there, and what ended well there.
verdict() {
	local want i backend ok
	want=$(sha256sum < $RUN/file)
	: > $RUN/ended
	for i in $(seq $DOWNLOADS); do
		backend=$(tr -d '\r' < "$RUN/get.$i.head" | sed -n 's/^X-Backend: //p')
		ok=0
		[ "$(sha256sum < "$RUN/get.$i.body")" = "$want" ] && ok=1
		echo "${backend:-none} download $ok" >> $RUN/ended
	done
	for i in $(seq $KEEP_ALIVES); do
		# Every request answered, by one backend, over one connection.
		awk -v n=$REQUESTS '{ names[$1]; connects += $2 } END { for (b in names) { k++; name = b }
			print (k ? name : "none"), "keep-alive", NR == n && k == 1 && connects == 1 }' \
			"$RUN/keep.$i" >> $RUN/ended
	done
	sort $RUN/ended | awk '
		{ n[$1, $2]++; ok[$1, $2] += $3; seen[$1]; total++; good += $3 }
		END {
			printf "  %-8s %28s %34s\n", "backend", "downloads, checksum right", "keep-alives, one backend only"
			for (i = 1; i <= 9; i++) { b = "b" i
				if (b in seen) printf "  %-8s %19d of %5d %25d of %5d\n", b, ok[b, "download"],
					n[b, "download"], ok[b, "keep-alive"], n[b, "keep-alive"] }
			exit good != total || "none" in seen
		}' || bad "connections were broken: $(sort -u $RUN/get.*.error $RUN/keep.*.error | head -3)"
}

look_around() {
	local curl="curl -s --unix-socket $SOCKET" url=http://concury/v1
	cat <<-END
		  $curl $url/vips/web/dips | jq
		  $curl $url/status | jq
		  $curl $url/counters | jq
		  $curl $url/consistency | jq
		  $curl '$url/explain?vip=web&src=10.9.0.1&sport=40000' | jq
		  $curl -X PATCH $url/vips/web/dips/b3 \\
		      -H 'Content-Type: application/json' -d '{"weight": 9}' | jq
		  ip netns exec $NS-client curl -si http://$VIP/
	END
}

# --- the show ------------------------------------------------------------------------------------

[ "$(id -u)" = 0 ] || die "network namespaces need root: sudo make demo"
for tool in ip curl jq nginx awk; do
	[ -n "$(type -P $tool)" ] || die "$tool is missing: make deps"
done
exec 9> /run/lock/concury-demo
flock -n 9 || die "another demo is under way"
remove
[ "${1-}" = clean ] && exit
[ -x "$CONCURYD" ] || die "$CONCURYD is missing: make"
trap remove EXIT
trap 'exit 1' INT TERM HUP

title "Concury: a load balancer that keeps connections where they are (the demo takes a minute)"
say "A client, a load balancer and five nginx backends, each in a network namespace."
mkdir -p $RUN
head -c $SIZE /dev/urandom > $RUN/file
build_network
for b in $BACKENDS; do start_nginx "$b"; done
start_concuryd
say "concuryd: $(sed -n 's/^concuryd: \(eth0: queue.*\)/\1/p' $RUN/concuryd.log)"

title "1. A VIP with four DIPs, weights 1:1:2:4"
vip="{\"address\": \"$VIP\", \"port\": 80, \"protocol\": \"tcp\","
vip="$vip \"closing_pin_s\": 4, \"idle_timeout_s\": {\"closing\": 4}}" # the demo is short
say "PUT /v1/vips/web $vip"
api PUT /v1/vips/web "$vip" > /dev/null || exit 1
for pair in b1:1 b2:1 b3:2 b4:4; do
	dip="{\"address\": \"$(address "${pair%:*}")\", \"weight\": ${pair#*:}}"
	say "PUT /v1/vips/web/dips/${pair%:*} $dip"
	api PUT "/v1/vips/web/dips/${pair%:*}" "$dip" > /dev/null || exit 1
done
wait_resolved
connect $CONNECTIONS "$(address client)"
shares

title "2. The pool changes under open connections"
say "$DOWNLOADS slow downloads and $KEEP_ALIVES keep-alive connections are opened, and stay open."
open_downloads
open_keep_alives
sleep 2
printf '\n  %s%-26s %12s %8s %8s %11s %8s%s\n' "${dim-}" \
	change 'flows known' pinned Dcodes build pause "${off-}"
change "b1: weight 1 -> 6" PATCH /v1/vips/web/dips/b1 '{"weight": 6}'
change "b5: added, weight 6" PUT /v1/vips/web/dips/b5 \
	"{\"address\": \"$(address b5)\", \"weight\": 6}"
change "b4: deleted, so it drains" DELETE /v1/vips/web/dips/b4
say "b4 takes no new connections, and keeps its $(jq .flows_remaining $RUN/answer) known flows until they end."
wait_resolved

# From another address: a port of the first one whose connection has just ended may still be pinned.
printf '\n'
say "New connections follow the new weights at once:"
connect 2000 $CLIENT2
shares

printf '\n'
say "b5 holds none of the old connections. Once concury has forgotten the ended ones, it is cut:"
for _ in $(seq 150); do
	[ "$(api GET /v1/vips/web/dips/b5 | jq .flows)" = 0 ] && break
	sleep 0.1
done
change "b5: cut" DELETE '/v1/vips/web/dips/b5?force=true'
change "b3: weight 2 -> 12" PATCH /v1/vips/web/dips/b3 '{"weight": 12}'

title "3. What has become of the old connections"
wait_for_all
verdict
[ $failed = 0 ] && good "Each finished at the backend where it began, and every checksum is right."
for _ in $(seq 150); do
	dips=$(api GET /v1/vips/web/dips | jq -r '[.items[].id] | join(", ")')
	[[ $dips == *b4* ]] || break
	sleep 0.1
done
if [[ $dips == *b4* ]]; then
	bad "b4 is still there, though its last connection has ended"
else
	say "b4 went by itself when its last connection had ended: left are $dips."
fi

title "4. What concuryd says about it"
api GET /v1/consistency | jq -r 'to_entries[] |
	select(.key | IN("flows_known", "flows_pinned", "flows_opened_total", "flows_unlearned_total",
	"violations_total", "publishes_total", "max_pause_us", "pin_bytes", "dcode_bytes")) |
	"  \(.key)\t\(.value)"' | expand -t 30
[ "$(api GET /v1/consistency | jq .violations_total)" = 0 ] || bad "the promise was broken"

if [ "${KEEP:-0}" = 1 ]; then
	trap - EXIT
	title "Everything stays up. Look around, from this shell:"
	look_around
	say "make demo-clean removes it."
else
	title "KEEP=1 make demo leaves all this running, to look around in:"
	look_around
fi
exit $failed
