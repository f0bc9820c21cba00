#!/usr/bin/python3
"""concury-agent on backends: what only the backend knows gets to the forwarder, through kills of either
side and a cut network, and never moves a connection.

The agents reach the API by TLS over links of their own (management), so that a cut takes no packet
of the VIP with it."""

import contextlib
import json
import signal
import sqlite3
import time

import frames
import lib
from lib import VIP4

AGENT = lib.BUILD / "bin" / "concury-agent"
INTERVAL_MS = 1000  # the default
LOADED = 0.5  # seconds: what a loaded machine may add to an interval
SOON = 4.0  # seconds: some intervals, and what a loaded machine needs
PORT = 8443


def make_certificate(lab):
    """The API's own, for the addresses that the agents know it by; it is its own authority."""
    names = ",".join(f"IP:10.99.{b[1:]}.1" for b in lab.backends)
    lib.sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
           "-days", "2", "-subj", "/CN=concury", "-addext", f"subjectAltName={names}",
           "-keyout", lab.dir / "api.key", "-out", lab.dir / "api.pem")
    (lab.dir / "tokens").write_text("admin operator 0123456789abcdef0123456789abcdef\n")


def start_daemon(lab):
    lab.start_daemon("--listen", f"0.0.0.0:{PORT}", "--tls-cert", lab.dir / "api.pem",
                     "--tls-key", lab.dir / "api.key", "--token-file", lab.dir / "tokens")


class Agent:
    def __init__(self, lab, backend):
        self.lab, self.backend, self.id = lab, backend, f"on-{backend}"
        self.number = int(backend[1:])
        self.log = lab.dir / f"agent-{backend}.log"
        self.process = None
        self.link = f"mgmt-{backend}"
        lib.sh("ip", "link", "add", self.link, "netns", lab.ns("lb"), "type", "veth",
               "peer", "name", "mgmt", "netns", lab.ns(backend))
        lab.run("lb", "ip", "addr", "add", f"10.99.{self.number}.1/24", "dev", self.link)
        lab.run("lb", "ip", "link", "set", self.link, "up")
        lab.run(backend, "ip", "addr", "add", f"10.99.{self.number}.2/24", "dev", "mgmt")
        lab.run(backend, "ip", "link", "set", "mgmt", "up")

    def bind(self):
        """A fresh token from the API."""
        self.token = self.lab.api.put(f"/v1/agents/{self.id}",
                                      {"vip": "web", "dip": self.backend})["token"]
        self.token_file = self.lab.dir / f"{self.id}.token"
        self.token_file.write_text(self.token + "\n")

    def start(self):
        self.process = self.lab.spawn(
            self.backend, [AGENT, "--url", f"https://10.99.{self.number}.1:{PORT}",
                           "--ca-file", self.lab.dir / "api.pem", "--agent", self.id,
                           "--token-file", self.token_file, "--interval", INTERVAL_MS], self.log)

    def kill(self, sig=signal.SIGKILL):
        self.process.send_signal(sig)
        return self.process.wait(10)

    @contextlib.contextmanager
    def cut(self):
        """Nothing passes, ARP neither. (Not by the link's state: the kernel takes up to a second to use
        one that is up again.)"""
        nft = ("nft", "add")
        self.lab.run("lb", *nft, "table", "netdev", "cut")
        for hook in ("ingress", "egress"):
            self.lab.run("lb", *nft, "chain", "netdev", "cut", hook,
                         f"{{ type filter hook {hook} device {self.link} priority 0; }}")
            self.lab.run("lb", *nft, "rule", "netdev", "cut", hook, "drop")
        try:
            yield
        finally:
            self.lab.run("lb", "nft", "delete", "table", "netdev", "cut")

    def info(self):
        return self.lab.api.get(f"/v1/agents/{self.id}")

    def wait_synced(self, after=None, timeout=SOON):
        """In step, by another instance than `after`."""
        lib.wait_until(f"{self.id} in step",
                       lambda: (i := self.info())["synced"] and i["instance"] != after, timeout)
        return self.info()["instance"]

    def flows(self):
        """Known flows of its DIP that are not about to end; the API counts all, so wait on it."""
        return self.lab.dips()[self.backend]["flows"]


AGENTS = {}
FOREVER = []  # connections of earlier tests that must live to the end


def setup(lab):
    lab.start_backends()
    make_certificate(lab)
    start_daemon(lab)
    # What is closing is forgotten soon, so that the count of flows shows ends.
    lab.put_vip(closing_pin_s=1,
                idle_timeout_s={"established": 7200, "half_open": 30, "closing": 2, "udp": 60})
    lab.put_dips({"b1": 1, "b2": 1, "b3": 1})
    for b in lab.backends:
        AGENTS[b] = Agent(lab, b)
        AGENTS[b].bind()


def connect(lab, backend, n=1):
    """n idle keep-alive connections to this backend."""
    found = []
    while len(found) < n:
        c = lib.Connection(lab, VIP4, sport=lab.fresh_port())
        if c.get("/name").backend == backend:
            found.append(c)
        else:
            c.get("/name", close=True)
            c.close()
    return found


def end_at_server(connections):
    """The backend closes; the client says nothing of it but a bare ACK, so no packet tells the
    forwarder."""
    for c in connections:
        c.get("/name", close=True)


def wait_flows(lab, backend, n, what, timeout=8):
    try:
        lib.wait_until(what, lambda: AGENTS[backend].flows() == n, timeout)
    except AssertionError as e:
        raise AssertionError(f"{e}; {AGENTS[backend].flows()} flows, not {n}") from None


def ports_of(connections):
    return {c.sport for c in connections}


def known_ports(lab, backend):
    """Client ports of the connections that the forwarder takes for alive on this backend."""
    flows = lab.api.get(f"/v1/vips/web/flows?limit=1000&dip={backend}")["items"]
    return {f["client_port"] for f in flows if f["state"] in ("established", "unproven")}


def wait_agreement(lab, backend, open_ports, what):
    """The forwarder takes for alive exactly what the backend has; how soon is printed."""
    start = time.monotonic()
    try:
        lib.wait_until(what, lambda: known_ports(lab, backend) == open_ports, SOON, 0.02)
    except AssertionError as e:
        now = known_ports(lab, backend)
        raise AssertionError(f"{e}: {now - open_ports} too many, {open_ports - now} missing") from None
    took, interval = time.monotonic() - start, INTERVAL_MS / 1000
    print(f"    {what}: {took:.2f} s, by reports every {interval} s", flush=True)
    assert took <= interval + LOADED, f"{what}: {took:.2f} s"


def assert_alive(connections):
    for c, home in connections:
        now = c.get("/name").backend
        assert now == home, f"was on {home}, is on {now}"


def keep(connections, backend):
    FOREVER.extend((c, backend) for c in connections)


def test_an_agent_comes_in_step(lab):
    wait_flows(lab, "b1", 0, "what the start-up left ends")
    live = connect(lab, "b1", 5)
    AGENTS["b1"].start()
    AGENTS["b1"].wait_synced()
    keep(live, "b1")

    def told():
        i = AGENTS["b1"].info()
        return i["load"]["connections"] == 5 and i["load"]["cpus"] > 0
    lib.wait_until("its load is told", told, SOON)
    before = AGENTS["b1"].info()
    lib.wait_until("it goes on reporting",
                   lambda: AGENTS["b1"].info()["sequence"] > before["sequence"] + 2, SOON)
    assert AGENTS["b1"].info()["last_report_age_ms"] < 2000
    assert AGENTS["b1"].info()["refused_total"] == 0
    assert AGENTS["b1"].flows() == 5
    assert "in step with https://" in AGENTS["b1"].log.read_text()


def test_ends_free_flows_sooner_than_time_outs(lab):
    with_agent, without = connect(lab, "b1", 10), connect(lab, "b2", 10)
    wait_flows(lab, "b2", 10, "all are known")
    end_at_server(with_agent + without)
    wait_flows(lab, "b1", 5, "flows whose end the agent told are freed")
    assert AGENTS["b2"].flows() == 10, "b2 has no agent: the test shows nothing"
    # Nothing moves by it: those that live answer, after a pool change too.
    lab.api.patch("/v1/vips/web/dips/b1", {"weight": 9})
    assert_alive(FOREVER)
    lab.api.patch("/v1/vips/web/dips/b1", {"weight": 1})
    for c in with_agent + without:
        c.close()


def test_an_agent_is_killed(lab):
    ended, live = connect(lab, "b1", 8), connect(lab, "b1", 4)
    instance = AGENTS["b1"].wait_synced()
    AGENTS["b1"].kill()
    end_at_server(ended)
    time.sleep(5)  # closing flows would be gone by now
    wait_flows(lab, "b1", 17, "nobody told", 1)
    AGENTS["b1"].start()
    wait_agreement(lab, "b1", ports_of([c for c, _ in FOREVER] + live),
                   "agreed after an agent's death")
    AGENTS["b1"].wait_synced(after=instance)
    wait_flows(lab, "b1", 9, "the full report has ended what is not there")
    keep(live, "b1")
    assert_alive(FOREVER)
    for c in ended:
        c.close()


def test_the_forwarder_is_killed(lab):
    ended, live = connect(lab, "b1", 6), connect(lab, "b1", 2)
    assert lab.stop_daemon(signal.SIGKILL) == -signal.SIGKILL
    end_past_the_forwarder(lab, "b1", ended)
    start_daemon(lab)
    wait_agreement(lab, "b1", ports_of([c for c, _ in FOREVER] + live),
                   "agreed after a forwarder's death")
    AGENTS["b1"].wait_synced()
    wait_flows(lab, "b1", 11, "in step again")
    assert "concuryd has restarted" in AGENTS["b1"].log.read_text()
    lab.api.patch("/v1/vips/web/dips/b2", {"weight": 5})
    keep(live, "b1")
    assert_alive(FOREVER)
    lab.api.patch("/v1/vips/web/dips/b2", {"weight": 1})


@contextlib.contextmanager
def past_the_forwarder(lab, backend):
    """The client's packets go to the backend itself for a while."""
    neighbor = ["ip", "neigh", "replace", VIP4, "dev", "eth0", "nud", "permanent", "lladdr"]
    lab.run("client", *neighbor, lab.mac(backend))
    yield
    time.sleep(0.2)
    lab.run("client", "ip", "neigh", "del", VIP4, "dev", "eth0")


def end_past_the_forwarder(lab, backend, connections):
    """FIN and all."""
    with past_the_forwarder(lab, backend):
        for c in connections:
            c.get("/name", close=True)
            c.close()


def open_past_the_forwarder(lab, backend, n):
    """Connections that another forwarder has sent to this backend."""
    with past_the_forwarder(lab, backend):
        connections = [lib.Connection(lab, VIP4, sport=lab.fresh_port()) for _ in range(n)]
        assert {c.get("/name").backend for c in connections} == {backend}
        return connections


def test_the_network_is_cut(lab):
    agent = AGENTS["b1"]
    ended, live = connect(lab, "b1", 7), connect(lab, "b1", 3)
    time.sleep(INTERVAL_MS / 1000 * 2)
    instance = agent.wait_synced()
    with agent.cut():
        cut_at = time.monotonic()
        end_at_server(ended)
        opened = connect(lab, "b1", 2)
        unseen = open_past_the_forwarder(lab, "b1", 9)
        time.sleep(5)
        assert agent.info()["last_report_age_ms"] > 3000, "the cut does not cut"
        wait_flows(lab, "b1", 11 + 7 + 3 + 2, "nobody could tell", 1)
        assert not known_ports(lab, "b1") & ports_of(unseen)
    wait_agreement(lab, "b1", ports_of([c for c, _ in FOREVER] + live + opened + unseen),
                   "agreed after a cut of the network")
    wait_flows(lab, "b1", 11 + 3 + 2 + 9, "the state agrees again")
    assert agent.info()["instance"] == instance and agent.info()["synced"]
    assert time.monotonic() - cut_at > 5
    keep(live + opened + unseen, "b1")
    # Those that the forwarder never saw are held like all others, through a change as well.
    assert_alive(FOREVER)
    lab.api.patch("/v1/vips/web/dips/b1", {"weight": 0})
    assert_alive(FOREVER)
    lab.api.patch("/v1/vips/web/dips/b1", {"weight": 1})
    for c in ended:
        c.close()


def report(lab, agent, **members):
    return lab.api.call("POST", f"/v1/agents/{agent.id}/reports",
                        {"instance": "00000000000000aa", **members},
                        {"Authorization": f"Bearer {agent.token}"})


def test_a_late_end_of_a_reused_tuple(lab):
    """The test itself is b3's agent: an end that is older than the connection on its tuple."""
    agent = AGENTS["b3"]
    c, = connect(lab, "b3")
    tuple_ = {"src": lab.address("client"), "sport": c.sport, "dport": 80, "protocol": "tcp"}
    a = report(lab, agent, sequence=1, kind="full", opened=[tuple_])
    assert a.status == 200 and a.json["ack"] == 1 and not a.json["resync"], a
    assert a.json["vips"] == [{"address": VIP4, "port": 80, "port_end": None, "protocol": "tcp"}]
    a = report(lab, agent, sequence=2, kind="delta", ended=[{**tuple_, "age_ms": 60000}])
    assert a.status == 200 and a.json["ack"] == 2, a
    # One that lay in a buffer for a minute: its ages count from when it was made.
    a = report(lab, agent, sequence=3, kind="delta", clock_ms=a.json["clock_ms"] - 60000,
               ended=[{**tuple_, "age_ms": 10}])
    assert a.json["ack"] == 3, a
    # b1's connections are not b3's to end.
    other, _ = FOREVER[0]
    a = report(lab, agent, sequence=4, kind="delta",
               ended=[{**tuple_, "sport": other.sport, "age_ms": 0}])
    assert a.json["refused"] == 1, a
    assert report(lab, AGENTS["b1"], sequence=1, kind="full").status == 200  # see below
    time.sleep(5)
    assert known_ports(lab, "b3") == {c.sport}, "it was ended"
    lab.api.patch("/v1/vips/web/dips/b3", {"weight": 0})
    assert_alive([(c, "b3")])
    assert_alive(FOREVER)
    lab.api.patch("/v1/vips/web/dips/b3", {"weight": 1})
    # A true end does end it.
    a = report(lab, agent, sequence=5, kind="delta", ended=[{**tuple_, "age_ms": 0}])
    wait_flows(lab, "b3", 0, "its end")
    # An empty full report in b1's name ("nothing is there") has marked its idle flows; they have
    # spoken since, and its agent has come in step again.
    AGENTS["b1"].wait_synced(after="00000000000000aa")
    c.close()
    for wrong in ("", "Bearer 0123456789abcdef", f"Bearer {AGENTS['b1'].token}"):
        a = lab.api.call("POST", f"/v1/agents/{agent.id}/reports", {"kind": "full"},
                         {"Authorization": wrong})
        assert a.status == 401, a


def test_orphans(lab):
    """A segment of a connection that no backend has: one of them answers with a RST."""
    for b in ("b2", "b3"):
        AGENTS[b].start()
    for b in ("b2", "b3"):
        AGENTS[b].wait_synced(after="00000000000000aa")
    before = lab.consistency()["orphans_total"]
    wire = frames.Wire(lab.ns("client"))
    for sport in range(61000, 61010):
        wire.send(frames.ethernet(
            lab.mac("lb"), lab.mac("client"),
            frames.ipv4(lab.address("client"), VIP4,
                        frames.tcp(lab.address("client"), VIP4, sport, 80, frames.ACK, ack=7))))
    # A SYN to a port that nobody serves is not one (nor does the VIP take it).
    wire.send(frames.ethernet(
        lab.mac("b1"), lab.mac("client"),
        frames.ipv4(lab.address("client"), VIP4,
                    frames.tcp(lab.address("client"), VIP4, 61010, 81, frames.SYN))))
    lib.wait_until("ten orphans", lambda: lab.consistency()["orphans_total"] == before + 10, SOON)
    time.sleep(1)
    assert lab.consistency()["orphans_total"] == before + 10
    wire.close()


def test_a_reboot_forgets_nothing_that_agents_know(lab):
    """State directory and pins are gone, the weights are others than when the connections were made:
    by its hash many a connection would go elsewhere."""
    connections = [lib.Connection(lab, VIP4, sport=lab.fresh_port()) for _ in range(120)]
    homes = [(c, c.get("/name").backend) for c in connections]
    weights = {"b1": 1, "b2": 9, "b3": 4}
    for b, w in weights.items():
        lab.api.patch(f"/v1/vips/web/dips/{b}", {"weight": w})
    def goes_to(c):
        return lab.api.get(f"/v1/explain?vip=web&src={lab.address('client')}&sport={c.sport}")
    moved = [c for c, _ in homes + FOREVER if goes_to(c)["reason"] != "home"]
    assert len(moved) > 20, "the test shows nothing"
    assert_alive(homes)
    time.sleep(INTERVAL_MS / 1000 * 2)
    assert lab.stop_daemon() == 0
    for f in lab.state_dir.iterdir():
        f.unlink()
    with sqlite3.connect(lab.database) as db:
        db.execute("UPDATE vip_lookup SET pins = x'', pin_n_a = 0, pin_n_b = 0")
    db.close()
    start_daemon(lab)
    for a in AGENTS.values():
        a.wait_synced()
    lib.wait_until("all connections in their place",
                   lambda: all(goes_to(c)["dip"] == b for c, b in homes + FOREVER), SOON)
    # Not one of them has spoken to this forwarder yet.
    assert_alive(homes)
    assert_alive(FOREVER)
    lab.api.patch("/v1/vips/web/dips/b3?override_hold=true", {"weight": 1})
    assert_alive(homes)
    for c in connections:
        c.close()


def test_bindings(lab):
    a = lab.api.call("PUT", "/v1/agents/other", {"vip": "web", "dip": "b1"})
    assert a.status == 409 and "on-b1" in a.json["detail"], a
    assert [i["id"] for i in lab.api.get("/v1/agents")["items"]] == ["on-b1", "on-b2", "on-b3"]
    # A new token: the old one opens nothing, the agent says so and goes on trying.
    agent = AGENTS["b2"]
    agent.bind()
    lib.wait_until("it says why", lambda: "401" in agent.log.read_text(), SOON)
    assert agent.process.poll() is None
    assert agent.kill(signal.SIGTERM) == 0
    assert agent.log.read_text().splitlines()[-1] == "agent: SIGTERM: ending"
    agent.start()
    agent.wait_synced()
    # What is on disk is no token.
    text = b"".join(f.read_bytes() for f in lab.dir.glob("concury.db*"))
    assert agent.token.encode() not in text
    assert lab.api.delete("/v1/agents/on-b2") == {"id": "on-b2"}
    # An agent goes with its DIP.
    lab.api.delete("/v1/vips/web/dips/b3?force=true&override_hold=true")
    assert [i["id"] for i in lab.api.get("/v1/agents")["items"]] == ["on-b1"]
    lab.stop_daemon()
    start_daemon(lab)
    assert [i["id"] for i in lab.api.get("/v1/agents")["items"]] == ["on-b1"]
    AGENTS["b1"].wait_synced()
    assert_alive(FOREVER)
    assert lab.consistency()["violations_total"] == 0


def test_command_line(lab):
    def run(*argv):
        r = lab.run("b1", "sh", "-c", '"$@" 2>&1; echo $?', "-", AGENT, *argv)
        *lines, code = r.strip().splitlines()
        return int(code), lines
    good = ["--url", f"unix:{lab.socket}", "--agent", "x", "--token-file",
            AGENTS["b1"].token_file]
    code, lines = run("--version")
    assert code == 0 and lines[0].startswith("concury-agent "), lines
    code, lines = run("--help")
    assert code == 0 and any("--token-file" in line for line in lines)
    for argv in ([], good[2:], ["--url", "ftp://x", *good[2:]], [*good, "--interval", "0"],
                 [*good, "--interval", "1x"], [*good, "--vip", "10.9.0.100"],
                 [*good, "--vip", "10.9.0.100:80/sctp"], [*good, "--vip", "[fd09::100:80"],
                 [*good[:4], "--token-file", "/nonexistent"], [*good, "more"], [*good, "--nope"],
                 [*good[:4], "--token-file", "/dev/null"]):
        code, lines = run(*argv)
        assert code == 1 and len(lines) == 1 and lines[0].startswith("agent: "), (argv, code, lines)


if __name__ == "__main__":
    lib.main("agent", [
        test_an_agent_comes_in_step, test_ends_free_flows_sooner_than_time_outs,
        test_an_agent_is_killed, test_the_forwarder_is_killed, test_the_network_is_cut,
        test_a_late_end_of_a_reused_tuple, test_orphans,
        test_a_reboot_forgets_nothing_that_agents_know, test_bindings, test_command_line,
    ], setup, backends=3)
