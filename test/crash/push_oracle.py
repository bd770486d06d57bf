"""What pushers and the receiver know of jobs that laterd delivers itself.

Every job has a number in its body. An attempt to push is noted before the request is sent, and its
answer after it was read; what was under way at a kill is a "maybe". The receiver notes each request,
and its 200 before it is written: laterd may read it at once.

    lost         acknowledged, gone at the end, and its receiver never had it
    unconfirmed  acknowledged, gone at the end; its receiver had it and never said 200. One whose push was
                 not acknowledged may go with a kill though it was sent: that waits for no disk
    early        sent before its due time, or sooner after a failure than its schedule says
    invented     sent, never pushed (or not with this body)
    repeated     sent again after a 200, with no kill since; or more of them than were in flight
    miscounted   buried with fewer attempts, or sent with more, than its schedule has; buried, and one
                 of its attempts never came

Lives count kills: what arrives in life 3 was sent after the third kill.
"""

import asyncio
import collections
import json
import random
import threading
import time

FAULTS = ("lost", "unconfirmed", "early", "invented", "repeated", "miscounted")
WAITS_S = (0.05, 0.1, 0.2, 0.3)  # between attempts, without jitter
TIMEOUT_S = 1.0  # of a delivery


class Job:
    """One job as its pusher and its receiver know it."""

    __slots__ = ("number", "due", "pushed", "doomed", "attempts", "confirmed", "again", "maybe",
                 "earliest")

    def __init__(self, number, due, doomed):
        self.number, self.due, self.doomed = number, due, doomed
        self.pushed = False
        self.attempts = set()  # that were received
        self.confirmed = None  # the life in which 200 was said
        self.again = None  # the life after whose 200 it came again
        self.maybe = False  # said too late: laterd may have read it all the same
        self.earliest = {}  # attempt: not before


class PushOracle:
    """Thread-safe."""

    def __init__(self):
        self.lock = threading.Lock()
        self.jobs = {}
        self.life = 0
        self.requests = self.doubled = 0
        self.again = collections.Counter()  # by life: jobs that came again after a 200 said in it
        self.faults = {name: [] for name in FAULTS}
        self.buried = 0

    # Pushing

    def attempt(self, due, doomed=False):
        with self.lock:
            number = len(self.jobs) + 1
            self.jobs[number] = Job(number, due, doomed)
        return number

    def pushed(self, number):
        with self.lock:
            self.jobs[number].pushed = True

    def may_come_now(self):
        with self.lock:
            for job in self.jobs.values():
                job.due = 0

    def killed(self):
        with self.lock:
            self.life += 1

    # Being sent a job

    def arrived(self, number, attempt, now=None):
        """The job, or None; and the life in which it was sent."""
        now = now or time.time()
        with self.lock:
            self.requests += 1
            job = self.jobs.get(number)
            if job is None:
                self.faults["invented"].append(number)
                return None, self.life
            job.attempts.add(attempt)
            if now < max(job.due, job.earliest.get(attempt, 0)):
                self.faults["early"].append(number)
            if attempt > len(WAITS_S) + 1:
                self.faults["miscounted"].append(number)
            if job.confirmed is not None:
                self._count_double(job, job.confirmed)
                if job.confirmed == self.life:
                    self.faults["repeated"].append(number)
            return job, self.life

    def _count_double(self, job, life):
        """What it was told in this life was not kept, or came too late."""
        self.doubled += 1
        self.again[life] += job.again != life
        job.again = life

    def confirming(self, job, life):
        """200 is about to be written to what was sent in that life."""
        with self.lock:
            if job.confirmed is not None and life < job.confirmed:
                self._count_double(job, life)  # it came again while this answer was late
            job.confirmed = max(life, job.confirmed or 0)

    def failing(self, job, attempt):
        """Another answer is about to be written; or none."""
        with self.lock:
            if attempt <= len(WAITS_S):
                job.earliest[attempt + 1] = time.time() + WAITS_S[attempt - 1] - 0.001

    def answering_late(self, job):
        with self.lock:
            job.maybe = True

    # The verdict

    def verdict(self, buried, all_received, in_flight):
        """`buried`: {number: failures} of what is still there; `all_received`: each of its attempts
        must have been seen; `in_flight`: what may come again after one kill."""
        every = set(range(1, len(WAITS_S) + 2))
        with self.lock:
            self.buried = len(buried)
            for job in self.jobs.values():
                if job.number in buried:
                    few = buried[job.number] < len(WAITS_S)
                    if few or (all_received and job.attempts != every):
                        self.faults["miscounted"].append(job.number)
                elif job.pushed and job.confirmed is None and not job.maybe:
                    self.faults["unconfirmed" if job.attempts else "lost"].append(job.number)
            for life, count in self.again.items():
                if count > in_flight:
                    self.faults["repeated"].append(f"{count} after kill {life + 1}")

    def counts(self):
        with self.lock:
            return {"attempted": len(self.jobs),
                    "acknowledged": sum(job.pushed for job in self.jobs.values()),
                    "requests": self.requests, "buried": self.buried,
                    "sent again after a 200": self.doubled,
                    "at most after one kill": max(self.again.values(), default=0),
                    **{name: len(found) for name, found in self.faults.items()}}


class Receiver(threading.Thread):
    """Answers 200, mostly; some 500, some slowly, some too late, some not at all."""

    def __init__(self, oracle, seed):
        super().__init__(daemon=True)
        self.oracle = oracle
        self.random = random.Random(seed)
        self.loop = asyncio.new_event_loop()
        self.port, self.reading, self.whims = None, 0, True
        self.started = threading.Event()

    def run(self):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0,
                                                                   backlog=1000))
        self.port = server.sockets[0].getsockname()[1]
        self.started.set()
        self.loop.run_forever()

    def begin(self):
        self.start()
        self.started.wait(10)
        return self

    def url(self):
        return f"http://127.0.0.1:{self.port}/hook"

    def settle(self, seconds=10):
        """Nobody sends any more: waits until all that was sent has been read."""
        async def quiet():
            calm, end = 0, time.monotonic() + seconds
            while calm < 3 and time.monotonic() < end:
                await asyncio.sleep(0.004)
                calm = 0 if self.reading else calm + 1
        asyncio.run_coroutine_threadsafe(quiet(), self.loop).result(seconds + 5)

    def end(self):
        async def cancel():
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        asyncio.run_coroutine_threadsafe(cancel(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join(10)

    async def _request(self, reader):
        """(number, attempt)"""
        self.reading += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
            body = await reader.readexactly(int(fields["content-length"]))
            return json.loads(body)["number"], int(fields["laterd-attempt"])
        finally:
            self.reading -= 1

    async def _serve(self, reader, writer):
        try:
            while await self._answer(await self._request(reader), writer):
                pass
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def _answer(self, request, writer):
        (job, life), attempt = self.oracle.arrived(*request), request[1]
        dice = self.random.random() if self.whims else 1
        if job is None or job.doomed or dice < 0.12:
            if job:
                self.oracle.failing(job, attempt)
            writer.write(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
        elif dice < 0.14:
            self.oracle.failing(job, attempt)
            return False
        elif dice < 0.16:
            await asyncio.sleep(TIMEOUT_S + 1)
            self.oracle.answering_late(job)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        else:
            if dice < 0.4:
                await asyncio.sleep(self.random.random() * 0.2)
            self.oracle.confirming(job, life)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        return True


# The negative control: each fault, planted, is found.


def _arrive(oracle, number, confirm=True):
    job, life = oracle.arrived(number, 1)
    if confirm:
        oracle.confirming(job, life)


def _hurry(oracle, number):
    oracle.jobs[number].due = time.time() + 100
    _arrive(oracle, number)


def _invent(oracle, number):
    _arrive(oracle, number)
    oracle.arrived(99, 1)


def _repeat(oracle, number):
    _arrive(oracle, number)
    _arrive(oracle, number)


def _after_a_kill(oracle, number):
    _arrive(oracle, number)
    oracle.killed()
    _arrive(oracle, number)


def control():
    """Raises if the oracle would miss a fault, or see one where there is none."""
    plants = {"lost": lambda oracle, number: None,
              "unconfirmed": lambda oracle, number: _arrive(oracle, number, confirm=False),
              "early": _hurry, "invented": _invent, "repeated": _repeat,
              "miscounted": lambda oracle, number: None, None: _after_a_kill}
    for name, plant in plants.items():
        oracle = PushOracle()
        number = oracle.attempt(due=0)
        oracle.pushed(number)
        plant(oracle, number)
        oracle.verdict({number: 1} if name == "miscounted" else {}, False, 8)
        found = {fault for fault, jobs in oracle.faults.items() if jobs}
        if found != ({name} if name else set()):
            raise AssertionError(f"the oracle was shown {name} and saw {found}")
