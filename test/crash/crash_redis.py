#!/usr/bin/python3
"""kill -9 where the queue lives in Redis: of daemons, of Redis, and of a master with a replica.

Two daemons serve one queue; eight connections, every third a client of beanstalkd, work through
both without a pause and connect again when theirs is gone. Three parts, each with its oracle and a
queue of its own, drained at the end:

    daemons    one of the two (now and then both) is killed and started again; Redis stays. A lease
               outlives the daemon that gave it, so a job that comes twice is a fault here too.
    redis      Redis, which syncs each write (appendfsync always), is killed and started again.
    failovers  the master is killed, in half of the rounds after its replica was cut off for a
               while; sentinels make the replica the master. wait_replicas = 1. What is lost is
               counted, and told as it is: Redis promises nothing here. Three failovers with
               wait_replicas = 0 come before, as the control: they should lose.

"Not now" (503, code 1, OUT_OF_MEMORY) is counted and is no fault: nobody knows what became of the
request. The negative controls come first: the oracle is shown each fault, and a Redis that keeps
nothing on disk is killed, after which it must find jobs lost.

usage: crash_redis.py [--daemons N] [--redis N] [--failovers N] [--seed N] [--threads N]
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "harness"))
sys.path.insert(0, HERE)

from beanstalk import Connection, Gone  # noqa: E402
from beanstalk_worker import BeanstalkWorker  # noqa: E402
from crash import GONE, TOPICS, Worker, drain  # noqa: E402
from oracle import FAULTS, Oracle, control  # noqa: E402
from process import DidNotStart, Laterd  # noqa: E402
from redis import Redis, Sentinels, free_port  # noqa: E402
from wire import Client  # noqa: E402

READY_S = 20
AGAIN_S = 0.02  # after "not now", and while nobody listens
PATIENCE_S = 10  # every request is answered long before


class Queue(Oracle):
    """The oracle, and what else is counted."""

    def __init__(self, seed):
        super().__init__(seed)
        self.lock = threading.RLock()
        self.not_now = 0

    def refused(self):
        with self.lock:
            self.not_now += 1
        time.sleep(AGAIN_S)

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


class HttpWorker(Worker):
    """Works until it is told to stop, whatever happens to its daemon."""

    def __init__(self, daemon, oracle, seed):
        super().__init__(daemon.port, oracle, seed)
        self.client.seconds = PATIENCE_S
        self.stopping = False

    def run(self):
        acts = [(self.push, 30), (self.push_batch, 6), (self.push_old_dialect, 8), (self.take, 34),
                (self.delete, 8), (self.move, 6), (self.kick, 2)]
        verbs = [act for act, weight in acts for _ in range(weight)]
        while not self.stopping and not self.trouble:
            try:
                self.random.choice(verbs)()
            except TimeoutError:
                self.trouble = f"no answer within {PATIENCE_S} s"
            except GONE:
                self.client.close()
                time.sleep(AGAIN_S)
            except Exception as error:  # noqa: BLE001: an answer nobody expects is a finding
                self.trouble = repr(error)
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
        jobs = [(self.oracle.delivered(job["body"], asked_at, job["ttr_ms"] / 1000), job)
                for job in answer.json()["jobs"]]
        for nonce, job in jobs:
            if nonce:
                self.deal_with(nonce, job)


class TubeWorker(BeanstalkWorker):
    """The same, as a client of beanstalkd."""

    def __init__(self, daemon, oracle, seed):
        super().__init__(daemon.beanstalk_port, oracle, seed, TOPICS, 60)
        self.stopping = False

    def run(self):
        while not self.stopping and not self.trouble:
            try:
                with Connection(self.port, seconds=PATIENCE_S) as self.connection:
                    for tube in self.tubes:
                        self.connection.ask(f"watch {tube}")
                    while not self.stopping:
                        self.random.choice([self.put, self.put_many] + [self.take] * 5)()
            except TimeoutError:
                self.trouble = f"no answer within {PATIENCE_S} s"
            except (Gone, OSError):
                time.sleep(AGAIN_S)
            except Exception as error:  # noqa: BLE001: an answer nobody expects is a finding
                self.trouble = repr(error)

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
        stats = self.connection.stats_job(answer.number)  # None: deleted meanwhile, or not now
        nonce = self.oracle.delivered(answer.data.decode(), asked_at,
                                      int(stats["ttr"]) if stats else 0)
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
    """Two daemons on one queue, the connections that work through them, and an oracle."""

    bears = ()  # faults that do not end the part
    cut_off = 0.5  # of the failovers, after the replica was cut off

    def __init__(self, url, rng, threads, **settings):
        self.rng, self.oracle, self.troubles = rng, Queue(rng.random()), []
        self.slowest_s = 0.0  # from when Redis was back until both daemons were ready
        self.folder = tempfile.mkdtemp(prefix="laterd-crash-")
        config = {"engine": {"engine": "redis"}, "redis": {"url": url, **settings}}
        # Ports of their own, so that clients find a daemon again when it is started anew.
        self.daemons = [Laterd(os.path.join(self.folder, f"daemon{i}"), config,
                               listeners=(f"127.0.0.1:{free_port()}",),
                               beanstalk=[f"127.0.0.1:{free_port()}"]) for i in range(2)]
        for daemon in self.daemons:
            daemon.start()
        self.workers = [(TubeWorker if i % 3 == 2 else HttpWorker)(
            self.daemons[i % 2], self.oracle, rng.random()) for i in range(threads)]
        for worker in self.workers:
            worker.start()

    def load(self, least_s, most_s):
        time.sleep(self.rng.uniform(least_s, most_s))

    def wrong(self):
        found = any(self.oracle.faults[name] for name in FAULTS if name not in self.bears)
        return found or any(worker.trouble for worker in self.workers)

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
        self.troubles += [worker.trouble for worker in self.workers if worker.trouble]
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


def kill_daemons(part):
    part.load(0.05, 0.5)
    victims = [part.rng.choice(part.daemons)] if part.rng.random() < 0.8 else part.daemons
    for daemon in victims:
        daemon.kill()
    part.load(0, 0.3)
    for daemon in victims:
        if part.rng.random() < 0.1:  # killed while it starts
            daemon.start(wait=False)
            part.load(0, 0.03)
            daemon.kill()
        daemon.start()


def kill_redis(part, redis):
    part.load(0.1, 0.8)
    redis.kill()
    part.load(0, 0.8)
    redis.start()
    part.wait_ready(time.monotonic())


def fail_over(part, sentinels):
    part.load(0.3, 0.8)
    master = sentinels.master()
    replica = next(server for server in sentinels.servers if server is not master)
    if part.rng.random() < part.cut_off:
        # Halted alone, it would find in its socket what the master had sent meanwhile.
        replica.freeze()
        master.call("CLIENT", "KILL", "TYPE", "replica")
        part.load(0.1, 0.4)
    master.kill()
    replica.thaw()
    until(lambda: sentinels.master() is replica and replica.info("replication")["role"] == "master",
          "the sentinels made nobody master")
    part.wait_ready(time.monotonic())
    part.load(0.2, 0.4)  # without a replica: nothing can be acknowledged
    master.extra = [f"replicaof 127.0.0.1 {replica.port}"]
    master.start()
    until(lambda: master.info("replication").get("master_link_status") == "up",
          "the old master did not become a replica")
    until(lambda: sentinels.slaves_known() == 3, "the sentinels do not know the replica")


def until(claim, otherwise, seconds=30):
    end = time.monotonic() + seconds
    while not claim():
        if time.monotonic() > end:
            raise DidNotStart(otherwise)
        time.sleep(0.02)


def run_part(name, rounds, part, one_round):
    """The counts, or None: something was wrong that no oracle has a word for."""
    begin, done = time.monotonic(), 0
    try:
        while done < rounds and not part.wrong():
            one_round()
            done += 1
            if done % 20 == 0:
                print(f"crash-redis: {name}: {done} rounds, {part.oracle.counts()}", flush=True)
        counts = part.end()
    except (DidNotStart, RuntimeError) as why:
        part.troubles.append(str(why))
        counts = part.oracle.counts()
    finally:
        part.close()
    for trouble in part.troubles[:10]:
        print(f"crash-redis: {name}: {trouble}")
    for fault in FAULTS:
        if part.oracle.faults[fault]:
            print(f"crash-redis: {name}: {fault}: {part.oracle.faults[fault][:10]}")
    slowest = f", ready again within {part.slowest_s:.2f} s" if part.slowest_s else ""
    print(f"crash-redis: {name}: {done} rounds in {time.monotonic() - begin:.0f} s{slowest}: "
          + ", ".join(f"{counts[key]} {key}" for key in counts)
          + f", {part.oracle.not_now} not now", flush=True)
    return None if part.troubles else counts


def redis_control(rng, threads):
    """A Redis that keeps nothing must be seen to lose."""
    with Redis(appendonly="no") as redis:
        part = Part(redis.url, rng, threads)
        counts = run_part("control, appendonly no", 1, part, lambda: kill_redis(part, redis))
    return counts is not None and counts["lost"] > 0


def fail_over_often(rng, threads, rounds, wait_replicas):
    """False: something that no failover explains."""
    with Sentinels(appendonly="yes") as sentinels:
        part = Part(sentinels.url, rng, threads, wait_replicas=wait_replicas)
        # One that came back after its end may be called early: the oracle has forgotten its id.
        part.bears = ("lost", "resurrected", "doubled", "early")
        part.cut_off = 0.5 if wait_replicas else 1
        counts = run_part(f"failovers, wait_replicas {wait_replicas}", rounds, part,
                          lambda: fail_over(part, sentinels))
    return counts is not None and not any(counts[name] for name in FAULTS
                                          if name not in part.bears)


def run(options, rng):
    """True: nothing is wrong."""
    good = True
    if options.daemons:
        with Redis(appendonly="yes") as redis:
            part = Part(redis.url, rng, options.threads)
            counts = run_part("daemons", options.daemons, part, lambda: kill_daemons(part))
            good &= counts is not None and not any(counts[name] for name in FAULTS)
    if options.redis:
        if not redis_control(rng, options.threads):
            print("crash-redis: the control lost nothing: what follows shows nothing")
            good = False
        with Redis(appendonly="yes", appendfsync="always") as redis:
            part = Part(redis.url, rng, options.threads)
            counts = run_part("redis", options.redis, part, lambda: kill_redis(part, redis))
            good &= counts is not None and not any(counts[name] for name in FAULTS)
    if options.failovers:
        good &= fail_over_often(rng, options.threads, 3, wait_replicas=0)
        good &= fail_over_often(rng, options.threads, options.failovers, wait_replicas=1)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--daemons", type=int, default=100, help="rounds of killing daemons")
    parser.add_argument("--redis", type=int, default=20, help="rounds of killing Redis")
    parser.add_argument("--failovers", type=int, default=10)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "big")
    control()
    print(f"crash-redis: seed {seed}, {options.daemons} + {options.redis} + {options.failovers} "
          f"rounds, {options.threads} connections", flush=True)
    good = run(options, random.Random(seed))
    print(f"crash-redis: seed {seed}: {'ok' if good else 'FAILED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
