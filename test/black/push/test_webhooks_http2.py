"""Webhooks over HTTP/2: a receiver that offers it by ALPN (node's own server) gets it, many at once on one
connection; over plain HTTP it is HTTP/1.1."""

import json
import shutil
import subprocess
import threading

import pytest

from front import certificates
from relay import Relay
from wire import Client, eventually

PROGRAM = """
const http2 = require("http2"), fs = require("fs");
let sessions = 0, at = 0, most = 0;
const server = http2.createSecureServer({key: fs.readFileSync("server.key"), cert: fs.readFileSync("server.crt"),
                                         allowHTTP1: true}, (request, response) => {
    let body = "";
    most = Math.max(most, ++at);
    request.on("data", (data) => body += data);
    request.on("end", () => setTimeout(() => {
        at--;
        console.log(JSON.stringify({version: request.httpVersion, body, sessions, most,
                                    id: request.headers["webhook-id"], connection: request.headers["connection"]}));
        response.writeHead(body == "no" ? 503 : 200);
        response.end("fine");
    }, 200));
});
server.on("session", () => sessions++);
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
"""


@pytest.fixture(name="receiver")
def a_receiver_with_http2(tmp_path):
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    folder = tmp_path / "receiver"
    folder.mkdir()
    certificates(folder)
    process = subprocess.Popen(["node", "-e", PROGRAM], cwd=folder, stdout=subprocess.PIPE, text=True)
    process.requests = []
    process.port = int(process.stdout.readline())
    process.ca = folder / "ca.crt"

    def read():
        for line in process.stdout:
            process.requests.append(json.loads(line))
    threading.Thread(target=read, daemon=True).start()
    yield process
    process.kill()
    process.wait(60)


def test_a_receiver_that_offers_http2_gets_it_on_few_connections(laterd, receiver):
    server = laterd({"push": {"allow": "127.0.0.1", "host_concurrency": 20}})
    with Client(server.port) as client:
        target = {"type": "http", "url": f"https://127.0.0.1:{receiver.port}/hook", "ca": str(receiver.ca)}
        assert client.request("PUT", "/v1/topics/orders", {"target": target, "retry": ["1h"]}).status == 200
        client.push_many("orders", [*({"id": f"o{number}", "body": f"body {number}"} for number in range(40)),
                                    {"id": "no", "body": "no"}])  # at once: so that many are under way
        assert eventually(lambda: len(receiver.requests) == 41, 20)
        assert {request["version"] for request in receiver.requests} == {"2.0"}
        assert {request["body"] for request in receiver.requests} == {f"body {i}" for i in range(40)} | {"no"}
        assert all(request["id"] and "connection" not in request for request in receiver.requests)
        assert receiver.requests[-1]["most"] > 4
        print("connections:", receiver.requests[-1]["sessions"])
        assert receiver.requests[-1]["sessions"] <= 20
        assert eventually(lambda: client.state("no") == "delayed")
        attempt, = client.get("/v1/jobs/no/attempts").json()["attempts"]
        assert attempt["code"] == 503 and attempt["response"] == "fine"


def test_a_connection_that_brings_no_answers_any_more_is_not_used_again(laterd, receiver):
    """Of HTTP/2 libcurl ends the request that was not answered, and keeps the connection."""
    server = laterd({"push": {"allow": "127.0.0.1"}})
    with Relay(receiver.port) as relay, Client(server.port) as client:
        target = {"type": "http", "url": f"https://127.0.0.1:{relay.port}/hook", "ca": str(receiver.ca), "timeout": "1s"}
        assert client.request("PUT", "/v1/topics/orders", {"target": target, "retry": ["100ms"] * 4}).status == 200
        client.push("orders", id="before", body="before")
        assert eventually(lambda: client.state("before") is None)
        assert receiver.requests[0]["version"] == "2.0"
        relay.mute(b"")  # all that there are: each stays, and takes what is sent
        client.push("orders", id="behind", body="behind")
        assert eventually(lambda: client.state("behind") in (None, "buried"), 20)
        assert client.state("behind") is None
        assert [request["sessions"] for request in receiver.requests] == [1, 1, 2]
        assert eventually(lambda: len(relay.pairs) == 1)  # the new one is not kept
