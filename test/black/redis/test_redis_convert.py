"""A queue of an older layout, as laterd left it, is converted while it is served: no job is lost, none is
changed. layout-2.resp is from before jobs had buckets, layout-3.resp from before records had a compact form:
each has the commands that make it again."""

import itertools
import os

import pytest
from redis import REDIS_SERVER, Redis
from wire import Client, eventually

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")
HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = {"ready": "old", "delayed": "old", "reserved": "held", "buried": "grave", "retried": "again",
         "big": "big", "json": "kind", "typed": "kind"}


def load(redis, layout):
    with open(os.path.join(HERE, f"layout-{layout}.resp"), "rb") as file, redis.connect() as connection:
        data = file.read()
        connection.socket.sendall(data)
        for _ in range(data.count(b"\r\nHSET\r\n") + data.count(b"\r\nZADD\r\n")):
            connection.reply()


def taken_of(count, *clients):
    """The jobs of the topic `many`, in as many requests as it takes; one more, for there must be no more."""
    jobs, turns = [], itertools.cycle(clients)
    assert eventually(lambda: jobs.extend(next(turns).reserve("many", most=100)) or len(jobs) >= count)
    return jobs + next(turns).reserve("many", most=100)


def config(redis):
    return {"engine": {"engine": "redis"}, "redis": {"url": redis.url, "prefix": "old", "partitions": 2}}


def test_p2_a_queue_of_layout_2_is_converted_and_loses_nothing(laterd):
    with Redis() as redis:
        load(redis, 2)
        redis.call("HSET", "{old:0}:h", "m", "a daemon's record")  # that ended without a word
        server = laterd(config(redis))
        with Client(server.port) as client:
            seen = {name: client.get(f"/v1/jobs/{name}").json() for name in KINDS}
            assert {name: job["topic"] for name, job in seen.items()} == KINDS
            assert [seen[name]["state"] for name in ("ready", "delayed", "reserved", "buried", "retried")] == \
                ["ready", "delayed", "reserved", "buried", "delayed"]
            assert seen["ready"]["body"] == "hello" and seen["ready"]["priority"] == 7
            assert seen["big"]["body"] == "x" * 5000 and seen["json"]["body"] == {"a": [1, 2]}
            assert seen["typed"]["content_type"] == "text/x" and seen["typed"]["priority"] == 70000
            assert seen["retried"]["failures"] == 1 and seen["buried"]["attempt"] == 1
            assert eventually(lambda: not any(
                field[:1] in (b"j", b"b") and len(field) == 9
                for p in range(2) for field in redis.call("HKEYS", f"{{old:{p}}}:h")), 10)
            assert client.post("/v1/jobs/reserved/finish", lease="1").status == 409
            many = taken_of(200, client)
            assert sorted(job["body"] for job in many) == sorted(f"body {n}" for n in range(200))
            for job in many:
                assert client.post(f"/v1/jobs/{job['id']}/finish", lease=job["lease"]).status == 204
            assert client.post("/v1/jobs/buried/kick").status == 200
            taken = client.reserve("grave", "again", "big", "kind", "old", most=10)
            assert {job["id"] for job in taken} == {"buried", "big", "json", "typed", "ready"}
            assert client.request("DELETE", "/v1/jobs/delayed").status == 204
        assert redis.call("HEXISTS", "{old:0}:h", "m") == 0 and not server.events("redis_error")


def test_p2_a_queue_of_layout_3_is_served_on_and_loses_nothing(laterd):
    """Its jobs were left by a daemon that was killed: two of them from a client of beanstalkd."""
    with Redis() as redis:
        load(redis, 3)
        servers = [laterd(config(redis), beanstalk=("127.0.0.1:0",)) for _ in range(2)]
        with Client(servers[0].port) as client, Client(servers[1].port) as other:
            seen = {name: client.get(f"/v1/jobs/{name}").json() for name in KINDS}
            assert {name: job["topic"] for name, job in seen.items()} == KINDS
            assert [seen[name]["state"] for name in ("ready", "delayed", "reserved", "buried", "retried")] == \
                ["ready", "delayed", "reserved", "buried", "delayed"]
            assert seen["ready"]["created"] == "2026-11-24T23:17:46.783443Z" and seen["ready"]["priority"] == 7
            assert seen["big"]["body"] == "x" * 5000 and seen["json"]["body"] == {"a": [1, 2]}
            assert seen["typed"]["content_type"] == "text/x" and seen["typed"]["priority"] == 70000
            assert seen["retried"]["failures"] == 1 and seen["buried"]["attempt"] == 1
            assert redis.call("HGET", "{old:0}:h", "v") == b"4"
            assert not [key for key in redis.call("KEYS", "{old:*}:b*")]
            assert other.push("old", id="ready", body="again").status == 409  # what was there is known
            assert other.push("old", id="new", body="new", delay="1h").status == 201
            for n in range(20):
                assert other.push("many", id=f"new-{n}", body=f"body {200 + n}").status == 201
            assert client.post("/v1/jobs/reserved/finish", lease="1").status == 409
            many = taken_of(220, client, other)
            assert sorted(job["body"] for job in many) == sorted(f"body {n}" for n in range(220))
            for n, job in enumerate(many):
                done = (other, client)[n % 2].post(f"/v1/jobs/{job['id']}/finish", lease=job["lease"])
                assert done.status == 204
            assert [job["body"] for job in client.reserve("first", most=9)] == ["a", "b"]  # by arrival
            assert client.post("/v1/jobs/buried/kick").status == 200
            taken = client.reserve("grave", "again", "big", "kind", "old", most=10)
            assert {job["id"] for job in taken} == {"buried", "big", "json", "typed", "ready"}
            for name in ("delayed", "retried", "new"):
                assert client.request("DELETE", f"/v1/jobs/{name}").status == 204
        assert not servers[0].events("redis_unfit") and not servers[1].events("redis_error")


@pytest.mark.parametrize("bucket", [0, 255])
def test_a_lost_bucket_is_made_again_and_reported(laterd, bucket):
    with Redis() as redis:
        server = laterd({"engine": {"engine": "redis"}, "redis": {"url": redis.url, "partitions": 1}})
        with Client(server.port) as client:
            client.push_id("t", body="x")
            redis.call("DEL", f"{{laterd:0}}:j{bucket}")
            server = laterd({"engine": {"engine": "redis"}, "redis": {"url": redis.url, "partitions": 1}})
            assert server.wait_log("redis_unfit", 10)
            assert redis.call("HEXISTS", f"{{laterd:0}}:j{bucket}", "!") == 1
            assert client.push("t", body="x").status == 201
