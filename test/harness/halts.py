"""When the processors of a virtual machine stood still: the kernel's timer interrupts that came late.

A hypervisor that halts a virtual processor does not always count that as `steal` (steal.py), and the kernel
adds the time to the program that was running, as if it had computed. Here the kernel takes a sample of each
processor every millisecond (`perf_event_open`, the event cpu-clock), whatever runs there, so samples that
are further apart are a halt, or a time without interrupts. A program's own long system call is no such hole.
"""

import ctypes
import mmap
import os
import platform
import struct
import threading
import time
from collections import deque

SYSCALL = {"x86_64": 298, "aarch64": 241}  # perf_event_open
SOFTWARE, CPU_CLOCK = 1, 0  # perf_event_attr: type, config
SAMPLE_TID, SAMPLE_TIME = 1 << 1, 1 << 2
USE_CLOCKID = 1 << 25  # of its bits
RECORD_SAMPLE = 9
PERIOD_S = 0.001
HALT_S = 0.002  # apart: one interrupt at least did not come
PAGES = 64  # of samples, a power of two: some ten seconds
HEAD, TAIL = 1024, 1032  # in the first page of the ring


class NotWatched(Exception):
    """This kernel, or this user's rights, do not allow it."""


def attributes():
    """struct perf_event_attr of linux/perf_event.h, whose first version has 64 bytes; the clock comes with later ones."""
    return struct.pack("=IIQQQQQIIQQQQIiQI28x", SOFTWARE, 128, CPU_CLOCK, int(PERIOD_S * 1e9), SAMPLE_TID | SAMPLE_TIME,
                       0, USE_CLOCKID, 0, 0, 0, 0, 0, 0, 0, time.CLOCK_REALTIME, 0, 0)


def times_of(records):
    """The times of the samples in these bytes, in seconds; None where some were lost, as when nobody reads."""
    at = 0
    while at < len(records):
        kind, _, length = struct.unpack_from("=IHH", records, at)
        yield struct.unpack_from("=Q", records, at + 16)[0] / 1e9 if kind == RECORD_SAMPLE else None
        at += length


def holes(times, last):
    """(when it ended, how long it was, both in seconds) of each halt in these times of samples; the last one."""
    found = []
    for at in times:
        if None not in (at, last) and at - last >= HALT_S:
            found.append((at, at - last - PERIOD_S))
        last = at
    return found, last


class Processor:
    """The samples of one processor."""

    def __init__(self, number):
        libc = ctypes.CDLL(None, use_errno=True)
        attr = ctypes.create_string_buffer(attributes())
        call = SYSCALL.get(platform.machine())
        self.fd = libc.syscall(call, attr, -1, number, -1, 0) if call else -1
        if self.fd < 0:
            raise NotWatched(os.strerror(ctypes.get_errno()) if call else "not known for this processor")
        self.ring = mmap.mmap(self.fd, (1 + PAGES) * mmap.PAGESIZE)
        self.last = None

    def read(self):
        """The halts since the last call."""
        size = PAGES * mmap.PAGESIZE
        head, tail = (struct.unpack_from("=Q", self.ring, at)[0] for at in (HEAD, TAIL))
        ring = self.ring[mmap.PAGESIZE:] * 2  # a record may go on at the beginning
        raw = ring[tail % size:tail % size + head - tail]
        struct.pack_into("=Q", self.ring, TAIL, head)
        found, self.last = holes(times_of(raw), self.last)
        return found

    def close(self):
        self.ring.close()
        os.close(self.fd)


def overlap(halt, began, ended):
    """Seconds of the halt (when it ended, how long it was) that lie between these times."""
    at, took = halt
    return max(0.0, min(at, ended) - max(at - took, began))


class HaltWatch(threading.Thread):
    """Watches all processors; `around` says how long one stood still. NotWatched if it cannot."""

    EACH_S, AROUND_S, KEPT_S = 0.5, 0.001, 120

    def __init__(self):
        super().__init__(daemon=True)
        self.processors = [Processor(number) for number in sorted(os.sched_getaffinity(0))]
        self.seen = [deque() for _ in self.processors]
        self.lock = threading.Lock()

    def look(self):
        with self.lock:
            for processor, seen in zip(self.processors, self.seen):
                seen.extend(processor.read())
                while seen and seen[0][0] < time.time() - self.KEPT_S:
                    seen.popleft()

    def run(self):
        while True:
            time.sleep(self.EACH_S)
            self.look()

    def around(self, began, ended):
        """Seconds that one processor, the one that did so longest, stood still between these times of time.time(), or
        a little around them."""
        self.look()
        with self.lock:
            return max(sum(overlap(halt, began - self.AROUND_S, ended + self.AROUND_S) for halt in seen)
                       for seen in self.seen)
