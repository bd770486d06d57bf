"""The engine's contract (src/port/engine.h), command by command: the same assertions for the
embedded engine and for Redis, in one partition and in sixteen, with the jobs of a topic in one of
them or spread. What clients of both protocols see of the engines is in the other files, which `--engine=redis` runs on Redis too.

What depends on time is told by spans that never pass, or is waited for.
"""

import random
import time

import pytest
from patience import TooLate, before, soon
from process import Laterd
from redis import REDIS_SERVER, Redis
from wire import Client, Wire, eventually, request_bytes

ENGINES = ["embedded", "redis in 1 part", "redis in 16 parts", "redis in 16 parts spread"]

pytestmark = pytest.mark.usefixtures("redis_is_there")


@pytest.fixture(scope="module")
def redis():
    with Redis() as server, server.watched():
        yield server


def on(engine, request):
    """The configuration of a laterd on that engine."""
    if engine == "embedded":
        return {"engine": {"engine": "embedded"}}
    if not REDIS_SERVER:
        pytest.skip("there is no redis-server")
    return {"engine": {"engine": "redis"},
            "redis": {"url": request.getfixturevalue("redis").url, "prefix": engine.replace(" ", "-"),
                      "partitions": engine.split()[2],
                      "order": "spread" if engine.endswith("spread") else "topic"}}


@pytest.fixture(scope="module", params=ENGINES)
def port(request, tmp_path_factory):
    """That of a laterd whose engine all tests of this file are run on in turn."""
    with Laterd(tmp_path_factory.mktemp("laterd"), on(request.param, request)) as server:
        yield server.port


@pytest.fixture
def client(port):
    with Client(port) as one:
        yield one


def code(answer):
    """The problem's, or None."""
    return answer.json()["code"] if answer.status >= 400 else None


def take(client, topic):
    job, = client.reserve(topic)
    return job


def listed(client, topic, state, limit=1000):
    """The ids in all pages, in their order."""
    found, cursor = [], ""
    while True:
        page = client.get(f"/v1/topics/{topic}/jobs?state={state}&limit={limit}{cursor}").json()
        assert len(page["jobs"]) <= limit
        found += [job["id"] for job in page["jobs"]]
        if "cursor" not in page:
            return found
        cursor = f"&cursor={page['cursor']}"


def names(topic, count):
    """Ids, which Redis spreads over its partitions."""
    return [f"{topic}-{number:03}" for number in range(count)]


# Pushing

PAST = {"created": "2026-01-02T03:04:05.678901Z", "attempt": 7, "failures": 2}


@pytest.mark.parametrize("state", ["delayed", "ready", "buried"])
def test_a_job_that_is_moved_here_keeps_what_happened_to_it(client, topic, state):
    due = "2200-01-01T00:00:00.123456Z" if state == "delayed" else "2026-01-03T00:00:00.000007Z"
    fields = {"state": "buried"} if state == "buried" else {}
    client.push_id(topic, id=topic, due=due, body={"a": 1}, retry=["1h", "2h", "3h"], **PAST, **fields)
    job = client.job(topic, method="GET").json()
    assert {key: job[key] for key in PAST} == PAST
    assert job["state"] == state and job["due"] == due
    assert listed(client, topic, state) == [topic]
    if state == "ready":
        lease = take(client, topic)["lease"]
        job = client.job(topic, "release", lease=lease).json()
        assert (job["attempt"], job["failures"], job["state"]) == (8, 3, "delayed")
        assert "2026-01-02" in job["created"]
    elif state == "buried":
        job = client.job(topic, "kick").json()
        assert (job["attempt"], job["failures"], job["state"]) == (7, 0, "ready")
    assert client.job(topic, method="DELETE").status == 204


def test_jobs_that_are_moved_here_go_out_in_the_order_they_were_due(client, topic):
    for number in (3, 1, 2, 0):
        client.push_id(topic, id=f"{topic}{number}", due=f"2026-01-03T00:00:00.00000{number}Z", **PAST)
    assert [take(client, topic)["id"][-1] for _ in range(4)] == list("0123")
    late = client.push(topic, id=f"{topic}-late", created="2299-01-01T00:00:00Z")
    assert late.status == 201  # another server's clock
    assert client.job(f"{topic}-late", method="GET").json()["created"] < "2299"
    for wrong in ({"attempt": -1}, {"failures": 70000}, {"created": "soon"}):
        answer = client.push(topic, **wrong)
        assert code(answer) == "bad_field" and answer.json()["field"] == min(wrong)


def get_many(client, ids):
    return client.post("/v1/get", jobs=[{"id": job} for job in ids])


def test_many_jobs_are_shown_with_their_bodies_in_one_answer(client, topic):
    ids = names(topic, 200)
    client.push_many(topic, [{"id": job, "delay": "1h", "body": {"n": job}} for job in ids])
    answer = get_many(client, [*ids, f"{topic}-not"]).json()
    assert [one["job"]["id"] for one in answer["results"][:-1]] == ids
    assert all(one["job"]["body"] == {"n": one["job"]["id"]} for one in answer["results"][:-1])
    assert answer["failed"] == 1 and answer["results"][-1]["problem"]["code"] == "not_found"
    assert code(client.post("/v1/get", jobs=[{"id": "a", "lease": "1"}])) is None  # an item's own
    assert client.post("/v1/get", jobs=[{}]).json()["results"][0]["status"] == 400
    assert code(client.post("/v1/get")) == "missing_field"


def test_an_answer_about_many_jobs_has_a_bound(client, topic):
    client.push_id(topic, id=f"{topic}-big", delay="1h", body="x" * 70_000)
    ids = names(topic, 40)
    client.push_many(topic, [{"id": job, "delay": "1h", "body": "y" * 50_000} for job in ids])
    results = get_many(client, [f"{topic}-big", *ids]).json()["results"]
    assert results[0]["problem"]["code"] == "answer_too_large"
    shown = [one for one in results if one["status"] == 200]
    assert 20 <= len(shown) <= 22
    assert {one["status"] for one in results} == {200, 413}


@pytest.mark.parametrize("state", ["delayed", "ready", "reserved", "buried"])
def test_a_live_id_is_refused_kept_or_replaced_in_every_state(client, topic, state):
    client.push_id(topic, id=topic, body=1, delay="1h" if state == "delayed" else 0)
    held = take(client, topic) if state in ("reserved", "buried") else None
    if state == "buried":
        assert client.job(topic, "bury", lease=held["lease"]).status == 200
    assert code(client.push(topic, id=topic, body=2)) == "exists"
    kept = client.push(topic, id=topic, body=3, if_exists="keep")
    assert kept.status == 200 and kept.json()["result"] == "kept" and kept.json()["state"] == state
    replaced = client.push(topic, id=topic, body=4, if_exists="replace")
    assert replaced.json()["result"] == "replaced" and replaced.json()["state"] == "ready"
    if held:
        assert code(client.job(topic, "finish", lease=held["lease"])) in ("stale_lease", "wrong_state")
    assert client.job(topic, method="GET").json()["body"] == 4
    assert take(client, topic)["body"] == 4


def test_an_id_is_free_when_its_job_is_gone(client, topic):
    for end in ("finish", "delete"):
        client.push_id(topic, id=topic, body=1)
        job = take(client, topic)
        if end == "finish":
            assert client.job(topic, "finish", lease=job["lease"]).status == 204
        else:
            assert client.job(topic, method="DELETE").status == 204
        assert client.state(topic) is None


def test_the_schedule_of_retries_decides_what_a_failure_is(client, topic):
    client.push_id(topic, id=topic, body=1, retry=["0s", "1h"])
    for failures, state in ((1, "ready"), (2, "delayed"), (3, "buried")):
        job = take(client, topic)
        answer = client.job(topic, "release", lease=job["lease"]).json()
        assert (answer["failures"], answer["state"]) == (failures, state)
        if state == "delayed":
            assert client.job(topic, "run").json()["state"] == "ready"
    assert client.job(topic, "kick").json()["failures"] == 0


# Finishing many

def test_a_batch_of_finishes_finishes_each_for_itself(client, topic):
    for id in names(topic, 40):
        client.push_id(topic, id=id, body=1)
    client.push_id(topic, id=f"{topic}-free", body=1, delay="1h")
    held = client.reserve(topic, most=40)
    assert len(held) == 40
    jobs = [{"id": job["id"], "lease": job["lease"]} for job in held]
    jobs[1]["lease"] = "1"
    del jobs[2]["lease"]
    jobs += [jobs[0], {"id": f"{topic}-free"}, {"lease": "1"}, {"id": "x" * 256}]
    said = client.post("/v1/finish", jobs=jobs)
    assert said.status == 200, said
    results = said.json()["results"]
    assert len(results) == len(jobs) and said.json()["failed"] == 5
    codes = [result.get("problem", {}).get("code") for result in results]
    assert codes[1] == "stale_lease"
    assert codes[40:] == ["not_found", "wrong_state", "missing_field", "bad_field"]
    assert all(code is None for at, code in enumerate(codes[:40]) if at != 1)
    assert all(result["status"] == 204 for at, result in enumerate(results[:40]) if at != 1)
    assert [client.state(job["id"]) for job in held[:3]] == [None, "reserved", None]
    counts = client.counts(topic)
    assert counts["reserved"] == 1 and counts["totals"]["finished"] == 39


# Topics

def fill(client, topic, of_each=30):
    """Jobs in all four states; the ids of those that are held."""
    for state, more in (("reserved", {}), ("buried", {"state": "buried"}), ("delayed", {"delay": "1h"}),
                        ("ready", {})):
        client.push_many(topic, [{"id": f"{topic}-{state}-{n}", "body": 1, **more}
                                 for n in range(of_each)])
        if state == "reserved":
            assert len(client.reserve(topic, most=of_each)) == of_each
    counts = client.counts(topic)
    assert [counts[state] for state in ("delayed", "ready", "reserved", "buried")] == 4 * [of_each]


def test_a_topic_is_removed_with_its_jobs_in_all_states(client, topic):
    fill(client, topic)
    assert client.post(f"/v1/topics/{topic}/pause").status == 204
    held = client.job(f"{topic}-reserved-0", method="GET").json()
    answer = client.request("DELETE", f"/v1/topics/{topic}")
    assert answer.status == 200 and answer.json() == {"jobs": 120, "removed": True}, answer
    assert client.get(f"/v1/topics/{topic}").status == 404
    assert topic not in [one["name"] for one in client.get("/v1/topics?limit=1000").json()["topics"]]
    assert client.state(f"{topic}-delayed-3") is None and client.state(f"{topic}-buried-3") is None
    assert code(client.job(held["id"], "finish", lease=held["lease"])) == "not_found"
    assert code(client.request("DELETE", f"/v1/topics/{topic}")) == "not_found"
    client.push_id(topic, id=f"{topic}-ready-0", body=2)
    counts = client.counts(topic)
    assert counts["totals"]["pushed"] == 1 and not counts["paused"], "it is another topic"
    assert take(client, topic)["body"] == 2


def test_a_removed_topic_stays_for_those_who_wait_and_serves_them(client, port, topic):
    client.push_id(topic, id=topic, body=1, delay="1h")
    assert client.post(f"/v1/topics/{topic}/pause").status == 204
    with Wire(port) as wire:
        wire.send(request_bytes("POST", "/v1/reserve",
                                b'{"topics":["%s"],"wait":"20s"}' % topic.encode()))
        assert wire.silent(0.1)
        answer = client.request("DELETE", f"/v1/topics/{topic}").json()
        assert answer["jobs"] == 1
        client.push_id(topic, body="later")
        assert wire.response().json()["jobs"][0]["body"] == "later"


def test_removing_a_topic_of_many_jobs_is_one_request(client, topic):
    for _ in range(5):
        client.push_many(topic, [{"body": 1}] * 1000)
    client.push_many(topic, [{"body": 1, "delay": "1h"}] * 1000)
    assert client.request("DELETE", f"/v1/topics/{topic}").json() == {"jobs": 6000, "removed": True}


def test_a_topic_is_cleared_of_one_state_or_of_all(client, topic):
    fill(client, topic)
    clear = f"/v1/topics/{topic}/clear"
    assert client.post(clear, state="buried").json() == {"jobs": 30, "more": False}
    assert client.post(clear, state="all", max=50).json() == {"jobs": 50, "more": True}
    assert client.post(clear, state="all").json() == {"jobs": 40, "more": False}
    assert client.post(clear, state="all").json() == {"jobs": 0, "more": False}
    assert client.counts(topic)["totals"]["deleted"] == 120
    assert code(client.post(clear)) == "missing_field"
    assert code(client.post(clear, state="every")) == "bad_field"
    assert code(client.post(f"/v1/topics/{topic}-not/clear", state="all")) == "not_found"


def test_a_pause_makes_no_topic_unless_that_is_requested(client, topic):
    pause = f"/v1/topics/{topic}/pause"
    answer = client.post(pause)
    assert code(answer) == "not_found" and '\\"create\\":true' in answer.text
    assert code(client.post(pause, {"for": "1h", "create": False})) == "not_found"
    assert client.get(f"/v1/topics/{topic}").status == 404
    assert code(client.post(pause, create="yes")) == "bad_field"
    assert client.post(pause, create=True).status == 204
    assert client.counts(topic)["paused"]
    client.push_id(topic, body=1)
    assert client.reserve(topic) == []
    assert client.post(f"/v1/topics/{topic}/resume").status == 204
    assert client.reserve(topic) != []
    assert client.post(f"/v1/topics/{topic}/clear", state="all").json()["jobs"] == 1
    assert client.post(pause).status == 204, "it is there, though it is empty now"


# Reserving

def test_the_best_of_several_topics_come_in_batches(client, topic):
    for at, id in enumerate(names(topic, 30)):
        client.push_id(f"{topic}-{at % 3}", id=id, body=at, priority=at // 10)
    topics = [f"{topic}-{at}" for at in range(3)]
    taken = []
    while True:
        jobs = client.reserve(*topics, most=7)
        if not jobs:
            break
        taken += jobs
        for job in jobs:
            assert job["attempt"] == 1 and job["state"] == "reserved"
    assert sorted(job["body"] for job in taken) == list(range(30))
    assert len({job["lease"] for job in taken}) == 30


def test_a_waiting_reserve_is_served_by_a_push_a_kick_a_release_and_a_resume(port, topic):
    poll = request_bytes("POST", "/v1/reserve", b'{"topics":["%s"],"wait":"25s"}' % topic.encode())
    with Client(port) as one, Wire(port) as waiter:
        def waits(then):
            waiter.send(poll)
            time.sleep(0.02)  # it is parked by now; if not, what is claimed holds all the same
            then()
            return waiter.response().json()["jobs"][0]
        job = waits(lambda: one.push_id(topic, id=topic, body=1))
        job = waits(lambda: one.job(topic, "release", lease=job["lease"]))
        assert one.job(topic, "bury", lease=job["lease"]).status == 200
        job = waits(lambda: one.job(topic, "kick"))
        assert one.post(f"/v1/topics/{topic}/pause").status == 204
        assert one.job(topic, "release", lease=job["lease"]).status == 200
        job = waits(lambda: one.post(f"/v1/topics/{topic}/resume"))
        assert job["attempt"] == 4


def test_a_ttr_that_ends_gives_the_job_back_and_makes_its_lease_stale(client, topic):
    client.push_id(topic, id=topic, body=1, ttr="200ms")
    first = take(client, topic)
    since = time.monotonic()
    second, = client.reserve(topic, wait="25s")
    soon(time.monotonic() - since, 9)
    assert second["attempt"] == 2 and second["failures"] == 1
    with before(second["deadline_ms"] / 1000):
        assert code(client.job(topic, "finish", lease=first["lease"])) == "stale_lease"
        assert client.job(topic, "finish", lease=second["lease"]).status == 204


# One job, in every state

STATES = ["delayed", "ready", "reserved", "buried"]
VERBS = {  # verb -> the states it is for
    "finish": {"reserved"}, "release": {"reserved"}, "touch": {"reserved"}, "bury": {"reserved"},
    "kick": {"delayed", "buried"}, "run": {"delayed"}, "PATCH": {"delayed"},
    "GET": set(STATES), "DELETE": set(STATES)}
AFTER = {"release": "ready", "touch": "reserved", "bury": "buried", "kick": "ready", "run": "ready",
         "PATCH": "delayed"}


def put_in(client, topic, id, state):
    """Makes a job in that state; its lease, if any."""
    client.push_id(topic, id=id, body=1, delay="1h" if state == "delayed" else 0)
    if state in ("delayed", "ready"):
        return "1"
    job = take(client, topic)
    if state == "buried":
        assert client.job(id, "bury", lease=job["lease"]).status == 200
    return job["lease"]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("verb", VERBS)
def test_every_command_on_a_job_in_every_state(client, topic, verb, state):
    lease = put_in(client, topic, topic, state)
    if verb == "PATCH":
        answer = client.job(topic, method="PATCH", delay="2h", priority=9)
    elif verb.isupper():
        answer = client.job(topic, method=verb)
    elif verb in ("kick", "run"):
        answer = client.job(topic, verb)
    else:
        answer = client.job(topic, verb, lease=lease)
    if state in VERBS[verb]:
        assert answer.status < 300, answer
        ends = verb in ("finish", "DELETE")
        assert client.state(topic) == (None if ends else AFTER.get(verb, state))
    else:
        assert answer.status == 409 and code(answer) in ("wrong_state", "stale_lease")
        assert client.state(topic) == state, "nothing has changed"
    missing = client.job(f"no {topic}", method="DELETE")
    assert (missing.status, code(missing)) == (404, "not_found")


@pytest.mark.parametrize("verb", ["finish", "release", "touch", "bury"])
def test_a_lease_that_is_not_the_jobs_changes_nothing(client, topic, verb):
    lease = put_in(client, topic, topic, "reserved")
    answer = client.job(topic, verb, lease=str(int(lease) + 16))
    assert (answer.status, code(answer)) == (409, "stale_lease")
    assert client.state(topic) == "reserved"


# Topics

def test_counts_and_totals_add_up(client, topic):
    ids = names(topic, 12)
    for at, id in enumerate(ids):
        client.push_id(topic, id=id, body=at, delay="1h" if at < 3 else 0, priority=at)
    held = [take(client, topic) for _ in range(5)]
    client.job(held[0]["id"], "finish", lease=held[0]["lease"])
    client.job(held[1]["id"], "bury", lease=held[1]["lease"])
    client.job(held[2]["id"], "release", lease=held[2]["lease"], delay="1h")
    client.job(held[3]["id"], method="DELETE")
    shown = client.counts(topic)
    assert {state: shown[state] for state in STATES} == {
        "delayed": 4, "ready": 4, "reserved": 1, "buried": 1}
    assert shown["totals"] == {"pushed": 12, "reserved": 5, "finished": 1, "deleted": 1, "timeouts": 0,
                               "released": 1, "buried": 1, "kicked": 0}
    assert shown["paused"] is False
    page = client.get(f"/v1/topics?limit=1&cursor={topic[:-1]}").json()["topics"][0]
    assert page["name"] == topic and page["delayed"] == 4


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_a_listing_shows_each_job_once(client, topic, state, limit):
    ids = names(topic, 40)
    for at, id in enumerate(ids):
        client.push_id(topic, id=id, body=at, delay=f"{1 + at % 5}h" if state == "delayed" else 0,
                       priority=at % 3, ttr="1h")
        client.push_id(f"{topic} of others", body=at, delay=f"{1 + at % 5}h")
    if state in ("reserved", "buried"):
        held = client.reserve(topic, most=40)
        for job in held if state == "buried" else ():
            client.job(job["id"], "bury", lease=job["lease"])
    assert sorted(listed(client, topic, state, limit)) == ids
    for other in STATES:
        assert other == state or listed(client, topic, other) == []


def test_delayed_jobs_are_listed_by_due_time(client, topic):
    ids = names(topic, 30)
    for at, id in enumerate(random.Random(1).sample(ids, len(ids))):
        client.push_id(topic, id=id, body=at, delay=f"{100 + ids.index(id)}m")
    assert listed(client, topic, "delayed", 4) == ids


def test_a_topics_first_delayed_job_is_found_behind_thousands_of_others(client, topic):
    others = [{"body": 1, "delay": "1h"}] * 1000
    for _ in range(5):
        client.push_many(f"{topic} of others", others)
    client.push_id(topic, body=1, delay="3h")
    first = client.push(topic, id=topic, body=1, delay="2h").json()["due"]
    assert client.counts(topic)["next_due"] == first
    client.job(topic, method="DELETE")
    assert client.counts(topic)["next_due"] > first
    assert client.get(f"/v1/topics/{topic}-none").status == 404


def test_what_falls_due_is_counted_over_all_topics(client, topic):
    def due():
        return client.get("/v1/stats").json()["due_within"]
    before = due()
    for at, delay in enumerate(["50s", "4m", "30m", "12h", "48h"]):
        client.push_id(f"{topic}-{at}", body=1, delay=delay)

    def more():
        after = due()
        return [after[span] - before[span] for span in ("1m", "5m", "1h", "1d")]
    # On Redis, sums that took long to gather are shown again for a while.
    assert eventually(lambda: more() == [1, 2, 3, 4]), more()
    for at in range(5):  # what falls due soon is not counted by others
        client.request("DELETE", f"/v1/topics/{topic}-{at}")


def test_what_falls_due_within_any_durations_is_counted(client, topic):
    def due(within):
        answer = client.get(f"/v1/due?within={within}")
        assert answer.status == 200
        return [time["jobs"] for time in answer.json()["due"]]
    spans = "10m,90m,20d,3000d"  # jobs of other tests do not come into them meanwhile
    before = due(spans)
    for at, delay in enumerate(["50s", "4m", "30m", "12h", "48h", "1000d"]):
        client.push_id(f"{topic}-{at % 4}", body=1, delay=delay, id=f"{topic}-{at}")
    client.push_id(topic, body=1)  # it is ready, not delayed
    assert [after - was for was, after in zip(before, due(spans))] == [2, 3, 5, 6]
    client.job(f"{topic}-5", method="DELETE")
    assert [after - was for was, after in zip(before, due(spans))] == [2, 3, 5, 5]
    assert len(due(",".join(["1m"] * 64))) == 64
    assert client.get("/v1/due?within=1h,1m").status == 400


def test_rates_are_seen_between_two_looks(client, topic):
    client.push_id(topic, body=1)
    if client.counts(topic)["rates"]["pushed"] != 0:
        raise TooLate("ten seconds of the server's ended between the push and the first look")

    def seen():
        client.push_many(topic, [{"body": 1}] * 10)
        return client.counts(topic)["rates"]["pushed"] != 0
    assert eventually(seen, every=0.1)
    assert client.counts(topic)["rates"]["finished"] == 0


@pytest.mark.parametrize("what", ["kick", "clear"])
@pytest.mark.parametrize("state", ["delayed", "buried"])
def test_kick_and_clear_stop_at_what_was_asked(client, topic, what, state):
    ids = names(topic, 25)
    for id in ids:
        client.push_id(topic, id=id, body=1, delay="1h" if state == "delayed" else 0)
    if state == "buried":
        for job in client.reserve(topic, most=25):
            client.job(job["id"], "bury", lease=job["lease"])
    changed = 0
    for most in (4, 10, 100):
        if what == "clear":
            answer = client.post(f"/v1/topics/{topic}/clear", max=most, state=state)
            changed += answer.json()["jobs"]
        elif state == "buried":
            changed += client.post(f"/v1/topics/{topic}/kick", max=most).json()["jobs"]
        else:  # over /v1 delayed jobs are kicked one by one
            changed += sum(client.job(id, "kick").status == 200 for id in ids[changed:][:most])
        assert changed == {4: 4, 10: 14, 100: 25}[most]
        assert client.counts(topic)[state] == 25 - changed
    assert client.counts(topic)["ready"] == (25 if what == "kick" else 0)


def test_a_paused_topic_takes_pushes_and_hands_out_nothing(client, topic):
    assert client.post(f"/v1/topics/{topic}/pause", create=True).status == 204
    client.push_id(topic, body=1)
    assert client.reserve(topic, wait="50ms") == [] and client.counts(topic)["paused"]
    assert client.post(f"/v1/topics/{topic}/resume").status == 204
    assert take(client, topic)
    assert code(client.post(f"/v1/topics/{topic}-none/resume")) == "not_found"
    assert client.post(f"/v1/topics/{topic}/pause", {"for": "100ms"}).status == 204
    client.push_id(topic, body=2)
    assert client.reserve(topic, wait="25s")[0]["body"] == 2
    for body, paused in (({}, True), ({"for": 0}, False)):
        assert client.post(f"/v1/topics/{topic}/pause", body).status == 204
        assert client.get(f"/v1/topics/{topic}").json()["paused"] == paused


# Limits

@pytest.mark.parametrize("limit, most", [("jobs", 40), ("topics", 20)])
@pytest.mark.parametrize("engine", ENGINES)
def test_p8_limits_are_exact_with_one_partition_and_near_with_more(request, tmp_path, engine, limit, most):
    config = on(engine, request)
    parts = int(engine.split()[2]) if "redis" in engine else 1
    config.setdefault("redis", {})["prefix"] = f"{limit}-{engine.replace(' ', '-')}"
    config["limits"] = {limit: most}
    with Laterd(tmp_path, config) as server, Client(server.port) as client:
        for at in range(200):
            topic, id = ("t", f"{at}") if limit == "jobs" else (f"t-{at}", f"one-{at}")
            answer = client.push(topic, id=id, body=1, delay="1h")
            assert answer.status == 201 or (answer.status == 429 and f"limits.{limit}" in answer.text)
        held = client.get("/v1/stats").json()
        count = held["topics"] if limit == "topics" else held["jobs"]["delayed"]
        # Jobs go by shares, rounded up; each partition may have all the topics.
        assert most <= count <= (most * parts if limit == "topics" else most + parts - 1)


# Random lives

class Model:
    """The dullest queue: id -> what is known of the job. Nothing falls due but by a command."""

    def __init__(self, prefix):
        self.prefix, self.jobs = prefix, {}

    def of(self, state, topic=None):
        return sorted(id for id, job in self.jobs.items()
                      if job["state"] == state and topic in (None, job["topic"]))


def fail(job):
    """What a release without a delay does."""
    job["failures"] += 1
    if job["retry"] and job["failures"] > len(job["retry"]):
        return "buried"
    return "delayed" if job["retry"] and job["retry"][job["failures"] - 1] else "ready"


def do_push(client, model, chance):
    id = f"{model.prefix}-{chance.randrange(12)}"
    topic, delay = model.prefix + chance.choice("ab"), chance.choice([0, 3_600_000])
    exists, retry = chance.choice(["reject", "replace", "keep"]), chance.choice([[], [0], [3_600_000, 0]])
    answer = client.push(topic, id=id, body=1, delay=delay, if_exists=exists, retry=retry, ttr="1h")
    if id in model.jobs and exists == "reject":
        assert code(answer) == "exists"
    elif id in model.jobs and exists == "keep":
        assert answer.json()["result"] == "kept"
    else:
        assert answer.json()["result"] == ("replaced" if id in model.jobs else "created")
        model.jobs[id] = {"topic": topic, "state": "delayed" if delay else "ready", "lease": None,
                          "failures": 0, "retry": retry}


def do_reserve(client, model, chance):
    topics = [model.prefix + letter for letter in chance.choice(["a", "b", "ab"])]
    most = chance.randrange(1, 4)
    ready = [id for topic in topics for id in model.of("ready", topic)]
    jobs = client.reserve(*topics, most=most)
    assert min(1, len(ready)) <= len(jobs) <= min(most, len(ready))
    for job in jobs:
        assert job["id"] in ready
        model.jobs[job["id"]].update(state="reserved", lease=job["lease"])


def do_one(client, model, chance):
    id = f"{model.prefix}-{chance.randrange(12)}"
    job, verb = model.jobs.get(id), chance.choice(sorted(VERBS))
    fields = {}
    if verb in ("finish", "release", "touch", "bury"):
        fields["lease"] = job["lease"] if job and job["lease"] else "17"
    if verb == "release" and chance.random() < 0.4:
        fields["delay"] = "1h"
    if verb == "PATCH":
        fields["delay"] = "2h"
    if verb.isupper():
        answer = client.job(id, method=verb, **fields)
    else:
        answer = client.job(id, verb, **fields)
    if not job:
        assert code(answer) == "not_found"
    elif job["state"] not in VERBS[verb]:
        assert code(answer) in ("wrong_state", "stale_lease")
    elif verb in ("finish", "DELETE"):
        assert answer.status == 204
        del model.jobs[id]
    elif verb != "GET":
        assert answer.status == 200, answer
        if verb == "kick" and job["state"] == "buried":
            job["failures"] = 0
        if verb == "release" and "delay" in fields:
            job["failures"] += 1
            state = "delayed"
        else:
            state = fail(job) if verb == "release" else AFTER[verb]
        job.update(state=state, lease=job["lease"] if state == "reserved" else None)


def agree(client, model):
    for letter in "ab":
        topic = model.prefix + letter
        if client.get(f"/v1/topics/{topic}").status == 404:
            assert all(job["topic"] != topic for job in model.jobs.values())
            continue
        shown = client.counts(topic)
        for state in STATES:
            assert sorted(listed(client, topic, state, 3)) == model.of(state, topic), (topic, state)
            assert shown[state] == len(model.of(state, topic)), (topic, state)
    for id, job in model.jobs.items():
        shown = client.job(id, method="GET").json()
        assert (shown["state"], shown["failures"]) == (job["state"], job["failures"]), id


@pytest.mark.parametrize("seed", range(4))
def test_random_lives_agree_with_the_model(client, topic, seed):
    chance, model = random.Random(seed), Model(topic)
    for step in range(250):
        chance.choices([do_push, do_reserve, do_one], [3, 2, 6])[0](client, model, chance)
        if step % 10 == 0:
            agree(client, model)
    agree(client, model)


def test_a_job_that_was_due_before_it_was_pushed_is_late_from_then_on(client, topic):
    """Lateness is what the server is to blame for."""
    client.push_id(topic, body="x", due="2020-01-01T00:00:00Z")
    assert len(client.reserve(topic, wait="5s")) == 1
    late = client.get(f"/v1/topics/{topic}").json()["lateness_ms"]["all_time"]
    assert late["p99"] < 60_000
