#!/usr/bin/python3
"""The figures of docs/performance.md, in one command: `make bench`.

Starts its own servers on free ports, alternates them within one run, repeats, takes medians and
prints a Markdown table. Pinned (server and generator on one core) for CPU per operation, which
holds from run to run; unpinned for throughput, which does not. Stops only what it has started.

usage: bench/run.py [--build DIR] [--repeats N] [--full] [--only WORD,...] [--data DIR]
"""

import json
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

import report
from servers import Server
from suite import RUN_TIMEOUT_S, Suite, parser_of

COLUMNS = ["echo", "syncing echo", "laterd", "laterd / syncing echo"]
NONE_FAR = "[store]\nhorizon = 0\n"


class Bench(Suite):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.scale = 4 if arguments.full else 1

    # -- servers -------------------------------------------------------------------------

    def start(self, name, pinned, directory=None, settings=None):
        if name == "echo":
            return Server(name, [self.build / "bench/echo"], pinned)
        if name == "syncing echo":
            return Server(
                name, [self.build / "bench/echo", "--sync", self.directory() / "log"], pinned
            )
        directory = directory or self.directory()
        command = [self.build / "laterd", "--data-dir", directory, "--http", "127.0.0.1:0",
                   "--beanstalk", "none"]
        if settings:
            path = self.directory() / "laterd.conf"
            path.write_text(settings)
            command += ["-c", path]
        return Server(name, command, pinned)

    def load(self, server, pinned, *words):
        command = [str(self.build / "later"), "bench", *map(str, words), "--json"]
        command += ["--server", f"http://{server.address}", "--server-pid", str(server.pid)]
        command.append("--keep")  # the data directory is thrown away as a whole
        return self.generate(command, pinned)

    # -- rows ----------------------------------------------------------------------------

    def row(self, figure, values):
        self.figures.append((figure, values))
        print(f"  {figure}: " + ", ".join(f"{key} {value}" for key, value in values.items()),
              file=sys.stderr, flush=True)

    def compare(self, pinned, words, figures):
        """One scenario against the floors and laterd, alternating; medians and the ratio."""
        names = ["echo", "syncing echo", "laterd"]
        results = {name: [] for name in names}
        for _ in range(self.repeats):
            for name in names:
                server = self.start(name, pinned)
                try:
                    result = self.load(server, pinned, *words)
                finally:
                    server.stop()
                if result:
                    results[name].append(result)
        for title, show in figures:
            medians = {name: statistics.median(map(show, r)) for name, r in results.items() if r}
            values = {name: f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"
                      for name, value in medians.items()}
            if "laterd" in medians and medians.get("syncing echo"):
                values["laterd / syncing echo"] = f"{medians['laterd'] / medians['syncing echo']:.2f}"
            self.row(title, values)
        bound = [name for name in names if any(r["generator_bound"] for r in results[name])]
        if bound and not pinned:
            self.notes.append(f"{figures[0][0]}: the generator was the bottleneck for "
                              f"{', '.join(bound)}.")

    def timing(self):
        for rate, seconds in ((1000, 4), (10000, 2)):
            results = []
            for _ in range(self.repeats):
                server = self.start("laterd", False)
                try:
                    results.append(self.load(server, False, "due", "--rate", rate, "--jobs",
                                             rate * seconds * self.scale))
                finally:
                    server.stop()
            results = [result for result in results if result]
            for name, key in (("p50", "p50"), ("p99", "p99"), ("largest", "max")):
                self.median_row(f"lateness at {rate:,} due/s, {name}, ms", results,
                            lambda r, key=key: r["lateness_us"][key] / 1000)
            self.median_row(f"CPU per job at {rate:,} due/s, µs", results,
                        lambda r: r["server_us_per_operation"])
            self.total(f"early, lost, twice at {rate:,} due/s", results)

    def burst(self):
        results = []
        for _ in range(self.repeats):
            server = self.start("laterd", False)
            try:
                results.append(self.load(server, False, "burst", "--jobs", 100000))
            finally:
                server.stop()
        results = [result for result in results if result]
        self.median_row("burst of 100,000: first after, ms", results, lambda r: r["first_us"] / 1000)
        self.median_row("burst of 100,000: all within, ms", results, lambda r: r["last_us"] / 1000)
        self.total("early, lost, twice in the burst", results)

    def median_row(self, title, results, show):
        if results:
            self.row(title, {"laterd": f"{statistics.median(map(show, results)):,.2f}"})

    def total(self, title, results):
        counts = [sum(r[key] for r in results) for key in ("early", "lost", "twice")]
        self.row(title, {"laterd": ", ".join(map(str, counts))})

    def crowd(self):
        """The core alone: two million jobs in one slot of its timing wheel, and none."""
        results = {crowd: [] for crowd in (0, 2000000)}
        for _ in range(self.repeats):
            for crowd, said in results.items():
                command = [self.build / "bench/crowd_bench", "--crowd", str(crowd), "--json"]
                done = subprocess.run(command, capture_output=True, text=True,
                                      timeout=RUN_TIMEOUT_S, check=True)
                said.append(json.loads(done.stdout))
        for crowd, said in results.items():
            self.median_row(f"core, 1,000 due/s, {crowd:,} more in one slot: lateness p99 of the worst "
                        "second, µs", said, lambda r: r["worst_second_p99_us"])

    def million(self):
        """Memory, restart and idle cost with a million waiting jobs, all of them in memory."""
        directory = self.directory()
        server = self.start("laterd", False, directory, NONE_FAR)
        try:
            empty = server.memory_bytes()
            self.load(server, False, "put", "--jobs", 1000000, "--connections", 16, "--depth", 16)
            self.row("memory per waiting job (20-byte id, 256-byte body), bytes",
                     {"laterd": f"{(server.memory_bytes() - empty) / 1e6:,.0f}"})
            disk = sum(file.stat().st_blocks * 512 for file in directory.rglob("*"))
            self.row("disk per waiting job, bytes", {"laterd": f"{disk / 1e6:,.0f}"})
            idle = self.load(server, False, "idle", "--connections", 1000, "--seconds", 10)
            if idle:
                seconds = idle["elapsed_us"] / 1e6
                self.row("idle with 1,000,000 jobs and 1,000 polls: CPU, %",
                         {"laterd": f"{100 * idle['server_core_share']:.2f}"})
                self.row("idle: wake-ups a second",
                         {"laterd": f"{idle['server_sleeps'] / seconds:.2f}"})
        finally:
            server.kill()  # the harder start: nothing was tidied up
        server = self.start("laterd", False, directory, NONE_FAR)
        self.row("restart with 1,000,000 jobs after kill -9, s",
                 {"laterd": f"{server.start_s:.2f}"})
        server.stop()

    def system_calls(self):
        if not shutil.which("strace"):
            self.problems.append("system calls: strace is not installed")
            return
        for title, connections, depth, jobs in (("64x1", 64, 1, 20000), ("16x16", 16, 16, 50000)):
            server = self.start("laterd", True)
            table = self.place / "strace"
            tracer = subprocess.Popen(["strace", "-c", "-f", "-o", table, "-p", str(server.pid)],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                time.sleep(1)  # until it has attached
                result = self.load(server, True, "put", "--connections", connections, "--depth",
                                   depth, "--jobs", jobs)
            finally:
                tracer.send_signal(signal.SIGINT)
                tracer.wait(20)
                server.stop()
            total = re.search(r"\s(\d+)\s+(?:\d+\s+)?total", table.read_text())
            if result and total:
                self.row(f"system calls per push, {title}",
                         {"laterd": f"{int(total.group(1)) / result['operations']:.2f}"})

    def run(self):
        per = lambda r: r["server_us_per_operation"]
        rate = lambda r: r["per_second"]
        jobs = 100000 * self.scale
        lone = ["put", "--jobs", jobs]
        deep = ["put", "--connections", 16, "--depth", 16, "--jobs", 3 * jobs]
        cycle = ["cycle", "--jobs", jobs // 4]
        if self.wanted("put"):
            self.compare(True, lone, [("put 64x1, pinned, µs of CPU", per)])
            self.compare(True, deep, [("put 16x16, pinned, µs of CPU", per)])
            self.compare(False, lone, [("put 64x1, unpinned, µs of CPU", per),
                                       ("put 64x1, unpinned, a second", rate)])
            self.compare(False, deep, [("put 16x16, unpinned, a second", rate)])
        if self.wanted("cycle"):
            self.compare(True, cycle, [("cycle 64x1, pinned, µs of CPU", per)])
            self.compare(False, cycle, [("cycle 64x1, unpinned, a second", rate)])
        for word, step in (("due", self.timing), ("burst", self.burst), ("crowd", self.crowd),
                           ("million", self.million), ("calls", self.system_calls)):
            if self.wanted(word):
                step()

    def table(self):
        self.print_table(f"{self.program()}, durability sync, 256-byte bodies, 20-byte ids", COLUMNS)


def main():
    parser = parser_of(__doc__, "put,cycle,due,burst,crowd,million,calls")
    parser.add_argument("--full", action="store_true", help="four times the jobs")
    return report.run(Bench(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
