"""The clients people drive beanstalkd with, from Debian and npm, work unchanged.

Each program of test/clients uses all its library offers and prints what the library handed it. It is
run against a new Debian beanstalkd and a new laterd; the transcripts are the same, but for the facts
named in test/clients/divergences.py. fivebeans brings tests of its own: they run too. On Redis ids
have sixteen digits, which is the one thing that is hidden from the programs there.
"""

import contextlib
import difflib
import itertools
import os
import re
import shutil
import subprocess
import sys

import pytest

from beanstalk import BEANSTALKD, Beanstalkd
from busy import Busy
from patience import PATIENCE_S, TooLate
from process import ROOT, Laterd
from renumber import Renumber

CLIENTS = os.path.join(ROOT, "test", "clients")
NODE = os.path.join(os.environ.get("BUILD", os.path.join(ROOT, "build")), "clients", "node")

sys.path.insert(0, CLIENTS)

import divergences  # noqa: E402

needs_beanstalkd = pytest.mark.skipif(not os.access(BEANSTALKD, os.X_OK),
                                      reason=f"{BEANSTALKD} is not installed")


def needs(*programs):
    """script/bootstrap brings them; where it was not run, that is said and not failed."""
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")


def last_lines(text, count=15):
    return "\n".join(text.strip().splitlines()[-count:])


@pytest.fixture(scope="module")
def node_modules():
    """The libraries of npm, in the versions of package-lock.json, in the build directory."""
    needs("node", "npm")
    lock = os.path.join(CLIENTS, "node", "package-lock.json")
    installed = os.path.join(NODE, "installed.json")  # a copy of the lock it was made from
    with open(lock, encoding="utf-8") as file:
        wanted = file.read()
    if os.path.exists(installed):
        with open(installed, encoding="utf-8") as file:
            if file.read() == wanted:
                return os.path.join(NODE, "node_modules")
    os.makedirs(NODE, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(CLIENTS, "node", name), NODE)
    made = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=NODE,
                          capture_output=True, text=True, timeout=300, check=False)
    if made.returncode != 0:
        said = last_lines(made.stderr)
        if any(word in said for word in ("ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "EAI_AGAIN",
                                         "ENETUNREACH", "network")):
            pytest.skip(f"the registry of npm cannot be reached: {said}")
        pytest.fail(f"npm ci: {said}")
    with open(installed, "w", encoding="utf-8") as file:
        file.write(wanted)
    return os.path.join(NODE, "node_modules")


def environment(**more):
    return dict(os.environ, NODE_NO_WARNINGS="1", **more)


class Run:
    """What the program printed, and how it ended, when it drove one server."""

    def __init__(self, process):
        output, errors = process.communicate(timeout=3 * PATIENCE_S)
        self.code, self.said = process.returncode, last_lines(output + errors)
        self.lines = [masked(line) for line in output.splitlines()]

    def timeless(self):
        """Its lines up to the first step in which a pause or a ttr of a second may be over sooner than it looks."""
        return list(itertools.takewhile(lambda line: not TIMED_STEP.match(line), self.lines))

    def hung(self):
        """Was it ended by its own limit of time, in whatever step?"""
        return self.code == 1 and re.search(OWN_LIMIT, self.said)


# The first steps of which the time decides. Ordered ones: pheanstalk takes a job whose ttr is a second.
TIMED_STEP = re.compile(r"pause |in order ")
OWN_LIMIT = r"^hangs$|execution expired|Timeout::Error"


def runs(program, ports, modules=""):
    """A Run for the server of each port; side by side."""
    running = [subprocess.Popen([*program, "127.0.0.1", str(port)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                env=environment(NODE_PATH=modules)) for port in ports]
    return [Run(one) for one in running]


def same(theirs, ours):
    assert ours == theirs, "\n".join(difflib.unified_diff(theirs, ours, "beanstalkd", "laterd", lineterm="", n=2))


def masked(line):
    """A row of statistics without what is a fact of the process."""
    if not line.startswith("  ") or ": " not in line:
        return line
    key, value = line[2:].split(": ", 1)
    if key in divergences.CLIENTS_SEE_OTHERWISE:
        return f"  {key}: *"
    return f"  {key}: {divergences.value_of(key, value)}"


KEPT_S = 0.2


@contextlib.contextmanager
def judged_unless(busy):
    """The programs do within a second what is to be done before a ttr or a pause of a second ends: a failure is too
    late, and no failure, if the machine kept us from running for a part of that. Only for what such a second decides."""
    try:
        yield
    except AssertionError as error:
        if busy.longest_s > KEPT_S:
            raise TooLate(f"the machine was busy for {busy.longest_s:.2f} s: {error}") from error
        raise


def same_transcripts(program, tmp_path, modules=""):
    """The programs name jobs as 1, 2, 3 …: an engine that counts otherwise is asked through a
    translator. On Redis the order over several tubes is exact in one partition."""
    laterd = Laterd(tmp_path, {"redis": {"partitions": 1}}, beanstalk=["127.0.0.1:0"])
    with Beanstalkd() as beanstalkd, laterd, Renumber(laterd.beanstalk_port) as renumber, Busy() as busy:
        port = renumber.port if Laterd.redis_url else laterd.beanstalk_port
        theirs, ours = runs(program, [beanstalkd.port, port], modules)
        if not theirs.hung() and not ours.hung():
            same(theirs.timeless(), ours.timeless())
        for one in theirs, ours:
            assert one.code >= 0, f"{program}: ended by a signal, whatever the machine does: {one.said}"
        with judged_unless(busy):
            for one in theirs, ours:
                assert one.code == 0, f"{program}: {one.said}"
            same(theirs.lines, ours.lines)
        assert len(theirs.lines) > 40 and len(theirs.timeless()) > 20, "the program did all it can"


@needs_beanstalkd
@pytest.mark.parametrize("library", ["fivebeans", "jackd", "node-beanstalk"])
def test_node(library, node_modules, tmp_path):
    same_transcripts(["node", os.path.join(CLIENTS, "node", f"{library}.js")], tmp_path,
                     node_modules)


@needs_beanstalkd
def test_ruby_beaneater(tmp_path):
    needs("ruby")
    same_transcripts(["ruby", os.path.join(CLIENTS, "beaneater.rb")], tmp_path)


@needs_beanstalkd
def test_php_pheanstalk(tmp_path):
    needs("php")
    same_transcripts(["php", os.path.join(CLIENTS, "pheanstalk.php")], tmp_path)


def fivebeans_own(port, modules):
    """Starts the tests that the fivebeans package brings for its client."""
    return subprocess.Popen(
        ["node", os.path.join(modules, "mocha", "bin", "_mocha"), "-t", "8000", "-R", "dot",
         "--require", os.path.join(CLIENTS, "node", "redirect.js"), "test/test-client.js"],
        cwd=os.path.join(modules, "fivebeans"), env=environment(PORT=str(port)),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


# They hold a job back for a second by release, and a tube for three by pause; or mocha lost its patience.
TIMED_TEST = re.compile(r"jobs can contain|#peek_delayed|sec expected|Timeout of [0-9]+ms exceeded")


def first_failure(text):
    """What mocha says of the first test that failed; "" if none did, or mocha did not come so far."""
    found = re.search(r"^  1\) (.*?)(^  2\) |\Z)", text, re.MULTILINE | re.DOTALL)
    return found.group(1) if found else ""


@needs_beanstalkd
def test_fivebeans_own_tests(node_modules, tmp_path):
    with Beanstalkd() as beanstalkd, Laterd(tmp_path, beanstalk=["127.0.0.1:0"]) as laterd, Busy() as busy:
        running = {name: fivebeans_own(server.beanstalk_port, node_modules)
                   for name, server in {"beanstalkd": beanstalkd, "laterd": laterd}.items()}
        said = {name: one.communicate(timeout=3 * PATIENCE_S)[0] for name, one in running.items()}
    for name, text in said.items():
        with judged_unless(busy) if TIMED_TEST.search(first_failure(text)) else contextlib.nullcontext():
            assert "29 passing" in text and "failing" not in text, f"{name}: {last_lines(text, 40)}"
