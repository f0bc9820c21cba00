#!/bin/bash
# tests/zerocopy/qemu.sh DIR: a qemu of version 8 or later, which has igb, to be run as DIR/qemu.
#
# The packages come from the backports of this machine's Debian by private_apt.sh, and are unpacked, not
# installed: 13 MB, and whatever libraries this machine lacks for it. The BIOS is the one of the system's qemu.
# Does nothing if it is there. Exit 2: it cannot be had here; the last line says why.
set -euo pipefail
here=$(dirname "$0")
mkdir -p "$1"
dir=$(cd "$1" && pwd)
tree=$dir/tree
. "$here/private_apt.sh"

fail() {
	echo "$1"
	exit 2
}

[ ! -e "$dir/complete" ] || { echo "qemu: $(cat "$dir/complete"), kept in $1"; exit 0; }
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ -n "$codename" ] || fail "this system's release has no name"
rm -rf "$tree"
apt_open "$dir/apt" "$codename-backports" || fail "$apt_error"

# The data files go with -L; modules of another build than the program's end it.
cat > "$dir/qemu" <<-'END'
	#!/bin/sh
	tree=$(dirname "$(readlink -f "$0")")/tree
	lib=$tree/usr/lib/x86_64-linux-gnu
	export QEMU_MODULE_DIR=$lib/qemu LD_LIBRARY_PATH=$lib
	exec "$tree/usr/bin/qemu-system-x86_64" -L "$tree/usr/share/qemu" -L /usr/share/seabios "$@"
END
chmod +x "$dir/qemu"

missing() {
	LD_LIBRARY_PATH=$tree/usr/lib/x86_64-linux-gnu ldd "$tree/usr/bin/qemu-system-x86_64" |
		awk '/=> not found/ { print $1 }'
}

# Of all that it needs, directly or not, what is not installed here.
needed() {
	private_apt apt-cache depends --recurse --important "qemu-system-x86=$version" < /dev/null |
		grep -oE '^lib[^ :]+' | sort -u | while read -r package; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null || true)" = installed ] || echo "$package"
	done
}

version=$(private_apt apt-cache madison qemu-system-x86 < /dev/null | awk '{ print $3; exit }')
[ -n "$version" ] || fail "$codename-backports has no qemu-system-x86"
start=$(date +%s)
apt_get_debs qemu-system-{x86,common,data}="$version" || fail "$apt_error"
mb=$(du -cm "$apt"/*.deb | tail -1 | cut -f1)
apt_unpack "$tree"
if [ -n "$(missing)" ]; then
	apt_open "$dir/apt" "$codename" "$codename-backports" || fail "$apt_error"
	mapfile -t packages < <(needed)
	[ ${#packages[@]} = 0 ] || apt_get_debs "${packages[@]}" || fail "$apt_error"
	[ ${#packages[@]} = 0 ] || apt_unpack "$tree"
fi
[ -z "$(missing)" ] || fail "qemu $version: no package has $(missing | xargs)"
"$dir/qemu" -device igb,help > "$apt/log" 2>&1 && grep -q '^igb options' "$apt/log" ||
	fail "qemu $version: $(tail -1 "$apt/log")"
echo "qemu: $version, $mb MB by apt in $(($(date +%s) - start)) s"
echo "$version" > "$dir/complete"
