"""HTTP as friends speak it: keep-alive, pipelining, chunks, Expect, slow clients, long polls."""

import contextlib
import json
import signal
import socket
import threading
import time

import pytest

from patience import PATIENCE_S, soon
from wire import Client, Closed, Wire, eventually, request_bytes

PUSH = json.dumps({"body": "x", "delay": "1h"}).encode()


def test_a_connection_is_kept_alive(shared):
    with Wire(shared.port) as wire:
        for _ in range(3):
            wire.send(request_bytes("GET", "/healthz"))
            answer = wire.response()
            assert answer.status == 200 and answer.headers.get("connection") != "close"


def test_connection_close_is_honoured(shared):
    with Wire(shared.port) as wire:
        wire.send(request_bytes("GET", "/healthz", headers={"Connection": "close"}))
        answer = wire.response()
        assert answer.status == 200 and answer.headers["connection"].lower() == "close"
        assert wire.closed()


def test_http_1_0_closes_unless_asked_not_to(shared):
    with Wire(shared.port) as wire:
        wire.send("GET /healthz HTTP/1.0\r\n\r\n")
        assert wire.response().status == 200
        assert wire.closed()
    with Wire(shared.port) as wire:
        for _ in range(2):
            wire.send("GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            answer = wire.response()
            assert answer.status == 200
            assert answer.headers["connection"].lower() == "keep-alive"


def test_pipelined_requests_are_answered_in_order(shared, topic):
    path = f"/v1/topics/{topic}/jobs"
    with Wire(shared.port) as wire:
        wire.send(b"".join(request_bytes("POST", path, json.dumps({"body": n, "id": f"{topic}{n}"})
                                         .encode()) for n in range(200)))
        assert [wire.response().json()["id"] for _ in range(200)] == [
            f"{topic}{n}" for n in range(200)]


def test_what_follows_a_long_poll_waits_for_its_answer(shared, topic):
    body = json.dumps({"topics": [topic], "wait": "400ms"}).encode()
    with Wire(shared.port) as wire:
        begin = time.monotonic()
        wire.send(request_bytes("POST", "/v1/reserve", body) + request_bytes("GET", "/healthz"))
        assert wire.response().status == 204
        assert time.monotonic() - begin >= 0.39
        assert wire.response().status == 200


def test_a_chunked_body_is_a_body(shared, topic):
    pieces = [PUSH[:3], PUSH[3:4], PUSH[4:]]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    head = (f"POST /v1/topics/{topic}/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
            "\r\n").encode()
    with Wire(shared.port) as wire:
        wire.send(head + chunks + b"0\r\n\r\n")
        assert wire.response().status == 201
        wire.send(head + chunks + b"0;ext=1\r\nTrailer: x\r\n\r\n" + request_bytes("GET", "/healthz"))
        assert wire.response().status == 201
        assert wire.response().text == "ok\n"


def test_expect_100_continue_is_answered_before_the_body(shared, topic):
    head = (f"POST /v1/topics/{topic}/jobs HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            f"Content-Length: {len(PUSH)}\r\n\r\n").encode()
    with Wire(shared.port) as wire:
        wire.send(head)
        assert wire.response().status == 100
        wire.send(PUSH)
        assert wire.response().status == 201


def test_the_absolute_form_is_understood(shared):
    with Wire(shared.port) as wire:
        wire.send("GET http://127.0.0.1:1/healthz HTTP/1.1\r\nHost: example.org\r\n\r\n")
        assert wire.response().status == 200


def test_empty_lines_before_a_request_are_skipped(shared):
    with Wire(shared.port) as wire:
        wire.send(b"\r\n" + request_bytes("GET", "/healthz"))
        assert wire.response().status == 200


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A server with little patience."""
    from process import Laterd
    server = Laterd(tmp_path_factory.mktemp("hasty"),
                    {"limits": {"idle_seconds": "600ms", "request_seconds": "500ms"}})
    with server:
        yield server


def sent_at_once(port, data):
    """A connection on which that was sent before it counts as idle."""
    begin = time.monotonic()
    wire = Wire(port)
    with contextlib.suppress(ConnectionError):
        wire.send(data)
    soon(time.monotonic() - begin, 0.45)
    return wire


def test_a_slow_request_gets_408(hasty):
    with sent_at_once(hasty.port,
                      "POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{") as wire:
        answer = wire.response()
        assert answer.status == 408 and "request_seconds" in answer.text
        assert wire.closed()


def test_an_empty_line_behind_a_body_begins_no_request(laterd):
    """Some clients send one. Their connection may be idle as long as any other, and is closed at once at a stop."""
    server = laterd({"limits": {"idle_seconds": "60s", "request_seconds": "200ms"}})
    with Wire(server.port) as wire:
        wire.send(request_bytes("POST", "/v1/topics/crlf/jobs", PUSH) + b"\r\n")
        assert wire.response().status == 201
        time.sleep(0.6)
        wire.send(request_bytes("GET", "/healthz") + b"\r\n")
        assert wire.response().status == 200
        server.signal(signal.SIGTERM)
        assert wire.closed()


def test_a_dripping_request_gets_408_though_it_never_pauses(hasty):
    with sent_at_once(hasty.port, "POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\n") as wire:
        stop = threading.Event()

        def drip():
            try:
                while not stop.wait(0.05):
                    wire.send("X-A: b\r\n")
            except OSError:
                pass
        thread = threading.Thread(target=drip)
        thread.start()
        try:
            begin = time.monotonic()
            assert wire.response().status == 408
            soon(time.monotonic() - begin, 3)
        finally:
            stop.set()
            thread.join()


def test_an_idle_connection_is_closed(hasty):
    with sent_at_once(hasty.port, request_bytes("GET", "/healthz")) as wire:
        assert wire.response().status == 200
        begin = time.monotonic()
        assert wire.closed()
        assert 0.5 < soon(time.monotonic() - begin, 3)


def test_a_long_poll_is_not_idle(hasty, topic):
    body = json.dumps({"topics": [topic], "wait": "1500ms"}).encode()
    with sent_at_once(hasty.port, request_bytes("POST", "/v1/reserve", body)) as wire:
        assert wire.response().status == 204


def test_a_client_that_does_not_read_is_cut_off_and_hurts_nobody(hasty, topic):
    job = json.dumps({"id": topic, "body": "x" * 500_000, "delay": "1h"}).encode()
    with sent_at_once(hasty.port, request_bytes("POST", f"/v1/topics/{topic}/jobs", job)) as wire:
        assert wire.response().status == 201
    with Wire(hasty.port) as greedy:
        greedy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            for _ in range(200):
                greedy.send(request_bytes("GET", f"/v1/jobs/{topic}"))
        except OSError:
            pass
        begin = time.monotonic()
        with sent_at_once(hasty.port, request_bytes("GET", "/healthz")) as wire:
            assert wire.response().status == 200
        soon(time.monotonic() - begin, 1)

        def alone():
            with Client(hasty.port) as client, contextlib.suppress(Closed):  # it may have been idle
                return client.get("/v1/stats").json()["connections"] == 1
            return False
        assert eventually(alone, 10)


# P6: who has gone takes nothing

def parked(port, topic, dialect="v1"):
    wire = Wire(port)
    if dialect == "v1":
        body = json.dumps({"topics": [topic], "wait": "30s"}).encode()
        return wire.send(request_bytes("POST", "/v1/reserve", body))
    return wire.send(request_bytes("POST", "/pop", json.dumps({"topic": topic}).encode()))


def waiting(client):
    return client.get("/v1/stats").json()["waiting"]


@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_p6_a_client_that_left_its_long_poll_takes_no_job(laterd, topic, how):
    server = laterd()
    with Client(server.port) as client:
        polls = [parked(server.port, topic, dialect) for dialect in ("v1", "delay-queue") * 3]
        assert eventually(lambda: waiting(client) == 6)
        for poll in polls:
            if how == "half":
                poll.end_sending()
            else:
                poll.close(reset=how == "reset")
        assert eventually(lambda: waiting(client) == 0)
        job_id = client.push_id(topic, body="x", ttr="1h")
        assert client.state(job_id) == "ready"
        job, = client.reserve(topic)
        assert job["id"] == job_id and job["attempt"] == 1


def test_p6_a_job_that_could_not_be_handed_over_is_given_to_the_next(laterd, topic):
    """Gone in the instant of the push, before or after the hand-over: the next client gets the job, at
    the latest when the ttr of one that was handed over has run out."""
    server = laterd()
    with Client(server.port) as client:
        for number in range(20):
            leaver = parked(server.port, topic)
            assert eventually(lambda: waiting(client) == 1)
            pusher = Wire(server.port)
            pusher.send(request_bytes("POST", f"/v1/topics/{topic}/jobs",
                                      json.dumps({"body": number, "ttr": "500ms"}).encode()))
            leaver.close(reset=True)
            assert pusher.response().status == 201
            pusher.close()
            jobs = client.reserve(topic, wait="20s")
            assert jobs and jobs[0]["body"] == number, f"round {number}: the job is held by nobody"
            assert jobs[0]["attempt"] <= 2
            assert client.job(jobs[0]["id"], method="DELETE").status == 204  # whether it is still held or not


def test_waiting_clients_are_served_first_come_first_served(shared, client, topic):
    polls = []
    for number in range(5):
        polls.append(parked(shared.port, topic))
        assert eventually(lambda number=number: client.counts(topic)["waiters"] == number + 1)
    for number in range(5):
        client.push_id(topic, body=number)
        assert polls[number].response().json()["jobs"][0]["body"] == number


def test_a_last_answer_may_be_taken_slowly(shared):
    """Closing must not cut off what the system could not take at once."""
    body = "b" * 900_000
    with Client(shared.port) as client:
        assert client.push("slow", body=body, ttr="1h").status == 201
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", shared.port))
        ask = json.dumps({"topics": ["slow"], "max": 1}).encode()
        sock.sendall(request_bytes("POST", "/v1/reserve", ask, {
            "Connection": "close", "Content-Type": "application/json"}))
        time.sleep(1.5)
        sock.settimeout(PATIENCE_S)
        answer = b""
        while more := sock.recv(1 << 20):
            answer += more
    assert answer.endswith(b"]}") and answer.count(b"b" * 900_000) == 1


@pytest.mark.parametrize("listener", [0, 1])
def test_the_root_says_what_this_is(shared, listener):
    with Client(shared.ports[listener]) as one:
        answer = one.get("/")
        assert answer.status == 200 and answer.headers["content-type"] == "application/json"
        said = answer.json()
        assert said["server"] == "laterd" and said["api"] == "/v1"
        for page in [said["openapi"], *said["pages"]]:
            assert one.get(page).status == 200
