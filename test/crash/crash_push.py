#!/usr/bin/python3
"""kill -9 while laterd delivers: of laterd, of one of two laterds on a Redis, and of brokers.

Four connections push jobs with delays to topics whose target is a receiver that answers 500 to some,
others slowly, too late or not at all; one in thirty is always refused, and must end as a dead letter
with all its attempts. At the end all is made due, and drained. Parts:

    laterd    the embedded engine: laterd is killed at a random moment and started again
    redis     two laterds on one Redis; one of them is killed and started again
    nats, stream, rabbit
              the broker (NATS JetStream; a stream of Redis; RabbitMQ) is killed and started again,
              in every fourth round laterd is, too. At the end it is asked for all that it has.

usage: crash_push.py [--laterd N] [--redis N] [--nats N] [--stream N] [--rabbit N] [--seed N]
"""

import argparse
import base64
import os
import pathlib
import random
import shutil
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "harness"))
sys.path.insert(0, HERE)

import nats  # noqa: E402
from process import ROOT, DidNotStart, Laterd  # noqa: E402
from oracle import rounds_until_wrong, tell_what_is_wrong  # noqa: E402
from push_oracle import FAULTS, TIMEOUT_S, WAITS_S, PushOracle, Receiver, control  # noqa: E402
from redis import Redis, free_port  # noqa: E402
from wire import Client, Closed  # noqa: E402

IN_FLIGHT, PUSHERS = 32, 4
TOPICS = ("a", "b", "keyed")
GONE = (Closed, OSError, ConnectionError)
PUSH = {"allow": "127.0.0.1", "concurrency": IN_FLIGHT, "host_concurrency": IN_FLIGHT,
        "breaker_failures": 1000, "timeout": f"{TIMEOUT_S:.0f}s"}
DRAIN_S = 60  # without any job less


class Pusher(threading.Thread):
    """One connection that pushes until it is stopped, whatever happens to its server."""

    def __init__(self, port, oracle, seed, http):
        super().__init__(daemon=True)
        self.port, self.oracle, self.http = port, oracle, http  # port: a function
        self.random = random.Random(seed)
        self.stopping, self.failure = False, None

    def run(self):
        client = None
        while not self.stopping and not self.failure:
            try:
                client = client or Client(self.port(), seconds=20)
                self.push(client)
                time.sleep(self.random.random() * 0.02)
            except (*GONE, IndexError):  # IndexError: it does not listen yet
                client = client and client.close()
                time.sleep(0.01)
            except Exception as error:  # noqa: BLE001: an answer nobody expects is a finding
                self.failure = repr(error)
        if client:
            client.close()

    def push(self, client):
        batch = [self.new_job() for _ in range(self.random.randrange(1, 6))]
        answer = client.post(f"/v1/topics/{self.random.choice(TOPICS)}/jobs", [fields for _, fields in batch])
        if answer.status == 503 and answer.json()["code"] == "recovering":
            raise Closed  # it reads its store, and does so for longer on a busy machine
        assert answer.status == 200, answer
        for (number, _), result in zip(batch, answer.json()["results"]):
            if result["status"] == 201:
                self.oracle.pushed(number)
            elif result["status"] != 503:  # not now: a "maybe"
                raise AssertionError(result)

    def new_job(self):
        delay = self.random.choice([0, 0, 0.05, 0.3, 1, 3600])
        due_ms = int(time.time() * 1000 + delay * 1000)
        number = self.oracle.attempt(due_ms / 1000, self.http and self.random.random() < 1 / 30)
        fields = {"id": f"job-{number}", "body": {"number": number}, "due": due_ms}
        if self.random.random() < 0.5:
            fields["key"] = f"k{self.random.randrange(20)}"
        return number, fields


class Part:
    """laterds, their pushers, an oracle and, if nobody else is, a receiver."""

    def __init__(self, name, rng, configs, target=None, retry=None):
        self.name, self.rng, self.failures = name, rng, []
        self.oracle = PushOracle()
        self.folder = tempfile.mkdtemp(prefix="laterd-crash-")
        self.receiver = None if target else Receiver(self.oracle, rng.random()).begin()
        self.target = target or {"type": "http", "url": self.receiver.url()}
        self.retry = retry or [f"{wait * 1000:.0f}ms" for wait in WAITS_S]
        # Ports of their own, so that clients find a laterd again when it is started again.
        self.laterds = [Laterd(os.path.join(self.folder, f"laterd{i}"), {"push": PUSH, **config},
                               listeners=(f"127.0.0.1:{free_port()}",))
                        for i, config in enumerate(configs)]
        for laterd in self.laterds:
            laterd.start()
        self.configure()
        self.pushers = [Pusher(self.port_of(i), self.oracle, rng.random(), not target)
                        for i in range(PUSHERS)]
        for pusher in self.pushers:
            pusher.start()

    def port_of(self, number):
        laterd = self.laterds[number % len(self.laterds)]
        port = laterd.port
        return lambda: port

    def configure(self):
        with Client(self.laterds[0].port) as client:
            for topic in TOPICS:
                settings = {"target": self.target, "retry": self.retry, "jitter": 0,
                            "order": "key" if topic == "keyed" else "none"}
                answer = client.request("PUT", f"/v1/topics/{topic}", settings)
                assert answer.status in (200, 201), answer

    def load(self, least_s, most_s):
        time.sleep(self.rng.uniform(least_s, most_s))

    def restart(self, laterd):
        laterd.kill()
        if len(self.laterds) > 1:  # what it had on its way is sent again after its leases: 11 s
            time.sleep(0.3)
        elif self.receiver:
            self.receiver.settle()
        self.oracle.killed()
        laterd.start(seconds=60)

    def wrong(self):
        return any(self.oracle.faults.values()) or any(one.failure for one in self.pushers)

    def stop_pushing(self):
        for pusher in self.pushers:
            pusher.stopping = True
        for pusher in self.pushers:
            pusher.join(30)
        self.failures += [pusher.failure for pusher in self.pushers if pusher.failure]

    def drain(self):
        """Makes all due, and waits until nothing is left but what is buried."""
        self.oracle.may_come_now()
        if self.receiver:
            self.receiver.whims = False
        with Client(self.laterds[0].port, seconds=30) as client:
            for topic in TOPICS:
                run_delayed(client, topic)
            end, least = time.monotonic() + DRAIN_S, float("inf")
            while (left := sum(unfinished(client, topic) for topic in TOPICS)):
                if left < least:  # a long queue of one key takes long: as long as it gets shorter
                    end, least = time.monotonic() + DRAIN_S, left
                if time.monotonic() > end:
                    states = {topic: client.counts(topic) for topic in TOPICS}
                    self.failures.append(f"{left} stay, for {DRAIN_S} s: {states}")
                    return None
                time.sleep(0.05)
            return {int(job["id"].split("-")[1]): job["failures"]
                    for topic in TOPICS for job in listed(client, topic, "buried")}

    def close(self):
        for pusher in self.pushers:
            pusher.stopping = True
        for laterd in self.laterds:
            laterd.kill()
        if self.receiver:
            self.receiver.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def unfinished(client, topic):
    """By one look at the topic: of several, none might see a job that is tried again meanwhile."""
    counts = client.counts(topic)
    return sum(counts[state] for state in ("ready", "delayed", "reserved"))


def listed(client, topic, state):
    cursor = ""
    while cursor is not None:
        page = client.get(f"/v1/topics/{topic}/jobs?state={state}&limit=1000{cursor}").json()
        yield from page["jobs"]
        cursor = f"&cursor={page['cursor']}" if page.get("cursor") else None


def run_delayed(client, topic):
    soon_ms = time.time() * 1000 + 60_000
    for job in list(listed(client, topic, "delayed")):
        if job["due_ms"] > soon_ms:  # others wait for their next attempt
            client.job(job["id"], "run")


def run_part(part, rounds, one_round, all_of=None):
    """Runs it and tells; True: nothing is wrong. `all_of`: what a broker has, [(number, when)]."""
    begin, done = time.monotonic(), 0
    try:
        for number in rounds_until_wrong(f"crash-push: {part.name}", part, rounds):
            one_round()
            done = number
        part.load(0.2, 0.3)
        part.stop_pushing()
        left = part.drain()
        if left is None:
            raise RuntimeError("what is left is not lost: no verdict")
        for number, when in all_of() if all_of else ():
            job, _ = part.oracle.arrived(number, 1, when)
            if job:
                job.confirmed = -1  # when it came again is not known here, only how often
        # A lease in Redis outlives its laterd: that it ran out is an attempt, too. Of a broker nobody
        # knows after which kill a job came again.
        part.oracle.verdict(left, all_received=len(part.laterds) == 1 and not all_of,
                            in_flight=IN_FLIGHT * (done if all_of else 1))
    except (DidNotStart, RuntimeError) as why:
        part.failures.append(str(why))
    finally:
        part.close()
    tell_what_is_wrong(f"crash-push: {part.name}", part.failures, part.oracle)
    counts = part.oracle.counts()
    print(f"crash-push: {part.name}: {done} kills in {time.monotonic() - begin:.0f} s: "
          + ", ".join(f"{counts[key]} {key}" for key in counts), flush=True)
    return not part.failures and not any(counts[name] for name in FAULTS)


def of_laterd(rng, rounds):
    part = Part("laterd", rng, [{}])

    def one_round():
        part.load(0.02, 0.5)
        part.restart(part.laterds[0])
    return run_part(part, rounds, one_round)


def of_two_on_redis(rng, rounds):
    with Redis(appendonly="yes") as redis:
        part = Part("two on redis", rng, [{"engine": {"engine": "redis"}, "redis": {"url": redis.url, "partitions": 16}}
                                          for i in range(2)])

        def one_round():
            part.load(0.2, 1)
            part.restart(rng.choice(part.laterds))
        return run_part(part, rounds, one_round)


def of_broker(name, rng, rounds, broker, target, all_of, wait=lambda: None):
    """`target`: the topics'; `all_of`: what the broker has at the end."""
    kind = target["type"]
    part = Part(name, rng, [{"broker.it": {"type": kind, "url": broker.url, "timeout": "3s"}}],
                {"broker": "it", **target}, ["200ms"] * 60)
    turn = iter(range(1, rounds + 1))

    def one_round():
        part.load(0.2, 0.8)
        broker.kill()
        part.oracle.killed()
        part.load(0, 0.4)
        if next(turn) % 4 == 0:
            part.restart(part.laterds[0])
        broker.start()
        wait()
    return run_part(part, rounds, one_round, all_of)


def of_nats(rng, rounds):
    with nats.Nats() as server:
        # Without its window of duplicates there are some to be counted.
        server.make_stream("ALL", "jobs", duplicate_window=100_000_000)

        def all_of():
            state = server.ask("$JS.API.STREAM.INFO.ALL", {})["state"]
            for seq in range(state["first_seq"], state["last_seq"] + 1):
                message = server.ask("$JS.API.STREAM.MSG.GET.ALL", {"seq": seq})["message"]
                yield number_in(base64.b64decode(message["data"])), time.time()
        return of_broker("nats", rng, rounds, server, {"type": "nats", "subject": "jobs"}, all_of)


def number_in(body):
    return int(body.split(b":")[1].rstrip(b"} "))


def of_stream(rng, rounds):
    with Redis(appendonly="yes", appendfsync="always") as server:

        def all_of():
            for entry, fields in server.call("XRANGE", "jobs", "-", "+"):
                body = fields[fields.index(b"body") + 1]
                yield number_in(body), int(entry.split(b"-")[0]) / 1000
        return of_broker("stream", rng, rounds, server,
                         {"type": "redis", "kind": "stream", "key": "jobs"}, all_of)


def of_rabbit(rng, rounds):
    from rabbit import Rabbit  # needs python3-pika
    folder = tempfile.mkdtemp(prefix="laterd-rabbit-")
    server = Rabbit(pathlib.Path(folder))
    try:
        server.start().wait()
        connection = server.connect()
        connection.channel().queue_declare("jobs", durable=True)
        connection.close()

        def all_of():
            connection = server.connect()
            channel = connection.channel()
            while (found := channel.basic_get("jobs", auto_ack=True))[0]:
                yield number_in(found[2]), time.time()
            connection.close()
        return of_broker("rabbit", rng, rounds, server,
                         {"type": "amqp", "exchange": "", "routing_key": "jobs"}, all_of, server.wait)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


PARTS = {"laterd": of_laterd, "redis": of_two_on_redis, "nats": of_nats, "stream": of_stream,
         "rabbit": of_rabbit}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in PARTS:
        parser.add_argument(f"--{name}", type=int, default=0, metavar="N", help="rounds")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "big")
    control()
    rng, good = random.Random(seed), True
    print(f"crash-push: seed {seed}, at most {IN_FLIGHT} in flight, build {ROOT}/build", flush=True)
    for name, part in PARTS.items():
        if getattr(options, name):
            good &= part(random.Random(rng.random()), getattr(options, name))
    print(f"crash-push: seed {seed}: {'ok' if good else 'FAILED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
