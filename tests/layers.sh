#!/bin/bash
# Includes point down only: base < lookup, packet < io < worker < control < schema < api < main, and
# some libraries belong to one place. Prints each violation; exit 1 if there is one.
set -u
cd "$(dirname "$0")/.." || exit 1
bad=0

level() {
	case $1 in
	forwarder/base/*) echo 0 ;;
	forwarder/lookup/*) echo 1 ;;
	forwarder/packet/*) echo 1 ;;
	forwarder/io/*) echo 2 ;;
	forwarder/worker/*) echo 3 ;;
	forwarder/control/*) echo 4 ;;
	schema/*) echo 5 ;;
	api/*) echo 6 ;;
	forwarder/main.c | forwarder/actions.[ch] | forwarder/access.[ch]) echo 7 ;;
	*) echo "" ;;
	esac
}

resolve() { # an include as written -> path in the tree, or nothing
	[ -e "forwarder/$1" ] && { echo "forwarder/$1"; return; }
	[ -e "$1" ] && echo "$1"
}

complain() { echo "$1"; bad=1; }

for f in $(git ls-files -co --exclude-standard 'forwarder/*.[ch]' 'schema/*.[ch]' 'api/*.[ch]'); do
	own=$(level "$f")
	while read -r inc; do
		target=$(resolve "$inc")
		[ -n "$target" ] || continue
		to=$(level "$target")
		[ "$to" -gt "$own" ] && complain "$f includes $inc: points up"
		[ "$to" = 1 ] && [ "$own" = 1 ] && [ "$(dirname "$f")" != "$(dirname "$target")" ] &&
			complain "$f includes $inc: lookup and packet do not know each other"
	done < <(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$f")
	while read -r sys; do
		case $sys in
		sqlite3.h) [[ $f == schema/* ]] || complain "$f includes $sys" ;;
		microhttpd.h) [[ $f == api/server/* ]] || complain "$f includes $sys" ;;
		xdp/*|bpf/*|linux/bpf.h|linux/if_xdp.h) [[ $f == forwarder/io/* || $f == forwarder/control/confine* ]] || complain "$f includes $sys" ;;
		curl/*) [[ $f == forwarder/control/health_http.c || $f == api/client/* ]] || complain "$f includes $sys" ;;
		libmnl/*) [[ $f == forwarder/control/*_rtnl.* || $f == api/client/* ]] || complain "$f includes $sys" ;;
		esac
	done < <(sed -n 's/^#include <\([^>]*\)>.*/\1/p' "$f")
	case $f in
	forwarder/lookup/*|forwarder/packet/*)
		grep -nE '\b(log_(line|info|error|warning|debug)|pthread_[a-z]+|printf|fopen|socket)\(' "$f" |
			grep -v snprintf && complain "$f: no I/O, threads or log here" ;;
	esac
done
[ $bad = 0 ] && echo "layers: includes point down only"
exit $bad
