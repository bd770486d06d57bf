"""The OpenAPI document, held against real replies: every call it has is made, every reply it allows fits."""

import json
import re
import urllib.parse

import pytest

from wire import Client, eventually

JSON_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


class Document:
    """The document and a validator for the part of JSON Schema that it uses."""

    def __init__(self, root):
        self.root = root

    def resolve(self, node):
        while isinstance(node, dict) and "$ref" in node:
            target = self.root
            for part in node["$ref"][2:].split("/"):
                target = target[part.replace("@1", "/").replace("@0", "~")]
            node = target
        return node

    @staticmethod
    def is_type(value, kind):
        if kind == "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        if kind == "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        return isinstance(value, JSON_TYPES[kind])

    def faults(self, value, schema, where="$"):
        """Yields what is wrong with the value."""
        schema = self.resolve(schema)
        if schema is True or schema == {}:
            return
        yield from self._combined(value, schema, where)
        kinds = schema.get("type")
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if kinds and not any(self.is_type(value, kind) for kind in kinds):
            yield f"{where}: {value!r} is not {kinds}"
            return
        if "enum" in schema and value not in schema["enum"]:
            yield f"{where}: {value!r} is none of {schema['enum']}"
        if "const" in schema and value != schema["const"]:
            yield f"{where}: {value!r} is not {schema['const']!r}"
        if self.is_type(value, "number"):
            if value < schema.get("minimum", value) or value > schema.get("maximum", value):
                yield f"{where}: {value} is out of range"
        if isinstance(value, list) and "items" in schema:
            for number, item in enumerate(value):
                yield from self.faults(item, schema["items"], f"{where}[{number}]")
        if isinstance(value, dict):
            yield from self._object(value, schema, where)

    def _combined(self, value, schema, where):
        for one in schema.get("allOf", []):
            yield from self.faults(value, one, where)
        for word in ("anyOf", "oneOf"):
            options = schema.get(word, [])
            if options and all(list(self.faults(value, one, where)) for one in options):
                yield f"{where}: fits nothing of {word}"

    def _object(self, value, schema, where):
        for key in schema.get("required", []):
            if key not in value:
                yield f"{where}: lacks {key}"
        known = schema.get("properties", {})
        for key, item in value.items():
            if key in known:
                yield from self.faults(item, known[key], f"{where}.{key}")
            elif isinstance(schema.get("additionalProperties"), dict):
                yield from self.faults(item, schema["additionalProperties"], f"{where}.{key}")
            elif known and schema.get("additionalProperties") is not True:
                yield f"{where}: {key} is not in the document"

    def operation(self, method, path):
        """The operation that a request's path belongs to, and its template."""
        parts = path.split("?")[0].strip("/").split("/")
        best = None
        for template, item in self.root["paths"].items():
            names = template.strip("/").split("/")
            if len(names) == len(parts) and method.lower() in item and all(
                    name == part or name.startswith("{") for name, part in zip(names, parts)):
                if best is None or template.count("{") < best.count("{"):
                    best = template
        return best, best and self.root["paths"][best][method.lower()]

    def check(self, method, path, answer):
        template, operation = self.operation(method, path)
        assert operation, f"{method} {path} is not in the document"
        responses = operation["responses"]
        status = str(answer.status)
        response = self.resolve(responses.get(status) or responses.get(status[0] + "XX")
                                or responses.get("default") or {})
        assert response, f"{method} {template} answered {status}, not in the document"
        content = response.get("content", {})
        kind = answer.headers.get("content-type", "").split(";")[0]
        if not answer.body:
            assert not content, f"{method} {template} {status} should have a body"
            return template
        assert kind in content, f"{method} {template} {status}: {kind} is not in the document"
        if kind.endswith("json"):
            faults = list(self.faults(answer.json(), content[kind].get("schema", {})))
            assert not faults, f"{method} {template} {status}: {faults}\n{answer.text}"
        return template


@pytest.fixture
def document(client):
    answer = client.get("/v1/openapi.json")
    assert answer.status == 200 and answer.headers["content-type"].startswith("application/json")
    return Document(answer.json())


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_the_document_is_whole(document):
    root = document.root
    assert root["openapi"].startswith("3.1") and root["info"]["title"] and root["info"]["version"]
    for reference in set(references(root)):
        assert document.resolve({"$ref": reference}) is not None
    names = set()
    for path, item in root["paths"].items():
        for method, operation in item.items():
            if method in ("get", "post", "put", "patch", "delete", "head"):
                assert operation["responses"], f"{method} {path}"
                assert operation.get("operationId") not in names
                names.add(operation.get("operationId"))


def test_every_reply_is_as_the_document_says(client, document, topic):
    made = set()

    def call(method, path, body=None, headers=None):
        answer = client.request(method, path, body, headers)
        made.add((method, document.check(method, path, answer)))
        return answer

    def configure(settings, headers=None):
        """Until this server goes by them: on Redis it is told."""
        answer = call("PUT", f"/v1/topics/{quoted}", settings, headers)
        version = answer.json()["version"]
        assert eventually(lambda: client.get(f"/v1/topics/{quoted}").json().get("version") == version)
        return answer

    quoted = urllib.parse.quote(topic)
    jobs = f"/v1/topics/{quoted}/jobs"
    call("POST", jobs, {"id": topic, "body": {"a": 1}, "delay": "1h", "retry": ["1s", "2m"]})
    call("POST", jobs, {"id": topic, "body": 1})
    call("POST", jobs, {"id": topic, "body": 2, "delay": "1h", "if_exists": "keep"})
    call("POST", jobs, {"id": topic, "body": 3, "delay": "1h", "if_exists": "replace"})
    call("POST", jobs, [{"body": "text"}, {"body": 1, "ttr": "x"}])
    call("POST", jobs, '{"body":1}\nnonsense\n', {"Content-Type": "application/x-ndjson"})
    call("POST", jobs, {"nonsense": 1})
    call("POST", jobs, {"body_base64": "/w==", "content_type": "a/b"})
    call("GET", f"/v1/jobs/{topic}")
    call("GET", "/v1/jobs/unknown")
    call("PATCH", f"/v1/jobs/{topic}", {"delay": "2h", "priority": 5})
    call("PATCH", f"/v1/jobs/{topic}", {"delay": "never"})
    call("GET", jobs + "?state=delayed&limit=1")
    call("GET", jobs + "?state=sleepy")
    call("POST", f"/v1/jobs/{topic}/run", {})
    taken = call("POST", "/v1/reserve", {"topics": [topic], "max": 100}).json()["jobs"]
    assert len(taken) >= 4
    call("POST", "/v1/reserve", {"topics": [topic]})
    call("POST", "/v1/reserve", {"topics": []})
    call("POST", "/v1/finish", {"jobs": [{"id": "unknown", "lease": "1"}, {"id": taken[-1]["id"]}]})
    call("POST", "/v1/finish", {})
    by = {"touch": {}, "release": {"delay": "1h"}, "bury": {"priority": 9}, "finish": {}}
    for job, (verb, fields) in zip(taken, by.items()):
        path = f"/v1/jobs/{urllib.parse.quote(job['id'], safe='')}/{verb}"
        call("POST", path, {"lease": job["lease"], **fields})
        call("POST", path, {"lease": "1"})
    call("GET", f"/v1/jobs/{urllib.parse.quote(taken[2]['id'], safe='')}")
    call("GET", jobs + "?state=buried")
    call("POST", f"/v1/jobs/{urllib.parse.quote(taken[2]['id'], safe='')}/kick", {})
    call("DELETE", f"/v1/jobs/{urllib.parse.quote(taken[2]['id'], safe='')}")
    call("DELETE", "/v1/jobs/unknown")
    call("GET", "/v1/topics?limit=2")
    call("GET", f"/v1/topics/{quoted}")
    call("GET", "/v1/topics/unknown-topic")
    for verb, fields in (("pause", {"for": "1s"}), ("resume", {}), ("kick", {"max": 5}),
                         ("clear", {"state": "delayed"})):
        call("POST", f"/v1/topics/{quoted}/{verb}", fields)
    call("POST", f"/v1/topics/{quoted}/clear", {"state": "all"})
    call("POST", "/v1/topics/unknown-topic/pause")
    settings = {"target": {"type": "http", "url": "https://a.example/", "sign": ["$A"], "timeout": "5s",
                           "success": {"status": "2xx", "body": "ok"}, "bury_on": [400]},
                "retry": "alipay", "attempts": 3, "jitter": 0.5, "rate": "5/m", "burst": 2, "order": "key",
                "key_concurrency": 3, "key_rate": "1/10s",
                "ttr": "5s", "paused": True, "paused_why": "maintenance"}
    version = configure(settings).headers["etag"]
    call("PUT", f"/v1/topics/{quoted}", {"nonsense": 1})
    call("PUT", f"/v1/topics/{quoted}", {}, {"If-Match": '"1"'})
    call("GET", f"/v1/topics/{quoted}")
    call("POST", "/v1/reserve", {"topics": [topic]})
    call("POST", jobs, {"id": "own", "url": "https://b.example/", "key": "k", "headers": {"A": "b"}})
    call("POST", jobs, {"level": 3, "url": "ftp://b.example/"})
    call("GET", "/v1/jobs/own")
    call("POST", f"/v1/topics/{quoted}/test", {"body": "x", "delay": 1})
    call("DELETE", f"/v1/topics/{quoted}?if_empty=true")
    configure({"retry": ["1s"]}, {"If-Match": version})
    failed = call("POST", "/v1/reserve", {"topics": [topic]}).json()["jobs"][0]
    call("POST", "/v1/jobs/own/bury", {"lease": failed["lease"], "reason": "no", "code": 503})
    call("GET", jobs + "?state=buried")
    call("GET", "/v1/jobs/own/attempts")
    call("POST", "/v1/get", {"jobs": [{"id": "own"}, {"id": "unknown"}]})
    call("POST", "/v1/get", {"job": 1})
    call("POST", jobs, {"id": "moved", "state": "buried", "due": 0, "created": 1_700_000_000_000, "attempt": 2, "failures": 1})
    call("DELETE", "/v1/jobs/moved")
    call("GET", "/v1/jobs/unknown/attempts")
    call("GET", "/v1/jobs/own/history")
    assert call("POST", f"/v1/topics/{quoted}/replay", {"code": "5xx", "since": "1h"}).json()["kicked"] == 1
    call("POST", f"/v1/topics/{quoted}/replay", {"code": "x"})
    call("POST", "/v1/topics/unknown-topic/replay")
    call("GET", "/v1/cluster")
    call("GET", "/v1/journal")
    call("POST", "/v1/journal/resync", {})
    call("POST", "/v1/restore", {"id": "own", "expire": False})
    call("GET", jobs + "?state=delayed&properties=true")
    call("DELETE", f"/v1/topics/{quoted}")
    call("DELETE", f"/v1/topics/{quoted}")
    call("POST", jobs)
    call("GET", "/v1/stats")
    call("GET", "/v1/due?within=1m,30d")
    call("GET", "/v1/due?within=now")
    call("GET", "/v1/limits")
    call("GET", "/v1/openapi.json")
    for path in ("/", "/healthz", "/readyz", "/metrics"):
        if document.operation("GET", path)[1]:
            call("GET", path)

    wanted = {(method.upper(), path) for path, item in document.root["paths"].items()
              for method in item if method in ("get", "post", "put", "patch", "delete")}
    assert wanted - made == set(), "calls in the document that this test does not make"


METHODS = ("get", "post", "put", "patch", "delete")


def parameters_of(document, operation):
    """Names of an operation's query parameters."""
    found = map(document.resolve, operation.get("parameters", []))
    return {one["name"] for one in found if one["in"] == "query"}


def fields_of(document, operation):
    """Names of the fields that its request has, of one job where many may be sent; None: it takes no body."""
    if "requestBody" not in operation:
        return None
    schema = document.resolve(operation["requestBody"]["content"]["application/json"]["schema"])
    schema = document.resolve(schema["oneOf"][0]) if "oneOf" in schema else schema
    assert schema["additionalProperties"] is False
    return set(schema.get("properties", {}))


def names_in(detail, begin):
    """The names in a refusal's text, and whether these are all."""
    listed = detail.partition(begin)[2]
    return set(re.findall(r"[a-z_0-9]+", listed)) - {"and"}, not listed.endswith("…")


def test_the_server_takes_the_fields_and_parameters_of_the_document_and_no_others(client, document, topic):
    path = f"/v1/topics/{urllib.parse.quote(topic)}"
    assert client.push(topic, id=topic, delay="1h").status == 201
    calls = [(template, method.upper(), operation) for template, item in document.root["paths"].items()
             for method, operation in item.items() if method in METHODS and template.startswith("/v1/")]
    assert len(calls) > 30
    for template, method, operation in calls:
        place = template.replace("/v1/topics/{topic}", path).replace("{id}", urllib.parse.quote(topic))
        body = {} if method in ("POST", "PUT", "PATCH") else None
        refused = client.request(method, place + "?nonsense=1", body)
        if template != "/v1/journal/resync":  # without a journal it looks no further
            assert (refused.status, refused.json()["code"]) == (400, "unknown_parameter"), (method, template, refused)
            known = names_in(refused.json()["detail"], "here is ")[0] or names_in(refused.json()["detail"], "here are ")[0]
            assert known == parameters_of(document, operation), (method, template)
        if body is None:
            continue
        fields = fields_of(document, operation) or set()
        refused = client.request(method, place, {"nonsense": 1}).json()
        assert refused["code"] == "unknown_field", (method, template, refused)
        known, all_of_them = names_in(refused["detail"], ", but ")
        assert known == fields if all_of_them else known < fields, (method, template, known ^ fields)
        for field in fields - known:
            answer = client.request(method, place, {field: {"nonsense": [1]}})
            assert answer.status < 300 or answer.json()["code"] != "unknown_field", (method, template, field)


def test_the_validator_itself_finds_faults():
    document = Document({"components": {"schemas": {"s": {
        "type": "object", "required": ["a"],
        "properties": {"a": {"type": "integer", "minimum": 1}, "b": {"enum": ["x", "y"]}}}}}})
    schema = {"$ref": "#/components/schemas/s"}
    assert list(document.faults({"a": 1, "b": "x"}, schema)) == []
    for bad in ({}, {"a": "1"}, {"a": 0}, {"a": 1, "b": "z"}, {"a": 1, "c": 1}, [], None):
        assert list(document.faults(bad, schema)), json.dumps(bad)
