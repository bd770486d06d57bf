"""How measurements allow for a hypervisor that takes processors away (harness/steal.py, harness/halts.py)."""

import struct
import time

import pytest
from halts import HaltWatch, NotWatched, holes, overlap, times_of
from steal import steal_of, stolen_s, tried, was_stolen

STAT = "cpu  1988017 1126304 570633 1905246 44595 0 61053 6454 0 0\ncpu0 9 9 9 9 9 9 9 9 9 9\n"


def calls_until_it_ends(taken_each_time, good_at=None):
    """(what is returned, how often it was called) where each call takes a second, and the hypervisor so much of it."""
    calls = []

    def once():
        calls.append(1)
        return None if len(calls) == good_at else "wrong"
    ended = tried(once, stolen=lambda: len(calls) * taken_each_time, clock=lambda: float(len(calls)))
    return ended, len(calls)


def test_the_time_that_was_stolen_is_that_of_all_processors():
    assert steal_of(STAT, 100) == 64.54
    assert steal_of("cpu  1 2 3 4\n", 100) == 0.0  # an old kernel
    assert steal_of("", 100) == 0.0
    assert stolen_s() >= 0.0


def test_a_tick_is_not_enough_and_neither_is_little_of_a_long_time():
    assert not was_stolen(0.01, 1.0)
    assert was_stolen(0.02, 1.0)
    assert not was_stolen(0.02, 60.0)
    assert was_stolen(0.12, 60.0)


def test_what_is_wrong_three_times_is_wrong():
    ended, calls = calls_until_it_ends(0.0)
    assert ended.startswith("wrong") and calls == 3


def test_what_is_right_once_is_right():
    assert calls_until_it_ends(0.0, good_at=3) == (None, 3)


def test_tries_with_stolen_time_are_not_counted_but_no_more_than_six():
    assert calls_until_it_ends(0.5, good_at=9) == (None, 9)
    ended, calls = calls_until_it_ends(0.5)
    assert "(6 tries more" in ended and calls == 9


def test_a_halt_is_a_hole_between_two_samples():
    found, last = holes([1.000, 1.001, 1.0025, 1.0100, 1.0110], None)
    assert [(at, round(took, 6)) for at, took in found] == [(1.0100, 0.0065)] and last == 1.0110
    found, last = holes([1.0150], last)  # samples are read now and then: a hole may be between two reads
    assert [(at, round(took, 6)) for at, took in found] == [(1.0150, 0.003)]
    assert holes([], last) == ([], 1.0150)


def test_samples_that_were_lost_are_no_halt():
    sample, lost = (lambda ns: struct.pack("=IHHIIQ", 9, 0, 24, 1, 1, ns)), struct.pack("=IHHQQ", 2, 0, 24, 7, 9000)
    times = list(times_of(sample(10**9) + lost + sample(9 * 10**9) + sample(9_004_000_000)))
    assert times == [1.0, None, 9.0, 9.004]
    assert [(at, round(took, 6)) for at, took in holes(times, 0.9995)[0]] == [(9.004, 0.003)]


def test_of_a_halt_that_part_counts_which_lies_within_the_time():
    halt = (5.0, 2.0)  # from 3 to 5
    assert overlap(halt, 0.0, 10.0) == 2.0
    assert overlap(halt, 4.0, 4.5) == 0.5
    assert overlap(halt, 2.0, 3.5) == 0.5
    assert overlap(halt, 5.0, 6.0) == overlap(halt, 1.0, 3.0) == 0.0


def test_all_processors_are_sampled_each_millisecond():
    try:
        watch = HaltWatch()
    except NotWatched as why:
        pytest.skip(f"the kernel gives no samples: {why}")
    began = time.time()
    time.sleep(0.2)
    watch.look()
    for processor in watch.processors:
        assert began + 0.1 < processor.last <= time.time()
    assert watch.around(began - 20, began - 10) == 0.0  # nothing was seen then
    for processor in watch.processors:
        processor.close()
