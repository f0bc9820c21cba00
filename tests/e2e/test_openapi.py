#!/usr/bin/python3
"""schema/openapi.yaml against the sources: routes, members and words are those of the program, every
reference leads somewhere, and every example fits its schema. Needs no network namespace."""
import os
import re
import sys

import yaml

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


doc = yaml.safe_load(read("schema/openapi.yaml"))
failures = 0


def check(name, faults):
    global failures
    faults = list(faults)
    print(("not ok - " if faults else "ok - ") + name)
    for fault in faults:
        print("  " + fault)
    failures += bool(faults)


def resolve(node):
    """Follow $ref; members beside it (descriptions) add to what it leads to."""
    while isinstance(node, dict) and "$ref" in node:
        target = doc
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = {**target, **{k: v for k, v in node.items() if k != "$ref"}}
    return node


def walk(node, path=""):
    yield path, node
    if isinstance(node, dict):
        for k, v in node.items():
            yield from walk(v, f"{path}/{k}")
    elif isinstance(node, list):
        for i, v in enumerate(node):
            yield from walk(v, f"{path}/{i}")


TYPES = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list,
         "null": type(None), "number": (int, float)}


def is_type(value, name):
    return isinstance(value, TYPES[name]) and not (name in ("integer", "number") and isinstance(value, bool))


def faults_of(value, schema, at=""):
    """What of the JSON Schema vocabulary that the document uses the value does not fulfil."""
    schema = resolve(schema)
    for sub in schema.get("allOf", []):
        yield from faults_of(value, sub, at)
    if "oneOf" in schema and sum(not list(faults_of(value, s)) for s in schema["oneOf"]) != 1:
        yield f"{at}: {value!r} fits not exactly one alternative"
    types = schema.get("type", [])
    types = types if isinstance(types, list) else [types]
    if types and not any(is_type(value, t) for t in types):
        yield f"{at}: {value!r} is no {types}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is not in {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is not {schema['const']!r}"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{at}: {value!r} does not match {schema['pattern']}"
    if is_type(value, "number"):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            yield f"{at}: {value} is out of range"
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from faults_of(item, schema.get("items", {}), f"{at}/{i}")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name in schema.get("required", []):
            if name not in value:
                yield f"{at}: lacks {name}"
        for name, member in value.items():
            if name in properties:
                yield from faults_of(member, properties[name], f"{at}/{name}")
            elif schema.get("additionalProperties") is False:
                yield f"{at}: does not know {name}"


def schema(name):
    return doc["components"]["schemas"][name]


def properties_of(s):
    s = resolve(s)
    return set(s.get("properties", {})).union(*map(properties_of, s.get("allOf", [])))


def properties(name):
    return properties_of(schema(name))


def differ(what, documented, real):
    for name in sorted(documented - real):
        yield f"{what}: {name} is documented, but not in the program"
    for name in sorted(real - documented):
        yield f"{what}: {name} is not documented"


def reference_faults():
    for path, node in walk(doc):
        if isinstance(node, dict) and "$ref" in node:
            try:
                resolve(node)
            except (KeyError, TypeError):
                yield f"{path}: {node['$ref']} leads nowhere"
    used = {node["$ref"] for _, node in walk(doc) if isinstance(node, dict) and "$ref" in node}
    used |= {f"#/components/securitySchemes/{name}" for _, node in walk(doc)
             if isinstance(node, dict) and isinstance(node.get("security"), list)
             for alternative in node["security"] for name in alternative}
    for kind, members in doc["components"].items():
        for name in members:
            if f"#/components/{kind}/{name}" not in used:
                yield f"components/{kind}/{name} is not used"


def example_faults():
    n = 0
    for path, node in walk(doc):
        if isinstance(node, dict) and "example" in node and "schema" in node:
            n += 1
            yield from faults_of(node["example"], node["schema"], path)
        elif isinstance(node, dict) and "example" in node and "properties" in node:
            n += 1
            yield from faults_of(node["example"], node, path)
        elif isinstance(node, dict) and "examples" in node and "type" in node:
            for example in node["examples"]:
                n += 1
                yield from faults_of(example, node, path)
    if n < 15:
        yield f"only {n} examples"


def example_checker_faults():
    """The checker itself: what is wrong must be found."""
    good = {"id": "b1", "address": "10.9.0.11", "weight": 2, "mac": None, "server_id": None,
            "admin_state": "up", "state": "up", "dcodes": 1, "flows": 0, "flows_opened": 0, "packets": 0, "bytes": 0,
            "port": None, "return_packets": 0, "return_bytes": 0, "effective_weight": 0.5,
            "health": {"state": "up", "since": None, "ignored": False, "damped": False,
                       "last_check": None, "latency_us": None, "last_result": None,
                       "consecutive": 0, "last_error": None, "checks_total": 0,
                       "checks_failed_total": 0, "override": None}}
    bad = [("id", "B1"), ("weight", 65536), ("weight", "2"), ("weight", True), ("mac", "x"),
           ("state", "idle"), ("flows", -1), ("address", None), ("effective_weight", "1"),
           ("effective_weight", -0.5), ("health", None)]
    if list(faults_of(good, schema("Dip"))):
        yield "a good DIP is refused"
    for name, value in bad:
        if not list(faults_of({**good, name: value}, schema("Dip"))):
            yield f"{name}: {value!r} is taken"
    if not list(faults_of({k: v for k, v in good.items() if k != "state"}, schema("Dip"))):
        yield "a lacking member is not missed"


def role_faults(real):
    """real: "GET /v1/vips" -> the role that the router wants."""
    for path, item in doc["paths"].items():
        for method in set(item) & {"get", "put", "patch", "delete", "post"}:
            op, route = item[method], f"{method.upper()} {path}"
            role = op.get("x-role", "read" if method == "get" else "operate")
            if "security" in op:
                role = "agent" if {"agentToken": []} in op["security"] else "none"
            if role != real.get(route, role):
                yield f"{route}: {role} is documented, {real[route]} is wanted"


def route_faults():
    source = read("api/server/routes.c")
    names = dict(re.findall(r'#define (\w+) ((?:\w+ )*"[^"]*")', source))

    def path_of(text):
        parts = re.findall(r'"[^"]*"|\w+', text)
        return "".join(p.strip('"') if p[0] == '"' else path_of(names[p]) for p in parts)

    real = {}
    roles = {}
    for method, path, query, role in re.findall(r'\{"([A-Z]+)", ([^,]+), \w+, (NULL|"[^"]*"),\s+ROLE_(\w+)\}', source):
        query = set() if query == "NULL" else set(query.strip('"').split())
        real[f"{method} {path_of(path)}"] = query
        roles[f"{method} {path_of(path)}"] = role.lower()
    documented = {}
    for path, item in doc["paths"].items():
        for method in set(item) & {"get", "put", "patch", "delete", "post"}:
            parameters = [resolve(p) for p in item[method].get("parameters", [])]
            documented[f"{method.upper()} {path}"] = {p["name"] for p in parameters
                                                     if p["in"] == "query"}
            wanted = set(re.findall(r"\{(\w+)\}", path))
            given = {resolve(p)["name"] for p in item.get("parameters", [])}
            yield from differ(f"path parameters of {path}", given, wanted)
    yield from differ("routes", set(documented), set(real))
    yield from role_faults(roles)
    for route in set(documented) & set(real):
        yield from differ(f"query of {route}", documented[route], real[route])
    if len(real) < 10:
        yield "routes.c could not be read"


def words(name):
    """The words of an enum's name table in the sources."""
    for path in ("forwarder/control/model.c", "forwarder/control/health_conf.c"):
        m = re.search(name + r"\[\] = \{(.*?)\}", read(path), re.S)
        if m:
            return re.findall(r'"(\w+)"', m.group(1))
    return []


def member_faults():
    source = read("api/server/codec_fields.c")
    for table, name, write in (("vip_fields", "Vip", "VipPut"), ("dip_fields", "Dip", "DipPut"),
                               ("idle_fields", "IdleTimeouts", "IdleTimeouts"),
                               ("health_fields", "Health", "Health")):
        body = re.search(table + r"\[\] = \{(.*?)\n\};", source, re.S).group(1)
        entries = re.findall(r'\{"(\w+)", (K_\w+)(.*?)\}', body, re.S)
        real = {n for n, kind, _ in entries if kind != "K_CHANGE"}
        yield from differ(name, properties(name), real)
        required = {n for n, _, rest in entries if ".required = true" in rest}
        required |= {"type"} if name == "Health" else set()  # has no default in a new object
        yield from differ(f"required of {write}", set(schema(write).get("required", [])), required)
    for name, table in (("Protocol", "vip_protocol_names"), ("Mode", "vip_mode_names"),
                        ("Affinity", "vip_affinity_names"),
                        ("LearnOverflow", "learn_overflow_names"),
                        ("AdminState", "admin_state_names"),
                        ("HealthType", "health_type_names"),
                        ("HealthMethod", "health_method_names"),
                        ("HealthQuery", "health_query_names"),
                        ("HealthRcode", "health_rcode_names")):
        yield from differ(name, set(schema(name)["enum"]), set(words(table)))
    yield from differ("VipPatch", properties("VipPatch"), properties("VipPut"))
    yield from differ("DipPatch", properties("DipPatch"), properties("DipPut"))


def number_faults():
    """Limits and defaults of a VIP's numbers, from the table in the model."""
    source = read("forwarder/control/model.c")
    rows = re.findall(r'NUMBER\(\w+, "([^"]+)", \w+, (\d+), (\d+),\s*(\w+),\s*\w+\)', source)
    for pointer, default, low, high in rows:
        node = schema("VipPut")
        for part in pointer.strip("/").split("/"):
            node = resolve(node["properties"][part])
        real = (int(default), int(low), 604800 if high == "WEEK_S" else int(high))
        said = (node["default"], node["minimum"], node["maximum"])
        if real != said:
            yield f"{pointer}: {said} is documented, {real} is true"
    if len(rows) != 8:
        yield f"{len(rows)} numbers found in model.c"
    rows = re.findall(r"NUMBER\(HEALTH_P_\w+, (\w+), \w+, (\d+), (\w+),\s*(\w+)\)",
                      read("forwarder/control/health_conf.c"))
    words = {"HEALTH_INTERVAL_MIN_MS": 100, "HOUR_MS": 3600000, "DIPS_PER_VIP_MAX": 4096,
             "UINT16_MAX": 65535}
    for name, *real in rows:
        node = schema("Health")["properties"][name]
        real = [words[n] if n in words else int(n) for n in real]
        said = [node.get("default", 0), node["minimum"], node["maximum"]]
        if real != said:
            yield f"/health/{name}: {said} is documented, {real} is true"
    if len(rows) != 9:
        yield f"{len(rows)} numbers found in health_conf.c"


def counter_faults():
    control = read("forwarder/control/control.h")
    fields = "".join(re.search(rf"define CONSISTENCY_{kind}\(X\)(.*?)\n\n", control, re.S).group(1)
                     for kind in ("FIELDS", "HISTOGRAMS"))
    yield from differ("Consistency", properties("Consistency"), set(re.findall(r"X\((\w+),", fields)))
    reasons = re.search(r"define DROP_REASONS\(X\)(.*?)\n\n", read("forwarder/worker/counters.h"),
                        re.S).group(1)
    yield from differ("Drops", properties("Drops"), set(re.findall(r"X\((\w+),", reasons)))
    kinds = re.search(r"define EVENT_KINDS\(X\)(.*?)\n\n", read("forwarder/control/events.h"),
                      re.S).group(1)
    yield from differ("kinds of events", set(schema("Event")["properties"]["kind"]["enum"]),
                      set(re.findall(r"X\((\w+),", kinds)))
    for name in ("Consistency", "Drops"):
        yield from differ(f"required of {name}", set(schema(name)["required"]), properties(name))


NOT_JSON = {"/metrics": "text/plain", "/v1/events": "text/event-stream",
            "/v1/trace": "application/x-pcapng"}


def problem_faults():
    """The stable types of problems are those of the program."""
    kinds = re.search(r"} kinds\[\] = \{(.*?)\n\};", read("api/server/problem.c"), re.S).group(1)
    real = {f"/problems/{slug}" for slug in re.findall(r'\{\d+, "([a-z-]+)"', kinds)}
    yield from differ("types of problems", set(schema("Problem")["properties"]["type"]["enum"]), real)


def type_faults():
    body = re.search(r"others\[\] = \{(.*?)\n\};", read("api/server/accept.c"), re.S).group(1)
    real = dict(re.findall(r'\{"([^"]+)", "([^"]+)"\}', body))
    for path, type_ in NOT_JSON.items():
        if path not in real or not type_.startswith(real[path]):
            yield f"{path} answers {type_}, which an Accept header must name as {real.get(path)}"


def limit_faults():
    body = re.search(r"limits\[\] = \{(.*?)\n\t\};", read("api/server/limits.c"), re.S).group(1)
    yield from differ("limits", properties("Limits"), set(re.findall(r'\{"(\w+)",', body)))


def operation_faults():
    seen = set()
    for path, item in doc["paths"].items():
        for method in set(item) & {"get", "put", "patch", "delete", "post"}:
            op = item[method]
            if op["operationId"] in seen:
                yield f"operationId {op['operationId']} is there twice"
            seen.add(op["operationId"])
            for status, response in op["responses"].items():
                content = resolve(response).get("content", {})
                wanted = "application/json" if status[0] == "2" else "application/problem+json"
                if status == "200":
                    wanted = NOT_JSON.get(path, wanted)
                if list(content) != ([] if status == "304" else [wanted]):
                    yield f"{method} {path} {status}: {list(content)}, not {wanted}"


if doc["openapi"] != "3.1.0":
    sys.exit("not OpenAPI 3.1.0")
check("every reference leads somewhere, every component is used", reference_faults())
check("the example checker finds faults", example_checker_faults())
check("examples fit their schemas", example_faults())
check("operations are named once and answer JSON", operation_faults())
check("paths, methods and query parameters are those of the router", route_faults())
check("members and words are those of the codec and the model", member_faults())
check("limits and defaults are those of the model", number_faults())
check("types of problems are those of the program", problem_faults())
check("what answers something else than JSON says so", type_faults())
check("the limits are those of the program", limit_faults())
check("counters and drop reasons are those of the program", counter_faults())
sys.exit(1 if failures else 0)
