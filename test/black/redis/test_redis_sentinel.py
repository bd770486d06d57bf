"""A master under sentinels: laterd hears of a failover when it happens, whatever became of the old
master, and says who it is to sentinels that ask."""

import contextlib
import os
import re
import socket
import threading
import time

import pytest
from patience import PATIENCE_S, soon
from process import ROOT, DidNotStart
from redis import REDIS_SERVER, Redis, Sentinels, fail_over, wait_until
from wire import Client, eventually

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")

TIMEOUT = 8.0  # redis.timeout: what tells a hung master from a slow one if nobody says so


@pytest.fixture
def trio():
    with Sentinels() as three:
        yield three


def config(url, **redis):
    return {"engine": {"engine": "redis"},
            "redis": {"url": url, "timeout": f"{int(TIMEOUT * 1000)}ms", **redis}}


def subscribers(trio):
    """At all sentinels together."""
    return sum(sentinel.call("CLIENT", "LIST").count(b" sub=1 ") for sentinel in trio.sentinels)


class Pushes(threading.Thread):
    """Pushes one after the other; `silent` is the longest time without an acknowledgement."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.going, self.times = port, True, []
        self.start()
        wait_until(lambda: len(self.times) > 5)

    def run(self):
        with Client(self.port, seconds=30) as client:
            while self.going:
                if client.push("t", body="x").status == 201:
                    self.times.append(time.monotonic())

    def stop(self):
        count = len(self.times)
        assert eventually(lambda: len(self.times) > count + 5, 20)
        self.going = False
        self.join(60)
        return max(b - a for a, b in zip(self.times, self.times[1:]))


@pytest.mark.deadline
def test_a_master_that_hangs_is_left_when_another_is_made(laterd, trio):
    server = laterd(config(trio.url))
    wait_until(lambda: subscribers(trio) == 3)
    pushes = Pushes(server.port)
    old = trio.master()
    old.freeze()
    try:
        wait_until(lambda: trio.master() is not old, 20)
        switched = time.monotonic()
        wait_until(lambda: pushes.times[-1] > switched, TIMEOUT)
        took = time.monotonic() - switched
        silent = pushes.stop()
    finally:
        old.thaw()
    print(f"acknowledged {took:.2f} s after the failover, nothing for {silent:.2f} s")
    soon(took, 1.5)
    soon(silent, TIMEOUT - 1)
    assert len(server.events("redis_failover")) == 1


@pytest.mark.deadline
def test_a_master_that_is_demoted_while_it_lives_is_left_at_once(laterd, trio):
    server = laterd(config(trio.url))
    wait_until(lambda: subscribers(trio) == 3)
    pushes = Pushes(server.port)
    fail_over(trio)
    assert eventually(lambda: server.events("redis_failover"), 20)
    silent = pushes.stop()
    print(f"nothing for {silent:.2f} s")
    soon(silent, 4)


def test_a_failover_is_found_by_asking_when_no_sentinel_could_tell(laterd, trio):
    """All subscriptions are cut, and refused, when it happens."""
    server = laterd(config(trio.url, timeout="1s"))
    wait_until(lambda: subscribers(trio) == 3)
    for sentinel in trio.sentinels:
        sentinel.call("ACL", "SETUSER", "default", "-subscribe")
        sentinel.call("CLIENT", "KILL", "TYPE", "pubsub")
    old = trio.master()
    old.kill()
    wait_until(lambda: trio.master() is not old, 20)
    with Client(server.port) as client:
        assert eventually(lambda: client.push("t", body="x").status == 201, 10)


def test_sentinels_that_ask_for_a_password_get_it(laterd):
    with Sentinels(password="guards-secret") as trio:
        since = time.monotonic()
        with pytest.raises(DidNotStart) as why:
            laterd(config(trio.url))
        assert "cannot use Redis" in str(why.value) and "NOAUTH" in str(why.value)
        soon(time.monotonic() - since, 3)  # it waited for what nobody will correct
        with pytest.raises(DidNotStart) as why:
            laterd(config(trio.url, sentinel_password="wrong"))
        assert "WRONGPASS" in str(why.value)
        first = laterd(config(trio.url, sentinel_password="guards-secret"))
        from_environment = {"LATERD_REDIS_SENTINEL_PASSWORD": "guards-secret"}
        second = laterd(config(trio.url, sentinel_user="default"), environment=from_environment)
        wait_until(lambda: subscribers(trio) == 6)
        for server in (first, second):
            with Client(server.port) as client:
                client.push_id("t", body="x")
            assert not any("secret" in line for line in server.lines)


def test_the_documented_rights_are_enough_for_sentinels(laterd, trio):
    with open(os.path.join(ROOT, "docs/redis-recipes.md"), encoding="utf-8") as file:
        rules = re.search(r"ACL SETUSER jobs on >PASSWORD (&.switch[^`\n]*)", file.read()).group(1)
    for sentinel in trio.sentinels:
        sentinel.call("ACL", "SETUSER", "jobs", "reset", "on", ">pass", *rules.split())
    server = laterd(config(trio.url, sentinel_user="jobs", sentinel_password="pass"))
    wait_until(lambda: subscribers(trio) == 3)
    assert not server.events("sentinel_away")


def test_a_master_that_no_sentinel_knows_is_refused_at_once(laterd, trio):
    since = time.monotonic()
    with pytest.raises(DidNotStart) as why:
        laterd(config(trio.url.replace(trio.name, "unknown")))
    assert "No such master with that name" in str(why.value)
    soon(time.monotonic() - since, 3)


def test_too_few_replicas_are_reported_once_and_when_there_are_enough(laterd):
    """Redis finds nothing wrong: without this the log would not say why each change gets 503."""
    with Redis() as master, Redis() as replica:
        server = laterd(config(master.url, timeout="2s", wait_replicas=1))
        with Client(server.port) as client:
            assert [client.push("t", body="x").status for _ in range(2)] == [503, 503]
            few, = server.events("redis_replicas_few")
            assert "answered=0 wanted=1" in str(few) or few["answered"] == "0"
            assert client.get("/readyz").status == 503
            replica.call("REPLICAOF", "127.0.0.1", master.port)
            assert eventually(lambda: client.get("/readyz").status == 200, 10)
            assert eventually(lambda: client.push("t", body="x").status == 201)
        assert len(server.events("redis_replicas_few")) == 1
        assert server.wait_log("redis_replicas_enough")
        assert len(server.events("redis_replicas_enough")) == 1


def test_a_sentinel_that_goes_is_reported_once_and_does_no_harm(laterd, trio):
    server = laterd(config(trio.url))
    wait_until(lambda: subscribers(trio) == 3)
    gone = trio.sentinels[0]
    gone.kill()
    assert eventually(lambda: server.events("sentinel_away"), 5)
    with Client(server.port) as client:
        assert client.push("t", body="x").status == 201
        assert client.get("/readyz").status == 200
    gone.start()
    assert eventually(lambda: server.events("sentinel_back"), 10)
    assert len(server.events("sentinel_away")) == 1


class FakeSentinel(threading.Thread):
    """Names the master that it is told to, and then says `messages` on the channel. It is so many
    seconds away."""

    def __init__(self, master, messages=(), away=0.0):
        super().__init__(daemon=True)
        self.away = away
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.master, self.messages, self.said = master, messages, threading.Event()
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                one, _ = self.listener.accept()
                with contextlib.suppress(OSError), one:
                    one.recv(100)  # PING
                    time.sleep(self.away)
                    one.sendall(b"+PONG\r\n")
                    one.recv(1000)  # both questions come in one packet
                    one.sendall(array("127.0.0.1", self.master))
                    one.sendall(b"*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n")
                    for message in self.messages:
                        one.sendall(array("message", "+switch-master", message))
                    self.said.set()
                    one.recv(1)  # until laterd leaves


def array(*words):
    return f"*{len(words)}\r\n".encode() + \
        b"".join(f"${len(str(word))}\r\n{word}\r\n".encode() for word in words)


def test_sentinels_that_are_far_away_are_waited_for(laterd):
    with Redis() as redis:
        for away in (0.4, 0.8):  # longer than answers are counted for, and than it takes to ask again
            fake = FakeSentinel(redis.port, away=away)
            server = laterd(config(f"redis+sentinel://127.0.0.1:{fake.port}/jobs"))
            with Client(server.port) as client:
                assert client.push("t", body="x").status == 201


def test_what_a_sentinel_says_of_others_or_nobody_can_read_changes_nothing(laterd):
    with Redis() as redis:
        fake = FakeSentinel(redis.port, ["other 127.0.0.1 1 127.0.0.1 2", "jobs 127.0.0.1 1 h",
                                         "jobs", "jobs h 1 h 99999", "jobs h 1 h 0", "jobs h 1  2",
                                         "", " ", f"jobs h 1 {'h' * 300} 2",
                                         "jobs h 1 /run/redis.sock 2", "jobs h 1 a\nb 2",
                                         "jobs h 1 \0 2"])
        server = laterd(config(f"redis+sentinel://127.0.0.1:{fake.port}/jobs"))
        assert fake.said.wait(PATIENCE_S)
        with Client(server.port) as client:
            for _ in range(20):
                assert client.push("t", body="x").status == 201
    assert not server.events("redis_failover")
