"""How long tests wait, and how they tell that something took too long on a machine that is busy."""

PATIENCE_S = 60  # for what must come; it comes much sooner where nothing else runs


class TooLate(AssertionError):
    """It came, but not as soon as it must. The test is tried again (test/black/conftest.py): a machine that
    was busy passes then, what waits where it should not fails each time."""


def soon(took, limit):
    """`took`, which must be less than the limit."""
    if took >= limit:
        raise TooLate(f"{took:.3f} s, not less than {limit} s")
    return took
