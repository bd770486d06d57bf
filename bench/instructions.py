"""User instructions of laterd per operation, counted by callgrind, of one build or of several.

A count has hardly any noise (below 1 %), where time on a shared machine moves by several percent. So what a
change costs is asked of this, not of the clock: --against BUILD (again for more) counts older builds, too, and
shows ratios. --profile says which functions the instructions of each operation are in. --lines counts the cache
lines and pages of code, of libraries as well, that are run for at least every second operation: what a turn that
comes after a sleep finds in no cache. With --profile it shows the lines by function.

Each figure is the difference between two runs of `later bench` against a fresh server, one with few operations
and one with many, so that start and end of the server are not in it.
"""

import pathlib
import re
import shutil
import subprocess
import sys

import report
from servers import Server
from suite import Suite, parser_of

DEEP = ["--connections", 16, "--depth", 16]
# Slow enough that under callgrind, too, each job falls due in a turn of its own.
SLOW = ["--connections", 16, "--rate", 60]
MANY_JOBS, FEW_JOBS = (2000, 12000), (100, 500)
LINE_BYTES, PAGE_BYTES = 64, 4096
PAGES = "(pages)"  # no function's name

# What is counted: name, protocol, words for `later bench`, jobs of the short run and of the long one.
SCENARIOS = [
    ("beanstalkd put", "beanstalk", ["put", *DEEP], MANY_JOBS),
    ("beanstalkd cycle", "beanstalk", ["cycle", *DEEP], MANY_JOBS),
    ("beanstalkd cancel", "beanstalk", ["cancel", *DEEP], MANY_JOBS),
    ("http put", "http", ["put", *DEEP], MANY_JOBS),
    ("http cycle", "http", ["cycle", *DEEP], MANY_JOBS),
    ("http due", "http", ["due", *SLOW], FEW_JOBS),
]


class Instructions(Suite):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.builds = [pathlib.Path(build) for build in (*arguments.against, arguments.build)]
        self.profile = arguments.profile
        self.lines = arguments.lines

    def start(self, build, protocol, profile):
        directory = self.directory()
        prefix = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={profile}"]
        if self.lines:
            prefix += ["--dump-instr=yes", "--compress-strings=no", "--compress-pos=no"]
        listen = {"http": "none", "beanstalk": "none", protocol: "127.0.0.1:0"}
        return Server(str(build), [build / "laterd", "--data-dir", directory / "data",
                                   "--http", listen["http"], "--beanstalk", listen["beanstalk"]],
                      False, prefix=prefix)

    def run_once(self, build, protocol, words, jobs):
        """The profile of a server that did so many operations, or None."""
        profile = self.place / f"callgrind.{self.fresh}"
        server = self.start(build, protocol, profile)
        target = ["--beanstalk", server.address]
        if protocol == "http":
            target = ["--server", f"http://{server.address}"]
        try:
            result = self.generate([self.build / "later", "bench", *words, "--jobs", jobs, "--json",
                                    "--keep", *target])
        finally:
            server.stop()
        return profile if result else None

    def per_operation(self, build, protocol, words, jobs):
        """All instructions of an operation, and those of each function: {None or name: count}."""
        profiles = [self.run_once(build, protocol, words, count) for count in jobs]
        if None in profiles:
            return None
        if self.lines:
            return code_run(*profiles, jobs[1] - jobs[0])
        few, many = (functions(p) if self.profile else {None: total(p)} for p in profiles)
        return {name: (count - few.get(name, 0)) / (jobs[1] - jobs[0])
                for name, count in many.items()}

    def run(self):
        if not shutil.which("valgrind"):
            self.problems.append("valgrind is not installed")
            return
        for name, protocol, words, jobs in SCENARIOS:
            if not self.wanted(name.replace(" ", "-")):
                continue
            counts = {str(b): self.per_operation(b, protocol, words, jobs) for b in self.builds}
            values = {build: count and count[None] for build, count in counts.items()}
            ours = values[str(self.build)]
            for build in self.builds[:-1]:
                if ours and values[str(build)]:
                    values[f"ratio to {build}"] = ours / values[str(build)]
            what = "cache lines of code" if self.lines else "user instructions"
            self.figures.append((f"{name}, {what}", values))
            if self.lines:
                self.figures.append((f"{name}, pages of code",
                                     {build: count and count[PAGES] for build, count in counts.items()}))
            if self.profile:
                print_profile(name, counts, 1 if self.lines else 5)

    def table(self):
        names = [str(build) for build in self.builds]
        self.print_table(f"{self.program()}, callgrind, 256-byte bodies",
                         names + [f"ratio to {name}" for name in names[:-1]])


def total(profile):
    return int(re.search(r"^(?:summary|totals): (\d+)", profile.read_text(), re.M).group(1))


def functions(profile):
    """Instructions of each function itself, not of those it calls; None: of all."""
    said = subprocess.run(["callgrind_annotate", "--threshold=100", "--show=Ir", profile],
                          capture_output=True, text=True, check=True).stdout
    counts = {None: total(profile)}
    for count, name in re.findall(r"^ *([\d,]+) (?:\([^)]*\))? +\S*?:([^\s\[]+)", said, re.M):
        name = re.sub(r"'\d+$", "", name)
        counts[name] = counts.get(name, 0) + int(count.replace(",", ""))
    return counts


def executed(profile):
    """How often each instruction was executed, and the function that it is in, by its address."""
    counts, names = {}, {}
    name, called = None, False
    with profile.open() as text:
        for line in text:
            if line.startswith("fn="):
                name = line[3:].strip()
            elif line.startswith("calls="):
                called = True  # the next line has the cost of what is called
            elif line.startswith("0x") and called:
                called = False
            elif line.startswith("0x"):
                address, _, count = line.split()
                address = int(address, 16)
                counts[address] = counts.get(address, 0) + int(count)
                names[address] = name
    return counts, names


def code_run(few, many, operations):
    """How many cache lines of code are run for every second operation: {None: all, PAGES: pages, name: of it}."""
    before, _ = executed(few)
    counts, names = executed(many)
    lines = {}
    for address, count in counts.items():
        if count - before.get(address, 0) >= operations / 2:
            lines.setdefault(address // LINE_BYTES, re.sub(r"'\d+$", "", names[address]))
    of = {None: len(lines), PAGES: len({line * LINE_BYTES // PAGE_BYTES for line in lines})}
    for name in lines.values():
        of[name] = of.get(name, 0) + 1
    return of


def print_profile(scenario, counts, least):
    """The functions that an operation spends at least so many instructions in, or lines of, of each build."""
    known = [count or {} for count in counts.values()]
    names = {name for count in known for name, value in count.items() if name and value >= least}
    print(f"\n{scenario}: " + ", ".join(counts))
    for name in sorted(names, key=lambda n: -known[-1].get(n, 0)):
        print("".join(f"{count.get(name, 0):9.1f}" for count in known) + f"  {name}")


def main():
    parser = parser_of(__doc__, ",".join(name.replace(" ", "-") for name, *_ in SCENARIOS))
    parser.add_argument("--against", action="append", default=[], help="an older build to compare")
    parser.add_argument("--profile", action="store_true", help="instructions, or lines, by function, too")
    parser.add_argument("--lines", action="store_true", help="cache lines and pages of code, not instructions")
    return report.run(Instructions(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
