#!/bin/bash
# Zero-copy mode, proven: boots a Debian kernel in qemu, whose virtual NICs have it, and runs the built
# concuryd between them, with nginx and wrk (guest.sh, test_*.sh). All traffic is inside the guest: its NICs are on
# hubs of that qemu. Prints "ok - name" or "not ok - name" and figures; the last line is 'N passed, N failed'.
# Exit 2: the kernel cannot be had here, and the last line says why. "run.sh fetch" only fetches kernel and qemu.
#
# TESTS="NAME...": these test_NAME.sh (forward mtu). links.sh runs the others.
# QEMU="PROGRAM FLAG...": this qemu, whatever it has. igb wants one of version 8 or later.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
work=$build/zerocopy
console=$work/console.log
limit_s=${ZEROCOPY_LIMIT_S:-270}
qemu=(qemu-system-x86_64)
programs=(bash ip ethtool ss sysctl nginx wrk curl jq "$build/bin/concuryd" "$build/bin/concuryctl")
modules=(virtio_net xsk_diag 8021q bonding veth bridge)
read -ra tests <<< "${TESTS:-forward mtu}"
tests=("${tests[@]/%/.sh}")
flavour=cloud
machine=(-M q35)
igb=0
pid=

# The user's qemu, or the system's if it has igb, else a newer one if that can be had.
has_igb() { "${qemu[@]}" -device igb,help 2> /dev/null | grep '^igb options' > /dev/null; }
choose_qemu() {
	local said="this qemu has none (version 8 and later have)"
	if [ -n "${QEMU:-}" ]; then
		read -ra qemu <<< "$QEMU"
	elif ! has_igb; then
		said=$(tests/zerocopy/qemu.sh "$work/qemu") && qemu=("$work/qemu/qemu") && echo "$said"
	fi
	if has_igb; then
		igb=1
		flavour=full
		modules+=(igb)
	else
		echo "igb: not tested, $(tail -n 1 <<< "$said")"
	fi
}
choose_qemu

kernel=$work/$flavour
root=$work/root

# --- the guest's disk: an initramfs of what is on this machine ------------------------------------

copy_program() { # NAME or path, with the libraries that it loads
	local path lib
	path=$(command -v "$1") || { echo "not ok - $1 is missing"; exit 1; }
	install -D "$path" "$root/usr/bin/$(basename "$path")"
	ldd "$path" 2> /dev/null | grep -oE '/[^ ]+' | while read -r lib; do
		[ -e "$root$lib" ] || install -D "$lib" "$root$lib"
	done
}

# A module after those that it needs; their order is in lib/modules/order.
copy_module() { # NAME
	local out=$root/lib/modules/$1.ko file need
	[ ! -e "$out" ] || return 0
	file=$(find "$kernel/modules" -name "${1//_/[-_]}.ko*" | head -1)
	case $file in
		*.xz) xz -dc "$file" > "$out" ;;
		*.zst) zstd -qdc "$file" > "$out" ;;
		*.ko) cp "$file" "$out" ;;
		*) echo "not ok - the kernel has no module $1"; exit 1 ;;
	esac
	for need in $(readelf -p .modinfo "$out" | sed -n 's/.* depends=//p' | tr , ' '); do
		copy_module "${need//-/_}"
	done
	echo "$1" >> "$root/lib/modules/order"
}

make_initrd() {
	local p m
	rm -rf "$root"
	mkdir -p "$root"/{bin,etc,lib/modules,proc,sys,dev,srv,run,tmp}
	cp "$(command -v busybox)" "$root/bin/busybox"
	for p in "${programs[@]}"; do copy_program "$p"; done
	for m in "${modules[@]}"; do copy_module "$m"; done
	cp tests/zerocopy/{init,guest.sh,common.sh,nginx.conf,count.lua} "${tests[@]/#/tests/zerocopy/test_}" "$root/"
	chmod +x "$root/init"
	echo 'root:x:0:0:root:/:/bin/sh' > "$root/etc/passwd"
	echo 'root:x:0:' > "$root/etc/group"
	printf 'http 80/tcp\n' > "$root/etc/services"
	head -c 3M /dev/urandom > "$root/srv/file"
	echo "IGB=$igb" > "$root/settings"
	(cd "$root" && find . | cpio --quiet -o -H newc) | gzip -1 > "$work/initrd.gz"
	rm -rf "$root"
}

# --- the machine ---------------------------------------------------------------------------------

nics=()
add_nic() { # HUB MAC DEVICE[,OPTION...]
	local n=$((${#nics[@]} / 4))
	nics+=(-netdev "hubport,id=n$n,hubid=$1" -device "$3,netdev=n$n,mac=02:00:00:09:$2")
}
virtio=virtio-net-pci,disable-legacy=on,romfile=
add_nic 0 00:01 $virtio # client
add_nic 0 00:02 $virtio,iommu_platform=on
add_nic 1 01:02 $virtio,iommu_platform=on
add_nic 2 00:04 $virtio # on a hub of its own
for host in 11 12 13; do add_nic 1 "01:$host" $virtio; done
if [ $igb = 1 ]; then
	# Their virtual functions' slots want a port each.
	machine+=(-device pcie-root-port,id=p0,chassis=1,slot=1 -device pcie-root-port,id=p1,chassis=2,slot=2)
	add_nic 0 00:03 igb,romfile=,bus=p0
	add_nic 1 01:03 igb,romfile=,bus=p1
fi

# Dies with this script, whatever kills that.
start_guest() { # ACCELERATOR CPU
	setpriv --pdeathsig KILL "${qemu[@]}" "${machine[@]}" -accel "$1" -cpu "$2" \
		-smp 2 -m 1024 -nodefaults -no-user-config -display none -no-reboot -monitor none \
		-serial "file:$console" -kernel "$kernel/vmlinuz" -initrd "$work/initrd.gz" \
		-append "console=ttyS0 quiet panic=-1 net.ifnames=0 mitigations=off" "${nics[@]}" < /dev/null 2> "$work/qemu.log" &
	pid=$!
}
stop_guest() {
	[ -z "$pid" ] || kill -KILL "$pid" 2> /dev/null
	[ -z "$pid" ] || wait "$pid" 2> /dev/null
	pid=
}
trap stop_guest EXIT
trap 'exit 143' TERM INT HUP

# wait_guest SECONDS TEXT: until the console has a line that begins so. False: it ended or took longer.
wait_guest() {
	local end=$((SECONDS + $1))
	until grep -q "^$2" "$console"; do
		kill -0 "$pid" 2> /dev/null && [ $SECONDS -lt $end ] || { grep -q "^$2" "$console"; return; }
		sleep 0.2 &
		wait $!
	done
}

# KVM says that it is there on some machines where no kernel boots in it.
boot() {
	: > "$console"
	if [ -w /dev/kvm ]; then
		start_guest kvm host
		wait_guest 20 'guest: up' && { echo "accelerator: kvm"; return; }
		stop_guest
		: > "$console"
	fi
	echo "accelerator: tcg"
	start_guest tcg,thread=multi max
}

mkdir -p "$work"
tests/zerocopy/kernel.sh "$flavour" "$kernel" || exit
[ "${1:-}" != fetch ] || exit 0
make_initrd
boot
wait_guest "$limit_s" 'guest: done'
finished=$?
stop_guest
tr -d '\r' < "$console" | grep -aE '^(ok|not ok|guest|figures|    )'
passed=$(grep -ac '^ok - ' "$console")
failed=$(grep -ac '^not ok - ' "$console")
if [ $finished != 0 ]; then
	failed=$((failed + 1))
	echo "not ok - the guest did not get to its end within $limit_s s; its console ends so:"
	tail -n 20 "$work/qemu.log" "$console" | sed 's/^/    | /'
fi
echo "zero-copy: $SECONDS s in all"
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" = 0 ]
