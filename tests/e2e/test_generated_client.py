#!/usr/bin/python3
"""A client generated from schema/openapi.yaml by public generators (openapi-typescript for the types,
openapi-fetch for the calls) leads a VIP through its whole life: it compiles against the description, and
runs against the daemon. `make deps-test` installs the generators into build/client."""

import shutil

import lib
from lib import ROOT, VIP4

SOURCE = ROOT / "tests" / "e2e" / "client"
CLIENT = ROOT / "build" / "client"
LISTEN = "127.0.0.1:8080"


def tool(name, *argv):
    return lib.sh("env", "-C", CLIENT, CLIENT / "node_modules" / ".bin" / name, *argv, timeout=100)


def setup(lab):
    assert (CLIENT / "installed").exists(), "the generators are missing: make deps-test"
    lab.start_daemon("--listen", LISTEN)


def test_generated_and_compiled(lab):
    """misuse.ts has calls that must not compile, and says so line by line."""
    for name in ("life.ts", "misuse.ts", "tsconfig.json"):
        shutil.copy(SOURCE / name, CLIENT / name)
    tool("openapi-typescript", ROOT / "schema" / "openapi.yaml", "--output", "api.d.ts")
    tool("tsc", "--project", "tsconfig.json")


def test_life_of_a_vip(lab):
    out = lab.run("lb", "node", CLIENT / "out" / "life.js", f"http://{LISTEN}", VIP4, lab.address("b1"),
                  lab.address("b2"))
    steps = [line.removeprefix("done: ") for line in out.splitlines()]
    assert steps == ["create", "refuse", "change", "remember", "end"], out


if __name__ == "__main__":
    lib.main("client", [test_generated_and_compiled, test_life_of_a_vip], setup, backends=2)
