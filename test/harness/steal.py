"""What a hypervisor takes from a virtual machine's processors: `steal` in /proc/stat."""

import os
import time

NOTICEABLE_S = 0.02  # two ticks: enough to make turns of 5 ms too long
NOTICEABLE_SHARE = 0.002  # of the time that passed: a long play sees a tick now and then


def steal_of(text, ticks_a_second):
    """Seconds, of all processors together, in the text of /proc/stat."""
    for line in text.splitlines():
        fields = line.split()
        if fields and fields[0] == "cpu":
            return int(fields[8]) / ticks_a_second if len(fields) > 8 else 0.0
    return 0.0


def stolen_s():
    """Seconds that were taken since the machine began; 0 where the kernel does not tell."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            return steal_of(file.read(), os.sysconf("SC_CLK_TCK"))
    except OSError:
        return 0.0


def was_stolen(taken, passed):
    """Were so many seconds of such a time enough to make a measurement of it worthless?"""
    return taken >= max(NOTICEABLE_S, passed * NOTICEABLE_SHARE)


def tried(once, tries=3, more=6, stolen=stolen_s, clock=time.monotonic):
    """Calls `once` until it returns None, and returns what it returned the last time. It has so many tries; one in
    which the hypervisor took much is not counted, so many times."""
    counted = uncounted = 0
    while True:
        taken, begun = stolen(), clock()
        wrong = once()
        if not wrong:
            return None
        if uncounted < more and was_stolen(stolen() - taken, clock() - begun):
            uncounted += 1
        else:
            counted += 1
        if counted == tries:
            return f"{wrong} ({uncounted} tries more: the hypervisor took processors away)"
