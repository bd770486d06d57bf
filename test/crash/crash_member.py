#!/usr/bin/python3
"""Two laterds of which one leads, under load, while what leads is killed, stopped or cut off.

Each round one thing happens: kill -9 of the leader, SIGSTOP of the leader for longer than its
session, the coordination service away for longer than the session, SIGTERM of the leader. Clients push and
take at both laterds all the time; those of the one that waits are refused. Then it is waited until one
serves again. At the end all is made due and taken. Beside what the oracle of crash.py knows:

    two_serve    a laterd did a command that was sent to it after another one had begun to lead

On the embedded engine both have one data directory, whose lock is what a shared volume's would be: a stopped
leader has it until it wakes, so nobody takes over before.

usage: crash_member.py [--service zookeeper|mysql|redis] [--engine embedded|redis] [--rounds N] [--seed N]
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "harness"))
sys.path.insert(0, HERE)

from coordination import SERVICES, RedisService  # noqa: E402
from crash import drain  # noqa: E402
from oracle import control, tell_what_is_wrong  # noqa: E402
from ports import free_port  # noqa: E402
from process import Laterd  # noqa: E402
from redis_load import FAULTS, TOPICS, HttpWorker, Queue  # noqa: E402
from wire import Client, Closed  # noqa: E402

TIMEOUT_S = 2
SERVES_S = 30
KINDS = ("kill", "stop", "away", "end")


class Leaders:
    """Who led from when on, as the logs say; and what the oracle adds."""

    def __init__(self, daemons):
        self.daemons, self.lock = daemons, threading.Lock()
        self.timeline = []  # (heard at, daemon)
        self.opened_ms = []  # from when it had the lead until it served, of each term
        self.faults = []
        self.stopping = False
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        seen = {}
        while not self.stopping:
            for daemon in self.daemons:
                count = len(daemon.events("leads"))
                if count > seen.get((daemon, daemon.process), 0):
                    seen[daemon, daemon.process] = count
                    with self.lock:
                        self.timeline.append((time.monotonic(), daemon))
                        facts = daemon.events("leads")[-1][1]
                        self.opened_ms.append(int(facts.split("opened_ms=")[1].split()[0]))
            time.sleep(0.002)

    def index(self, at):
        with self.lock:
            return sum(heard <= at for heard, _ in self.timeline) - 1

    def served(self, daemon, asked_at, what):
        """A request that was sent at `asked_at` was done."""
        index = self.index(asked_at)
        with self.lock:
            later = [who for _, who in self.timeline[index:]] if index >= 0 else []
        if later and daemon not in later:
            # It may have begun to lead just now, and its log was not read yet.
            time.sleep(0.3)
            with self.lock:
                later = [who for _, who in self.timeline[index:]]
            if daemon not in later:
                self.faults.append(f"{what} by {daemon.folder}, {time.monotonic() - asked_at:.3f} s "
                                   "after it was sent")


class Terms(Queue):
    """The oracle, for which a reservation of the embedded engine ends with the term that gave it."""

    def __init__(self, seed, embedded):
        super().__init__(seed)
        self.embedded, self.leaders, self.given = embedded, None, {}

    def delivered(self, body, asked_at, ttr, draining=False):
        with self.lock:
            index = self.leaders.index(asked_at)
            before = dict(self.held) if self.embedded else None
            nonce = super().delivered(body, asked_at, ttr, draining)
            if self.embedded and nonce in before and self.given.get(nonce) != index and \
                    nonce in self.faults["doubled"]:
                self.faults["doubled"].remove(nonce)
            self.given[nonce] = index
            return nonce


class MemberWorker(HttpWorker):
    """At one of the two laterds, whether it leads or waits."""

    def __init__(self, daemon, oracle, seed):
        super().__init__(daemon, oracle, seed)
        self.daemon_of, self.taken = daemon, []

    def push(self):
        nonce, fields = self.new_job()
        asked_at = time.monotonic()
        answer = self.client.push(self.random.choice(TOPICS), **fields)
        if answer.status == 201:
            self.oracle.leaders.served(self.daemon_of, asked_at, "a push")
            self.oracle.pushed(nonce, answer.json()["id"], kept="durability" not in fields)
            return
        assert answer.status == 503, answer
        self.oracle.refused()

    push_batch = push_old_dialect = push

    def take(self):
        asked_at = time.monotonic()
        before = len(self.taken)
        super().take()
        if len(self.taken) > before:
            self.oracle.leaders.served(self.daemon_of, asked_at, "a reserve")

    def deal_with(self, nonce, job):
        self.taken.append(nonce)
        super().deal_with(nonce, job)


class Life:
    def __init__(self, service, engine, rng, threads):
        self.rng, self.service, self.engine = rng, service, engine
        self.folder = tempfile.mkdtemp(prefix="laterd-member-")
        config = {"member": {"url": service.url, "name": f"life{rng.randrange(10**9)}",
                             "timeout": f"{TIMEOUT_S}s"},
                  "store": {"segment_bytes": "256K", "recent_bytes": "256K"}}
        self.redis = None
        if engine == "redis":
            self.redis = RedisService().start()
            config.update(engine={"engine": "redis"}, redis={"url": self.redis.url, "partitions": 16})
            del config["store"]
        self.daemons = [Laterd(os.path.join(self.folder, f"daemon{i}"), config,
                               listeners=(f"127.0.0.1:{free_port()}",),
                               data=os.path.join(self.folder, "data")) for i in range(2)]
        for daemon in self.daemons:
            daemon.start()
        self.oracle = Terms(rng.random(), engine == "embedded")
        self.leaders = self.oracle.leaders = Leaders(self.daemons)
        self.took = {kind: [] for kind in KINDS}
        self.leader = self.wait_leader()
        self.workers = [MemberWorker(self.daemons[i % 2], self.oracle, rng.random())
                        for i in range(threads)]
        for worker in self.workers:
            worker.start()

    @staticmethod
    def serves(daemon):
        try:
            with Client(daemon.port, seconds=1) as client:
                return client.get("/readyz").status == 200
        except (Closed, OSError, ConnectionError):
            return False

    def wait_leader(self, but=None):
        end = time.monotonic() + SERVES_S
        while time.monotonic() < end:
            for daemon in self.daemons:
                if daemon is not but and daemon.process.poll() is None and self.serves(daemon):
                    return daemon
            time.sleep(0.005)
        raise AssertionError("nobody serves:\n" + "\n".join(
            line for daemon in self.daemons for line in daemon.lines[-6:]))

    def one_round(self, kind):
        leader, begun = self.leader, time.monotonic()
        if kind == "kill":
            leader.kill()
            self.leader = self.wait_leader()
        elif kind == "end":
            leader.signal(signal.SIGTERM)
            self.leader = self.wait_leader(but=leader)
        elif kind == "stop":
            leader.signal(signal.SIGSTOP)
            if self.engine == "redis":
                self.leader = self.wait_leader(but=leader)
                self.took[kind].append(time.monotonic() - begun)
            time.sleep(max(0, begun + TIMEOUT_S + 1 - time.monotonic()))
            leader.signal(signal.SIGCONT)
            begun = time.monotonic()
            self.leader = self.wait_leader(but=leader)
        else:
            self.service.freeze()
            while self.serves(leader):
                time.sleep(0.01)
            time.sleep(self.rng.uniform(0, TIMEOUT_S))
            self.service.thaw()
            begun = time.monotonic()
            self.leader = self.wait_leader()
        if not (kind == "stop" and self.engine == "redis"):
            self.took[kind].append(time.monotonic() - begun)
        if kind in ("kill", "end"):
            leader.wait(20)
            leader.start()
        time.sleep(self.rng.uniform(0.2, 1.0))

    def failures(self):
        found = [worker.failure for worker in self.workers if worker.failure]
        return found + self.leaders.faults

    def end(self):
        for worker in self.workers:
            worker.stopping = True
        for worker in self.workers:
            worker.join(30)
        self.oracle.server_died()
        for left in range(9, -1, -1):
            try:
                drain(SimpleNamespace(start=lambda **_: None, port=self.wait_leader().port),
                      self.oracle)
                break
            except (Closed, OSError):  # a term ended by itself: the machine was busy
                self.oracle.server_died()
                if not left:
                    raise
        self.oracle.count_lost()

    def close(self):
        self.leaders.stopping = True
        for daemon in self.daemons:
            daemon.kill()
        if self.redis:
            self.redis.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def seconds(found):
    return f"{len(found)} × {min(found):.2f} to {max(found):.2f} s" if found else "none"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--service", choices=list(SERVICES), default="zookeeper")
    parser.add_argument("--engine", choices=("embedded", "redis"), default="embedded")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=6)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    if not SERVICES[options.service].installed:
        print(f"crash-member: skipped: {SERVICES[options.service].needs} is not installed")
        return 0
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "big")
    control()
    rng = random.Random(seed)
    print(f"crash-member: seed {seed}, {options.rounds} rounds, {options.service}, {options.engine}",
          flush=True)
    with SERVICES[options.service]() as service:
        life = Life(service, options.engine, rng, options.threads)
        try:
            for number in range(options.rounds):
                life.one_round(KINDS[number % len(KINDS)] if number < len(KINDS) else rng.choice(KINDS))
                if life.failures():
                    break
            life.end()
        finally:
            life.close()
    failures = life.failures()
    tell_what_is_wrong("crash-member", failures, life.oracle)
    for kind in KINDS:
        print(f"crash-member: {kind}: until one served again: {seconds(life.took[kind])}")
    opened = sorted(life.leaders.opened_ms)
    print(f"crash-member: from the lead until it served: {opened[0]} to {opened[-1]} ms, "
          f"median {opened[len(opened) // 2]} ms")
    print(f"crash-member: {len(life.leaders.timeline)} terms, {life.oracle.counts()}")
    bad = failures or any(life.oracle.faults[name] for name in FAULTS)
    late = sum(took > TIMEOUT_S + 1 for took in life.took["kill"])  # test_member.py holds it; here
    print(f"crash-member: {late} takeovers after kill -9 took longer than {TIMEOUT_S + 1} s")  # loaded
    print(f"crash-member: {'FAILED' if bad else 'passed'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
