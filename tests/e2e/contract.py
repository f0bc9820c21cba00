"""The API's description as a judge of answers: what its operation does not describe is an error. Every
answer that a test gets goes through here, so what is built up is kept; the document is the build's JSON,
which takes a hundredth of the time that the YAML would.

Members that the description does not name are faults too, though JSON Schema would let them pass: each
schema that stands for a whole value is closed (unevaluatedProperties) unless it says otherwise itself.
"""

import bisect
import functools
import json
import os
import pathlib
import urllib.parse

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / os.environ.get("BUILD", "build") / "gen" / "openapi.json"


class ContractError(AssertionError):
    pass


def _close(schema, whole):
    """A copy in which each schema of a whole value refuses members that it does not name."""
    if not isinstance(schema, dict):
        return schema
    out = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            out[key] = {name: _close(v, True) for name, v in value.items()}
        elif key in ("items", "additionalProperties"):
            out[key] = _close(value, True)
        elif key in ("oneOf", "anyOf"):
            out[key] = [_close(v, whole) for v in value]
        elif key == "allOf":
            out[key] = [_close(v, False) for v in value]
        else:
            out[key] = value
    if whole and not {"oneOf", "anyOf", "additionalProperties"} & set(out) and \
            {"$ref", "properties", "allOf"} & set(out):
        out.setdefault("unevaluatedProperties", False)
    return out


@functools.lru_cache(None)
def document():
    doc = json.loads(DOCUMENT.read_bytes())
    schemas = doc["components"]["schemas"]
    doc["components"]["schemas"] = {name: _close(s, False) for name, s in schemas.items()}
    return doc


def resolve(node):
    while isinstance(node, dict) and "$ref" in node:
        target = document()
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = {**target, **{k: v for k, v in node.items() if k != "$ref"}}
    return node


@functools.lru_cache(None)
def _paths():
    """(segments of a path, its item), those without names first."""
    items = [(tuple(path.split("/")), item) for path, item in document()["paths"].items()]
    return sorted(items, key=lambda p: [s.startswith("{") for s in p[0]])


def find_path(url):
    """The path item that a URL belongs to, or None."""
    segments = urllib.parse.urlsplit(url).path.split("/")
    for names, item in _paths():
        if len(names) == len(segments) and \
                all(n == s or (n.startswith("{") and s) for n, s in zip(names, segments)):
            return item
    return None


@functools.lru_cache(None)
def _validator(text):
    """Of a schema's JSON text. The components beside it are what its references lead to."""
    return jsonschema.Draft202012Validator(
        {**_close(json.loads(text), True), "components": document()["components"]})


def schema_faults(value, schema):
    """What a value lacks of a schema of the document, one sentence each."""
    for e in _validator(json.dumps(schema)).iter_errors(value):
        yield f"/{'/'.join(map(str, e.absolute_path))}: {e.message[:300]}"


@functools.lru_cache(None)
def _bounds():
    """Every number that the document sets as a bound or a value: two integers with none of them between
    are the same to any of its schemas."""
    found = set()

    def walk(node):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(value, (dict, list)):
                walk(value)
            elif isinstance(value, (int, float)) and (isinstance(key, int) or key not in (
                    "example", "default")):
                found.update((value - 0.5, value + 0.5))
    walk(document())
    return sorted(found)


def _likeness(value):
    """What is left of a value when integers are taken for their place between the bounds: polling gets the
    same answer again and again but for its counters."""
    if isinstance(value, dict):
        return tuple((k, _likeness(v)) for k, v in value.items())
    if isinstance(value, list):
        return ("[", *map(_likeness, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return ("#", bisect.bisect(_bounds(), value))
    return (type(value), value)


_good = set()  # (schema, likeness) of what was found without fault


def _checked_faults(value, schema):
    key = (json.dumps(schema), _likeness(value))
    if key in _good:
        return []
    faults = list(schema_faults(value, schema))
    if not faults:
        _good.add(key)
    return faults


def _response_of(method, url, status):
    """(its description, None) or (None, why there is none)."""
    item = find_path(url)
    method = "get" if method == "HEAD" else method.lower()
    if item is None or method not in item:
        wanted = (400, 401, 403, 404) if item is None else (400, 401, 403, 405)
        if status not in wanted:
            return None, "of a path or method that is not described"
        return resolve({"$ref": "#/components/responses/Problem"}), None
    responses = item[method]["responses"]
    if str(status) in responses:
        return resolve(responses[str(status)]), None
    if status < 400:
        return None, "a status that is not described"
    return resolve(responses["default"]), None


def _body_faults(response, status, media, body):
    content = response.get("content", {})
    if not content:
        if body:
            yield "a body that is not described"
        return
    if media not in content:
        yield f"of type {media!r}, described are {list(content)}"
        return
    if not media.endswith("json"):
        return
    try:
        value = json.loads(body)
    except ValueError as e:
        yield f"not JSON ({e})"
        return
    yield from _checked_faults(value, content[media].get("schema", {}))
    if media == "application/problem+json" and value.get("status") != status:
        yield f"the problem says status {value.get('status')}"


def check(method, url, status, headers, body):
    """Raise ContractError unless the answer (headers: a mapping that ignores case; body: bytes) is as the
    document says."""
    response, fault = _response_of(method, url, status)
    faults = [fault] if fault else []
    if response:
        for name, header in response.get("headers", {}).items():
            if resolve(header).get("required") and name not in headers:
                faults.append(f"without {name}")
        media = (headers.get("Content-Type") or "").split(";")[0].strip()
        if method != "HEAD":
            faults += _body_faults(response, status, media, body)
    if faults:
        raise ContractError(f"{method} {url} answered {status}: " + "; ".join(faults[:5]) +
                            f": {body[:300]!r}")
