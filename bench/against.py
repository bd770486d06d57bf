#!/usr/bin/python3
"""This build of laterd beside an older one, in one run: `make bench-against AGAINST=BUILD`.

How to run it:

    git worktree add --detach /tmp/before COMMIT && make -C /tmp/before
    make bench-against AGAINST=/tmp/before/build     about 4 minutes, on an otherwise idle machine

Both builds get the same load from this build's `later bench`, in turn, round after round, each time on a fresh
data directory at durability sync, pinned to one core with the generator; but those of due jobs at once, since at their
rate both fit on the core, and what the neighbours do there meets both. What is shown: the median of the server's
CPU per operation, and the median of the ratios of each round (now / before), which moves less than the ratio of
the medians does when others use the machine. Memory is what 200,000 delayed jobs add to the resident memory.
"""

import concurrent.futures
import pathlib
import shutil
import statistics
import sys

import report
from servers import Server
from suite import Suite, parser_of

LONE = ["--connections", 64, "--depth", 1]
FEW = ["--connections", 16, "--depth", 1]
DEEP = ["--connections", 16, "--depth", 16]
BEFORE, NOW = "before", "now"
MEMORY_JOBS = 200000

# What is measured: name, protocol, words for `later bench`.
SCENARIOS = [
    ("HTTP put 64x1", "http", ["put", *LONE, "--jobs", 40000]),
    ("HTTP put 16x16", "http", ["put", *DEEP, "--jobs", 150000]),
    ("HTTP cycle 64x1", "http", ["cycle", *LONE, "--jobs", 15000]),
    ("HTTP due 1,000/s", "http", ["due", "--rate", 1000, "--jobs", 3000]),
    ("beanstalkd put 64x1", "beanstalk", ["put", *LONE, "--jobs", 60000]),
    ("beanstalkd put 16x16", "beanstalk", ["put", *DEEP, "--jobs", 300000]),
    ("beanstalkd cycle 64x1", "beanstalk", ["cycle", *LONE, "--jobs", 20000]),
    ("beanstalkd cycle 16x16", "beanstalk", ["cycle", *DEEP, "--jobs", 80000]),
    ("beanstalkd cancel 16x1", "beanstalk", ["cancel", *FEW, "--jobs", 20000]),
    ("beanstalkd cancel 16x16", "beanstalk", ["cancel", *DEEP, "--jobs", 100000]),
]


class Against(Suite):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.builds = {BEFORE: pathlib.Path(arguments.against), NOW: self.build}

    def measure(self, build, protocol, words, directory):
        """The result of one load on a fresh server, or None; with the memory that it took."""
        listen = {"http": "none", "beanstalk": "none", protocol: "127.0.0.1:0"}
        server = Server(str(build), [build / "laterd", "--data-dir", directory / "data", "--http", listen["http"],
                                     "--beanstalk", listen["beanstalk"]], True)
        target = ["--server", f"http://{server.address}"] if protocol == "http" else ["--beanstalk", server.address]
        try:
            empty = server.memory_bytes()
            result = self.generate([self.build / "later", "bench", *words, "--json", "--keep", "--server-pid",
                                    server.pid, *target], True)
            if result:
                result["memory"] = server.memory_bytes() - empty
        finally:
            server.stop()
            shutil.rmtree(directory, ignore_errors=True)
        return result

    def measure_both(self, turn, protocol, words):
        """{name: its result} of one round."""
        order = (BEFORE, NOW) if turn % 2 == 0 else (NOW, BEFORE)
        asked = [(self.builds[name], protocol, words, self.directory()) for name in order]
        at_once = len(order) if "--rate" in words else 1
        with concurrent.futures.ThreadPoolExecutor(at_once) as workers:
            return dict(zip(order, workers.map(lambda one: self.measure(*one), asked)))

    def compare(self, title, protocol, words, show):
        pairs = []
        for turn in range(self.repeats):
            pair = self.measure_both(turn, protocol, words)
            if all(pair.values()):
                pairs.append({name: show(result) for name, result in pair.items()})
        if not pairs:
            return
        ratios = sorted(pair[NOW] / pair[BEFORE] for pair in pairs)
        values = {name: f"{statistics.median(pair[name] for pair in pairs):,.2f}" for name in (BEFORE, NOW)}
        values["now / before"] = f"{statistics.median(ratios):.2f}"
        values["from, to"] = f"{ratios[0]:.2f}, {ratios[-1]:.2f}"
        self.figures.append((title, values))
        print(f"  {title}: {values}", file=sys.stderr, flush=True)

    def run(self):
        for name, protocol, words in SCENARIOS:
            if self.wanted(protocol) or self.wanted(words[0]):
                self.compare(f"{name}, µs of CPU", protocol, words, lambda r: r["server_us_per_operation"])
        if self.wanted("memory"):
            for bytes_of_id in (0, 20):
                words = ["put", *DEEP, "--jobs", MEMORY_JOBS, "--id-bytes", bytes_of_id]
                self.compare(f"memory per waiting job, {bytes_of_id or 'no'} bytes of id", "http", words,
                             lambda r: r["memory"] / MEMORY_JOBS)

    def table(self):
        self.print_table(f"{self.program()} beside {report.said(self.builds[BEFORE] / 'laterd', '--version')}",
                         [BEFORE, NOW, "now / before", "from, to"])


def main():
    parser = parser_of(__doc__, "http,beanstalk,due,memory")
    parser.add_argument("--against", required=True, help="the older build's directory")
    return report.run(Against(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
