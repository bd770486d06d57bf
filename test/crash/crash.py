#!/usr/bin/python3
"""kill -9 at random moments under mixed load, in one directory, then count what is missing.

Each round starts laterd, lets many connections push, take, finish, release, bury, delete and move
jobs for a random while, and kills it; now and then already while it recovers. Every third connection
is a client of beanstalkd, on the same jobs. Segments are tiny, so rotation, checkpoint and clean-up
happen in each round. At the end everything is drained.

In every second round (`--far`) the store has a horizon of a second (decision 40): jobs leave the log for
slices, come near, are looked up, deleted and moved there and back; buried ones leave for slices of their own, and are
kicked, deleted and looked up there (decision 94). The rounds between open the same store without one.

usage: crash.py [--rounds N] [--seed N] [--threads N] [--far half|all|none] [--keep]
"""

import argparse
import json
import os
import random
import shutil
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "harness"))
sys.path.insert(0, HERE)

from beanstalk_worker import BeanstalkWorker  # noqa: E402
from oracle import FAULTS, Oracle, control, tell_what_is_wrong  # noqa: E402
from patience import PATIENCE_S  # noqa: E402
from process import ROOT, DidNotStart, Laterd  # noqa: E402
from wire import Client, Closed, eventually  # noqa: E402

TOPICS = ("a", "b", "c")
CONFIG = {"store": {"segment_bytes": "256K", "recent_bytes": "256K", "checkpoint_bytes": "256K", "horizon": "0",
                    "buried_in_memory": 0}}
HORIZON_S = 1
FAR_ROUNDS = {"half": 2, "all": 1, "none": 0}  # every how manieth
DELAYS_S = {False: [0, 0, 0, 0.05, 0.3, 3600, 90000],
            True: [0, 0, 0.3, 1.2, 1.5, 2, 3, 5, 3600, 90000]}
MOVES_S = {False: [0, 0.1, 7200], True: [0, 0.1, 1.1, 2, 4, 7200]}
GONE = (Closed, OSError, ConnectionError)


class Worker(threading.Thread):
    """One connection and what it does until the server is no more."""

    def __init__(self, port, oracle, seed, far=False):
        super().__init__(daemon=True)
        self.client = Client(port, seconds=20)
        self.oracle = oracle
        self.far = far
        self.random = random.Random(seed)
        self.failure = None

    def run(self):
        acts = [(self.push, 30), (self.push_batch, 6), (self.push_old_dialect, 8), (self.take, 34),
                (self.delete, 8), (self.move, 6), (self.kick, 1 if self.far else 2), (self.look, 4 if self.far else 0)]
        verbs = [act for act, weight in acts for _ in range(weight)]
        try:
            while True:
                self.random.choice(verbs)()
        except GONE:
            pass
        except Exception as error:  # noqa: BLE001: an answer nobody expects is a finding
            self.failure = repr(error)
        finally:
            self.client.close()

    def new_job(self):
        """(nonce, the push's fields)"""
        buried = self.far and self.random.random() < 0.2
        delay = 0 if buried else self.random.choice(DELAYS_S[self.far])
        due_ms = int(time.time() * 1000 + delay * 1000)
        size = int(self.random.paretovariate(0.7) * 20) % 30_000
        nonce, body = self.oracle.attempt(due_ms / 1000, size)
        fields = {"body": json.loads(body), "due": due_ms, "ttr": self.random.choice([300, 60_000]),
                  "priority": self.random.randrange(4)}
        if buried:
            del fields["due"]
            fields["state"] = "buried"
        if self.random.random() < 0.5:
            fields["id"] = f"job-{nonce}"
        if self.random.random() < 0.3:
            fields["retry"] = ["0s", "100ms", "1s"]
        if self.random.random() < 0.2:
            fields["durability"] = "os"  # answered before the disk has it: that is not promised
        return nonce, fields

    def push(self):
        nonce, fields = self.new_job()
        answer = self.client.push(self.random.choice(TOPICS), **fields)
        assert answer.status == 201, answer
        self.oracle.pushed(nonce, answer.json()["id"], kept="durability" not in fields)

    def push_batch(self):
        batch = [self.new_job() for _ in range(self.random.randrange(1, 20))]
        results = self.client.push_many(self.random.choice(TOPICS), [fields for _, fields in batch])
        for (nonce, fields), result in zip(batch, results):
            assert result["status"] == 201, result
            self.oracle.pushed(nonce, result["job"]["id"], kept="durability" not in fields)

    def push_old_dialect(self):
        delay = self.random.choice([1, 1, 2, 5000])
        # Seconds from when the server read it: not before now + delay, by any clock of this machine.
        nonce, body = self.oracle.attempt(time.time() + delay, self.random.randrange(500))
        job_id = f"old-{nonce}"
        code, message, _ = self.client.call("/push", topic=self.random.choice(TOPICS), id=job_id,
                                            delay=delay, ttr=60, body=body)
        assert code == 0, message
        self.oracle.pushed(nonce, job_id)

    def take(self):
        asked_at = time.monotonic()
        for job in self.client.reserve(*TOPICS, wait=self.random.choice([0, 20]),
                                       most=self.random.choice([1, 1, 5])):
            nonce = self.oracle.delivered(job["body"], asked_at, job["ttr_ms"] / 1000)
            if nonce:
                self.deal_with(nonce, job)

    def deal_with(self, nonce, job):
        dice = self.random.random()
        if dice < 0.6:
            self.oracle.trying_to_end(nonce)
            answer = self.client.job(job["id"], "finish", lease=job["lease"])
            if answer.status in (200, 204):
                self.oracle.ended(nonce)
        elif dice < 0.8:
            verb = self.random.choice(["release", "bury" if self.far else "release", "bury", "touch"])
            if verb != "touch":
                self.oracle.let_go(nonce)
            fields = {"delay": "50ms"} if verb == "release" and dice < 0.7 else {}
            self.client.job(job["id"], verb, lease=job["lease"], **fields)
        # Otherwise the holder forgets it: its ttr, or the next crash, gives it back.

    def some_live(self):
        """Of the newest, which are in memory, or of all: most of those are far."""
        return self.oracle.some_live(among_all=self.far and self.random.random() < 0.7)

    def delete(self):
        found = self.some_live()
        if found:
            nonce, job_id = found
            self.oracle.trying_to_end(nonce)
            answer = self.client.job(job_id, method="DELETE")
            if answer.status in (200, 204):
                self.oracle.ended(nonce)

    def move(self):
        found = self.some_live()
        if found:
            nonce, job_id = found
            due_ms = int((time.time() + self.random.choice(MOVES_S[self.far])) * 1000)
            self.oracle.moved(nonce, due_ms / 1000)
            self.client.job(job_id, method="PATCH", due=due_ms)

    def look(self):
        """A far job is there as long as nobody has begun to end it."""
        found = self.some_live()
        if found and self.oracle.is_kept(found[0]):
            answer = self.client.job(found[1], method="GET")
            assert answer.status == 200 or self.oracle.end_tried(found[0]), (found, answer)

    def kick(self):
        self.client.post(f"/v1/topics/{self.random.choice(TOPICS)}/kick", {"max": 20})


def metric(server, name):
    with Client(server.port, seconds=30) as client:
        for line in client.get("/metrics").body.decode().splitlines():
            if line.startswith(f"laterd_{name} "):
                return int(line.split()[1])
    raise AssertionError(f"no metric {name}")


def one_round(server, oracle, rng, threads, far, seen):
    """Start, load, kill. Returns what workers found strange."""
    server.config["store"]["horizon"] = f"{HORIZON_S}s" if far else "0"
    if rng.random() < 0.1:  # killed while it recovers
        server.start(wait=False)
        time.sleep(rng.random() * 0.05)
        server.kill()
    server.start(seconds=60)
    for name, of in (("far at a start", "far_jobs"), ("buried far at a start", "far_buried_jobs")):
        seen[name] = max(seen[name], metric(server, of))
    workers = [BeanstalkWorker(server.beanstalk_port, oracle, rng.random(), TOPICS, 60)
               if number % 3 == 2 else Worker(server.port, oracle, rng.random(), far)
               for number in range(threads)]
    for worker in workers:
        worker.start()
    time.sleep(rng.uniform(0.02, 1.2 if far else 0.4))
    if far:
        try:
            seen["far"] += metric(server, "far_departed_total")
            seen["came back"] += metric(server, "far_arrived_total")
        except GONE:
            pass
    server.kill()
    for worker in workers:
        worker.join(30)
    oracle.server_died()
    return [worker.failure for worker in workers if worker.failure]


def answered(ask):
    """The answer, as soon as it is not "not now", which a queue in Redis says while that is busy."""
    answers = []
    assert eventually(lambda: answers.append(ask()) or answers[-1].status != 503, 60), answers[-1]
    return answers[-1]


def make_due(client, oracle):
    """All that is delayed is ready soon; what is refused just now is tried again by the next call."""
    for topic in TOPICS:
        seen = set()
        while True:
            jobs = answered(lambda topic=topic: client.get(f"/v1/topics/{topic}/jobs?state=delayed&limit=1000"))
            jobs = jobs.json()["jobs"] if jobs.status == 200 else []
            jobs = [job for job in jobs if job["id"] not in seen]
            for job in jobs:
                oracle.may_come_now(job["id"])
                if client.job(job["id"], "run").status != 503:
                    seen.add(job["id"])
            if not jobs:
                break


def drain(server, oracle):
    """Makes every job ready and takes it."""
    server.start(seconds=60)
    with Client(server.port, seconds=30) as client:
        make_due(client, oracle)
        take_all(client, oracle)


def take_all(client, oracle):
    """Until the server has nothing more, by its own count, for some seconds; or says that it has, and yet gives
    nothing for as long as one has to wait on a busy machine. What it lost without a trace it does not count."""
    quiet_since, quiet_rounds, counted, buried = time.monotonic(), 0, 0, True
    while quiet_rounds < 3 or time.monotonic() - quiet_since < (PATIENCE_S if counted else 2):
        for topic in TOPICS if buried else ():
            client.post(f"/v1/topics/{topic}/kick", {"max": 1000})
        asked_at = time.monotonic()
        wanted = {"topics": TOPICS, "wait": 2000 if counted else 500, "max": 500}
        answer = answered(lambda wanted=wanted: client.post("/v1/reserve", wanted))
        assert answer.status in (200, 204), answer
        jobs = answer.json()["jobs"] if answer.status == 200 else []
        ours = [job for job in jobs if oracle.delivered(job["body"], asked_at, 0, draining=True)]
        if ours:  # in one request: most of those with a short ttr would come again before their turn
            client.post("/v1/finish", {"jobs": [{"id": job["id"], "lease": job["lease"]} for job in ours]})
        stats = answered(lambda: client.get("/v1/stats")).json()["jobs"]
        counted, buried = sum(stats.values()), stats["buried"]
        if stats["reserved"]:  # somebody's from before the last crash, until its ttr runs out
            for topic in TOPICS:
                held = client.get(f"/v1/topics/{topic}/jobs?state=reserved&limit=1000")
                for job in held.json()["jobs"] if held.status == 200 else []:
                    client.job(job["id"], "release")
        if stats["delayed"]:
            make_due(client, oracle)
        quiet_rounds += 1
        if jobs and quiet_rounds > 3 and time.monotonic() - quiet_since > 2:
            print(f"crash: {len(jobs)} jobs came after {time.monotonic() - quiet_since:.1f} s in which none did",
                  file=sys.stderr)
        if jobs or stats["reserved"]:  # all of this may have taken longer than the quiet lasts
            quiet_since, quiet_rounds = time.monotonic(), 0
    if counted:
        print(f"crash: nothing came for {PATIENCE_S} s, and yet there are {stats}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--far", choices=FAR_ROUNDS, default="half", help="rounds with a horizon")
    parser.add_argument("--keep", action="store_true", help="keep the directory, whatever came out")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "big")
    control()
    folder = os.path.join(ROOT, "build", f"crash-{seed}")
    shutil.rmtree(folder, ignore_errors=True)
    rng, oracle, failures = random.Random(seed), Oracle(seed), []
    every, seen = FAR_ROUNDS[options.far], {"far": 0, "came back": 0, "far at a start": 0, "buried far at a start": 0}
    server = Laterd(folder, CONFIG, listeners=("127.0.0.1:0",), beanstalk=["127.0.0.1:0"])
    begin = time.monotonic()
    print(f"crash: seed {seed}, {options.rounds} rounds, {options.threads} connections", flush=True)
    rounds = 0
    try:
        for rounds in range(1, options.rounds + 1):
            far = every > 0 and rounds % every == 0
            failures += one_round(server, oracle, rng, options.threads, far, seen)
            if rounds % 50 == 0:
                print(f"crash: {rounds} rounds, {seen}, {oracle.counts()}", flush=True)
            if failures or any(oracle.faults.values()):
                break
        drain(server, oracle)
        oracle.count_lost()
        if every and rounds >= 20 and not all(seen.values()):
            failures.append(f"no job was far, or none came back: {seen}")
    except DidNotStart as why:
        failures.append(f"laterd did not start again: {why}")
    finally:
        server.kill()
    counts = oracle.counts()
    bad = bool(failures) or any(counts[name] for name in FAULTS)
    tell_what_is_wrong("crash", failures, oracle)
    print(f"crash: seed {seed}, {rounds} kills in {time.monotonic() - begin:.0f} s: "
          + ", ".join(f"{number} {name}" for name, number in (seen | counts).items()))
    if bad or options.keep:
        print(f"crash: the directory is kept: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
