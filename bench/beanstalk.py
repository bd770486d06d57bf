#!/usr/bin/python3
"""laterd beside Debian's beanstalkd, over beanstalkd's protocol: `make bench-beanstalkd`.

How to run it:

    make bench-beanstalkd          all of it, under 5 minutes, on an otherwise idle machine
    make bench-beanstalkd-exact    system calls and user instructions per put: no noise, slow
    bench/beanstalk.py --only put,cycle --repeats 5
    bench/beanstalk.py --only due,burst

What it does: one generator (`later bench --beanstalk`) gives each server the same load. All servers
take turns within one run, three times over; the figures are medians.

- beanstalkd: in memory, -f 50 (with -b, its default promise: synced at most 50 ms later), and
  -f 0 (synced before the answer);
- laterd: durability interval:50ms (the promise of -f 50) and sync (that of -f 0);
- echo answers without doing anything, syncing echo also writes each turn's puts and deletes to the
  disk before it answers: the floors.

CPU per operation is taken with server and generator pinned to one core (user and system time of all
the server's threads), operations a second unpinned. "64x1" is 64 connections with one command under
way, "16x16" is 16 connections with 16. A cycle is put, reserve and delete; cancel is the delete of a
delayed job, in the order of the puts. Bodies have 256 bytes.

Due jobs: beanstalkd has whole seconds, so each job is put so many seconds before the instant at
which it is to fall due. Lateness is the time at which a waiting consumer has read the job minus
(the time just before its put was sent plus the delay), both on the generator's clock: what the put
took to arrive counts as lateness too, for every server, and nothing that is early can hide.

What laterd counts itself in such a run is shown beside it: how long after the due time, as it
reckons it, a job was handed to a consumer, and how long its commits and turns took by the clock.
Lateness has more: what the put and the answer took on their way.

The burst: the server is stopped (SIGSTOP) before the first of the jobs falls due and goes on when
all are overdue, so for it they fall due at one instant, and consumers are already waiting.

A bar in µs of CPU was set on another machine, whose beanstalkd in memory needed what the last column
says. So it is also held against the measured figure times (theirs / ours) of that beanstalkd: "scaled".
"""

import re
import shutil
import sys
import urllib.request

import report
from servers import Server, free_port
from suite import Suite, parser_of

MEMORY, INTERVAL_PEER, SYNC_PEER = "beanstalkd", "beanstalkd -f 50", "beanstalkd -f 0"
INTERVAL, SYNC = "laterd interval:50ms", "laterd sync"
SERVERS = ["echo", "syncing echo", MEMORY, INTERVAL_PEER, SYNC_PEER, INTERVAL, SYNC]

LONE = ["--connections", 64, "--depth", 1]
DEEP = ["--connections", 16, "--depth", 16]
FEW = ["--connections", 16, "--depth", 1]

# What is measured: name, group, words, jobs, jobs of a server that syncs for each command. The puts
# come last, because they leave their jobs behind.
SCENARIOS = [
    ("cancel 16x1", "cancel", ["cancel", *FEW], 20000, 2000),
    ("cancel 16x16", "cancel", ["cancel", *DEEP], 60000, 2000),
    ("cycle 64x1", "cycle", ["cycle", *LONE], 15000, 2000),
    ("cycle 16x16", "cycle", ["cycle", *DEEP], 40000, 2000),
    ("put 64x1", "put", ["put", *LONE], 40000, 4000),
    ("put 16x16", "put", ["put", *DEEP], 80000, 4000),
]

# Scenario, server, at most so many µs of CPU, and the µs of beanstalkd in memory where that was set.
CPU_BARS = [
    ("put 16x16", SYNC, 1.5, 4.4),
    ("put 64x1", SYNC, 4.5, 4.2),
    ("put 64x1", INTERVAL, 3.2, 4.2),
    ("cycle 64x1", SYNC, 15, 9.3),
    ("cycle 64x1", INTERVAL, 7.5, 9.3),
    ("cycle 16x16", SYNC, 3.5, 9.4),
    ("cancel 16x1", SYNC, 3.2, 5.1),  # the bar does not say with which durability
    ("cancel 16x1", INTERVAL, 3.2, 5.1),
    ("cancel 16x16", SYNC, 1.3, 3.5),
]

# Scenario, at least so many operations a second of laterd sync, or so many times those of a peer.
RATE_BARS = [
    ("put 16x16", 3, MEMORY),
    ("put 16x16", 40, SYNC_PEER),
    ("put 64x1", 10, SYNC_PEER),
    ("cycle 64x1", 28000, None),
    ("cycle 16x16", 150000, None),
]

LATENESS_MAX_US = 1500
FIRST_MAX_US = 5000
CALLS_BARS = {"64x1": 2.2, "16x16": 0.2}
INSTRUCTIONS_BAR = 3150


# Histograms of /metrics: what is shown of one, its name, the quantile.
OWN_COUNTS = {
    "due to handed out, p99 ≤, µs": ("lateness", 0.99),
    "commits, p99 ≤, µs": ("sync", 0.99),
    "turns by the clock, p99 ≤, µs": ("turn", 0.99),
}


def own_counts(server):
    """What laterd counted since its start: {title: µs, the bound of the quantile's bucket}."""
    page = f"http://{server.listens('http')}/metrics"
    with urllib.request.urlopen(page, timeout=10) as answer:
        text = answer.read().decode()
    return {title: bucket_us(text, *which) for title, which in OWN_COUNTS.items()}


def bucket_us(text, name, quantile):
    """The upper bound of the bucket in which the quantile of a histogram is."""
    buckets = re.findall(rf'^laterd_{name}_seconds_bucket{{le="(.+)"}} (\d+)$', text, re.M)
    least = quantile * int(buckets[-1][1])
    return next(float(bound) * 1e6 for bound, count in buckets if int(count) >= least)


class Bench(Suite):
    SERVERS = SERVERS

    def __init__(self, arguments):
        super().__init__(arguments)
        self.beanstalkd = arguments.beanstalkd

    # -- servers -------------------------------------------------------------------------

    def start(self, name, pinned, prefix=(), metrics=False):
        if "echo" in name:
            command = [self.build / "bench/echo"]
            if name == "syncing echo":
                command += ["--sync", self.directory() / "log"]
            return Server(name, command, pinned, prefix=prefix)
        if "laterd" in name:
            directory = self.directory()
            config = directory / "laterd.conf"
            durability = name.split()[1]
            config.write_text(f"[store]\ndurability = {durability}\n")
            command = [self.build / "laterd", "-c", config, "--data-dir", directory / "data",
                       "--http", "127.0.0.1:0" if metrics else "none", "--beanstalk", "127.0.0.1:0"]
            server = Server(name, command, pinned, prefix=prefix)
            server.address = server.listens("beanstalk")
            return server
        port = free_port()
        command = [self.beanstalkd, "-l", "127.0.0.1", "-p", port]
        if "-f" in name:
            command += ["-b", self.directory(), "-f", name.split()[-1]]
        return Server(name, command, pinned, address=f"127.0.0.1:{port}", prefix=prefix)

    def load(self, server, pinned, *words):
        command = [str(self.build / "later"), "bench", *map(str, words), "--json", "--keep"]
        command += ["--beanstalk", server.address, "--server-pid", str(server.pid)]
        return self.generate(command, pinned)

    def measure(self, key, name, pinned, steps):
        """Runs (scenario, words) one after the other on one fresh server."""
        server = self.start(name, pinned)
        try:
            for scenario, words in steps:
                result = self.load(server, pinned, *words)
                if result:
                    self.results.setdefault((scenario, key, name), []).append(result)
        finally:
            server.stop()

    def measure_due(self, scenario, name, words):
        """One load of jobs that fall due; of laterd with its own counts of it."""
        server = self.start(name, False, metrics=True)
        try:
            result = self.load(server, False, "due", *words)
            if result and name == SYNC:
                result["own"] = own_counts(server)
            if result:
                self.results.setdefault((scenario, False, name), []).append(result)
        finally:
            server.stop()

    # -- operations ----------------------------------------------------------------------

    def operations(self):
        chosen = [row for row in SCENARIOS if self.wanted(row[1])]
        if not chosen:
            return
        for pinned, name in self.rounds():
            self.measure(pinned, name, pinned,
                         [(scenario, [*words, "--jobs", slow if name == SYNC_PEER else jobs])
                          for scenario, _, words, jobs, slow in chosen])
        cpu, rate = {}, {}
        for scenario, *_ in chosen:
            cpu[scenario] = self.figure(f"{scenario}, pinned, µs of CPU", scenario, True,
                                        lambda r: r["server_us_per_operation"])
            rate[scenario] = self.figure(f"{scenario}, unpinned, a second", scenario, False,
                                         lambda r: r["per_second"])
            bound = [name for name in SERVERS
                     if any(r["generator_bound"]
                            for r in self.results.get((scenario, False, name), []))]
            if bound:
                self.notes.append(f"{scenario}, unpinned: the generator was the bottleneck for "
                                  f"{', '.join(bound)}.")
        self.cpu_bars(cpu)
        self.rate_bars(rate)

    def cpu_bars(self, cpu):
        for scenario, name, most, theirs in CPU_BARS:
            values = cpu.get(scenario, {})
            measured, ours = values.get(name), values.get(MEMORY)
            if not measured or not ours:
                continue
            scaled = measured * theirs / ours
            self.bar(f"{scenario}, {name}, µs of CPU", f"≤ {most}", report.shown(measured),
                     measured <= most,
                     f"scaled {scaled:.2f} {'✓' if scaled <= most else '✗'} (beanstalkd {theirs} "
                     f"there, {ours:.2f} here)")

    def rate_bars(self, rate):
        for scenario, least, peer in RATE_BARS:
            values = rate.get(scenario, {})
            measured = values.get(SYNC)
            if not measured or (peer and not values.get(peer)):
                continue
            if peer:
                ratio = measured / values[peer]
                self.bar(f"{scenario}, {SYNC}, a second / {peer}", f"≥ {least}", report.shown(ratio),
                         ratio >= least)
            else:
                self.bar(f"{scenario}, {SYNC}, a second", f"≥ {least:,}", report.shown(measured),
                         measured >= least)

    # -- due times -----------------------------------------------------------------------

    def due(self):
        rates = ((1000, 2), (10000, 1.5), (30000, 1.5))
        for _ in range(self.repeats):
            for rate, seconds in rates:
                for name in (MEMORY, SYNC):
                    self.measure_due(f"due {rate}", name,
                                     ["--rate", rate, "--jobs", int(rate * seconds)])
        print("  due jobs", file=sys.stderr, flush=True)
        for rate, _ in rates:
            scenario = f"due {rate}"
            each = self.figure(f"CPU per job at {rate:,} due/s, µs", scenario, False,
                               lambda r: r["server_us_per_operation"])
            for quantile in ("p50", "p99", "max"):
                values = self.figure(f"lateness at {rate:,} due/s, {quantile}, µs", scenario, False,
                                     lambda r, q=quantile: r["lateness_us"][q])
                if quantile == "p99" and rate > 1000:
                    self.lateness_bar(rate, values)
            for title in OWN_COUNTS:
                self.figures.append((f"{title} at {rate:,} due/s", {
                    SYNC: self.median(scenario, False, SYNC, lambda r, t=title: r["own"][t])}))
            self.promises(f"{rate:,} due/s", scenario)
            if rate == 1000 and each[SYNC] and each[MEMORY]:
                ratio = each[SYNC] / each[MEMORY]
                self.bar("1,000 due/s, CPU of laterd / beanstalkd", "≤ 0.1", report.shown(ratio),
                         ratio <= 0.1)

    def lateness_bar(self, rate, values):
        ours, theirs = values[SYNC], values[MEMORY]
        if ours is None or theirs is None:
            return
        self.bar(f"{rate:,} due/s, lateness p99, µs", f"≤ beanstalkd's ({report.shown(theirs)})",
                 report.shown(ours), ours <= theirs)
        self.bar(f"{rate:,} due/s, lateness p99, µs", f"≤ {LATENESS_MAX_US:,}", report.shown(ours),
                 ours <= LATENESS_MAX_US)

    def promises(self, title, scenario):
        """Early, lost and doubled jobs of all repeats, of both; was the asked pace kept?"""
        for name in (MEMORY, SYNC):
            results = self.results.get((scenario, False, name), [])
            counts = [sum(r[key] for r in results) for key in ("early", "lost", "twice")]
            slow = [r["due_per_second"] for r in results
                    if r["scenario"] == "due" and r["due_per_second"] < 0.95 * r["rate"]]
            if slow:
                self.notes.append(f"{title}, {name}: only {report.shown(min(slow))}/s were put in a run.")
            most = max((r["earliest_us"] for r in results), default=0)
            if any(counts):
                self.notes.append(f"{title}, {name}: {counts[0]} early (by {most} µs at most), "
                                  f"{counts[1]} lost, {counts[2]} twice.")
            if name == SYNC and results:
                self.bar(f"{title}, {name}: early, lost, twice", "0, 0, 0",
                         ", ".join(map(str, counts)), not any(counts))

    def burst(self):
        scenario = "burst"
        for _ in range(self.repeats):
            for name in (MEMORY, SYNC):
                self.measure(False, name, False, [
                    (scenario, ["burst", "--stop", "--lead", "4s", "--jobs", 100000, "--depth", 16])])
        print("  burst", file=sys.stderr, flush=True)
        first = self.figure("burst of 100,000: first after, ms", scenario, False,
                            lambda r: r["first_us"] / 1000)
        last = self.figure("burst of 100,000: all within, ms", scenario, False,
                           lambda r: r["last_us"] / 1000)
        self.promises("burst", scenario)
        if first[SYNC] and last[SYNC] and last[MEMORY]:
            self.bar("burst of 100,000: first after, ms", f"≤ {FIRST_MAX_US / 1000:g}",
                     report.shown(first[SYNC]), first[SYNC] * 1000 <= FIRST_MAX_US,
                     f"beanstalkd {report.shown(first[MEMORY])}")
            ratio = last[MEMORY] / last[SYNC]
            self.bar("burst of 100,000: drained, times as fast as beanstalkd", "≥ 1.5",
                     report.shown(ratio), ratio >= 1.5)

    # -- what has no noise ---------------------------------------------------------------

    def counted(self, name, words, prefix, read):
        """A count per put: the difference between two runs that put few and many."""
        totals = []
        for jobs in (2000, 12000):
            server = self.start(name, False, prefix)
            try:
                result = self.load(server, False, "put", *words, "--jobs", jobs)
            finally:
                server.stop()
            if not result or (count := read()) is None:
                return None
            totals.append(count)
        return (totals[1] - totals[0]) / 10000

    def system_calls(self):
        counts = self.place / "calls"
        prefix = ["strace", "-c", "-f", "-q", "-o", str(counts)]

        def read():
            total = re.search(r"\s(\d+)\s+(?:\d+\s+)?total", counts.read_text())
            return int(total.group(1)) if total else None

        for title, words in (("64x1", LONE), ("16x16", DEEP)):
            values = {name: self.counted(name, words, prefix, read)
                      for name in ("echo", MEMORY, SYNC)}
            self.figures.append((f"system calls per put, {title}", values))
            if values[SYNC] is not None:
                self.bar(f"system calls per put, {title}", f"≤ {CALLS_BARS[title]}",
                         report.shown(values[SYNC]), values[SYNC] <= CALLS_BARS[title])

    def instructions(self):
        profile = self.place / "callgrind.out"
        prefix = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={profile}"]

        def read():
            total = re.search(r"^(?:summary|totals): (\d+)", profile.read_text(), re.M)
            return int(total.group(1)) if total else None

        for title, words in (("64x1", LONE), ("16x16", DEEP)):
            values = {name: self.counted(name, words, prefix, read)
                      for name in ("echo", MEMORY, SYNC)}
            self.figures.append((f"user instructions per put, {title}", values))
            if title == "16x16" and values[SYNC] is not None:
                self.bar("user instructions per put, 16x16", f"≤ {INSTRUCTIONS_BAR:,}",
                         report.shown(values[SYNC]), values[SYNC] <= INSTRUCTIONS_BAR)

    def exact(self):
        for tool, step in (("strace", self.system_calls), ("valgrind", self.instructions)):
            if shutil.which(tool):
                step()
            else:
                self.problems.append(f"{tool} is not installed")

    # -- the whole -----------------------------------------------------------------------

    def run(self):
        self.operations()
        if self.wanted("due"):
            self.due()
        if self.wanted("burst"):
            self.burst()
        if "exact" in self.only:
            self.exact()

    def table(self):
        peer = report.said(self.beanstalkd, "-v")
        self.print_table(f"{self.program()} beside {peer}, 256-byte bodies", SERVERS)


def main():
    parser = parser_of(__doc__, "put,cycle,cancel,due,burst,exact")
    parser.add_argument("--beanstalkd", default="beanstalkd", help="the peer's program")
    arguments = parser.parse_args()
    if not shutil.which(arguments.beanstalkd):
        print("beanstalkd is not installed: nothing to compare with", file=sys.stderr)
        return 2
    return report.run(Bench(arguments))


if __name__ == "__main__":
    sys.exit(main())
