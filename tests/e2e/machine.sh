#!/bin/sh
# machine.sh ROOT: boot the Debian in ROOT, by its own systemd, in the network namespace of the caller and namespaces
# of its own otherwise. Ends with the caller, and everything in it with that. ROOT/run and the like are seen
# through /proc/PID/root alone.
set -eu
if [ -z "${IN_OWN_NAMESPACES-}" ]; then
	IN_OWN_NAMESPACES=1 exec setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --cgroup \
		--uts --ipc "$0" "$1"
fi
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs sysfs sys
# A hierarchy of its own, whatever controllers the host has in use.
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
	touch dev/$device
	mount --bind /dev/$device dev/$device
done
mkdir dev/shm dev/pts
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs -o mode=1777 tmpfs dev/shm
# The root of the namespace, and not of a process in it, so that units can have namespaces in turn.
pivot_root . mnt
exec chroot . /bin/sh -c 'umount -l /mnt && exec env -i PATH=/usr/sbin:/usr/bin container=concury-test \
	/lib/systemd/systemd --system --unit=multi-user.target --log-target=journal-or-kmsg'
