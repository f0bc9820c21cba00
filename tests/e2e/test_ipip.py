#!/usr/bin/python3
"""`mode: ipip`, 4in4 and 6in6. The backends take the outer header off by a small tc program; the hops
between load balancer and backends carry 40 bytes more than the client's."""

import json
import time

import frames
import lib
from lib import VIP4, VIP6

WEIGHTS = {"b1": 1, "b2": 2, "b3": 1}
DECAP = lib.BUILD / "tests" / "e2e" / "decap.bpf.o"


def setup(lab):
    if not DECAP.exists():
        raise RuntimeError(f"{DECAP} is missing: make bench-build")
    lab.start_backends()
    lab.start_daemon()
    lab.put_vip("four", VIP4, mode="ipip")
    lab.put_dips(WEIGHTS, "four")
    lab.put_vip("six", VIP6, mode="ipip")
    lab.put_dips(WEIGHTS, "six", v6=True)


def unwrapped(lab, backend):
    """Packets that the backend's program has taken the outer header off."""
    filters = json.loads(lab.run(backend, "tc", "-j", "filter", "show", "dev", "eth0", "ingress"))
    prog = next(f["options"]["prog"]["id"] for f in filters if "prog" in f.get("options", {}))
    maps = json.loads(lib.sh("bpftool", "-j", "prog", "show", "id", prog))["map_ids"]
    return json.loads(lib.sh("bpftool", "-j", "map", "dump", "id", maps[0]))[0]["formatted"]["value"]


def test_travels_encapsulated(lab):
    """Nobody takes the outer header off yet: no connection comes about."""
    for vip in (VIP4, VIP6):
        try:
            lab.get(address=vip, timeout=1.5)
            raise AssertionError("answered without decapsulation")
        except TimeoutError:
            pass
    for b in lab.backends:
        lab.run(b, "tc", "qdisc", "add", "dev", "eth0", "clsact")
        lab.run(b, "tc", "filter", "add", "dev", "eth0", "ingress", "bpf", "da", "obj", DECAP,
                "sec", "tc")


def test_shares(lab):
    for vip in (VIP4, VIP6):
        before = {b: unwrapped(lab, b) for b in lab.backends}
        counts = lab.count_connections(1000, vip)
        lib.assert_shares(counts, WEIGHTS)
        for b in lab.backends:
            assert unwrapped(lab, b) - before[b] >= 5 * counts[b], (b, counts)


def test_outer_header(lab):
    """What is on the wire: the outer source of the documented prefix, the DIP as destination, the
    inner packet untouched."""
    for vip, ethertype, length, proto, source in ((VIP4, b"\x08\x00", 20, (9, 4), "172.16."),
                                                  (VIP6, b"\x86\xdd", 40, (6, 41), "100::")):
        v6, size = length == 40, 16 if length == 40 else 4
        wire = frames.Wire(lab.ns("sw"), "p-lb")
        backend = lab.get(address=vip, sport=(sport := lab.fresh_port())).backend
        got = wire.receive(1, lambda f: f[12:14] == ethertype and f[14 + proto[0]] == proto[1])
        wire.close()
        assert len(got) >= 5, got
        for frame in got:
            ip, inner = frame[14:], frame[14 + length:]
            addresses = ip[length - 2 * size:length]
            family = frames.socket.AF_INET6 if v6 else frames.socket.AF_INET
            outer = [frames.socket.inet_ntop(family, a) for a in (addresses[:size], addresses[size:])]
            assert outer[0].startswith(source) and outer[1] == lab.address(backend, v6), outer
            assert frame[:6] == frames.mac(lab.mac(backend)), frame[:14]
            assert frame[6:12] == frames.mac(lab.mac("lb")), frame[:14]
            assert inner[length - 2 * size:length] == \
                frames.packed(lab.address("client", v6)) + frames.packed(vip)
            assert inner[length:length + 4] == frames.struct.pack("!HH", sport, 80)


def test_upload(lab):
    for vip in (VIP4, VIP6):
        assert lab.upload(vip)
    assert lab.counters()["drops"]["frame_too_big"] == 0


def test_connections_stay(lab):
    downloads = [lib.Download(lab, vip, 48 << 10) for vip in (VIP4, VIP6) for _ in range(12)]
    for vip in ("four", "six"):
        for b, w in (("b1", 5), ("b2", 1), ("b3", 0)):
            change = lab.api.patch(f"/v1/vips/{vip}/dips/{b}", {"weight": w})["change"]
            assert change["flows_moved"] == 0, change
    for vip in (VIP4, VIP6):
        lib.assert_shares(lab.count_connections(400, vip), {"b1": 5, "b2": 1, "b3": 0})
    for d in downloads:
        d.finish()


def test_path_too_small(lab):
    """Where the hop to the backends carries no more than the client's, what does not fit any more is
    dropped and counted; small packets travel on."""
    lab.run("lb", "ip", "link", "set", "eth0", "mtu", "1500")
    time.sleep(1.5)
    assert lab.get().status == 200
    before = lab.counters()["drops"]["frame_too_big"]
    assert not lab.upload(name="64k", timeout=2)
    assert lab.counters()["drops"]["frame_too_big"] > before
    lab.run("lb", "ip", "link", "set", "eth0", "mtu", "1540")
    time.sleep(1.5)
    assert lab.upload(name="64k", timeout=10)


def test_families_must_agree(lab):
    for vip, address in (("four", lab.address("b1", True)), ("six", lab.address("b1"))):
        a = lab.api.call("PUT", f"/v1/vips/{vip}/dips/x", {"address": address, "weight": 1})
        assert a.status == 422 and a.json["errors"][0]["pointer"] == "/address", a


def test_kernel_never_answered(lab):
    assert lab.resets_sent() == 0
    lab.assert_consistent()


if __name__ == "__main__":
    lib.main("ipip", [
        test_travels_encapsulated, test_shares, test_outer_header, test_upload, test_connections_stay,
        test_path_too_small, test_families_must_agree, test_kernel_never_answered,
    ], setup, backends=3, mtu=1540)
