"""The functions that commands and turns go through, as a script for the linker: `make hot-path`.

A laterd that wakes for one command finds little of its code in the processor's caches. What it pays then is paid
for each cache line and each page of code, so the linker puts what is needed often into one place (mk/hot-path.ld).

Which functions these are is counted by callgrind, in the loads of bench/instructions.py and in those below: those
that take an instruction or more for each operation of one of the loads. Functions of the same loads are neighbours,
those of most loads first, so that each load goes through few pages. Needs valgrind and nm, takes 3 minutes.
"""

import re
import subprocess
import sys

import report
from instructions import FEW_JOBS, MANY_JOBS, SCENARIOS, SLOW, Instructions
from suite import parser_of

LONE = ["--connections", 64, "--depth", 1]
LOADS = [
    *SCENARIOS,
    ("beanstalkd due", "beanstalk", ["due", *SLOW], FEW_JOBS),
    ("beanstalkd cycle 64x1", "beanstalk", ["cycle", *LONE], MANY_JOBS),
    ("http cycle 64x1", "http", ["cycle", *LONE], MANY_JOBS),
]
HEAD = """/*
 * The functions that commands and turns go through lie side by side in laterd, so that a turn touches few pages and
 * cache lines of code: those of all measured loads first, then those of one protocol or one kind of load. Made by
 * `make hot-path`. A name that there is no more does no harm, and a function that is not here is elsewhere in .text.
 */
SECTIONS
{
    .text.hot_path :
    {
"""
TAIL = """    }
}
INSERT BEFORE .text;
"""


class HotPath(Instructions):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.names = []

    def run(self):
        known = functions_of(self.build / "laterd")
        loads = {}  # of a function: the numbers of the loads that go through it
        for number, (name, protocol, words, jobs) in enumerate(LOADS):
            counts = self.per_operation(self.build, protocol, words, jobs)
            if not counts:
                self.problems.append(f"{name}: no profile")
                continue
            for function in {plain(function) for function, count in counts.items() if function and count >= 1} & known:
                loads.setdefault(function, []).append(number)
            print(f"  {name}: {len(loads)} functions", file=sys.stderr, flush=True)
        self.names = sorted(loads, key=lambda name: (-len(loads[name]), loads[name], name))

    def table(self):
        report.remarks([], self.problems)
        if not self.problems:
            rows = "".join(f"        *(.text.{name} .text.{name}.*)\n" for name in self.names)
            sys.stdout.write(HEAD + rows + TAIL)


def plain(name):
    """Without what GCC adds to the name of a part or a copy of a function, as `.part.0`."""
    return name.split(".")[0]


def functions_of(program):
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return {plain(name) for name in re.findall(r" [tT] (\S+)$", symbols, re.M)}


def main():
    arguments = parser_of(__doc__, "").parse_args()
    arguments.against, arguments.profile, arguments.lines = [], True, False
    return report.run(HotPath(arguments))


if __name__ == "__main__":
    sys.exit(main())
