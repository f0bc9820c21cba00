#!/usr/bin/python3
"""`mode: ipip`: 4in4, 6in4, 4in6 and 6in6, see tunnels.py; and a way to the backends that is too narrow."""

import time

import lib
import tunnels
from tunnels import (test_connections_stay, test_kernel_never_answered, test_last_hop, test_shares,
                     test_travels_encapsulated, test_upload)


def setup(lab):
    tunnels.setup(lab, "ipip")


def test_on_the_wire(lab):
    tunnels.test_on_the_wire(lab, lambda proto, rest: (proto, rest))


def test_path_too_small(lab):
    """Where the hop to the backends carries no more than the client's, what does not fit any more is
    dropped, counted and answered, so that the client sends less at a time; small packets travel on."""
    lab.run("lb", "ip", "link", "set", "eth0", "mtu", "1500")
    time.sleep(1.5)
    assert lab.get().status == 200
    before = lab.counters()
    assert lab.upload(name="64k", timeout=10)
    after = lab.counters()
    assert after["drops"]["frame_too_big"] > before["drops"]["frame_too_big"]
    assert after["answers"]["too_big"] > before["answers"]["too_big"]
    lab.run("lb", "ip", "link", "set", "eth0", "mtu", "1540")
    time.sleep(1.5)
    assert lab.upload(name="64k", timeout=10)


if __name__ == "__main__":
    lib.main("ipip", [
        test_travels_encapsulated, test_shares, test_on_the_wire, test_last_hop, test_upload,
        test_connections_stay, test_path_too_small, test_kernel_never_answered,
    ], setup, backends=3, mtu=1540)
