#!/usr/bin/python3
"""Versions of the configuration: listed, read, compared and returned to under open connections; kept over
kill -9; who changed what."""

import http.client
import signal
import threading

import lib
from lib import VIP4, Connection

WEB, B1, B2 = "/v1/vips/web", "/v1/vips/web/dips/b1", "/v1/vips/web/dips/b2"


def setup(lab):
    lab.start_backends()
    lab.start_daemon()
    lab.put_vip()
    lab.put_dips({"b1": 1, "b2": 1})


def newest(lab):
    return lab.api.get("/v1/config/versions?limit=1")["items"][0]["version"]


def at(lab, version):
    return lab.api.get(f"/v1/config/versions/{version}")


def roll_back(lab, to, **query):
    parameters = "&".join(f"{k}={v}" for k, v in query.items())
    return lab.api.call("POST", f"/v1/config:rollback?{parameters}", {"to": to})


def test_each_change_is_a_version(lab):
    api = lab.api
    assert [v["action"] for v in api.get("/v1/config/versions")["items"]] == \
        [f"PUT {B2}", f"PUT {B1}", f"PUT {WEB}"]
    assert at(lab, 0) == {"vips": []}
    assert at(lab, 3) == api.get("/v1/config")
    assert api.call("PATCH", B1, {"weight": 70000}).status == 422
    api.patch(B1, {"weight": 1})  # as it is
    assert newest(lab) == 3
    api.patch(B1, {"weight": 5})
    diff = api.get("/v1/config/versions/4/diff")
    assert [(i["path"], i["members"]) for i in diff["items"]] == [(B1, ["/weight"])], diff
    assert api.get("/v1/config/versions/4/diff?to=0") == api.get("/v1/config/versions/0/diff?to=4")
    gone = api.call("GET", "/v1/config/versions/99")
    assert gone.status == 404 and "0 to 4 are" in gone.json["detail"], gone


def test_the_way_back_keeps_connections(lab):
    with Connection(lab, VIP4) as one, Connection(lab, VIP4) as other:
        homes = one.get("/name").body, other.get("/name").body
        to, was = newest(lab), at(lab, newest(lab))
        lab.api.patch(B1, {"weight": 0})
        lab.api.delete(B2)
        left = newest(lab)
        plan = roll_back(lab, to, dry_run="true")
        assert plan.status == 200 and "plan" in plan.json, plan
        assert newest(lab) == left and lab.api.get("/v1/config") != was
        back = roll_back(lab, to)
        assert back.status == 200 and back.json["change"]["flows_moved"] == 0, back
        assert lab.api.get("/v1/config") == was and newest(lab) == left + 1
        assert (one.get("/name").body, other.get("/name").body) == homes
        # It can be undone the same way, unless somebody was faster.
        stale = lab.api.call("POST", "/v1/config:rollback", {"to": left}, {"If-Match": '"0"'})
        assert stale.status == 412, stale
        assert roll_back(lab, left).status == 200
        assert lab.api.get("/v1/config") == at(lab, left)
        assert roll_back(lab, to).status == 200
    lab.assert_consistent()


def test_the_log_says_who(lab):
    log = lab.api.get(f"/v1/audit-log?path={B2}")["items"]
    assert {B2} <= {p for e in log for p in e["paths"]}
    assert all(any(p.startswith(B2) for p in e["paths"]) for e in log), log
    assert all(e["generation_before"] < e["generation"] for e in log), log
    assert log[0]["author"] == "uid:0", log[0]
    assert not lab.api.get("/v1/audit-log?author=nobody")["items"]
    assert lab.api.get("/v1/audit-log?author=uid:0&limit=1000")["items"][-1]["version"] == 1
    assert not lab.api.get("/v1/audit-log?since=2200-01-01T00:00:00Z")["items"]


def test_killed_in_the_middle_of_changes(lab):
    """What was answered is in the log, and each version is what it was."""
    seen, end = {}, threading.Event()

    def change():
        weight = 0
        while not end.is_set():
            weight = weight % 90 + 1
            try:
                generation = lab.api.patch(B1, {"weight": weight})["change"]["generation"]
            except (OSError, http.client.HTTPException):
                return
            seen[generation] = weight
    thread = threading.Thread(target=change)
    thread.start()
    lib.wait_until("changes", lambda: len(seen) > 30)
    lab.stop_daemon(signal.SIGKILL)
    end.set()
    thread.join()
    lab.start_daemon()
    log = {e["generation"]: e for e in lab.api.get("/v1/audit-log?limit=1000")["items"]}
    assert set(seen) <= set(log), sorted(set(seen) - set(log))
    for generation in sorted(seen)[::7]:
        config = at(lab, log[generation]["version"])
        assert config["vips"][0]["dips"][0]["weight"] == seen[generation], (generation, config)
    numbers = sorted(e["version"] for e in log.values())
    assert numbers == list(range(1, len(numbers) + 1)), numbers
    assert at(lab, newest(lab)) == lab.api.get("/v1/config")


if __name__ == "__main__":
    lib.main("history", [test_each_change_is_a_version, test_the_way_back_keeps_connections,
                         test_the_log_says_who, test_killed_in_the_middle_of_changes], setup, backends=2)
