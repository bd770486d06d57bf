"""A network that splits under Sentinel: the old master, and a daemon beside it, are on the side without
the sentinels' majority. Redis goes on taking writes there, which are lost when the network is whole
again. With min-replicas-to-write, or wait_replicas, laterd says "not now" there.
"""

import contextlib

import pytest
from redis import REDIS_SERVER, Sentinels, wait_until
from relay import Relay
from wire import Client, eventually

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")


class Split:
    """A master and a daemon that only see each other; a replica, sentinels and a daemon that see
    each other."""

    def __init__(self, laterd, trio, wait_replicas):
        self.trio, self.old = trio, trio.master()
        self.relays = [Relay(sentinel.port) for sentinel in trio.sentinels]
        hosts = ",".join(f"127.0.0.1:{relay.port}" for relay in self.relays)
        few = {"url": f"redis+sentinel://{hosts}/{trio.name}", "timeout": "1s",
               "wait_replicas": wait_replicas}
        many = {"url": trio.url, "timeout": "1s"}
        self.few, self.many = [laterd({"engine": {"engine": "redis"}, "redis": keys})
                               for keys in (few, many)]

    def happen(self):
        """Who is connected to the old master stays so, but the others are sent away, and nobody can
        come: that needs a password now."""
        self.old.call("CONFIG", "SET", "requirepass", "nobody knows")
        with self.old.connect() as one:
            one.call("AUTH", "nobody knows")
            rows = [dict(word.split("=", 1) for word in line.split())
                    for line in one.call("CLIENT", "LIST").decode().splitlines()]
            for row in rows:
                if row["name"].startswith("sentinel-") or "S" in row["flags"]:
                    one.call("CLIENT", "KILL", "ID", row["id"])
        for relay in self.relays:
            relay.targets = []
            relay.cut_all()
        wait_until(lambda: self.trio.master() is not self.old, 20)

    def close(self):
        for relay in self.relays:
            relay.close()


@contextlib.contextmanager
def split(laterd, wait_replicas=0, **settings):
    """(client of the few, client of the many); `settings` are the old master's."""
    with Sentinels() as trio, \
            contextlib.closing(Split(laterd, trio, wait_replicas)) as one, \
            Client(one.few.port) as few, Client(one.many.port) as many:
        for key, value in settings.items():
            one.old.call("CONFIG", "SET", key.replace("_", "-"), value)
        for client in (few, many):
            assert eventually(lambda: client.push("t", body="x").status == 201, 10)
        one.happen()
        assert one.many.wait_log("redis_failover"), "the majority's side follows"
        assert eventually(lambda: many.push("t", body="x").status == 201, 10)
        yield few, many


def test_what_a_cut_off_master_acknowledges_is_lost(laterd):
    """So it is with Redis; docs/redis-promises.md says so."""
    with split(laterd) as (few, many):
        ids = [few.push_id("t", body="x") for _ in range(5)]
        assert [few.state(job_id) for job_id in ids] == ["ready"] * 5
        assert [many.state(job_id) for job_id in ids] == [None] * 5


@pytest.mark.parametrize("cure", [{"min_replicas_to_write": 1, "min_replicas_max_lag": 1},
                                  {"wait_replicas": 1}], ids=["of Redis", "of ours"])
def test_p1_a_cut_off_master_that_wants_replicas_acknowledges_nothing(laterd, cure):
    with split(laterd, **cure) as (few, many):
        assert eventually(lambda: few.push("t", body="x").status == 503, 5)
        answer = few.push("t", id="job", body="x")
        assert answer.status == 503 and "retry-after" in answer.headers
        assert many.state("job") is None
        # Redis' own setting refuses the write; ours only keeps it from being acknowledged.
        assert few.state("job") == ("ready" if "wait_replicas" in cure else None)
