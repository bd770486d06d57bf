#!/usr/bin/python3
"""kill -9 of MySQL and of laterd under load; at the end journal and queue are compared, row by row.

Six connections push, take, finish, release, bury, replace, move and delete jobs. In each round one of the
two is killed at a random moment and started again, or frozen for a while. At the end MySQL catches up,
and every job of the queue is compared with its row: topic, due time to the millisecond, priority, body,
whether it is buried; a row that is unfinished with no job to it is a fault, too. Each change must have one
row in the log table, which a job's own number of changes is compared with.

The oracle has its negative control: rows that are changed by hand must be found.

With --engine=redis the queue is in a Redis, which is not killed, and two laterd serve it: each round of laterd
kills one of them, so the journal goes from one to the other.

usage: crash_journal.py [--engine redis] [--mysql N] [--laterd N] [--seed N] [--keep]
"""

import argparse
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "harness"))

import deaths  # noqa: E402
from journal import CURSORS, JOBS, LOGS, REJECTED, differences  # noqa: E402
from mariadb import MariaDb  # noqa: E402
from process import DidNotStart, Laterd  # noqa: E402
from redis import Redis  # noqa: E402
from wire import Client, Closed, eventually  # noqa: E402

TOPICS = ("a", "b", "c")
CLIENTS, ROUND_S = 6, (0.2, 1.2)
GONE = (Closed, OSError, ConnectionError)
ANSWERS = (200, 204, 404, 409, 503)  # of a job that may have ended, or be in another state, by now
CATCH_UP_S = 120


class Load(threading.Thread):
    """One connection with mixed work, until it is stopped, whatever happens to its server."""

    def __init__(self, port, seed, name):
        super().__init__(daemon=True)
        self.port, self.random, self.prefix = port, random.Random(seed), name
        self.stopping, self.count, self.acked, self.failure = False, 0, 0, None

    def run(self):
        client = None
        while not self.stopping and not self.failure:
            try:
                client = client or self.connected()
                if client:
                    self.step(client)
            except GONE:
                client = None
            except AssertionError as error:
                if getattr(error.args[0], "status", None) != 503:
                    self.failure = repr(error)
                client = client.close()  # not now
            except Exception as error:  # noqa: BLE001: an answer nobody expects is a finding
                self.failure = repr(error)
            if not client:
                time.sleep(0.05)

    def connected(self):
        """None: it does not listen yet."""
        port = self.port()
        return Client(port, seconds=20) if port else None

    @staticmethod
    def ask(client, job_id, verb=None, **fields):
        answer = client.job(job_id, verb, **fields)
        assert answer.status in ANSWERS, answer

    def push(self, client):
        chance, topic = self.random, self.random.choice(TOPICS)
        jobs = []
        for _ in range(chance.choice((1, 1, 5, 40))):
            self.count += 1
            body = chance.choice(("x" * chance.randrange(300), {"n": self.count}, "é'\"\\🎉\0"))
            job = {"body": body, "priority": chance.randrange(5)}
            if chance.random() < 0.7:
                job["id"] = f"{self.prefix}-{self.count % 3000}"
                job["if_exists"] = chance.choice(("keep", "replace"))
            if chance.random() < 0.6:
                job["delay"] = f"{chance.randrange(1, 7200)}s"
            if chance.random() < 0.1:
                job["biz_key"], job["retry"] = f"o'{self.count}", ["10m", "1h"]
            jobs.append(job)
        client.push_many(topic, jobs)
        self.acked += len(jobs)

    def consume(self, client):
        chance = self.random
        for job in client.reserve(chance.choice(TOPICS), most=chance.choice((1, 3, 20))):
            way = chance.random()
            if way < 0.55:
                self.ask(client, job["id"], "finish", lease=job["lease"])
            elif way < 0.75:
                self.ask(client, job["id"], "release", lease=job["lease"], priority=chance.randrange(9),
                           delay=chance.choice(("0s", "1h")))
            elif way < 0.85:
                self.ask(client, job["id"], "bury", lease=job["lease"])

    def step(self, client):
        way = self.random.random()
        some = f"{self.prefix}-{self.random.randrange(1, 3000)}"
        if way < 0.5:
            self.push(client)
        elif way < 0.85:
            self.consume(client)
        elif way < 0.92:
            self.ask(client, some, method="DELETE")
        elif way < 0.97:
            self.ask(client, some, method="PATCH", delay=f"{self.random.randrange(1, 7200)}s", priority=2)
        else:
            self.ask(client, some, "kick")


class Bed:
    def __init__(self, seed, redis):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="laterd-crash-journal-"))
        self.maria = MariaDb().make().start()
        self.random = random.Random(seed)
        self.redis = redis
        sections = {"journal": {"url": self.maria.database("journal")}}
        if redis:
            sections |= {"engine": {"engine": "redis"}, "redis": {"url": redis.url, "partitions": 16}}
        else:
            sections["store"] = {"segment_bytes": "1M"}
        self.servers = [Laterd(self.folder / f"laterd{i}", sections).start() for i in range(2 if redis else 1)]
        self.clients = [Load(lambda i=i: next(iter(self.servers[i % len(self.servers)].ports), None), seed + i, f"c{i}")
                        for i in range(CLIENTS)]

    def kill_mysql(self):
        if self.random.random() < 0.2:
            self.maria.signal(signal.SIGSTOP)
            time.sleep(self.random.uniform(*ROUND_S))
            self.maria.signal(signal.SIGCONT)
            return
        self.maria.kill()
        time.sleep(self.random.uniform(0, 0.5))
        self.maria.start()

    def kill_laterd(self):
        server = self.random.choice(self.servers)
        server.kill()
        if len(self.servers) > 1 and self.random.random() < 0.5:
            time.sleep(6)  # the other one has the lease then
        try:
            server.start()
        except DidNotStart as problem:
            raise SystemExit(f"laterd did not start again: {problem}") from problem

    def gauge(self, name):
        """Of the one that writes the journal; None: none has said so."""
        for server in self.servers:
            with Client(server.port) as client:
                for line in client.get("/metrics").body.decode().splitlines():
                    if line.startswith(f"laterd_{name} "):
                        return float(line.split()[1])
        return None

    def catch_up(self):
        for client in self.clients:
            client.stopping = True
        for client in self.clients:
            client.join(60)
        failures = [client.failure for client in self.clients if client.failure]
        if failures:
            raise SystemExit("\n".join(failures))
        if not eventually(lambda: self.gauge("journal_lag_batches") == 0, CATCH_UP_S, 0.2):
            raise SystemExit(f"MySQL has not caught up within {CATCH_UP_S} s: " +
                             "\n".join(line for server in self.servers for line in server.lines[-20:]))

    def faults(self):
        with Client(self.servers[0].port, seconds=60) as client:
            return compared(client, self.maria)

    def close(self, keep):
        for server in self.servers:
            server.kill()
        for one in deaths.take(restart=False):
            print(f"died by itself: {one}")
        if keep:
            print(f"kept: {self.folder} {self.maria.folder}")
            self.maria.kill()
            return
        self.maria.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def compared(client, maria, expected=lambda said: not said):
    """What differs. Reservations run out while it looks, and a daemon says that nothing is lacking, too, before it
    has looked (a queue in Redis): what is not as expected must be so for as long as catching up may take."""
    end = time.monotonic() + CATCH_UP_S
    while True:
        said = differences(client, TOPICS, maria, "journal")
        if expected(said) or time.monotonic() > end:
            return said
        time.sleep(1)


def log_faults(maria):
    """The last row of a job's log is its status; nothing was written twice, so far as that can be seen:
    an end only once for each time that the job was pushed."""
    wrong = maria.run(
        f"SELECT j.id,j.status FROM {JOBS} j WHERE NOT EXISTS (SELECT 1 FROM {LOGS} l WHERE l.id=j.id AND "
        "l.status=j.status)", database="journal")
    twice = maria.run(
        f"SELECT id,COUNT(*) FROM {LOGS} WHERE status IN(3,4) AND id LIKE '@%' GROUP BY id "
        "HAVING COUNT(*)>1", database="journal")  # such a job ends once
    return [f"no log row of {row}" for row in wrong] + [f"ended twice: {row}" for row in twice]


def control(bed):
    """Each fault that the comparison is for, planted: it must be found, and nothing else."""
    def is_found(said):
        return len(said) == 1 and name in said[0]

    with Client(bed.servers[0].port, seconds=60) as client:
        ((name,),) = bed.maria.run(f"SELECT id FROM {JOBS} WHERE status=1 LIMIT 1", database="journal")
        for change, back in ((f"status=3 WHERE id='{name}'", f"status=1 WHERE id='{name}'"),
                             (f"delay=delay+1 WHERE id='{name}'", f"delay=delay-1 WHERE id='{name}'"),
                             (f"topic='zz' WHERE id='{name}'", None)):
            topic = bed.maria.run(f"SELECT topic FROM {JOBS} WHERE id='{name}'", database="journal")[0][0]
            bed.maria.run(f"UPDATE {JOBS} SET {change}", database="journal")
            said = compared(client, bed.maria, is_found)
            if not is_found(said):
                raise SystemExit(f"the comparison did not find {change}: {said[:5]}")
            bed.maria.run(f"UPDATE {JOBS} SET " + (back or f"topic='{topic}' WHERE id='{name}'"),
                          database="journal")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=("embedded", "redis"), default="embedded")
    parser.add_argument("--mysql", type=int, default=50)
    parser.add_argument("--laterd", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--keep", action="store_true")
    wish = parser.parse_args()
    print(f"seed {wish.seed}", flush=True)
    redis = Redis().__enter__() if wish.engine == "redis" else None
    bed = Bed(wish.seed, redis)
    rounds = ["mysql"] * wish.mysql + ["laterd"] * wish.laterd
    bed.random.shuffle(rounds)
    failed = True
    begun = time.monotonic()
    try:
        for client in bed.clients:
            client.start()
        for what in rounds:
            time.sleep(bed.random.uniform(*ROUND_S))
            bed.kill_mysql() if what == "mysql" else bed.kill_laterd()
        time.sleep(1)
        bed.catch_up()
        said = bed.faults() + log_faults(bed.maria)
        jobs = bed.maria.run(f"SELECT COUNT(*),SUM(status NOT IN(3,4)) FROM {JOBS}", database="journal")[0]
        logs = bed.maria.run(f"SELECT COUNT(*) FROM {LOGS}", database="journal")[0][0]
        rejected = bed.maria.run(f"SELECT COUNT(*) FROM {REJECTED}", database="journal")[0][0]
        cursor = bed.maria.run(f"SELECT epoch,batch FROM {CURSORS}", database="journal")[0]
        control(bed)
        failed = bool(said or rejected)
        for line in said[:20]:
            print(line)
        print(f"{wish.mysql} of MySQL, {wish.laterd} of laterd killed in {time.monotonic() - begun:.0f} s: "
              f"{sum(client.acked for client in bed.clients)} pushes acknowledged, {jobs[0]} rows of jobs, "
              f"{jobs[1]} unfinished, {logs} of changes, {rejected} rejected; epoch {cursor[0]}, batch "
              f"{cursor[1]}; {len(said)} differences")
    finally:
        bed.close(wish.keep or (failed and not sys.exc_info()[0]))
        if redis:
            redis.__exit__(None, None, None)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
