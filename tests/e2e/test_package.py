#!/usr/bin/python3
"""The Debian packages, installed on a fresh Debian and run there by its own systemd in the sandbox of their units: real
traffic, `systemctl restart` under downloads, an upgrade while it runs, removal and purge. And `make install`."""

import json
import os
import re
import shutil
import subprocess
import time

import lib
import machines
from lib import VIP4

WEIGHTS = {"b1": 3, "b2": 2, "b3": 1}
RATE = 40 << 10  # bytes a second, until a test is done
DEFAULTS = "/etc/default/concury"
API = "/run/concury/api.sock"
BUILD = os.environ.get("BUILD", "build")
# The figure of systemd-analyze: of 3.3 what is left are SYS_ADMIN, NET_ADMIN, the network, and root as the user.
EXPOSURE = {"concury.service": 34, "concury-agent.service": 26}


def make(*argv):
    return lib.sh("make", "--no-print-directory", "-C", lib.ROOT, f"BUILD={BUILD}", *argv, timeout=170)


def commit():
    return (lib.BUILD / "gen" / "commit").read_text().strip()


def setup(lab):
    lab.start_backends()
    lab.debs = [lib.ROOT / line for line in make("deb").split() if line.endswith(".deb")]
    assert [d.name.split("_")[0] for d in lab.debs] == ["concury-agent", "concury"], lab.debs
    # Beside all that follows. Whose address the packages bear is the builder's affair.
    lab.lintian = subprocess.Popen(
        ["lintian", "--allow-root", "--fail-on", "error,warning", "--suppress-tags",
         "bogus-mail-host,bogus-mail-host-in-debian-changelog", *lab.debs],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lab.processes.append(lab.lintian)
    lab.machine = machines.Machine(lab, "lb")
    lab.api = lib.Api(lab.machine.path(API))
    lab.log_tail = lambda: service_log(lab)
    for deb in lab.debs:
        shutil.copy(deb, lab.machine.path("/tmp"))


def service_log(lab, lines=30):
    return lab.machine.run("journalctl", "--no-pager", "-n", lines, "-u", "concury", check=False)


def start(lab):
    try:
        lab.machine.run("systemctl", "start", "concury")
    except RuntimeError as e:
        raise AssertionError(f"{e}\n{service_log(lab)}") from None


def process(lab):
    return int(lab.machine.prop("concury", "MainPID")["MainPID"])


def attached(lab):
    link, = json.loads(lab.run("lb", "ip", "-j", "link", "show", "eth0"))
    return "xdp" in link


def test_lintian(lab):
    """Nothing that Debian calls an error or warns of."""
    out, _ = lab.lintian.communicate(timeout=120)
    assert lab.lintian.returncode == 0 and not re.search(r"^[EW]: ", out, re.M), out


def test_install(lab):
    """By apt, which gets what they depend on; nothing is started unasked."""
    m = lab.machine
    m.run("apt-get", "install", "-q", "-y", "--no-install-recommends",
          *(f"/tmp/{d.name}" for d in lab.debs), online=True)
    assert m.run("dpkg", "--verify", "concury", "concury-agent") == ""
    version = (lib.ROOT / "VERSION").read_text().strip()
    for program in ("concuryd", "concury-agent", "concuryctl"):
        assert m.run(program, "--version") == f"{program} {version} ({commit()})\n"
    assert process(lab) == 0 and not attached(lab)
    # The steer program beside the programs is the one within.
    steer = m.path("/usr/lib/concury/steer.bpf.o").read_bytes()
    assert steer[:4] == b"\x7fELF" and steer in m.path("/usr/sbin/concuryd").read_bytes()
    for page in ("man1/concuryctl.1", "man8/concuryd.8", "man8/concury-agent.8"):
        assert m.run("gzip", "-dc", f"/usr/share/man/{page}.gz").startswith(".TH "), page
    described = json.loads(m.path("/usr/share/concury/openapi.json").read_text())
    assert described["paths"] and m.path("/usr/share/concury/web/index.html").exists()
    words = m.run("bash", "-c", ". /usr/share/bash-completion/completions/concuryctl; "
                  "COMP_LINE='concuryctl vip l' COMP_POINT=16; _concuryctl; echo ${COMPREPLY[@]}")
    assert words == "list\n", words
    active = [line for line in m.path("/etc/sysctl.d/60-concury.conf").read_text().splitlines()
              if line.strip() and not line.startswith("#")]
    assert not active, f"settings that nobody asked for: {active}"


def test_units(lab):
    """No word in them that systemd does not know, and little that it finds to say about the sandboxes."""
    root = lab.machine.path("/")
    for unit, limit in EXPOSURE.items():
        path = lab.machine.path(f"/usr/lib/systemd/system/{unit}")
        out = lib.sh("systemd-analyze", "verify", "--man=no", f"--root={root}", unit)
        assert out == "", out
        out = lib.sh("systemd-analyze", "security", "--offline=true", f"--threshold={limit}", path)
        print(f"    {out.strip().splitlines()[-1]}")


def test_not_configured(lab):
    """Without an interface it says what is missing, and does not try again and again."""
    m = lab.machine
    assert "exit 1" in m.run("sh", "-c", "systemctl start concury || echo exit $?")
    time.sleep(0.5)
    state = m.prop("concury", "ActiveState", "NRestarts", "ExecMainStatus")
    assert state == {"ActiveState": "failed", "NRestarts": "0", "ExecMainStatus": "2"}, state
    assert "--interface is needed" in service_log(lab)


def test_forwards(lab):
    """Configured and started: `systemctl start` returns when it forwards, in the sandbox of the unit."""
    m = lab.machine
    path = m.path(DEFAULTS)
    path.write_text(path.read_text().replace(
        'OPTIONS=""', f'OPTIONS="--interface eth0 --flows 100000 --listen unix:{API} --listen 127.0.0.1:8080"'))
    start(lab)
    status = lab.api.get("/v1/status")
    assert status["ready"] is True, status
    assert status["version"] == (lib.ROOT / "VERSION").read_text().strip() and status["commit"] == commit()
    lab.put_vip()
    lab.put_dips(WEIGHTS)
    lib.assert_shares(lab.count_connections(600), WEIGHTS)
    m.run("systemctl", "enable", "--now", "concury")
    assert "web " in m.run("concuryctl", "vip", "list")
    page = lab.run("lb", "curl", "-sS", "--fail", "http://127.0.0.1:8080/")
    assert "<title>" in page
    # What the unit's sandbox promises, of the process itself.
    pid = process(lab)
    fields = dict(line.split(":\t", 1) for line in m.path(f"/proc/{pid}/status").read_text().splitlines()
                  if ":\t" in line)
    kept = (1 << 12) | (1 << 13)  # NET_ADMIN, NET_RAW
    assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == int(fields["CapBnd"], 16) == kept, fields
    assert fields["NoNewPrivs"] == "1" and fields["Seccomp"] == "2", fields
    inside = f"nsenter -t {pid} --mount sh -c"
    for place in ("/usr", "/etc", "/proc/sys/net/ipv4/ip_forward"):
        out = m.run("sh", "-c", f"{inside} 'test -w {place} && echo writable || true'")
        assert out == "", place
    lab.assert_consistent()


def test_restart(lab):
    """`systemctl restart`, three times, under downloads and with silent connections, with pool changes between; and
    one of a process that was killed. Every checksum is right, and nobody is elsewhere afterwards."""
    m = lab.machine
    downloads = [lib.Download(lab, VIP4, RATE) for _ in range(40)]
    idle = [lib.Connection(lab, VIP4) for _ in range(30)]
    homes = [c.get("/name").backend for c in idle]
    pauses = []
    for weight in (1, 6, 2):
        began = time.monotonic()
        m.run("systemctl", "restart", "concury")
        pauses.append(time.monotonic() - began)
        status = lab.api.get("/v1/status")
        assert status["state_file"] == "kept" and status["ready"] is True, status
        change = lab.api.patch("/v1/vips/web/dips/b2", {"weight": weight})["change"]
        assert change["flows_moved"] == 0, change
        assert [c.get("/name").backend for c in idle] == homes
    pid = process(lab)
    m.run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", "concury")
    lib.wait_until("systemd starts it again", lambda: process(lab) not in (0, pid), 20)
    lib.wait_until("ready", lambda: m.prop("concury", "ActiveState")["ActiveState"] == "active", 20)
    assert [c.get("/name").backend for c in idle] == homes
    for d in downloads:
        d.finish()
    c = lab.consistency()
    assert c["violations_total"] == 0 and c["flows_lost_total"] == 0, c
    assert lab.resets_sent() == 0
    for c in idle:
        c.close()
    print(f"    systemctl restart took {max(pauses):.2f} s at most; 40 downloads, 30 silent connections, none lost")


def test_reload(lab):
    pid = process(lab)
    lab.machine.run("systemctl", "reload", "concury")
    lib.wait_until("SIGHUP in the log", lambda: "SIGHUP: tokens and certificates" in service_log(lab))
    assert process(lab) == pid


def test_agent(lab):
    """The other service, without root's rights."""
    m = lab.machine
    lab.put_vip("spare", port=81)
    lab.api.put("/v1/vips/spare/dips/b1", {"address": lab.address("b1"), "weight": 1})
    token = lab.api.put("/v1/agents/rack1", {"vip": "spare", "dip": "b1"})["token"]
    m.run("install", "-d", "-m", "700", "/etc/concury")
    m.run("install", "-m", "600", "/dev/null", "/etc/concury/agent.token")
    m.path("/etc/concury/agent.token").write_text(token + "\n")
    path = m.path("/etc/default/concury-agent")
    path.write_text(path.read_text().replace(
        'OPTIONS=""', 'OPTIONS="--url http://127.0.0.1:8080 --agent rack1 --interval 100"'))
    m.run("systemctl", "start", "concury-agent")

    def told():
        agent, = lab.api.get("/v1/agents")["items"]
        return agent["reports_total"] > 2
    try:
        lib.wait_until("reports", told)
    except AssertionError as e:
        raise AssertionError(f"{e}: {m.run('journalctl', '--no-pager', '-u', 'concury-agent')}") from None
    pid = m.prop("concury-agent", "MainPID")["MainPID"]
    rights = re.search(r"^CapEff:\t(.*)$", m.path(f"/proc/{pid}/status").read_text(), re.M).group(1)
    assert int(rights, 16) == 1 << 13, rights
    assert "CAP_NET_RAW" not in m.run("journalctl", "--no-pager", "-u", "concury-agent")
    m.run("systemctl", "stop", "concury-agent")
    lab.api.delete("/v1/vips/spare?force=true")


def test_upgrade(lab):
    """A package put over itself while downloads run: the new one goes on with their connections."""
    m = lab.machine
    downloads = [lib.Download(lab, VIP4, RATE) for _ in range(10)]
    pid = process(lab)
    mine = m.path(DEFAULTS).read_text()
    m.run("apt-get", "install", "-q", "-y", "--reinstall", *(f"/tmp/{d.name}" for d in lab.debs))
    assert process(lab) not in (0, pid)
    assert lab.api.get("/v1/status")["state_file"] == "kept"
    assert m.path(DEFAULTS).read_text() == mine
    for d in downloads:
        d.finish()
    assert lab.consistency()["violations_total"] == 0 and lab.resets_sent() == 0


def test_remove(lab):
    """Removing leaves database and configuration, and no XDP program; put back, all is as it was. Purging leaves
    nothing."""
    m = lab.machine
    config = lab.api.get("/v1/config")
    m.run("apt-get", "remove", "-q", "-y", "concury")
    assert not attached(lab)
    assert not m.path("/usr/sbin/concuryd").exists() and not m.path("/usr/share/concury").exists()
    assert m.path("/var/lib/concury/concury.db").exists() and m.path(DEFAULTS).exists()
    m.run("apt-get", "install", "-q", "-y", "--no-install-recommends", f"/tmp/{lab.debs[1].name}")
    start(lab)
    assert lab.api.get("/v1/config") == config
    assert lab.get().status == 200
    m.run("apt-get", "purge", "-q", "-y", "concury", "concury-agent")
    for path in ("/var/lib/concury", "/dev/shm/concury", DEFAULTS, "/etc/sysctl.d/60-concury.conf"):
        assert not m.path(path).exists(), path
    assert not attached(lab) and "concury" not in m.run("systemctl", "list-unit-files")


def test_make_install(lab):
    """`make install` keeps configuration that is there; `make uninstall` leaves that and nothing else."""
    where = [f"DESTDIR={lab.dir}/installed", "PREFIX=/opt/concury"]
    root = lab.dir / "installed"
    make("install", *where)
    ours = root / "etc/default/concury"
    ours.write_text("CONCURYD_OPTIONS=\"--interface lan0\"\n")
    make("install", *where)
    assert "lan0" in ours.read_text()
    unit = (root / "opt/concury/lib/systemd/system/concury.service").read_text()
    assert "ExecStart=/opt/concury/sbin/concuryd $CONCURYD_OPTIONS\n" in unit and "dir@" not in unit
    assert lib.sh(root / "opt/concury/sbin/concuryd", "--version").startswith("concuryd ")
    database = root / "var/lib/concury/concury.db"
    database.parent.mkdir(parents=True)
    database.write_bytes(b"kept")
    make("uninstall", *where)
    left = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
    assert left == ["etc/default/concury", "etc/default/concury-agent", "etc/sysctl.d/60-concury.conf",
                    "var/lib/concury/concury.db"], left


if __name__ == "__main__":
    machines.prepare()
    lib.LIMIT_S = 400  # packages are installed five times
    lib.main("package", [
        test_install, test_units, test_not_configured, test_forwards, test_restart, test_reload,
        test_agent, test_upgrade, test_remove, test_make_install, test_lintian,
    ], setup)
