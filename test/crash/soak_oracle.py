"""What the soak's clients know of millions of jobs: a few bytes each, where oracle.py keeps an object.

The clients are processes that are forked from one, and share it. A job's number is in its id (`s17`) and in its body.
Its due time is what was last acknowledged; that of a reschedule whose answer never came is `other`, and may be true as
well. Nothing else moves it but a failed attempt: its time to run ended, and without a retry schedule it is due at that
moment, at least TTR_MS after it was due before.

    lost         acknowledged, nobody tried to end it, and yet not there: at the end, or when it was to be moved
    resurrected  shown or handed out in answer to a request that was sent after its end was acknowledged
    invented     shown or handed out, never pushed; or with another body
    early        handed out before its due time
    moved        listed with a due time that nobody asked for, and no failed attempt can have made
    twice        listed twice in one state
"""

import mmap
import time

FAULTS = ("lost", "resurrected", "invented", "early", "moved", "twice")
COUNTED = ("pushed", "ended", "cancels", "moves", "deliveries")
TTR_MS = 60_000  # of all jobs; none has a retry schedule


def body_of(number, size):
    return f"{number} " + "x" * size


def now_ms():
    return time.time_ns() // 1_000_000


def shared_numbers(count):
    """As many zeros, 8 bytes each, that this process shares with those it forks."""
    return memoryview(mmap.mmap(-1, 8 * count)).cast("q")


class SoakOracle:
    """For jobs 1 to `capacity`.

    Without locks: only the pusher writes `count`, `acknowledged` and a new job's times, only the changer whose share a
    job is (some_live) writes `other` and then `due`, and `ending` and `gone` are set and never cleared.
    """

    def __init__(self, capacity, workers=1):
        self.capacity = capacity
        self.due, self.other, self.ended_ms = (shared_numbers(capacity + 1) for _ in range(3))
        self.acknowledged, self.ending, self.gone = (mmap.mmap(-1, capacity + 1) for _ in range(3))
        self.pushes = shared_numbers(1)
        self.counts = shared_numbers(workers * len(COUNTED))
        self.place = 0
        self.faults = {name: [] for name in FAULTS}
        self.tell = None

    def work_as(self, place, tell):
        """This process is worker `place`: it counts in a place of its own, and faults are told by tell(name, what)."""
        self.place, self.tell = place * len(COUNTED), tell

    def fault(self, name, what):
        if self.tell:
            self.tell(name, what)
        else:
            self.faults[name].append(what)

    def note(self, name):
        self.counts[self.place + COUNTED.index(name)] += 1

    def total(self, name):
        return sum(self.counts[COUNTED.index(name)::len(COUNTED)])

    def live(self):
        return self.total("pushed") - self.total("ended")

    def count(self):
        return self.pushes[0]

    # Pushing

    def attempt(self, due_ms):
        number = self.pushes[0] + 1
        self.due[number] = due_ms
        self.pushes[0] = number
        return number

    def pushed(self, number):
        self.acknowledged[number] = 1
        self.note("pushed")

    # Changing

    def is_live(self, number):
        return self.acknowledged[number] and not self.ending[number] and not self.gone[number]

    def some_live(self, random, part, parts):
        """The number of a job that is probably there, of every `parts`-th that is the caller's share; or 0."""
        mine = (self.count() - part) // parts
        for _ in range(20 if mine > 0 else 0):
            number = random.randint(1, mine) * parts + part
            if self.is_live(number):
                return number
        return 0

    def trying_to_end(self, number):
        self.ending[number] = 1

    def ended(self, number):
        if not self.gone[number]:
            self.ended_ms[number] = now_ms()
            self.gone[number] = 1
            self.note("ended")

    def trying_to_move(self, number, due_ms):
        """False: a move of it is under way, or was when the server died."""
        free = self.other[number] == 0
        if free:
            self.other[number] = due_ms
        return free

    def move_answered(self, number, status):
        if status == 200:
            self.due[number], self.other[number] = self.other[number], 0
            self.note("moves")
        else:
            self.other[number] = 0
        if status == 404 and not self.ending[number]:
            self.fault("lost", f"{number} when it was to be moved")

    # Being shown a job

    def number_of(self, job):
        """Its number if it can be there at all; `None` is a fault that has been noted."""
        number = int(job["id"][1:]) if job["id"][:1] == "s" else 0
        if not 0 < number <= self.count():
            self.fault("invented", job["id"])
            return None
        return number

    def seen(self, number, asked_ms):
        if self.gone[number] and self.ended_ms[number] < asked_ms:
            self.fault("resurrected", number)

    def earliest_due_ms(self, number):
        """By what was acknowledged, or, if a move may have been done, by what comes first."""
        other_ms, due_ms = self.other[number], self.due[number]  # in this order: a move is done the other way round
        return min(due_ms, other_ms) if other_ms else due_ms

    def only_due_ms(self, number):
        """When it is due, or None: a move may have been done, or not."""
        return None if self.other[number] else self.due[number]  # in this order, as above

    def delivered(self, job, asked_ms):
        """The number, or None."""
        number = self.number_of(job)
        if number is None:
            return None
        self.note("deliveries")
        self.seen(number, asked_ms)
        if job["body"] != body_of(number, len(job["body"].partition(" ")[2])):
            self.fault("invented", number)
        if now_ms() < self.earliest_due_ms(number):
            self.fault("early", number)
        return number

    def may_be_due(self, number, job):
        """As asked for; or, of a job with failures, when a time to run can have ended that began when it was due."""
        known = [due_ms for due_ms in (self.due[number], self.other[number]) if due_ms]
        ended = job.get("failures", 0) > 0 and min(known) + TTR_MS <= job["due_ms"] <= now_ms()
        return job["due_ms"] in known or ended

    def listed(self, job, asked_ms):
        number = self.number_of(job)
        if number is None:
            return 0
        self.seen(number, asked_ms)
        if not self.may_be_due(number, job):
            self.fault("moved", number)
        return number

    def count_lost(self, listed):
        for number in range(1, self.count() + 1):
            if not listed[number] and self.is_live(number):
                self.fault("lost", number)


# The negative control: each fault, planted, is found.


def _control_one(name):
    oracle = SoakOracle(1)
    number = oracle.attempt(now_ms() + (60_000 if name == "early" else -10))
    oracle.pushed(number)
    job = {"id": f"s{number}", "body": body_of(number, 3), "due_ms": oracle.due[number]}
    listed = bytearray(2)
    if name == "invented":
        job["body"] = body_of(number, 3) + "y"
    if name == "moved":
        job["due_ms"] += 1
    if name == "resurrected":
        oracle.trying_to_end(number)
        oracle.ended(number)
    if name in ("invented", "early", "resurrected", None):
        oracle.delivered(job, now_ms() + (1 if name == "resurrected" else -1))
    if name != "lost":
        listed[oracle.listed(job, now_ms() - 1000)] = 1
    if name == "twice":
        oracle.fault("twice", number)  # soak.py's listing tells it
    oracle.count_lost(listed)
    return {fault for fault, jobs in oracle.faults.items() if jobs}


def _control_moved(failures, moved_ms):
    """Is a job, due two times to run ago, taken for moved if it is listed with a due time so much later?"""
    oracle = SoakOracle(1)
    number = oracle.attempt(now_ms() - 2 * TTR_MS)
    oracle.pushed(number)
    oracle.trying_to_end(number)  # it was taken: that alone moves nothing
    oracle.listed({"id": f"s{number}", "due_ms": oracle.due[number] + moved_ms, "failures": failures}, now_ms())
    return bool(oracle.faults["moved"])


def _control_only_due():
    oracle = SoakOracle(1)
    number = oracle.attempt(5)
    before = oracle.only_due_ms(number)
    oracle.trying_to_move(number, 9)
    during = oracle.only_due_ms(number)
    oracle.move_answered(number, 200)
    return before, during, oracle.only_due_ms(number)


def control():
    """Raises if the oracle would miss a fault, or see one where there is none."""
    for name in (*FAULTS, None):
        found = _control_one(name)
        if found != ({name} if name else set()):
            raise AssertionError(f"the soak's oracle was shown {name} and saw {found}")
    for failures, moved_ms, wrong in ((1, TTR_MS, False), (1, TTR_MS + 500, False), (1, TTR_MS - 1, True),
                                      (1, 3 * TTR_MS, True), (0, TTR_MS, True), (1, -1, True), (1, 0, False)):
        if _control_moved(failures, moved_ms) != wrong:
            raise AssertionError(f"the soak's oracle, {failures} failures, due {moved_ms} ms later: not {wrong}")
    if _control_only_due() != (5, None, 9):
        raise AssertionError(f"the soak's oracle: due at {_control_only_due()}, not 5, unknown and 9")
