"""A client that is far away: behind a router, and a link of it that carries 1280 bytes."""

import lib

ROUTER4, ROUTER6 = "10.9.0.50", "fd09::50"
FAR4, FAR6 = "10.8.0.2", "fd08::2"


def add_router(lab):
    """A client whose own link carries 1500 bytes, so that it announces segments that do not fit what
    the router's side of it carries."""
    lib.sh("ip", "-batch", "-", stdin=f"netns add {lab.ns('router')}\nnetns add {lab.ns('far')}\n")
    lab.script("router", lib.ALL_SYSCTLS,
               "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
               f"ip link add eth0 type veth peer name p-router netns {lab.ns('sw')}",
               f"ip link add eth1 type veth peer name eth0 netns {lab.ns('far')}",
               "ip link set eth1 mtu 1280",
               f"ip addr add {ROUTER4}/24 dev eth0", f"ip addr add {ROUTER6}/64 dev eth0 nodad",
               "ip addr add 10.8.0.1/24 dev eth1", "ip addr add fd08::1/64 dev eth1 nodad",
               "ip link set eth0 up", "ip link set eth1 up")
    lab.script("sw", "ip link set p-router master br0 up")
    lab.script("far", lib.ALL_SYSCTLS, f"ip addr add {FAR4}/24 dev eth0",
               f"ip addr add {FAR6}/64 dev eth0 nodad", "ip link set eth0 up",
               "ip route add default via 10.8.0.1", "ip route add default via fd08::1")


def download(lab, address, port, name="16m"):
    """By the far client, over a connection that no RTT sample or cached MTU helps."""
    host = f"[{address}]" if ":" in address else address
    head = lab.run("far", "curl", "-sS", "--max-time", "20", "-D", "-", "-o", "/dev/null", "-w",
                   "%{size_download}", f"http://{host}:{port}/fast/{name}", timeout=30)
    assert head.endswith(str(16 << 20)), head
    return next(line.split()[1] for line in head.splitlines() if line.startswith("X-Backend"))
