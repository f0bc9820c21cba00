#!/usr/bin/python3
"""concuryctl against a real daemon: every command, for people and as JSON, its exit codes, its completion
in bash, and the man pages."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import socket
import struct
import subprocess
import termios
import time

import clients
import lib
from lib import LB4, VIP4, wait_until

CTL = lib.BUILD / "bin" / "concuryctl"
OK, FAILED, USAGE, UNREACHABLE, CONFLICT, DIFFERS, FAULTY = range(7)
covered = set()  # commands that were run


def ctl(lab, line, code=OK, stdin="", env=None, netns=None, url=None):
    """Run a command line (a string, or a list where words have blanks); its output. It must exit with the
    code; complaints are on standard error alone."""
    words = line.split() if isinstance(line, str) else list(line)
    covered.add(" ".join(words[:2]))
    covered.add(words[0] if words else "")
    where = {"CONCURY_URL": url or f"unix:{lab.socket}"}
    argv = [*(["ip", "netns", "exec", lab.ns(netns)] if netns else []), str(CTL), *map(str, words)]
    r = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=30,
                       env={**os.environ, **where, **(env or {})})
    assert r.returncode == code, (line, r.returncode, r.stdout, r.stderr)
    assert (code in (OK, DIFFERS, FAULTY)) == (r.stderr == ""), (line, r.stderr)
    return r.stdout if code in (OK, DIFFERS, FAULTY) else r.stderr


def same(lab, line, path):
    """-o json is the API's answer, byte for byte."""
    assert ctl(lab, f"{line} -o json") == lab.api.call("GET", path).raw.decode()


def setup(lab):
    lab.start_backends()
    lab.run("lb", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-days", "2", "-subj", "/CN=lb", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", lab.dir / "key.pem", "-out", lab.dir / "cert.pem")
    lab.start_daemon("--listen", "http:127.0.0.1:8080", "--listen", "https:127.0.0.1:8443", "--tls-cert",
                     lab.dir / "cert.pem", "--tls-key", lab.dir / "key.pem")


def test_vips_and_dips(lab):
    assert ctl(lab, "vip list") == "no VIPs\n"
    out = ctl(lab, f"vip create web {VIP4}:80/tcp closing_pin_s=20 idle_timeout_s.udp=99")
    assert re.match(r"created: generation \d+, ", out), out
    for b, weight in (("b1", 1), ("b2", 2)):
        ctl(lab, f"dip add web {b} {lab.address(b)} weight={weight}")
    lab.wait_up(["b1", "b2"])
    vip = lab.api.get("/v1/vips/web")
    assert vip["closing_pin_s"] == 20 and vip["idle_timeout_s"]["udp"] == 99, vip
    header, row = ctl(lab, "vip list").splitlines()
    assert header.split()[:4] == ["VIP", "ADDRESS", "PORT", "PROTOCOL"], header
    assert row.split()[:6] == ["web", VIP4, "80", "tcp", "l2", "up"], row
    assert header.index("ADDRESS") == row.index(VIP4), (header, row)
    header, *rows = ctl(lab, "dip list web").splitlines()
    assert [r.split()[:5] for r in rows] == [["b1", lab.address("b1"), "1", "up", "up"],
                                            ["b2", lab.address("b2"), "2", "up", "up"]], rows
    end = header.index("WEIGHT") + len("WEIGHT")
    assert all(r[:end].endswith(w) for r, w in zip(rows, "12")), (header, rows)
    same(lab, "vip list", "/v1/vips")
    same(lab, "vip show web", "/v1/vips/web")
    same(lab, "dip list web", "/v1/vips/web/dips")
    same(lab, "dip show web b1", "/v1/vips/web/dips/b1")
    assert re.search(r"^idle_timeout_s.udp +99$", ctl(lab, "vip show web"), re.M)
    assert re.search(r"^weight +2$", ctl(lab, "dip show web b2"), re.M)

    ctl(lab, "vip set web closing_pin_s=25 mode=l2")
    assert lab.api.get("/v1/vips/web")["closing_pin_s"] == 25
    answer = json.loads(ctl(lab, "dip set web b2 weight=3 -o json"))
    assert answer["weight"] == 3 and answer["change"]["dcodes_moved"] > 0, answer
    ctl(lab, "dip down web b1")
    assert lab.dips()["b1"]["admin_state"] == "down"
    ctl(lab, "dip up web b1")
    assert lab.dips()["b1"]["state"] == "up"
    # A dry run changes nothing, and says what would.
    out = ctl(lab, "dip set web b2 weight=9 --dry-run")
    assert out.startswith("would be changed") and re.search(r"^ +b2 +change ", out, re.M), out
    assert lab.dips()["b2"]["weight"] == 3


def test_refusals(lab):
    assert "/weight: 0 to 65535" in ctl(lab, "dip set web b1 weight=-1", FAILED)
    err = ctl(lab, "vip set web nonsense=1 closing_pin_s=x", FAILED)
    assert "/nonsense: " in err and "/closing_pin_s: " in err, err
    assert "no VIP has the id 'none'" in ctl(lab, "vip show none", FAILED)
    assert "/port: " in ctl(lab, "vip set web port=81", CONFLICT)
    # What is there is not replaced, and what somebody else has changed is not undone.
    assert "HTTP 412: it exists already" in ctl(lab, f"vip create web {VIP4}:80", CONFLICT)
    assert "HTTP 412: it exists already" in ctl(lab, f"dip add web b1 {lab.address('b1')}", CONFLICT)
    assert lab.dips()["b2"]["weight"] == 3
    etag = re.search(r'^\(ETag\) +(".*")$', ctl(lab, "dip show web b1"), re.M).group(1)
    ctl(lab, f"dip set web b1 weight=2 --if-match {etag}")
    err = ctl(lab, f"dip set web b1 weight=5 --if-match {etag}", CONFLICT)
    now = re.search(r'^\(ETag\) +(".*")$', ctl(lab, "dip show web b1"), re.M).group(1)
    assert f"what is there now has the ETag {now}" in err, err
    bare = now.strip('"')  # a shell takes the quotes away
    ctl(lab, f"dip set web b1 weight=1 --if-match {bare}")
    for line in ("vips", "vip", "vip show", "vip list --yes=no", "status -o yaml", "vip set web weight",
                 "vip create x 10.0.0.1", "explain web 10.0.0.1", "top --interval 0", "completion zsh",
                 "token create x --ttl soon", "health override web b1 down"):
        ctl(lab, line, USAGE)
    for line in ("token create x --ttl 5m", "health override web b1 down --reason x --ttl 5m"):
        assert "--ttl '5m': a number of seconds is needed" in ctl(lab, line, USAGE)
    ctl(lab, "", USAGE)
    for url in ("unix:/nonexistent.sock", "http://127.0.0.1:1"):
        ctl(lab, "status", UNREACHABLE, url=url, netns="lb")
    ctl(lab, "status", USAGE, url="ftp://x")


def test_drain_and_cut(lab):
    downloads = [lib.Download(lab, VIP4, 100000, "2m")]
    while {d.backend for d in downloads} != {"b1", "b2"}:
        assert len(downloads) < 60, "all on one of two DIPs"
        downloads.append(lib.Download(lab, VIP4, 100000, "2m"))
    assert re.match(r"drains, \d+ flows remain: generation", ctl(lab, "dip drain web b1"))
    row = [r for r in ctl(lab, "dip list web").splitlines() if r.startswith("b1")][0]
    assert "draining" in row and "until 20" in row, row
    assert ctl(lab, "dip cancel web b1").startswith("drains no more")
    assert lab.dips()["b1"]["state"] == "up"
    assert "does not drain" in ctl(lab, "dip cancel web b1", CONFLICT)
    # Nothing is cut unasked.
    assert "--yes" in ctl(lab, "dip cut web b1", USAGE)
    assert "--yes" in ctl(lab, "vip delete web --force", USAGE)
    assert lab.dips()["b1"]["state"] == "up"
    # --wait tells how many remain, and returns when the last one has ended.
    ctl(lab, f"vip create gone {VIP4}:81")
    ctl(lab, f"dip add gone b1 {lab.address('b1')}")
    ctl(lab, "vip cancel gone", CONFLICT)
    ctl(lab, "vip delete gone --wait")
    ctl(lab, "vip show gone", FAILED)
    ctl(lab, "dip cut web b1 --yes")
    assert set(lab.dips()) == {"b2"}
    ctl(lab, f"dip add web b1 {lab.address('b1')}")
    lab.wait_up(["b1", "b2"])
    for d in downloads:
        with contextlib.suppress(OSError):
            d.connection.sock.shutdown(2)


def test_state(lab):
    lab.count_connections(20)
    out = ctl(lab, "status")
    assert "concuryd " in out and ", ready, up " in out and "eth0" in out, out
    assert json.loads(ctl(lab, "status -o json"))["ready"] is True
    out = ctl(lab, "counters")
    assert re.search(r"^eth0 +\d", out, re.M) and re.search(r"^web +\(all\) +\d", out, re.M), out
    assert set(json.loads(ctl(lab, "counters -o json"))) == set(lab.counters())
    assert re.search(r"^violations_total +0$", ctl(lab, "consistency"), re.M)
    assert set(json.loads(ctl(lab, "consistency -o json"))) == set(lab.consistency())
    assert re.search(r"^flows_misplaced +0$", ctl(lab, "audit"), re.M)
    assert json.loads(ctl(lab, "audit -o json"))["flows_misplaced"] == 0
    out = ctl(lab, f"explain web {lib.CLIENT4} 1234")
    assert re.match(r"b[12]: where its hash says, not known \(Dcode \d+, generation \d+\)$", out), out
    same(lab, f"explain web {lib.CLIENT4} 1234", f"/v1/explain?vip=web&src={lib.CLIENT4}&sport=1234")
    with lib.Connection(lab, VIP4) as kept:
        at = kept.get("/name").backend
        ports = wait_until("the flow is known", lambda: re.findall(
            rf"^{lib.CLIENT4} +{kept.sport} +80 +tcp +{at} +established +- ", ctl(
                lab, f"flows web --client {lib.CLIENT4} --state established --dip {at}"), re.M))
        assert len(ports) == 1, ports
    assert ctl(lab, "flows web --pinned --client 192.0.2.1") == "no flows\n"
    assert ctl(lab, "flows web --limit 1").endswith("(there are more: see --limit)\n")
    pages = ctl(lab, "flows web --limit 3 -o json")
    assert len(json.loads(pages)["items"]) == 3, pages
    assert "--limit 0: 1 to" in ctl(lab, "flows web --limit 0", USAGE)
    assert "sport" in ctl(lab, f"explain web {lib.CLIENT4} x", FAILED)
    assert re.search(r"^weight +65535$", ctl(lab, "limits"), re.M)
    same(lab, "limits", "/v1/limits")


def test_config(lab):
    file = lab.dir / "config.json"
    file.write_text(ctl(lab, "config get"))
    same(lab, "config get", "/v1/config")
    # Applied twice, and as it is, it changes nothing.
    assert ctl(lab, f"config apply -f {file}") == "nothing to change\n"
    assert ctl(lab, f"config apply -f {file} --dry-run") == "nothing would change\n"
    assert ctl(lab, f"apply -f {file} --dry-run") == "nothing would change\n"
    config = json.loads(file.read_text())
    web = config["vips"][0]
    web["closing_pin_s"] = 33
    web["dips"] = [{**web["dips"][0], "weight": 4}]
    config["vips"].append({"id": "dns", "address": VIP4, "port": 53, "protocol": "udp",
                           "dips": [{"id": "d1", "address": lab.address("b1")}]})
    file.write_text(json.dumps(config))
    before = lab.api.get("/v1/config")
    out = ctl(lab, f"config apply -f {file} --dry-run", DIFFERS)
    for line in ("~ vip web  closing_pin_s: 25 -> 33", "~ dip web/b1  weight: 1 -> 4", "- dip web/b2",
                 '+ vip dns  address: "10.9.0.100"  port: 53  protocol: "udp"', "+ dip dns/d1"):
        assert re.search("^" + re.escape(line), out, re.M), (line, out)
    assert re.search(r"^ +d1 +create +1024 +0 +100.0% *$", out, re.M), out
    plan = json.loads(ctl(lab, f"config apply -f {file} --dry-run -o json", DIFFERS))["plan"]
    assert {v["id"]: v["action"] for v in plan["vips"]} == {"web": "change", "dns": "create"}, plan
    assert "- dip" not in ctl(lab, f"config apply -f {file} --dry-run --prune=none", DIFFERS)
    ctl(lab, f"config apply -f {file}", USAGE)  # it shows the differences, too
    assert lab.api.get("/v1/config") == before
    out = ctl(lab, f"config apply -f - --yes --prune remove", stdin=file.read_text())
    assert "vips: 1 created, 1 changed, " in out, out
    assert set(lab.dips()) == {"b1"} and lab.dips("dns")["d1"]["weight"] == 1
    assert "nothing to change" in ctl(lab, f"config apply -f {file} --yes")
    code, shown = on_terminal(lab, f"config apply -f {file}", b"", rb"nothing to change")
    assert code == OK, shown
    # Members that are not named.
    del config["vips"][0]["closing_pin_s"]
    file.write_text(json.dumps(config))
    assert "get their defaults" in ctl(lab, f"config apply -f {file} --dry-run", DIFFERS)
    assert "HTTP 412" in ctl(lab, f"config apply -f {file} --yes --if-match \"x\"", CONFLICT)
    # What is wrong with a file is said with its place.
    file.write_text('{\n  "vips": [}')
    err = ctl(lab, f"config apply -f {file}", FAILED)
    assert f"{file}:2:12: " in err, err
    assert "standard input:1:" in ctl(lab, "config apply -f -", FAILED, stdin="")
    assert "nonexistent" in ctl(lab, "config apply -f /nonexistent", FAILED)
    assert "/vips/0/port: " in ctl(lab, "config apply -f -", FAILED, stdin='{"vips": [{"id": "x"}]}')
    ctl(lab, "config apply", USAGE)
    ctl(lab, "config apply -f - --yes --prune=remove", stdin=json.dumps(before))
    lab.wait_up(["b1", "b2"])


def test_history(lab):
    same(lab, "config versions", "/v1/config/versions")
    same(lab, "audit-log", "/v1/audit-log")
    ctl(lab, "dip set web b1 weight=7")
    header, last, *_ = ctl(lab, "config versions --limit 2").splitlines()
    version = int(last.split()[0])
    assert header.split()[0] == "VERSION" and "PATCH /v1/vips/web/dips/b1" in last, (header, last)
    assert ctl(lab, f"config diff {version}", DIFFERS) == "~ dip web/b1  weight: 1 -> 7\n"
    assert "weight" in ctl(lab, f"config diff {version - 1} {version} -o json", DIFFERS)
    assert json.loads(ctl(lab, f"config show {version}")) == lab.api.get("/v1/config")
    assert "~ dip web/b1  weight: 7 -> 1" in ctl(lab, f"config rollback {version - 1} -n", DIFFERS)
    ctl(lab, f"config rollback {version - 1}", USAGE)
    assert lab.dips()["b1"]["weight"] == 7
    assert "dips: 0 created, 1 changed" in ctl(lab, f"config rollback {version - 1} --yes")
    assert lab.dips()["b1"]["weight"] == 1
    row = ctl(lab, "audit-log --path /v1/vips/web/dips/b1 --limit 1").splitlines()[1]
    assert "rollback" in row and "uid:0" in row, row
    assert ctl(lab, "audit-log --author nobody") == "nothing was changed\n"
    ctl(lab, "config show 999999", FAILED)
    ctl(lab, "config rollback x", USAGE)


def test_health(lab):
    out = ctl(lab, "health override web b1 down --reason x --dry-run")
    assert out.startswith("would be overridden") and re.search("^ +b1 +change +0 ", out, re.M), out
    assert lab.dips()["b1"]["state"] == "up"
    ctl(lab, ["health", "override", "web", "b1", "down", "--reason", "disk full", "--ttl", "600"])
    assert re.search(r"^b1 +down .* down: disk full", ctl(lab, "health show web"), re.M)
    assert lab.dips()["b1"]["state"] == "down"
    out = ctl(lab, "health show web b1")
    assert re.search(r"^override.reason +disk full$", out, re.M) and re.search("^20.* +down +", out, re.M)
    same(lab, "health show web b1", "/v1/vips/web/dips/b1/health")
    assert "/state: " in ctl(lab, "health override web b1 sideways --reason x", FAILED)
    ctl(lab, "health clear web b1")
    assert lab.dips()["b1"]["state"] == "up"


def test_events(lab):
    follow = subprocess.Popen([CTL, "--url", f"unix:{lab.socket}", "events", "-f", "--kind", "change"],
                              stdout=subprocess.PIPE, text=True)
    try:
        # What happens before the stream begins is not told of.
        for weight in range(5, 100):
            ctl(lab, f"dip set web b2 weight={weight}")
            if select.select([follow.stdout], [], [], 0.2)[0]:
                break
        line = follow.stdout.readline()
        assert re.match(r"20\d\d-\S+Z  change +", line) and "web" in line, line
    finally:
        follow.terminate()
        follow.wait(5)
    ctl(lab, "dip set web b2 weight=3")
    lines = ctl(lab, "events").splitlines()
    assert any("  change " in e for e in lines) and any("  publish " in e for e in lines), lines
    events = [json.loads(e) for e in ctl(lab, "events --since 0 --kind publish -o json").splitlines()]
    assert events and all(e["kind"] == "publish" for e in events), events
    assert "kind" in ctl(lab, "events --kind nonsense", FAILED)


def test_trace(lab):
    trace = subprocess.Popen([CTL, "--url", f"unix:{lab.socket}", "trace", "web", "--packets", "2",
                              "--seconds", "10"], stdout=subprocess.PIPE)
    covered.add("trace")
    data = os.read(trace.stdout.fileno(), 65536)  # its head: it listens
    lab.get()
    data += trace.communicate(timeout=20)[0]
    assert trace.returncode == OK and data[:4] == b"\x0a\x0d\x0d\x0a" and len(data) > 300, data
    assert "no VIP" in ctl(lab, "trace none", FAILED)


def on_terminal(lab, line, keys, until, rows=24, columns=80):
    """Run on a terminal of its own, send keys once `until` was shown; (exit code, what was shown)."""
    covered.update((line.split()[0], " ".join(line.split()[:2])))
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    before = termios.tcgetattr(slave)
    p = subprocess.Popen([CTL, "--url", f"unix:{lab.socket}", *line.split()], stdin=slave, stdout=slave,
                         stderr=slave, env={**os.environ, "TERM": "xterm"}, start_new_session=True,
                         preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    shown, sent, end = b"", False, time.monotonic() + 15
    while p.poll() is None and time.monotonic() < end:
        if select.select([master], [], [], 0.05)[0]:
            shown += os.read(master, 65536)
        if not sent and re.search(until, shown):
            os.write(master, keys)
            sent = True
    while select.select([master], [], [], 0.05)[0]:
        shown += os.read(master, 65536)
    with contextlib.suppress(ProcessLookupError):
        p.kill()
    p.wait()
    assert sent, shown[-2000:]
    assert termios.tcgetattr(slave) == before, "the terminal is not as it was"
    os.close(master)
    os.close(slave)
    return p.returncode, shown.decode()


def test_top(lab):
    out = ctl(lab, "top --interval 0.2")
    assert "concuryd " in out and re.search(r"^ +b1 +up ", out, re.M) and "\033" not in out, out
    code, shown = on_terminal(lab, "top --interval 0.2", b"jkq", rb"(?s)violations.*violations.*b2 +up")
    assert code == OK and shown.startswith("\033[?1049h") and shown.endswith("\033[?1049l"), shown
    for frame in shown.split("\033[H")[1:]:
        lines = re.sub(r"\033\[[0-9;?]*[a-zA-Z]", "", frame).split("\r\n")
        assert len(lines) <= 24 and all(len(text) <= 80 for text in lines), frame
    assert on_terminal(lab, "top --interval 0.2", b"\x03", rb"violations")[0] == OK


def test_asking(lab):
    """On a terminal it asks; anything but a yes changes nothing."""
    ctl(lab, f"vip create asked {VIP4}:82")
    code, shown = on_terminal(lab, "vip delete asked --force", b"no\n", rb"\[y/N\] ")
    assert code == FAILED and "nothing was changed" in shown, shown
    ctl(lab, "vip show asked")
    code, shown = on_terminal(lab, "vip delete asked --force", b"y\n", rb"\[y/N\] ")
    assert code == OK and "removed" in shown, shown
    ctl(lab, "vip show asked", FAILED)


def test_own_use(lab):
    """A VIP that takes this host's own connections is made as asked, and the one who asks is told."""
    with clients.inside(lab.ns("lb")):
        listener = socket.create_server((LB4, 2222))
    with clients.inside(lab.ns("client")):
        there = socket.create_connection((LB4, 2222))
    here, _ = listener.accept()
    told = f"warning: {LB4} takes packets of 1 open connection of this host itself (port 2222)"
    with here, there, listener:
        assert told not in ctl(lab, f"vip create other {LB4}:80")
        assert told in ctl(lab, f"vip create all {LB4}:0 protocol=any --dry-run")
        assert told in ctl(lab, f"vip create all {LB4}:0 protocol=any")
        assert f"VIP all: {LB4} takes packets of 1" in ctl(lab, "doctor")
    for vip in ("all", "other"):
        lab.api.delete(f"/v1/vips/{vip}?force=true")


def test_doctor(lab):
    out = ctl(lab, "doctor")
    assert re.search(r"^ok +kernel: ", out, re.M) and re.search(r"^ok +eth0: XDP mode", out, re.M), out
    assert re.search(r"^ok +DIPs: 2 of 2 can be reached$", out, re.M), out
    assert re.search(r"^0 blocking, \d+ to note$", out, re.M), out
    lab.api.put("/v1/vips/web/dips/far", {"address": "203.0.113.9", "weight": 0})
    lab.api.put("/v1/vips/web/dips/silent", {"address": "10.9.0.250", "weight": 0})
    lab.run("lb", "ip", "addr", "del", f"{VIP4}/32", "dev", "eth0")
    answer = json.loads(ctl(lab, "doctor -o json"))
    notes = {i["text"].split(":")[0]: i["command"] for i in answer["items"] if i["rank"] == "note"}
    assert "ip route add 203.0.113.9" in notes["DIP web/far"], notes
    assert "ping -c 3 10.9.0.250" in notes["DIP web/silent"], notes
    lab.run("lb", *notes["VIP web"].split())
    for dip in ("far", "silent"):
        lab.api.delete(f"/v1/vips/web/dips/{dip}?force=true")
    assert "VIP web: 10.9.0.100 is on an interface" in ctl(lab, "doctor")
    assert "concuryd --check" in ctl(lab, "doctor", UNREACHABLE, url="unix:/nonexistent.sock")


def test_completion(lab):
    ctl(lab, "complete -- vip")
    assert ctl(lab, "completion bash") == subprocess.run(
        [CTL, "completion", "bash"], stdout=subprocess.PIPE, text=True, check=True).stdout
    script = lab.dir / "complete.sh"
    script.write_text(f"""
        PATH={CTL.parent}:$PATH
        source <(concuryctl completion bash) || exit 1
        compopt() {{ :; }}
        while IFS= read -r COMP_LINE; do
            COMP_POINT=${{#COMP_LINE}}
            _concuryctl
            echo "${{COMPREPLY[*]}}"
        done
    """)
    cases = [("concuryctl vi", "vip"), ("concuryctl vip sh", "show"), ("concuryctl vip show ", "web"),
             ("concuryctl dip show web ", "b1 b2"), ("concuryctl dip set web b2 wei", "weight="),
             ("concuryctl dip set web b2 admin_state=", "up down"), ("concuryctl -o j", "json"),
             ("concuryctl dip drain web b1 --dr", "--dry-run"), ("concuryctl config apply --prune=r", "remove"),
             (f"concuryctl --url unix:{lab.socket} vip show w", "web"),
             ("concuryctl --url unix:/nonexistent.sock vip show ", ""), ("concuryctl nonsense ", "")]
    r = subprocess.run(["bash", "--norc", script], input="".join(c + "\n" for c, _ in cases), text=True,
                       capture_output=True, timeout=30, check=True,
                       env={**os.environ, "CONCURY_URL": f"unix:{lab.socket}"})
    assert r.stdout.splitlines() == [wanted for _, wanted in cases], (r.stdout, r.stderr)


def test_members(lab):
    """What completion offers as members of VIPs and DIPs, the API knows."""
    known = set(re.findall(r"(\w+):", (lib.ROOT / "schema" / "openapi.yaml").read_text()))
    for line in (["vip", "set", "web", ""], ["dip", "set", "web", "b1", ""]):
        names = ctl(lab, ["complete", "--", *line]).split()
        parts = {p for n in names for p in n.rstrip("=").split(".")}
        assert len(parts) > 2 and not parts - known, parts - known
    ctl(lab, "vip set web health.type=tcp health.interval_ms=1000")
    assert lab.api.get("/v1/vips/web")["health"]["type"] == "tcp"
    ctl(lab, "vip set web health=null")


def test_man_pages(lab):
    pages = sorted((lib.BUILD / "man").glob("*.[18]"))
    assert [p.name for p in pages] == ["concury-agent.8", "concuryctl.1", "concuryd.8"], pages
    for page in pages:
        r = subprocess.run(["groff", "-man", "-ww", "-Tascii", "-P-bcou", page], capture_output=True,
                           text=True, check=True)
        assert r.stderr == "", r.stderr
        program = lib.BUILD / "bin" / page.stem
        options = set(re.findall(r"^  (?:-\w, |    )?(--[a-z-]+)", subprocess.run(
            [program, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout, re.M))
        assert len(options) > 5 and not [o for o in options if o not in r.stdout], \
            (page, options)
    assert ctl(lab, "--version").startswith("concuryctl ")
    assert ctl(lab, "man") == (lib.BUILD / "man" / "concuryctl.1").read_text()


def test_access(lab):
    """Tokens, over TCP and TLS."""
    http, https = "http://127.0.0.1:8080", "https://127.0.0.1:8443"
    token = ctl(lab, "token create watcher --role read").strip()
    assert re.fullmatch(r"concury_[0-9a-f]{64}", token), token
    rows = ctl(lab, "token list").splitlines()
    assert rows[1].split()[:3] == ["watcher", "read", "database"], rows
    same(lab, "token list", "/v1/tokens")
    assert "HTTP 401" in ctl(lab, "vip list", FAILED, url=http, netns="lb")
    ctl(lab, "vip list", url=http, netns="lb", env={"CONCURY_TOKEN": token})
    (lab.dir / "token").write_text(token + "\n")
    ctl(lab, f"vip list --token-file {lab.dir}/token", url=http, netns="lb")
    assert "HTTP 403" in ctl(lab, "vip set web closing_pin_s=20", FAILED, url=http, netns="lb",
                             env={"CONCURY_TOKEN": token})
    ctl(lab, f"vip list --ca-file {lab.dir}/cert.pem --token {token}", url=https, netns="lb")
    assert "certificate" in ctl(lab, f"vip list --token {token}", UNREACHABLE, url=https, netns="lb")
    assert "--yes" in ctl(lab, "token delete watcher", USAGE)
    ctl(lab, "token delete watcher -y")
    assert ctl(lab, "token list") == "no tokens\n"


def test_descriptors(lab):
    """Closed and full ones do no harm, and are told of."""
    for closed in ("<&-", "<&- 2>&-"):
        out = subprocess.run(["bash", "-c", f"{CTL} --url unix:{lab.socket} vip list {closed}"],
                             stdout=subprocess.PIPE, text=True, timeout=20, check=True).stdout
        assert "web" in out, out
    r = subprocess.run(["bash", "-c", f"{CTL} --url unix:{lab.socket} vip list > /dev/full"],
                       stderr=subprocess.PIPE, text=True, timeout=20)
    assert r.returncode == FAILED and "cannot be written" in r.stderr, r


def test_every_command(lab):
    """None was left out above."""
    table = re.findall(r"^  ([a-z][a-z-]+(?: [a-z]+)?)", ctl(lab, "--help"), re.M)
    assert len(table) > 25, table
    missing = [c for c in table if c not in covered]
    assert not missing, missing


if __name__ == "__main__":
    lib.main("ctl", [
        test_vips_and_dips, test_refusals, test_drain_and_cut, test_state, test_config, test_history, test_health, test_events, test_trace, test_top,
        test_asking, test_own_use, test_doctor, test_completion, test_members, test_man_pages, test_access, test_descriptors,
        test_every_command,
    ], setup, backends=2)
