"""Bad days of the Redis engine: Redis is killed, hung, slow, full, read-only, forgetful or strange,
and replies get lost. Clients are answered within redis.timeout, no acknowledged job is lost, and
nothing is done twice.
"""

import contextlib
import hashlib
import shutil
import socket
import threading
import time

import pytest
from beanstalk import Connection
from patience import PATIENCE_S, soon
from poll import Poll
from process import DidNotStart
from redis import REDIS_SERVER, Cluster, Redis, RedisError, cluster_ports, runs_a_script, wait_until
from redis_scripts import script_text
from relay import Relay
from wire import Client, Closed, eventually

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")

TIMEOUT = 1.0  # redis.timeout of these tests, in seconds
BACK = 8.0  # Redis is back: so long may it take until laterd has noticed


def config(url, **redis):
    return {"engine": {"engine": "redis"},
            "redis": {"url": url, "timeout": f"{int(TIMEOUT * 1000)}ms", **redis}}


@pytest.fixture
def redis():
    with Redis(appendonly="yes", appendfsync="always") as server:
        yield server


@pytest.fixture
def server(laterd, redis):
    return laterd(config(redis.url))


@pytest.fixture
def client(server):
    with Client(server.port) as one:
        yield one


@pytest.fixture
def relay(redis):
    with Relay(redis.port) as one:
        yield one


@pytest.fixture
def redis_is_well(redis, monkeypatch):
    """Of tests in which it is there all the time: laterd says that it did not answer in time only if it was late."""
    with redis.watched():
        monkeypatch.setattr(Client, "redis_watch", redis.watch)
        yield


@pytest.fixture
def far(laterd, relay, redis_is_well):
    """A client of a laterd that reaches Redis through the relay. One partition, so that the first
    question for jobs is the one that takes them."""
    with Client(laterd(config(f"redis://127.0.0.1:{relay.port}", partitions=1)).port) as one:
        yield one


def pushes_again(client, topic="again"):
    """Pushes are taken, soon."""
    return eventually(lambda: client.push(topic, body=1).status == 201, BACK)


def assert_not_now(answer, since):
    """503 with Retry-After, in time."""
    took = time.monotonic() - since
    assert answer.status == 503 and int(answer.headers["retry-after"]) > 0, answer
    soon(took, TIMEOUT + 1)


# Killed


class Load:
    """Clients who push, take and finish, and an oracle that knows what they were told."""

    def __init__(self, port, pushers=4, consumers=2):
        self.port, self.lock, self.pushing, self.taking = port, threading.Lock(), True, True
        self.acknowledged, self.attempted, self.strange = set(), set(), []
        self.ids, self.finished = {}, {}
        self.back_from_the_dead = []
        self.pushers = [threading.Thread(target=self._push, args=(i,), daemon=True)
                        for i in range(pushers)]
        self.consumers = [threading.Thread(target=self._take, daemon=True)
                          for _ in range(consumers)]
        for thread in self.pushers + self.consumers:
            thread.start()

    def _answer(self, client, method, path, fields, expected):
        """The answer, or None if nobody knows what was done."""
        try:
            answer = client.request(method, path, fields)
        except (OSError, Closed):
            client.close()
            time.sleep(0.02)
            return None
        if answer.status not in expected:
            self.strange.append(answer)
        if answer.status == 503:
            time.sleep(0.02)
        return answer

    def _push(self, pusher):
        number = 0
        with Client(self.port) as client:
            while self.pushing:
                number += 1
                body = f"{pusher}-{number}"
                self.attempted.add(body)
                answer = self._answer(client, "POST", "/v1/topics/load/jobs",
                                      {"body": body, "ttr": "2s"}, (201, 503))
                if answer and answer.status == 201:
                    with self.lock:
                        self.acknowledged.add(body)

    def _take(self):
        with Client(self.port) as client:
            while self.taking:
                asked = time.monotonic()
                answer = self._answer(client, "POST", "/v1/reserve",
                                      {"topics": ["load"], "wait": "500ms", "max": 5},
                                      (200, 204, 503))
                if answer and answer.status == 200:
                    for job in answer.json()["jobs"]:
                        self._finish(client, job, asked)

    def _finish(self, client, job, asked):
        with self.lock:
            self.ids.setdefault(job["body"], set()).add(job["id"])
            if self.finished.get(job["id"], asked) < asked:
                self.back_from_the_dead.append(job["id"])
        answer = self._answer(client, "POST", f"/v1/jobs/{job['id']}/finish",
                              {"lease": job["lease"]}, (200, 204, 404, 409, 503))
        if answer and answer.status in (200, 204):
            with self.lock:
                self.finished.setdefault(job["id"], time.monotonic())

    def stop_pushing(self):
        self.pushing = False
        for thread in self.pushers:
            thread.join(PATIENCE_S)

    def missing(self):
        with self.lock:
            return self.acknowledged - set(self.ids)

    def settle(self, seconds=8):
        """All that was acknowledged has been delivered, and nothing else is wrong."""
        self.stop_pushing()
        eventually(lambda: not self.missing(), seconds)
        self.taking = False
        for thread in self.consumers:
            thread.join(PATIENCE_S)
        assert not self.missing(), f"{len(self.missing())} of {len(self.acknowledged)} are lost"
        assert not self.strange, self.strange[:3]
        assert not self.back_from_the_dead
        assert set(self.ids) <= self.attempted
        assert all(len(ids) == 1 for ids in self.ids.values()), "a push was done twice"


def test_p2_p5_redis_killed_under_load_loses_and_revives_no_job(server, redis):
    load = Load(server.port)
    for _ in range(3):
        before = len(load.acknowledged)
        assert eventually(lambda: len(load.acknowledged) > before + 50, BACK), "no load"
        redis.kill()
        time.sleep(0.3)
        redis.start()
    load.settle()


def test_an_answer_comes_in_time_while_redis_is_dead_and_waits_resume(server, client, redis):
    poll = Poll(server.port, "t")
    redis.kill()
    for _ in range(3):
        since = time.monotonic()
        assert_not_now(client.push("t", body="x"), since)
    assert client.get("/healthz").status == 200
    assert client.get("/readyz").status == 503
    assert poll.is_alive()
    late = Poll(server.port, "u")  # one that came meanwhile
    redis.start()
    assert pushes_again(client)
    assert eventually(lambda: client.get("/readyz").status == 200, BACK)
    for topic, one in (("t", poll), ("u", late)):
        job_id = client.push_id(topic, body=topic)
        assert one.job()["id"] == job_id


def test_a_redis_that_forgot_everything_is_a_new_queue(laterd):
    with Redis() as redis:
        server = laterd(config(redis.url))
        with Client(server.port) as client:
            poll = Poll(server.port, "t")
            lost = client.push_id("u", body="x", delay="1h")
            redis.kill()
            redis.start()
            assert pushes_again(client)
            assert client.state(lost) is None
            assert server.wait_log("redis_lost_data") and len(server.events("redis_lost_data")) == 1
            job_id = client.push_id("t", body="new")
            assert job_id != lost and poll.job()["id"] == job_id


def test_flushall_while_serving_is_a_new_queue(server, client, redis):
    poll = Poll(server.port, "t")
    client.push_id("u", body="x", delay="1h")
    redis.call("FLUSHALL")
    assert pushes_again(client)
    assert server.wait_log("redis_lost_data", 3)
    client.push_id("t", body="new", delay="200ms")
    assert poll.job()["body"] == "new"


# Hung and slow


def test_a_hung_redis_costs_503_in_time_and_parked_polls_resume(server, client, redis):
    poll = Poll(server.port, "t")
    job_id = client.push_id("u", body="x", delay="1h")
    redis.freeze()
    try:
        began = time.monotonic()
        for ask in (lambda: client.push("u", body="y"), lambda: client.job(job_id, method="GET"),
                    lambda: client.post("/v1/reserve", {"topics": ["u"]})):
            since = time.monotonic()
            assert_not_now(ask(), since)
        late = Poll(server.port, "late")
        time.sleep(max(0, began + 3 - time.monotonic()))
        assert poll.is_alive() and late.is_alive()
    finally:
        redis.thaw()
    assert pushes_again(client)
    for topic, one in (("t", poll), ("late", late)):
        new = client.push_id(topic, body=topic)
        assert one.job()["id"] == new
    assert client.state(job_id) == "delayed"


def test_a_hung_redis_does_not_make_jobs_of_one_push_two(server, client, redis):
    """The request is in Redis' socket; laterd connects again and asks again."""
    answers = []

    def push(body):
        with Client(server.port) as own:
            answers.append(own.push("t", body=body))
    redis.freeze()
    threads = [threading.Thread(target=push, args=(i,)) for i in range(10)]
    for thread in threads:
        thread.start()
    time.sleep(TIMEOUT + 0.3)
    redis.thaw()
    for thread in threads:
        thread.join()
    assert pushes_again(client)
    taken = []
    while jobs := client.reserve("t", most=50):
        taken += [job["body"] for job in jobs]
    assert len(taken) == len(set(taken)), "a push was done twice"
    assert {answer.status for answer in answers} <= {201, 503}


def test_clients_of_beanstalkd_are_answered_in_time_and_their_waits_resume(laterd, redis):
    server = laterd(config(redis.url), beanstalk=["127.0.0.1:0"])
    with Connection(server.beanstalk_port, PATIENCE_S) as waiting, Connection(server.beanstalk_port) as one:
        waiting.send("reserve-with-timeout 600\r\n")
        redis.freeze()
        try:
            since = time.monotonic()
            assert one.ask("put 0 0 60 1", b"x").word in ("OUT_OF_MEMORY", "INTERNAL_ERROR")
            assert one.ask("stats-job 1").word in ("OUT_OF_MEMORY", "INTERNAL_ERROR")
            soon(time.monotonic() - since, 2 * (TIMEOUT + 1))
            assert waiting.silent(0.2)
        finally:
            redis.thaw()
        assert eventually(lambda: one.ask("put 0 0 60 1", b"y").word == "INSERTED", BACK)
        assert waiting.answer().word == "RESERVED"


def test_a_slow_redis_is_waited_for(laterd, redis):
    server = laterd(config(redis.url, timeout="20s"))
    with Client(server.port) as client:
        with redis.connect() as other:
            since = time.monotonic()
            other.call("CLIENT", "PAUSE", 1000, "ALL")
            job_id = client.push_id("t", body="x")
            assert time.monotonic() - since >= 0.99, "it was not slow"
        assert client.reserve("t")[0]["id"] == job_id


def test_a_script_of_somebody_else_that_runs_too_long_is_waited_for(laterd):
    with Redis(lua_time_limit=50) as redis:
        server = laterd(config(redis.url, timeout="20s"))
        with Client(server.port) as client, redis.connect() as other:
            other.socket.sendall(b"*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n")
            runs_a_script(redis)
            threading.Timer(0.4, lambda: redis.call("SCRIPT", "KILL")).start()
            assert client.push("t", body="x").status == 201
            assert len(client.reserve("t", most=5)) == 1


# Full and read-only


def fill(client, redis):
    """Pushes until Redis is full; returns the answer that says so."""
    redis.call("CONFIG", "SET", "maxmemory", int(redis.info("memory")["used_memory"]) + 400000)
    for number in range(500):
        answer = client.push("t", body="x" * 10000, id=f"full-{number}")
        if answer.status != 201:
            return answer
    raise AssertionError("it never was full")


def test_p8_a_full_redis_refuses_pushes_and_lets_go_what_is_there(server, client, redis):
    due = client.push_id("due", body="x", delay="1500ms", ttr="1s")
    buried = client.push_id("dead", body="x")
    taken = client.reserve("dead")[0]
    assert client.job(buried, "bury", lease=taken["lease"]).status in (200, 204)
    held = client.push_id("held", body="x", ttr="1h")
    lease = client.reserve("held")[0]["lease"]
    answer = fill(client, redis)
    assert answer.status == 503 and "maxmemory of Redis" in answer.text, answer
    redis.call("CONFIG", "SET", "maxmemory", 1)  # full it stays, whatever is given back
    assert client.push("t", body="x").status == 503
    assert client.job("full-0", method="DELETE").status in (200, 204)
    assert client.state("full-0") is None
    assert client.job(held, "finish", lease=lease).status in (200, 204)
    assert client.job(buried, method="DELETE").status in (200, 204)
    jobs = client.reserve("t", most=3)
    assert len(jobs) == 3
    for job in jobs:
        assert client.job(job["id"], "finish", lease=job["lease"]).status in (200, 204)
    # What becomes due is still handed out, now and after its ttr, by timers that stay alive.
    for _ in range(2):
        since = time.monotonic()
        job = client.reserve("due", wait="20s")[0]
        soon(time.monotonic() - since, 5)
        assert job["id"] == due

    def finished():  # within its ttr; else it comes again
        taken = client.reserve("due", wait="20s")
        return taken and client.job(due, "finish", lease=taken[0]["lease"]).status in (200, 204)
    assert client.job(due, "finish", lease=job["lease"]).status in (200, 204) or eventually(finished)
    redis.call("CONFIG", "SET", "maxmemory", 0)
    assert pushes_again(client)


def test_a_laterd_starts_on_a_full_redis_that_has_its_queue(laterd, redis):
    server = laterd(config(redis.url))
    with Client(server.port) as client:
        job_id = client.push_id("t", body="x")
        server.stop()
    redis.call("CONFIG", "SET", "maxmemory", 1)
    server.start()
    with Client(server.port) as client:
        job = client.reserve("t", wait="20s")[0]
        assert job["id"] == job_id
        assert client.job(job_id, "finish", lease=job["lease"]).status in (200, 204)


def test_a_redis_that_became_a_replica_costs_503_until_it_is_a_master_again(server, client, redis):
    poll = Poll(server.port, "t")
    kept = client.push_id("u", body="x", delay="1h")
    redis.call("CONFIG", "SET", "repl-diskless-sync-delay", 0)
    with Redis(repl_diskless_sync_delay=0) as other:
        other.call("REPLICAOF", "127.0.0.1", redis.port)
        wait_until(lambda: other.info("replication")["master_link_status"] == "up")
        other.call("REPLICAOF", "NO", "ONE")
        redis.call("REPLICAOF", "127.0.0.1", other.port)
        wait_until(lambda: redis.info("replication")["master_link_status"] == "up")
        for _ in range(2):
            since = time.monotonic()
            assert_not_now(client.push("t", body="x"), since)
        assert poll.is_alive()
        redis.call("REPLICAOF", "NO", "ONE")
        assert pushes_again(client)
    assert client.state(kept) == "delayed"
    job_id = client.push_id("t", body="x")
    assert poll.job()["id"] == job_id


def test_a_redis_that_takes_no_writes_for_now_costs_503_until_it_does(laterd):
    """It has too few replicas, or cannot save to its disk (NOREPLICAS, MISCONF)."""
    with Redis(save="3600 1") as redis:
        server = laterd(config(redis.url))
        with Client(server.port) as client:
            job_id = client.push_id("t", body="x")
            redis.call("CONFIG", "SET", "min-replicas-to-write", 1)
            since = time.monotonic()
            assert_not_now(client.push("t", body="x"), since)
            assert client.state(job_id) == "ready", "it can be read all the same"
            redis.call("CONFIG", "SET", "min-replicas-to-write", 0)
            assert pushes_again(client)
            shutil.rmtree(redis.folder)
            redis.call("BGSAVE")
            wait_until(lambda: redis.info("persistence")["rdb_last_bgsave_status"] == "err")
            since = time.monotonic()
            assert_not_now(client.push("t", body="x"), since)
            redis.call("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
            assert pushes_again(client)


def test_scripts_that_were_flushed_are_loaded_again(server, client, redis, redis_is_well):
    poll = Poll(server.port, "t")
    for number in range(5):
        redis.call("SCRIPT", "FLUSH")
        job_id = client.push_id("u", body=number)
        redis.call("SCRIPT", "FLUSH")
        job = client.reserve("u")[0]
        assert job["id"] == job_id
        redis.call("SCRIPT", "FLUSH")
        assert client.job(job_id, "finish", lease=job["lease"]).status in (200, 204)
    redis.call("SCRIPT", "FLUSH")
    job_id = client.push_id("t", body="x", delay="300ms")
    assert poll.job()["id"] == job_id


# A cluster that is not whole


@pytest.fixture(scope="module")
def cluster():
    with Cluster(replicas=0, appendonly="yes", appendfsync="always") as three:
        yield three


def test_a_cluster_that_is_down_costs_503_in_time_and_resumes(laterd, cluster):
    """Only while it is down are servers hasty: a busy one is no dead one before and after."""
    server = laterd(config(cluster.url, prefix="down"))
    killed, *left = cluster.servers
    with Client(server.port) as client:
        ids = [client.push_id("t", id=f"kept-{n}", body="x") for n in range(30)]
        poll = Poll(server.port, "parked", wait="10m")  # however long the servers take
        with cluster.hasty():
            killed.kill()
            wait_until(lambda: all(Cluster.state(one) == "fail" for one in left), 30)
            for number in range(4):  # in whatever partition
                since = time.monotonic()
                assert_not_now(client.push("t", id=f"no-{number}", body="x"), since)
            killed.start()
            wait_until(lambda: all(Cluster.state(one) == "ok" for one in cluster.servers), 30)
        wait_until(lambda: all(Cluster.state(one) == "ok" for one in cluster.servers), 30)
        assert eventually(lambda: client.get("/readyz").status == 200, BACK)
        assert eventually(lambda: client.push("parked", id="one", body="x",
                                              if_exists="keep").status in (200, 201), BACK)
        assert poll.job()["id"] == "one"
        taken = set()

        def all_are_there():  # a server that is slow is not waited for: fewer, or 503
            answer = client.post("/v1/reserve", {"topics": ["t"], "wait": 0, "max": 50})
            assert answer.status in (200, 204, 503), answer
            taken.update(job["id"] for job in (answer.json()["jobs"] if answer.status == 200 else []))
            return taken >= set(ids)

        assert eventually(all_are_there, BACK)


def test_a_slot_that_is_stuck_half_moved_costs_503_in_time_and_resumes(laterd, cluster):
    """Some of a partition's keys are here and some there: TRYAGAIN, until somebody moves on."""
    server = laterd(config(cluster.url, prefix="stuck", partitions=1))
    with Client(server.port) as client:
        job_id = client.push_id("t", body="x")
        slot = cluster.servers[0].call("CLUSTER", "KEYSLOT", "{stuck:0}:h")
        row = next(row for row in cluster.servers[0].call("CLUSTER", "SLOTS")
                   if row[0] <= slot <= row[1])
        source = next(one for one in cluster.servers if one.port == row[2][1])
        target = next(one for one in cluster.servers if one is not source)
        names = {one: one.call("CLUSTER", "MYID") for one in (source, target)}
        target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", names[source])
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", names[target])
        keys = sorted(source.call("CLUSTER", "GETKEYSINSLOT", slot, 1000), key=len)  # no buckets first
        assert len(keys) > 2
        source.call("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys[:2])
        for _ in range(2):
            since = time.monotonic()
            assert_not_now(client.push("t", body="no"), since)
        source.call("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys[2:])
        assert pushes_again(client)  # all keys are there: ASK
        for one in (target, source):
            one.call("CLUSTER", "SETSLOT", slot, "NODE", names[target])
        assert pushes_again(client)  # MOVED
        assert client.job(job_id, method="DELETE").status in (200, 204)


# A reply lost after the script ran


def test_a_push_by_id_whose_reply_was_lost_is_no_conflict(far, relay):
    for exists in ("reject", "replace", "keep"):
        relay.cut_after(b"id-" + exists.encode())
        answer = far.push("t", id=f"id-{exists}", body="x", if_exists=exists)
        assert answer.status == 201, answer
        assert answer.json()["result"] == "created", answer
    assert relay.cuts == 3 and far.counts("t")["ready"] == 3


def test_a_reserve_of_many_whose_reply_was_lost_leaves_none_behind(far, relay):
    pushed = {far.push_id("taken", body="x", ttr="1h") for _ in range(10)}
    relay.cut_after(b"taken")
    jobs = far.reserve("taken", most=10)
    jobs += far.reserve("taken", most=10)
    assert {job["id"] for job in jobs} == pushed and len(jobs) == 10 and relay.cuts == 1


def test_a_job_that_came_while_the_reply_was_lost_reaches_the_parked_poll(far, relay):
    poll = Poll(far.port, "taken")
    relay.cut_after(b"taken")
    job_id = far.push_id("taken", body="x", ttr="1h")  # cut here, or at the poll's next question
    assert poll.job()["id"] == job_id
    assert relay.cuts == 1


def test_a_due_job_reaches_the_parked_poll_though_the_reply_that_reported_it_was_lost(far, relay):
    """The promote took the poll's mark away; sent again, it finds neither mark nor job."""
    poll = Poll(far.port, "t")
    pushing = time.monotonic()
    job_id = far.push_id("t", body="x", ttr="1h", delay="1s")
    time.sleep(0.2)  # what the push asks for has gone
    relay.cut_after(hashlib.sha1(script_text("promote")).hexdigest().encode())
    soon(time.monotonic() - pushing, 1)  # else it was due before
    assert poll.job()["id"] == job_id
    assert relay.cuts == 1


def test_a_kick_whose_reply_was_lost_kicked_once(far, relay):
    job_id = far.push_id("t", id="a-marked-id", body="x", state="buried")
    relay.cut_after(b"a-marked-id")
    answer = far.job(job_id, "kick")
    assert answer.status in (200, 204) and relay.cuts == 1
    assert far.state(job_id) == "ready" and far.counts("t")["totals"]["kicked"] == 1


def test_a_kick_of_a_topic_whose_reply_was_lost_kicks_no_more_than_it_should(far, relay):
    for _ in range(5):
        far.push_id("the-topic", body="x", state="buried")
    relay.cut_after(b"the-topic")
    answer = far.post("/v1/topics/the-topic/kick", {"max": 2})
    assert answer.status == 200 and relay.cuts == 1
    counts = far.counts("the-topic")
    assert (counts["ready"], counts["buried"]) == (2, 3)


# Refused


class Fake:
    """Something that speaks Redis' protocol, and answers INFO as it is told."""

    def __init__(self, info):
        self.info = info.encode()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                one, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one):
        with contextlib.suppress(OSError), one, one.makefile("rb") as file:
            while line := file.readline():
                words = []
                for _ in range(int(line[1:])):
                    words.append(file.read(int(file.readline()[1:]) + 2)[:-2])
                one.sendall(self._answer(words[0].upper()))

    def _answer(self, word):
        if word == b"INFO":
            return b"$%d\r\n%s\r\n" % (len(self.info), self.info)
        if word == b"ROLE":
            return b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
        return b"+PONG\r\n" if word == b"PING" else b"-ERR unknown command\r\n"


def refusal(laterd, url, **redis):
    """What laterd says when it does not start."""
    since = time.monotonic()
    with pytest.raises(DidNotStart) as why:
        laterd(config(url, **redis))
    soon(time.monotonic() - since, 8)
    return str(why.value)


def test_a_missing_password_is_refused(laterd):
    with Redis() as redis:
        redis.call("ACL", "SETUSER", "default", "resetpass", ">secret")
        assert "NOAUTH" in refusal(laterd, redis.url)
        password = {"LATERD_REDIS_PASSWORD": "secret"}
        with Client(laterd(config(redis.url), environment=password).port) as client:
            client.push_id("t", body="x")


def test_a_user_without_rights_is_refused(laterd, redis):
    redis.call("ACL", "SETUSER", "weak", "on", ">pass", "~*", "&*", "+@connection", "+role",
               "+info")
    said = refusal(laterd, f"redis://weak:pass@127.0.0.1:{redis.port}")
    assert "NOPERM" in said


def test_a_user_without_rights_to_channels_is_refused(laterd, redis):
    """As Redis 7 makes them: scripts could not publish, and long polls would sleep."""
    redis.call("ACL", "SETUSER", "deaf", "on", ">pass", "~*", "resetchannels", "+@all")
    assert "&{laterd:*" in refusal(laterd, f"redis://deaf:pass@127.0.0.1:{redis.port}")
    redis.call("ACL", "SETUSER", "deaf", "&{laterd:*")
    laterd(config(f"redis://deaf:pass@127.0.0.1:{redis.port}"))


def test_rights_that_are_taken_away_cost_503_until_they_are_given_back(laterd, redis):
    redis.call("ACL", "SETUSER", "jobs", "on", ">pass", "~*", "&*", "+@all")
    server = laterd(config(f"redis://jobs:pass@127.0.0.1:{redis.port}"))
    with Client(server.port) as client:
        kept = client.push_id("u", body="x")
        poll = Poll(server.port, "t")
        redis.call("ACL", "SETUSER", "jobs", "-evalsha")
        since = time.monotonic()
        assert_not_now(client.push("t", body="x"), since)
        assert poll.is_alive()
        redis.call("ACL", "SETUSER", "jobs", "+evalsha")
        assert pushes_again(client)
        assert client.reserve("u")[0]["id"] == kept
        job_id = client.push_id("t", body="x")
        assert poll.job()["id"] == job_id


def test_a_right_to_hear_notices_that_is_taken_away_is_logged(laterd, redis):
    redis.call("ACL", "SETUSER", "jobs", "on", ">pass", "~*", "&*", "+@all")
    server = laterd(config(f"redis://jobs:pass@127.0.0.1:{redis.port}"))
    redis.call("ACL", "SETUSER", "jobs", "-ssubscribe")
    redis.call("CLIENT", "KILL", "TYPE", "pubsub")
    assert server.wait_log("redis_deaf")
    assert "'ssubscribe'" in server.events("redis_deaf")[0][1]
    redis.call("ACL", "SETUSER", "jobs", "+ssubscribe")
    assert server.wait_log("redis_heard")


def test_another_number_of_partitions_is_refused(laterd, redis):
    first = laterd(config(redis.url, partitions=8))
    with Client(first.port) as client:
        client.push_id("t", body="x")
        said = refusal(laterd, redis.url, partitions=4)
        assert "redis.partitions = 8" in said
        laterd(config(redis.url, partitions=4, prefix="another"))
        assert len(client.reserve("t")) == 1, "the refused one did harm"


def test_a_redis_that_is_too_old_is_refused(laterd):
    fake = Fake("# Server\r\nredis_version:5.0.14\r\nredis_mode:standalone\r\n# Replication\r\n"
                "role:master\r\n# Memory\r\nmaxmemory_policy:noeviction\r\n")
    assert "6.2" in refusal(laterd, fake.url)


def test_what_is_no_redis_is_refused(laterd):
    fake = Fake("hello")
    refusal(laterd, fake.url)


def test_a_cluster_without_all_slots_is_refused(laterd):
    with Redis(port=cluster_ports(1)[0], cluster_enabled="yes", cluster_require_full_coverage="no") as redis:
        redis.call("CLUSTER", "ADDSLOTS", *range(10001))
        wait_until(lambda: Cluster.state(redis) == "ok")
        said = refusal(laterd, f"redis+cluster://127.0.0.1:{redis.port}")
        assert "slots" in said
        redis.call("CLUSTER", "ADDSLOTS", *range(10001, 16384))
        wait_until(lambda: Cluster.state(redis) == "ok")
        assert "redis+cluster://" in refusal(laterd, redis.url)


def test_a_redis_that_is_still_loading_is_waited_for(laterd):
    with Redis(key_load_delay=5000, loading_process_events_interval_bytes=1024) as redis:  # us, for each key
        with redis.connect() as one:
            for number in range(2000):
                one.call("SET", f"k{number}", "x" * 1000)
            one.call("SAVE")
        redis.kill()
        starting = threading.Thread(target=redis.start)
        starting.start()
        assert eventually(lambda: is_loading(redis))
        server = laterd(config(redis.url), start=False).start(wait=False)
        assert server.wait_log("redis_waiting")
        assert "LOADING" in str(server.events("redis_waiting"))
        redis.call("CONFIG", "SET", "key-load-delay", 0)
        server.wait_listening()
        starting.join()
        with Client(server.port) as client:
            client.push_id("t", body="x")


def is_loading(redis):
    try:
        return redis.process and redis.call("PING") is None
    except RedisError as error:
        return "LOADING" in str(error)
    except OSError:
        return False
