"""Frames made and read by hand: what no client's stack would send, seen where no socket would show it."""

import socket
import struct
import time

from clients import inside

ETH_IP, ETH_IPV6, ETH_VLAN, ETH_QINQ = 0x0800, 0x86dd, 0x8100, 0x88a8
TCP, UDP = 6, 17
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16

ETH_P_ALL = 3
SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 8, 23
TP_STATUS_VLAN_VALID = 1 << 4


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def packed(address):
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def tcp(src, dst, sport, dport, flags=SYN, seq=1, ack=0, payload=b"", offset=5, options=b""):
    head = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, offset << 4, flags, 64240, 0, 0) + options
    segment = head + payload
    pseudo = packed(src) + packed(dst) + struct.pack("!II", len(segment), TCP)
    return segment[:16] + struct.pack("!H", checksum(pseudo + segment)) + segment[18:]


def udp(src, dst, sport, dport, payload=b"", length=None):
    segment = struct.pack("!HHHH", sport, dport, 8 + len(payload) if length is None else length, 0) + payload
    pseudo = packed(src) + packed(dst) + struct.pack("!II", len(segment), UDP)
    return segment[:6] + struct.pack("!H", checksum(pseudo + segment) or 0xffff) + segment[8:]


def ipv4(src, dst, payload, proto=TCP, ihl=5, total=None, fragment=0x4000, options=b"", tos=0):
    total = 20 + len(options) + len(payload) if total is None else total
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | ihl, tos, total, 7, fragment, 64, proto, 0, packed(src),
                       packed(dst)) + options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def ipv6(src, dst, payload, next_header=TCP, length=None):
    return struct.pack("!IHBB16s16s", 6 << 28, len(payload) if length is None else length, next_header,
                       64, packed(src), packed(dst)) + payload


def ethernet(dst, src, payload, ethertype=ETH_IP, tags=()):
    """tags: (TPID, TCI), outermost first."""
    head = mac(dst) + mac(src)
    for tpid, tci in tags:
        head += struct.pack("!HH", tpid, tci)
    return head + struct.pack("!H", ethertype) + payload


class Wire:
    """A packet socket on eth0 of a namespace: sends frames as they are, and reads what comes in, the
    outer tag, which the kernel takes off, put back."""

    def __init__(self, netns, interface="eth0"):
        with inside(netns):
            self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.sock.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.sock.bind((interface, ETH_P_ALL))

    def send(self, frame):
        self.sock.send(frame)

    def receive(self, seconds, wanted=lambda f: True, n=None):
        """The wanted frames that come in within that time; n: stop at so many."""
        end, frames = time.monotonic() + seconds, []
        while (left := end - time.monotonic()) > 0 and (n is None or len(frames) < n):
            self.sock.settimeout(left)
            try:
                frame, ancillary, _, _ = self.sock.recvmsg(65535, 256)
            except TimeoutError:
                break
            for level, kind, data in ancillary:
                if level == SOL_PACKET and kind == PACKET_AUXDATA:
                    status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", data[:20])
                    if status & TP_STATUS_VLAN_VALID:
                        frame = frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
            if wanted(frame):
                frames.append(frame)
        return frames

    def close(self):
        self.sock.close()
