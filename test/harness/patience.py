"""How long tests wait, and how they tell that something took too long on a machine that is busy."""

import contextlib
import time

PATIENCE_S = 60  # for what must come; it comes much sooner where nothing else runs


class TooLate(AssertionError):
    """It came, but not as soon as it must. The test is tried again (test/black/conftest.py): a machine that
    was busy passes then, what waits where it should not fails each time."""


def soon(took, limit):
    """`took`, which must be less than the limit."""
    if took >= limit:
        raise TooLate(f"{took:.3f} s, not less than {limit} s")
    return took


@contextlib.contextmanager
def before(end):
    """For what holds until `end`, a time.time(), and no longer: a ttr, a delay, a pause. A failure in the block is
    one if it comes before that; later it is too late, for it says nothing then. Only an assertion may be late: no
    answer at all is a failure at any time, and so is a mistake in the test."""
    try:
        yield
    except AssertionError as error:
        if time.time() >= end:
            raise TooLate(f"{time.time() - end:.3f} s after the time: {error!r}") from error
        raise
