#!/usr/bin/python3
"""The same random commands to Debian's beanstalkd and to laterd, in lock-step; answers word by word.

A sequence is a list of steps made from a seed before anything is sent, so it can be run again and
shrunk. A step names jobs by the order of their INSERTED, and is sent to both servers; then every
answer is read from both and compared. What differs for a reason is in divergences.py, and nothing
else may.

    differential.py --seconds 60 [--seed N] [--only]

In these sequences nothing falls due while they run; one is not judged when the machine was so slow
that something may have. What falls due is told by the stories in stories.py.
"""

import argparse
import collections
import os
import random
import re
import select
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "test", "harness"))

import divergences  # noqa: E402
from beanstalk import Answer, Beanstalkd, Connection, Gone, command  # noqa: E402
from patience import PATIENCE_S  # noqa: E402
from process import Laterd  # noqa: E402

BODY_BYTES = 1000  # the limit both servers are started with
CONNECTIONS = 3
KEEPER = CONNECTIONS  # one more, which keeps tubes, looks whether others are gone, cleans up
SLOW_S = 0.6  # a sequence that took longer than this may have seen a ttr of 1 s end

ID = re.compile(r"(INSERTED |RESERVED |FOUND |^OK id=)(\d+)")

# One step: `sent` goes out on `connection` in one piece and asks `answers` commands; or an act of
# the connection itself. `{0}` … in a line is the id of a job of this sequence.
Step = collections.namedtuple("Step", "connection act lines bodies")


class Mismatch(Exception):
    """Both answered, and not the same."""


class TooSlow(Exception):
    """The machine was so busy that what fell due when is not known: nothing can be said."""


# ---- making a sequence ----

NAMES = ["a", "b", "default"]
ABSURD_IDS = ["0", "999999999", "18446744073709551615", "18446744073709551616", "-1", "x", "",
              "1x", "01x", "99999999999999999999999"]
NO_ID = "999999998"  # a job of a sequence that has put none; 1 may be the first one's
MALFORMED = [
    "bogus", "", " ", "put", "put 1", "put 1 1 1", "put a 0 1 1", "put 1 b 1 1", "put 1 1 1 x",
    "put -1 0 1 1", "put 4294967296 0 1 1", "put 0 4294967296 1 1", "put 0 0 4294967296 1",
    "PUT 0 0 0 0", "use", "use ", "use -a", "use a b", "use a\tb", "use \xe9", "use a,b",
    "watch", "watch -a", "watch a b", "ignore", "ignore -a", "reserve x", "reserved", "reserve ",
    "reserve-with-timeout", "reserve-with-timeout x", "reserve-with-timeout 0 0", "delete",
    "release 1", "release 1 1", "release x 1 1", "release 1 x 1", "release 1 1 x", "bury 1",
    "bury x 1", "bury 1 x", "touch", "touch x", "peek", "peek x", "peek-ready x", "peek-x",
    "kick", "kick x", "kick-job", "kick-job x", "stats-job", "stats-job x", "stats-tube",
    "stats-tube -a", "stats x", "list-tubes x", "list-tube-used x", "list-tubes-watched x",
    "pause-tube", "pause-tube a", "pause-tube a x", "kick -1", "kick 1 1",
    "x" * 222, "x" * 500, "use " + "n" * 200, "use " + "n" * 201,
    "watch " + "n" * 218, "delete " + "1" * 230,
]


class Maker:
    """Makes the steps of one timeless sequence. Every other one pauses tubes; in those a connection
    that sends nothing keeps the tubes, since a paused tube outlives its users in laterd only."""

    def __init__(self, seed):
        self.random, self.pauses = random.Random(seed), seed % 2 == 0

    def put(self):
        rng = self.random
        delay = rng.choice([0, 0, 0, 3600, 4000, 2 ** 32 - 1])
        ttr = rng.choice([0, 1, 60, 60, 3600, 2 ** 32 - 1])
        priority = rng.choice([0, 1, 1, 1023, 1024, 2 ** 32 - 1])
        length = rng.choice([0, 1, 5, 30, BODY_BYTES - 1, BODY_BYTES])
        body = bytes(rng.choice(b"abc\r\n\0 ") for _ in range(length))
        return f"put {priority} {delay} {ttr} {length}", body

    def put_wrong(self):
        """Bodies too large, and bodies that do not end where they should."""
        rng = self.random
        kind = rng.choice(["large", "larger", "unended"])
        if kind == "unended":
            return "put 0 0 60 3", rng.choice([b"abcde", b"abcdef", b"abcdelist-tube-used"])
        length = BODY_BYTES + 1 if kind == "large" else rng.choice([BODY_BYTES + 500, 40000])
        return f"put 0 0 60 {length}", b"delete 1\r\nx"[:length].ljust(length, b"y")

    def job(self):
        rng = self.random
        return "{%d}" % rng.randrange(12) if rng.random() < 0.93 else rng.choice(ABSURD_IDS)

    def line(self):
        rng, tube, job = self.random, self.random.choice(NAMES), self.job()
        delay = rng.choice([0, 0, 3600])
        priority = rng.choice([0, 1, 2000])
        kinds = [
            (12, "reserve-with-timeout 0"), (6, f"reserve-job {job}"), (8, f"delete {job}"),
            (7, f"release {job} {priority} {delay}"), (6, f"bury {job} {priority}"),
            (3, f"touch {job}"), (4, f"peek {job}"), (3, "peek-ready"), (3, "peek-delayed"),
            (3, "peek-buried"), (3, f"kick {rng.choice([0, 1, 2, 100])}"), (3, f"kick-job {job}"),
            (8, f"stats-job {job}"), (5, f"stats-tube {tube}"), (2, "stats-tube nowhere"),
            (5, f"use {tube}"), (5, f"watch {tube}"), (4, f"ignore {tube}"), (2, "list-tubes"),
            (2, "list-tube-used"), (2, "list-tubes-watched"), (3, "stats"),
            (3 if self.pauses else 0, f"pause-tube {tube} {rng.choice([0, 3600])}"),
            (1, "pause-tube nowhere 1"),
        ]
        return rng.choices([line for _, line in kinds], [weight for weight, _ in kinds])[0]

    def one(self):
        """(line, body) of one command."""
        dice = self.random.random()
        if dice < 0.25:
            return self.put()
        if dice < 0.28:
            return self.put_wrong()
        if dice < 0.33:
            return self.random.choice(MALFORMED), None
        return self.line(), None

    def step(self):
        rng, connection = self.random, self.random.randrange(CONNECTIONS)
        dice = rng.random()
        if dice < 0.03:
            return Step(connection, "close", (), ())
        if dice < 0.04:
            return Step(connection, "quit", (), ())
        if dice < 0.06:
            return Step(connection, "wait", ("reserve",), (None,))
        count = rng.choice([1, 1, 1, 1, 2, 5])
        commands = [self.one() for _ in range(count)]
        return Step(connection, "ask", tuple(line for line, _ in commands),
                    tuple(body for _, body in commands))

    def steps(self, count):
        steps = [self.step() for _ in range(count)]
        if self.pauses:
            kept = [f"watch {tube}" for tube in NAMES]
            steps.insert(0, Step(KEEPER, "ask", tuple(kept), (None,) * len(kept)))
        return steps


def delays(line):
    """Does the command make a job wait?"""
    words = line.split(" ")
    place = {"put": 2, "release": 3}.get(words[0], 0)
    return 0 < place < len(words) and words[place] not in ("0", "")


# ---- running it ----


class Side:
    """One server's half of a run: its connections, the ids it gave, what it was sent."""

    def __init__(self, port, prefix):
        self.port, self.prefix, self.ids = port, prefix, []
        self.connections = [self.open() for _ in range(CONNECTIONS + 1)]

    def open(self):
        return Connection(self.port)

    def text(self, line):
        """The line with ids and this sequence's own tubes filled in."""
        for at in range(12):
            if "{%d}" % at in line:
                line = line.replace("{%d}" % at, str(self.ids[at % len(self.ids)]
                                                     if self.ids else NO_ID))
        words = line.split(" ")
        if len(words) > 1 and words[0] in ("use", "watch", "ignore", "stats-tube", "pause-tube") \
                and words[1] in ("a", "b", "nowhere"):
            words[1] = self.prefix + words[1]
        return " ".join(words)

    def bytes(self, step):
        return b"".join(command(self.text(line), body)
                        for line, body in zip(step.lines, step.bodies))

    def read(self, connection):
        try:
            answer = self.connections[connection].answer()
        except Gone:
            return Answer(b"(closed)")
        if answer.word == "INSERTED":
            self.ids.append(answer.number)
        return answer

    def ordinal(self, text):
        """The first id in an answer as the how manieth of this sequence."""
        return ID.sub(lambda found: f"{found[1]}#{self.ids.index(int(found[2]))}"
                      if int(found[2]) in self.ids else found[0], text, count=1)

    def seen(self, timeout, connection):
        """Has the connection anything to read?"""
        one = self.connections[connection]
        return bool(one.kept) or bool(select.select([one.socket], [], [], timeout)[0])

    def reopen(self, connection, orderly):
        """Closes it, waits until the server has noticed, opens another, waits until it is counted as a user of tubes."""
        held = self.connections[connection]
        if orderly:
            held.send("quit\r\n")
            held.closed()
        held.close()
        self.wait_connections(CONNECTIONS)
        self.connections[connection] = self.open()
        self.wait_connections(CONNECTIONS + 1)

    def wait_connections(self, count):
        """Waits until the server has noticed who came and who went."""
        end = time.monotonic() + PATIENCE_S
        while int(self.connections[KEEPER].stats()["current-connections"]) != count:
            assert time.monotonic() < end, "a closed connection still counts"

    def wait_parked(self, connection):
        """Waits until the server has answered the reserve, or keeps it: what others ask then comes after it."""
        end = time.monotonic() + PATIENCE_S
        while not self.seen(0, connection) and self.connections[KEEPER].stats()["current-waiting"] == "0":
            assert time.monotonic() < end, "a reserve is neither answered nor waits"

    def fini(self):
        """Leaves the server as empty as it was."""
        for at, one in enumerate(self.connections[:KEEPER]):
            one.socket.settimeout(0.5)
            try:
                one.end_sending()
                while self.read(at).line != b"(closed)":
                    pass  # jobs that were put after the answers differed are to be deleted too
            except OSError:
                pass
            one.close()
        keeper = self.connections[KEEPER]
        self.wait_connections(1)  # now nothing is held
        for job_id in self.ids:
            keeper.ask(f"delete {job_id}")
        for tube in NAMES:
            keeper.ask(self.text(f"use {tube}"))
            keeper.ask(self.text(f"pause-tube {tube} 0"))
        keeper.close()


class Run:
    """One sequence, both sides. `told` is what was sent and answered, for a person to read."""

    def __init__(self, steps, ports, prefix):
        self.tubes_kept = any(step.connection == KEEPER for step in steps)
        self.sides = [Side(port, prefix) for port in ports]
        self.waiting, self.told = None, []
        for side in self.sides:
            side.wait_connections(CONNECTIONS + 1)
        # Of sequences before, some of which may have been too slow: then only one counts a timeout.
        self.timeouts = [int(side.connections[KEEPER].stats()["job-timeouts"])
                         for side in self.sides]
        self.began = time.monotonic()

    def normal(self, line, answers):
        told = [divergences.normal(line, answer, self.tubes_kept) for answer in answers]
        return [re.sub(r"(?<=job-timeouts=)\d+", lambda found, own=own: str(int(found[0]) - own), text)
                for own, text in zip(self.timeouts, told)]

    def compare(self, line, answers):
        told = self.normal(line, answers)
        # A sequence that differed may have left the servers with different counts of jobs: an id
        # says which job of this sequence it is.
        told = [side.ordinal(text) for side, text in zip(self.sides, told)]
        self.told.append(f"  {line[:100]!r} -> {told[0]}"
                         + ("" if told[0] == told[1] else f"\n      laterd: {told[1]}"))
        if told[0] == told[1]:
            return
        if line == "stats" and Laterd.redis_url and self.stats_alike(10):
            raise TooSlow("\n".join(self.told))
        raise Mismatch("\n".join(self.told))

    def stats_alike(self, seconds):
        """Are they the same a while later? On Redis sums that took laterd long are shown again for
        twenty times as long, and Redis does take long when the machine is busy."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            told = self.normal("stats", [side.connections[KEEPER].ask("stats")
                                         for side in self.sides])
            if told[0] == told[1]:
                return True
            time.sleep(0.1)
        return False

    def both(self, connection, line):
        self.compare(line, [side.read(connection) for side in self.sides])

    def settle(self, seconds=0.0):
        """If a waiting reserve was answered by one, the other has to answer too."""
        if self.waiting is None:
            return
        connection, line = self.waiting
        if any([side.seen(seconds, connection) for side in self.sides]):
            self.waiting = None
            self.both(connection, line)

    def step(self, step):
        if self.waiting and (self.waiting[0] == step.connection) != (step.act in ("close", "quit")):
            return  # it waits; or somebody would give back several jobs at once: see whole-turns
        self.told.append(f"{step.connection} {step.act}")
        if step.act in ("close", "quit"):
            # While it waits nobody reads its quit.
            orderly = step.act == "quit" and self.waiting is None
            self.waiting = None  # it was this one that waited, if any did
            for side in self.sides:
                side.reopen(step.connection, orderly)
        elif step.act == "wait":
            if self.waiting is None:  # who of several is served first is not told by the protocol
                self.send(step)
                for side in self.sides:
                    side.wait_parked(step.connection)
                self.waiting = step.connection, step.lines[0]
                self.settle(0.02)
        elif self.waiting or self.tie(step):  # one by one: see whole-turns
            for line, body in zip(step.lines, step.bodies):
                if not (self.waiting and line in ("kick 2", "kick 100", "kick -1")):
                    self.ask(Step(step.connection, "ask", (line,), (body,)))
                    self.settle(0.01)
        else:
            self.ask(step)

    @staticmethod
    def tie(step):
        """Would laterd have jobs due in one microsecond, and another order than that of the
        commands? It is that of their numbers then, on Redis that of their priorities."""
        delayed = [line for line in step.lines if delays(line)]
        return len(delayed) > 1 and (Laterd.redis_url
                                     or any(line.startswith("release") for line in delayed))

    def ask(self, step):
        self.send(step)
        for line, body in zip(step.lines, step.bodies):
            self.answers_to(step.connection, line, body)

    def send(self, step):
        for side in self.sides:
            side.connections[step.connection].send(side.bytes(step))

    def answers_to(self, connection, line, body):
        self.both(connection, line)
        # What a body that does not end in CR LF leaves behind is a line of its own.
        for rest in divergences.left_behind(line, body):
            self.both(connection, f"(rest) {rest!r}")

    def judged(self):
        """Was it quick enough that nothing can have fallen due?"""
        return time.monotonic() - self.began < SLOW_S

    def fini(self):
        for side in self.sides:
            side.fini()


def run(steps, ports, prefix):
    """None, the Mismatch, or TooSlow."""
    one = Run(steps, ports, prefix)
    try:
        for step in steps:
            one.step(step)
            if not one.judged():
                return TooSlow(f"too slow after {len(one.told)} lines")
    except Mismatch as mismatch:
        return mismatch if one.judged() else TooSlow(str(mismatch))
    except TooSlow as late:
        return late
    except OSError as error:
        return Mismatch("\n".join([*one.told, repr(error)]))
    finally:
        one.fini()
    return None


def shrink(steps, fails, tries=150):
    """Fewer steps that still fail."""
    size = max(1, len(steps) // 2)
    while size and tries > 0:
        at = 0
        while at < len(steps) and tries > 0:
            fewer = steps[:at] + steps[at + size:]
            tries -= 1
            if fewer and fails(fewer):
                steps = fewer
            else:
                at += size
        size //= 2
    return steps


class Pair:
    """Both servers, started with the same limits."""

    def __init__(self, folder):
        self.first = Beanstalkd("-z", BODY_BYTES)
        # On Redis the order over several tubes is exact in one partition.
        self.second = Laterd(folder, {"beanstalk": {"job_bytes": BODY_BYTES},
                                      "redis": {"partitions": 1}}, beanstalk=["127.0.0.1:0"])
        self.runs = self.judged = 0

    @property
    def ports(self):
        return self.first.beanstalk_port, self.second.beanstalk_port

    def prefix(self):
        self.runs += 1
        return f"s{self.runs}-"

    def __enter__(self):
        self.first.start()
        self.second.start()
        return self

    def __exit__(self, *_):
        self.first.kill()
        self.second.kill()

    def check(self, seed, count=40):
        """Runs the sequence of the seed; raises the smallest mismatch found."""
        steps = Maker(seed).steps(count)
        found = run(steps, self.ports, self.prefix())
        self.judged += not isinstance(found, TooSlow)
        if isinstance(found, Mismatch):
            def differs(fewer):
                return isinstance(run(fewer, self.ports, self.prefix()), Mismatch)

            least = run(shrink(steps, differs), self.ports, self.prefix())
            raise Mismatch(f"seed {seed}:\n{least if isinstance(least, Mismatch) else found}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="the first one")
    parser.add_argument("--only", action="store_true", help="just this seed, and its steps")
    options = parser.parse_args()
    first = options.seed if options.seed is not None else int.from_bytes(os.urandom(3), "big")
    end, seed = time.monotonic() + options.seconds, first
    print(f"differential: from seed {first}", flush=True)
    with tempfile.TemporaryDirectory() as folder, Pair(folder) as pair:
        try:
            while time.monotonic() < end:
                pair.check(seed)
                seed += 1
                if options.only:
                    break
        except Mismatch as mismatch:
            print(mismatch)
            return 1
    print(f"differential: {pair.judged} sequences from seed {first}: no difference without a reason")
    return 0


if __name__ == "__main__":
    sys.exit(main())
