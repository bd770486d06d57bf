"""A Redis that others use, or that may throw keys away: laterd says so, puts back what it can, and
refuses what is none of its own."""

import time

import pytest
from redis import REDIS_SERVER, Redis, config
from wire import Client, eventually

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")


@pytest.fixture
def redis():
    with Redis() as server:
        yield server


def figures(client, topic):
    stats = client.get(f"/v1/topics/{topic}").json()
    return [stats[state] for state in ("delayed", "ready", "reserved", "buried")]


@pytest.mark.parametrize("lost", ["d", "l", "o"])
def test_what_a_lost_set_held_is_put_back(laterd, redis, lost):
    server = laterd(config(redis.url, partitions=1))
    with Client(server.port) as client:
        for _ in range(200):
            client.push("t", body="x", delay="1h")
        client.push("t", body="x"), client.push("t", body="x")
        assert len(client.reserve("t")) == 1
        redis.call("DEL", "{laterd:0}:" + lost)
        client.push("other", body="x", delay="100ms")  # who makes it ready sees what is lost
        assert server.wait_log("redis_rebuilt", 40)
        assert eventually(lambda: client.get("/readyz").status == 200, 20)
        assert figures(client, "t") == [200, 1, 1, 0]


def buckets_with_jobs(redis):
    """Of partition 0: each bucket has one field that is no job's."""
    names = [f"{{laterd:0}}:j{i}" for i in range(256)]
    return {name for name in names if redis.call("HLEN", name) > 1}


def test_p2_jobs_behind_lost_ones_are_handed_out(laterd, redis):
    """The first ones were in buckets that are gone: what is left of them hides no job."""
    server = laterd(config(redis.url, partitions=1))
    with Client(server.port) as client:
        for _ in range(4):
            client.push_many("t", [{"body": "x"}] * 500)
        lost = buckets_with_jobs(redis)
        time.sleep(0.15)  # a bucket has the jobs of 65 ms
        client.push("t", id="left", body="x")
        assert len(buckets_with_jobs(redis)) == len(lost) + 1
        redis.call("DEL", *lost)
        assert [job["id"] for job in client.reserve("t", wait="20s")] == ["left"]


def test_a_data_directory_that_is_not_used_is_reported(laterd, redis):
    server = laterd(config(redis.url))
    (level, facts), = server.events("data_dir_unused")
    assert level == "warn" and f"dir={server.data} " in facts and "--data-dir" in facts


def test_a_redis_that_is_full_is_reported_with_what_to_do(laterd, redis):
    server = laterd(config(redis.url))
    redis.call("CONFIG", "SET", "maxmemory", 1)
    with Client(server.port) as client:
        assert client.push("t", body="x").status == 503
    assert server.wait_log("redis_error", 5)
    (_, facts), = server.events("redis_error")
    assert "OOM" in facts and "raise its maxmemory" in facts


def test_a_policy_that_was_changed_is_noticed(laterd, redis):
    server = laterd(config(redis.url))
    redis.call("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
    with Client(server.port) as client:
        assert eventually(lambda: client.get("/readyz").status == 503, 15)
        assert server.wait_log("redis_unfit", 1)
        (_, facts), = server.events("redis_unfit")
        assert 'hint="CONFIG SET maxmemory-policy noeviction' in facts
        first_line = client.get("/readyz").text.splitlines()[0]
        assert first_line == "Redis may evict keys: set its maxmemory-policy to noeviction"
        redis.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
        assert eventually(lambda: client.get("/readyz").status == 200, 15)
