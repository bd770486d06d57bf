#!/usr/bin/python3
"""A long load with a horizon, killed every minute: `make soak`. Nothing lost, memory and disk flat, turns short.

The load is a fifth of the puts a second that the machine does in `later bench put` (`--rate` to tell another).
Delays are from a second to thirty days, each doubling as likely as the next; of as many jobs as 30 % of the puts
are cancelled, 10 % rescheduled, chosen among all that live, and what falls due is taken and finished, but for 3 %, which are
buried and stay: as more than `--buried-in-memory` are, they leave for slices of their own. Every minute
laterd is killed with kill -9 and started again. At the end all jobs are listed and compared, one by one, and `later verify`
reads the store.

The number of jobs that wait grows, since most delays are longer than the soak. So flat is: memory without the index of far
jobs, 24 bytes for each, and disk by payload that lives; and between the middle and the last third of the minutes neither may have
grown by more than a quarter. Turns are by processor time (`server.turn_cpu`), because others may use the machine; what a
processor stood still meanwhile (harness/halts.py), which the kernel counts as that, is taken off.

usage: soak.py [--minutes N] [--rate PUTS_A_SECOND] [--horizon D] [--checkpoint BYTES] [--buried-in-memory N] [--seed N] [--keep]
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import datetime

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "harness"))
sys.path.insert(0, HERE)

from halts import HaltWatch, NotWatched  # noqa: E402
from process import LATER, ROOT, DidNotStart, Laterd  # noqa: E402
from soak_load import BATCH, BODY_BYTES, TOPIC, WORKERS, Load  # noqa: E402
from soak_oracle import TTR_MS, SoakOracle, control, now_ms  # noqa: E402
from wire import Client  # noqa: E402

PAYLOAD = BODY_BYTES + 20
FAR_INDEX_BYTES = 24
TURN_LIMIT = 0.02
GROWTH = 1.25


# -- what is measured --------------------------------------------------------------------------


def metrics_of(port):
    with Client(port, seconds=30) as client:
        lines = client.get("/metrics").body.decode().splitlines()
    return {name: float(value) for name, value in
            (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) * 1024


def disk_bytes(folder):
    total = 0
    for name in os.listdir(folder):
        try:
            total += os.stat(os.path.join(folder, name)).st_blocks * 512
        except FileNotFoundError:
            pass  # removed meanwhile
    return total


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0


LONG_TURN = re.compile(r"^(\S+Z) info long_turn (cpu_us=(\d+) clock_us=(\d+) .*)$")


def long_turns_of(lines, halted):
    """(seconds of processor time, of these a processor stood still, facts) of each that was logged.

    A halt may have been while laterd's thread waited: so much as that is not taken off.
    """
    found = []
    for at, facts, cpu_us, clock_us in filter(None, (match and match.groups() for match in map(LONG_TURN.match, lines))):
        ended = datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()
        took, passed = int(cpu_us) / 1e6, int(clock_us) / 1e6
        found.append((took, max(0.0, halted(ended - passed, ended) - (passed - took)), facts))
    return found


def halt_watch():
    """None where the kernel does not let us watch: then nothing is taken off."""
    try:
        watch = HaltWatch()
    except NotWatched as why:
        print(f"soak: halts of the processors are not seen: {why}", flush=True)
        return None
    watch.start()
    return watch


class Soak:
    def __init__(self, server, load, minutes):
        self.server, self.load, self.oracle, self.minutes = server, load, load.oracle, minutes
        self.rows = []
        self.kills = 0
        self.watch = halt_watch()
        self.halted_turns = 0

    def start(self):
        before = time.monotonic()
        self.server.start(seconds=120)
        while metrics_of(self.server.port).get("laterd_ready") != 1:
            time.sleep(0.02)
        took = time.monotonic() - before
        self.load.up(self.server.port)
        return took

    def kill(self):
        self.load.down()
        self.server.kill()
        self.kills += 1

    def minute(self, number, seconds):
        """Figures of a minute: memory and disk are the largest that were seen."""
        started_s = self.start()
        until, memory, disk = time.monotonic() + seconds, 0, 0
        while time.monotonic() < until and not self.wrong():
            time.sleep(1)
            memory = max(memory, resident_bytes(self.server.pid))
            disk = max(disk, disk_bytes(self.server.data))
        shown = metrics_of(self.server.port)
        self.load.hear()
        late, self.load.late_ms = self.load.late_ms, []
        far, buried = shown["laterd_far_jobs"], shown["laterd_far_buried_jobs"]
        here = int(shown['laterd_jobs{state="buried"}'] - buried)
        row = {"minute": number, "start_s": started_s, "live": self.oracle.live(), "far": int(far), "far_buried": int(buried),
               "buried_in_memory": here,
               "slices": int(shown["laterd_slices"]), "arrived": int(shown["laterd_far_arrived_total"]),
               "memory": memory / 2**20, "memory_rest": (memory - FAR_INDEX_BYTES * (far + buried)) / 2**20,
               "disk": disk / 2**20, "disk_by_live": disk / max(1, self.oracle.live() * PAYLOAD),
               "late_p99_ms": percentile(late, 0.99), "late_max_ms": max(late, default=0),
               "long_turns": int(shown["laterd_turn_seconds_count"]
                                 - shown[f'laterd_turn_seconds_bucket{{le="{TURN_LIMIT:.6f}"}}'])}
        self.rows.append(row)
        halted = self.watch.around if self.watch else lambda began, ended: 0.0
        for took, stood_still, facts in long_turns_of(list(self.server.lines), halted):
            self.halted_turns += took > TURN_LIMIT >= took - stood_still
            print(f"soak: long turn: {facts} halted_us={stood_still * 1e6:.0f}", flush=True)
        print("soak: " + " ".join(f"{name}={value:.2f}" if isinstance(value, float) else f"{name}={value}"
                                  for name, value in row.items()), flush=True)

    def wrong(self):
        self.load.hear()
        return bool(self.load.failures) or any(self.oracle.faults.values())

    def run(self):
        for number in range(1, self.minutes + 1):
            self.minute(number, 60)
            self.kill()
            if self.wrong():
                break
        self.load.end()
        self.compare()

    # -- the end: all jobs are listed

    def compare(self):
        self.server.start(seconds=120)
        listed = bytearray(self.oracle.count() + 1)
        with Client(self.server.port, seconds=120) as client:
            for state in ("delayed", "reserved", "ready", "buried"):
                self.list_all(client, state, listed)
        self.oracle.count_lost(listed)
        shown = metrics_of(self.server.port)
        print(f"soak: listed {sum(map(bool, listed))}, far {int(shown['laterd_far_jobs'])}", flush=True)
        if self.server.stop(120) != 0:
            self.load.failures.append("laterd did not end well")
        done = subprocess.run([LATER, "verify", self.server.data], check=False, capture_output=True, text=True)
        if done.returncode:
            self.load.failures.append(f"later verify: {done.returncode} {done.stdout[-300:]} {done.stderr[-300:]}")

    def list_all(self, client, state, listed):
        """Of the state as it is now: jobs go on becoming ready, and a list of these would never end."""
        cursor, here, begun_ms = "", bytearray(len(listed)), now_ms()
        while cursor is not None:
            asked_ms = now_ms()
            page = client.get(f"/v1/topics/{TOPIC}/jobs?state={state}&limit=1000{cursor}")
            assert page.status in (200, 404), page
            page = page.json() if page.status == 200 else {"jobs": []}
            for job in page["jobs"]:
                number = self.oracle.listed(job, asked_ms)
                if here[number]:
                    self.oracle.fault("twice", number)
                here[number] = listed[number] = 1
            later = state == "ready" and page["jobs"] and page["jobs"][-1]["due_ms"] > begun_ms
            cursor = f"&cursor={page['cursor']}" if page.get("cursor") and not later else None

    # -- the verdict

    def grown(self, name):
        """The last third's largest, by the middle one's; None if the soak was too short to say."""
        third = len(self.rows) // 3
        if third < 2:
            return None
        middle, last = self.rows[third:2 * third], self.rows[2 * third:]
        return max(row[name] for row in last) / max(1e-9, max(row[name] for row in middle))

    def verdict(self):
        bad = list(self.load.failures)
        for fault, found in self.oracle.faults.items():
            if found:
                bad.append(f"{len(found)} {fault}: {found[:10]}")
        for name in ("memory_rest", "disk_by_live"):
            grown = self.grown(name)
            print(f"soak: {name}, last third / middle third: " + (f"{grown:.2f}" if grown else "too short to say"))
            if grown and grown > GROWTH:
                bad.append(f"{name} has grown by {grown:.2f}")
        reached = self.oracle.count() / (60 * max(1, len(self.rows)))
        if self.rows and reached < 0.9 * self.load.rate:
            bad.append(f"{reached:.0f} puts a second, not {self.load.rate}: the clients were too slow for this load")
        long_turns = sum(row["long_turns"] for row in self.rows)
        if long_turns:
            print(f"soak: {long_turns} turns took more than {TURN_LIMIT * 1000:.0f} ms, {self.halted_turns} of them because "
                  "a processor stood still")
        if long_turns > self.halted_turns:
            bad.append(f"{long_turns - self.halted_turns} turns took more than {TURN_LIMIT * 1000:.0f} ms")
        if self.rows and not (self.rows[-1]["far"] and any(row["arrived"] for row in self.rows)):
            bad.append("no job was far, or none came back: this says nothing of the horizon")
        if self.rows and not self.rows[-1]["far_buried"]:
            bad.append("no buried job was far: this says nothing of them")
        return bad


def measured_rate(folder):
    """A fifth of the puts a second of `later bench put`."""
    server = Laterd(folder, {"limits": {"jobs": 10_000_000}}).start()
    try:
        done = subprocess.run([LATER, "bench", "put", "--server", f"http://127.0.0.1:{server.port}", "--connections", "16",
                               "--depth", "16", "--jobs", "200000", "--within", "30d", "--keep", "--json"],
                              check=True, capture_output=True, text=True)
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)
    return int(json.loads(done.stdout)["per_second"] / 5)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--rate", type=int, default=0, help="puts a second; 0: a fifth of what the machine can do")
    parser.add_argument("--horizon", default="1m")
    parser.add_argument("--checkpoint", default="64M")
    parser.add_argument("--buried-in-memory", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", action="store_true", help="keep the directory, whatever came out")
    options = parser.parse_args()
    control()
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "big")
    folder = os.path.join(ROOT, "build", f"soak-{seed}")
    shutil.rmtree(folder, ignore_errors=True)
    rate = options.rate or measured_rate(folder)
    config = {"server": {"turn_cpu": 1}, "limits": {"jobs": 200_000_000},
              "defaults": {"ttr": f"{TTR_MS // 1000}s", "retry": ""},
              "store": {"horizon": options.horizon, "checkpoint_bytes": options.checkpoint,
                        "buried_in_memory": options.buried_in_memory}}
    oracle = SoakOracle(capacity=rate * 60 * options.minutes * 3 // 2 + 100 * BATCH, workers=WORKERS)
    load = Load(oracle, rate, seed)
    load.fork()
    soak = Soak(Laterd(folder, config), load, options.minutes)
    print(f"soak: seed {seed}, {options.minutes} minutes, {rate} puts a second, horizon {options.horizon}, "
          f"checkpoint {options.checkpoint}", flush=True)
    began = time.monotonic()
    try:
        soak.run()
    except DidNotStart as why:
        load.failures.append(f"laterd did not start again: {why}")
    finally:
        load.end()
        soak.server.kill()
    bad = soak.verdict()
    seconds = time.monotonic() - began
    print(f"soak: seed {seed}, {soak.kills} kills in {seconds:.0f} s, {oracle.count()} puts "
          f"({oracle.count() / (60 * max(1, len(soak.rows))):.0f} a second), {oracle.total('cancels')} cancels, "
          f"{oracle.total('moves')} moves, {oracle.total('deliveries')} deliveries")
    for line in bad:
        print(f"soak: {line}")
    if bad or options.keep:
        print(f"soak: the directory is kept: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
