"""Memory comes back when what it was for has gone, and it stays inside its limit whatever clients do."""

import json
import random
import uuid

import pytest

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
