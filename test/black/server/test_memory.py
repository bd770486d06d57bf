"""Memory comes back when what it was for has gone, and it stays inside its limit whatever clients do."""

import contextlib
import json
import os
import random
import re
import socket

import pytest

from beanstalk import Connection, command
from wire import Client, Wire, eventually, request_bytes

MIB = 1 << 20


def rss_bytes(pid, what="VmRSS:"):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(what):
                return int(line.split()[1]) * 1024
    raise AssertionError(f"no {what}")


def heap_bytes(client):
    for line in client.get("/metrics").text.splitlines():
        if line.startswith("laterd_memory_bytes "):
            return int(float(line.split()[1]))
    raise AssertionError("no laterd_memory_bytes")


def uuids(count):
    """So many in their form, in a fifth of the time that uuid.uuid4() takes."""
    return [f"{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:]}"
            for one in re.findall("." * 32, os.urandom(16 * count).hex())]


def come_and_go(client, topic, count):
    """So many jobs with UUIDs for ids are pushed, and deleted in another order."""
    ids = uuids(count)
    for start in range(0, count, 1000):
        jobs = ",".join(f'{{"id":"{one}","body":"{"x" * 100}","delay":"1h"}}' for one in ids[start:start + 1000])
        assert client.post(f"/v1/topics/{topic}/jobs", f"[{jobs}]").status in (200, 201)
    assert client.counts(topic)["delayed"] == count
    random.Random(1).shuffle(ids)
    with Wire(client.port, seconds=60) as wire:
        for start in range(0, count, 500):
            batch = ids[start:start + 500]
            wire.send("".join(f"DELETE /v1/jobs/{one} HTTP/1.1\r\nHost: localhost\r\n\r\n" for one in batch))
            answers = b""
            while answers.count(b"\r\n\r\n") < len(batch):
                more = wire.socket.recv(1 << 20)
                assert more, answers[-300:]
                answers += more
            assert answers.count(b"HTTP/1.1 204 ") == len(batch)


@pytest.mark.long
@pytest.mark.embedded("its jobs are in Redis")
@pytest.mark.parametrize("arguments, count", [((), 400_000), (("--no-persist",), 250_000)],
                         ids=["on disk", "in memory"])
def test_p8_memory_comes_back_when_its_jobs_are_gone(laterd, arguments, count):
    server = laterd({"store": {"durability": "os", "recent_bytes": "1M"}}, arguments=arguments)
    with Client(server.port, seconds=60) as client:
        come_and_go(client, "warm", 5000)
        rss, heap = rss_bytes(server.pid), heap_bytes(client)
        come_and_go(client, "many", count)
        bound = rss * 1.1 + 8 * MIB
        assert eventually(lambda: rss_bytes(server.pid) <= bound), (rss, rss_bytes(server.pid))
        assert eventually(lambda: heap_bytes(client) <= heap * 1.1 + 8 * MIB), (heap, heap_bytes(client))


def send_much(connection, data):
    """What the system takes at once; laterd reads no more of it than it likes."""
    connection.setblocking(False)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while sent < len(data):
            sent += connection.send(data[sent:])
    return sent


POLL = request_bytes("POST", "/v1/reserve", json.dumps({"topics": ["t"], "wait": "60s"}).encode())


@pytest.mark.parametrize("protocol", ["http", "beanstalk"])
def test_p8_what_is_sent_behind_a_parked_poll_stays_with_the_client(laterd, protocol):
    server = laterd({}, beanstalk=["127.0.0.1:0"])
    with Client(server.port) as client, contextlib.ExitStack() as stack:
        client.push_id("other", body="x")  # what comes with the first of its kind is not counted
        assert client.reserve("t", wait="10ms") == []
        with Connection(server.beanstalk_ports[0]) as first:
            assert first.ask("reserve-with-timeout 1") == "TIMED_OUT"
        before = heap_bytes(client)
        for _ in range(200):
            wire = stack.enter_context(Wire(server.port) if protocol == "http" else
                                       Connection(server.beanstalk_ports[0]))
            wire.send(POLL if protocol == "http" else command("reserve"))
            send_much(wire.socket, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 10000
                      if protocol == "http" else command("use x") * 40000)
        assert eventually(lambda: client.get("/v1/stats").json()["waiting"] == 200)
        assert client.push("other", body="x").status == 201
        assert heap_bytes(client) - before < 200 * 8 * 1024


def test_p6_a_poll_with_much_behind_it_that_ends_its_side_takes_no_job(laterd):
    server = laterd({})
    with Client(server.port) as client, Wire(server.port) as wire:
        wire.send(POLL)
        assert eventually(lambda: client.get("/v1/stats").json()["waiting"] == 1)
        send_much(wire.socket, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 3000)
        wire.socket.shutdown(socket.SHUT_WR)
        assert eventually(lambda: client.get("/v1/stats").json()["waiting"] == 0)
        client.push_id("t", body="x")
        assert len(client.reserve("t")) == 1


def test_all_that_was_sent_before_the_end_is_answered(laterd):
    """Although much of it is still unread when the end is known."""
    count = 3000
    server = laterd({}, beanstalk=["127.0.0.1:0"])
    with Wire(server.port, seconds=30) as wire:
        wire.send(request_bytes("POST", "/v1/topics/t/jobs", b'{"body":1}') * count)
        wire.socket.shutdown(socket.SHUT_WR)
        assert [wire.response().status for _ in range(count)] == [201] * count
    with Connection(server.beanstalk_ports[0], seconds=30) as connection:
        connection.send(command("reserve-with-timeout 60") + command("put 0 0 60 1", b"x") * count)
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.answer() == "TIMED_OUT"
        assert {connection.answer().word for _ in range(count)} == {"INSERTED"}


# The limit holds, and honest clients are served, while others send much or take nothing.

LIMIT = 64 * MIB


class Besieged:
    """A laterd with little memory, an honest client of it, and connections that are not honest."""

    def __init__(self, laterd, stack, **limits):
        self.server = laterd({"limits": {"memory_bytes": "64M", **limits},
                              "beanstalk": {"job_bytes": "1M"}}, beanstalk=["127.0.0.1:0"])
        self.stack = stack
        self.honest = stack.enter_context(Client(self.server.port))

    def attacker(self, protocol="http", receive_bytes=None):
        port = self.server.port if protocol == "http" else self.server.beanstalk_ports[0]
        connection = (Wire if protocol == "http" else Connection)(port)
        if receive_bytes:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        return self.stack.enter_context(connection)

    def holds(self):
        """The honest client is served, and memory is inside the limit."""
        assert self.honest.push("honest", body="x").status == 201
        assert heap_bytes(self.honest) <= LIMIT

    def was_evicted(self):
        assert rss_bytes(self.server.pid, "VmHWM:") < LIMIT + 32 * MIB
        text = self.honest.get("/metrics").text
        assert "laterd_connections_evicted_total 0\n" not in text
        assert self.server.wait_log("connections_evicted")


def send_or_be_closed(connection, data):
    with contextlib.suppress(OSError):
        connection.socket.sendall(data)


def test_p8_answers_that_nobody_takes_stay_inside_the_limit(laterd):
    with contextlib.ExitStack() as stack:
        siege = Besieged(laterd, stack)
        large = siege.honest.push_id("t", body="\x01" * 1_000_000)
        for number in range(200):
            wire = siege.attacker(receive_bytes=4096)
            send_or_be_closed(wire, request_bytes("GET", f"/v1/jobs/{large}"))
            if number % 5 == 0:
                siege.holds()
        siege.holds()
        siege.was_evicted()


@pytest.mark.parametrize("protocol", ["http", "beanstalk"])
def test_p8_requests_that_are_not_whole_stay_inside_the_limit(laterd, protocol):
    if protocol == "http":
        data = request_bytes("POST", "/v1/topics/t/jobs", b"x" * 8_000_000)[:-1]
        count = 100
    else:
        data, count = command("put 0 0 60 1000000", b"x" * 1_000_000)[:-3], 300
    with contextlib.ExitStack() as stack:
        siege = Besieged(laterd, stack)
        for number in range(count):
            send_or_be_closed(siege.attacker(protocol), data)
            if number % 5 == 0:
                siege.holds()
        siege.holds()
        siege.was_evicted()


@pytest.mark.embedded("limits.memory_bytes means nothing there")
def test_p8_input_behind_polls_stays_inside_the_limit(laterd):
    with contextlib.ExitStack() as stack:
        siege = Besieged(laterd, stack, buffer_bytes="1M")
        for number in range(400):
            wire = siege.attacker()
            send_or_be_closed(wire, POLL)
            send_much(wire.socket, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 10000)
            if number % 20 == 0:
                siege.holds()
        siege.holds()
        siege.was_evicted()


def test_p8_an_evicted_request_is_answered_503_by_name(laterd):
    with contextlib.ExitStack() as stack:
        siege = Besieged(laterd, stack, buffer_bytes="1M")
        wire = siege.attacker()
        send_or_be_closed(wire, request_bytes("POST", "/v1/topics/t/jobs", b"x" * 3_000_000)[:-1])
        answer = wire.response()
        assert answer.status == 503 and answer.json()["code"] == "memory_limit"
        assert "limits.buffer_bytes" in answer.text
        connection = siege.attacker("beanstalk")
        for _ in range(3):
            send_or_be_closed(siege.attacker("beanstalk"),
                              command("put 0 0 60 900000", b"x" * 900_000)[:-3])
        send_or_be_closed(connection, command("put 0 0 60 1000000", b"x" * 1_000_000)[:-3])
        siege.holds()


def test_p6_jobs_of_an_evicted_client_go_back(laterd):
    with contextlib.ExitStack() as stack:
        siege = Besieged(laterd, stack, buffer_bytes="2M")
        with Connection(siege.server.beanstalk_ports[0]) as producer:
            producer.put(b"\x01" * 1_000_000, ttr=600)  # six times as long in JSON
        wire = siege.attacker(receive_bytes=4096)
        send_or_be_closed(wire, request_bytes("POST", "/v1/reserve", b'{"topics":["default"]}'))
        assert eventually(lambda: siege.honest.counts("default")["ready"] == 1 and
                          "laterd_connections_evicted_total 1\n"
                          in siege.honest.get("/metrics").text)


@pytest.mark.embedded("bodies that lie on laterd's own disk")
def test_large_answers_whose_bodies_are_read_first_are_freed_once(laterd):
    """Their bodies are the worker's from the moment that it is told of them; it may be the first to be done."""
    body = "x" * 2000
    with laterd({"store": {"segment_bytes": "256K", "recent_bytes": "256K"}}) as server, \
            Client(server.port, seconds=30) as client:
        for _ in range(20):
            client.push_many("t", [{"body": body} for _ in range(200)])
        left = 20 * 200
        while left:
            jobs = client.reserve("t", most=500)
            assert jobs and all(job["body"] == body for job in jobs)
            left -= len(jobs)
