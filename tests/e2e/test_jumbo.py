#!/usr/bin/python3
"""Links that carry 9000 bytes: frames come in several buffers, and go on whole, in every mode."""

import frames
import lib
from lib import VIP4, VIP6

WEIGHTS = {"b1": 1, "b2": 1}
MODES = ("l2", "ipip", "gue")
ONE_BUFFER = 3498


def setup(lab):
    lab.run("client", "ip", "link", "set", "eth0", "mtu", 9000)
    lab.run("sw", "ip", "link", "set", "p-client", "mtu", 9000)
    lab.start_backends()
    for b in lab.backends:
        lab.decapsulate(b)
    lab.start_daemon()


def each_vip(lab):
    for mode in MODES:
        for address in (VIP4, VIP6):
            lab.put_vip("web", address, mode=mode)
            lab.put_dips(WEIGHTS, v6=address == VIP6)
            yield mode, address
            lab.api.delete("/v1/vips/web?force=true")


def silent(lab):
    """Frames that were too big, and whose senders were not told."""
    c = lab.counters()
    return c["drops"]["frame_too_big"] - c["answers"]["too_big"]


def longest(lab, address):
    """An upload, and the longest frame that concuryd sends of it."""
    wire = frames.Wire(lab.ns("sw"), "p-lb")
    assert lab.upload(address, timeout=20), address
    got = wire.receive(64, lambda f: f[6:12] == frames.mac(lab.mac("lb")) and len(f) > ONE_BUFFER, 0.2)
    wire.close()
    return max((len(f) for f in got), default=0)


def test_traffic(lab):
    """Uploads, whose frames pass concuryd, and downloads, whose acknowledgements do."""
    for mode, address in each_vip(lab):
        told = lab.counters()["answers"]["too_big"]
        assert longest(lab, address) in range(8900, 9019), mode
        assert (lab.counters()["answers"]["too_big"] > told) == (mode != "l2"), mode
        lib.Download(lab, address, 4 << 20).finish()
        lab.run("client", "ip", "route", "flush", "cache")
        lab.run("client", "ip", "-6", "route", "flush", "cache")
    assert silent(lab) == 0


def test_limit(lab):
    """What no frame here holds is refused at the start, with the limit."""
    lab.stop_daemon()
    lab.run("lb", "ip", "link", "set", "eth0", "mtu", "9217")
    rc, err = lab.run_daemon(*lab.daemon_argv()[1:])
    assert rc and "MTU 9217 is too large, the limit is 9216" in err, err
    lab.run("lb", "ip", "link", "set", "eth0", "mtu", "9000")
    lab.start_daemon()
    for _ in each_vip(lab):
        assert lab.upload(VIP4, timeout=20)
        break


if __name__ == "__main__":
    lib.main("jumbo", [test_traffic, test_limit], setup, backends=2, mtu=9000)
