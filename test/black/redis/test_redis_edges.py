"""Where the Redis engine could get stuck: too many requests unanswered, scripts that may not be
loaded, one node of a cluster that is silent. Who waits must be served all the same."""

import hashlib
import json
import random
import re
import threading
import time

import pytest
from beanstalk import Connection
from patience import TooLate, soon
from poll import Poll
from redis import REDIS_SERVER, Cluster, Redis, config
from redis_scripts import script_text
from relay import Relay
from wire import Client, Wire, eventually, request_bytes

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")

RING = 4096  # requests to a partition that may be unanswered
STALE_S = 0.1  # what is known of ready jobs is looked up again then: src/engine/redis/fetch.c


@pytest.fixture
def redis():
    with Redis() as server:
        yield server


def push_from(wires, topic):
    """One push from each connection at once."""
    content = json.dumps({"body": "x"}).encode()
    request = request_bytes("POST", f"/v1/topics/{topic}/jobs", content, {"Content-Type": "application/json"})
    for wire in wires:
        wire.send(request)
    return [wire.response().status for wire in wires]


def calls_of(redis, command):
    text = redis.call("INFO", "commandstats").decode()
    found = re.search(rf"cmdstat_{re.escape(command)}:calls=(\d+).*rejected_calls=(\d+)", text)
    return sum(int(number) for number in found.groups()) if found else 0


def test_a_queue_is_made_anew_however_many_requests_were_refused_meanwhile(laterd, redis):
    server = laterd(config(redis.url, partitions=1, timeout="100ms"))
    poll = Poll(server.port, "t")
    redis.kill()
    time.sleep(0.3)  # now what the poll asks for waits for Redis, and is the oldest request
    wires = [Wire(server.port, 30) for _ in range(300)]
    for _ in range(RING // len(wires) + 2):
        assert set(push_from(wires, "u")) == {503}
    for wire in wires:
        wire.close()
    redis.start()  # and has forgotten everything
    with Client(server.port) as client:
        assert eventually(lambda: client.push("t", body="x").status == 201, 10)
        assert poll.job()["body"] == "x"


def test_flushed_scripts_are_loaded_once_for_all_who_miss_them(laterd, redis):
    server = laterd(config(redis.url, partitions=1, timeout="20s"))
    wires = [Wire(server.port, 30) for _ in range(60)]
    assert set(push_from(wires, "t")) == {201}
    redis.call("SCRIPT", "FLUSH")
    before = calls_of(redis, "script|load")
    redis.freeze()
    threading.Timer(0.3, redis.thaw).start()  # meanwhile they gather
    assert set(push_from(wires, "t")) == {201}
    loads = calls_of(redis, "script|load") - before
    assert 0 < loads <= 40, loads  # eleven scripts, perhaps for more than one batch
    for wire in wires:
        wire.close()


def test_the_scripts_that_other_tests_compose_are_those_of_laterd(laterd, redis):
    server = laterd(config(redis.url, partitions=1))
    with Client(server.port) as client:
        assert client.request("PUT", "/v1/topics/t", {"retry": [1000]}).status == 200
        job_id = client.push_id("t", delay="1h", body="x")
        assert client.job(job_id, "run").status == 200
        client.reserve("t")
        assert client.job(job_id, method="DELETE").status == 204
        assert client.job(job_id, method="GET").status == 404
        for path in ("/v1/topics", "/v1/due?within=1h", "/v1/topics/t/jobs?state=ready"):
            assert client.get(path).status == 200
        assert client.post("/v1/topics/t/clear", {"state": "all"}).status == 200
    # Not push, reserve and end alone: which of these are sent, and which as a part of turn.lua, depends.
    names = "open heartbeat promote reap_dead settings change get topic list count_due sweep".split()
    digests = [hashlib.sha1(script_text(name)).hexdigest() for name in names]

    def missing():
        there = redis.call("SCRIPT", "EXISTS", *digests)
        return [name for name, found in zip(names, there) if not found]

    assert eventually(lambda: not missing(), 10), missing()


def test_buckets_are_not_checked_again_behind_an_open(laterd, redis):
    before = calls_of(redis, "hexists")
    first = laterd(config(redis.url, partitions=1))
    with Client(first.port) as client:
        client.push_id("t", body="x")
    assert calls_of(redis, "hexists") - before < 100, "in a new queue there are none"
    before = calls_of(redis, "hexists")
    with Client(laterd(config(redis.url, partitions=1)).port) as client:
        client.push_id("t", body="x")
    assert calls_of(redis, "hexists") - before < 400, "once by the open, and not by a promote"


@pytest.mark.deadline
def test_scripts_that_may_not_be_loaded_keep_nobody_busy(laterd, redis):
    redis.call("ACL", "SETUSER", "jobs", "on", ">pass", "~*", "&*", "+@all")
    server = laterd(config(f"redis://jobs:pass@127.0.0.1:{redis.port}", partitions=1))
    with Client(server.port) as client:
        client.push_id("t", body="x")
        redis.call("ACL", "SETUSER", "jobs", "-script|load")
        redis.call("SCRIPT", "FLUSH")
        before = calls_of(redis, "evalsha")
        since = time.monotonic()
        assert client.push("t", body="x").status == 503
        calls = calls_of(redis, "evalsha") - before
        soon(time.monotonic() - since, 1.5)
        assert calls < 400
        redis.call("ACL", "SETUSER", "jobs", "+script|load")
        assert eventually(lambda: client.push("t", body="x").status == 201, 5)


@pytest.mark.long
def test_a_silent_node_keeps_no_poll_from_the_others_jobs(laterd):
    with Cluster(replicas=0) as cluster, cluster.hasty():
        for one in cluster.servers:
            one.call("CONFIG", "SET", "cluster-require-full-coverage", "no")
        server = laterd(config(cluster.url, prefix="silent"))
        with Client(server.port) as client:
            cluster.servers[2].freeze()
            polls = [Poll(server.port, f"late-{number}") for number in range(4)]
            time.sleep(3)  # each has come to a partition that is not there
            for number, poll in enumerate(polls):
                jobs = [{"id": f"{number}-{i}", "body": "x"} for i in range(12)]
                results = client.push_many(f"late-{number}", jobs)
                assert any(result["status"] == 201 for result in results), results
                assert poll.job()["topic"] == f"late-{number}"
            cluster.servers[2].thaw()


# Where are the jobs?


def reserves(redis):
    """Calls of the script so far, in topics; promote, which looks at topics too, takes their jobs off."""
    return calls_of(redis, "zrangebylex") - calls_of(redis, "zremrangebylex")


@pytest.mark.deadline
def test_the_first_reserve_looks_at_all_partitions_at_once(laterd, redis):
    with Relay(redis.port) as relay:
        relay.delay = 0.1
        server = laterd(config(f"redis://127.0.0.1:{relay.port}", timeout="5s"))
        with Client(server.port) as client:
            client.push_id("t", id="somewhere", body="x")
            before, since = reserves(redis), time.monotonic()
            assert [job["id"] for job in client.reserve("t")] == ["somewhere"]
            took = soon(time.monotonic() - since, 0.8)  # later it looks again
            looks = reserves(redis) - before
            if looks > 17 and took > 0.4:
                raise TooLate(f"{looks} looks in {took:.3f} s")
            assert looks == 17, "a look at each partition, and the job"
            since = time.monotonic()
            assert client.reserve("nothing") == []
            soon(time.monotonic() - since, 0.8)


def test_a_reserve_takes_the_best_of_all_partitions(laterd, redis):
    server = laterd(config(redis.url, timeout="20s"))
    with Client(server.port) as client:
        priorities = random.sample(range(100), 60)
        for priority in priorities:
            client.push_id("t", id=f"job-{priority}", body="x", priority=priority)
        taken = [client.reserve("t")[0]["priority"] for _ in range(20)]
        client.push_id("t", id="urgent", body="x", priority=0)
        assert client.reserve("t")[0]["id"] == "urgent"
        taken += [client.reserve("t")[0]["priority"] for _ in range(40)]
        assert taken == sorted(priorities)


def test_an_urgent_job_from_another_daemon_is_soon_the_first(laterd, redis):
    one, other = laterd(config(redis.url, timeout="20s")), laterd(config(redis.url, timeout="20s"))
    with Client(one.port) as client, Client(other.port) as pusher:
        for number in range(400):
            client.push_id("t", id=f"job-{number}", body="x", priority=9)
        client.reserve("t")
        for number in range(8):  # into partitions that have others, so without a notice
            pusher.push_id("t", id=f"urgent-{number}", body="x", priority=number)
        time.sleep(0.15)  # what is known is old now, and is looked up again beside the next reserve
        taken = [client.reserve("t")[0]["priority"] for _ in range(60)]
        assert sum(priority < 9 for priority in taken[:30]) == 8, taken


def test_where_the_last_job_was_taken_nobody_asks_in_vain(laterd, redis):
    server = laterd(config(redis.url, timeout="20s"))
    with Client(server.port) as client:
        client.reserve("t")
        before, asked, old = reserves(redis), time.monotonic(), 0
        for number in range(100):
            client.push_id("t", id=f"job-{number}", body="x")
            assert client.reserve("t")[0]["id"] == f"job-{number}"
            old += time.monotonic() - asked > STALE_S / 2
            asked = time.monotonic()
        if old > 1:
            raise TooLate(f"{old} times what it knew was old when it was asked")
        assert reserves(redis) - before < 150


def test_jobs_that_come_due_for_the_only_daemon_cost_no_notices(laterd, redis):
    server = laterd(config(redis.url, timeout="20s"))
    count = 40
    with Client(server.port) as client:
        polls = [Wire(server.port, 60) for _ in range(count)]
        for poll in polls:
            poll.send(request_bytes("POST", "/v1/reserve", b'{"topics": ["t"], "wait": "60s"}'))
        for number in range(count):
            client.push_id("t", id=f"due-{number}", body="x", delay=f"{800 + 10 * number}ms")
        before = calls_of(redis, "spublish"), reserves(redis)
        since = time.monotonic()
        assert [poll.response().status for poll in polls] == [200] * count
        told, asked = calls_of(redis, "spublish") - before[0], reserves(redis) - before[1]
        soon(time.monotonic() - since, 3)  # each second has its heartbeats and looks
        assert told < count / 2 and asked < count * 1.5, (told, asked)
    for poll in polls:
        poll.close()


# Jobs whose consumers have gone


def test_p6_what_a_connection_held_goes_back_however_long_redis_is_away(laterd):
    with Redis(appendonly="yes", appendfsync="always") as redis:
        server = laterd(config(redis.url), beanstalk=["127.0.0.1:0"])
        with Client(server.port) as client:
            client.push_id("default", body="x", ttr="1h")
            with Connection(server.beanstalk_port) as worker:
                worker.reserve()
                redis.kill()
            time.sleep(2.5)  # longer than any request waits for an answer
            redis.start()
            take = {"topics": ["default"]}
            assert eventually(lambda: client.post("/v1/reserve", take).status == 200, 8)


def test_p6_a_connection_that_held_very_many_jobs_gives_back_all(laterd, redis):
    server = laterd(config(redis.url, partitions=1, timeout="20s"), beanstalk=["127.0.0.1:0"])
    many = RING + 500
    with Client(server.port) as client:
        for _ in range(0, many, 100):
            client.push_many("default", [{"body": "x", "ttr": "1h"}] * 100)
        with Connection(server.beanstalk_port) as worker:
            for _ in range(many):
                worker.send(b"reserve-with-timeout 0\r\n")
            for _ in range(many):
                assert worker.answer().word == "RESERVED"
            assert client.counts("default")["reserved"] == many
        assert eventually(lambda: client.counts("default")["reserved"] == 0, 10)


def test_a_job_whose_give_back_is_lost_comes_back_after_its_ttr(laterd, redis):
    """The daemon goes with what it had still to give back."""
    server = laterd(config(redis.url))
    with Client(server.port) as client:
        client.push_id("t", body="x", ttr="2s")
        redis.call("CLIENT", "PAUSE", 700, "WRITE")  # the reserve is done when its poll has gone
        poll = Wire(server.port)
        poll.send(request_bytes("POST", "/v1/reserve", b'{"topics": ["t"]}'))
        time.sleep(0.2)
        poll.close()
        time.sleep(0.2)
        server.kill()
    with Client(laterd(config(redis.url)).port) as client:
        assert eventually(lambda: client.counts("t")["ready"] == 1, 8)
        assert client.reserve("t")[0]["body"] == "x"


@pytest.mark.long
def test_a_reserve_whose_answer_nobody_keeps_any_more_takes_no_other_job(laterd, redis):
    with Relay(redis.port) as relay:
        far = laterd(config(f"redis://127.0.0.1:{relay.port}", partitions=1))
        near = laterd(config(redis.url, partitions=1))
        with Client(near.port) as client, Client(far.port) as cut_off:
            for body in ("first", "second"):
                client.push_id("taken", body=body, ttr="1h")
            relay.cut_after(b"taken")
            relay.targets = [1]  # where nobody listens
            assert cut_off.post("/v1/reserve", {"topics": ["taken"]}).status == 503
            time.sleep(6.5)  # the other daemon takes it for dead, and drops the answers kept for it
            relay.targets = [redis.port]
            assert eventually(lambda: cut_off.get("/v1/topics/taken").status == 200, 10)
            time.sleep(0.5)
            counts = client.counts("taken")
            assert (counts["reserved"], counts["ready"]) == (1, 1), "as before"
            assert counts["totals"]["reserved"] == 1
