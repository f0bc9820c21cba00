#!/usr/bin/python3
"""A walk over schema/openapi.yaml with a concuryd that forwards: each operation is driven, with the examples
of its body and each value of its query; each status that it documents is met, the refusals that all of them
share are provoked at each, and every answer is held against the description. An operation, example or status
that the walk does not reach makes it fail."""

import contextlib
import json
import re
import urllib.parse

import clients
import contract
import lib
from lib import CLIENT4, VIP4, Connection

METHODS = ("get", "put", "patch", "delete", "post")
# Documented statuses that not every operation can be brought to here, and why.
NOT_WALKED = {
    "503": "while concuryd starts or ends, or knows no flows yet; met where a client can bring it about",
    "507": "a database that cannot be written; of that is test_disk.py",
}
# Statuses that an operation must name if it answers them; of the others `default` speaks.
NAMED = (404, 409, 412, 415, 422, 507)
# What the names in paths and queries are. Those of a path that an operation makes are its examples'.
WORLD = {"vip": "web", "dip": "b1", "agent": "rack1-host7", "token": "prometheus", "version": "1"}
QUERY = {**WORLD, "address": VIP4, "src": CLIENT4, "dst": VIP4, "client": CLIENT4, "to": "0",
         "author": "uid:0", "cid": "072a0700112233", "since": "2026-01-01T00:00:00Z"}
# Operations whose query needs more than the parameters that are required.
ALSO = {"explain": {"vip": "other", "sport": 40000}, "trace": {"packets": 1, "seconds": 1}}
# Parameters of which a VIP allows less than their schema does.
ONLY = {("explain", "dport"): [81]}
STREAM, TRACE = "watchEvents", "trace"
PCAPNG = b"\x0a\x0d\x0d\x0a"
WRONG_ETAG = f'"{"0" * 32}"'

counts = {"examples": 0, "refusals": 0, "answers": 0}
keys = {}  # agents' tokens


class Operation:
    def __init__(self, path, item, method):
        node = item[method]
        self.id, self.method, self.path, self.node = node["operationId"], method.upper(), path, node
        self.names = re.findall(r"{(\w+)}", path)
        self.parameters = [contract.resolve(p) for p in item.get("parameters", []) +
                           node.get("parameters", [])]
        self.bodies = contract.resolve(node.get("requestBody", {})).get("content", {})  # by media type
        self.met, self.walked = set(), set()  # statuses; media types whose example was taken
        found = [c["example"] for c in self.bodies.values() if "example" in c]
        assert bool(found) == bool(self.bodies), f"{self.id}: a body without an example"
        self.example = found[0] if found else None
        self.media = next(iter(self.bodies), None)

    def parameter(self, name, where="query"):
        return next((p for p in self.parameters if p["name"] == name and p["in"] == where), None)

    def queries(self):
        """One query for each value of each parameter: an enum's and a boolean's all, a number's ends."""
        base = {p["name"]: QUERY[p["name"]] for p in self.parameters if p["in"] == "query" and
                p.get("required")} | ALSO.get(self.id, {})
        yield base
        for p in self.parameters:
            if p["in"] == "query" and p["name"] not in ("dry_run", "cursor"):
                for value in ONLY.get((self.id, p["name"])) or values(p["name"], p["schema"]):
                    yield base | {p["name"]: value}

    def url(self, ids, query):
        path = self.path
        for name in self.names:
            path = path.replace("{%s}" % name, urllib.parse.quote(str({**WORLD, **ids}[name]), safe=""))
        return f"{path}?{urllib.parse.urlencode(query)}" if query else path


def values(name, schema):
    if "examples" in schema:
        return schema["examples"]
    schema = contract.resolve(schema)
    if "enum" in schema:
        return schema["enum"]
    if schema.get("type") == "boolean":
        return ["true", "false"]
    if "maximum" in schema:
        return [schema["minimum"], schema["maximum"]]
    return [QUERY[name]]


operations = {}
for _path, _item in contract.document()["paths"].items():
    for _method in METHODS:
        if _method in _item:
            _op = Operation(_path, _item, _method)
            operations[_op.id] = _op


def header_faults(op, answer, documented):
    """Headers that are documented and not there."""
    if "X-Generation" not in answer.headers:
        yield "X-Generation"
    for name in documented.get("headers", {}):
        if name not in answer.headers and name not in ("Allow", "Link"):  # of 405s, of pages before the last
            yield name
    if answer.status == 405 and not answer.headers.get("Allow"):
        yield "Allow"


def send(lab, name, ids=(), query=None, body=None, media=None, headers=(), method=None):
    """One request for an operation, whose answer must be one that it documents. Without a body its example is
    sent."""
    op = operations[name]
    headers = dict(headers)
    if {"agentToken": []} in op.node.get("security", []) and keys:
        headers["Authorization"] = f"Bearer {keys[WORLD['agent']]}"
    if op.bodies and body is None:
        body, media = op.example, media or op.media
        if media in op.bodies:
            op.walked.add(media)
    if body is not None:
        headers["Content-Type"] = media or op.media
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
    url = op.url(dict(ids), query)
    answer = lab.api.call(method or op.method, url, body, headers)
    what = f"{name}: {op.method} {url} answered {answer}"
    named = op.node["responses"].get(str(answer.status))
    assert named or answer.status not in NAMED, f"{what}, which it does not name"
    lacking = list(header_faults(op, answer, contract.resolve(named or op.node["responses"]["default"])))
    assert not lacking, f"{what} without {lacking}"
    op.met.add(str(answer.status))
    counts["answers"] += 1
    return answer


def go(lab, name, status, **more):
    answer = send(lab, name, **more)
    assert answer.status == status, f"{name} {more}: {answer}, not {status}"
    if "body" not in more and operations[name].bodies and status < 300:
        counts["examples"] += 1
    return answer


def refuse(lab, name, status, **more):
    answer = go(lab, name, status, **more)
    assert answer.json["type"].startswith("/problems/") and answer.json["detail"], answer
    counts["refusals"] += 1
    return answer


def state(lab):
    """What no refusal and no dry run may change."""
    answers = [lab.api.call("GET", url) for url in ("/v1/config", "/v1/agents", "/v1/tokens")]
    agents = [{k: a[k] for k in ("id", "vip", "dip")} for a in answers[1].json["items"]]
    return answers[0].raw, agents, answers[2].raw, lab.api.get("/v1/status")["generation"]


@contextlib.contextmanager
def unchanged(lab):
    before = state(lab)
    yield
    assert state(lab) == before


# --- the good cases ------------------------------------------------------------------------------

def make_agent(lab, status):
    keys[WORLD["agent"]] = go(lab, "putAgent", status).json["token"]


def test_examples_make_the_world(lab):
    for name in ("putVip", "putDip", "putToken"):
        made = go(lab, name, 201)
        assert lab.api.get(made.headers["Location"])["id"] == made.json["id"]
        go(lab, name, 200)
    make_agent(lab, 201)
    make_agent(lab, 200)
    go(lab, "postReport", 200)
    go(lab, "putConfig", 200)
    lab.put_vip("other", port=81, protocol="any", quic="server-id")
    lab.wait_up(["b1", "b2"])
    for name in ("patchVip", "patchDip"):
        for media in operations[name].bodies:
            go(lab, name, 200, media=media)
    for hold in ("true", "false"):
        go(lab, "putHealthOverride", 200, query={"override_hold": hold})
        go(lab, "deleteHealthOverride", 200, query={"override_hold": hold})
    lab.api.patch("/v1/vips/web/dips/b1", {"weight": 1})
    go(lab, "audit", 200)
    for _ in range(2):
        lab.get()
    lib.wait_until("two flows", lambda: lab.consistency()["flows_known"] >= 2)


def test_reads(lab):
    """Each query, the other pages, HEAD, and that nothing has changed since."""
    for name, op in operations.items():
        if op.method != "GET" or name in (STREAM, TRACE):
            continue
        for query in op.queries():
            answer = go(lab, name, 200, query=query)
        if op.parameter("cursor"):
            first = go(lab, name, 200, query={"limit": 1})
            assert first.json["next"] and "Link" in first.headers, f"{name}: no second page"
            second = go(lab, name, 200, query={"limit": 1, "cursor": first.json["next"]})
            assert second.json["items"] != first.json["items"], name
        head = send(lab, name, query=query, method="HEAD")
        assert head.status == 200 and head.raw == b"", head
        assert head.headers["Content-Type"] == answer.headers["Content-Type"]
        if op.parameter("If-None-Match", "header"):
            tag = go(lab, name, 200).headers["ETag"]
            assert re.fullmatch('"[0-9a-f]{32}"', tag), tag
            assert go(lab, name, 304, headers={"If-None-Match": tag}).headers["ETag"] == tag
            go(lab, name, 200, headers={"If-None-Match": WRONG_ETAG})


def read_event(r):
    """(id, data) of the next event of a stream."""
    event = {}
    while "data" not in event:
        assert not r.isclosed(), "the stream has ended"
        lines = iter(lambda: r.readline().decode().strip(), "")
        event = dict(line.split(": ", 1) for line in lines)
    data = json.loads(event["data"])
    faults = list(contract.schema_faults(data, operations[STREAM].node["x-data"]))
    assert data["kind"] == event["event"] and not faults, (event, faults)
    return event["id"], data


@contextlib.contextmanager
def stream(lab, name, query, headers=()):
    """An answer that goes on, after its head."""
    op = operations[name]
    c = clients._UnixConnection(lab.api.path, 5)
    c.request("GET", op.url({}, query), headers=dict(headers))
    r = c.getresponse()
    contract.check("GET", op.path, r.status, r.headers, b"" if r.status == 200 else r.read())
    op.met.add(str(r.status))
    try:
        yield r
    finally:
        c.close()


def test_streams(lab):
    kinds = operations[STREAM].parameter("kind")["schema"]["examples"][0]
    queries = {"kind": kinds, "vip": "web", "since": "0"}
    assert set(queries) == {p["name"] for p in operations[STREAM].parameters if p["in"] == "query"}
    with stream(lab, STREAM, queries) as r:
        first = read_event(r)
    queries.pop("since")
    with stream(lab, STREAM, queries, {"Last-Event-ID": first[0]}) as r:
        assert read_event(r)[0] != first[0]
    trace = {"vip": "web", "dip": "b1", "src": CLIENT4, "sport": 40000, "dst": VIP4,
             "dport": 80, "packets": 1, "seconds": 1, "snap": 64}
    assert set(trace) == {p["name"] for p in operations[TRACE].parameters}
    with stream(lab, TRACE, {"packets": 1, "seconds": 30}) as r:
        refuse(lab, TRACE, 409)
        lab.get()
        assert r.read()[:4] == PCAPNG
    assert go(lab, TRACE, 200, query=trace).raw[:4] == PCAPNG
    with contextlib.ExitStack() as all_:
        while all_.enter_context(stream(lab, STREAM, {})).status == 200:
            pass
        refuse(lab, STREAM, 503)


def test_dry_runs(lab):
    """Every parameter of a change, which then does not happen."""
    n = 0
    with unchanged(lab):
        for name, op in operations.items():
            if op.parameter("dry_run"):
                for query in op.queries():
                    plan = go(lab, name, 200, query={**query, "dry_run": "true"})
                    assert "plan" in plan.json, (name, query, plan)
                    n += 1
    assert n > 20, n


# --- refusals ------------------------------------------------------------------------------------

def test_unknown_ids(lab):
    with unchanged(lab):
        for name, op in operations.items():
            for i, part in enumerate(op.names):
                if op.method == "PUT" and "201" in op.node["responses"] and i == len(op.names) - 1:
                    continue  # makes it
                status = 401 if "401" in op.node["responses"] else 404
                refuse(lab, name, status, ids={part: "999999" if part == "version" else "nobody"})
            for p in op.parameters:
                if p["in"] == "query" and p["name"] in ("vip", "dip") and "404" in op.node["responses"]:
                    query = next(op.queries()) | {"vip": "web", p["name"]: "nobody"}
                    refuse(lab, name, 404, query={k: v for k, v in query.items() if op.parameter(k)})


def test_methods(lab):
    with unchanged(lab):
        for path, item in contract.document()["paths"].items():
            has = [m.upper() for m in METHODS if m in item]
            op = next(o for o in operations.values() if o.path == path)
            for method in sorted({m.upper() for m in METHODS} - set(has)):
                answer = lab.api.call(method, op.url({}, None))
                allowed = set(answer.headers["Allow"].split(", "))
                assert answer.status == 405 and allowed - {"HEAD"} == set(has), (path, answer)
                assert ("HEAD" in allowed) == ("GET" in has), (path, answer)
                counts["refusals"] += 1


def test_forms(lab):
    """What is wanted in another form, or sent in one."""
    with unchanged(lab):
        for name, op in operations.items():
            refuse(lab, name, 406, headers={"Accept": "image/png"})
            if not op.bodies:
                continue
            refuse(lab, name, 415, media="text/plain")
            for media in op.bodies:
                refuse(lab, name, 400, body=b"{", media=media)
                answer = refuse(lab, name, 422, body={**op.example, "un/known~": 1}, media=media)
                assert [e["pointer"] for e in answer.json["errors"]] == ["/un~1known~0"], (name, answer)


def is_narrow(schema):
    return schema.get("type") == "boolean" or {"enum", "pattern", "minimum", "anyOf", "format"} & set(schema)


def test_queries(lab):
    """A parameter that there is not, and values that fit no schema."""
    with unchanged(lab):
        for name, op in operations.items():
            wrong = {"walked": "1"} | {p["name"]: "W?" for p in op.parameters if p["in"] == "query" and
                                     p["name"] not in WORLD and is_narrow(contract.resolve(p["schema"]))}
            for parameter, value in wrong.items():
                answer = refuse(lab, name, 400, query=next(op.queries()) | {parameter: value})
                assert [e["parameter"] for e in answer.json["errors"]] == [parameter], (name, answer)


def test_preconditions(lab):
    with unchanged(lab):
        for name, op in operations.items():
            if op.parameter("If-Match", "header"):
                answer = refuse(lab, name, 412, headers={"If-Match": WRONG_ETAG})
                tag = answer.json["etag"]
                assert tag == answer.headers["ETag"] != WRONG_ETAG, answer
                query = {} if op.method == "GET" else {"dry_run": "true"}
                go(lab, name, 200, query=query, headers={"If-Match": tag})
            if op.parameter("If-None-Match", "header") and op.method == "PUT":
                refuse(lab, name, 412, headers={"If-None-Match": "*"})


def test_a_new_secret_has_a_new_tag(lab):
    """Who replaces an agent's or a token's secret does so knowingly."""
    for thing in ("Agent", "Token"):
        tag = go(lab, f"get{thing}", 200).headers["ETag"]
        assert go(lab, f"get{thing}", 200).headers["ETag"] == tag
        made = go(lab, f"put{thing}", 200, headers={"If-Match": tag})
        if thing == "Agent":
            keys[WORLD["agent"]] = made.json["token"]
        now = go(lab, f"get{thing}", 200).headers["ETag"]
        assert made.headers["ETag"] == now != tag, (made.headers, tag)
        refuse(lab, f"put{thing}", 412, headers={"If-Match": tag})
        refuse(lab, f"delete{thing}", 412, headers={"If-Match": tag})
        assert go(lab, f"get{thing}", 200).headers["ETag"] == now


def newest(lab):
    return lab.api.get("/v1/config/versions?limit=1")["items"][0]["version"]


def test_conflicts(lab):
    web = operations["putConfig"].example["vips"][0]
    lab.api.put("/v1/vips/other/dips/b1", {"address": "10.9.0.21"})
    before = newest(lab)
    lab.api.delete("/v1/vips/other/dips/b1?force=true")
    lab.api.put("/v1/vips/other/dips/b1", {"address": "10.9.0.22"})
    with unchanged(lab):
        for name, status, more in (
                ("putVip", 409, {"ids": {"vip": "third"}}),
                ("patchVip", 409, {"body": {"port": 82}}),
                ("putDip", 409, {"body": {"address": "10.9.0.99"}}),
                ("patchDip", 409, {"body": {"address": "10.9.0.99"}}),
                ("putConfig", 409, {"body": {"vips": [{**web, "port": 82}]}}),
                ("batchConfig", 409, {"body": {"operations": [
                    {"method": "PATCH", "path": "/v1/vips/web", "body": {"port": 82}}]}}),
                ("batchConfig", 404, {"body": {"operations": [
                    {"method": "DELETE", "path": "/v1/vips/nobody"}]}}),
                ("rollBack", 409, {"body": {"to": before}}),
                ("rollBack", 422, {"body": {"to": 999999}}),
                ("putAgent", 409, {"ids": {"agent": "another"}}),
                ("putAgent", 404, {"ids": {"agent": "another"}, "body": {"vip": "nobody", "dip": "b1"}}),
                ("putToken", 409, {"ids": {"token": "ci"}}),
                ("deleteToken", 409, {"ids": {"token": "ci"}})):
            refuse(lab, name, status, **more)


# --- the end -------------------------------------------------------------------------------------

def test_examples_change_and_remove(lab):
    go(lab, "batchConfig", 200)
    lab.put_dips({"b2": 1})
    go(lab, "deleteDip", 200, ids={"dip": "b3"}, query={"force": "true"})
    with Connection(lab, VIP4) as c:
        go(lab, "deleteDip", 202, ids={"dip": c.get("/name").backend})
        go(lab, "deleteVip", 202)
        go(lab, "deleteVip", 200, query={"force": "true"})
    go(lab, "rollBack", 200)
    assert lab.api.get("/v1/config") == {"vips": []}
    go(lab, "putVip", 201)
    go(lab, "putDip", 201)
    make_agent(lab, 201)
    for name in ("deleteAgent", "deleteToken"):
        assert go(lab, name, 200).json["id"] == WORLD[operations[name].names[0]]


def test_not_ready(lab):
    lab.run("lb", "ip", "link", "set", "eth0", "down")
    lib.wait_until("not ready", lambda: send(lab, "readyz").status == 503)


def test_everything_was_reached(lab):
    missed = [f"{name} never answered {status}" for name, op in operations.items()
              for status in op.node["responses"]
              if status != "default" and status not in op.met and status not in NOT_WALKED]
    missed += [f"{name}: the example as {media} was not sent" for name, op in operations.items()
               for media in set(op.bodies) - op.walked]
    missed += [f"{name} was not driven" for name, op in operations.items()
               if not any(status[0] == "2" for status in op.met)]
    assert not missed, missed
    assert lab.daemon.poll() is None and len(operations) >= 40
    bodies = sum(len(op.walked) for op in operations.values())
    print(f"{len(operations)} operations, {bodies} bodies by example in {counts['examples']} requests, "
          f"{counts['refusals']} refusals, {counts['answers']} answers")


def setup(lab):
    tokens = lab.dir / "tokens"
    tokens.write_text("read ci a-token-of-the-token-file\n")
    tokens.chmod(0o600)
    lab.start_backends()
    lab.start_daemon("--token-file", tokens)


if __name__ == "__main__":
    lib.main("walk", [
        test_examples_make_the_world, test_reads, test_streams, test_dry_runs, test_unknown_ids,
        test_methods, test_forms, test_queries, test_preconditions, test_a_new_secret_has_a_new_tag,
        test_conflicts, test_examples_change_and_remove, test_not_ready, test_everything_was_reached,
    ], setup, backends=2)
