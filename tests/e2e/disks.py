"""A small file system for a database, that can be filled and turned read-only."""

import atexit
import ctypes
import os
import pathlib

import lib


class Disk:
    def __init__(self, lab, size="4m"):
        """Mounts it; the lab's daemon has its database there from now on."""
        self.path = pathlib.Path(f"/run/concury-e2e-{lab.suite}")
        self.filler = self.path / "filler"
        self.unmount()
        atexit.register(self.unmount)
        self.path.mkdir(exist_ok=True)
        lib.sh("mount", "-t", "tmpfs", "-o", f"size={size}", "concury-e2e", self.path)
        lab.database = self.path / "concury.db"

    def unmount(self):
        lib.sh("umount", "-l", self.path, check=False)

    def remount(self, flag):
        """Turn the file system itself "ro" or "rw", for whoever has it mounted: mount(8) would change
        the mount of our namespace, and the daemon has one of its own."""
        fspick, fsconfig, set_flag, reconfigure = 433, 431, 0, 7
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.syscall(fspick, -100, bytes(self.path), 0)
        for command, key in ((set_flag, flag.encode()), (reconfigure, None)):
            if fd < 0 or libc.syscall(fsconfig, fd, command, key, None, 0) != 0:
                raise OSError(ctypes.get_errno(), f"remount {flag}")
        os.close(fd)

    def fill(self):
        """Not one more page fits."""
        with open(self.filler, "ab", buffering=0) as f:
            for size in (1 << 16, 4096):
                try:
                    while f.write(b"x" * size) == size:
                        pass
                except OSError:
                    pass
        st = os.statvfs(self.path)
        assert st.f_bavail == 0, st

    def empty(self):
        """There is room again."""
        self.filler.unlink(missing_ok=True)
