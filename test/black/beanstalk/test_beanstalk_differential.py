"""The same commands to Debian's beanstalkd and to laterd: the same answers, word by word.

How it is done is in test/clients/differential.py, what may differ in test/clients/divergences.py.
Longer: make diff-beanstalkd SECONDS=600.
"""

import itertools
import os
import sys
import time

import pytest

from beanstalk import BEANSTALKD, Beanstalkd, Connection
from process import ROOT

sys.path.insert(0, os.path.join(ROOT, "test", "clients"))

import differential  # noqa: E402
import divergences  # noqa: E402
import stories  # noqa: E402
from differential import Mismatch, Pair, TooSlow  # noqa: E402

pytestmark = pytest.mark.skipif(not os.access(BEANSTALKD, os.X_OK),
                                reason=f"{BEANSTALKD} is not installed")

SECONDS = 8
SECONDS_MOST = 150  # on a machine so busy that most sequences take too long to be judged
JUDGED_LEAST = 11


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with Pair(tmp_path_factory.mktemp("pair")) as both:
        yield both


@pytest.mark.long
def test_random_sequences(tmp_path):
    # The same ones each time: `make diff-beanstalkd` looks for new ones. Servers of its own, whose tubes are listed.
    with Pair(tmp_path) as pair:
        check_random_sequences(pair)


def check_random_sequences(pair):
    begin, seed = time.monotonic(), 0

    def may_go_on():
        enough = pair.judged >= JUDGED_LEAST
        return time.monotonic() - begin < (SECONDS if enough else SECONDS_MOST)

    while may_go_on():
        seed += 1
        pair.check(seed)
    if pair.judged < JUDGED_LEAST:
        pytest.skip(f"of {seed} sequences {pair.judged} were quick enough to judge")


def test_what_happens_in_time(pair):
    with Beanstalkd() as one, Beanstalkd() as two, Beanstalkd() as three, Beanstalkd() as four:
        ports = [server.port for server in (one, two, three, four)]
        found = stories.check(pair.second.beanstalk_port, ports)
    differ = [f"{name}\nlaterd:\n{ours}\nbeanstalkd:\n{theirs}"
              for name, (ours, theirs) in found.items() if not isinstance(ours, TooSlow)]
    assert not differ, "\n\n".join(differ)
    if found:
        pytest.skip(f"the machine was too busy to tell {list(found)}")


def test_each_malformed_line(pair):
    for line in differential.MALFORMED:
        told = []
        for port in pair.ports:
            with Connection(port) as one:
                told.append((one.ask(line).text, one.ask("list-tube-used").text))
        assert told[0] == told[1], line


def test_a_difference_is_found(tmp_path):
    """The negative control: a server that is told other limits is caught."""
    two = Pair(tmp_path)
    two.second = differential.Beanstalkd("-z", differential.BODY_BYTES // 2)
    begin, seeds = time.monotonic(), itertools.count()
    with two, pytest.raises(Mismatch) as found:
        while two.judged < 300:
            two.check(next(seeds))
            if time.monotonic() - begin > SECONDS_MOST:
                pytest.skip(f"{two.judged} sequences were quick enough to judge")
    assert "JOB_TOO_BIG" in str(found.value) or "max-job-size" in str(found.value)
    assert len(str(found.value)) < 5000, "it is shrunk"


def test_each_divergence_is_in_the_document():
    with open(os.path.join(ROOT, "docs", "beanstalk.md"), encoding="utf-8") as file:
        document = file.read()
    for name in divergences.DIVERGENCES:
        assert f"`{name}`" in document, f"docs/beanstalk.md does not explain {name}"
