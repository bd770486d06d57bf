"""The soak's clients: processes that push, take, cancel and reschedule, at whatever server is up.

One process alone cannot give a fifth of the puts that a machine can do, and must not slow down what it measures.
"""

import json
import math
import multiprocessing
import os
import queue
import random
import threading
import time
from collections import deque

from soak_oracle import body_of, now_ms, shared_numbers
from wire import Client, Closed, Wire, request_bytes

GONE = (Closed, OSError, ConnectionError)
TOPIC, BODY_BYTES, BATCH = "soak", 240, 200
TAKERS, CHANGERS, WIRES, WINDOW = 2, 2, 8, 16  # processes; connections of a changer, and requests under way on each
MOST = 500  # jobs of a reserve
CANCELS, MOVES = 0.3, 0.1  # by put
BURIED = 0.03  # by delivery
SHORTEST_MS, LONGEST_MS = 1000, 30 * 86400 * 1000
SETTLED_S = 10  # after a start, lateness counts
WORKERS = 1 + TAKERS + CHANGERS

FORK = multiprocessing.get_context("fork")
UP, OVER, PORT, STARTED_MS, BEGAN_NS = range(5)


class Load:
    """The worker processes, and what they are told: the server that is up, and whether to go on."""

    def __init__(self, oracle, rate, seed):
        self.oracle, self.rate = oracle, rate
        self.said = shared_numbers(5)
        self.news = FORK.Queue()
        self.late_ms, self.failures = [], []
        kinds = [Pusher, *[Taker] * TAKERS, *[Changer] * CHANGERS]
        self.workers = [kind(self, place, seed) for place, kind in enumerate(kinds)]

    def fork(self):
        """Before this process has threads. They wait until a server is up."""
        for worker in self.workers:
            worker.start()

    def up(self, port):
        self.said[PORT], self.said[STARTED_MS] = port, now_ms()
        self.said[BEGAN_NS] = self.said[BEGAN_NS] or time.monotonic_ns()
        self.said[UP] = 1

    def down(self):
        self.said[UP] = 0

    def end(self):
        """Waits until they have ended; what they still say is heard meanwhile, or they could not."""
        self.said[OVER] = 1
        until = time.monotonic() + 60
        while any(worker.is_alive() for worker in self.workers) and time.monotonic() < until:
            self.hear()
            time.sleep(0.02)
        for worker in self.workers:
            if worker.is_alive():
                self.failures.append(f"{type(worker).__name__} does not end")
                worker.kill()
            elif worker.exitcode:
                self.failures.append(f"{type(worker).__name__} ended by {worker.exitcode}")
        self.hear()

    def hear(self):
        """Takes in what the workers have said since."""
        while True:
            try:
                kind, what = self.news.get_nowait()
            except queue.Empty:
                return
            if kind == "late":
                self.late_ms.extend(what)
            elif kind == "failure":
                self.failures.append(what)
            else:
                self.oracle.faults[kind].append(what)

    def goes_on(self):
        return self.said[UP] and not self.said[OVER]

    def behind(self, done, share):
        """How many to do now, so that there are `rate` a second since the load began."""
        return int((time.monotonic_ns() - self.said[BEGAN_NS]) / 1e9 * self.rate * share) - done


class Worker(FORK.Process):
    """One connection at a time, to whatever server is up."""

    def __init__(self, load, place, seed):
        super().__init__(daemon=True)
        self.load, self.oracle, self.place = load, load.oracle, place
        self.random = random.Random(f"{seed} {place}")

    def run(self):
        self.oracle.work_as(self.place, lambda name, what: self.load.news.put((name, what)))
        self.serve(self.work)

    def serve(self, work):
        while not self.load.said[OVER] and os.getppid() != 1:
            if not self.load.said[UP]:
                time.sleep(0.02)
                continue
            try:
                work(self.load.said[PORT])
            except GONE:
                time.sleep(0.02)
            except Exception as error:  # noqa: BLE001: an answer nobody expects is a finding
                self.load.news.put(("failure", f"{type(self).__name__}: {error!r}"[:500]))
                return

    def delay_ms(self):
        return int(SHORTEST_MS * math.exp(self.random.random() * math.log(LONGEST_MS / SHORTEST_MS)))


class Pusher(Worker):
    def work(self, port):
        with Client(port, seconds=30) as client:
            while self.load.goes_on():
                if self.load.behind(self.oracle.count(), 1) < BATCH:
                    time.sleep(0.005)
                else:
                    self.push(client)

    def push(self, client):
        now, jobs, numbers = now_ms(), [], []
        for _ in range(BATCH):
            due_ms = now + self.delay_ms()
            number = self.oracle.attempt(due_ms)
            numbers.append(number)
            jobs.append({"id": f"s{number}", "due": due_ms, "body": body_of(number, BODY_BYTES)})
        for number, result in zip(numbers, client.push_many(TOPIC, jobs)):
            assert result["status"] == 201, result
            self.oracle.pushed(number)


class Changer(Worker):
    """Cancels and reschedules, a window of requests under way: each may wait for a read of the disk."""

    def run(self):
        self.oracle.work_as(self.place, lambda name, what: self.load.news.put((name, what)))
        first = (self.place - 1 - TAKERS) * WIRES
        lines = [Line(self, first + number) for number in range(WIRES)]
        threads = [threading.Thread(target=self.serve, args=(line.work,)) for line in lines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class Line:
    """One connection of a changer, for its share of the jobs."""

    def __init__(self, changer, part):
        self.changer, self.load, self.oracle, self.random = changer, changer.load, changer.oracle, changer.random
        self.part, self.parts = part, CHANGERS * WIRES
        self.asked = 0

    def work(self, port):
        with Wire(port, seconds=30) as wire:
            waiting = deque()
            while self.load.goes_on() or waiting:
                due = self.load.behind(self.asked, (CANCELS + MOVES) / self.parts) if self.load.goes_on() else 0
                sent = [self.ask() for _ in range(max(0, min(WINDOW - len(waiting), due)))]
                wire.send(b"".join(data for _, data in sent if data))
                waiting.extend(what for what, data in sent if data)
                if waiting:
                    for _ in range(max(1, len(waiting) - WINDOW // 2)):
                        self.answered(*waiting[0], wire.response())
                        waiting.popleft()
                else:
                    time.sleep(0.005)

    def ask(self):
        self.asked += 1
        number = self.oracle.some_live(self.random, self.part, self.parts)
        if not number:
            return None, b""
        path = f"/v1/jobs/s{number}"
        if self.random.random() < CANCELS / (CANCELS + MOVES):
            self.oracle.trying_to_end(number)
            return ("cancel", number), request_bytes("DELETE", path)
        due_ms = now_ms() + self.changer.delay_ms()
        if not self.oracle.trying_to_move(number, due_ms):
            return None, b""
        return ("move", number), request_bytes("PATCH", path, json.dumps({"due": due_ms}).encode(),
                                               {"Content-Type": "application/json"})

    def answered(self, kind, number, answer):
        if kind == "move":
            assert answer.status in (200, 404, 409), answer  # gone, or somebody holds it
            self.oracle.move_answered(number, answer.status)
        elif answer.status in (200, 204):
            self.oracle.ended(number)
            self.oracle.note("cancels")
        else:
            assert answer.status in (404, 409), answer


def post(path, **fields):
    return request_bytes("POST", path, json.dumps(fields).encode(), {"Content-Type": "application/json"})


class Taker(Worker):
    """Reserves many jobs, and ends them by requests that are under way together: each waits for the disk."""

    def work(self, port):
        with Wire(port, seconds=30) as wire:
            while self.load.goes_on():
                asked_ms = now_ms()
                wire.send(post("/v1/reserve", topics=[TOPIC], wait=200, max=MOST))
                answer = wire.response()
                assert answer.status in (200, 204), answer
                self.take(wire, answer.json()["jobs"] if answer.status == 200 else [], asked_ms)

    def take(self, wire, jobs, asked_ms):
        came_ms, mine, buried, late_ms = now_ms(), [], [], []
        settled_ms = self.load.said[STARTED_MS] + SETTLED_S * 1000
        for job in jobs:
            number = self.oracle.delivered(job, asked_ms)
            if number is None:
                continue
            if self.random.random() < BURIED:
                buried.append(job)
                continue
            self.oracle.trying_to_end(number)
            mine.append((number, job))
            due_ms = self.oracle.only_due_ms(number)
            if due_ms is not None and due_ms > settled_ms and job["attempt"] == 1:
                late_ms.append(came_ms - due_ms)
        if late_ms:
            self.load.news.put(("late", late_ms))
        self.end(wire, mine, buried)

    def end(self, wire, mine, buried):
        finish = [{"id": job["id"], "lease": job["lease"]} for _, job in mine]
        wire.send(b"".join(post(f"/v1/jobs/{job['id']}/bury", lease=job["lease"]) for job in buried)
                  + (post("/v1/finish", jobs=finish) if finish else b""))
        for _ in buried:
            answer = wire.response()
            assert answer.status in (200, 404, 409), answer  # cancelled, or its time to run has ended
        if not finish:
            return
        answer = wire.response()
        assert answer.status == 200, answer
        for (number, _), result in zip(mine, answer.json()["results"]):
            if result["status"] == 204:
                self.oracle.ended(number)
