"""The Redis engine when Redis, or a daemon, is not well: killed, hung, full, failed over, resharded;
several daemons on one queue. Redis is the test's own."""

import threading
import time

import pytest
from patience import PATIENCE_S, soon
from process import DidNotStart
from redis import Cluster, Redis, Sentinels, config, fail_over, replicated, wait_until
from wire import Client, Closed, eventually


SHORT = "1s"


@pytest.fixture
def redis():
    with Redis() as server:
        yield server


@pytest.fixture(scope="module")
def sentinels():
    with Sentinels() as trio:
        yield trio


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as six:
        yield six


@pytest.fixture
def daemons(laterd):
    """Makes daemons: daemons(url, prefix=…); those with one prefix share a queue. A Redis that is only busy answers
    in time; where it does not answer at all, the test says timeout=SHORT."""
    def make(url, start=True, **keys):
        return laterd(config(url, **{"timeout": "20s", **keys}), start=start)
    return make


def push_all(client, topic, count, **fields):
    return [client.push_id(topic, body=f"{topic}-{i}", **fields) for i in range(count)]


def take_into(bodies, client, topic):
    """Finishes jobs of the topic that are ready, as long as some come; returns the status of the answer without."""
    while True:
        answer = client.post("/v1/reserve", {"topics": [topic], "wait": 0, "max": 100})
        if answer.status != 200:
            return answer.status
        for job in answer.json()["jobs"]:
            bodies.append(job["body"])
            assert client.job(job["id"], "finish", lease=job["lease"]).status in (200, 204)


def drain(client, topic):
    """All ready jobs of the topic, finished; their bodies in the order they came."""
    bodies = []
    assert take_into(bodies, client, topic) == 204
    return bodies


def drain_all(client, topic, wanted):
    """The same, until these have come, and no more: an answer may be without jobs of a server that is slow, or be a
    503, which says nothing of what is there."""
    bodies, wanted = [], set(wanted)

    def nothing_is_left():
        status = take_into(bodies, client, topic)
        assert status in (204, 503), status
        return status == 204 and wanted <= set(bodies)
    wait_until(nothing_is_left)
    return bodies


class Taker(threading.Thread):
    """A reserve that waits for longer than anybody else does."""

    def __init__(self, port, topic):
        super().__init__(daemon=True)
        self.port, self.topic, self.taken = port, topic, []
        self.start()

    def run(self):
        with Client(self.port, seconds=10 * PATIENCE_S) as client:
            self.taken += client.reserve(self.topic, wait=f"{9 * PATIENCE_S}s")

    def jobs(self):
        self.join(PATIENCE_S)
        return self.taken


# Starting


def test_it_says_why_it_cannot_start_without_redis(daemons):
    server = daemons("redis://127.0.0.1:1", start=False)
    with pytest.raises(DidNotStart) as why:
        server.start()
    assert "cannot use Redis" in str(why.value) and "refused" in str(why.value)


@pytest.mark.parametrize("url, says", [
    ("http://127.0.0.1", "must begin with redis://"),
    ("redis://", "no host"), ("redis+sentinel://127.0.0.1", "master's name"),
    ("redis://u:se%zzcret@127.0.0.1", "percent"), ("redis+cluster://127.0.0.1/3", "only 0"),
])
def test_a_url_that_is_none_is_refused_with_the_reason(daemons, url, says):
    server = daemons(url, start=False)
    with pytest.raises(DidNotStart) as why:
        server.start()
    assert says in str(why.value)
    assert "cret" not in str(why.value)


def test_a_redis_that_may_drop_keys_is_refused(daemons, redis):
    redis.call("CONFIG", "SET", "maxmemory", "100mb")
    redis.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    with pytest.raises(DidNotStart) as why:
        daemons(redis.url)
    assert "noeviction" in str(why.value) or "evict" in str(why.value)


def test_another_number_of_partitions_is_refused(daemons, redis):
    daemons(redis.url).stop()
    with pytest.raises(DidNotStart) as why:
        daemons(redis.url, partitions=4)
    assert "partitions" in str(why.value)


def test_a_replica_is_refused(daemons, redis):
    with Redis() as replica:
        replica.call("REPLICAOF", "127.0.0.1", redis.port)
        with pytest.raises(DidNotStart) as why:
            daemons(replica.url)
    assert "replica" in str(why.value)


def test_a_user_with_a_password_and_a_socket(daemons, tmp_path):
    with Redis(unixsocket=tmp_path / "redis.sock") as redis:
        redis.call("ACL", "SETUSER", "alice", "on", ">p@ss:w/rd", "~*", "&*", "+@all")
        redis.call("ACL", "SETUSER", "default", "off")
        server = daemons(f"redis://alice:p%40ss%3Aw%2Frd@127.0.0.1:{redis.port}/0")
        with Client(server.port) as client:
            client.push_id("a", body="x")
            assert drain(client, "a") == ["x"]
        assert not any("p@ss" in line or "p%40" in line for line in server.lines)
        with pytest.raises(DidNotStart) as why:
            daemons(f"redis://alice:wrong@127.0.0.1:{redis.port}")
        assert "WRONGPASS" in str(why.value)
    with Redis(unixsocket=tmp_path / "other.sock") as redis:
        server = daemons(f"unix://{tmp_path}/other.sock")
        with Client(server.port) as client:
            client.push_id("a", body="x")
            assert drain(client, "a") == ["x"]


# One Redis that is not well


def test_a_killed_redis_is_reported_at_once_and_found_again(daemons):
    with Redis(appendonly="yes", appendfsync="always") as redis:
        server = daemons(redis.url, timeout=SHORT)
        with Client(server.port) as client:
            push_all(client, "a", 50)
            before = len(server.events("redis_away")), len(server.events("redis_back"))
            redis.kill()
            begin = time.monotonic()
            assert client.push("a", body="no").status == 503
            assert client.get("/readyz").status == 503
            soon(time.monotonic() - begin, 2.5)
            waiter = Taker(server.port, "parked")
            redis.start()
            assert eventually(lambda: client.get("/readyz").status == 200, 10)
            client.push_id("parked", body="woken")
            assert [job["body"] for job in waiter.jobs()] == ["woken"]
            all_of_them = [f"a-{i}" for i in range(50)]
            bodies = drain_all(client, "a", all_of_them)
            assert sorted(body for body in bodies if body != "no") == sorted(all_of_them)
        assert len(server.events("redis_away")) == before[0] + 1
        assert len(server.events("redis_back")) == before[1] + 1


def test_a_hung_redis_is_answered_for_in_time_and_does_nothing_twice(daemons, redis):
    server = daemons(redis.url, timeout=SHORT)
    with Client(server.port) as client:
        push_all(client, "a", 3)
        redis.freeze()
        begin = time.monotonic()
        answer = client.push("a", body="maybe", id="maybe")
        assert answer.status == 503
        soon(time.monotonic() - begin, 2.5)
        redis.thaw()
        assert eventually(lambda: client.get("/readyz").status == 200, 10)
        bodies = drain_all(client, "a", ["a-0", "a-1", "a-2"])
        assert sorted(b for b in bodies if b != "maybe") == ["a-0", "a-1", "a-2"]
        assert bodies.count("maybe") <= 1


def test_a_short_hang_is_waited_out(daemons, redis):
    server = daemons(redis.url, timeout="20s")
    with Client(server.port) as client:
        client.push_id("a", body="0")
        redis.freeze()
        threading.Timer(0.5, redis.thaw).start()
        assert client.push("a", body="1").status in (200, 201)
        assert sorted(drain(client, "a")) == ["0", "1"]


def test_forgotten_scripts_are_loaded_again(daemons, redis):
    server = daemons(redis.url)
    with Client(server.port) as client:
        for i in range(3):
            redis.call("SCRIPT", "FLUSH")
            client.push_id("a", body=str(i))
        redis.call("SCRIPT", "FLUSH")
        assert sorted(drain(client, "a")) == ["0", "1", "2"]


def test_a_full_redis_refuses_pushes_and_lets_work_be_done(daemons, redis):
    server = daemons(redis.url)
    with Client(server.port) as client:
        ids = push_all(client, "a", 20)
        used = int(redis.info("memory")["used_memory"])
        redis.call("CONFIG", "SET", "maxmemory", used // 2)
        assert client.push("a", body="x" * 1000).status in (503, 507)
        redis.call("CONFIG", "SET", "maxmemory", 0)
        assert len(drain(client, "a")) == len(ids)


def test_a_redis_that_lost_everything_is_made_anew(daemons, redis):
    server = daemons(redis.url)
    with Client(server.port) as client:
        push_all(client, "a", 5)
        redis.call("FLUSHALL")
        assert drain(client, "a") == []
        push_all(client, "a", 5)
        assert len(drain(client, "a")) == 5


def test_connections_that_are_cut_do_nothing_twice(daemons, redis):
    server = daemons(redis.url, timeout=SHORT)
    stop = threading.Event()

    pushed, answers = [], []

    def cut():
        """And then not until some were answered, however slow the machine is."""
        with redis.connect() as connection:
            while not stop.is_set():
                connection.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                seen = len(answers)
                while not stop.wait(0.03) and len(answers) < seen + 12:
                    pass

    with Client(server.port) as client:
        cutter = threading.Thread(target=cut)
        cutter.start()
        try:
            for i in range(300):
                answers.append(client.push("a", body=str(i), id=f"job-{i}").status)
                if answers[-1] in (200, 201):
                    pushed.append(str(i))
        finally:
            stop.set()
            cutter.join()
        assert len(pushed) > 200, answers
        assert eventually(lambda: client.get("/readyz").status == 200)
        bodies = drain_all(client, "a", pushed)
        assert len(set(bodies)) == len(bodies)


# Waiting and timing


@pytest.mark.deadline
def test_a_due_job_reaches_a_waiting_consumer_at_once(daemons, redis):
    server = daemons(redis.url)
    late = []
    with Client(server.port) as client:
        for _ in range(10):
            due = time.time() + 0.15
            client.push_id("soon", body="x", due=int(due * 1000))
            job, = client.reserve("soon", wait="20s")
            late.append(time.time() - due)
            client.job(job["id"], "finish", lease=job["lease"])
    assert min(late) >= -0.002, late
    soon(sorted(late)[5], 0.2)  # who polls is late by more


# Several daemons


@pytest.mark.deadline
def test_two_daemons_serve_one_queue_and_wake_each_other(daemons, redis):
    one, two = daemons(redis.url), daemons(redis.url)
    with Client(one.port) as first:
        waiter = Taker(two.port, "a")
        time.sleep(0.3)
        begin = time.monotonic()
        first.push_id("a", body="across")
        answers = waiter.jobs()
        assert [job["body"] for job in answers] == ["across"]
        soon(time.monotonic() - begin, 1)
        assert first.job(answers[0]["id"], "finish", lease=answers[0]["lease"]).status in (200, 204)


def test_another_daemon_takes_over_within_two_seconds(daemons, redis):
    one = daemons(redis.url)
    two = daemons(redis.url)
    with Client(two.port) as client:
        push_all(client, "a", 40, delay="1500ms")
        one.kill()
        begin = time.monotonic()
        got = []
        while len(got) < 40 and time.monotonic() - begin < 60:
            got += [job["body"] for job in client.reserve("a", most=40, wait="5s")]
        assert len(got) == 40
        soon(time.monotonic() - begin, 1.5 + 2.2)


def test_a_killed_daemon_loses_nothing(daemons, redis):
    daemon = daemons(redis.url)
    pushed = []
    for round_number in range(3):
        stop = threading.Event()

        def push_on():
            try:
                with Client(daemon.port) as client:
                    while not stop.is_set():
                        body = f"{round_number}-{len(pushed)}"
                        if client.push("a", body=body).status in (200, 201):
                            pushed.append(body)
            except (OSError, Closed):
                pass  # what was under way is nobody's promise

        before = len(pushed)
        pusher = threading.Thread(target=push_on)
        pusher.start()
        assert eventually(lambda: len(pushed) > before + 40 or not pusher.is_alive())
        daemon.kill()
        stop.set()
        pusher.join(PATIENCE_S)
        daemon.start()
    assert len(pushed) > 100
    with Client(daemon.port) as client:
        bodies = drain_all(client, "a", pushed)
    assert len(bodies) == len(set(bodies))


# Sentinel


def test_a_failover_is_followed(daemons, sentinels):
    server = daemons(sentinels.url, timeout="2s")
    with Client(server.port) as client:
        push_all(client, "a", 20)
        old = sentinels.master()
        replicated(old, next(server for server in sentinels.servers if server is not old))
        old.kill()
        assert eventually(lambda: client.push("a", body="after").status in (200, 201), 30)
        assert sentinels.master() is not old
        drain_all(client, "a", [f"a-{i}" for i in range(20)])
    old.extra = []
    old.start()


# Cluster


def test_a_cluster_spreads_the_queue(daemons, cluster):
    server = daemons(cluster.url)
    with Client(server.port) as client:
        for i in range(60):
            client.push_id("a", body=str(i), id=f"id-{i}")
        with_keys = sum(1 for node in cluster.servers[:3] if node.call("DBSIZE") > 0)
        assert with_keys == 3
        assert sorted(map(int, drain_all(client, "a", map(str, range(60))))) == list(range(60))


def test_resharding_while_serving_loses_nothing(daemons, cluster):
    server = daemons(cluster.url, prefix="reshard")
    masters = cluster.servers[:3]
    slots = [masters[0].call("CLUSTER", "KEYSLOT", f"{{reshard:{partition}}}:h")
             for partition in range(16)]
    pushed = []
    stop = threading.Event()

    def push_on():
        with Client(server.port) as own:
            while not stop.is_set():
                body = f"b-{len(pushed)}"
                if own.push("a", body=body, id=f"id-{len(pushed)}", if_exists="keep").status in (200, 201):
                    pushed.append(body)

    pusher = threading.Thread(target=push_on)
    pusher.start()
    assert eventually(lambda: len(pushed) > 20)
    moved = sum(move_slot(cluster, slot, masters[0]) for slot in slots)
    while_moving = len(pushed)
    assert eventually(lambda: len(pushed) > while_moving + 30)
    stop.set()
    pusher.join()
    assert moved > 3 and len(pushed) > 50
    with Client(server.port) as client:
        taken = drain_all(client, "a", pushed)
    # The last push may have been done though it was answered 503.
    assert len(set(taken)) == len(taken)
    assert set(pushed) <= set(taken) <= {*pushed, f"b-{len(pushed)}"}


def move_slot(cluster, slot, target):
    """As redis-cli does it: to one target only, for servers that take slots from each other within
    milliseconds may both believe that they have them, and delete each other's keys."""
    masters = cluster.servers[:3]
    rows = target.call("CLUSTER", "SLOTS")
    owner = next(row[2][1] for row in rows if row[0] <= slot <= row[1])
    source = next(node for node in masters if node.port == owner)
    if source is target:
        return False
    source_id, target_id = source.call("CLUSTER", "MYID"), target.call("CLUSTER", "MYID")
    target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
    source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
    time.sleep(0.01)
    while True:
        keys = source.call("CLUSTER", "GETKEYSINSLOT", slot, 1)  # a while with some here, some there
        if not keys:
            break
        source.call("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
    for node in (target, source, *masters):
        node.call("CLUSTER", "SETSLOT", slot, "NODE", target_id)
    return True


def test_a_master_of_the_cluster_is_replaced(daemons, cluster):
    server = daemons(cluster.url, prefix="replaced", timeout=SHORT)
    with Client(server.port) as client, cluster.hasty():
        for i in range(40):
            client.push_id("a", body=str(i), id=f"id-{i}")
        victim = cluster.servers[0]
        replicated(victim, cluster.servers[3])
        victim.kill()
        assert eventually(lambda: client.get("/readyz").status == 200 and
                          client.push("b", body="x", id=f"b{time.monotonic()}").status in (200, 201), 30)
        assert sorted(map(int, drain_all(client, "a", map(str, range(40))))) == list(range(40))
    victim.start()


# Replicas


def test_an_acknowledgement_waits_for_a_replica(daemons, redis):
    with Redis() as replica:
        redis.call("CONFIG", "SET", "repl-diskless-sync-delay", 0)
        replica.call("REPLICAOF", "127.0.0.1", redis.port)
        server = daemons(redis.url, wait_replicas=1, timeout="2s")
        with Client(server.port) as client:
            # A new replica's first word to its master may take a second.
            assert eventually(lambda: client.push("first", body="x").status == 201, 20)
            push_all(client, "a", 10)
            replica.freeze()
            assert client.push("a", body="alone").status == 503
            replica.thaw()
            assert eventually(lambda: client.push("a", body="together").status in (200, 201), 10)
            drain_all(client, "a", [*(f"a-{i}" for i in range(10)), "together"])
            assert client.counts("a")["delayed"] == 0, "the clocks are one"


def test_a_parked_poll_is_served_after_a_failover(daemons):
    """The notices come from the new master, though the old one may live on as a replica."""
    with Sentinels() as trio:
        server = daemons(trio.url, timeout=SHORT)
        with Client(server.port) as client:
            client.push_id("other", body="x", delay="1h")
            waiter = Taker(server.port, "a")
            time.sleep(0.3)
            old = trio.master()
            fail_over(trio)
            wait_until(lambda: trio.master() is not old, 20)
            time.sleep(1)
            assert eventually(lambda: client.push("a", body="after").status in (200, 201), 20)
            assert [job["body"] for job in waiter.jobs()] == ["after"]
