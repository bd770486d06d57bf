"""One queue, two languages: a story told through /v1 and through beanstalkd's protocol ends in the
same state, and what one puts the other can take."""

import pytest

from beanstalk import Connection
from process import Laterd
from wire import Client

# The same words in both languages: verb, the how manieth job, and what goes with it.
STORY = [
    ("put", 0, {"priority": 5, "delay": 0}), ("put", 1, {"priority": 1, "delay": 0}),
    ("put", 2, {"priority": 3, "delay": 3600}), ("put", 3, {"priority": 2000, "delay": 0}),
    ("put", 4, {"priority": 7, "delay": 0}), ("put", 5, {"priority": 0, "delay": 7200}),
    ("reserve", 1, {}), ("finish", 1, {}),
    ("reserve", 0, {}), ("release", 0, {"priority": 9, "delay": 0}),
    ("reserve", 4, {}), ("bury", 4, {"priority": 6}),
    ("reserve", 0, {}), ("touch", 0, {}), ("release", 0, {"priority": 4, "delay": 1800}),
    ("kick", 4, {}), ("reserve", 4, {}), ("bury", 4, {"priority": 8}),
    ("delete", 5, {}), ("reserve", 3, {}),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    # In one partition of a shared engine: only there the order of a tube's jobs is exact.
    with Laterd(tmp_path_factory.mktemp("laterd"), {"redis": {"partitions": 1}},
                beanstalk=["127.0.0.1:0"]) as one:
        yield one


@pytest.fixture
def http(server):
    with Client(server.port) as one:
        yield one


@pytest.fixture
def beanstalk(server, topic):
    """A connection that uses and watches only the test's own tube."""
    with Connection(server.beanstalk_port) as one:
        for line in (f"use {topic}", f"watch {topic}", "ignore default"):
            one.ask(line)
        yield one


class OverHttp:
    """Tells the story through /v1."""

    def __init__(self, http, topic):
        self.http, self.topic, self.ids, self.leases = http, topic, [], {}

    def put(self, _, priority, delay):
        self.ids.append(self.http.push_id(self.topic, body=f"job {len(self.ids)}", ttr="120s",
                                          priority=priority, delay=f"{delay}s"))

    def reserve(self, at):
        (job,) = self.http.reserve(self.topic)
        assert job["id"] == self.ids[at]
        self.leases[at] = job["lease"]

    def verb(self, at, verb, **fields):
        answer = self.http.job(self.ids[at], verb, lease=self.leases[at], **fields)
        assert answer.status in (200, 204), answer

    def finish(self, at):
        self.verb(at, "finish")

    def release(self, at, priority, delay):
        self.verb(at, "release", priority=priority, delay=f"{delay}s")

    def bury(self, at, priority):
        self.verb(at, "bury", priority=priority)

    def touch(self, at):
        self.verb(at, "touch")

    def kick(self, at):
        assert self.http.job(self.ids[at], "kick").status in (200, 204)

    def delete(self, at):
        assert self.http.job(self.ids[at], method="DELETE").status in (200, 204)


class OverBeanstalk:
    """Tells the story through beanstalkd's protocol."""

    def __init__(self, connection):
        self.connection, self.ids = connection, []

    def put(self, _, priority, delay):
        body = f"job {len(self.ids)}"
        self.ids.append(self.connection.put(body, priority, delay, ttr=120))

    def reserve(self, at):
        assert self.connection.reserve() == (self.ids[at], f"job {at}".encode())

    def ask(self, line, word):
        assert self.connection.ask(line) == word

    def finish(self, at):
        self.ask(f"delete {self.ids[at]}", "DELETED")

    def release(self, at, priority, delay):
        self.ask(f"release {self.ids[at]} {priority} {delay}", "RELEASED")

    def bury(self, at, priority):
        self.ask(f"bury {self.ids[at]} {priority}", "BURIED")

    def touch(self, at):
        self.ask(f"touch {self.ids[at]}", "TOUCHED")

    def kick(self, at):
        self.ask(f"kick-job {self.ids[at]}", "KICKED")

    def delete(self, at):
        self.ask(f"delete {self.ids[at]}", "DELETED")


def state_of(http, topic, ids):
    """What /v1 says of the topic, without moments and names."""
    counts = http.counts(topic)
    jobs = {}
    for state in ("delayed", "ready", "reserved", "buried"):
        for job in http.get(f"/v1/topics/{topic}/jobs?state={state}").json()["jobs"]:
            at = [str(one).lstrip("@") for one in ids].index(job["id"].lstrip("@"))
            job = http.job(job["id"], method="GET").json()
            jobs[at] = {key: job[key] for key in ("state", "priority", "ttr_ms", "attempt",
                                                  "failures", "body")}
    now = {key: counts[key] for key in ("delayed", "ready", "reserved", "buried", "waiters")}
    return now, counts["totals"], jobs


def test_the_same_story_ends_in_the_same_state(server, http, topic):
    ends = []
    tellers = [OverHttp(http, f"{topic}-http")]
    with Connection(server.beanstalk_port) as connection:
        for line in (f"use {topic}-beanstalk", f"watch {topic}-beanstalk", "ignore default"):
            connection.ask(line)
        tellers.append(OverBeanstalk(connection))
        for teller, name in zip(tellers, (f"{topic}-http", f"{topic}-beanstalk")):
            for verb, at, fields in STORY:
                getattr(teller, verb)(at, **fields)
            ends.append(state_of(http, name, teller.ids))
    assert ends[0] == ends[1]
    now, totals, jobs = ends[0]
    assert now == {"delayed": 2, "ready": 0, "reserved": 1, "buried": 1, "waiters": 0}
    assert totals["pushed"] == 6 and totals["finished"] == 1 and totals["deleted"] == 1
    assert jobs[4]["priority"] == 8 and jobs[0]["priority"] == 4


def test_pushed_over_http_done_over_beanstalk(http, beanstalk, topic):
    http.push_id(topic, id=f"{topic}-own", body="of mine", priority=2)
    http.push_id(topic, body={"an": "object"}, priority=3)
    first, body = beanstalk.reserve()
    assert body == b"of mine"
    assert beanstalk.state(first) == "reserved" and http.state(f"{topic}-own") == "reserved"
    assert beanstalk.ask(f"delete {first}") == "DELETED"
    assert http.state(f"{topic}-own") is None
    second, body = beanstalk.reserve()
    assert body.replace(b" ", b"") == b'{"an":"object"}'
    assert beanstalk.ask(f"bury {second} 1") == "BURIED"
    assert http.state(f"@{second}") == "buried"


def test_put_over_beanstalk_done_over_http(http, beanstalk, topic):
    plain, odd = beanstalk.put(b"text", priority=1), beanstalk.put(b"\0\xff\r\n", priority=2)
    jobs = http.reserve(topic, most=2)
    assert [job["id"] for job in jobs] == [f"@{plain}", f"@{odd}"]
    assert jobs[0]["body"] == "text" and jobs[1]["body_base64"] == "AP8NCg=="
    assert beanstalk.ask(f"delete {plain}") == "NOT_FOUND", "somebody else holds it"
    assert beanstalk.ask(f"touch {plain}") == "NOT_FOUND"
    for job in jobs:
        assert http.job(job["id"], "finish", lease=job["lease"]).status in (200, 204)
    assert beanstalk.stats_job(plain) is None and beanstalk.reserve() is None


def test_a_push_wakes_a_client_that_waits_in_the_other_language(server, http, beanstalk, topic):
    beanstalk.send("reserve\r\n")
    assert beanstalk.silent(0.1)
    http.push_id(topic, body="wake up")
    assert beanstalk.answer().data == b"wake up"
    with Connection(server.beanstalk_port) as other:
        other.ask(f"use {topic}-2")
        with Client(server.port) as waiting:
            waiting.get("/healthz")  # connects
            waiting.wire.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            waiting.wire.response()
            body = b'{"topics": ["%s-2"], "wait": "25s"}' % topic.encode()
            waiting.wire.send(b"POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                              % (len(body), body))
            assert waiting.wire.silent(0.1)
            other.put(b"here")
            assert waiting.wire.response().json()["jobs"][0]["body"] == "here"


def test_one_lease_whatever_the_language(http, beanstalk, topic):
    job_id = beanstalk.put(b"x", ttr=60)
    assert beanstalk.reserve()[0] == job_id
    assert http.reserve(topic) == []
    assert http.job(f"@{job_id}", "finish", lease="1").status == 409, "P4: not its lease"
    assert beanstalk.ask(f"release {job_id} 0 0") == "RELEASED"
    (job,) = http.reserve(topic)
    assert job["attempt"] == 2 and beanstalk.reserve() is None


def test_a_pause_holds_for_both(http, beanstalk, topic):
    beanstalk.put(b"x")
    assert http.post(f"/v1/topics/{topic}/pause", {}).status in (200, 204)
    assert beanstalk.reserve() is None
    assert beanstalk.ask(f"pause-tube {topic} 0") == "PAUSED"
    assert http.counts(topic)["paused"] is False
    assert beanstalk.reserve() is not None
