"""Many daemons, one queue in Redis, one address in front: a balancer gives every connection to
another daemon, and clients never stay on one. What one daemon began another goes on with; one that
dies or stops takes nothing with it.
"""

import glob
import itertools
import threading
import time

import pytest
from beanstalk import Connection
from patience import PATIENCE_S, soon
from poll import Poll
from redis import REDIS_SERVER, Cluster, Redis, Sentinels, config, replicated, wait_until
from relay import Relay
from wire import Client, Closed, Wire, eventually, request_bytes

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")

TAKEOVER = 2.0  # of a dead daemon's timers, in seconds
FORGOTTEN = 5 + 2.0  # what it held: five seconds after its last heartbeat, the others look once a second; and a second
DONE = (200, 204)
FAKE_TIME = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")


@pytest.fixture(scope="module")
def redis():
    with Redis() as server:
        yield server


QUEUES = itertools.count()


@pytest.fixture
def pair(laterd, redis):
    """Two daemons on a queue of the test's own."""
    keys = config(redis.url, prefix=f"queue-{next(QUEUES)}")  # a dead daemon is waited for by redis.timeout, too
    return laterd(keys, beanstalk=["127.0.0.1:0"]), laterd(keys, beanstalk=["127.0.0.1:0"])


class Roamer(Client):
    """Every request on a connection of its own."""

    def request(self, *words, **fields):
        try:
            return super().request(*words, **fields)
        finally:
            self.close()


@pytest.fixture
def balancer(pair):
    with Relay(*(server.port for server in pair)) as one:
        yield one


@pytest.fixture
def roamer(balancer):
    return Roamer(balancer.port)


# Lives of jobs across daemons


def test_every_step_of_a_life_may_be_at_another_daemon(roamer, balancer):
    for _ in range(2):  # at the other one, the second time
        job_id = roamer.push_id("life", body={"n": 1}, delay="100ms", priority=7, ttr="1m")
        assert roamer.state(job_id) in ("delayed", "ready")
        job = roamer.reserve("life", wait="20s")[0]
        assert (job["id"], job["body"], job["attempt"]) == (job_id, {"n": 1}, 1)
        lease = job["lease"]
        assert roamer.job(job_id, "touch", lease=lease).status in DONE
        assert roamer.job(job_id, "release", lease=lease).status in DONE
        assert roamer.job(job_id, "finish", lease=lease).status == 409, "that lease is over"
        again = roamer.reserve("life", wait="20s")[0]
        assert (again["id"], again["attempt"]) == (job_id, 2) and again["lease"] != lease
        assert roamer.job(job_id, "bury", lease=again["lease"]).status in DONE
        assert roamer.state(job_id) == "buried"
        assert roamer.job(job_id, "kick").status in DONE
        last = roamer.reserve("life", wait="20s")[0]
        assert roamer.job(job_id, "finish", lease=lease).status == 409
        assert roamer.job(job_id, "finish", lease=last["lease"]).status in DONE
        assert roamer.job(job_id, "finish", lease=last["lease"]).status in (404, 409)
        assert roamer.state(job_id) is None
        roamer.get("/healthz")  # an odd number of requests: now it is the others' turn
    assert balancer.taken > 20


def test_both_daemons_tell_the_same_of_a_topic(pair, roamer):
    for number in range(6):
        roamer.push_id("t", body=number, id=f"same-{number}", delay="1h" if number % 2 else "0s")
    jobs = roamer.reserve("t", most=2)
    assert len(jobs) == 2
    told = []
    for server in pair:
        with Client(server.port) as client:
            counts = client.counts("t")
            told.append([counts[state] for state in ("delayed", "ready", "reserved", "buried")])
            assert client.push("t", id="same-1", body="x").status == 409
            listed = client.get("/v1/topics/t/jobs?state=delayed").json()["jobs"]
            assert sorted(job["id"] for job in listed) == ["same-1", "same-3", "same-5"]
    assert told == [[3, 1, 2, 0]] * 2


def test_the_delay_queue_dialect_works_without_a_home(roamer):
    for number in range(4):
        code, _, data = roamer.call("/push", topic="order", id=f"o-{number}", delay=1, ttr=60,
                                    body=f"b-{number}")
        assert (code, data) == (0, None)
    seen = set()
    for _ in range(4):
        code, _, data = roamer.call("/pop", topic="none,order")
        assert code == 0
        seen.add((data["id"], data["body"]))
        assert roamer.call("/finish", id=data["id"])[0] == 0
        assert roamer.call("/get", id=data["id"])[2] is None
    assert seen == {(f"o-{n}", f"b-{n}") for n in range(4)}


def test_p4_of_many_who_ask_at_both_daemons_each_job_has_one_holder(pair):
    """Twenty consumers at two daemons, two hundred jobs: none comes twice, none is left."""
    with Client(pair[0].port) as client:
        results = client.push_many("t", [{"body": n, "ttr": "1h"} for n in range(200)])
        assert all(result["status"] == 201 for result in results)
    taken, lock = [], threading.Lock()

    def consume(port):  # until there is none, and none is missing either
        end = time.monotonic() + PATIENCE_S
        with Client(port) as client:
            while (jobs := client.reserve("t", wait="300ms", most=3)) or len(taken) < 200 and time.monotonic() < end:
                with lock:
                    taken.extend(job["body"] for job in jobs)
    threads = [threading.Thread(target=consume, args=(pair[n % 2].port,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(200))


# Waiting


@pytest.mark.deadline
def test_a_push_at_one_daemon_wakes_a_poll_at_the_other_at_once(pair):
    here, there = pair
    late = []
    with Client(here.port) as client:
        client.push_id("t", body="warm")
        client.reserve("t")
        for number in range(7):
            poll = Poll(there.port, "t")
            job_id = client.push_id("t", body=number)
            pushed = time.monotonic()
            assert poll.job()["id"] == job_id
            late.append(poll.at - pushed)
    soon(sorted(late)[3], 0.05)


@pytest.mark.parametrize("how", ["release", "kick", "due", "ttr", "run", "resume"])
def test_whatever_makes_a_job_ready_wakes_a_poll_at_the_other_daemon(pair, how):
    here, there = pair
    with Client(here.port) as client:
        fields = {"kick": {"state": "buried"}, "due": {"delay": "400ms"}, "run": {"delay": "1h"},
                  "ttr": {"ttr": "1s"}}.get(how, {})
        job_id = client.push_id("t", body="x", **fields)
        if how == "resume":
            assert client.post("/v1/topics/t/pause", {"for": "1h"}).status in DONE
        if how in ("release", "ttr"):
            lease = client.reserve("t")[0]["lease"]
        poll = Poll(there.port, "t")
        since = time.monotonic()
        if how == "release":
            assert client.job(job_id, "release", lease=lease).status in DONE
        elif how in ("kick", "run"):
            assert client.job(job_id, how).status in DONE
        elif how == "resume":
            assert client.post("/v1/topics/t/resume", {}).status in DONE
        assert poll.job()["id"] == job_id
        soon(poll.at - since, {"ttr": 1.5}.get(how, 0.8))


def test_many_polls_at_both_daemons_get_one_job_each(pair):
    polls = []
    threads = [threading.Thread(target=lambda p=pair[n % 2].port: polls.append(Poll(p, "t")))
               for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Client(pair[0].port) as client:
        pushed = [client.push_id("t", body=n, ttr="1m") for n in range(10)]
        got = [poll.jobs()[0]["id"] for poll in polls]
        assert sorted(got) == sorted(pushed)
        assert client.counts("t")["ready"] == 0


def test_a_poll_whose_subscription_was_cut_misses_no_job(pair, redis):
    """Neither one that came while nobody listened, nor one that comes later."""
    here, there = pair
    with Client(here.port) as client:
        for _ in range(5):
            poll = Poll(there.port, "t")
            redis.call("CLIENT", "KILL", "TYPE", "pubsub")
            since = time.monotonic()
            job_id = client.push_id("t", body="x", ttr="1h")
            assert poll.job()["id"] == job_id
            soon(poll.at - since, 2)
        time.sleep(0.5)
        poll = Poll(there.port, "t")
        since = time.monotonic()
        job_id = client.push_id("t", body="x", ttr="1h")
        assert poll.job()["id"] == job_id
        soon(poll.at - since, 2)


def test_p6_a_poll_that_left_one_daemon_leaves_the_job_to_the_other(pair):
    here, there = pair
    with Wire(here.port) as wire:
        wire.send(request_bytes("POST", "/v1/reserve", b'{"topics":["t"],"wait":"10s"}'))
        assert wire.silent(0.3)
    poll = Poll(there.port, "t")
    with Client(here.port) as client:
        since = time.monotonic()
        job_id = client.push_id("t", body="x", ttr="1m")
    job = poll.job()
    soon(time.monotonic() - since, 3)
    assert (job["id"], job["attempt"]) == (job_id, 1)


@pytest.mark.skipif(not FAKE_TIME, reason="faketime is not installed")
@pytest.mark.deadline
def test_p3_daemons_whose_clocks_differ_agree_when_a_job_is_due(laterd, redis):
    """Due times are Redis' clock's; one daemon believes that it is an hour ago."""
    keys = config(redis.url, prefix=f"queue-{next(QUEUES)}")
    right = laterd(keys)
    wrong = laterd(keys, environment={"LD_PRELOAD": FAKE_TIME[0], "FAKETIME": "-3600",
                                      "FAKETIME_NO_CACHE": "1",
                                      "FAKETIME_DONT_FAKE_MONOTONIC": "1"})
    for pusher, taker in ((wrong, right), (right, wrong), (wrong, wrong)):
        with Client(pusher.port) as here, Client(taker.port) as there:
            pushed = time.monotonic()
            here.push_id("t", body="x", delay="700ms", ttr="1m")
            assert len(there.reserve("t", wait="5s")) == 1
            assert 0.7 <= soon(time.monotonic() - pushed, 1.2)
    assert wrong.wait_log("redis_clock", 3)


# A daemon dies, or stops


@pytest.mark.deadline
def test_one_daemon_killed_the_other_has_its_timers_within_two_seconds(pair):
    dead, alive = pair
    with Client(alive.port) as client:
        time.sleep(1)  # both have said hello; the timers are with whom they were first
        for number in range(64):  # of all partitions
            client.push_id("t", id=f"due-{number}", body=number, delay="500ms")
        polls = time.monotonic()
        dead.kill()
        got = set()
        while len(got) < 64 and time.monotonic() - polls < 60:
            for job in client.reserve("t", wait="5s", most=64):
                got.add(job["id"])
        took = time.monotonic() - polls
        assert len(got) == 64
        soon(took, TAKEOVER + 0.8)


def test_jobs_reserved_through_a_dead_daemon_come_back_after_their_ttr(pair):
    dead, alive = pair
    with Client(dead.port) as client:
        job_id = client.push_id("t", body="x", ttr="3s")
        other = client.push_id("t", body="y", ttr="1m")
        jobs = client.reserve("t", most=2)
        since = time.monotonic()
        leases = {job["id"]: job["lease"] for job in jobs}
    dead.kill()
    with Client(alive.port) as client:
        assert client.job(other, "finish", lease=leases[other]).status in DONE, "a lease lives on"
        again = client.reserve("t")
        soon(time.monotonic() - since, 2.5)  # else the ttr may be over
        assert again == []
        job = client.reserve("t", wait="20s")[0]
        assert (job["id"], job["attempt"]) == (job_id, 2)
        assert 2.9 < soon(time.monotonic() - since, 3 + TAKEOVER + 0.5)
        assert client.job(job_id, "finish", lease=leases[job_id]).status == 409
        assert client.job(job_id, "finish", lease=job["lease"]).status in DONE


def test_p6_what_beanstalkd_clients_of_a_dead_daemon_held_comes_back_soon(pair):
    dead, alive = pair
    with Connection(dead.beanstalk_port) as holder, Connection(alive.beanstalk_port) as other:
        job_id = holder.put(b"x", ttr=600)
        assert holder.reserve()[0] == job_id
        assert other.reserve() is None
        since = time.monotonic()
        dead.kill()
        assert other.reserve(timeout=25) == (job_id, b"x")
        soon(time.monotonic() - since, FORGOTTEN)


def test_p6_the_dead_are_forgotten_while_replicas_are_too_few(laterd, redis):
    keys = config(redis.url, prefix=f"queue-{next(QUEUES)}", wait_replicas=1)
    dead, alive = (laterd(keys, beanstalk=["127.0.0.1:0"]) for _ in range(2))
    with Connection(dead.beanstalk_port) as holder, Connection(alive.beanstalk_port) as other:
        for server in (dead, alive):
            with Client(server.port) as client:
                assert client.push("t", body="x").status == 503, "it is done, but not acknowledged"
                assert client.get("/readyz").status == 503
        holder.ask("watch t"), other.ask("watch t")
        assert {holder.reserve()[1], holder.reserve()[1]} == {b"x"}
        assert other.reserve() is None
        since = time.monotonic()
        dead.kill()
        job = other.reserve(timeout=25)
        assert job and job[1] == b"x"
        soon(time.monotonic() - since, FORGOTTEN)


def test_queues_in_two_databases_of_one_redis_do_not_hear_each_other(laterd, redis):
    """Else each would leave some of its timers to the other's daemons: notices know no database."""
    prefix = f"queue-{next(QUEUES)}"
    pair = [laterd(config(redis.url + end, prefix=prefix)) for end in ("/0", "/1")]
    for server in pair:
        with Client(server.port) as client:
            for number in range(32):
                client.push_id("t", id=f"due-{number}", body=number, delay="1500ms")
            got, since = set(), time.monotonic()
            while len(got) < 32 and time.monotonic() - since < 60:
                got.update(job["id"] for job in client.reserve("t", wait="1s", most=32))
            assert len(got) == 32
        assert not server.events("redis_lost_data")


def test_a_daemon_that_stops_gives_its_timers_and_holds_away_at_once(pair):
    going, staying = pair
    with Connection(going.beanstalk_port) as holder, Client(staying.port) as client:
        held = holder.ask("use held").word == "USING" and holder.put(b"x", ttr=600)
        holder.ask("watch held")
        assert holder.reserve()[0] == held
        poll = Poll(staying.port, "held")
        for number in range(64):
            client.push_id("t", id=f"due-{number}", body=number, delay="300ms")
        since = time.monotonic()
        assert going.stop() == 0
        stopped = time.monotonic() - since
        assert poll.job()["body"] == "x", "held by a connection that is no more"
        soon(poll.at - since, stopped + 3)
        got = set()
        while len(got) < 64 and time.monotonic() - since < 60:
            got.update(job["id"] for job in client.reserve("t", wait="3s", most=64))
        assert len(got) == 64
        soon(time.monotonic() - since, max(stopped, 0.3) + 1)


def test_a_poll_at_a_daemon_that_stops_is_answered_and_loses_no_job(pair):
    going, staying = pair
    poll = Poll(going.port, "t")
    assert going.stop() == 0
    assert poll.jobs() == []
    with Client(staying.port) as client:
        job_id = client.push_id("t", body="x")
        assert client.reserve("t", wait="20s")[0]["id"] == job_id


def test_p2_p5_daemons_killed_in_turn_under_load_lose_and_revive_nothing(pair, balancer):
    """Clients roam; one daemon at a time is killed and comes back."""
    stop, lock = threading.Event(), threading.Lock()
    pushed, delivered, finished, revived, strange = set(), {}, {}, [], []
    numbers = itertools.count()

    def ask(method, path, fields, good):
        try:
            answer = Roamer(balancer.port).request(method, path, fields)
        except (OSError, Closed):
            return None  # killed: nobody knows
        if answer.status not in good:
            strange.append(answer)
        return answer

    def push():
        while not stop.is_set():
            with lock:
                body = next(numbers)
            answer = ask("POST", "/v1/topics/load/jobs", {"body": body, "ttr": "2s"}, (201, 503))
            if answer and answer.status == 201:
                with lock:
                    pushed.add(body)

    def consume():
        while not stop.is_set() or pushed - set(delivered):
            if stop.is_set() and time.monotonic() > end + PATIENCE_S:
                return
            asked = time.monotonic()
            answer = ask("POST", "/v1/reserve", {"topics": ["load"], "wait": "300ms", "max": 5},
                         (200, 204, 503))
            for job in answer.json()["jobs"] if answer and answer.status == 200 else []:
                with lock:
                    delivered.setdefault(job["body"], set()).add(job["id"])
                    if finished.get(job["id"], asked) < asked:
                        revived.append(job["id"])
                done = ask("POST", f"/v1/jobs/{job['id']}/finish", {"lease": job["lease"]},
                           (200, 204, 404, 409, 503))
                if done and done.status in DONE:
                    with lock:
                        finished.setdefault(job["id"], time.monotonic())

    threads = [threading.Thread(target=call) for call in (push, push, consume, consume)]
    end = time.monotonic() + 1e9
    for thread in threads:
        thread.start()
    for number in range(4):
        victim = pair[number % 2]
        place = balancer.targets.index(victim.port)
        before = len(pushed)
        assert eventually(lambda: len(pushed) > before + 30), strange[:3]
        victim.kill()
        time.sleep(0.2)
        victim.start()
        balancer.targets[place] = victim.port
    stop.set()
    end = time.monotonic()
    for thread in threads:
        thread.join(2 * PATIENCE_S)
    lost = pushed - set(delivered)
    assert len(pushed) > 100 and not lost, f"{len(lost)} of {len(pushed)} are lost"
    assert not revived and not strange, (revived[:3], strange[:3])
    assert all(len(ids) == 1 for ids in delivered.values())


# Redis fails over, and its slots move, under daemons with parked polls


def pushed(client, topic, seconds=20):
    """The id of a job whose push was acknowledged, as soon as one is."""
    answers = []

    def push():
        answers.append(client.push(topic, body=topic))
        return answers[-1].status == 201
    assert eventually(push, seconds, every=0.1), answers[-1]
    assert {answer.status for answer in answers} <= {201, 503}
    return answers[-1].json()["id"]


def test_a_failover_by_sentinels_resumes_the_polls_of_both_daemons(laterd):
    with Sentinels() as trio:
        pair = [laterd(config(trio.url)) for _ in range(2)]
        polls = [Poll(server.port, f"t{n}") for n, server in enumerate(pair)]
        old = trio.master()
        replicated(old, next(server for server in trio.servers if server is not old))
        old.kill()
        with Client(pair[0].port) as client:
            for n in reversed(range(2)):  # each at the other daemon, first
                job_id = pushed(client, f"t{n}")
                assert polls[n].jobs()[0]["body"] == f"t{n}", job_id
        assert trio.master() is not old


def test_a_master_that_was_only_hung_gets_no_writes_after_its_failover(laterd):
    """It wakes up and believes for a while that it is still the master."""
    with Sentinels() as trio:
        server = laterd(config(trio.url))
        with Client(server.port) as client:
            pushed(client, "t")
            old = trio.master()
            old.freeze()
            wait_until(lambda: trio.master() is not old, 20)
            kept = [pushed(client, "t") for _ in range(20)]
            old.thaw()
            kept += [pushed(client, "t") for _ in range(20)]
            found = set()
            wait_until(lambda: found.update(job["id"] for job in client.reserve("t", most=100)) or set(kept) <= found)


def test_a_cluster_that_replaces_a_master_resumes_the_polls_of_both_daemons(laterd):
    with Cluster() as six, six.hasty():
        pair = [laterd(config(six.url, timeout="2s")) for _ in range(2)]
        polls = [Poll(server.port, f"t{n}") for n, server in enumerate(pair)]
        time.sleep(0.5)
        six.servers[0].kill()
        with Client(pair[0].port) as client, Client(pair[1].port) as other:
            assert eventually(lambda: other.get("/readyz").status == 200, 20)
            for n in reversed(range(2)):
                # ids of all partitions: whichever the job lands in, somebody hears of it
                for number in range(32):
                    answer = client.push(f"t{n}", id=f"{n}-{number}", body="x")
                    assert answer.status in (201, 503), answer
                assert polls[n].job()["topic"] == f"t{n}"
