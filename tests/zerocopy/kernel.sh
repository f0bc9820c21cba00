#!/bin/bash
# tests/zerocopy/kernel.sh FLAVOUR DIR: a Debian kernel of 6.14 or later, its image in DIR/vmlinuz, its
# modules in DIR/modules. FLAVOUR is cloud (virtio alone, 50 MB) or full (igb too, 160 MB).
#
# The package comes from trixie-backports by private_apt.sh. Does nothing if it is there. Exit 2: it cannot
# be had here; the last line says why.
set -euo pipefail
here=$(dirname "$0")
flavour=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
series=${KERNEL_SERIES:-6.18}
suite=trixie-backports
. "$here/private_apt.sh"

fail() {
	echo "$1"
	exit 2
}

[ ! -e "$dir/complete" ] || { echo "kernel: $(cat "$dir/complete"), kept in $2"; exit 0; }
rm -rf "$dir/modules" "$dir/tree"
apt_open "$dir/apt" $suite || fail "$apt_error"

# The newest of the series that is known to work, else the newest of all.
case $flavour in
	cloud) name='linux-image-[0-9.]+\+deb[0-9]+-cloud-amd64' ;;
	full) name='linux-image-[0-9.]+\+deb[0-9]+-amd64' ;;
esac
private_apt apt-cache pkgnames linux-image- < /dev/null > "$apt/names"
package=$(grep -xE "$name" "$apt/names" | sort -V | grep -F "linux-image-$series." | tail -1 || true)
[ -n "$package" ] || package=$(grep -xE "$name" "$apt/names" | sort -V | tail -1 || true)
version=${package#linux-image-}
[ -n "$version" ] && printf '6.14\n%s\n' "$version" | sort -VC || fail "$suite has no kernel of 6.14 or later"

# Since 7.x the image is in a package beside it, and the modules in a third.
packages=("$package")
for part in binary modules; do
	! private_apt apt-cache show "linux-$part-$version" > /dev/null 2>&1 || packages+=("linux-$part-$version")
done
start=$(date +%s)
apt_get_debs "${packages[@]}" || fail "$apt_error"
echo "kernel: $version, $(du -cm "$apt"/*.deb | tail -1 | cut -f1) MB by apt in $(($(date +%s) - start)) s"
apt_unpack "$dir/tree"
mv "$dir/tree/boot/vmlinuz-$version" "$dir/vmlinuz"
[ -e "$dir/tree/usr/lib/modules" ] && modules=$dir/tree/usr/lib/modules || modules=$dir/tree/lib/modules
mv "$modules/$version" "$dir/modules"
rm -rf "$dir/tree"
echo "$version" > "$dir/complete"
