"""A whole machine: a fresh Debian whose own systemd runs in the namespace of one of the laboratory's hosts, so that
packages and services are used there as they are anywhere."""

import os

import lib

ROOT_TAR = lib.BUILD / "debian-root.tar"


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(p) for p in f.read().split()]


def prepare():
    """Make the root that machines are copies of. It takes a minute or two where nobody has done so before, so this comes
    before the clock of a test starts."""
    lib.sh("make", "--no-print-directory", "-C", lib.ROOT, f"BUILD={os.environ.get('BUILD', 'build')}",
           "debian-root", timeout=500)


class Machine:
    """Boots (after prepare()); ends with the laboratory. name: the host whose network it has."""

    def __init__(self, lab, name):
        self.lab, self.netns = lab, lab.ns(name)
        # In memory, since dpkg waits for a disk at each package. The laboratory removes it.
        self.dir = lab.state_dir / "root"
        self.dir.mkdir(parents=True)
        lib.sh("tar", "-C", self.dir, "-xf", ROOT_TAR)
        self.process = lab.spawn(name, [lib.ROOT / "tests" / "e2e" / "machine.sh", self.dir],
                                 lab.dir / "machine.log")
        lib.wait_until("systemd", self._boots, 60)
        self.pid = self._find_init()

    def _find_init(self):
        """The first process of its own, seen from here: the child of unshare."""
        pid = self.process.pid
        while True:
            with open(f"/proc/{pid}/comm", encoding="ascii") as f:
                if f.read() == "systemd\n":
                    return pid
            below = children(pid)
            if not below:
                return None
            pid = below[0]

    def _boots(self):
        assert self.process.poll() is None, (self.lab.dir / "machine.log").read_text()
        self.pid = self._find_init()
        return self.pid and self.run("systemctl", "is-system-running", check=False).strip() in (
            "running", "degraded")

    def run(self, *argv, check=True, online=False, timeout=120):
        """A command on the machine, its output. online: in the network of the host of all this, for apt."""
        network = ["--net=/proc/self/ns/net"] if online else [f"--net=/run/netns/{self.netns}"]
        return lib.sh("nsenter", "-t", self.pid, "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--root", "--wd",
                      *network, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
                      "DEBIAN_FRONTEND=noninteractive", *argv, check=check, timeout=timeout)

    def path(self, path):
        """A file of the machine's, seen from here, with what is mounted there."""
        return lib.pathlib.Path(f"/proc/{self.pid}/root{path}")

    def prop(self, unit, *names):
        """Properties of a unit."""
        out = self.run("systemctl", "show", unit, *(f"--property={n}" for n in names))
        return dict(line.split("=", 1) for line in out.splitlines())
