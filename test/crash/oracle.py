"""What clients know: what they tried, what was answered, what they were handed.

Every job has a nonce in its body, unique over the whole run, and a hash of the body. An attempt is
noted before the request is sent and an answer after it was read; what was under way when the
server was killed is a "maybe", and counts for neither side.

    lost         acknowledged, nobody tried to end it, and yet not there at the end
    resurrected  handed out in answer to a request that was sent after its end was acknowledged
    invented     handed out, never pushed (or not with this body)
    torn         handed out with a body that does not fit its hash
    early        handed out before its due time
    doubled      handed out while somebody else's reservation was live
"""

import hashlib
import json
import random
import threading
import time

FAULTS = ("lost", "resurrected", "invented", "torn", "early", "doubled")


class Job:
    """One job as its pusher and its consumers know it."""

    __slots__ = ("nonce", "digest", "due", "job_id", "pushed", "kept", "end_tried", "ended_at",
                 "drained")

    def __init__(self, nonce, digest, due):
        self.nonce, self.digest, self.due = nonce, digest, due
        self.job_id = None
        self.pushed = False
        self.kept = False
        self.end_tried = False
        self.ended_at = None
        self.drained = False


def digest_of(nonce, pad):
    return hashlib.sha256(f"{nonce} {pad}".encode()).hexdigest()[:24]


class Oracle:
    """Thread-safe."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.jobs = {}
        self.by_id = {}
        self.held = {}
        self.faults = {name: [] for name in FAULTS}
        self.deliveries = 0

    # Pushing

    def attempt(self, due, size):
        """(nonce, body as text) of a job that is about to be pushed."""
        with self.lock:
            nonce = len(self.jobs) + 1
            pad = "".join(self.random.choices("abcdefghij <&\u00e9\u4e2d", k=size))
            digest = digest_of(nonce, pad)
            self.jobs[nonce] = Job(nonce, digest, due)
        return nonce, json.dumps({"nonce": nonce, "pad": pad, "digest": digest})

    def pushed(self, nonce, job_id, kept=True):
        """The answer came. `kept`: it promised that the job survives a crash."""
        with self.lock:
            job = self.jobs[nonce]
            job.pushed, job.kept, job.job_id = True, kept, job_id
            self.by_id[job_id] = nonce

    def moved(self, nonce, due):
        """The due time is about to change: the earlier one counts."""
        with self.lock:
            self.jobs[nonce].due = min(self.jobs[nonce].due, due)

    def may_come_now(self, job_id):
        """The job is about to be made due; an id that no answer told may be any unanswered one."""
        with self.lock:
            nonce = self.by_id.get(job_id)
            for job in [self.jobs[nonce]] if nonce else self.jobs.values():
                if nonce or not job.pushed:
                    job.due = 0

    def some_live(self, among_all=False):
        """(nonce, id) of a job that is probably there, or None. Of the newest 300 unless told."""
        with self.lock:
            recent = list(self.by_id) if among_all else list(self.by_id)[-300:]
            for _ in range(5 if recent else 0):
                job_id = self.random.choice(recent)
                job = self.jobs[self.by_id[job_id]]
                if not job.end_tried:
                    return job.nonce, job_id
        return None

    def is_kept(self, nonce):
        with self.lock:
            return self.jobs[nonce].kept

    # Ending

    def end_tried(self, nonce):
        with self.lock:
            return self.jobs[nonce].end_tried

    def trying_to_end(self, nonce):
        with self.lock:
            self.jobs[nonce].end_tried = True
            self.held.pop(nonce, None)

    def ended(self, nonce):
        with self.lock:
            job = self.jobs[nonce]
            job.ended_at = time.monotonic()
            self.by_id.pop(job.job_id, None)

    # Being handed a job

    def let_go(self, nonce):
        """The holder is about to release or bury it."""
        with self.lock:
            self.held.pop(nonce, None)

    def server_died(self):
        """Reservations need not outlive a crash."""
        with self.lock:
            self.held.clear()

    def delivered(self, body, asked_at, ttr, draining=False):
        """Checks a job that came in answer to a request sent at `asked_at`; its nonce, or None."""
        now, wall = time.monotonic(), time.time()
        try:
            said = json.loads(body) if isinstance(body, str) else body
            nonce, whole = said["nonce"], digest_of(said["nonce"], said["pad"]) == said["digest"]
        except (ValueError, KeyError, TypeError):
            nonce, whole, said = None, False, {}
        with self.lock:
            self.deliveries += 1
            job = self.jobs.get(nonce)
            if not whole:
                self.faults["torn"].append(str(body)[:200])
            if job is None or job.digest != said.get("digest"):
                self.faults["invented"].append(nonce)
                return None
            if job.ended_at is not None and job.ended_at < asked_at:
                self.faults["resurrected"].append(nonce)
            if wall < job.due:
                self.faults["early"].append(nonce)
            if self.held.get(nonce, 0) > now:
                self.faults["doubled"].append(nonce)
            # The ttr began to run after the request was sent, so asked_at is right.
            self.held[nonce] = asked_at + ttr
            job.drained = job.drained or draining
        return nonce

    # The verdict

    def count_lost(self):
        with self.lock:
            self.faults["lost"] = [job.nonce for job in self.jobs.values()
                                   if job.kept and not job.end_tried and not job.drained]

    def counts(self):
        with self.lock:
            acknowledged = sum(job.pushed for job in self.jobs.values())
            ended = sum(job.ended_at is not None for job in self.jobs.values())
            return {"attempted": len(self.jobs), "acknowledged": acknowledged,
                    "maybe": len(self.jobs) - acknowledged, "ended": ended,
                    "deliveries": self.deliveries,
                    **{name: len(found) for name, found in self.faults.items()}}


# The negative control of the oracle: each fault, planted, is found.


def _end(oracle, nonce):
    oracle.trying_to_end(nonce)
    oracle.ended(nonce)


def _lose(oracle, nonce, body, now):
    del oracle, nonce, body, now


def _resurrect(oracle, nonce, body, now):
    oracle.delivered(body, now, 0)
    _end(oracle, nonce)
    oracle.delivered(body, time.monotonic() + 1, 0)


def _invent(oracle, nonce, body, now):
    del body
    _end(oracle, nonce)
    oracle.delivered(json.dumps({"nonce": 9, "pad": "", "digest": digest_of(9, "")}), now, 0)


def _tear(oracle, nonce, body, now):
    del nonce
    oracle.delivered(body.replace('"pad": "', '"pad": "!'), now, 0, draining=True)


def _hurry(oracle, nonce, body, now):
    oracle.jobs[nonce].due = time.time() + 100
    oracle.delivered(body, now, 0, draining=True)


def _double(oracle, nonce, body, now):
    del nonce
    oracle.delivered(body, now, 100)
    oracle.delivered(body, now, 100, draining=True)


def _behave(oracle, nonce, body, now):
    del nonce
    oracle.delivered(body, now, 0, draining=True)


def rounds_until_wrong(name, part, rounds):
    """The numbers of the rounds to be played: from 1 on, until something is wrong."""
    for number in range(1, rounds + 1):
        if part.wrong():
            return
        yield number
        if number % 20 == 0:
            print(f"{name}: {number} rounds, {part.oracle.counts()}", flush=True)


def tell_what_is_wrong(name, failures, oracle):
    """Ten of each at most."""
    for failure in failures[:10]:
        print(f"{name}: {failure}")
    for fault, found in oracle.faults.items():
        if found:
            print(f"{name}: {fault}: {found[:10]}")


def control():
    """Raises if the oracle would miss a fault, or see one where there is none."""
    plants = {"lost": _lose, "resurrected": _resurrect, "invented": _invent, "torn": _tear,
              "early": _hurry, "doubled": _double, None: _behave}
    for name, plant in plants.items():
        oracle = Oracle(1)
        nonce, body = oracle.attempt(due=0, size=10)
        oracle.pushed(nonce, "a")
        plant(oracle, nonce, body, time.monotonic())
        oracle.count_lost()
        found = {fault for fault, jobs in oracle.faults.items() if jobs}
        if found != ({name} if name else set()):
            raise AssertionError(f"the oracle was shown {name} and saw {found}")
