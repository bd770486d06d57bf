"""Servers of a cluster whose clocks differ by seconds, as where NTP is not at work: due times are
by the clock of the server that has the job, and the daemon allows for each server's difference.
"""

import os
import subprocess
import time

import pytest
from patience import PATIENCE_S, soon
from process import ROOT, Laterd
from redis import REDIS_SERVER, Cluster
from wire import Client, eventually

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")

LATE_S = 1.2  # on a busy machine


@pytest.fixture(scope="module")
def shifted(tmp_path_factory):
    """shifted(ms): the environment of a process whose clock differs by so much."""
    library = tmp_path_factory.mktemp("clock") / "shifted_clock.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O", "-D_GNU_SOURCE", "-o",
                    library, os.path.join(ROOT, "test", "harness", "shifted_clock.c")], check=True)
    return lambda ms: {"LD_PRELOAD": str(library), "CLOCK_SHIFT_MS": str(ms)}


def begin(cluster, environments):
    for server, environment in zip(cluster.servers, environments):
        server.environment = environment
    return cluster


def behind_us(server):
    seconds, us = server.call("TIME")
    return time.time() * 1e6 - (int(seconds) * 1e6 + int(us))


@pytest.fixture(scope="module")
def crooked(shifted):
    """Three masters: one is 1.7 s ahead, one 1.2 s behind, one right."""
    shifts = [shifted(1700), shifted(-1200), {}]
    with begin(Cluster(replicas=0), shifts) as cluster:
        for server, expected in zip(cluster.servers, (-1.7e6, 1.2e6, 0)):
            assert eventually(lambda: abs(behind_us(server) - expected) < 1e5), "the clock is not shifted"
        with cluster.watched():
            yield cluster


@pytest.fixture
def client(crooked, laterd, request, monkeypatch):
    for one in (Client, Laterd):
        monkeypatch.setattr(one, "redis_watch", crooked.watch)
    keys = {"engine": {"engine": "redis"},
            "redis": {"url": crooked.url, "prefix": request.node.name}}
    with Client(laterd(keys).port) as one:
        yield one


def take_all(client, topic, count):
    """{id: (job, when it came)}"""
    taken = {}
    end = time.monotonic() + PATIENCE_S
    while len(taken) < count and time.monotonic() < end:
        jobs = client.reserve(topic, wait="200ms", most=100)
        taken.update({job["id"]: (job, time.time()) for job in jobs})
    assert len(taken) == count
    return taken


def test_a_watch_over_a_cluster_tells_of_each_of_its_servers(crooked):
    for server in crooked.servers:
        begun = time.monotonic()
        server.freeze()
        time.sleep(0.4)
        server.thaw()
        assert crooked.watch.longest_since(begun) >= 0.3


def test_p3_no_server_of_a_cluster_gives_a_job_early(client):
    """By the clock of the daemon, whose clients it is that count."""
    due = {}
    for number in range(96):  # in all partitions
        due_ms = int(time.time() * 1000) + 700
        job_id = f"job-{number}"
        if number % 2:
            client.push_id("t", id=job_id, body="x", due=due_ms, ttr="1m")
        else:
            client.push_id("t", id=job_id, body="x", delay="700ms", ttr="1m")
        due[job_id] = due_ms / 1000
        if number % 10 == 0:
            latest_ms = int(time.time() * 1000) + 700
            told = client.job(job_id, method="GET").json()
            assert due_ms - 500 < told["due_ms"] < latest_ms + 500, "told by the daemon's clock"
    late = {job_id: came - due[job_id] for job_id, (_, came) in take_all(client, "t", 96).items()}
    assert min(late.values()) >= 0, sorted(late.values())
    soon(max(late.values()), LATE_S)


def test_p4_a_ttr_is_as_long_on_every_server(client):
    for number in range(48):
        client.push_id("t", id=f"job-{number}", body="x", ttr="1500ms")
    before = time.time()
    first = take_all(client, "t", 48)
    soon(time.time() - before, 1.4)  # none is there for the second time
    again = take_all(client, "t", 48)
    soon(max(came - first[job_id][1] for job_id, (_, came) in again.items()), 1.5 + LATE_S)
    for job_id, (job, came) in again.items():
        assert job["attempt"] == 2 and job["lease"] != first[job_id][0]["lease"]
        # Its ttr began after its first reserve was sent and before that was answered.
        assert came - before >= 1.5


def test_numbers_and_leases_grow_when_a_slower_clock_takes_over(shifted, laterd):
    """A number is the time of its making; the next is never below the last, whoever makes it."""
    with begin(Cluster(), [shifted(2000)] * 3 + [shifted(-1000)] * 3) as cluster:
        server = laterd({"engine": {"engine": "redis"}, "redis": {"url": cluster.url}})
        topics = [f"t{number}" for number in range(24)]  # in most partitions

        def numbers(client, topic):
            """Of a new job, and of its lease."""
            job_id = client.push_id(topic, body="x", ttr="1h")
            # Pushed by the difference of before, it may be late by as much as that has changed.
            [job] = client.reserve(topic, wait="20s")
            return int(job_id.lstrip("@")), int(job["lease"])

        with Client(server.port) as client:
            before = {topic: numbers(client, topic) for topic in topics}
            for replica in cluster.servers[3:]:
                cluster.fail_over(replica)
            assert eventually(lambda: client.get("/readyz").status == 200, 10)
            for topic in topics:
                old, new = before[topic], numbers(client, topic)
                assert old[0] < old[1] < new[0] < new[1], (topic, old, new)
