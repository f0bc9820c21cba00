#!/usr/bin/python3
"""Start-up errors: exit 1, one clear line that names the culprit, nothing attached, nothing broken.
And --check, which says them beforehand."""

import json
import os
import shutil
import sqlite3

import lib

def setup(lab):
    # A database with something in it, made by the daemon itself.
    lab.start_daemon()
    lab.put_vip()
    lab.put_dips({"b1": 1})
    assert lab.stop_daemon() == 0
    assert lab.run_daemon("--detach", "--interface", "eth0")[0] == 0


def attached(lab, name="eth0"):
    link, = json.loads(lab.run("lb", "ip", "-j", "link", "show", name))
    return "xdp" in link


def refused(lab, argv, *words, code=1):
    """concuryd refuses to start: this exit code (2: the command line), one line of error with these words in it."""
    got, out = lab.run_daemon(*argv)
    lines = out.strip().splitlines()
    assert got == code, (argv, got, out)
    assert [line for line in lines if line.startswith("concuryd: error: ")] == lines[-1:], (argv, out)
    for word in words:
        assert word in lines[-1], (argv, word, lines[-1])
    assert not attached(lab), argv


def test_bad_options(lab):
    ok = ["--interface", "eth0", "--listen", f"unix:{lab.socket}", "--database", lab.database,
          "--state-dir", lab.state_dir]
    for argv, words in (
            ([], ["--interface"]), (["--nonsense"], ["--nonsense"]), (["eth0"], ["eth0"]),
            (["--interface"], ["--interface"]), ([*ok, "--interface", "eth0"], ["eth0", "twice"]),
            ([*ok, "--workers", "0"], ["--workers 0"]), ([*ok, "--workers", "-1"], ["--workers -1"]),
            ([*ok, "--workers", "two"], ["--workers two"]),
            ([*ok, "--workers", "99999999999999999999"], ["--workers"]),
            ([*ok, "--flows", "0"], ["--flows 0"]), ([*ok, "--flows", "1e6"], ["--flows 1e6"]),
            ([*ok, "--flows", "99999999999999"], ["flows"]),
            ([*ok, "--xdp-mode", "fast"], ["--xdp-mode fast", "copy"]),
            ([*ok, "--checksum", "on"], ["--checksum on", "auto"]),
            ([*ok, "extra"], ["extra"])):
        refused(lab, argv, *words, code=2)
    # What this machine lacks, another may have.
    refused(lab, [*ok, "--workers", "2"], "worker")
    refused(lab, [*ok, "--xdp-mode", "zerocopy"], "eth0", "zero-copy")


def test_bad_listeners(lab):
    base = ["--interface", "eth0", "--database", lab.database, "--state-dir", lab.state_dir]
    occupied = lab.dir / "occupied"
    occupied.write_text("not a socket\n")
    for spec in ("8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:http", ":8080",
                 "0.0.0.0:8080", "[::]:8080", f"{lab.address('lb')}:8080", "example.com:80", "unix:",
                 "unix:/nonexistent/api.sock", "unix:" + "/x" * 200, f"unix:{occupied}"):
        refused(lab, [*base, "--listen", spec], "--listen")
    assert occupied.read_text() == "not a socket\n"


def test_bad_interfaces(lab):
    ok = lab.daemon_argv()[3:]
    refused(lab, ["--interface", "nosuch0", *ok], "nosuch0")
    refused(lab, ["--interface", "eth0", "--interface", "nosuch0", *ok], "nosuch0")
    refused(lab, ["--interface", "x" * 40, *ok], "x" * 15)
    # Somebody else's XDP program stays.
    lab.run("lb", "ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
    other = lab.dir / "other.bpf.o"
    source = lab.dir / "other.bpf.c"
    source.write_text('#define SEC(n) __attribute__((section(n), used))\n'
                      'SEC("xdp") int other(void *ctx) { return 2; }\n'
                      'char LICENSE[] SEC("license") = "GPL";\n')
    lib.sh("clang", "-O2", "-g", "-target", "bpf", "-c", source, "-o", other)
    lab.run("lb", "ip", "link", "set", "dev", "v0", "xdp", "obj", other, "sec", "xdp")
    refused(lab, ["--interface", "v0", *ok], "v0")
    refused(lab, ["--interface", "eth0", "--interface", "v0", *ok], "v0")
    assert attached(lab, "v0")
    code, out = lab.run_daemon("--detach", "--interface", "v0")
    assert code == 1 and "v0" in out and attached(lab, "v0"), (code, out)
    lab.run("lb", "ip", "link", "del", "v0")


def with_database(lab, path):
    return ["--interface", "eth0", "--database", path, "--state-dir", lab.state_dir, "--listen",
            f"unix:{lab.socket}"]


def test_bad_databases(lab):
    """Each is refused and left as it was."""
    whole = lab.database.read_bytes()
    bad = lab.dir / "bad"
    bad.mkdir()

    def copy(name):
        shutil.copy(lab.database, bad / name)
        return bad / name
    newer = copy("newer.db")
    db = sqlite3.connect(newer)
    version = db.execute("PRAGMA user_version").fetchone()[0]
    assert version >= 1
    db.execute("PRAGMA journal_mode=DELETE")
    db.execute(f"PRAGMA user_version = {version + 7}")
    db.commit()
    db.close()
    truncated, garbled = copy("truncated.db"), copy("garbled.db")
    truncated.write_bytes(whole[:len(whole) // 2])
    garbled.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))
    (bad / "text.db").write_text("vips: [web]\n")
    sqlite3.connect(bad / "foreign.db").execute("CREATE TABLE t (x)").connection.close()
    (bad / "folder.db").mkdir()
    kept = {p: p.read_bytes() for p in bad.iterdir() if p.is_file()}
    for path, words in ((newer, [str(version + 7), "newer"]), (truncated, []), (garbled, []),
                        (bad / "text.db", []), (bad / "foreign.db", ["not Concury"]),
                        (bad / "folder.db", []), (bad / "none" / "concury.db", ["none"])):
        refused(lab, with_database(lab, path), str(path), *words)
    for p, was in kept.items():
        assert p.read_bytes() == was, f"{p} was changed"
    assert lab.database.read_bytes() == whole


def test_bad_state_directory(lab):
    argv = ["--interface", "eth0", "--database", lab.database, "--listen", f"unix:{lab.socket}"]
    refused(lab, [*argv, "--state-dir", "/nonexistent/a/b"], "/nonexistent/a/b")
    file = lab.dir / "file"
    file.write_text("")
    refused(lab, [*argv, "--state-dir", file], str(file))
    refused(lab, [*argv, "--state-dir", lab.state_dir, "--flows", "4000000000"], "flows")


def test_second_instance(lab):
    """A second one finds the first one's API, database or state, and the first one goes on."""
    lab.start_daemon()
    other = lab.dir / "other.db"
    other_socket, other_state = f"{lab.socket}.2", lab.dir / "other-state"
    lab.run("lb", "ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
    for interface, sock, database, state, word in (
            ("v0", lab.socket, other, other_state, str(lab.socket)),
            ("v0", other_socket, lab.database, other_state, str(lab.database)),
            ("v0", other_socket, other, lab.state_dir, str(lab.state_dir)),
            ("eth0", other_socket, other, other_state, "eth0")):
        code, out = lab.run_daemon("--interface", interface, "--listen", f"unix:{sock}", "--database",
                                   database, "--state-dir", state)
        last = out.strip().splitlines()[-1]
        assert code == 1 and last.startswith("concuryd: error: ") and word in last, (word, code, out)
        assert attached(lab) and not attached(lab, "v0") and lab.daemon.poll() is None
        assert lab.api.get("/v1/status")["ready"] is True
    lab.run("lb", "ip", "link", "del", "v0")
    assert lab.dips()["b1"]["weight"] == 1
    # A socket that a killed one left is taken over.
    lab.daemon.kill()
    lab.daemon.wait()
    assert lab.socket.exists()
    lab.start_daemon()
    assert lab.stop_daemon() == 0
    assert lab.run_daemon("--detach", "--interface", "eth0")[0] == 0


def test_information(lab):
    code, out = lab.run_daemon("--help")
    assert code == 0 and "--interface" in out and "--detach" in out, out
    code, out = lab.run_daemon("--version")
    assert code == 0 and out.startswith("concuryd ") and len(out.splitlines()) == 1, out


def test_check(lab):
    """--check finds what the daemon would stumble over, with the command that mends it."""
    argv = lab.daemon_argv()[1:]
    code, out = lab.run_daemon(*argv, "--check")
    assert code == 0, (code, out)
    assert not attached(lab)
    lab.run("lb", "ip", "addr", "del", f"{lib.VIP4}/32", "dev", "eth0")
    _, out = lab.run_daemon(*argv, "--check")
    assert f"ip address add {lib.VIP4}/32 dev eth0" in out, out
    lab.run("lb", "ip", "addr", "add", f"{lib.VIP4}/32", "dev", "eth0")
    lab.run("lb", "ip", "link", "set", "eth0", "down")
    code, out = lab.run_daemon(*argv, "--check")
    assert "ip link set" in out and "up" in out, (code, out)
    lab.run("lb", "ip", "link", "set", "eth0", "up")
    code, out = lab.run_daemon("--interface", "nosuch0", "--database", lab.database, "--check")
    assert code == 1 and "nosuch0" in out, (code, out)


if __name__ == "__main__":
    lib.main("bind", [
        test_bad_options, test_bad_listeners, test_bad_interfaces, test_bad_databases,
        test_bad_state_directory, test_second_instance, test_information, test_check,
    ], setup, backends=1)
