"""What the benches have in common: where they work, whom they load, and what they gather."""

import json
import pathlib
import statistics
import subprocess
import tempfile

RUN_TIMEOUT_S = 110


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

    def median(self, scenario, pinned, name, show):
        results = self.results.get((scenario, pinned, name))
        return statistics.median(map(show, results)) if results else None

    def figure(self, title, scenario, pinned, show):
        values = {name: self.median(scenario, pinned, name, show) for name in self.SERVERS}
        self.figures.append((title, values))
        return values

    def bar(self, title, wanted, measured, held, remark=""):
        self.bars.append((title, wanted, measured, held, remark))
