"""What the benches have in common: where they work, whom they load, and what they gather."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import report

RUN_TIMEOUT_S = 110


def parser_of(doc, steps):
    """For the words that every bench takes; `doc` begins with what it does."""
    parser = argparse.ArgumentParser(description=doc.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build", help="where the programs are")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help=f"of {steps}")
    parser.add_argument("--data", default=None, help="where data directories go (not a tmpfs)")
    return parser


class Suite:
    """A bench; its class says which SERVERS are compared and what run() measures."""

    SERVERS = ()

    def __init__(self, arguments):
        self.build = pathlib.Path(arguments.build)
        self.repeats = arguments.repeats
        self.only = set(filter(None, arguments.only.split(",")))
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="later-bench-", dir=arguments.data))
        self.fresh = 0
        self.results = {}  # (scenario, pinned, server): what each repeat said
        self.figures = []  # (title, {server: value})
        self.bars = []  # (title, wanted, measured, held, remark)
        self.notes = []
        self.problems = []  # make the run fail

    def directory(self):
        self.fresh += 1
        path = self.place / f"data{self.fresh}"
        path.mkdir()
        return path

    def wanted(self, word):
        return not self.only or word in self.only

    def generate(self, command, pinned=False):
        """Runs a load generator: what it says, or None if it failed before it said anything."""
        command = [str(word) for word in command]
        if pinned:
            command = ["taskset", "-c", "0"] + command
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S,
                              check=False)
        if done.returncode != 0:
            self.problems.append(f"{' '.join(command[-12:])}: exit {done.returncode} "
                                 f"{done.stderr.strip()[-200:]}")
        return json.loads(done.stdout) if done.stdout.startswith("{") else None

    def rounds(self):
        """(pinned, server) of each run, all servers in turn in each repeat."""
        for repeat in range(self.repeats):
            for pinned in (True, False):
                for name in self.SERVERS:
                    yield pinned, name
            print(f"  round {repeat + 1} of {self.repeats}", file=sys.stderr, flush=True)

    def median(self, scenario, pinned, name, show):
        results = self.results.get((scenario, pinned, name))
        return statistics.median(map(show, results)) if results else None

    def figure(self, title, scenario, pinned, show):
        values = {name: self.median(scenario, pinned, name, show) for name in self.SERVERS}
        self.figures.append((title, values))
        return values

    def bar(self, title, wanted, measured, held, remark=""):
        self.bars.append((title, wanted, measured, held, remark))

    def program(self):
        return report.said(self.build / "laterd", "--version") or "laterd"

    def print_table(self, head, columns):
        """What was measured, below a line that says of what and where."""
        print(f"{head}, medians of {self.repeats}; {report.machine()}\n")
        report.table(columns, self.figures)
        if self.bars:
            report.bars(self.bars)
        report.remarks(self.notes, self.problems)
