#!/usr/bin/python3
"""What an operator gets wrong, or somebody else undoes under a running concuryd: it says so in the log,
in GET /v1/status and by /readyz, with the command that mends it, and says when it is over."""

import re
import subprocess
import time

import lib
from lib import VIP4


def setup(lab):
    lab.start_backends()
    lab.start_daemon()
    lab.put_vip()
    lab.put_dips({"b1": 1, "b2": 1})


def restart(lab):
    assert lab.stop_daemon() == 0
    lab.start_daemon()
    lab.wait_up(["b1", "b2"])


def status(lab):
    return lab.api.get("/v1/status")


def warnings(lab):
    return status(lab)["warnings"]


def readyz(lab):
    return lab.api.call("GET", "/readyz").status


def log_since(lab, start):
    return lab.log.read_text(errors="replace")[start:]


def log_size(lab):
    return lab.log.stat().st_size


def wait_warned(lab, start, *words, ready=False):
    """Within some seconds one sentence with these words is in status and, once, in the log."""
    def found():
        return [w for w in warnings(lab) if all(word in w for word in words)]
    lib.wait_until(f"a warning of {words}", found, 10)
    sentence, = found()
    assert status(lab)["ready"] is ready, status(lab)
    line = f"concuryd: warning: {sentence}\n"
    lib.wait_until("its line in the log", lambda: line in log_since(lab, start), 5)
    assert readyz(lab) == (200 if ready else 503)
    assert_said_once(lab, start, sentence)
    return sentence


def assert_said_once(lab, start, sentence):
    said = log_since(lab, start).count(f"concuryd: warning: {sentence}\n")
    assert said == 1, log_since(lab, start)


def wait_over(lab, start, sentence):
    lib.wait_until(f"'{sentence}' to be over", lambda: sentence not in warnings(lab), 15)
    lib.wait_until("its line in the log", lambda: f"concuryd: no longer: {sentence}\n" in
                   log_since(lab, start), 5)
    assert_said_once(lab, start, sentence)


def wait_quiet(lab):
    lib.wait_until("no warnings", lambda: status(lab)["warnings"] == [], 15)
    assert status(lab)["ready"] is True
    lib.wait_until("ready", lambda: readyz(lab) == 200, 5)


def mend(lab, sentence):
    """Run the command that the sentence ends with."""
    command = sentence.rsplit(": ", 1)[1]
    assert command.startswith("ip "), sentence
    lab.run("lb", *command.split())


def test_nothing_to_say(lab):
    wait_quiet(lab)
    assert "warning" not in log_since(lab, 0), log_since(lab, 0)


def test_detached_by_another(lab):
    start = log_size(lab)
    code, out = lab.run_daemon("--detach", "--interface", "eth0")
    assert code == 0 and "host's kernel" in out, (code, out)
    wait_warned(lab, start, "eth0", "detached", "restart concuryd")
    # What is wanted can still be written.
    lab.api.patch("/v1/vips/web/dips/b1", {"weight": 2})
    lab.api.patch("/v1/vips/web/dips/b1", {"weight": 1})
    # It is not attached again behind the operator's back, and the end does not claim that it is.
    assert lab.run_daemon("--detach", "--interface", "eth0")[0] == 1
    assert lab.stop_daemon() == 0
    text = log_since(lab, start)
    assert "ending (our steer program is not attached to: eth0)" in text, text
    assert "stays attached" not in text, text
    lab.start_daemon()
    lab.wait_up(["b1", "b2"])
    wait_quiet(lab)
    start = log_size(lab)
    assert lab.stop_daemon() == 0
    assert "steer stays attached and drops packets of VIPs" in log_since(lab, start)
    lab.start_daemon()
    wait_quiet(lab)
    assert lab.get().backend in ("b1", "b2")


def test_replaced_by_another_program(lab):
    other = lab.dir / "other.bpf.o"
    source = lab.dir / "other.bpf.c"
    source.write_text('#define SEC(n) __attribute__((section(n), used))\n'
                      'SEC("xdp") int other(void *ctx) { return 2; }\n'
                      'char LICENSE[] SEC("license") = "GPL";\n')
    lib.sh("clang", "-O2", "-g", "-target", "bpf", "-c", source, "-o", other)
    start = log_size(lab)
    lab.run("lb", "ip", "-force", "link", "set", "dev", "eth0", "xdpdrv", "obj", other, "sec", "xdp")
    sentence = wait_warned(lab, start, "eth0", "another XDP program", "ip link set dev eth0 xdp off")
    # Who it is, a process without privileges may not ask; it says how to.
    ask = re.search(r"bpftool prog show id \d+", sentence).group()
    assert "name other" in lib.sh(*ask.split()), sentence
    lab.run("lb", *re.search(r"ip link set dev eth0 xdp off", sentence).group().split())
    restart(lab)
    wait_quiet(lab)
    assert lab.get().backend in ("b1", "b2")


def test_interface_down(lab):
    start = log_size(lab)
    lab.run("lb", "ip", "link", "set", "eth0", "down")
    sentence = wait_warned(lab, start, "eth0", "is down", "ip link set dev eth0 up")
    time.sleep(3.2)  # it is said once, not at each of these three looks
    assert_said_once(lab, start, sentence)
    mend(lab, sentence)
    lab.run("lb", "ip", "-6", "addr", "replace", f"{lab.address('lb', True)}/64", "dev", "eth0", "nodad")
    lib.wait_until("ready", lambda: readyz(lab) == 200, 5)
    assert "no longer: eth0: the interface is down" in log_since(lab, start)
    lab.wait_up(["b1", "b2"])
    wait_quiet(lab)
    assert lab.get().backend in ("b1", "b2")


def test_start_with_the_interface_down(lab):
    """The check calls it a note, and the start accepts it and says so."""
    assert lab.stop_daemon() == 0
    lab.run("lb", "ip", "link", "set", "eth0", "down")
    code, out = lab.run_daemon(*lab.daemon_argv()[1:], "--check")
    assert code == 0 and re.search(r"^note +eth0: the interface is down$", out, re.M), (code, out)
    start = log_size(lab)
    lab.start_daemon()
    mend(lab, wait_warned(lab, start, "eth0", "is down"))
    lab.wait_up(["b1", "b2"])
    wait_quiet(lab)
    assert lab.get().backend in ("b1", "b2")


def test_no_carrier(lab):
    start = log_size(lab)
    lab.run("sw", "ip", "link", "set", "p-lb", "down")
    sentence = wait_warned(lab, start, "eth0", "no carrier", ready=True)
    lab.run("sw", "ip", "link", "set", "p-lb", "up")
    wait_over(lab, start, sentence)
    lab.wait_up(["b1", "b2"])
    wait_quiet(lab)


def test_vip_without_address(lab):
    start = log_size(lab)
    lab.run("lb", "ip", "addr", "del", f"{VIP4}/32", "dev", "eth0")
    sentence = wait_warned(lab, start, "VIP web", VIP4, "ARP", "unless it is routed", ready=True)
    assert sentence.endswith(f": ip address add {VIP4}/32 dev eth0"), sentence
    mend(lab, sentence)
    wait_over(lab, start, sentence)
    # At once for a VIP that is made, by a request.
    lab.put_vip("six", "fd09::177", 80)
    assert [w for w in warnings(lab) if "VIP six" in w and
            "ip -6 address add fd09::177/128 dev eth0 nodad" in w], warnings(lab)
    lab.api.delete("/v1/vips/six")
    wait_quiet(lab)


def test_vip_without_dip(lab):
    start = log_size(lab)
    lab.put_vip("bare", VIP4, 81)
    sentence = wait_warned(lab, start, "VIP bare", "has no DIP", ready=True)
    lab.put_dips({"b1": 1}, "bare")
    wait_over(lab, start, sentence)
    for edit in ({"weight": 0}, {"admin_state": "down"}):
        lab.api.patch("/v1/vips/bare/dips/b1", edit)
        assert [w for w in warnings(lab) if "VIP bare" in w and "none of its DIPs" in w], edit
        lab.api.patch("/v1/vips/bare/dips/b1", {"weight": 1, "admin_state": "up"})
        wait_quiet(lab)
    lab.api.delete("/v1/vips/bare?force=true")
    wait_quiet(lab)


def test_unresolved_dips(lab):
    lab.run("lb", "ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
    lab.run("lb", "ip", "addr", "add", "10.77.0.1/24", "dev", "v0")
    lab.run("lb", "ip", "link", "set", "v0", "up")
    lab.run("lb", "ip", "link", "set", "v1", "up")
    dips = {"silent": ("10.9.0.250", "does not answer ARP", "ip route get 10.9.0.250"),
            "far": ("203.0.113.5", "no route", "ip route get 203.0.113.5"),
            "self": (lab.address("lb"), "this host's own address"),
            "aside": ("10.77.0.2", "not served", "--interface v0")}
    start = log_size(lab)
    for dip, (address, *_) in dips.items():
        lab.api.put(f"/v1/vips/web/dips/{dip}", {"address": address, "weight": 1})
    assert not warnings(lab), "they were not given the time to answer"
    sentences = [wait_warned(lab, start, f"DIP web/{dip}", *words, ready=True)
                 for dip, words in dips.items()]
    for dip, sentence in zip(dips, sentences):
        lab.api.delete(f"/v1/vips/web/dips/{dip}?force=true")
        wait_over(lab, start, sentence)
    lab.run("lb", "ip", "link", "del", "v0")
    wait_quiet(lab)


def test_only_unresolved_dips(lab):
    lab.put_vip("lost", VIP4, 82)
    lab.api.put("/v1/vips/lost/dips/b9", {"address": "203.0.113.9", "weight": 1})
    start = log_size(lab)
    wait_warned(lab, start, "VIP lost", "none of its DIPs", ready=True)
    lab.api.delete("/v1/vips/lost?force=true")
    wait_quiet(lab)


def test_check_beside_a_running_one(lab):
    code, out = lab.run_daemon(*lab.daemon_argv()[1:], "--check")
    assert code == 0 and f"--unix-socket {lab.socket} http://localhost/v1/status" in out, (code, out)


def test_without_privileges(lab):
    """The start names the cause, as --check does."""
    assert lab.stop_daemon() == 0
    argv = ["ip", "netns", "exec", lab.ns("lb"), "setpriv", "--bounding-set=-all",
            *map(str, lab.daemon_argv())]
    for more, words in (([], "concuryd: error: privileges"), (["--check"], "blocks  privileges")):
        r = subprocess.run([*argv, *more], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=20)
        assert r.returncode == 1, r
        assert words in r.stdout and "run concuryd as root" in r.stdout, r.stdout
    lab.start_daemon()
    lab.wait_up(["b1", "b2"])


def test_interface_deleted(lab):
    """And made anew under its name. It comes last: the segment is gone with it."""
    start = log_size(lab)
    lab.run("lb", "ip", "link", "del", "eth0")
    sentence = wait_warned(lab, start, "eth0", "gone", "served again as soon as")
    lab.run("lb", "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "peer0")
    wait_over(lab, start, sentence)
    assert lab.api.call("GET", "/livez").status == 200
    start = log_size(lab)
    lab.run("lb", "ip", "link", "del", "eth0")
    wait_warned(lab, start, "eth0", "gone", "served again as soon as")
    assert lab.stop_daemon() == 0
    assert "not attached to: eth0" in log_since(lab, start)


if __name__ == "__main__":
    lib.main("watch", [
        test_nothing_to_say, test_detached_by_another, test_replaced_by_another_program,
        test_interface_down, test_start_with_the_interface_down, test_no_carrier,
        test_vip_without_address, test_vip_without_dip, test_unresolved_dips,
        test_only_unresolved_dips, test_check_beside_a_running_one, test_without_privileges,
        test_interface_deleted,
    ], setup, backends=2)
