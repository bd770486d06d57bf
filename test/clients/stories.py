"""What happens in time, one or two seconds at a time, as stories told to both servers.

A row is a connection and what it sends; `waits` reads no answer until there is one; a beat is
0.75 s, so that what takes one or two seconds never ends near a beat. Jobs are {0}, {1} … in the
order of their puts. Every connection uses and watches only the story's own tube `a`.

All stories are told side by side, to laterd once and to beanstalkd several times: beanstalkd 1.12
often gives a job whose ttr is over back late (see late-ttr in divergences.py). What laterd answered
must be what one of the beanstalkds answered.
"""

import threading
import time

import divergences
from differential import Side, Step, TooSlow

BEAT_S = 0.75
SLOW_BEAT_S = 0.2  # a beat's commands must be done by then: what they start ends 0.25 s off a beat

STORIES = {
    "a delayed job becomes ready in its time": """
        0 put 0 1 60
        0 put 0 2 60
        0 peek-delayed
        0 stats-job {0}
        0 reserve-with-timeout 0
        beat
        0 stats-job {0}
        0 reserve-with-timeout 0
        beat
        0 stats-job {0}
        0 peek-delayed
        0 peek-ready
        0 reserve-with-timeout 0
        0 reserve-with-timeout 0
        0 stats-tube a
        beat
        0 reserve-with-timeout 0
        0 stats-tube a
    """,
    "a waiting client is woken by what falls due": """
        0 put 0 1 60
        1 waits reserve
        beat
        0 stats-tube a
        0 stats-job {0}
        beat
        0 stats-tube a
        1 delete {0}
    """,
    "a wait ends": """
        0 waits reserve-with-timeout 1
        1 waits reserve-with-timeout 2
        beat
        2 stats-tube a
        beat
        2 stats-tube a
        beat
        2 stats-tube a
    """,
    "a job comes back when its time to run is over": """
        0 put 5 0 1
        0 reserve-with-timeout 0
        1 reserve-with-timeout 0
        1 delete {0}
        beat
        0 stats-job {0}
        beat
        0 stats-job {0}
        0 touch {0}
        0 release {0} 0 0
        0 bury {0} 0
        1 reserve-with-timeout 0
        1 stats-job {0}
        1 delete {0}
    """,
    "ttr 0 is ttr 1": """
        0 put 0 0 0
        0 stats-job {0}
        0 reserve-with-timeout 0
        beat
        0 stats-job {0}
        beat
        0 stats-job {0}
    """,
    "a touch starts the time to run again": """
        0 put 0 0 2
        0 reserve-with-timeout 0
        beat
        0 touch {0}
        beat
        0 touch {0}
        beat
        0 stats-job {0}
        0 touch {0}
        beat
        0 stats-job {0}
        0 delete {0}
    """,
    "the safety margin ends a wait that has begun": """
        0 put 0 0 2
        0 reserve-with-timeout 0
        0 waits reserve
        beat
        1 stats-job {0}
        beat
        1 stats-job {0}
        0 stats-job {0}
        0 release {0} 7 0
        0 reserve-with-timeout 0
    """,
    "in the safety margin nobody is made to wait": """
        0 put 0 0 1
        0 reserve-with-timeout 0
        0 reserve-with-timeout 0
        0 reserve-with-timeout 100
        0 put 9 0 60
        0 reserve-with-timeout 0
        0 stats-job {1}
    """,
    "a job that comes back serves a waiting client": """
        0 put 0 0 1
        0 reserve-with-timeout 0
        1 waits reserve
        beat
        2 stats-tube a
        beat
        2 stats-job {0}
        1 release {0} 0 0
    """,
    "release with a delay": """
        0 put 0 0 60
        0 reserve-with-timeout 0
        0 release {0} 3 1
        0 stats-job {0}
        0 reserve-with-timeout 0
        beat
        0 stats-job {0}
        beat
        0 stats-job {0}
        0 reserve-with-timeout 0
        0 stats-job {0}
    """,
    "a pause ends": """
        0 put 0 0 60
        0 pause-tube a 1
        0 stats-tube a
        0 peek-ready
        0 reserve-with-timeout 0
        0 waits reserve
        beat
        1 reserve-job {0}
        1 release {0} 0 0
        beat
        1 stats-job {0}
    """,
    "a job falls due in a paused tube": """
        0 put 0 1 60
        0 pause-tube a 2
        beat
        beat
        0 stats-job {0}
        0 reserve-with-timeout 0
        beat
        0 reserve-with-timeout 0
        0 stats-tube a
    """,
    "a pause is over at once when it is set to nothing": """
        0 pause-tube a 100
        0 put 0 0 60
        1 waits reserve
        0 pause-tube a 0
        beat
        1 delete {0}
        0 stats-tube a
    """,
    "a buried job has no time to run": """
        0 put 0 0 1
        0 reserve-with-timeout 0
        0 bury {0} 4
        beat
        beat
        0 stats-job {0}
        0 peek-buried
        0 kick 1
        0 stats-job {0}
        0 reserve-with-timeout 0
    """,
    "kicked before it is due": """
        0 put 0 2 60
        0 put 0 1 60
        0 kick 1
        0 peek-ready
        0 kick-job {0}
        0 kick 1
        beat
        0 stats-job {0}
        0 stats-job {1}
        beat
        0 stats-tube a
    """,
    "what a client held is back when it leaves": """
        0 put 0 0 60
        0 put 1 0 60
        0 reserve-with-timeout 0
        0 reserve-with-timeout 0
        1 waits reserve
        0 close
        beat
        1 stats-job {0}
        1 stats-job {1}
    """,
    "a wait is given up": """
        0 waits reserve
        0 close
        0 put 0 0 60
        beat
        0 stats-tube a
        0 reserve-with-timeout 0
    """,
    "reserve-job takes what is not due, and its delay is over": """
        0 put 0 1 60
        0 reserve-job {0}
        beat
        beat
        0 stats-job {0}
        0 release {0} 0 0
        0 reserve-with-timeout 0
    """,
}


def story(text):
    """The steps of a story; a put's row is without its length."""
    steps = []
    for row in text.strip().splitlines():
        words = row.split()
        if words == ["beat"]:
            steps.append(Step(0, "beat", (), ()))
            continue
        act = words[1] if words[1] in ("waits", "close") else "ask"
        line = " ".join(words[1 if act == "ask" else 2:])
        body = b"abc" if line.startswith("put") else None
        steps.append(Step(int(words[0]), act, (line + " 3" if body else line,), (body,)))
    return steps


class Listener(Side):
    """Somebody who is told a story; `told` is what was sent and answered."""

    def __init__(self, port, prefix):
        super().__init__(port, prefix)
        self.told, self.waiting, self.began, self.beats = [], {}, time.monotonic(), 0

    def open(self):
        one = super().open()
        for line in ("use a", "watch a", "ignore default"):
            one.ask(self.text(line))
        return one

    def hear(self, connection, line):
        answer = divergences.normal(line, self.read(connection))
        self.told.append(f"  {line!r} -> {self.ordinal(answer)}")

    def settle(self):
        for connection, line in sorted(self.waiting.items()):
            if self.seen(0, connection):
                del self.waiting[connection]
                self.hear(connection, line)

    def step(self, step):
        if time.monotonic() - self.began - self.beats * BEAT_S > SLOW_BEAT_S:
            raise TooSlow(f"at {self.beats * BEAT_S} s")
        if step.act == "beat":
            self.beats += 1
            time.sleep(max(0, self.began + self.beats * BEAT_S - time.monotonic()))
            self.told.append(f"{self.beats * BEAT_S} s")
            self.settle()
        elif step.act == "close":
            self.waiting.pop(step.connection, None)
            self.connections[step.connection].close()
            time.sleep(0.05)  # until the server has noticed
            self.connections[step.connection] = self.open()
        elif step.connection in self.waiting:
            self.told.append(f"  {step.connection} still waits")
        else:
            self.connections[step.connection].send(self.bytes(step))
            if step.act == "waits":
                self.waiting[step.connection] = step.lines[0]
            else:
                self.hear(step.connection, step.lines[0])

    def fini(self):
        for one in self.connections:
            one.close()


def tell(text, port, prefix):
    """What was sent and answered, as text; or TooSlow."""
    listener = Listener(port, prefix)
    try:
        for step in story(text):
            listener.step(step)
    except TooSlow as slow:
        return slow
    except (OSError, AssertionError) as error:
        listener.told.append(repr(error))
    finally:
        listener.fini()
    return "\n".join(listener.told)


def tell_all(stories, ports, prefix):
    """{name: [what the server of each port answered]}"""
    heard = {name: [None] * len(ports) for name in stories}

    def one(name, at):
        heard[name][at] = tell(stories[name], ports[at], f"{prefix}{list(STORIES).index(name)}-")

    threads = [threading.Thread(target=one, args=(name, at))
               for name in stories for at in range(len(ports))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return heard


def check(laterd, beanstalkds, tries=8):
    """{name: [laterd's answers, one beanstalkd's]} of the stories that differ; TooSlow in place of
    answers when the machine was too busy to tell. A story that differs is told again: all the
    beanstalkds may have been late."""
    left = dict(STORIES)
    for count in range(tries):
        heard = tell_all(left, [laterd, *beanstalkds], f"story{count}-")
        left = {name: STORIES[name] for name, (ours, *theirs) in heard.items()
                if isinstance(ours, TooSlow) or ours not in theirs}
        if not left:
            break
    return {name: heard[name][:2] for name in left}
