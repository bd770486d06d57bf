#!/usr/bin/python3
"""One receiver must not feel another: `make bench-push-fairness`, about 4 minutes.

What it does: the fast receiver answers 200 at once, 200 jobs fall due for it in each second, and it
notes on its own clock how late the first byte of each request is. It is alone, then beside one that
hangs and one that answers 500, each with jobs enough to be tried without a pause, in one laterd with
the settings that it has from the start. They take turns; of each the best one counts, for what else
the machine does only makes them worse. The same once more, without a bar, without the circuit
breaker, which leaves those two alone after ten failures: then the one that fails is sent as much as
it can answer, and has a core to itself, so on two cores that is the processor's share, too.

Then 100,000 jobs fall due at once for a receiver whose topic is limited to 50/s: what laterd's memory
does, how many the receiver gets, and how late the fast one's are meanwhile.
"""

import argparse
import asyncio
import pathlib
import sys
import tempfile
import threading
import time

from push import BODY_BYTES, Laterd, Receiver, fall_due, verdict

RATE = 200


class Bad(threading.Thread):
    """A receiver on a thread of its own; `answer`: what it says to each request, or nothing."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        self.answer, self.count = answer, 0
        self.loop, self.started, self.url = asyncio.new_event_loop(), threading.Event(), None
        self.start()
        self.started.wait(10)

    def run(self):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        self.started.set()
        self.loop.run_forever()

    async def _serve(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r")[0]))
                self.count += 1
                if self.answer:
                    writer.write(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % self.answer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


def rss_mb(laterd):
    status = pathlib.Path(f"/proc/{laterd.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def late(laterd, receiver, seconds):
    """How late the fast one's requests are: p50, p99 in ms."""
    receiver.told("r")
    told = receiver.wait(fall_due(laterd, "fast", seconds, RATE))
    return told["p50_us"] / 1000, told["p99_us"] / 1000


def set_bad(laterd, bad, paused):
    for topic, receiver in bad.items():
        laterd.ask("PUT", f"/v1/topics/{topic}",
                   {"target": {"type": "http", "url": receiver.url, "timeout": "1s"},
                    "retry": ["100ms"] * 64, "paused": paused})


def beside_bad_ones(options, receiver, **push):
    """(alone, beside them), each p50 and p99; and how many requests the bad ones got."""
    bad = {"hangs": Bad(None), "fails": Bad(b"500 No")}
    alone, beside = [], []
    with tempfile.TemporaryDirectory() as folder:
        laterd = Laterd(options.build, pathlib.Path(folder), **push)
        laterd.target("fast", receiver.url, False)
        set_bad(laterd, bad, True)
        for topic in bad:
            laterd.push(topic, 5000)
        late(laterd, receiver, 2)  # warm
        for _ in range(options.repeats):
            alone.append(late(laterd, receiver, options.seconds))
            set_bad(laterd, bad, False)
            beside.append(late(laterd, receiver, options.seconds))
            set_bad(laterd, bad, True)
            time.sleep(2)  # what hangs ends
        laterd.stop()
    best = [[min(column) for column in zip(*rows)] for rows in (alone, beside)]
    return *best, {topic: receiver.count for topic, receiver in bad.items()}


def tell_beside(name, options, receiver, bar=True, **push):
    """Is the bar met, if there is one?"""
    alone, beside, counts = beside_bad_ones(options, receiver, **push)
    print(f"{name}: alone p50 {alone[0]:.2f} p99 {alone[1]:.2f} ms, beside them p50 {beside[0]:.2f} "
          f"p99 {beside[1]:.2f} ms; "
          f"{counts['hangs']} requests to the one that hangs, {counts['fails']} to the one that fails")
    return not bar or verdict("  p99 beside them, ms", f"{beside[1]:.2f}", f"{alone[1]:.2f} * 1.1",
                              beside[1] <= 1.1 * alone[1])


def all_at_once(options, receiver):
    """100,000 jobs, due at once, 50 a second. Are the bars met?"""
    limited = Bad(b"200 OK")
    with tempfile.TemporaryDirectory() as folder:
        laterd = Laterd(options.build, pathlib.Path(folder))
        laterd.target("fast", receiver.url, False)
        laterd.ask("PUT", "/v1/topics/limited", {"target": {"type": "http", "url": limited.url},
                                                 "rate": "50/s", "burst": 50})
        due_ms = int(time.time() * 1000) + options.lead * 1000
        for _ in range(100):
            laterd.ask("POST", "/v1/topics/limited/jobs",
                       [{"body": "x" * BODY_BYTES, "due": due_ms}] * 1000)
        alone = late(laterd, receiver, options.seconds)
        before = rss_mb(laterd)
        left_s = due_ms / 1000 - time.time()
        if left_s < 0:
            sys.exit("push_fairness: --lead is too short")
        time.sleep(max(0, left_s - 4))  # fall_due() begins 3 s from now: before, at, and after it
        beside = late(laterd, receiver, options.seconds)
        count, begun, most = limited.count, time.monotonic(), rss_mb(laterd)
        for _ in range(options.seconds * 2):
            time.sleep(0.5)
            most = max(most, rss_mb(laterd))
        rate = (limited.count - count) / (time.monotonic() - begun)
        laterd.stop()
    print(f"100,000 due at once, 50/s: the fast one alone p50 {alone[0]:.2f} p99 {alone[1]:.2f} ms, "
          f"meanwhile p50 {beside[0]:.2f} ms; memory before {before:.1f} MB")
    return all([
        verdict("  p99 of the fast one meanwhile, ms", f"{beside[1]:.2f}", "10", beside[1] <= 10),
        verdict("  memory at most, MB", f"{most:.1f}", "10 % more", most <= 1.1 * before),
        verdict("  the limited receiver got, a second", f"{rate:.1f}", "45 to 55", 45 <= rate <= 55)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--repeats", default=5, type=int)
    parser.add_argument("--seconds", default=5, type=int)
    parser.add_argument("--lead", default=40, type=int, help="seconds to push 100,000 jobs in")
    options = parser.parse_args()
    receiver = Receiver(options.build)
    good = [tell_beside("as shipped", options, receiver),
            tell_beside("without the breaker", options, receiver, bar=False, breaker_failures=1000000),
            all_at_once(options, receiver)]
    receiver.stop()
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
