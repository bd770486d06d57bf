"""Load on a queue in Redis: two daemons, connections of both protocols that go on whatever happens,
and an oracle. "Not now" (503, code 1, OUT_OF_MEMORY) is counted and is no fault: nobody knows what
became of the request. An answer that is anything else ends the part, and so does none in time.
"""

import os
import random
import shutil
import tempfile
import threading
import time
from types import SimpleNamespace

from beanstalk import Connection, Gone
from beanstalk_worker import BeanstalkWorker
from crash import GONE, TOPICS, Worker, drain
from oracle import FAULTS as FAULTS_OF_ALL, Oracle
from patience import PATIENCE_S
from process import DidNotStart, Laterd
from redis import free_port
from wire import Client

FAULTS = (*FAULTS_OF_ALL, "short")
READY_S = 20
GONE_PART = 8  # of a reservation: so much may be over when the one who gets it asks
CLOCKS_S = 0.02  # a reservation's beginning, as a daemon knows it, and when it was asked
AGAIN_S = 0.02  # after "not now", and while nobody listens


class Queue(Oracle):
    """The oracle, and what else is counted. One more fault:

        short     handed out with a reservation of which too much was over when it was asked for
    """

    def __init__(self, seed):
        super().__init__(seed)
        self.faults = {name: [] for name in FAULTS}
        self.lock = threading.RLock()
        self.not_now = 0
        self.slowest_answer_s = 0.0

    def answered(self, asked_at):
        with self.lock:
            self.slowest_answer_s = max(self.slowest_answer_s, time.monotonic() - asked_at)

    def refused(self):
        with self.lock:
            self.not_now += 1
        time.sleep(AGAIN_S)

    def reserved(self, job, asked_at):
        """As /v1 shows it: it may have been reserved before it was asked for, and is its holder's until
        the deadline that it says."""
        held_s = job["deadline_ms"] / 1000 - time.time() + time.monotonic() - asked_at
        nonce = self.delivered(job["body"], asked_at, held_s)
        ttr = job["ttr_ms"] / 1000
        if nonce and held_s < ttr - ttr / GONE_PART - CLOCKS_S:
            with self.lock:
                self.faults["short"].append(nonce)
        return nonce

    def delivered(self, body, asked_at, ttr, draining=False):
        with self.lock:
            if draining or asked_at + ttr > time.monotonic():
                return super().delivered(body, asked_at, ttr, draining)
            # The answer took longer than the reservation lasted: that another one has the job by
            # now is no fault. What is true of any delivery still is looked at.
            held, self.held = self.held, {}
            nonce = super().delivered(body, asked_at, ttr)
            self.held = held
            return nonce


class Supervised(Laterd):
    """Is started again, as a supervisor does it, if Redis did not answer within the five seconds that a start waits
    for it: on a busy machine, servers do not run for seconds."""

    def start(self, seconds=PATIENCE_S, wait=True):
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return super().start(seconds, wait)
            except DidNotStart as why:
                if "it does not answer" not in str(why) or time.monotonic() > end:
                    raise


class TimedClient(Client):
    """Tells the oracle how long each answer took."""

    def __init__(self, port, oracle):
        super().__init__(port, seconds=PATIENCE_S)
        self.oracle, self.asked = oracle, None

    def request(self, *words, **fields):
        asked_at, self.asked = time.monotonic(), f"{words} {fields}"[:200]
        answer = super().request(*words, **fields)
        self.oracle.answered(asked_at)
        return answer


class TimedConnection(Connection):
    """The same of beanstalkd's protocol."""

    def __init__(self, port, oracle):
        super().__init__(port, seconds=PATIENCE_S)
        self.oracle, self.port, self.asked = oracle, port, None

    def ask(self, *words):
        self.asked = str(words)[:200]
        return super().ask(*words)

    def answer(self):
        asked_at = time.monotonic()
        answer = super().answer()
        self.oracle.answered(asked_at)
        return answer


def late(client):
    return f"{time.strftime('%T', time.gmtime())}Z port {client.port} no answer within {PATIENCE_S} s to {client.asked}"


def pause(worker):
    """Between two acts, for as long as it was told to on average."""
    if worker.pause_s:
        time.sleep(worker.random.uniform(0, 2 * worker.pause_s))


class HttpWorker(Worker):
    """Works until it is told to stop, whatever happens to its daemon."""

    def __init__(self, daemon, oracle, seed, pause_s=0):
        super().__init__(daemon.port, oracle, seed)
        self.client = TimedClient(daemon.port, oracle)
        self.pause_s, self.stopping = pause_s, False

    def run(self):
        acts = [(self.push, 30), (self.push_batch, 6), (self.push_old_dialect, 8), (self.take, 34),
                (self.delete, 8), (self.move, 6), (self.kick, 2)]
        verbs = [act for act, weight in acts for _ in range(weight)]
        while not self.stopping and not self.failure:
            try:
                self.random.choice(verbs)()
                pause(self)
            except TimeoutError:
                self.failure = late(self.client)
            except GONE:
                self.client.close()
                time.sleep(AGAIN_S)
            except Exception as error:  # noqa: BLE001: an answer nobody expects is a finding
                self.failure = repr(error)
        self.client.close()

    def pushed(self, nonce, status, job):
        if status == 503:
            self.oracle.refused()
            return
        assert status == 201, (status, job)
        self.oracle.pushed(nonce, job["id"])

    def push(self):
        nonce, fields = self.new_job()
        answer = self.client.push(self.random.choice(TOPICS), **fields)
        self.pushed(nonce, answer.status, answer.json())

    def push_batch(self):
        batch = [self.new_job() for _ in range(self.random.randrange(1, 20))]
        results = self.client.push_many(self.random.choice(TOPICS), [fields for _, fields in batch])
        for (nonce, _), result in zip(batch, results):
            self.pushed(nonce, result["status"], result.get("job"))

    def push_old_dialect(self):
        delay = self.random.choice([1, 1, 2, 5000])
        # Seconds from when the server read it: by no clock of this machine before now + delay.
        nonce, body = self.oracle.attempt(time.time() + delay, self.random.randrange(500))
        job_id = f"old-{nonce}"
        code, _, _ = self.client.call("/push", topic=self.random.choice(TOPICS), id=job_id,
                                      delay=delay, ttr=60, body=body)
        if code:
            self.oracle.refused()
        else:
            self.oracle.pushed(nonce, job_id)

    def take(self):
        asked_at = time.monotonic()
        wanted = {"topics": list(TOPICS), "wait": self.random.choice([0, 20]),
                  "max": self.random.choice([1, 1, 5])}
        answer = self.client.post("/v1/reserve", wanted)
        assert answer.status in (200, 204, 503), answer
        if answer.status == 503:
            self.oracle.refused()
        if answer.status != 200:
            return
        # All are noted before the first is dealt with, which takes time.
        jobs = [(self.oracle.reserved(job, asked_at), job) for job in answer.json()["jobs"]]
        for nonce, job in jobs:
            if nonce:
                self.deal_with(nonce, job)


class TubeWorker(BeanstalkWorker):
    """The same, as a client of beanstalkd."""

    def __init__(self, daemon, oracle, seed, pause_s=0):
        super().__init__(daemon.beanstalk_port, oracle, seed, TOPICS, 60)
        self.pause_s, self.stopping = pause_s, False

    def run(self):
        while not self.stopping and not self.failure:
            try:
                with TimedConnection(self.port, self.oracle) as self.connection:
                    for tube in self.tubes:
                        self.connection.ask(f"watch {tube}")
                    while not self.stopping:
                        self.random.choice([self.put, self.put_many] + [self.take] * 5)()
                        pause(self)
            except TimeoutError:
                self.failure = late(self.connection)
            except (Gone, OSError):
                time.sleep(AGAIN_S)
            except Exception as error:  # noqa: BLE001: an answer nobody expects is a finding
                self.failure = repr(error)

    def inserted(self, nonce, answer):
        if answer.word == "OUT_OF_MEMORY":
            self.oracle.refused()
        else:
            super().inserted(nonce, answer)

    def take(self):
        asked_at = time.monotonic()
        answer = self.connection.ask("reserve-with-timeout 0")
        if answer.word == "OUT_OF_MEMORY":
            self.oracle.refused()
        if answer.word != "RESERVED":
            assert answer.word in ("TIMED_OUT", "DEADLINE_SOON", "OUT_OF_MEMORY"), answer
            return
        looked_at = time.monotonic()
        stats = self.connection.stats_job(answer.number)  # None: deleted meanwhile, or not now
        left_s = int(stats["time-left"]) if stats and stats["state"] == "reserved" else 0
        nonce = self.oracle.delivered(answer.data.decode(), asked_at, looked_at + left_s - asked_at)
        if nonce is not None:
            self.deal_with(nonce, answer.number)

    def ask(self, line, *words):
        answer = self.connection.ask(line)
        if answer.text == "OUT_OF_MEMORY":
            self.oracle.refused()
            return False
        assert answer.text in (*words, "NOT_FOUND"), answer
        return answer.text in words


class Part:
    """Two daemons on one queue, the connections that work through them, and an oracle. `pause_s`: how long each
    connection rests after each act, on average."""

    bears = ()  # faults that do not end the part
    cut_off = 0.5  # of the failovers, after the replica was cut off

    def __init__(self, url, rng, threads, pause_s=0, **settings):
        self.rng, self.oracle, self.failures = rng, Queue(rng.random()), []
        self.slowest_s = 0.0  # from when Redis was back until both daemons were ready
        self.folder = tempfile.mkdtemp(prefix="laterd-crash-")
        config = {"engine": {"engine": "redis"}, "redis": {"url": url, "partitions": 16, **settings}}
        # Ports of their own, so that clients find a daemon again when it is started again.
        self.daemons = [Supervised(os.path.join(self.folder, f"daemon{i}"), config,
                                   listeners=(f"127.0.0.1:{free_port()}",),
                                   beanstalk=[f"127.0.0.1:{free_port()}"]) for i in range(2)]
        for daemon in self.daemons:
            daemon.start()
        self.workers = [(TubeWorker if i % 3 == 2 else HttpWorker)(
            self.daemons[i % 2], self.oracle, rng.random(), pause_s) for i in range(threads)]
        for worker in self.workers:
            worker.start()

    def load(self, least_s, most_s):
        time.sleep(self.rng.uniform(least_s, most_s))

    def wrong(self):
        found = any(self.oracle.faults[name] for name in FAULTS if name not in self.bears)
        return found or any(worker.failure for worker in self.workers)

    def wait_ready(self, since):
        for daemon in self.daemons:
            with Client(daemon.port) as client:
                while client.get("/readyz").status != 200:
                    if time.monotonic() - since > READY_S:
                        raise DidNotStart("not ready:\n" + "\n".join(daemon.lines[-5:]))
                    time.sleep(0.005)
        self.slowest_s = max(self.slowest_s, time.monotonic() - since)

    def end(self):
        """Stops the load, takes everything, counts."""
        for worker in self.workers:
            worker.stopping = True
        for worker in self.workers:
            worker.join(2 * PATIENCE_S)
        self.failures += [worker.failure for worker in self.workers if worker.failure]
        self.oracle.server_died()  # from here on, reservations are taken away
        drain(SimpleNamespace(start=lambda **_: None, port=self.daemons[0].port), self.oracle)
        self.oracle.count_lost()
        return self.oracle.counts()

    def close(self):
        for worker in self.workers:
            worker.stopping = True
        for daemon in self.daemons:
            daemon.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
