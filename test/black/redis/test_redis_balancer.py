"""Two daemons behind one balancer, for clients that never stay on one connection, in each protocol
and dialect: a job that is pushed through one daemon is taken and ended through whichever comes
next, and a daemon that dies, or is told to stop, costs its clients a second try and nothing else.
"""

import itertools
import threading
import time
import urllib.parse

import pytest
from beanstalk import Connection, Gone
from patience import PATIENCE_S, TooLate, soon
from ports import free_port
from redis import REDIS_SERVER, Redis
from relay import Relay
from wire import REMEMBERED_S, STALL_S, Client, Closed, eventually

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")

TTR_S = 2
SLOW_S = 2  # of an answer
PAUSE_S = 0.01  # between two jobs of a client
LOST = (Closed, Gone, OSError)  # the connection broke: nobody knows


def in_time(since, good, answer):
    """Fails if it is no good answer; it need not be one when the ttr is over since the job was asked for."""
    if not good:
        soon(time.monotonic() - since, TTR_S)
    assert good, answer


class NotNow(Exception):
    """The daemon says that it is about to stop, or that it cannot tell: ask another one."""


class Front:
    """Two daemons, and a balancer before the ports of each protocol."""

    def __init__(self, daemons):
        self.daemons = daemons
        self.relays = [Relay(*ports) for ports in zip(*map(self.ports, daemons))]
        self.http, self.java, self.beanstalk = [relay.port for relay in self.relays]

    @staticmethod
    def ports(daemon):
        return [*daemon.ports, daemon.beanstalk_port]

    def restart(self, daemon, end):
        """`end` ends it. It comes back on other ports, which the balancer is told."""
        old = self.ports(daemon)
        end()
        nobody = [free_port() for _ in old]  # the system may soon give the old ones to other listeners
        self.replace(old, nobody)
        time.sleep(0.2)  # the other one is alone for a while
        daemon.start()
        self.replace(nobody, self.ports(daemon))

    def replace(self, old, new):
        for relay, before, after in zip(self.relays, old, new):
            relay.targets[relay.targets.index(before)] = after

    def close(self):
        for relay in self.relays:
            relay.close()


@pytest.fixture(scope="module")
def redis():
    with Redis() as server, server.watched():
        yield server


@pytest.fixture
def front(laterd, redis, request):
    keys = {"engine": {"engine": "redis"}, "defaults": {"block_timeout": "50ms"},
            "redis": {"url": redis.url, "prefix": request.node.name.replace("[", "-")}}
    one = Front([laterd(keys, listeners=("127.0.0.1:0", "127.0.0.1:0,delayqueue-java"),
                        beanstalk=["127.0.0.1:0"]) for _ in range(2)])
    yield one
    one.close()


class V1:
    """Pushes, takes and ends jobs; each request on a connection of its own. An answer that is no
    success fails the test; `again`: an earlier try may have been done."""

    def __init__(self, front, topic):
        self.port, self.topic, self.asked = front.http, topic, 0

    def request(self, *words, **fields):
        with Client(self.port) as client:
            answer = client.request(*words, **fields)
        if answer.status == 503:
            raise NotNow(answer)
        return answer

    def push(self, number, again):
        answer = self.request("POST", f"/v1/topics/{self.topic}/jobs", id=f"{self.topic}-{number}",
                              body=number, ttr=f"{TTR_S}s")
        assert answer.status in ((201, 409) if again else (201,)), answer

    def take(self):
        """(number, what it is ended with), or None."""
        self.asked = time.monotonic()
        answer = self.request("POST", "/v1/reserve", topics=[self.topic], wait="100ms")
        assert answer.status in (200, 204), answer
        if answer.status == 204:
            return None
        [job] = answer.json()["jobs"]
        return job["body"], job

    def finish(self, job, again):
        answer = self.request("POST", f"/v1/jobs/{job['id']}/finish", lease=job["lease"])
        in_time(self.asked, answer.status in ((200, 204, 404, 409) if again else (200, 204)), answer)


class DelayQueue(V1):
    """The dialect of that name. Its answers have a code."""

    def call(self, path, **fields):
        answer = self.request("POST", path, **fields).json()
        if answer["code"]:
            raise NotNow(answer)
        return answer["data"]

    def push(self, number, again):
        self.call("/push", topic=self.topic, id=f"{self.topic}-{number}", delay=1, ttr=TTR_S,
                  body=str(number))

    def take(self):
        job = self.call("/pop", topic=self.topic)
        return job and (int(job["body"]), job)

    def finish(self, job, again):
        self.call("/finish", id=job["id"])


class DelayqueueJava(V1):
    """The dialect of that name. A client gives no ids: a push that is repeated is another job."""

    def __init__(self, front, topic):
        super().__init__(front, topic)
        self.port = front.java

    def call(self, method, path, **fields):
        answer = self.request(method, f"{path}?{urllib.parse.urlencode(fields)}").json()
        if answer["code"]:
            raise NotNow(answer)
        return answer.get("data")  # not there: no job

    def push(self, number, again):
        self.call("POST", "/push", topic=self.topic, delayTime=int(time.time() * 1000),
                  ttrTime=TTR_S, message=number)

    def take(self):
        self.asked = time.monotonic()
        job = self.call("GET", f"/pop/{self.topic}")
        return job and (int(job["message"]), job)

    def finish(self, job, again):
        try:
            self.call("POST", "/finish", id=job["id"])
        except NotNow:
            soon(time.monotonic() - self.asked, TTR_S)
            raise


class Beanstalk:
    """beanstalkd's protocol: a reservation is its connection's, so one sees a job to its end."""

    def __init__(self, front, topic):
        self.port, self.topic, self.asked = front.beanstalk, topic, 0
        self.connection = None

    def push(self, number, again):
        with Connection(self.port) as connection:
            assert connection.ask(f"use {self.topic}") == f"USING {self.topic}"
            body = str(number).encode()
            answer = connection.ask(f"put 0 0 {TTR_S} {len(body)}", body)
            if answer.word in ("OUT_OF_MEMORY", "DRAINING"):
                raise NotNow(answer)
            assert answer.word == "INSERTED", answer

    def take(self):
        self.close()
        self.connection = Connection(self.port)
        assert self.connection.ask(f"watch {self.topic}").word == "WATCHING"
        self.asked = time.monotonic()
        job = self.connection.reserve()
        return job and (int(job[1]), job[0])

    def finish(self, job, again):
        if again:
            return  # its connection is gone, and so is the reservation: the job will come again
        answer = self.connection.ask(f"delete {job}")
        in_time(self.asked, answer.word in ("DELETED", "OUT_OF_MEMORY"), answer)

    def close(self):
        if self.connection:
            self.connection.close()


class Worker(threading.Thread):
    """Leads one job after another through its life until it is told to stop; then all are there."""

    def __init__(self, protocol, front, name):
        super().__init__(daemon=True)
        self.client = protocol(front, name)
        self.pushed, self.taken, self.failures, self.failure = [], set(), [], None
        self.stopping = threading.Event()
        self.start()

    def run(self):
        try:
            for number in itertools.count():
                if self.stopping.wait(PAUSE_S):
                    break
                self.insist(self.client.push, number)
                self.pushed.append(number)
                self.take()
            end = time.monotonic() + PATIENCE_S  # what a dead daemon's connections held comes back
            while set(self.pushed) - self.taken and time.monotonic() < end:
                self.take()
                time.sleep(PAUSE_S)
        except Exception as failure:  # noqa: BLE001: told by the test
            self.failure = failure

    def take(self):
        job = self.insist(lambda again: self.client.take())
        if job:
            self.taken.add(job[0])
            self.insist(self.client.finish, job[1])

    def insist(self, act, *words):
        """Tries again at the next daemon, as a client behind a balancer does."""
        failures = []
        for tried in itertools.count(1):
            begun = time.monotonic()
            try:
                return act(*words, tried > 1)
            except (*LOST, NotNow) as failure:
                failures.append((begun, time.monotonic() - begun, repr(failure)))
                if len(failures) > len(self.failures):
                    self.failures = failures
                if tried == 5:
                    raise


@pytest.fixture
def workers(front):
    protocols = (V1, DelayQueue, DelayqueueJava, Beanstalk)
    return [Worker(protocol, front, protocol.__name__.lower()) for protocol in protocols]


def excuse(failures, redis):
    """One that is slow may have been refused because Redis was; and all are, after Redis was late, for as long as a
    daemon is without its connection (judge_again() in harness/wire.py)."""
    for begun, took, said in failures:
        soon(took, SLOW_S)
        late = redis.watch.longest_since(begun - REMEMBERED_S)
        if late >= STALL_S:
            raise TooLate(f"Redis was late by {late:.3f} s: {said}")


def judge(workers, redis, most_tries):
    for worker in workers:
        worker.stopping.set()
    for worker in workers:
        worker.join(2 * PATIENCE_S)
        name = type(worker.client).__name__
        if isinstance(worker.failure, TooLate):
            raise worker.failure
        if isinstance(worker.failure, NotNow):
            excuse(worker.failures, redis)
        assert not worker.is_alive() and worker.failure is None, (name, worker.failure)
        lost = set(worker.pushed) - worker.taken
        assert len(worker.pushed) > 20 and not lost, (name, len(worker.pushed), sorted(lost)[:5])
        if len(worker.failures) >= most_tries:
            excuse(worker.failures, redis)
        assert len(worker.failures) < most_tries, (name, worker.failures)


def go_on(workers):
    """Until each has done some more."""
    before = [len(worker.pushed) for worker in workers]
    assert eventually(lambda: all(len(worker.pushed) > count + 10 or worker.failure
                                  for worker, count in zip(workers, before)), 20)


def test_p2_clients_of_each_protocol_need_no_home(front, workers, redis):
    go_on(workers)
    go_on(workers)
    judge(workers, redis, 1)
    # Of each protocol 22 were pushed and taken, by connections of their own.
    assert all(relay.taken >= 44 for relay in front.relays), [relay.taken for relay in front.relays]


def test_p2_a_daemon_killed_behind_the_balancer_costs_a_second_try(front, workers, redis):
    for daemon in front.daemons:
        go_on(workers)
        front.restart(daemon, daemon.kill)
    go_on(workers)
    judge(workers, redis, 2)


def test_p2_daemons_restarted_one_after_another_cost_a_second_try(front, workers, redis):
    for daemon in front.daemons:
        go_on(workers)

        def stop(daemon=daemon):
            assert daemon.stop() == 0
        front.restart(daemon, stop)
    go_on(workers)
    judge(workers, redis, 2)
