#!/usr/bin/python3
"""laterd's webhooks beside a bare libcurl multi loop: `make bench-push`.

What it does: `push_receiver` answers 200 to everything. `push_floor` posts COUNT bodies to it with
256 in flight, by libcurl's multi interface alone: the floor. Then as many jobs wait in laterd
(durability sync) in a topic whose target is paused; the pause ends, and the time runs until the
receiver has them all and none is left in laterd. They take turns, three times; figures are
medians. CPU is that of all threads of laterd, user and system, divided by the webhooks delivered.

due: 1,000 jobs fall due in each second; how late is the first byte of their request at the
receiver, on the same clock? Beside it, in the same run, how late a consumer that is parked in
reserve has a job: a program in Python, 25 jobs a second, so its own time is in it.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

IN_FLIGHT, BODY_BYTES = 256, 256


class Receiver:
    def __init__(self, build):
        self.process = subprocess.Popen([build / "bench/push_receiver"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = f"http://{self.process.stderr.readline().split()[1]}/hook"

    def told(self, word="c"):
        """'r' begins to count again, after it has told."""
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def wait(self, count, seconds=120):
        until = time.monotonic() + seconds
        while (told := self.told())["count"] < count:
            if time.monotonic() > until:
                sys.exit(f"push: {told['count']} of {count} came")
            time.sleep(0.005)
        return told

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)


class Laterd:
    """`push`: further keys of [push]."""

    def __init__(self, build, folder, **push):
        config = folder / "laterd.conf"
        config.write_text("[server]\nhttp = 127.0.0.1:0\nbeanstalk = none\nlog_level = info\n[push]\n"
                          "allow = 127.0.0.1\n"
                          + "".join(f"{key} = {value}\n" for key, value in push.items()))
        self.log = open(folder / "log", "w+", encoding="utf-8")
        self.process = subprocess.Popen([build / "laterd", "-c", config, "--data-dir",
                                         folder / "data"], stderr=self.log)
        until = time.monotonic() + 20
        while not (found := re.search(r"listening addr=(\S+)", (folder / "log").read_text())):
            if time.monotonic() > until:
                sys.exit("push: laterd did not start")
            time.sleep(0.02)
        self.base = f"http://{found[1]}"

    def ask(self, method, path, content=None):
        data = json.dumps(content).encode() if content is not None else None
        request = urllib.request.Request(self.base + path, data, method=method,
                                         headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def target(self, topic, url, paused):
        self.ask("PUT", f"/v1/topics/{topic}",
                 {"target": {"type": "http", "url": url}, "concurrency": IN_FLIGHT,
                  "paused": paused})

    def push(self, topic, count, **fields):
        for first in range(0, count, 1000):
            self.ask("POST", f"/v1/topics/{topic}/jobs",
                     [{"body": "x" * BODY_BYTES, **fields}] * min(1000, count - first))

    def cpu_s(self):
        words = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def left(self, topic):
        counts = self.ask("GET", f"/v1/topics/{topic}")
        return sum(counts.get(state, 0) for state in ("ready", "delayed", "reserved", "buried"))

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def floor(build, receiver, count):
    told = json.loads(subprocess.run([build / "bench/push_floor", receiver.url, str(count),
                                      str(IN_FLIGHT), str(BODY_BYTES)], check=True,
                                     capture_output=True, text=True).stdout)
    return told["posts_s"], told["cpu_us"]


def drain(laterd, receiver, topic, count):
    laterd.target(topic, receiver.url, True)
    laterd.push(topic, count)
    receiver.told("r")
    cpu, begun = laterd.cpu_s(), time.monotonic()
    laterd.target(topic, receiver.url, False)
    receiver.wait(count)
    took = time.monotonic() - begun
    while laterd.left(topic):
        time.sleep(0.005)
    return count / took, (laterd.cpu_s() - cpu) * 1e6 / count


def fall_due(laterd, topic, seconds, rate):
    """Pushes jobs that are due from 3 s from now on, evenly."""
    start_ms = int(time.time() * 1000) + 3000
    per_ms = rate / 1000
    jobs = [{"body": "x" * BODY_BYTES, "due": start_ms + int(number / per_ms)}
            for number in range(seconds * rate)]
    for first in range(0, len(jobs), 1000):
        laterd.ask("POST", f"/v1/topics/{topic}/jobs", jobs[first:first + 1000])
    if time.time() * 1000 > start_ms:
        sys.exit("push: pushing took longer than 3 s")
    return len(jobs)


def consume(laterd, topic, count):
    """A parked consumer: how late it has each job, in µs, on its own clock."""
    late, finishing = [], []
    while len(late) < count:
        answer = laterd.ask("POST", "/v1/reserve", {"topics": [topic], "wait": "10s", "max": 1})
        if not answer:
            break
        now_ms = time.time() * 1000
        for job in answer["jobs"]:
            late.append((now_ms - job["due_ms"]) * 1000)
            finishing.append(threading.Thread(target=laterd.ask, args=(
                "POST", f"/v1/jobs/{job['id']}/finish", {"lease": job["lease"]})))
            finishing[-1].start()
    for thread in finishing:
        thread.join()
    return late


def verdict(name, value, bar, good):
    """Says whether the bar is met; returns that, too."""
    print(f"{name:<52}{value:>12}   bar {bar:<18}{'met' if good else 'MISSED'}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--count", default=20000, type=int)
    parser.add_argument("--repeats", default=3, type=int)
    parser.add_argument("--seconds", default=5, type=int, help="of jobs that fall due")
    options = parser.parse_args()
    receiver = Receiver(options.build)
    floors, pushes = [], []
    with tempfile.TemporaryDirectory() as folder:
        laterd = Laterd(options.build, pathlib.Path(folder), concurrency=IN_FLIGHT,
                        host_concurrency=IN_FLIGHT)
        for turn in range(options.repeats):
            floors.append(floor(options.build, receiver, options.count))
            pushes.append(drain(laterd, receiver, f"drain{turn}", options.count))
        laterd.target("due", receiver.url, False)
        receiver.told("r")
        due = receiver.wait(fall_due(laterd, "due", options.seconds, 1000))
        count = fall_due(laterd, "parked", 4, 25)  # few: the consumer is a slow program
        parked = statistics.median(consume(laterd, "parked", count))
        laterd.stop()
    receiver.stop()
    rate, cpu = (statistics.median(column) for column in zip(*pushes))
    floor_rate, floor_cpu = (statistics.median(column) for column in zip(*floors))
    print(f"floor: {floor_rate:.0f} posts/s, {floor_cpu:.1f} µs of CPU each, {IN_FLIGHT} in flight")
    good = [
        verdict("webhooks/s", f"{rate:.0f}", "0.7 of the floor", rate >= 0.7 * floor_rate),
        verdict("CPU per webhook, µs", f"{cpu:.1f}", "1.5 of the floor", cpu <= 1.5 * floor_cpu),
        verdict("due to first byte at 1,000/s, p50, ms", f"{due['p50_us'] / 1000:.2f}",
                f"{parked / 1000:.2f} + 1", due["p50_us"] <= parked + 1000),
        verdict("due to first byte at 1,000/s, p99, ms", f"{due['p99_us'] / 1000:.2f}", "10",
                due["p99_us"] <= 10000)]
    print(f"(parked consumer, in Python, p50 {parked / 1000:.2f} ms)")
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
