#!/bin/bash
# debian-root.sh FILE: a fresh Debian of this machine's release as a tar file, with systemd and the lists of packages;
# for tests that install into one. What debootstrap downloads is kept on this machine.
#
# Made in memory: dpkg waits for a disk at each package, and there are a hundred.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "debian-root.sh: needs root" >&2; exit 1; }
if [ -z "${IN_OWN_MOUNTS-}" ]; then
	mkdir -p "$(dirname "$1")"
	IN_OWN_MOUNTS=1 exec unshare --mount "$0" "$(realpath "$1")"
fi
cache=/var/cache/concury-tests
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
mkdir -p $cache
exec 9> $cache/lock
flock 9
[ ! -e "$1" ] || exit 0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
root=$cache/root
mkdir -p $root
mount -t tmpfs -o mode=755,size=2g tmpfs $root
if ! { debootstrap --variant=minbase --include=systemd --cache-dir=$cache "$release" $root &&
	chroot $root apt-get update -q; } > "$log" 2>&1; then
	tail -20 "$log" >&2
	exit 1
fi
tar -C $root --exclude='./var/cache/apt/archives/*.deb' -cf "$1.new" .
mv "$1.new" "$1"
