"""Thousands of connections at little cost: tests/experiment/crowd.c plays their clients and their
backends, frame by frame, from and to the lab's namespaces."""

import json
import subprocess

import lib


def ignore_at_backends(lab):
    """Before the pool is made: a backend's kernel, which knows nothing of the crowd's connections,
    would answer for them by a RST. It drops what comes from where it has no route to."""
    for b in lab.backends:
        lab.run(b, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1")


class Crowd:
    def __init__(self, lab, live, new_per_s):
        """Returns when `live` connections are open, all over the pool. Each speaks every three seconds
        from then on, and new_per_s come and go each second."""
        self.process = subprocess.Popen(
            [str(lib.BUILD / "experiment" / "crowd"), lab.prefix, str(len(lab.backends)),
             str(live), str(new_per_s)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        lab.processes.append(self.process)
        assert self.process.stdout.readline() == "open\n"

    def end(self):
        """Each live connection speaks once more; the crowd's figures."""
        out, _ = self.process.communicate(timeout=90)
        assert self.process.returncode == 0, out
        return json.loads(out)
