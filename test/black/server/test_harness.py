"""What the tests take for a slow machine (test/harness): each tolerance excuses what a slow machine explains, and
nothing else."""

import json
import socket
import threading
import time

import pytest

from busy import Busy
from local_server import Handler, LocalServer
from patience import PATIENCE_S, TooLate, before
from poll import Poll
from process import DidNotStart, Laterd
from relay import Relay, Search
from wire import Client, Closed, eventually, judge_again

LONG_AGO, NOT_YET = 0, 4e9


@pytest.fixture(autouse=True)
def no_redis(monkeypatch):
    """Whatever laterd runs on elsewhere."""
    monkeypatch.setattr(Client, "redis_watch", None)


# What holds for a while only

def test_an_assertion_that_fails_is_late_after_the_end_only():
    with pytest.raises(TooLate), before(LONG_AGO):
        assert False
    with pytest.raises(AssertionError) as raised, before(NOT_YET):
        assert False
    assert raised.type is AssertionError


@pytest.mark.parametrize("error", [TypeError, KeyError, NameError, ConnectionResetError, Closed])
def test_no_answer_and_a_mistake_in_a_test_are_never_late(error):
    with pytest.raises(error), before(LONG_AGO):
        raise error("x")


# Redis that did not answer in time

class Watch:
    """In place of a Busy that asks Redis: the time of each stall, a time.monotonic(), and how long it was."""

    def __init__(self, *stalls):
        self.stalls = stalls

    def longest_since(self, when):
        return max((took for end, took in self.stalls if end >= when), default=0)


class Server(LocalServer):
    """Answers each POST alike, after `held` is set; `status` 0: it ends the connection instead."""

    def __init__(self, status, body=b"", held=None):
        asked = []

        class Answers(Handler):
            def do_GET(self):
                self.send(200, {}, f"laterd_waiting {len(asked) if held else 0}\n".encode())

            def do_POST(self):
                self.text()
                asked.append(self.path)
                if held:
                    held.wait(PATIENCE_S)
                if status:
                    self.send(status, {}, body)
                else:
                    self.close_connection = True
        self.begin(Answers)

    @property
    def port(self):
        return self.server.server_address[1]


AGAIN = json.dumps({"status": 503, "code": "again"}, separators=(",", ":")).encode()


@pytest.mark.parametrize("took, waits, stalls, kind", [  # a stall: how long ago it ended, and how long it was
    (0, False, [], AssertionError),  # at once, and Redis is well
    (0, False, [(1, 0.1)], AssertionError),  # was late, but not as late as laterd waits for it
    (0, False, [(60, 5)], AssertionError),  # laterd has connected again since
    (0, False, [(1, 0.4)], TooLate),
    (0, True, [(1, 0.1)], AssertionError),
    (0.1, True, [], AssertionError),
    (0.1, True, [(0, 0.05)], TooLate),  # a poll whose last look was under way for 50 ms
    (0.1, True, [(5, 0.05)], AssertionError),  # that was before the poll
    (0.1, False, [(0, 0.05)], AssertionError),
    (2, False, [(0, 0.1)], AssertionError),
    (2, False, [(0, 1.9)], TooLate),
])
def test_a_refusal_is_late_if_redis_was(took, waits, stalls, kind):
    watch = Watch(*((1000 - ago, stall) for ago, stall in stalls))
    with pytest.raises(AssertionError) as raised:
        judge_again("503", 1000 - took, 1000, watch, waits)
    assert raised.type is kind


@pytest.mark.parametrize("stall, kind", [(0, AssertionError), (1, TooLate)])
def test_a_client_that_is_refused_says_which(monkeypatch, stall, kind):
    monkeypatch.setattr(Client, "redis_watch", Watch((time.monotonic(), stall)))
    for path in ("/v1/topics/t/jobs", "/v1/reserve"):
        with Server(503, AGAIN) as server, Client(server.port) as client, pytest.raises(AssertionError) as raised:
            client.post(path, topics=["t"])
        assert raised.type is kind


@pytest.mark.parametrize("stall, kind", [(0.5, DidNotStart), (1, TooLate)])
def test_a_start_that_redis_does_not_answer_is_late_if_redis_was(tmp_path, monkeypatch, stall, kind):
    monkeypatch.setattr(Laterd, "redis_watch", Watch((NOT_YET, stall)))
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises((DidNotStart, TooLate)) as raised:
        Laterd(tmp_path / "laterd", {"engine": {"engine": "redis"},
                                     "redis": {"url": f"redis://127.0.0.1:{silent.getsockname()[1]}"}}).start()
    assert raised.type is kind


def test_a_watch_tells_how_late_a_look_was_and_that_one_goes_on():
    go_on, asked = threading.Event(), threading.Event()

    def hang():
        asked.set()
        go_on.wait(PATIENCE_S)
    with Busy(hang) as busy:
        assert asked.wait(PATIENCE_S)
        time.sleep(0.4)
        assert busy.longest_since(time.monotonic()) >= 0.3
        go_on.set()
        assert eventually(lambda: busy.late)
    assert busy.longest_s >= 0.3
    busy.late = [(10, 0.5), (20, 0.1), (30, 0.2)]
    assert [busy.longest_since(when) for when in (10, 11, 20, 30, 31)] == [0.5, 0.2, 0.2, 0.2, 0]


def test_a_watch_whose_look_fails_says_so_and_excuses_nothing():
    def fail():
        raise ConnectionResetError("gone")
    with Busy(fail) as busy:
        assert eventually(lambda: busy.error)
        with pytest.raises(ConnectionResetError, match="gone"):
            busy.longest_since(0)


# Consumers that wait

@pytest.mark.parametrize("server, error, said", [
    (Server(0), Closed, ""), (Server(204), AssertionError, "it did not wait"),
    (Server(503, AGAIN), AssertionError, "it did not wait")])
def test_who_is_answered_at_once_without_a_job_or_not_at_all_was_not_parked(server, error, said):
    with server, pytest.raises(error, match=said):
        Poll(server.port, "t")


def test_who_gets_a_job_at_once_or_is_not_answered_was_parked():
    jobs = json.dumps({"jobs": [{"id": "a"}]}).encode()
    with Server(200, jobs) as server:
        assert Poll(server.port, "t").job() == {"id": "a"}
    held = threading.Event()
    with Server(200, jobs, held) as server:
        poll = Poll(server.port, "t")
        assert poll.is_alive()
        held.set()
        assert poll.job() == {"id": "a"}
    held.clear()
    with Server(0, held=held) as server:
        poll = Poll(server.port, "t")
        assert poll.is_alive()
        held.set()
        with pytest.raises(Closed):
            poll.jobs()


# What passes a relay

def test_bytes_that_passed_while_something_else_was_looked_for_are_not_found():
    search, first, second = Search(), object(), object()
    assert not search.finds(first, b"one", b"two, an o")
    assert not search.finds(second, b"two", b"ne")
    assert not search.finds(second, b"two", b" and t")
    assert search.finds(second, b"two", b"wo")
    assert not search.finds(second, b"two", b" and so on")
    assert not search.finds(None, None, b"two")
    assert not search.finds(first, b"two", b"t")
    assert not search.finds(first, b"two", b"w") and search.finds(first, b"two", b"o")
    assert search.finds(first, b"o", b"o") and not search.finds(first, b"o", b"n")


def test_a_hook_that_takes_the_place_of_another_sees_only_what_comes_then():
    acted = []

    def pass_on(words):
        client.sendall(words)
        assert passed.read(len(words)) == words

    with socket.create_server(("127.0.0.1", 0)) as listener, Relay(listener.getsockname()[1]) as relay, \
            socket.create_connection(("127.0.0.1", relay.port), PATIENCE_S) as client:
        server, _ = listener.accept()
        server.settimeout(PATIENCE_S)
        passed = server.makefile("rb")
        relay.before(b"never", lambda: acted.append("never"))
        pass_on(b"push ")
        relay.before(b"push", lambda: acted.append("push"))
        pass_on(b"stats ")
        assert not acted, "what it is to come before has passed"
        pass_on(b"push ")
        assert acted == ["push"]
        passed.close(), server.close()
