"""Each promise once, by name, over the wire. More of each: P1 P2 P4 P5 P7 P8 in test_disk.py and
test_limits.py, P6 in test_http.py, the rest in the unit tests and the simulation.
"""

import json
import signal
import threading
import time

import pytest

from patience import PATIENCE_S, soon
from wire import Client, Wire, eventually, request_bytes


def test_p1_p2_an_acknowledged_push_outlives_the_process(laterd):
    server = laterd()
    with Client(server.port) as client:
        job_id = client.push_id("t", body="x")
        server.kill()
    server.start()
    with Client(server.port) as client:
        assert client.reserve("t")[0]["id"] == job_id


@pytest.mark.serial
@pytest.mark.deadline
def test_p3_no_job_comes_before_its_due_time_nor_much_after(laterd):
    server = laterd()
    count, early, late = 400, [], []
    with Client(server.port) as client:
        start_ms = int(time.time() * 1000) + 500
        jobs = [{"body": start_ms + number * 3 // 2, "due": start_ms + number * 3 // 2}
                for number in range(count)]
        assert client.post("/v1/topics/t/jobs", jobs).status in (200, 201, 207)
    lock, end = threading.Lock(), time.monotonic() + PATIENCE_S

    def consume():
        with Client(server.port) as client:
            while len(early) + len(late) < count and time.monotonic() < end:
                taken = client.reserve("t", wait="1s", most=10)
                now_ms = time.time() * 1000
                for job in taken:
                    with lock:
                        (early if now_ms < job["body"] else late).append(now_ms - job["body"])
                    client.job(job["id"], "finish", lease=job["lease"])
    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not early and len(late) == count
    soon(sorted(late)[count // 2], 100)  # ms: half of them are late by no more than is decent


def test_p4_of_many_who_ask_at_once_one_gets_the_job(shared, client, topic):
    wires = [Wire(shared.port) for _ in range(30)]
    body = json.dumps({"topics": [topic], "wait": "1s"}).encode()
    begin = time.monotonic()
    for wire in wires:
        wire.send(request_bytes("POST", "/v1/reserve", body))
    client.push_id(topic, body="x", ttr="1m")
    soon(time.monotonic() - begin, 1)  # they still wait
    statuses = [wire.response().status for wire in wires]
    assert sorted(statuses) == [200] + [204] * 29
    for wire in wires:
        wire.close()


@pytest.mark.embedded("--no-persist is the store's")
def test_p4_a_lease_of_a_process_that_kept_nothing_finishes_no_job_of_the_next(laterd):
    leases = set()
    for _ in range(2):
        server = laterd(arguments=["--no-persist"])
        with Client(server.port) as client:
            assert client.push_id("t", id="same", body="x")
            job, = client.reserve("t")
            for stale in leases:
                assert client.post("/v1/jobs/same/finish", lease=stale).status == 409
            leases.add(job["lease"])
        server.stop()
    assert len(leases) == 2


def test_p5_a_finished_job_never_comes_back(laterd):
    server = laterd({"store": {"segment_bytes": "256K"}})
    pushed, finished, came = set(), set(), set()
    for _ in range(3):
        with Client(server.port) as client:
            results = client.push_many("t", [{"body": "x" * 1000, "ttr": "100ms"}] * 200)
            pushed.update(result["job"]["id"] for result in results)
            for job in client.reserve("t", most=150):
                assert job["id"] not in finished
                if client.job(job["id"], "finish", lease=job["lease"]).status in (200, 204):
                    finished.add(job["id"])
        server.kill()
        server.start()
    assert len(pushed) == 600 and len(finished) > 0

    def all_others_came():
        taken = client.reserve("t", wait="300ms", most=100)
        came.update(job["id"] for job in taken)
        for job in taken:
            client.job(job["id"], "finish", lease=job["lease"])
        return not taken and came | finished == pushed
    with Client(server.port) as client:
        assert eventually(all_others_came)
    assert not finished & came


def test_p6_a_poll_that_ends_takes_its_place_with_it(shared, client, topic):
    with Wire(shared.port) as wire:
        wire.send(request_bytes("POST", "/v1/reserve",
                                json.dumps({"topics": [topic], "wait": "20s"}).encode()))
        assert eventually(lambda: client.counts(topic)["waiters"] == 1)
    assert eventually(lambda: client.get("/v1/stats").json()["waiting"] == 0)
    job_id = client.push_id(topic, body="x")
    assert client.state(job_id) == "ready"


@pytest.mark.parametrize("behind", [b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_p6_who_asks_and_goes_at_once_takes_no_job_of_the_same_turn(laterd, behind):
    server = laterd()
    with Client(server.port) as client, Wire(server.port) as producer:
        gone = Wire(server.port)
        assert eventually(lambda: client.get("/v1/stats").json()["connections"] == 3)
        server.signal(signal.SIGSTOP)  # so that all of it comes to one turn
        gone.send(request_bytes("POST", "/v1/reserve", b'{"topics":["t"],"wait":"20s"}') + behind)
        gone.close()
        producer.send(request_bytes("POST", "/v1/topics/t/jobs", b'{"body":"x","ttr":"1h"}'))
        time.sleep(0.1)  # the system's part: loopback is no promise to be at once
        server.signal(signal.SIGCONT)
        assert producer.response().status == 201
        since = time.monotonic()
        job, = client.reserve("t", wait="25s")
        soon(time.monotonic() - since, 5)
        assert job["body"] == "x" and job["attempt"] == 1


def test_p9_a_restart_gives_the_same_state(laterd):
    server = laterd()

    def state(client):
        listed = {}
        for name in ("a", "b"):
            for kind in ("delayed", "ready", "buried"):
                page = client.get(f"/v1/topics/{name}/jobs?state={kind}&limit=1000").json()
                listed[name, kind] = page["jobs"]
        return listed
    with Client(server.port) as client:
        for number in range(30):
            client.push_id("ab"[number % 2], body={"n": number}, priority=number % 5, ttr=5000 + number,
                           retry=["1s", "2s"], delay="1h" if number % 3 else 0)
        for job in client.reserve("a", "b", most=4):
            client.job(job["id"], "bury", lease=job["lease"], priority=3)
        before = state(client)
    server.kill()
    server.start()
    with Client(server.port) as client:
        assert state(client) == before


@pytest.mark.serial
@pytest.mark.deadline
def test_p10_waits_end_when_they_should(client, topic):
    for wait in (0.05, 0.3, 0.7):
        begin = time.monotonic()
        assert client.reserve(topic, wait=int(wait * 1000)) == []
        took = time.monotonic() - begin
        assert wait - 0.002 <= soon(took, wait + 0.3)


def test_p6_a_proxy_that_resets_its_connection_takes_no_job_away(laterd):
    """It has passed the answer on: the client holds the job, and finishes it."""
    server = laterd()
    with Client(server.port) as client:
        for number in range(5):
            job_id = client.push_id("t", ttr="1h", body=number)
            wire = Wire(server.port)
            wire.send(request_bytes("POST", "/v1/reserve", b'{"topics":["t"],"wait":"5s"}',
                                    {"Content-Type": "application/json"}))
            job, = wire.response().json()["jobs"]
            connections = client.get("/v1/stats").json()["connections"]
            wire.close(reset=True)
            assert eventually(
                lambda before=connections: client.get("/v1/stats").json()["connections"] < before)
            assert client.state(job_id) == "reserved" and client.reserve("t") == []
            assert client.job(job_id, "finish", lease=job["lease"]).status == 204


def test_p6_what_a_client_closed_upon_without_reading_comes_again_after_its_ttr(laterd):
    server = laterd()
    with Client(server.port) as client:
        client.push_id("t", ttr="700ms", body="x")
        wire = Wire(server.port)
        wire.send(request_bytes("POST", "/v1/reserve", b'{"topics":["t"]}',
                                {"Content-Type": "application/json"}))
        assert eventually(lambda: client.counts("t")["totals"]["reserved"] == 1)
        wire.close()  # with the answer unread: the system sends a reset
        since = time.monotonic()
        job, = client.reserve("t", wait="25s")
        soon(time.monotonic() - since, 5)
        assert job["body"] == "x" and job["attempt"] == 2
