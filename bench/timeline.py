#!/usr/bin/python3
"""How cost grows with the jobs that wait: `make bench-timeline`.

How to run it:

    make bench-timeline                         100,000 and 1,000,000 jobs, about 10 minutes
    bench/timeline.py --jobs 100000,1000000,10000000 --svg docs/timeline.svg
    bench/timeline.py --jobs 100000000          by hand: an hour, and the disk for it
    bench/timeline.py --config store.horizon=0  any keys of laterd.conf, to compare
    bench/timeline.py --beanstalk               the jobs come by beanstalkd's protocol, which has no ids: no cancels
    bench/timeline.py --cold                    cancels of jobs whose records must be read from the disk
    bench/timeline.py --only operations         put, cycle and cancel beside an empty server: this alone
    bench/timeline.py --only writes             bytes written for delays of up to 1 minute, 1 hour and 30 days

What it does, for each number of jobs on a server of its own (durability sync, ids of 20 bytes, bodies of
256, due at random times within 30 days; `later bench` makes the load):

- fill: puts a second until all jobs are there, checkpoints included, and the slowest puts. Two empty servers take a
  hundred thousand puts before, two behind it: their median is what it is compared with;
- then, with all of them waiting: memory, disk, bytes written to the disk by byte of payload; put and cycle pinned to
  one core with the generator, cancels of random jobs among those that wait, 10,000 jobs due each second. Each of these in rounds, in
  each of which the last of the empty servers (its hundred thousand jobs are there) and the full one are measured right beside each other, for the
  machine may be twice as fast a minute later: the ratio is the median of the rounds' ratios. Slices are read once before the
  cancels, which the bar compares with jobs in memory: how much of them the kernel had still kept is a figure
  of its own, since some machines page out what nobody has touched for a minute, and a fill takes longer. With --cold
  they are dropped from the page cache, and the bar is left out;
- unless store.horizon is 0 (it is 2m here, if --config does not say: of jobs that are due within 30 days
  that makes no difference to laterd's 1h): the lateness of 10,000 due jobs a second while far jobs come back and the log is cleaned. For that a
  twentieth as many jobs more are put that are due within fifteen minutes, once memory and disk have been measured, and puts go on beside the measurement; an empty server has the same
  puts and is measured in turn, five times each, of which the median counts (`--only lateness` does this alone);
- three times: reading its files with `cat` from the page cache, then how long until the server listens again after kill -9.

Ratios are within one run. The bars are those of the issue that asked for them.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request

import report
from servers import Server
from suite import Suite

MARK, MARK_SOON = "0000aa", "0000bb"
DEEP = ["--connections", 16, "--depth", 16]
BODY_BYTES = 256
ID_AND_BODY_BYTES = 20 + BODY_BYTES
DUE = ["due", "--rate", 10000, "--jobs", 50000, "--keep"]
HORIZON = "2m"  # so that far jobs come back while the bench runs
DELAYS = (("1m", 2.3), ("1h", 2.3), ("30d", 3.5))  # and what may be written by byte of payload
LEADS_S = (6, 20, 80)  # all jobs must be there before the first is due: the next one if they are not
SOON, SOON_SHARE = "15m", 20
ROUNDS = 5  # of an empty server and the full one, in turn
EMPTY_JOBS = 100000
PUTS, CYCLES, CANCELS = 20000, 10000, 10000  # in a round; cancels: of half of all jobs at most
MOVING_PUTS = 100000  # jobs move a segment of the log at a time: several in each round
DRAIN_CYCLES, DRAIN_ROUNDS_MAX = 100000, 12  # until no far job is in the log any more
LATENESS_ROUNDS, RESTART_ROUNDS, FILL_ROUNDS = 7, 3, 2
BUSY_ROUNDS = 5
MANY = 10000000  # from here on a job's memory has a bar: below, what a server of any size takes counts, too
FAR_JOBS = "laterd_far_jobs"
FAR_ARRIVED, CLEANED = "laterd_far_arrived_total", "laterd_checkpoints_total"
FILL, FILL_LATE = "fill, puts a second", "fill, p99.9 of a put, ms"
PUT_CPU, CYCLE_CPU = "put, pinned, µs of CPU", "cycle, pinned, µs of CPU"
CANCELS_A_SECOND, CANCEL_CPU = "cancel of random jobs, a second", "cancel, µs of CPU"
LATENESS, RESTART = "lateness at 10,000 due/s, p99, ms", "restart by job, µs"
OF_EMPTY, RATIO = "an empty server", "full / empty"  # behind a figure's name
LOG_BYTES, COPIED = "laterd_wal_written_bytes_total", "laterd_carried_jobs_total"


class Bench(Suite):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.counts = [int(word.replace("_", "")) for word in arguments.jobs.split(",")]
        self.settings = arguments.config
        self.svg = arguments.svg
        self.only = arguments.only
        self.beanstalk = arguments.beanstalk
        self.cold = arguments.cold
        self.rows = []  # (count, {figure: value})

    # -- servers -------------------------------------------------------------------------

    def config(self, directory):
        sections = {"store": ["durability = sync"], "limits": ["jobs = 200000000"]}
        short = [] if self.only == "writes" or self.horizon() is not None else [f"store.horizon={HORIZON}"]
        for setting in [*self.settings, *short]:
            key, value = setting.split("=", 1)
            section, name = key.strip().split(".", 1)
            sections.setdefault(section, []).append(f"{name} = {value.strip()}")
        path = directory / "laterd.conf"
        path.write_text("".join(f"[{section}]\n" + "\n".join(lines) + "\n"
                                for section, lines in sections.items()))
        return path

    def horizon(self):
        """What --config says of it; None: nothing."""
        said = [value.strip() for key, value in (setting.split("=", 1) for setting in self.settings)
                if key.strip() == "store.horizon"]
        return said[-1] if said else None

    def has_horizon(self):
        return self.horizon() not in ("0", "0s")

    def start(self, directory, pinned=False):
        return Server("laterd", [self.build / "laterd", "-c", self.config(directory), "--data-dir",
                                 directory / "data", "--http", "127.0.0.1:0", "--beanstalk",
                                 "127.0.0.1:0" if self.beanstalk else "none"],
                      pinned)

    def bench(self, server, *words, pinned=False, seconds=100):
        command = [self.build / "later", "bench", "--server", f"http://{server.address}",
                   "--server-pid", server.pid, "--json", "--seconds", seconds, "--topic", "timeline", *words]
        command = (["taskset", "-c", "0"] if pinned else []) + [str(word) for word in command]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not done.stdout.startswith("{"):
            raise RuntimeError(f"later bench {' '.join(map(str, words))}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)

    def fill(self, server, count, within="30d"):
        words = ["put", *DEEP, "--jobs", count, "--within", within, "--keep"]
        words += ["--beanstalk", server.listens("beanstalk")] if self.beanstalk else ["--mark", MARK]
        return self.bench(server, *words, seconds=86400)

    def payload(self, count):
        return count * (BODY_BYTES if self.beanstalk else ID_AND_BODY_BYTES)

    # -- what is measured ----------------------------------------------------------------

    def lateness_ms(self, server, topic="due"):
        """The 99th percentile."""
        for lead_s in LEADS_S:
            try:
                due = self.bench(server, *DUE, "--lead", f"{lead_s}s", "--topic", f"{topic}-{lead_s}")
                return due["lateness_us"]["p99"] / 1000
            except RuntimeError as why:
                if "pushes took too long" not in str(why) or lead_s == LEADS_S[-1]:
                    raise

    def busy_lateness_ms(self, server, topic):
        """The same while others put jobs that are due within 30 days."""
        command = [self.build / "later", "bench", "put", "--server", f"http://{server.address}", "--connections", 1,
                   "--depth", 1, "--jobs", 100_000_000, "--seconds", 600, "--within", "30d", "--keep", "--topic", "beside"]
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL) as beside:
            try:
                return self.lateness_ms(server, topic)
            finally:
                beside.terminate()

    def busy(self, server):
        """On a server with far jobs and on an empty one, in turn."""
        empty = self.start(self.directory())
        before, times = metrics(server), {"empty": [], "full": []}
        try:
            for i in range(BUSY_ROUNDS):
                times["empty"].append(self.busy_lateness_ms(empty, f"busy-{i}"))
                times["full"].append(self.busy_lateness_ms(server, f"busy-{i}"))
        finally:
            empty.kill()
        after = metrics(server)
        return {
            "lateness while far jobs come, p99, ms": statistics.median(times["full"]),
            "the same, an empty server": statistics.median(times["empty"]),
            "worst of five": max(times["full"]),
            "worst of five, an empty server": max(times["empty"]),
            "far jobs that came meanwhile": after[FAR_ARRIVED] - before[FAR_ARRIVED],
            "segments cleaned meanwhile": after[CLEANED] - before[CLEANED],
        }

    def in_turn(self, rounds, full, empty, measure):
        """What measure(server, round) says, figure by figure: both servers' medians, and that of the rounds' ratios."""
        said = []
        for i in range(rounds):
            order = (full, empty) if i % 2 else (empty, full)
            of_round = {id(server): measure(server, i) for server in order}
            said.append((of_round[id(full)], of_round[id(empty)]))
        values = {}
        for title in said[0][0]:
            pairs = [(of_full[title], of_empty[title]) for of_full, of_empty in said]
            values[title] = statistics.median(pair[0] for pair in pairs)
            values[f"{title}: {OF_EMPTY}"] = statistics.median(pair[1] for pair in pairs)
            values[f"{title}: {RATIO}"] = statistics.median(pair[0] / pair[1] for pair in pairs)
        return values

    def operations(self, full, empty):
        """
        CPU of put and cycle. Leaves puts of its own. While far jobs are put, as many that were put earlier move from the
        log to slices; an empty server's log is too short for that. What that takes counts as part of the put, but not of a
        cycle: before those, the log gets rid of them. Then puts are measured once more, without it.
        """
        def cpu(figure, words):
            def measure(server, _):
                result = self.bench(server, *words, *DEEP, "--keep", pinned=True)
                return {figure: result["server_us_per_operation"]}

            return self.in_turn(ROUNDS, full, empty, measure)

        moving = ["put", "--jobs", MOVING_PUTS, "--within", "30d"]
        put = ["put", "--jobs", PUTS, "--within", "30d"]
        cycle = ["cycle", "--topic", "cycles", "--jobs"]
        before = metrics(full)[FAR_JOBS]
        values = cpu(PUT_CPU, moving)
        values["far jobs moved to slices by a put"] = (metrics(full)[FAR_JOBS] - before) / (ROUNDS * MOVING_PUTS)
        for _ in range(DRAIN_ROUNDS_MAX):
            before = metrics(full)[FAR_JOBS]
            self.bench(full, *cycle, DRAIN_CYCLES, *DEEP, "--keep")
            if metrics(full)[FAR_JOBS] <= before:
                break
        return values | cpu(CYCLE_CPU, [*cycle, CYCLES]) | cpu(f"{PUT_CPU}, none moves", put)

    def lateness(self, full, empty):
        """The ratio is that of the medians: one round beside a disk that stands still is a hundred times another."""
        values = self.in_turn(LATENESS_ROUNDS, full, empty,
                              lambda server, i: {LATENESS: self.lateness_ms(server, f"due-{i}")})
        values[f"{LATENESS}: {RATIO}"] = values[LATENESS] / values[f"{LATENESS}: {OF_EMPTY}"]
        return values

    def cancels(self, full, empty, count):
        """Of random jobs; on each server the next ones in each round."""
        if self.beanstalk:
            return {}
        there = {id(full): count, id(empty): EMPTY_JOBS}
        cancels = min(CANCELS, count // (2 * ROUNDS))

        def measure(server, i):
            result = self.bench(server, "cancel", *DEEP, "--jobs", cancels, "--there", there[id(server)], "--skip",
                                i * cancels, "--mark", MARK, "--keep")
            return {CANCELS_A_SECOND: result["per_second"], CANCEL_CPU: result["server_us_per_operation"],
                    "cancel, p99, ms": result["cancel_us"]["p99"] / 1000}

        return self.in_turn(ROUNDS, full, empty, measure)

    def prepare_slices(self, directory):
        slices = sorted(directory.glob("slice-*"))
        values = {"slices in the page cache before the cancels, share": cached_share(slices)}
        if self.cold:
            for path in slices:
                with open(path, "rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        else:
            read_once(slices)
        return values

    def put_soon(self, server, count):
        self.bench(server, "put", *DEEP, "--jobs", count // SOON_SHARE, "--within", SOON, "--mark", MARK_SOON, "--keep",
                   "--topic", "soon", seconds=86400)

    def empty(self, filled):
        """A server of its own with a hundred thousand jobs; how they came goes to the list."""
        server = self.start(self.directory())
        try:
            filled.append(self.fill(server, EMPTY_JOBS))
        except BaseException:
            server.kill()
            raise
        return server

    def compare(self, full, empty, count, directory):
        """The full server as it stands beside the empty one."""
        values = self.prepare_slices(directory / "data")
        values |= self.cancels(full, empty, count)
        if self.has_horizon() and not self.only:  # first: those that are due soon must not have come yet
            values |= self.busy(full)
        values |= self.operations(full, empty)
        return values if self.only else values | self.lateness(full, empty)

    def full(self, count):
        directory, fills = self.directory(), []
        for _ in range(FILL_ROUNDS):
            self.empty(fills).kill()
        server = self.start(directory)
        try:
            before, bare = written(server.pid), server.memory_bytes()
            put = self.fill(server, count)
            settle(server)
            values = {
                "memory, MiB": server.memory_bytes() / 2**20,
                "memory by job, bytes": (server.memory_bytes() - bare) / count,
                "disk / payload": disk_bytes(directory / "data") / self.payload(count),
                "written / payload": (written(server.pid) - before) / self.payload(count),
            }
            for _ in range(FILL_ROUNDS - 1):
                self.empty(fills).kill()
            empty = self.empty(fills)
            try:
                values = filling(put, fills) | values
                if self.has_horizon() and not self.only:
                    self.put_soon(server, count)
                    settle(server)
                values |= self.compare(server, empty, count, directory)
            finally:
                empty.kill()
        finally:
            server.kill()  # the harder start: nothing was tidied up
        if not self.only:
            values |= self.restarts(directory, count)
        shutil.rmtree(directory)
        return values

    def restarts(self, directory, count):
        seconds = []
        read_once(files_of(directory / "data"))
        for _ in range(RESTART_ROUNDS):
            floor_s = read_once(files_of(directory / "data"))
            server = self.start(directory)
            seconds.append((server.start_s, floor_s))
            server.kill()
        start_s = statistics.median(pair[0] for pair in seconds)
        return {"restart after kill -9, s": start_s, RESTART: start_s / count * 1e6,
                "cat of its files, s": statistics.median(pair[1] for pair in seconds),
                "restart / cat": statistics.median(pair[0] / pair[1] for pair in seconds)}

    def only_busy(self, count):
        server = self.start(self.directory())
        try:
            self.fill(server, count)
            self.put_soon(server, count)
            settle(server)
            values = {"far jobs": metrics(server)[FAR_JOBS]} | self.busy(server)
        finally:
            server.kill()
        self.rows.append((f"{count:,}", values))
        self.judge_busy(count, values)

    def only_writes(self, count):
        """With laterd's own horizon, if --config has none: until nothing more is written."""
        for within, wanted in DELAYS:
            directory = self.directory()
            server = self.start(directory)
            try:
                before, log = written(server.pid), metrics(server)[LOG_BYTES]
                self.fill(server, count, within)
                settle(server)
                value = (written(server.pid) - before) / self.payload(count)
                log = (metrics(server)[LOG_BYTES] - log) / self.payload(count)
                copied = metrics(server)[COPIED] / count
                slices = slice_bytes(directory / "data") / self.payload(count)
            finally:
                server.kill()
            shutil.rmtree(directory)
            self.rows.append((f"{count:,} within {within}", {
                "written / payload": value, "of it the log": log, "slices": slices,
                "zeros written ahead, heads": value - log - slices, "jobs written to the log again, of all": copied}))
            self.bar(f"{count:,} within {within}: written / payload", f"≤ {wanted}", report.shown(value), value <= wanted)

    def run(self):
        if self.only and self.only != "operations":
            for count in self.counts:
                (self.only_busy if self.only == "lateness" else self.only_writes)(count)
            return
        for count in self.counts:
            print(f"  {count:,} jobs", file=sys.stderr, flush=True)
            values = self.full(count)
            self.rows.append((f"{count:,}", values))
            self.judge(count, values)

    def judge(self, count, full):
        def ratio(title, figure, wanted, at_most):
            value = full.get(f"{figure}: {RATIO}")
            if value is None:
                return
            held = value <= wanted if at_most else value >= wanted
            self.bar(f"{count:,}: {title}", f"{'≤' if at_most else '≥'} {wanted}", report.shown(value), held)

        ratio("puts a second while filling / empty", FILL, 0.6, False)
        ratio("p99.9 of a put while filling / empty", FILL_LATE, 5, True)
        if not self.cold:
            ratio("random cancels a second / on 100,000", CANCELS_A_SECOND, 0.5, False)
        ratio("CPU of a put / empty", PUT_CPU, 1.1, True)
        ratio("CPU of a put while none moves to a slice / empty", f"{PUT_CPU}, none moves", 1.1, True)
        ratio("CPU of a cycle / empty", CYCLE_CPU, 1.1, True)
        ratio("lateness p99 / empty", LATENESS, 2, True)
        if self.has_horizon() and not self.only:
            self.judge_busy(count, full)
        if count >= MANY:
            self.bar(f"{count:,}: memory by job, bytes", "≤ 40", report.shown(full["memory by job, bytes"]),
                     full["memory by job, bytes"] <= 40)
        self.bar(f"{count:,}: written / payload", "≤ 3.5", report.shown(full["written / payload"]),
                 full["written / payload"] <= 3.5)

    def judge_busy(self, count, full):
        value = full["lateness while far jobs come, p99, ms"] / full["the same, an empty server"]
        self.bar(f"{count:,}: lateness p99 while far jobs come / empty", "≤ 2", report.shown(value), value <= 2)

    def table(self):
        columns = [name for name, _ in self.rows]
        titles = list(dict.fromkeys(title for _, values in self.rows for title in values))
        self.figures = [(title, {name: values.get(title) for name, values in self.rows}) for title in titles]
        ids = "no ids (beanstalkd's protocol)" if self.beanstalk else "ids of 20 bytes"
        self.print_table(f"{self.program()}, durability sync, {ids}, bodies of 256, due within 30 days", columns)
        if self.svg and not self.only and len(self.rows) > 1:
            pathlib.Path(self.svg).write_text(plot(self.rows))


def filling(put, fills):
    """How the jobs came, beside how those of the empty servers did."""
    values = {}
    for title, show in ((FILL, lambda one: one["per_second"]), (FILL_LATE, lambda one: one["push_us"]["p99.9"] / 1000)):
        of_empty = statistics.median(map(show, fills))
        values |= {title: show(put), f"{title}: {OF_EMPTY}": of_empty, f"{title}: {RATIO}": show(put) / of_empty}
    return values


def written(pid):
    """Bytes that a process had written to the disk so far."""
    for line in pathlib.Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    raise RuntimeError("the kernel does not say what a process writes")


def metrics(server):
    with urllib.request.urlopen(f"http://{server.address}/metrics") as page:
        lines = page.read().decode().splitlines()
    return {name: float(value) for name, value in
            (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def settle(server, seconds=600):
    """Until the server has nothing more to write: checkpoints that were under way have ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        before = written(server.pid)
        time.sleep(2)
        if written(server.pid) - before < 1 << 20:
            return


def files_of(directory):
    return sorted(path for path in directory.rglob("*") if path.is_file())


def disk_bytes(directory):
    return sum(path.stat().st_blocks * 512 for path in files_of(directory))


def slice_bytes(directory):
    """Of all slices that were written, as long as none has gone: their jobs are due too late for that."""
    return sum(path.stat().st_size for path in directory.glob("slice-*"))


def cached_share(paths):
    """Of the files' bytes; None: there are no files, or no `fincore` (util-linux) here."""
    if not paths or not shutil.which("fincore"):
        return None
    lines = subprocess.run(["fincore", "--bytes", "--noheadings", "--output", "RES,SIZE", *paths],
                           capture_output=True, text=True, check=True).stdout.splitlines()
    pairs = [tuple(map(int, line.split())) for line in lines]
    return sum(min(pair) for pair in pairs) / sum(size for _, size in pairs)  # it counts whole pages


def read_once(paths):
    """Seconds that it takes."""
    before = time.monotonic()
    if paths:
        with open(os.devnull, "wb") as nothing:
            subprocess.run(["cat", *paths], stdout=nothing, check=True)
    return time.monotonic() - before


# -- the plot: one line by figure, each beside its smallest number of jobs ---------------------

PLOTTED = [(PUT_CPU, "#1f77b4"), (CANCEL_CPU, "#d62728"),
           ("memory by job, bytes", "#2ca02c"), ("disk / payload", "#9467bd"), (RESTART, "#ff7f0e")]
WIDTH, HEIGHT, MARGIN = 640, 360, 60


def plot(rows):
    """An SVG of how each figure grows, times its value at the smallest number of jobs."""
    series = [(title, colour, [values[title] / rows[0][1][title] for _, values in rows])
              for title, colour in PLOTTED if all(title in values for _, values in rows)]
    top = max(2.0, max(max(values) for _, _, values in series) * 1.1)
    step = (WIDTH - 2 * MARGIN) / max(1, len(rows) - 1)

    def point(i, value):
        return f"{MARGIN + i * step:.1f},{HEIGHT - MARGIN - value / top * (HEIGHT - 2 * MARGIN):.1f}"

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + 20 * len(series)}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT + 20 * len(series)}" fill="white"/>']
    for tick in range(int(top) + 1):
        x, y = point(0, tick).split(",")
        out.append(f'<line x1="{x}" x2="{WIDTH - MARGIN}" y1="{y}" y2="{y}" stroke="#ddd"/>'
                   f'<text x="{MARGIN - 8}" y="{y}" text-anchor="end">{tick}</text>')
    for i, (name, _) in enumerate(rows):
        x = point(i, 0).split(",")[0]
        out.append(f'<text x="{x}" y="{HEIGHT - MARGIN + 20}" text-anchor="middle">{name}</text>')
    out.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">waiting jobs</text>'
               f'<text x="{MARGIN}" y="{MARGIN - 20}">times the value at {rows[0][0]} jobs</text>')
    for i, (title, colour, values) in enumerate(series):
        line = " ".join(point(j, value) for j, value in enumerate(values))
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = HEIGHT + 20 * i + 4
        out.append(f'<line x1="{MARGIN}" x2="{MARGIN + 24}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" '
                   f'stroke-width="2"/><text x="{MARGIN + 32}" y="{y}">{title} '
                   f'({report.shown(rows[0][1][title])} at {rows[0][0]})</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build", help="where the programs are")
    parser.add_argument("--data", default=None, help="where data directories go (not a tmpfs)")
    parser.add_argument("--jobs", default="100000,1000000", help="numbers of waiting jobs")
    parser.add_argument("--config", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--only", choices=("lateness", "operations", "writes"), default="",
                        help="lateness while far jobs come; put, cycle and cancel; or bytes written for three delays: this alone")
    parser.add_argument("--beanstalk", action="store_true", help="fill by beanstalkd's protocol")
    parser.add_argument("--cold", action="store_true",
                        help="drop slices from the page cache before cancels")
    parser.add_argument("--svg", default=None, help="write a plot here, of two numbers or more")
    arguments = parser.parse_args()
    arguments.repeats = 1
    return report.run(Bench(arguments))


if __name__ == "__main__":
    sys.exit(main())
