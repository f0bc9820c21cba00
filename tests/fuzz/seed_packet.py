#!/usr/bin/python3
"""Write the seeds of corpus/packet: some of the golden frames, and broken ones made from them. Each is 8
bytes of settings (see fuzz_packet.c) and a frame. Inputs found by fuzzing are added by hand, under
names of their own; this does not touch them."""
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
CORPUS = os.path.join(HERE, "corpus", "packet")


def golden():
    """Name -> frame as it comes in."""
    with open(os.path.join(GOLDEN, "cases.txt"), encoding="ascii") as f:
        names = [line.split()[0] for line in f]
    with open(os.path.join(GOLDEN, "in.pcap"), "rb") as f:
        raw = f.read()
    frames, at = [], 24
    while at < len(raw):
        length = struct.unpack_from("<I", raw, at + 8)[0]
        frames.append(raw[at + 16:at + 16 + length])
        at += 16 + length
    return dict(zip(names, frames, strict=True))


def write(name, frame, dip=0, headroom=64, mtu=1500, hash_bits=0xc0ffee42):
    with open(os.path.join(CORPUS, name), "wb") as f:
        f.write(struct.pack("<BBHI", dip, headroom, mtu, hash_bits) + frame)


def patched(frame, at, *new):
    return frame[:at] + bytes(new) + frame[at + len(new):]


def grown(frame, n):
    """A frame without padding, n bytes longer: by its IP header, and UDP's."""
    l3 = 14 + 4 * sum(frame[at:at + 2] in (b"\x81\x00", b"\x88\xa8") for at in (12, 16))
    v6 = frame[l3] >> 4 == 6
    at = l3 + (4 if v6 else 2)
    frame = patched(frame, at, *struct.pack(">H", struct.unpack_from(">H", frame, at)[0] + n))
    if frame[l3 + (6 if v6 else 9)] == 17:
        at = l3 + (40 if v6 else (frame[l3] & 15) * 4) + 4
        frame = patched(frame, at, *struct.pack(">H", struct.unpack_from(">H", frame, at)[0] + n))
    return frame + bytes(i * 37 & 255 for i in range(n))


def partial(frame):
    """The checksum as a local stack leaves it: of an IPv4 header without options in front of UDP or TCP, no tag."""
    l4_len = struct.unpack_from(">H", frame, 16)[0] - 20
    total = sum(struct.unpack_from(">4H", frame, 26)) + frame[23] + l4_len
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return patched(frame, 34 + (6 if frame[23] == 17 else 16), *struct.pack(">H", total))


def several_buffers(frames):
    """Settings 4: in buffers, the first of which ends where the last byte of the hash says."""
    names = ("checksum-v4-tcp-0vlan-size7-pad0", "checksum-v4-udp-0vlan-size63-pad0", "checksum-v6-tcp-0vlan-size8-pad0",
             "ipip4-v4-udp-timestamp", "ipip6-v6-tcp-1vlan-hbh+dst+rth+ah+dst", "nat-v6-udp-fragment-0-of-300-port",
             "nat-v4-udp-fragment-48-of-300-port", "nat-v4-error-frag-needed-tcp", "nat-v6-error-too-big-tcp",
             "echo-v4-size56-0vlan", "echo-v6-size56-1vlan", "ipip4-v4-tcp-2vlan-pad13")
    for name in names:
        for where in (0, 1, 12, 0x81):  # of which the first is too little
            write("buffers-%s-%d" % (name, where), grown(frames[name], 1900 - len(frames[name])), dip=4,
                  hash_bits=where << 24 | 0x0711ff)
    for name in ("l2-v4-tcp-0vlan-pad0", "l2-v4-udp-0vlan-pad0"):
        for size in (1, 2, 1701):
            for where in (0, 9):
                write("buffers-%s-partial-%d-%d" % (name, size, where), partial(grown(frames[name], size)), dip=4,
                      hash_bits=where << 24 | 0x010200)
    exts = frames["l2-v6-tcp-1vlan-hbh+dst+rth+ah+dst"]
    first = 14 + 4 + 40  # extension header
    for n in range(140, 176, 5):  # the chain ends in front of what is looked at, across its end, or behind it
        longer = patched(exts, 14 + 4 + 4, *struct.pack(">H", struct.unpack_from(">H", exts, 14 + 4 + 4)[0] + 8 * n))
        longer = patched(longer, first + 1, exts[first + 1] + n)
        write("buffers-chain-%d" % n, grown(longer[:first + 8] + bytes(8 * n) + longer[first + 8:], 900), dip=4,
              hash_bits=1 << 24)
    echo = grown(frames["echo-v4-size56-0vlan"], 1600)
    write("buffers-echo-short", patched(echo, 16, 0, 24), dip=4, hash_bits=1 << 24)


def main():
    os.makedirs(CORPUS, exist_ok=True)
    frames = golden()
    for name in ("ipip4-v4-tcp-0vlan-pad0", "ipip4-v4-udp-1vlan-pad13", "ipip4-v4-tcp-2vlan-pad13",
                 "ipip4-v4-tcp-empty", "ipip4-v4-tcp-nops", "ipip4-v4-udp-timestamp", "nat-v4-udp-no-checksum",
                 "nat-v4-tcp-source-route", "ipip6-v6-tcp-0vlan-pad0", "ipip6-v6-udp-2vlan-pad13",
                 "ipip6-v6-tcp-1vlan-hbh+dst+rth+ah+dst", "ipip6-v6-udp-1vlan-rth", "ipip6-v6-tcp-1vlan-ah",
                 "checksum-v4-tcp-0vlan-size7-pad0", "checksum-v4-udp-0vlan-size63-pad0",
                 "checksum-v6-tcp-0vlan-size8-pad0", "checksum-v6-udp-2vlan-size33-pad5",
                 "nat-v4-error-frag-needed-tcp", "nat-v4-error-unreachable-udp", "nat-v4-error-frag-needed-tcp-nops",
                 "nat-v4-error-frag-needed-udp-short", "nat-v4-error-later-fragment", "nat-v6-error-too-big-tcp",
                 "nat-v6-error-unreachable-udp", "nat-v6-error-too-big-tcp-hbh+dst+rth+dst",
                 "nat-back-v4-error-unreachable-udp", "nat-back-v4-error-frag-needed-tcp-router",
                 "nat-back-v6-error-expired-udp-8", "nat-back-v6-error-too-big-udp-hbh+dst+rth+dst",
                 "nat-v4-udp-fragment-0-of-300-port", "nat-v4-udp-fragment-48-of-300-port",
                 "nat-v6-udp-fragment-0-of-300-port", "nat-v6-tcp-fragment-128-of-200",
                 "echo-v4-size56-0vlan", "echo-v4-options-0vlan", "echo-v6-size56-1vlan"):
        for dip in (0, 2):
            write("golden-%s%s" % (name, "-port" if dip else ""), frames[name], dip | ("-v6-" in name))
    v4, v6 = frames["l2-v4-tcp-0vlan-pad0"], frames["l2-v6-tcp-0vlan-pad0"]
    udp = frames["l2-v4-udp-0vlan-pad0"]
    exts = frames["l2-v6-tcp-1vlan-hbh+dst+rth+ah+dst"]
    write("family-mismatch", v4, dip=1)
    write("too-big", v4, mtu=len(v4) - 14 + 19)
    write("no-headroom", v4, headroom=19)
    write("bad-empty", b"")
    write("bad-13-bytes", v4[:13])
    write("bad-half-ip-header", v4[:24])
    write("bad-half-tcp-header", v4[:44])
    write("bad-version", patched(v4, 14, 0x65))
    write("bad-ihl-0", patched(v4, 14, 0x40))
    write("bad-ihl-15", patched(v4, 14, 0x4f))
    write("bad-total-length-huge", patched(v4, 16, 0xff, 0xff))
    write("bad-total-length-0", patched(v4, 16, 0, 0))
    write("bad-data-offset", patched(v4, 14 + 20 + 12, 0xf0))
    write("bad-udp-length", patched(udp, 14 + 20 + 4, 0, 7))
    write("bad-udp-length-huge", patched(udp, 14 + 20 + 4, 0xff, 0xff))
    write("udp-no-checksum", patched(udp, 14 + 20 + 6, 0, 0))
    write("fragment-first", patched(v4, 20, 0x20, 0))
    write("fragment-later", patched(v4, 20, 0x00, 0x11))
    write("fragment-v6", patched(exts, 14 + 4 + 40, 44))
    write("not-l4", patched(v4, 23, 1))
    write("source-route", v4[:14] + b"\x48" + v4[15:16] + struct.pack(">H", len(v4) - 14 + 12)
          + v4[18:34] + bytes([131, 11, 4, 1, 2, 3, 4, 5, 6, 7, 8, 0]) + v4[34:])
    write("bad-payload-length", patched(v6, 18, 0xff, 0xff))
    write("jumbogram", patched(exts, 14 + 4 + 4, 0, 0))
    write("bad-ext-length", patched(exts, 14 + 4 + 40 + 1, 0xff))
    write("bad-ext-chain", v6[:18] + struct.pack(">H", 10 * 8) + b"\x3c" + v6[21:54]
          + bytes([60, 0, 1, 4, 0, 0, 0, 0]) * 10)
    write("three-tags", v4[:12] + bytes([0x81, 0, 0, 1]) * 3 + v4[12:])
    write("tag-cut-off", v4[:12] + bytes([0x88, 0xa8, 0]))
    write("not-ip", patched(v4, 12, 0x08, 0x06))
    several_buffers(frames)


if __name__ == "__main__":
    main()
