"""What a daemon believes of Redis is no longer so: a slot that is stuck holds up the word that it
lives, a server forgot when it wanted to be looked at, a server names another one without its host.
Nobody waits for good because of it.
"""

import struct
import time

import pytest
from beanstalk import Connection
from patience import PATIENCE_S, soon
from redis import REDIS_SERVER, Cluster, Redis, succeeds, wait_until
from wire import Client, eventually

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")


FOREVER = 2**53 - 1


def config(url, **redis):
    return {"engine": {"engine": "redis"},
            "redis": {"url": url, "timeout": "1s", "partitions": 1, **redis}}


@pytest.fixture
def redis():
    with Redis() as server:
        yield server


def cut_commands(redis):
    """Ends all connections but the subscriptions; laterd comes back, and opens partitions again."""
    redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


@pytest.mark.long
def test_p4_a_slot_that_is_stuck_makes_no_daemon_look_dead(laterd):
    """It is the one in which they say that they live."""
    with Cluster(masters=3, replicas=0) as cluster:
        keys = config(cluster.url)
        one, two = (laterd(keys, beanstalk=["127.0.0.1:0"]) for _ in range(2))
        with Connection(two.beanstalk_port) as holder, Connection(one.beanstalk_port) as other:
            job_id = holder.put(b"x", ttr=600)
            assert holder.reserve()[0] == job_id
            time.sleep(5.5)  # both have heard of each other for long enough to say who is dead
            end = cluster.begin_to_move("{laterd:0}:h", most=2)
            time.sleep(6.5)  # longer than a daemon may be silent
            end()
            assert eventually(lambda: Client(one.port).get("/readyz").status == 200)
            assert other.reserve(timeout=6) is None
            assert holder.ask(f"delete {job_id}").word == "DELETED"


def wake_us(redis, name):
    return int.from_bytes(redis.call("HGET", name, "p")[24:], "little")


def test_a_server_that_means_to_be_looked_at_sooner_than_we_do_is(laterd):
    """A replica that took over has missed the last promote: it thinks that somebody looks at a time
    long ago, and tells nobody of jobs that are due later than that."""
    with Cluster(masters=2, replicas=0) as cluster, \
            Client(laterd(config(cluster.url, partitions=8)).port) as client:
        client.push_id("t", id="a", body="x")  # we are subscribed, and all is open
        other = cluster.servers[1]
        names = [f"{{laterd:{p}}}:h" for p in range(8)]
        names = [name for name in names if succeeds(other, "HGET", name, "p")]
        assert names
        wait_until(lambda: all(wake_us(other, name) == FOREVER for name in names))
        for name in names:
            state = other.call("HGET", name, "p")
            other.call("HSET", name, "p", state[:24] + (1).to_bytes(7, "little"))
        cut_commands(other)
        assert eventually(lambda: client.get("/v1/topics/none").status == 404, 5)
        ids = {client.push_id("later", id=f"{i}", body="x", delay="1s") for i in range(40)}
        got, since = set(), time.monotonic()
        while got != ids and time.monotonic() < since + PATIENCE_S:
            got.update(job["id"] for job in client.reserve("later", wait="1s", most=40))
        assert got == ids
        soon(time.monotonic() - since, 5)


def test_a_server_that_sends_us_on_may_leave_the_host_away(laterd):
    with Cluster(masters=3, replicas=0, cluster_preferred_endpoint_type="unknown-endpoint") as cluster, \
            Client(laterd(config(cluster.url, prefix="no-host")).port) as client:
        cluster.begin_to_move("{no-host:0}:h")
        assert client.push("t", body="x").status == 201
        assert client.reserve("t")[0]["body"] == "x"
