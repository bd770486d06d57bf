"""The tests' own MariaDBs: what one does must not be felt by another, nor be taken for laterd's."""

import os
import shutil
import subprocess
import sys

import coordination
import pytest
from mariadb import NEEDED, MariaDb, a_maria  # noqa: F401  (a fixture)
from ports import WORKER
from process import LATERD, ROOT
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


TESTS = """
import signal

from mariadb import MariaDb, a_maria

left = [{crashes}]


def crash(maria):
    if left:
        left.pop()
        maria.signal(signal.SIGSEGV)
        maria.process.wait()


def test_before(maria):
    maria.url_of = maria.database("kept")
    maria.run("CREATE TABLE kept(id INT)", database="kept")


def test_in_it(maria):
    maria.database("tried")
    crash(maria)
    assert maria.run("SELECT 1") == ((1,),)


def test_behind_it(maria):
    assert maria.run("SELECT COUNT(*) FROM kept", database="kept") == ((0,),)


def test_of_its_own():
    maria = MariaDb().make().start()
    try:
        crash(maria)
        maria.run("SELECT 1")
    finally:
        maria.stop()


def test_that_kills_it_itself():
    maria = MariaDb().make().start()
    try:
        maria.kill()
        maria.start().run("SELECT 1")
    finally:
        maria.stop()
"""


def run_tests(folder, crashes, *options):
    """How a run of TESTS ends, and what it says."""
    black = folder / "test" / "black"
    black.mkdir(parents=True)
    shutil.copy(os.path.join(ROOT, "test", "black", "conftest.py"), black)
    os.symlink(os.path.join(ROOT, "test", "harness"), folder / "test" / "harness")
    (black / "test_it.py").write_text(TESTS.format(crashes="0, " * crashes), encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    environment |= {"LATERD": LATERD, "TEST_PORTS": str(WORKER)}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, *options,
                           black], cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout


def test_a_test_whose_mariadb_dies_by_itself_is_tried_again_and_that_is_said(tmp_path):
    code, said = run_tests(tmp_path, 1, "-n", "1")
    assert code == 0 and "5 passed" in said, said
    assert said.count("died by itself: test/black/test_it.py::test_in_it: MariaDb got SIGSEGV\n") == 1, said
    assert said.count("tried again as a server had died: test/black/test_it.py::test_in_it\n") == 1, said
    assert said.count("died by itself") == 1 and "mariadbd got signal 11" in said, said


def test_one_that_dies_in_both_tries_fails_and_the_tests_behind_it_do_not(tmp_path):
    code, said = run_tests(tmp_path, 3)  # the third is one that a test stops itself
    assert code == 1 and "1 failed, 4 passed" in said and "FAILED test/black/test_it.py::test_in_it" in said, said
    assert "- a server that died by itself -" in said and "mariadbd got signal 11" in said, said
    assert said.count("died by itself: test/black/test_it.py::test_of_its_own: MariaDb got SIGSEGV\n") == 1, said
