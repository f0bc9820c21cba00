#!/bin/bash
# tests/zerocopy/kernel.sh FLAVOUR DIR: a Debian kernel of 6.14 or later, its image in DIR/vmlinuz, its
# modules in DIR/modules. FLAVOUR is cloud (virtio alone, 50 MB) or full (igb too, 170 MB).
#
# The package comes from trixie-backports on the mirror that this machine uses anyway, by an apt that has
# its lists and its cache below DIR: the system's own sources and packages stay as they are. Does
# nothing if it is there. Exit 2: it cannot be had here; the last line says why.
set -euo pipefail
flavour=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
series=${KERNEL_SERIES:-6.18}
limit_s=${KERNEL_LIMIT_S:-120}
suite=trixie-backports
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
apt=$dir/apt

fail() {
	echo "$1"
	exit 2
}

[ ! -e "$dir/complete" ] || { echo "kernel: $(cat "$dir/complete"), kept in $2"; exit 0; }
rm -rf "$dir/modules" "$dir/tree"

# The mirror of the system's own Debian sources; without its lists apt does not tell.
mirror() {
	apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
		awk '$1 == "Debian" && $2 == "Debian" { print $3; exit }'
}

private_apt() {
	timeout -k 5 "$limit_s" "$@" -q -o Dir::State="$apt/state" -o Dir::State::status="$apt/state/status" \
		-o Dir::Cache="$apt/cache" -o Dir::Etc::sourcelist="$apt/sources.list" \
		-o Dir::Etc::sourceparts="$apt/empty" -o APT::Sandbox::User=root \
		-o APT::Architecture=amd64 -o Acquire::Retries=2
}

uri=$(mirror)
if [ -z "$uri" ] && [ "$(id -u)" = 0 ]; then
	timeout -k 5 "$limit_s" apt-get update -q > /dev/null 2>&1 || true
	uri=$(mirror)
fi
[ -n "$uri" ] || fail "this machine's apt knows no mirror of Debian"
[ -e $keyring ] || fail "$keyring is missing (debian-archive-keyring)"
mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/empty"
touch "$apt/state/status"
echo "deb [arch=amd64 signed-by=$keyring] $uri $suite main" > "$apt/sources.list"
private_apt apt-get update > "$apt/log" 2>&1 || fail "$suite: $(tail -1 "$apt/log")"

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
(cd "$apt" && rm -f ./*.deb && private_apt apt-get download "${packages[@]}") > "$apt/log" 2>&1 ||
	fail "$package: $(tail -1 "$apt/log")"
echo "kernel: $version, $(du -cm "$apt"/*.deb | tail -1 | cut -f1) MB by apt in $(($(date +%s) - start)) s"
mkdir "$dir/tree"
for deb in "$apt"/*.deb; do
	dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir/tree"
	rm "$deb"
done
mv "$dir/tree/boot/vmlinuz-$version" "$dir/vmlinuz"
[ -e "$dir/tree/usr/lib/modules" ] && modules=$dir/tree/usr/lib/modules || modules=$dir/tree/lib/modules
mv "$modules/$version" "$dir/modules"
rm -rf "$dir/tree"
echo "$version" > "$dir/complete"
