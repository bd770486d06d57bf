"""What a page in a browser can do to a laterd on its reader's machine: nothing.

A page may send simple requests to any address without asking, and may have its own name point to
any address (DNS rebinding), and then read the answers, too.
"""

import os
import socket
import time

import pytest

from beanstalk import Connection
from process import DidNotStart
from wire import Client, Wire, request_bytes


def ask(port, method, path, host, body=b"", content_type="application/json"):
    """One request that names this host; its answer."""
    data = request_bytes(method, path, body, {"Content-Type": content_type})
    with Wire(port) as wire:
        wire.send(data.replace(b"Host: localhost", b"Host: " + host.encode()))
        return wire.response(head=method == "HEAD")


CALLS = [
    ("GET", "/v1/topics"), ("GET", "/v1/stats"), ("GET", "/v1/openapi.json"), ("GET", "/"),
    ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics"), ("HEAD", "/v1/topics"),
    ("POST", "/v1/topics/%s/jobs"), ("POST", "/v1/reserve"), ("DELETE", "/v1/jobs/%s"),
    ("OPTIONS", "/v1/topics"), ("POST", "/push"), ("POST", "/pop"), ("GET", "/pop/%s"),
    ("POST", "/finish"), ("GET", "/nothing/here")]


@pytest.mark.parametrize("listener", [0, 1])
@pytest.mark.parametrize("method, path", CALLS)
def test_a_page_that_rebinds_its_name_gets_nothing(shared, client, topic, listener, method, path):
    client.push_id(topic, id=topic, body="secret")
    port = shared.ports[listener]
    body = b'{"topics":["%s"],"body":"evil"}' % topic.encode() if method == "POST" else b""
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example"):
        answer = ask(port, method, path % topic if "%s" in path else path, host, body)
        assert answer.status == 403, answer
        assert "secret" not in answer.text and topic not in answer.text
        assert method == "HEAD" or "server.hosts" in answer.text
        if path.startswith("/v1/") and method != "HEAD":
            assert answer.json()["code"] == "unknown_host"
    counts = client.counts(topic)
    assert counts["ready"] == counts["totals"]["pushed"] == 1 and counts["totals"]["reserved"] == 0


def test_addresses_and_localhost_are_known_to_all(shared):
    for host in ("127.0.0.1", "[::1]:1", "localhost", f"LOCALHOST:{shared.port}", "10.1.2.3:80"):
        assert ask(shared.port, "GET", "/v1/topics", host).status == 200, host


def test_names_of_the_configuration_and_of_its_listeners_are_known(laterd):
    server = laterd({"server": {"hosts": ["queue.example, laterd", "third"]}},
                    listeners=["localhost:0"])
    for host in ("queue.example", "QUEUE.example:80", "laterd", "third:1", "localhost"):
        assert ask(server.port, "GET", "/v1/topics", host).status == 200, host
    assert ask(server.port, "GET", "/v1/topics", "fourth").status == 403
    assert ask(laterd({"server": {"hosts": "*"}}).port, "GET", "/v1/topics", "any").status == 200


@pytest.mark.embedded("a queue of one laterd")
def test_the_name_that_a_laterd_tells_clients_to_reach_it_by_is_known(laterd):
    server = laterd({"member": {"url": "alone", "advertise": "http://queue1.example:9277"}})
    for host in ("queue1.example:9277", "QUEUE1.example"):
        assert ask(server.port, "GET", "/v1/topics", host).status == 200, host
    for host in ("queue2.example", "example", "evil.queue1.example"):
        assert ask(server.port, "GET", "/v1/topics", host).status == 403, host


def test_hosts_that_are_no_names_are_refused_at_the_start(laterd):
    for bad in ("queue:9277", "http://queue", "*.example"):
        with pytest.raises(DidNotStart, match="hosts"):
            laterd({"server": {"hosts": bad}})


def test_a_unix_socket_takes_any_host(laterd, tmp_path):
    path = str(tmp_path / "socket")
    server = laterd({}, listeners=["127.0.0.1:0", f"unix:{path}"])
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(60)
        one.connect(path)
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert one.recv(1000).startswith(b"HTTP/1.1 200 ")
    assert os.path.exists(path) and server.port


def once_in_a_while(server, event, begin):
    """The facts of the first such line: there is one each ten seconds."""
    assert server.wait_log(event)
    lines = server.events(event)
    assert len(lines) <= 1 + (time.monotonic() - begin) // 10, lines
    return lines[0][1]


def test_requests_for_another_host_are_counted_and_logged_once_in_a_while(laterd):
    server, begin = laterd(), time.monotonic()
    for number in range(20):
        assert ask(server.port, "GET", "/", f"evil{number}.example").status == 403
    facts = once_in_a_while(server, "unknown_host", begin)
    assert "evil0.example" in facts and "server.hosts" in facts
    with Client(server.port) as client:
        assert 'laterd_misdirected_total{kind="unknown_host"} 20' in client.get("/metrics").text


# The port for clients of beanstalkd

POSTED = "put 0 0 60 4\r\nevil\r\n"


def posted(port, method="POST"):
    """What a browser sends for a page that posts text to the port."""
    return (f"{method} / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: text/plain\r\n"
            f"Content-Length: {len(POSTED)}\r\nOrigin: http://evil.example\r\n\r\n{POSTED}")


def test_a_page_cannot_give_commands_to_the_port_for_beanstalkd(laterd):
    server, begin = laterd(beanstalk=["127.0.0.1:0"]), time.monotonic()
    port = server.beanstalk_port
    for data in (posted(port), posted(port, "GET"), posted(port).split("\r\n", 1)[1],
                 f"POST /{'a' * 500} HTTP/1.1\r\n{POSTED}"):
        with Wire(port) as wire:
            answer = wire.send(data).response()
            assert answer.status == 400 and "server.http" in answer.text
            assert wire.closed()
    with Connection(port) as one:
        assert one.stats()["total-jobs"] == "0"
    assert "POST / HTTP/1.1" in once_in_a_while(server, "http_on_beanstalk_port", begin)
    with Client(server.port) as client:
        text = client.get("/metrics").text
        assert 'laterd_misdirected_total{kind="http_on_beanstalk_port"} 4' in text


def test_a_beanstalkd_client_on_the_port_for_http_is_answered_at_once(laterd):
    server, begin = laterd(), time.monotonic()
    for line in ("put 0 0 60 4\r\nevil\r\n", "reserve\r\n", "stats\r\n", "watch a\r\n"):
        with Wire(server.port) as wire:
            answer = wire.send(line).response()
            assert answer.status == 400 and "server.beanstalk" in answer.text
            assert wire.closed()
    assert once_in_a_while(server, "beanstalk_on_http_port", begin)
    with Client(server.port) as client:
        text = client.get("/metrics").text
        assert 'laterd_misdirected_total{kind="beanstalk_on_http_port"} 4' in text


def test_a_client_that_speaks_tls_to_the_port_for_http_is_answered_at_once_and_named(laterd):
    server, begin = laterd(), time.monotonic()
    peers = []
    for hello in (b"\x16\x03\x01\x02\x00\x01", b"\x16", b"\x16\x03\x01\x00\xa5\r\n\r\n"):
        with Wire(server.port) as wire:
            peers.append("%s:%d" % wire.socket.getsockname())
            answer = wire.send(hello).response()
            assert answer.status == 400 and "http://" in answer.text
            assert wire.closed()
    facts = once_in_a_while(server, "tls_on_http_port", begin)
    assert f"from={peers[0]} " in facts and "http://" in facts
    with Client(server.port) as client:
        text = client.get("/metrics").text
        assert 'laterd_misdirected_total{kind="tls_on_http_port"} 3' in text
