"""/v1: every row of its interface, with its failures."""

import base64
import json
import time
from datetime import datetime, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patience import before, soon
from wire import Client, eventually


def problem(answer, status, code=None):
    """The problem in an answer, which must be one of that status."""
    assert answer.status == status, answer
    assert answer.headers["content-type"].startswith("application/problem+json")
    said = answer.json()
    assert said["status"] == status and said["code"] and said["title"]
    assert code is None or said["code"] == code, said
    return said


# Pushing

def test_a_pushed_job_is_created_and_found(client, topic):
    answer = client.push(topic, body={"a": [1, None, "x"]}, delay="30m", priority=7, ttr="90s")
    assert answer.status == 201
    job = client.job(answer.json()["id"], method="GET").json()
    assert job["topic"] == topic and job["state"] == "delayed" and job["priority"] == 7
    assert job["ttr_ms"] == 90_000
    assert abs(job["due_ms"] - (time.time() + 1800) * 1000) < 5000
    assert job["body"] == {"a": [1, None, "x"]}


@pytest.mark.parametrize("delay, seconds", [
    ("250ms", 0.25), ("2d", 172800), ("1h30m", 5400), (1500, 1.5), ("90s", 90), ("3650d", 315360000)])
def test_delays_are_durations_or_milliseconds(client, topic, delay, seconds):
    before = time.time()
    job_id = client.push_id(topic, body="x", delay=delay)
    due = client.job(job_id, method="GET").json()["due_ms"] / 1000
    assert before + seconds - 0.01 <= due <= time.time() + seconds + 0.01


@pytest.mark.parametrize("form", ["rfc3339", "rfc3339 offset", "epoch"])
def test_due_is_a_date_or_epoch_milliseconds(client, topic, form):
    due = int(time.time()) + 5000
    utc = datetime.fromtimestamp(due, timezone.utc)
    value = {"rfc3339": utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
             "rfc3339 offset": datetime.fromtimestamp(due + 7200, timezone.utc)
             .strftime("%Y-%m-%dT%H:%M:%S+02:00"),
             "epoch": due * 1000}[form]
    job_id = client.push_id(topic, body="x", due=value)
    assert client.job(job_id, method="GET").json()["due_ms"] == due * 1000


@pytest.mark.parametrize("fields, field", [
    ({"delay": "soon"}, "delay"), ({"delay": -1}, "delay"), ({"delay": [1]}, "delay"),
    ({"due": "yesterday"}, "due"), ({"due": 1735000000}, "due"), ({"due": 2020}, "due"), ({"due": "2024-02-30T00:00:00Z"}, "due"),
    ({"priority": -1}, "priority"), ({"priority": 2**32}, "priority"), ({"priority": "1"}, "priority"),
    ({"priority": 1.5}, "priority"), ({"ttr": 0}, "ttr"), ({"ttr": "x"}, "ttr"),
    ({"id": ""}, "id"), ({"id": "x" * 256}, "id"), ({"id": 5}, "id"), ({"id": "@7"}, "id"),
    ({"if_exists": "maybe"}, "if_exists"), ({"body_base64": "!!!"}, "body_base64"),
    ({"retry": ["x"]}, "retry"), ({"retry": "1m"}, "retry"), ({"retry": ["1s"] * 65}, "retry"),
    ({"content_type": 5}, "content_type"), ({"content_type": "x" * 128}, "content_type"),
    ({"prioritty": 5}, "prioritty")])
def test_a_bad_field_is_refused_by_name(client, topic, fields, field):
    said = problem(client.push(topic, **{"body": "x", **fields}), 400)
    assert field in said.get("field", "") or field in said["detail"], said


def test_delay_and_due_together_are_refused(client, topic):
    problem(client.push(topic, body="x", delay="1s", due="2030-01-01T00:00:00Z"), 400)


@pytest.mark.parametrize("body", [
    "{", "[", "nonsense", '{"body":"x"', '{"body":"x"}}', '{"body":"\\ud800"}', '{"body":"\xff"}',
    '{"body":01}', "{'body':1}", '{"body":"\t"}', '{"body":nul}', '{"body":"a" "b":1}',
    '{"body":1,}', '"text"', "17"])
def test_broken_json_is_refused(client, topic, body):
    data = body.encode("latin-1") if "\xff" in body else body
    answer = client.request("POST", f"/v1/topics/{topic}/jobs", data,
                            {"Content-Type": "application/json"})
    problem(answer, 400)
    assert client.get("/healthz").status == 200


def test_a_taken_id_is_refused_replaced_or_kept(client, topic):
    job_id = client.push_id(topic, id=topic, body="one", delay="1h")
    assert job_id == topic
    problem(client.push(topic, id=topic, body="two", delay="1h"), 409, "exists")
    assert client.job(topic, method="GET").json()["body"] == "one"
    kept = client.push(topic, id=topic, body="three", delay="1h", if_exists="keep")
    assert kept.status == 200
    assert client.job(topic, method="GET").json()["body"] == "one"
    replaced = client.push(topic, id=topic, body="four", delay="2h", if_exists="replace")
    assert replaced.status in (200, 201)
    assert client.job(topic, method="GET").json()["body"] == "four"


def test_bytes_come_back_as_bytes(client, topic):
    data = bytes(range(256))
    client.push_id(topic, body_base64=base64.b64encode(data).decode(),
                   content_type="application/octet-stream")
    job, = client.reserve(topic)
    assert base64.b64decode(job["body_base64"]) == data
    assert job["content_type"] == "application/octet-stream"
    client.job(job["id"], "finish", lease=job["lease"])


@settings(max_examples=80, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.recursive(
    st.none() | st.booleans() | st.integers(-2**53, 2**53) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner,
                                                                max_size=4), max_leaves=12))
def test_any_json_body_comes_back_as_it_was(shared, value):
    with Client(shared.port) as one:
        one.push("any-json", id="any-json", body=value, delay="1h", if_exists="replace")
        assert one.job("any-json", method="GET").json()["body"] == value


def test_an_array_is_a_batch_with_a_result_for_each(client, topic):
    results = client.push_many(topic, [
        {"body": 1}, {"body": 2, "priority": -1}, {"id": topic, "body": 3}, {"id": topic, "body": 4}])
    assert [result["status"] for result in results] == [201, 400, 201, 409]


def test_ndjson_is_a_batch_too_and_a_bad_line_spoils_only_itself(client, topic):
    lines = '{"body":1}\nnot json\n{"body":2}\n\n{"body":3}'
    answer = client.request("POST", f"/v1/topics/{topic}/jobs", lines,
                            {"Content-Type": "application/x-ndjson"})
    assert answer.status == 200 and answer.json()["failed"] == 1
    assert [result["status"] for result in answer.json()["results"]] == [201, 400, 201, 201]
    assert len(client.reserve(topic, most=10)) == 3


@pytest.mark.embedded("Redis has no syncs to count")
def test_a_batch_of_finishes_shares_its_syncs(laterd):
    with Client(laterd().port) as client:
        client.push_many("t", [{"body": number} for number in range(200)])
        held = client.reserve("t", most=200)
        before = client.get("/v1/stats").json()["store"]["syncs"]
        said = client.post("/v1/finish", jobs=[{"id": job["id"], "lease": job["lease"]}
                                               for job in held]).json()
        assert said["failed"] == 0 and len(said["results"]) == 200
        assert client.get("/v1/stats").json()["store"]["syncs"] <= before + 3


def test_a_batch_of_finishes_that_is_none_finishes_nothing(client, topic):
    job_id = client.push_id(topic, body=1)
    client.reserve(topic)
    good = f'{{"id":"{job_id}"}}'
    for body in ("", "{}", f"[{good}]", f'{{"jobs":[{good},]}}', f'{{"jobs":[{good}],"lease":"1"}}'):
        problem(client.request("POST", "/v1/finish", body, {"Content-Type": "application/json"}), 400)
    problem(client.post("/v1/finish", {"jobs": [{"id": job_id}] * 1001}), 413, "batch_too_large")
    assert client.state(job_id) == "reserved"
    assert client.post("/v1/finish", jobs=[]).json() == {"failed": 0, "results": []}


def test_an_empty_batch_is_fine(client, topic):
    answer = client.post(f"/v1/topics/{topic}/jobs", "[]")
    assert answer.status in (200, 400)


# Reserving and what follows

def test_reserve_gives_the_job_with_a_lease(client, topic):
    job_id = client.push_id(topic, body="x", ttr="30s")
    before = time.time()
    job, = client.reserve(topic)
    assert job["id"] == job_id and job["state"] == "reserved" and job["attempt"] == 1
    assert isinstance(job["lease"], str)
    assert client.job(job_id, "finish", lease=job["lease"]).status in (200, 204)
    assert client.state(job_id) is None
    deadline = datetime.fromisoformat(job["deadline"].replace("Z", "+00:00")).timestamp()
    assert before + 29 < deadline < time.time() + 31


def test_reserve_gives_204_when_the_wait_ends_empty(client, topic):
    begin = time.monotonic()
    answer = client.post("/v1/reserve", topics=[topic], wait="300ms")
    assert answer.status == 204 and answer.body == b""
    assert 0.29 <= soon(time.monotonic() - begin, 2)


def test_reserve_takes_up_to_max(client, topic):
    for _ in range(5):
        client.push_id(topic, body="x")
    assert len(client.reserve(topic, most=3)) == 3
    assert len(client.reserve(topic, most=3)) == 2


def test_ready_jobs_come_by_priority_then_due_then_arrival(client, topic):
    now = int(time.time() * 1000)
    pushes = [("c", 5, now - 1000), ("b", 5, now - 2000), ("d", 5, now - 1000), ("a", 1, now)]
    for name, priority, due in pushes:
        client.push_id(topic, id=topic + name, body=name, priority=priority, due=due)
    assert [job["body"] for job in client.reserve(topic, most=9)] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("fields", [
    {}, {"topics": []}, {"topics": "a"}, {"topics": [""]}, {"topics": [1]},
    {"topics": ["a"], "max": 0}, {"topics": ["a"], "max": -1}, {"topics": ["a"], "wait": "x"},
    {"topics": ["a"], "wait": -1}, {"topics": ["a"], "mox": 1}, {"topics": ["a" * 201]}])
def test_a_bad_reserve_is_refused(client, fields):
    problem(client.request("POST", "/v1/reserve", json.dumps(fields)), 400)


def test_a_stale_lease_gets_409(client, topic):
    job_id = client.push_id(topic, body="x", ttr="200ms")
    first, = client.reserve(topic)
    second = eventually(lambda: client.reserve(topic))[0]
    assert second["attempt"] == 2 and second["lease"] != first["lease"]
    with before(second["deadline_ms"] / 1000):
        for verb in ("finish", "release", "touch", "bury"):
            problem(client.job(job_id, verb, lease=first["lease"]), 409, "stale_lease")


@pytest.mark.parametrize("lease", ["0", "nonsense", "", "-1", "9" * 40])
def test_a_lease_that_never_was_finishes_nothing(client, topic, lease):
    job_id = client.push_id(topic, body="x")
    assert client.reserve(topic)
    assert client.job(job_id, "finish", lease=lease).status in (400, 409)
    assert client.state(job_id) == "reserved"


def test_finish_of_a_job_nobody_holds_is_refused(client, topic):
    job_id = client.push_id(topic, body="x", delay="1h")
    problem(client.job(job_id, "finish"), 409, "wrong_state")


@pytest.mark.parametrize("verb", ["finish", "release", "touch", "bury", "kick", "run"])
def test_an_unknown_job_is_not_found(client, verb):
    problem(client.job("no such job", verb), 404, "not_found")
    problem(client.job("@999999999", verb), 404, "not_found")


def test_release_gives_back_at_once_or_after_a_delay(client, topic):
    job_id = client.push_id(topic, body="x")
    job, = client.reserve(topic)
    assert client.job(job_id, "release", lease=job["lease"]).status in (200, 204)
    job, = client.reserve(topic)
    assert job["failures"] == 1
    assert client.job(job_id, "release", lease=job["lease"], delay="1h").status in (200, 204)
    assert client.state(job_id) == "delayed" and client.reserve(topic) == []
    assert client.job(job_id, "run").status in (200, 204)
    assert client.reserve(topic)[0]["id"] == job_id


def test_touch_gives_the_ttr_anew(client, topic):
    job_id = client.push_id(topic, body="x", ttr="400ms")
    touched, (job,) = time.time(), client.reserve(topic)
    for _ in range(4):
        time.sleep(0.2)
        with before(touched + 0.4):
            touched = time.time()
            assert client.job(job_id, "touch", lease=job["lease"]).status in (200, 204)
    with before(touched + 0.4):
        assert client.state(job_id) == "reserved"
        assert client.job(job_id, "finish", lease=job["lease"]).status in (200, 204)


def test_a_buried_job_waits_for_its_kick(client, topic):
    job_id = client.push_id(topic, body="x")
    job, = client.reserve(topic)
    assert client.job(job_id, "bury", lease=job["lease"]).status in (200, 204)
    assert client.state(job_id) == "buried" and client.reserve(topic) == []
    assert client.job(job_id, "kick").status in (200, 204)
    assert client.state(job_id) == "ready"


def test_a_schedule_used_up_buries_the_job(client, topic):
    job_id = client.push_id(topic, body="x", retry=["0s", "300ms"])
    for wait in (0, 0, "20s"):
        job, = client.reserve(topic, wait=wait)
        client.job(job_id, "release", lease=job["lease"])
    assert client.state(job_id) == "buried"
    assert client.counts(topic)["buried"] == 1


def test_patch_moves_a_delayed_job(client, topic):
    job_id = client.push_id(topic, body="old", delay="1h")
    answer = client.job(job_id, method="PATCH", delay="2h", priority=3, body="new")
    assert answer.status in (200, 204), answer
    job = client.job(job_id, method="GET").json()
    assert job["priority"] == 3 and job["body"] == "new"
    assert job["due_ms"] > (time.time() + 7000) * 1000
    assert client.job(job_id, method="PATCH", delay=0).status in (200, 204)
    assert [job["body"] for job in client.reserve(topic, wait="20s")] == ["new"]
    problem(client.job(job_id, method="PATCH", priority=1), 409, "wrong_state")


def test_delete_works_from_any_state(client, topic):
    ids = [client.push_id(topic, body="x", delay="1h"), client.push_id(topic, body="x")]
    held, = client.reserve(topic)
    ids.append(client.push_id(topic, body="x"))
    for job_id in ids:
        assert client.job(job_id, method="DELETE").status in (200, 204)
        problem(client.job(job_id, method="GET"), 404)
    assert client.job(held["id"], "finish", lease=held["lease"]).status in (404, 409)


def test_ids_and_topics_may_hold_any_text(client):
    name = "a/b c?d#e%f é 中"
    job_id = client.push_id(name, id=name, body="x")
    assert job_id == name
    job = client.job(name, method="GET").json()
    assert job["id"] == name and job["topic"] == name
    assert client.reserve(name)[0]["id"] == name
    assert client.job(name, method="DELETE").status in (200, 204)


@pytest.mark.parametrize("path", ["/v1/topics/%zz/jobs", "/v1/topics/%00/jobs", "/v1/topics/%ff/jobs",
                                  "/v1/topics/%0a/jobs", "/v1/topics/" + "a" * 201 + "/jobs"])
def test_a_topic_that_cannot_be_is_refused(client, path):
    assert client.post(path, {"body": "x"}).status in (400, 404)


# Topics

def test_a_topic_shows_its_counts(client, topic):
    client.push_id(topic, body="x", delay="1h")
    client.push_id(topic, body="x")
    client.push_id(topic, body="x")
    client.reserve(topic)
    counts = client.counts(topic)
    assert counts["name"] == topic
    states = ("delayed", "ready", "reserved", "buried")
    assert [counts[state] for state in states] == [1, 1, 1, 0]
    names = [one["name"] for one in client.get("/v1/topics?limit=1000").json()["topics"]]
    assert topic in names


def test_an_unknown_topic_is_not_found(client, topic):
    problem(client.get(f"/v1/topics/{topic}-never"), 404, "not_found")


def test_listing_pages_through_a_state_in_due_order(client, topic):
    ids = [client.push_id(topic, body=n, delay=f"{3600 + (n * 7) % 23}s") for n in range(23)]
    seen, cursor = [], None
    while True:
        path = f"/v1/topics/{topic}/jobs?state=delayed&limit=5" + (
            f"&cursor={cursor}" if cursor else "")
        page = client.get(path).json()
        assert len(page["jobs"]) <= 5
        seen += page["jobs"]
        cursor = page.get("cursor")
        if not cursor:
            break
    dues = [job["due_ms"] for job in seen]
    assert dues == sorted(dues) and sorted(job["id"] for job in seen) == sorted(ids)


@pytest.mark.parametrize("state", ["delayed", "ready", "reserved", "buried"])
@pytest.mark.parametrize("limit", [1, 4, 100])
def test_a_listing_goes_backwards(client, topic, state, limit):
    """The same jobs as forwards, in the opposite order, page by page."""
    ids = [client.push_id(topic, body=n, delay=f"{3600 + n % 7}s" if state == "delayed" else "0s")
           for n in range(13)]
    if state in ("reserved", "buried"):
        taken = client.reserve_all(topic, 13)
        for job in taken if state == "buried" else ():
            assert client.job(job["id"], "bury", lease=job["lease"]).status in (200, 204)
    listed = {}
    for order in ("asc", "desc"):
        listed[order], cursor = [], ""
        while True:
            page = client.get(f"/v1/topics/{topic}/jobs?state={state}&limit={limit}&order={order}"
                              + cursor).json()
            assert len(page["jobs"]) <= limit
            listed[order] += [job["id"] for job in page["jobs"]]
            if "cursor" not in page:
                break
            cursor = f"&cursor={page['cursor']}"
    assert sorted(listed["asc"]) == sorted(ids)
    assert listed["desc"] == listed["asc"][::-1]


def test_a_cursor_of_another_listing_is_refused(client, topic):
    for name in (topic, f"{topic}-2"):
        for number in range(2):
            client.push_id(name, body=number, delay="1h")
    path = f"/v1/topics/{topic}/jobs?state=delayed&limit=1&cursor="
    cursor = client.get(path.removesuffix("&cursor=")).json()["cursor"]
    assert len(client.get(path + cursor).json()["jobs"]) == 1
    damaged = cursor[:20] + ("B" if cursor[20] == "A" else "A") + cursor[21:]
    of_the_other_engine = "AQ" + {"E": "I", "I": "E"}[cursor[2]] + cursor[3:]
    for bad in ("", cursor[:-4], cursor + "AAAA", damaged, of_the_other_engine, "1795243808634890.2"):
        answer = client.get(path + bad)
        problem(answer, 400, "bad_parameter")
        assert answer.json()["field"] == "cursor" and "begin again" in answer.json()["detail"], bad
    for other in (f"{topic}-2/jobs?state=delayed", f"{topic}/jobs?state=reserved",
                  f"{topic}/jobs?state=delayed&order=desc"):
        problem(client.get(f"/v1/topics/{other}&limit=1&cursor={cursor}"), 400, "bad_parameter")


@pytest.mark.parametrize("query", ["state=lost", "cursor=!!", "limit=0", "limit=x", "limit=-1",
                                   "state=delayed&colour=red", "order=down"])
def test_a_bad_listing_is_refused(client, topic, query):
    client.push_id(topic, body="x")
    problem(client.get(f"/v1/topics/{topic}/jobs?{query}"), 400)


def test_topics_page_by_name(client, topic):
    for number in range(7):
        client.push_id(f"{topic}-{number}", body="x")
    names, cursor = [], None
    while True:
        page = client.get("/v1/topics?limit=3" + (f"&cursor={cursor}" if cursor else "")).json()
        names += [one["name"] for one in page["topics"]]
        cursor = page.get("cursor")
        if not cursor:
            break
    assert names == sorted(names, key=str.encode) and len(names) == len(set(names))
    assert {f"{topic}-{number}" for number in range(7)} <= set(names)


@pytest.mark.parametrize("path", ["/v1/limits", "/v1/stats", "/v1/openapi.json", "/v1/topics",
                                  "/v1/topics/t", "/v1/topics/t/jobs", "/v1/jobs/x"])
def test_a_parameter_that_is_not_known_is_refused_by_name(client, path):
    answer = client.get(path + "?nonsense=1")
    problem(answer, 400, "unknown_parameter")
    assert answer.json()["field"] == "nonsense"


def test_a_paused_topic_gives_nothing_until_resumed(client, topic):
    client.push_id(topic, body="x")
    assert client.post(f"/v1/topics/{topic}/pause").status in (200, 204)
    assert client.reserve(topic, wait="200ms") == []
    assert client.post(f"/v1/topics/{topic}/resume").status in (200, 204)
    assert len(client.reserve(topic)) == 1


def test_a_pause_can_end_by_itself(client, topic):
    client.push_id(topic, body="x")
    with before(time.time() + 0.3):
        assert client.post(f"/v1/topics/{topic}/pause", {"for": "300ms"}).status in (200, 204)
        assert client.reserve(topic) == []
    assert len(client.reserve(topic, wait="20s")) == 1


def test_a_topic_can_be_kicked_and_cleared(client, topic):
    for _ in range(3):
        client.push_id(topic, body="x")
    for job in client.reserve(topic, most=3):
        client.job(job["id"], "bury", lease=job["lease"])
    assert client.post(f"/v1/topics/{topic}/kick", {"max": 2}).status == 200
    assert client.counts(topic)["ready"] == 2
    assert client.post(f"/v1/topics/{topic}/clear", {"state": "ready"}).status == 200
    counts = client.counts(topic)
    assert counts["ready"] == 0 and counts["buried"] == 1


# The rest

@pytest.mark.parametrize("method, path", [
    ("GET", "/v1/reserve"), ("DELETE", "/v1/topics"), ("PUT", "/v1/jobs/x"),
    ("GET", "/v1/jobs/x/finish"), ("POST", "/v1/jobs/x"),
    ("POST", "/v1/stats")])
def test_a_wrong_method_gets_405_with_what_is_allowed(client, method, path):
    answer = client.request(method, path, "{}" if method != "GET" else None)
    assert answer.status == 405 and answer.headers["allow"]
    assert answer.json()["detail"] in ("this page can only be read",
                                       "this path takes only " + answer.headers["allow"])


@pytest.mark.parametrize("path", ["/v1/", "/v1/nothing", "/v1/jobs", "/v1/jobs/a/b/c",
                                  "/v1/jobs/x/eat", "/v1/topics/a/b"])
def test_an_unknown_path_gets_404(client, path):
    problem(client.post(path, "{}"), 404)


def test_head_answers_without_a_body(client):
    for path in ("/healthz", "/v1/topics", "/metrics"):
        full, head = client.get(path), client.request("HEAD", path)
        assert full.status == head.status == 200 and head.body == b""


def test_every_response_is_dated_and_sized(client, topic):
    for answer in (client.get("/healthz"), client.push(topic, body="x"), client.get("/nowhere")):
        assert datetime.strptime(answer.headers["date"], "%a, %d %b %Y %H:%M:%S GMT")
        assert int(answer.headers["content-length"]) == len(answer.body)


def test_durability_may_be_chosen_per_push(client, topic):
    for durability in ("sync", "interval", "os"):
        assert client.push(topic, body="x", durability=durability).status == 201
    problem(client.push(topic, body="x", durability="perhaps"), 400)


def test_stats_have_the_whole_servers_figures(client):
    stats = client.get("/v1/stats").json()
    for key in ("version", "uptime_ms", "now_ms", "ready", "jobs", "topics", "waiting", "connections",
                "memory_bytes", "totals", "due_within", "lateness_ms", "store"):
        assert key in stats
    assert set(stats["jobs"]) == {"delayed", "ready", "reserved", "buried"}
    assert set(stats["due_within"]) == {"1m", "5m", "1h", "1d"}


def test_a_topic_tells_when_its_own_first_delayed_job_is_due(shared):
    with Client(shared.port) as client:
        assert client.post("/v1/topics/soon/jobs", delay="10m", body=1).status == 201
        late = client.post("/v1/topics/late/jobs", delay="3h", body=1).json()
        assert client.post("/v1/topics/late/jobs", delay="4h", body=1).status == 201
        assert client.get("/v1/topics/late").json()["next_due"] == late["due"]
        assert client.get("/v1/topics/late").json()["rates"].keys() == {"pushed", "reserved", "finished"}


# Pages of other sites

@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Origin": "null"},
                                     {"Origin": "http://localhost:3000"},
                                     {"Sec-Fetch-Site": "cross-site"}])
def test_another_sites_page_can_drive_nothing(client, topic, headers):
    path = f"/v1/topics/{topic}/jobs"
    problem(client.request("POST", path, {"id": topic}, headers), 403, "cross_site")
    problem(client.request("DELETE", f"/v1/jobs/{topic}", b"", headers), 403, "cross_site")
    push = {"topic": topic, "id": topic, "delay": 1, "ttr": 1, "body": ""}
    refused = client.request("POST", "/push", push, headers)
    assert refused.status == 200 and refused.json()["code"] == 1
    assert client.get(f"/v1/jobs/{topic}").status == 404


def test_the_servers_own_page_may_drive_it(client, topic):
    for origin in ("http://localhost", "https://localhost"):
        answer = client.request("POST", f"/v1/topics/{topic}/jobs", b"{}",
                                {"Origin": origin, "Sec-Fetch-Site": "same-origin"})
        assert answer.status == 201


# What refusals say

def test_a_wrong_state_names_the_state_and_what_would_do(client, topic):
    job_id = client.push_id(topic)
    for verb in ("finish", "touch", "run", "kick"):
        detail = problem(client.job(job_id, verb), 409, "wrong_state")["detail"]
        assert detail.startswith("the job is ready: only a ")
    detail = problem(client.job(job_id, method="PATCH", priority=1), 409, "wrong_state")["detail"]
    assert "if_exists" in detail


def test_a_created_job_has_a_location(client, topic):
    created = client.push(topic, id=f"{topic}/ü 1", delay="1h")
    assert created.status == 201
    assert client.get(created.headers["location"]).json()["id"] == f"{topic}/ü 1"
    kept = client.push(topic, id=f"{topic}/ü 1", if_exists="keep")
    assert kept.status == 200 and "location" not in kept.headers


def test_a_bad_line_is_named_by_its_number(client, topic):
    answer = client.request("POST", f"/v1/topics/{topic}/jobs", '{}\n\n{"delay":"soon"}\n',
                            {"Content-Type": "application/x-ndjson"})
    assert answer.json()["results"][1]["problem"]["detail"].startswith("line 3: this must be a ")


def test_v1_itself_is_no_call_and_says_where_they_are(client):
    assert "/v1/openapi.json" in problem(client.get("/v1"), 404, "no_such_path")["detail"]


@pytest.mark.parametrize("call", [
    "GET /v1/topics?limit=1&limit=2", "GET /v1/topics/{}/jobs?state=ready&limit=1&state=delayed",
    "DELETE /v1/topics/{}?if_empty=true&if_empty=false",
    "PUT /v1/topics/{}?check_secrets=false&check_secrets=false", "GET /v1/due?within=1h&within=2h"])
def test_a_parameter_that_is_given_twice_is_refused(client, topic, call):
    client.push_id(topic, body="x")
    method, path = call.format(topic).split()
    answer = client.request(method, path, {} if method == "PUT" else None)
    problem(answer, 400, "bad_parameter")
    assert answer.json()["detail"] == "this parameter was given twice"
    assert answer.json()["field"] in path.split("&")[-1]
    assert client.get(f"/v1/topics/{topic}").json()["ready"] == 1


@pytest.mark.parametrize("rate", [-1, 100, 1e99, True, [], "100", "x/s", "0/s", "1/2d", "9" * 60 + "/s"])
def test_a_wrong_rate_is_refused_with_the_form_of_one(client, topic, rate):
    for field in ("rate", "key_rate"):
        answer = client.request("PUT", f"/v1/topics/{topic}", {field: rate})
        problem(answer, 400, "bad_field")
        assert answer.json()["field"] == field and '"100/s"' in answer.json()["detail"]
