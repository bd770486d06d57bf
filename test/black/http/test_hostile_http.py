"""Malformed HTTP (RFC 9112): refused, the connection closed, and nothing behind it served."""

import os
import re

import pytest

from wire import Client, Closed, Wire, eventually, request_bytes


CANARY = "POST /v1/topics/%s/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\n{\"body\":\"c\"}"
CHUNKED = "POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"

BAD = {
    "both lengths": CHUNKED + "Content-Length: 4\r\n\r\n0\r\n\r\n",
    "both lengths, the other way": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
                                   "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two different lengths": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
                             "Content-Length: 5\r\n\r\nabcde",
    "a list of lengths": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4, 5\r\n\r\nabcde",
    "a negative length": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "a signed length": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: +4\r\n\r\nabcd",
    "a hexadecimal length": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x4\r\n\r\nabcd",
    "a length past 64 bits": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                             "18446744073709551620\r\n\r\nabcd",
    "an empty length": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: \r\n\r\n",
    "a length with a space": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1 2\r\n\r\nabc",
    "space before the colon": "GET /healthz HTTP/1.1\r\nHost : a\r\n\r\n",
    "a tab before the colon": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length\t: 0\r\n\r\n",
    "a folded header": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
    "a folded first header": "GET /healthz HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "no Host": "GET /healthz HTTP/1.1\r\n\r\n",
    "two Hosts": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n",
    "bare LF": "GET /healthz HTTP/1.1\nHost: a\n\n",
    "bare LF after a header": "GET /healthz HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
    "bare CR in a value": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n",
    "bare CR in a name": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX\rY: b\r\n\r\n",
    "NUL in a value": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n",
    "NUL in a name": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX\0: b\r\n\r\n",
    "NUL in the target": "GET /health\0z HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a header without a colon": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n",
    "a header without a name": "GET /healthz HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n",
    "a space in the target": "GET /health z HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no version": "GET /healthz\r\nHost: localhost\r\n\r\n",
    "version 0.9": "GET /healthz HTTP/0.9\r\nHost: localhost\r\n\r\n",
    "version 2": "GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n",
    "version 1.12": "GET /healthz HTTP/1.12\r\nHost: localhost\r\n\r\n",
    "lower-case version": "GET /healthz http/1.1\r\nHost: localhost\r\n\r\n",
    "another protocol": "GET /healthz ICE/1.0\r\nHost: localhost\r\n\r\n",
    "a bad chunk size": CHUNKED + "\r\nxyz\r\nabc\r\n0\r\n\r\n",
    "a chunk size with a sign": CHUNKED + "\r\n-1\r\n\r\n",
    "a chunk size with 0x": CHUNKED + "\r\n0x2\r\n{}\r\n0\r\n\r\n",
    "an absurd chunk size": CHUNKED + "\r\nfffffffffffffffff\r\n",
    "a chunk longer than it says": CHUNKED + "\r\n2\r\n{}}\r\n0\r\n\r\n",
    "a chunk with bare LF": CHUNKED + "\r\n2\n{}\r\n0\r\n\r\n",
    "unknown coding": "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
    "coding after chunked": "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
    "identity after chunked": "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
                              "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunked misspelt": "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "chunked with a vertical tab": "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
                                   "\x0bchunked\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": "POST / HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                           "0\r\n\r\n",
    "a method of bad letters": "G(T /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + "x" * 64,
    "noise": "\xff\xfe\x00\x01\x80" * 30,
    "an HTTP response": "HTTP/1.1 200 OK\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("name", BAD)
def test_a_malformed_request_is_refused_and_nothing_behind_it_served(shared, topic, name):
    with Wire(shared.port) as wire:
        try:
            wire.send(BAD[name].encode("latin-1") + (CANARY % topic).encode())
            answer = wire.response()
            assert 400 <= answer.status <= 505, answer
            assert answer.status in (400, 413, 414, 417, 431, 501, 505), answer
            assert answer.headers.get("connection", "").lower() == "close"
            assert wire.closed(), "the connection must end"
        except (Closed, ConnectionError):
            pytest.fail("closed without an answer")
    with Client(shared.port) as client:
        assert client.get(f"/v1/topics/{topic}").status == 404, "the canary was smuggled in"




@pytest.mark.parametrize("name", [name for name, method in {
    "TRACE": "TRACE", "CONNECT": "CONNECT"}.items()])
def test_trace_and_connect_are_refused(shared, name):
    with Wire(shared.port) as wire:
        wire.send(f"{name} / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert wire.response().status in (400, 405, 501)


@pytest.mark.parametrize("head, status, code", [
    ("POST / HTTP/1.1\r\nHost: localhost\r\nExpect: a-miracle", 417, "expectation_failed"),
    ("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked", 501, "not_implemented"),
    ("TRACE / HTTP/1.1\r\nHost: localhost", 501, "not_implemented"),
    ("GET / HTTP/2.0\r\nHost: localhost", 505, "http_version"),
    ("GET / HTTP/1.1", 400, "bad_request")])
def test_a_refusal_of_http_has_a_stable_code(shared, head, status, code):
    with Wire(shared.port) as wire:
        wire.send(head + "\r\n\r\n")
        answer = wire.response()
        assert answer.status == status and answer.json()["code"] == code, answer
        assert wire.closed()


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_request_in_two_pieces_is_one_request(shared, cut):
    data = request_bytes("GET", "/healthz", headers={"X-Long": "a" * 20})
    with Wire(shared.port) as wire:
        wire.send(data[:cut])
        assert wire.silent(0.05)
        wire.send(data[cut:])
        assert wire.response().status == 200


def test_ten_thousand_bad_bytes_leave_no_connection_behind(shared):
    def connections():
        with Client(shared.port) as client:
            return client.get("/v1/stats").json()["connections"]
    before = connections()
    for _ in range(50):
        with Wire(shared.port) as wire:
            wire.send(os.urandom(200))
    assert eventually(lambda: connections() <= before + 1)


def test_a_problem_in_the_framing_names_no_secrets_and_says_why(shared):
    with Wire(shared.port) as wire:
        wire.send("GET /healthz HTTP/1.1\r\n\r\n")
        text = wire.response().text
        assert re.search("host", text, re.IGNORECASE)
