#!/usr/bin/python3
"""The container image, without a container engine: the real Dockerfile is built by buildah on a Debian of debootstrap's, and
its root is run by chroot in namespaces of its own, under setpriv with exactly the capabilities of compose.yaml, on its own
veth, between the client and the backends of the laboratory. `make container-check` runs it; it says what it could not run.
"""

import contextlib
import json
import os
import re
import signal
import sys
import time

import lib
import machines
import yaml
from lib import VIP4

STORE = f"/var/cache/concury-tests/images.{os.getpid()}"
BUILDAH = ["buildah", "--root", f"{STORE}/root", "--runroot", f"{STORE}/run", "--storage-driver", "vfs"]
WEIGHTS = {"b1": 1, "b2": 2, "b3": 3}
RATE = 40 << 10
# What README.md says of each, in the words of the program's last line without it.
WITHOUT = {"NET_ADMIN": "privileges: NET_ADMIN", "NET_RAW": "privileges: NET_ADMIN, NET_RAW",
           "BPF": "privileges: NET_ADMIN, NET_RAW and BPF", "PERFMON": "cannot load the steer program",
           "IPC_LOCK": "cannot register packet memory"}
# On an interface that an earlier process may have left its program on.
HOST_NETWORK = ["NET_ADMIN", "NET_RAW", "SYS_ADMIN", "IPC_LOCK"]
NOT_RUN = """\
not run here, for want of a container engine: `docker compose up` itself (its parts are: image, command, capabilities,
    configuration), the published port, the engine's own seccomp and AppArmor profiles, host networking on a NIC"""


def buildah(*argv, timeout=900):
    return lib.sh(*BUILDAH, *argv, timeout=timeout)


def build_images(lab):
    """The Dockerfile as it is; only where its base comes from is said."""
    c = buildah("from", "scratch").strip()
    buildah("add", "-q", c, machines.ROOT_TAR, "/")
    buildah("commit", "-q", c, "concury-base")
    buildah("rm", c)
    commit = (lib.BUILD / "gen" / "commit").read_text().strip()
    for target, name in (("demo", "concury-demo"), (None, "concury")):
        began = time.monotonic()
        # A health check has no place in the other format.
        buildah("bud", "--format", "docker", "--isolation", "chroot", "--build-arg", "BASE=localhost/concury-base", "--build-arg",
                f"SOURCE_COMMIT={commit}", *(["--target", target] if target else []), "-t", name, lib.ROOT)
        print(f"    image {name}: built in {time.monotonic() - began:.0f} s", flush=True)
    image = json.loads(buildah("inspect", "--type", "image", "concury"))
    lab.image = image["OCIv1"]["config"]
    lab.health = (image["Docker"]["config"].get("Healthcheck") or {}).get("Test")
    lab.root = buildah("mount", buildah("from", "concury").strip()).strip()
    lab.commit = commit


def setup(lab):
    lab.start_backends()
    build_images(lab)
    with open(lib.ROOT / "compose.yaml", encoding="utf-8") as f:
        compose = yaml.safe_load(f)
    lab.service = compose["services"]["concuryd"]
    lab.tokens = lab.dir / "tokens"
    lab.tokens.write_text(compose["configs"]["tokens"]["content"])
    lab.caps = lab.service["cap_add"]
    lab.kept = {"var/lib/concury": lab.dir / "database", "dev/shm/concury": lab.state_dir,
                "run/concury": lab.dir / "api"}
    for d in lab.kept.values():
        d.mkdir(exist_ok=True)
    lab.api = lib.Api(lab.dir / "api" / "api.sock")


def contained(lab, caps, command):
    """What an engine does: namespaces, mounts, environment, capabilities; then the command in the image's root."""
    root = lab.root
    mounts = [f"mount --make-rprivate / && mount --bind {root} {root} && cd {root}",
              "mount -t proc proc proc", "mount -t sysfs -o ro sysfs sys", "mount -t tmpfs tmpfs dev",
              "for d in null zero random urandom; do touch dev/$d && mount --bind /dev/$d dev/$d; done",
              "mkdir -p dev/shm/concury run/concury var/lib/concury etc/concury",
              *(f"mount --bind {host} {place}" for place, host in lab.kept.items()),
              f"touch etc/concury/tokens && mount --bind {lab.tokens} etc/concury/tokens"]
    rights = ",".join(["-all", *("+" + c.lower() for c in caps)])
    script = " && ".join(mounts) + (f" && exec env -i {' '.join(lab.image['Env'])} /usr/sbin/chroot . setpriv "
                                    f"--no-new-privs --inh-caps=-all --bounding-set={rights} \"$@\"")
    return ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts",
            "sh", "-ec", script, "sh", *command]


def start(lab, caps):
    """(whether it became ready, what it said)"""
    at = lab.log.stat().st_size if lab.log.exists() else 0
    lab.daemon = lab.spawn("lb", contained(lab, caps, lab.image["Entrypoint"] + lab.service["command"]), lab.log)

    def said():
        return lab.log.read_text(errors="replace")[at:] if lab.log.exists() else ""
    lib.wait_until("ready, or the end", lambda: lab.daemon.poll() is not None or
                   any(line.endswith("ready") for line in said().splitlines()), 30)
    return lab.daemon.poll() is None, said()


def process(lab):
    """concuryd itself, seen from here."""
    pid = lab.daemon.pid
    while below := machines.children(pid):
        pid = below[0]
    return pid


def stop(lab, sig=signal.SIGTERM):
    os.kill(process(lab), sig)
    lab.daemon.wait(20)


def healthy(lab):
    """The image's HEALTHCHECK, in it."""
    kind, *command = lab.health
    assert kind == "CMD", lab.health
    out = lib.sh("nsenter", "-t", process(lab), "--mount", "--pid", "--root", "--wd", f"--net=/run/netns/{lab.ns('lb')}",
                 "env", "-i", *lab.image["Env"], *command, check=False)
    return f"({lab.commit}), ready" in out


def apply(lab):
    """The document of compose.yaml, for the laboratory's addresses, by the image's own concuryctl."""
    text = (lib.ROOT / "api/compose/concury.json").read_text().replace("172.30.9.", "10.9.0.")
    (lab.dir / "api" / "concury.json").write_text(text)
    lib.sh("nsenter", "-t", process(lab), "--mount", "--pid", "--root", "--wd", "env", "-i", *lab.image["Env"],
           "concuryctl", "config", "apply", "-f", "/run/concury/concury.json", "--yes")
    lab.wait_up(WEIGHTS)


def test_image(lab):
    """Programs and the libraries that they load, and nothing that built them."""
    root = lib.pathlib.Path(lab.root)
    for missing in ("usr/bin/gcc", "usr/bin/clang", "usr/bin/make", "src", "deb"):
        assert not (root / missing).exists(), missing
    assert lab.image["Labels"]["org.opencontainers.image.revision"] == lab.commit, lab.image["Labels"]
    assert "/var/lib/concury" in lab.image["Volumes"], lab.image


def test_manifest(lab):
    """The example for Kubernetes is YAML, has the documented capabilities, and options that concuryd knows."""
    text = re.search(r"^## Kubernetes$.*?^```\n(.*?)^```$", (lib.ROOT / "api/README.md").read_text(), re.M | re.S).group(1)
    config, daemons = yaml.safe_load_all(text)
    pod = daemons["spec"]["template"]["spec"]
    first = pod["containers"][0]
    rights = first["securityContext"]["capabilities"]
    assert rights == {"drop": ["ALL"], "add": [*HOST_NETWORK, "SYS_NICE"]}, rights
    assert pod["hostNetwork"] and {"startupProbe", "readinessProbe", "livenessProbe"} <= set(first)
    assert json.loads(config["data"]["concury.json"])["vips"]
    code, out = lab.run_daemon(*first["args"], "--version")
    assert code == 0, out


def test_forwards(lab):
    ok, said = start(lab, lab.caps)
    assert ok, said
    apply(lab)
    lib.wait_until("the health check's yes", lambda: healthy(lab))
    lib.assert_shares(lab.count_connections(600), WEIGHTS)
    status = lab.api.get("/v1/status")
    assert status["ready"] is True and status["commit"] == lab.commit, status
    # The dashboard, from outside, by the address that compose.yaml publishes; and the API, by the token.
    page = lab.run("client", "curl", "-sS", "--fail", f"http://{lab.address('lb')}:8080/")
    assert "<title>" in page
    url = f"http://{lab.address('lb')}:8080/v1/vips"
    assert lab.run("client", "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", url) == "401"
    token = lab.tokens.read_text().split()[2]
    assert '"web"' in lab.run("client", "curl", "-sS", "--fail", "-H", f"Authorization: Bearer {token}", url)


def test_restart(lab):
    """On an interface that outlives the container, as with host networking: it ends, or is killed, and another one takes its
    place; downloads that were open go on."""
    downloads = [lib.Download(lab, VIP4, RATE) for _ in range(20)]
    for sig in (signal.SIGTERM, signal.SIGKILL):
        stop(lab, sig)
        ok, said = start(lab, HOST_NETWORK)
        assert ok, said
        assert lab.api.get("/v1/status")["state_file"] == "kept"
    for d in downloads:
        d.finish()
    assert lab.consistency()["violations_total"] == 0 and lab.resets_sent() == 0


def refused(lab, caps, cap, why):
    """Without SYS_ADMIN those come in that it includes."""
    more = ["BPF", "PERFMON"] if cap == "SYS_ADMIN" else []
    ok, said = start(lab, [c for c in caps if c != cap] + more)
    assert not ok and why in said, (cap, said)
    print(f"    without {cap}: {said.strip().splitlines()[-1]}")


def test_capabilities(lab):
    """Each one is needed: without it the start fails, and says why."""
    assert set(WITHOUT) == set(lab.caps), "README.md and compose.yaml name the same"
    stop(lab)
    for cap, why in (("SYS_ADMIN", "cannot look at the XDP program"), ("IPC_LOCK", "cannot register packet memory")):
        refused(lab, HOST_NETWORK, cap, why)
    lab.run_daemon("--detach", "--interface", "eth0")
    for cap, why in WITHOUT.items():
        refused(lab, lab.caps, cap, why)


if __name__ == "__main__":
    machines.prepare()
    lib.LIMIT_S = 1200
    try:
        lib.main("container", [test_image, test_manifest, test_forwards, test_restart, test_capabilities], setup)
    finally:
        for argv in (("umount", "--all"), ("rm", "--all"), ("rmi", "--all", "--force")):
            with contextlib.suppress(RuntimeError):
                buildah(*argv)
        lib.shutil.rmtree(STORE, ignore_errors=True)
        print(NOT_RUN, file=sys.stdout)
