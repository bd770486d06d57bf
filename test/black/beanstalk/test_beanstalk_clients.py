"""The clients people drive beanstalkd with, from Debian and npm, work unchanged.

Each program of test/clients uses all its library offers and prints what the library handed it. It is
run against a new Debian beanstalkd and a new laterd; the transcripts are the same, but for the facts
named in test/clients/divergences.py. fivebeans brings tests of its own: they run too. On Redis ids
have sixteen digits, which is the one thing that is hidden from the programs there.
"""

import contextlib
import difflib
import os
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


def transcripts(program, ports, modules=""):
    """What the program prints when it drives the server of each port; side by side."""
    running = [subprocess.Popen([*program, "127.0.0.1", str(port)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                env=environment(NODE_PATH=modules)) for port in ports]
    told = []
    for one in running:
        output, errors = one.communicate(timeout=3 * PATIENCE_S)
        assert one.returncode == 0, f"{program}: {last_lines(output + errors)}"
        told.append([masked(line) for line in output.splitlines()])
    return told


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
    late, and no failure, if the machine kept us from running for a part of that."""
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
        with judged_unless(busy):
            theirs, ours = transcripts(program, [beanstalkd.port, port], modules)
            assert len(theirs) > 40, "the program did all it can"
            assert ours == theirs, "\n".join(difflib.unified_diff(theirs, ours, "beanstalkd", "laterd",
                                                                 lineterm="", n=2))


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


@needs_beanstalkd
def test_fivebeans_own_tests(node_modules, tmp_path):
    with Beanstalkd() as beanstalkd, Laterd(tmp_path, beanstalk=["127.0.0.1:0"]) as laterd, Busy() as busy:
        running = {name: fivebeans_own(server.beanstalk_port, node_modules)
                   for name, server in {"beanstalkd": beanstalkd, "laterd": laterd}.items()}
        said = {name: one.communicate(timeout=3 * PATIENCE_S)[0] for name, one in running.items()}
    with judged_unless(busy):
        for name, text in said.items():
            assert "29 passing" in text and "failing" not in text, f"{name}: {last_lines(text, 40)}"
