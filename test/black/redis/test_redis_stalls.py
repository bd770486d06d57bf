"""Redis is there, but says "not now", and goes on so: laterd logs it once when it begins, with Redis'
own words and what to do, and once when it is over. What passes at once is no news."""

import contextlib
import itertools
import shutil
import threading
import time

import pytest
from patience import soon
from redis import REDIS_SERVER, Cluster, Redis, RedisError, wait_until, config
from wire import Client, eventually

pytestmark = [pytest.mark.deadline,
              pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")]


@pytest.fixture
def redis():
    with Redis() as server:
        yield server


def stalls(server):
    return [str(event) for event in server.events("redis_stalled")]


def begins_and_ends(server, begin, end, words, hint):
    """One event when it begins, none while it goes on, one when it is over."""
    begin()
    assert eventually(lambda: stalls(server), 5), "nothing was said"
    time.sleep(0.5)
    assert len(stalls(server)) == 1 and not server.events("redis_resumed")
    assert words in stalls(server)[0] and hint in stalls(server)[0]
    with Client(server.port) as client:
        assert client.get("/readyz").status == 503
    end()
    since = time.monotonic()
    assert eventually(lambda: server.events("redis_resumed"))
    soon(time.monotonic() - since, 4)  # nobody asked but the heartbeats
    with Client(server.port) as client:
        assert eventually(lambda: client.push("t", body="x").status == 201, 5)
        assert client.get("/readyz").status == 200
    time.sleep(0.3)
    assert len(stalls(server)) == len(server.events("redis_resumed")) == 1
    assert not server.events("redis_away"), "it was there all the time"


def test_too_few_replicas(laterd, redis):
    begins_and_ends(laterd(config(redis.url, timeout="3s")),
                    lambda: redis.call("CONFIG", "SET", "min-replicas-to-write", 1),
                    lambda: redis.call("CONFIG", "SET", "min-replicas-to-write", 0),
                    "NOREPLICAS Not enough good replicas", "min-replicas-to-write")


def test_a_disk_that_cannot_be_saved_to(laterd):
    with Redis(save="3600 1") as redis:
        server = laterd(config(redis.url, timeout="3s"))
        shutil.rmtree(redis.folder)
        redis.call("SET", "a", "b")
        redis.call("BGSAVE")
        wait_until(lambda: redis.info("persistence")["rdb_last_bgsave_status"] == "err")
        begins_and_ends(server, lambda: None,
                        lambda: redis.call("CONFIG", "SET", "stop-writes-on-bgsave-error", "no"),
                        "MISCONF", "full disk")


def test_a_script_of_somebody_else(laterd):
    with Redis(lua_time_limit=50) as redis, redis.connect() as other:
        begins_and_ends(
            laterd(config(redis.url, timeout="3s")),
            lambda: other.socket.sendall(
                b"*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n"),
            lambda: redis.call("SCRIPT", "KILL"), " is busy running a script", "SCRIPT KILL")


def test_what_passes_at_once_is_no_news(laterd, redis):
    server = laterd(config(redis.url, timeout="20s"))
    ended = []

    def end():
        redis.call("CONFIG", "SET", "min-replicas-to-write", 0)
        ended.append(time.monotonic())
    with Client(server.port) as client:
        begun = time.monotonic()
        redis.call("CONFIG", "SET", "min-replicas-to-write", 1)
        threading.Timer(0.2, end).start()
        assert client.push("t", body="x").status == 201
        assert eventually(lambda: ended)
        soon(ended[0] - begun, 0.5)  # from then on it is told
        time.sleep(2)
    assert not server.events("redis_stalled") and not server.events("redis_resumed")


def test_a_long_load_is_reported_after_the_restart(laterd):
    with Redis(key_load_delay=5000, loading_process_events_interval_bytes=1024) as redis:  # us, for each key
        server = laterd(config(redis.url))
        with redis.connect() as one:
            for number in range(6000):
                one.call("SET", f"k{number}", "x" * 1000)
            one.call("SAVE")
        redis.kill()
        starting = threading.Thread(target=redis.start)
        starting.start()
        assert eventually(lambda: stalls(server))
        redis.call("CONFIG", "SET", "key-load-delay", 0)
        starting.join()
        assert eventually(lambda: server.events("redis_back"), 10)
        assert len(server.events("redis_away")) == len(server.events("redis_back")) == 1
        assert len(stalls(server)) == 1
        assert "LOADING" in stalls(server)[0] and "wait" in stalls(server)[0]


def test_a_server_that_became_a_replica(laterd, redis):
    server = laterd(config(redis.url))
    redis.call("REPLICAOF", "127.0.0.1", 1)
    assert eventually(lambda: server.events("redis_away"), 5)
    assert "it is a replica" in str(server.events("redis_away")[0])
    assert "must name the master" in str(server.events("redis_away")[0])
    time.sleep(0.5)
    redis.call("REPLICAOF", "NO", "ONE")
    assert eventually(lambda: server.events("redis_back"), 5)
    assert len(server.events("redis_away")) == len(server.events("redis_back")) == 1


@pytest.fixture(scope="module")
def cluster():
    with Cluster(replicas=0, appendonly="yes") as three:
        yield three


@contextlib.contextmanager
def all_nodes_asked(port):
    """Each node has something to say all the time: one that nobody asks for seconds is believed to work."""
    over = threading.Event()

    def push(which):
        with Client(port) as client:
            for number in itertools.count():
                client.push("t", body="x", id=f"id-{which}-{number}")
                if over.wait(0.05):
                    return
    threads = [threading.Thread(target=push, args=(which,)) for which in range(16)]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        over.set()
        for one in threads:
            one.join()


@pytest.mark.long
def test_a_cluster_that_is_down(laterd, cluster):
    server = laterd(config(cluster.url, prefix="down"))
    killed, *left = cluster.servers

    def of(nodes, event):  # the one that is killed may say that it loads its file, too
        return [facts for _, facts in server.events(event)
                if any(f"node={one.address}" in facts.split() for one in nodes)]

    def whole():
        return all(Cluster.state(one) == "ok" for one in cluster.servers)
    with cluster.hasty(), all_nodes_asked(server.port):
        killed.kill()
        try:
            assert eventually(lambda: len(of(left, "redis_stalled")) == 2, 20), "one for each that is left"
        finally:
            killed.start()
            wait_until(whole, 30)
    told = of(left, "redis_stalled")
    assert all("CLUSTERDOWN" in one and "--cluster check" in one for one in told)
    assert eventually(lambda: len(of(left, "redis_resumed")) == 2, 10)
    assert len(of(left, "redis_stalled")) == 2
    assert eventually(lambda: of([killed], "redis_back"), 10)
    assert len(of([killed], "redis_away")) == len(of([killed], "redis_back")) == 1


@pytest.mark.long
def test_a_slot_that_is_stuck_half_moved(laterd, cluster):
    server = laterd(config(cluster.url, prefix="stuck", partitions=1))
    slot = cluster.servers[0].call("CLUSTER", "KEYSLOT", "{stuck:0}:h")
    row = next(row for row in cluster.servers[0].call("CLUSTER", "SLOTS") if row[0] <= slot <= row[1])
    source = next(one for one in cluster.servers if one.port == row[2][1])
    target = next(one for one in cluster.servers if one is not source)
    names = {one: one.call("CLUSTER", "MYID") for one in (source, target)}
    keys = sorted(source.call("CLUSTER", "GETKEYSINSLOT", slot, 1000), key=len)  # no buckets first
    target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", names[source])
    source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", names[target])
    source.call("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys[:2])
    assert eventually(lambda: stalls(server), 5)
    assert "TRYAGAIN" in stalls(server)[0] and "go on moving" in stalls(server)[0]
    source.call("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys[2:])
    for one in (target, source):
        with contextlib.suppress(RedisError):
            one.call("CLUSTER", "SETSLOT", slot, "NODE", names[target])
    with Client(server.port) as client:
        assert eventually(lambda: client.push("t", body="x").status == 201, 5)
    assert len(stalls(server)) == 1
    assert eventually(lambda: len(server.events("redis_resumed")) == 1, 10)
