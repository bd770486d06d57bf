"""How a measurement is tried again when a hypervisor took the processor away (harness/steal.py)."""

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
