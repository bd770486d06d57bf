"""Memory comes back when what it was for has gone, and it stays inside its limit whatever clients do."""

import contextlib
import json
import random
import socket
import uuid

import pytest

from beanstalk import Connection, command
from wire import Client, Wire, eventually, request_bytes

MIB = 1 << 20


def rss_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def heap_bytes(client):
    for line in client.get("/metrics").text.splitlines():
        if line.startswith("laterd_memory_bytes "):
            return int(float(line.split()[1]))
    raise AssertionError("no laterd_memory_bytes")


def come_and_go(client, topic, count):
    """So many jobs with UUIDs for ids are pushed, and deleted in another order."""
    ids = [str(uuid.uuid4()) for _ in range(count)]
    for start in range(0, count, 1000):
        jobs = [{"id": one, "body": "x" * 100, "delay": "1h"} for one in ids[start:start + 1000]]
        assert client.post(f"/v1/topics/{topic}/jobs", json.dumps(jobs)).status in (200, 201)
    assert client.counts(topic)["delayed"] == count
    random.Random(1).shuffle(ids)
    with Wire(client.port, seconds=60) as wire:
        for start in range(0, count, 500):
            batch = ids[start:start + 500]
            wire.send(b"".join(request_bytes("DELETE", f"/v1/jobs/{one}") for one in batch))
            answers = b""
            while answers.count(b"\r\n\r\n") < len(batch):
                answers += wire.socket.recv(1 << 20)
            assert answers.count(b"HTTP/1.1 204 ") == len(batch)


@pytest.mark.embedded("its jobs are in Redis")
@pytest.mark.parametrize("arguments", [(), ("--no-persist",)], ids=["on disk", "in memory"])
def test_p8_memory_comes_back_after_a_million_jobs_are_gone(laterd, arguments):
    server = laterd({"store": {"durability": "os", "recent_bytes": "1M"}}, arguments=arguments)
    with Client(server.port, seconds=60) as client:
        come_and_go(client, "warm", 5000)
        rss, heap = rss_bytes(server.pid), heap_bytes(client)
        come_and_go(client, "many", 1_000_000)
        bound = rss * 1.1 + 8 * MIB
        assert eventually(lambda: rss_bytes(server.pid) <= bound), (rss, rss_bytes(server.pid))
        assert heap_bytes(client) <= heap * 1.1 + 8 * MIB


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
