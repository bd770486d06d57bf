"""The tests' own MariaDBs: what one does must not be felt by another, nor be taken for laterd's."""

import os

import coordination
import pytest
from mariadb import NEEDED, MariaDb, a_maria  # noqa: F401  (a fixture)
from wire import eventually

pytestmark = [NEEDED, pytest.mark.embedded("of the harness, without a laterd")]


def left_over(folder):
    """A file of the name that a temporary table's has."""
    path = os.path.join(folder, "tmp", "#sql-left")
    with open(path, "wb"):
        return path


@pytest.mark.parametrize("kind", [MariaDb, coordination.MariaDb])
def test_a_server_that_starts_leaves_the_others_temporary_tables_alone(maria, kind):
    theirs = left_over(maria.folder)
    assert maria.run("SELECT @@tmpdir") == ((os.path.dirname(theirs),),)
    other = kind()
    try:
        if kind is MariaDb:
            other.make()
        os.mkdir(os.path.join(other.folder, "tmp"))
        own = left_over(other.folder)
        other.start()
        assert eventually(lambda: not os.path.exists(own))
        assert os.path.exists(theirs)
    finally:
        other.stop() if kind is MariaDb else other.close()
