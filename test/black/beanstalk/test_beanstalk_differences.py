"""Each difference of docs/beanstalk.md that can be shown in an instant, shown: what Debian's
beanstalkd answers and what laterd does. One that is gone belongs out of the list."""

import os
import socket
import sys

import pytest

from beanstalk import BEANSTALKD, Beanstalkd, Connection, command
from patience import PATIENCE_S
from process import ROOT, Laterd
from wire import eventually

sys.path.insert(0, os.path.join(ROOT, "test", "clients"))

from divergences import DIVERGENCES  # noqa: E402

pytestmark = pytest.mark.skipif(not os.access(BEANSTALKD, os.X_OK),
                                reason=f"{BEANSTALKD} is not installed")


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with Beanstalkd() as beanstalkd, Laterd(tmp_path_factory.mktemp("laterd"),
                                            beanstalk=["127.0.0.1:0"]) as laterd:
        yield beanstalkd, laterd


def told(connection, wanted):
    """The next answer's text, or "waits": if that is what is wanted it comes soon, else an answer is waited for."""
    connection.socket.settimeout(0.2 if wanted == "waits" else PATIENCE_S)
    try:
        return connection.answer().text
    except socket.timeout:
        return "waits"


def huge_timeout(one, _, wanted):
    return told(one.send("reserve-with-timeout 4294967296\r\n"), wanted)


def huge_bound(one, *_):
    job_id = one.put()
    one.reserve()
    one.ask(f"bury {job_id} 0")
    answer = one.ask("kick 4294967296").text
    one.ask(f"delete {job_id}")
    return answer


def line_of_225(one, _, wanted):
    one.send(command("x" * 223) + command("list-tube-used"))
    return [told(one, each) for each in wanted]


def stray_cr(one, _, wanted):
    return told(one.send("use a\r\r\n"), wanted)


def http(one, _, wanted):
    one.send("GET / HTTP/1.1\r\nlist-tube-used\r\n")
    return told(one, wanted)


def quotes(one, *_):
    one.ask("use 123")
    return one.stats("123")["name"], next(row for row in one.ask("list-tubes").rows() if "123" in row)


def version(one, *_):
    return one.stats()["version"]


def resume(one, *_):
    one.ask("use resumed")
    one.ask("pause-tube resumed 9")
    one.ask("pause-tube resumed 0")
    return one.stats("resumed")["cmd-pause-tube"]


def paused_tube(one, other, _):
    one.ask("use paused")
    one.ask("pause-tube paused 60")
    one.ask("use default")
    return other.stats("paused") is not None


def whole_turns(one, other, _):
    other.send("reserve\r\n")
    assert eventually(lambda: one.stats()["current-waiting"] == "1")
    one.send(command("put 9 0 60 5", b"first") + command("put 1 0 60 4", b"best"))
    ids = [one.answer().number, one.answer().number]
    body = other.answer().data
    other.send(f"delete {ids[body == b'best']}\r\n")
    assert other.answer() == "DELETED"
    one.ask(f"delete {ids[body != b'best']}")
    return body


def kick_of_two(one, other, _):
    ids = []
    for body, priority in ((b"first", 9), (b"best", 1)):
        ids.append(one.put(body, priority))
        one.reserve()
        one.ask(f"bury {ids[-1]} {priority}")
    other.send("reserve\r\n")
    assert eventually(lambda: one.stats()["current-waiting"] == "1")
    assert one.ask("kick 2") == "KICKED 2"
    body = other.answer().data
    for job_id in ids:
        other.ask(f"delete {job_id}")
    return body


def delayed_together(one, *_):
    old = one.put(b"released")
    one.reserve()
    one.send(command("put 0 60 60 3", b"put") + command(f"release {old} 0 60"))
    new = one.answer().number
    assert one.answer() == "RELEASED"
    body = one.ask("peek-delayed").data
    for job_id in (old, new):
        one.ask(f"delete {job_id}")
    return body


SHOWN = [
    ("huge-numbers", huge_timeout, "TIMED_OUT", "waits"),
    ("huge-numbers", huge_bound, "KICKED 0", "KICKED 1"),
    ("line-of-225", line_of_225, ["BAD_FORMAT", "waits"], ["BAD_FORMAT", "USING default"]),
    ("stray-cr", stray_cr, "waits", "BAD_FORMAT"),
    ("http-hangs-up", http, "UNKNOWN_COMMAND", "HTTP/1.1 400 Bad Request"),
    ("yaml-quotes", quotes, ("123", "123"), ('"123"', "123")),
    ("stats-version", version, '"1.12"', '"1.13"'),
    ("resume-is-no-pause", resume, "2", "1"),
    ("paused-tube-stays", paused_tube, False, True),
    ("whole-turns", whole_turns, b"first", b"best"),
    ("whole-turns", kick_of_two, b"first", b"best"),
    ("whole-turns", delayed_together, b"put", b"released"),
]


@pytest.mark.parametrize("name, show, theirs, ours", SHOWN,
                         ids=[show.__name__ for _, show, _, _ in SHOWN])
def test_a_difference_is_as_the_document_says(name, show, theirs, ours, servers):
    assert name in DIVERGENCES
    seen = []
    for server, wanted in zip(servers, (theirs, ours)):
        with Connection(server.beanstalk_port) as one, Connection(server.beanstalk_port) as other:
            seen.append(show(one, other, wanted))
    assert seen == [theirs, ours]
