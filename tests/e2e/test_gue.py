#!/usr/bin/python3
"""`mode: gue`: either family over UDP of either, see tunnels.py; the port is the VIP's."""

import struct

import lib
import tunnels
from tunnels import (test_connections_stay, test_kernel_never_answered, test_last_hop, test_shares,
                     test_travels_encapsulated, test_upload)


def setup(lab):
    tunnels.setup(lab, "gue")


def check_gue(proto, rest, port=6080):
    """UDP from the dynamic ports, without a checksum, and the header of variant 0 without options."""
    assert proto == 17, proto
    sport, dport, length, checksum, variant, inner_proto, flags = struct.unpack("!HHHHBBH", rest[:12])
    assert (dport, checksum, variant, flags) == (port, 0, 0, 0), rest[:12]
    assert length == len(rest) and sport >= 49152, rest[:12]
    return inner_proto, rest[12:]


def test_on_the_wire(lab):
    tunnels.test_on_the_wire(lab, check_gue)


def test_source_ports(lab):
    """One flow, one port; many flows, many ports."""
    ports = set()
    for _ in range(8):
        _, got = tunnels.to_backends(lab, lib.VIP4, lab.fresh_port())
        own = {tunnels.read_ip(f[14:])[4][:2] for f in got}
        assert len(own) == 1, own
        ports |= own
    assert len(ports) >= 7, ports


def test_port_of_the_vip(lab):
    """Another port reaches nobody who takes it; back again, it is as before."""
    vip = lab.api.get("/v1/vips/four")
    assert (vip["mode"], vip["gue_port"]) == ("gue", 6080), vip
    lab.api.patch("/v1/vips/four", {"gue_port": 5555})
    try:
        lab.get(timeout=1)
        raise AssertionError("answered by another port")
    except TimeoutError:
        pass
    assert lab.api.patch("/v1/vips/four", {"gue_port": None})["gue_port"] == 6080
    assert lab.get().status == 200
    answer = lab.api.call("PATCH", "/v1/vips/four", {"gue_port": 0})
    assert answer.status == 422 and answer.json["errors"][0]["pointer"] == "/gue_port", answer


if __name__ == "__main__":
    lib.main("gue", [
        test_travels_encapsulated, test_shares, test_on_the_wire, test_source_ports, test_last_hop,
        test_port_of_the_vip, test_upload, test_connections_stay, test_kernel_never_answered,
    ], setup, backends=3, mtu=1552)
