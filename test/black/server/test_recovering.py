"""While a store is read for longer than a moment: HTTP says how far it is, all else waits or is refused."""

import os
import re
import signal
import socket
import subprocess
import time

import pytest
from busy import Busy
from coordination import RedisService, until
from patience import PATIENCE_S, soon
from ports import free_port
from process import ROOT
from wire import Client, Closed, Wire, eventually

pytestmark = pytest.mark.embedded("about the store on disk")

KEPT_S = 0.5  # out of the 1.3 s within which a member must hear from its service
JOBS, BODY_BYTES = 24, 512 * 1024  # a log of 12 MiB, read in steps of a MiB


class Slow:
    """The environment of a process whose disk is slow: each read takes so long, until it is told otherwise."""

    def __init__(self, library, path):
        self.path = path
        self.environment = {"LD_PRELOAD": library, "SLOW_READ_FILE": str(path)}

    def reads_take(self, ms):
        self.path.with_suffix(".new").write_text(f"{ms}\n")
        os.replace(self.path.with_suffix(".new"), self.path)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    library = str(tmp_path_factory.mktemp("slow") / "slow_reads.so")
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O", "-D_GNU_SOURCE", "-o", library,
                    os.path.join(ROOT, "test", "harness", "slow_reads.c")], check=True)
    return library


@pytest.fixture
def slow(library, tmp_path):
    return Slow(library, tmp_path / "reads_take_ms")


@pytest.fixture
def full(laterd):
    """A laterd that was killed with a long log. Its clients find it where it was."""
    server = laterd(listeners=[f"127.0.0.1:{free_port()}"], beanstalk=[f"127.0.0.1:{free_port()}"])
    with Client(server.port) as client:
        for at in range(JOBS):
            client.push("t", id=f"j{at}", body="x" * BODY_BYTES)
    server.kill()
    return server


def begin_slowly(server, slow, ms):
    slow.reads_take(ms)
    server.environment.update(slow.environment)
    server.start(wait=False)
    assert server.wait_log("recovering_long")
    return int(re.search(r"http=\S+:(\d+)", server.events("recovering_long")[0][1]).group(1))


def ask(port, method, path, **fields):
    with Client(port) as client:
        return client.request(method, path, **fields)


def not_ready(port):
    """What /readyz says; "" if laterd is ready."""
    try:
        answer = ask(port, "GET", "/readyz")
    except (ConnectionError, Closed):
        return "a connection that was there when it began to serve"
    return answer.text if answer.status == 503 else ""


def test_http_says_how_far_it_is_until_it_serves(full, slow, tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(PATIENCE_S)
        full.environment["NOTIFY_SOCKET"] = path
        port = begin_slowly(full, slow, ms=200)  # a hundred of them and more, and nobody waits for all
        ready = ask(port, "GET", "/readyz")
        assert ready.status == 503 and re.search(r"recovering: \d+ of \d+ MiB of the log are read", ready.text)
        assert ask(port, "GET", "/healthz").status == 200
        assert "laterd_ready 0\n" in ask(port, "GET", "/metrics").text
        for method, path in (("GET", "/v1/topics/t"), ("POST", "/v1/topics/t/jobs"), ("GET", "/v1/stats")):
            refused = ask(port, method, path)
            assert (refused.status, refused.json()["code"]) == (503, "recovering"), refused
            assert "of the log are read" in refused.json()["detail"]
            assert refused.headers["retry-after"] == "1" and refused.headers["connection"] == "close"
        for path in ("/v1/stats", "/metrics", "/readyz"):  # a page that rebinds its name is not told how far it is
            with Wire(port) as wire:
                wire.send(f"GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n".encode())
                assert (answer := wire.response()).status == 403 and "log are read" not in answer.text, answer
        with socket.create_connection(("127.0.0.1", int(full.beanstalk[0].split(":")[1]))) as waits:
            waits.sendall(b"stats-tube t\r\n")  # it is heard when laterd serves
            assert not full.events("listening")
            texts = {ready.text}
            assert eventually(lambda: texts.add(not_ready(port)) or
                              len(texts) > 1 and any("s more" in text for text in texts))
            slow.reads_take(0)
            assert eventually(lambda: not not_ready(port))
            assert waits.recv(100).startswith(b"OK ")
        full.wait_listening()
        assert ask(port, "GET", "/v1/topics/t").json()["ready"] == JOBS
        said = []
        while "READY=1" not in "".join(said):
            said.append(manager.recv(1000).decode())
        assert said[0].startswith("EXTEND_TIMEOUT_USEC=30000000\nSTATUS=recovering: ")


def test_the_log_says_each_second_how_far_it_is(full, slow):
    slow.reads_take(200)  # twelve steps and more, of one MiB
    full.environment.update(slow.environment)
    begun = time.monotonic()
    full.start()
    seconds = time.monotonic() - begun
    lines = [dict(pair.split("=") for pair in text.split()) for _, text in full.events("recovering")]
    assert 2 <= len(lines) <= seconds, (seconds, lines)
    done = [int(line["done_bytes"]) for line in lines if line["part"] == "log"]
    assert done == sorted(done) and done[0] < int(lines[0]["of_bytes"])


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_signal_ends_it_and_the_next_start_has_all(full, slow, number, code):
    port = begin_slowly(full, slow, ms=200)
    assert ask(port, "GET", "/readyz").status == 503
    begun = time.monotonic()
    full.signal(number)
    assert full.wait() == code
    soon(time.monotonic() - begun, 3)  # all of it takes longer
    assert not full.events("listening")
    slow.reads_take(0)
    full.start()
    assert ask(full.port, "GET", "/v1/topics/t").json()["ready"] == JOBS


@pytest.mark.skipif(not RedisService.installed, reason="redis-server is not installed")
def test_a_term_that_ends_meanwhile_ends_the_opening_and_no_disk_is_blamed(laterd, slow):
    with RedisService() as service:
        server = laterd({"member": {"url": service.url, "name": "slow", "timeout": "2s"}}, start=False,
                        listeners=[f"127.0.0.1:{free_port()}"])
        server.start(wait=False)
        assert server.wait_log("leads")
        server.wait_listening()
        with Client(server.port) as client:
            for at in range(JOBS):
                assert client.push("t", id=f"j{at}", body="x" * BODY_BYTES).status == 201
        port = server.port
        server.kill()
        slow.reads_take(200)
        server.environment.update(slow.environment)
        server.start(wait=False)
        until(lambda: "of the log are read" in not_ready(port), PATIENCE_S)
        begun = time.monotonic()
        with Busy() as busy:
            service.call("HSET", "laterd:member:slow", "holder", "another", "epoch", "40")
            assert server.wait_log("opening_given_up")
            soon(time.monotonic() - begun, 5)  # all of it takes longer
            assert server.wait_log("leads_no_longer")
        said = server.events("opening_given_up")[0][1]
        assert "of the log are read" in said and "see leads_no_longer for the reason" in said
        why = server.events("leads_no_longer")[0][1]
        if "no answer came within two thirds of member.timeout" in why or "this process did not run" in why:
            soon(busy.longest_s, KEPT_S)  # then its time may have been over before it looked at the row
        assert "was written by another" in why
        assert not server.events("cannot_lead")
        assert not any("cannot open the store" in line for line in server.lines)
        server.kill()
        slow.reads_take(0)
        server.start(wait=False)
        assert server.wait_log("leads")
        assert ask(port, "GET", "/v1/topics/t").json()["ready"] == JOBS
