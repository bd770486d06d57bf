"""What happened to a job: kept if [store] history says so, shown though the job has ended."""

import json
import os
import socket
import subprocess

import pytest
from process import LATER, LATERD
from test_openapi import Document
from wire import Client, eventually

pytestmark = pytest.mark.embedded("the history of jobs is kept by the embedded engine alone")

KEPT = {"store": {"history": "30d"}}
SMALL = {"store": {"history": "30d", "segment_bytes": "256K"}}


def later(*what, server=None):
    where = ["-s", f"127.0.0.1:{server.port}"] if server else []
    return subprocess.run([LATER, *where, *map(str, what)], capture_output=True, text=True,
                          timeout=60, check=False)


def fill(client):
    """So much that segments are cleaned."""
    for number in range(30):
        client.push("fill", id=f"f{number}", body="x" * 60000)
        client.job(f"f{number}", method="DELETE")


def has_files(client):
    return eventually(lambda: "laterd_history_files 0" not in client.get("/metrics").text)


def events(client, name):
    answer = client.get(f"/v1/jobs/{name}/history")
    assert answer.status == 200, answer
    return answer.json()["events"]


def words(client, name):
    return [one["event"] for one in events(client, name)]


def live(client, topic, name):
    """Pushed, released with a reason, finished."""
    client.push(topic, id=name, delay="20ms")
    job, = client.reserve(topic, wait=5000)
    client.job(name, "release", lease=job["lease"], reason="busy", code=503)
    job, = client.reserve(topic, wait=5000)
    assert client.job(name, "finish", lease=job["lease"]).status == 204
    return job


def address(client):
    """Where the server sees it come from."""
    host, port = client.wire.socket.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reserve_of(topic, **more):
    body = json.dumps({"topics": [topic], **more})
    return (f"POST /v1/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode()


LIFE = ["pushed", "due", "reserved", "released", "reserved", "finished"]


def test_a_job_that_has_ended_has_a_history(laterd):
    with Client(laterd(KEPT).port) as client:
        job = live(client, "t", "a")
        Document(client.get("/v1/openapi.json").json()).check(
            "GET", "/v1/jobs/a/history", client.get("/v1/jobs/a/history"))
        found = events(client, "a")
        assert [one["event"] for one in found] == LIFE
        assert found[0]["topic"] == "t" and found[0]["state"] == "delayed"
        assert found[1]["time"] == found[0]["due"]
        assert (found[3]["code"], found[3]["reason"]) == (503, "busy")
        assert found[4]["lease"] == job["lease"] and "until" in found[4]
        assert found[4]["by"] == found[2]["by"] == address(client) and "by" not in found[3]
        assert sorted(one["time"] for one in found) == [one["time"] for one in found]


def test_an_id_that_is_used_again_shows_all_its_jobs(laterd):
    with Client(laterd(KEPT).port) as client:
        live(client, "t", "a")
        client.push("t", id="a", delay="1h")
        client.push("t", id="a", delay="1h", if_exists="replace")
        client.job("a", method="PATCH", delay="2h")
        client.post("/v1/jobs/a/run", {})
        client.job("a", method="DELETE")
        found = events(client, "a")
        assert [one["event"] for one in found] == LIFE + [
            "pushed", "replaced", "pushed", "rescheduled", "run", "deleted"]
        assert len({one["number"] for one in found}) == 3


def test_no_due_time_is_shown_after_the_end(laterd):
    """What ended the job is missing: history was off."""
    server = laterd(KEPT)
    with Client(server.port) as client:
        client.push("t", id="a", delay="1s")
        client.push("t", id="b", delay="1s")
    server.stop()
    server.config["store"]["history"] = "0"
    server.start()
    with Client(server.port) as client:
        client.job("a", method="DELETE")
    server.stop()
    server.config["store"]["history"] = "30d"
    server.start()
    with Client(server.port) as client:
        assert eventually(lambda: words(client, "b") == ["pushed", "due"])
        assert words(client, "a") == ["pushed"]


def test_p1_nothing_acknowledged_is_missing_after_a_kill(laterd):
    server = laterd(KEPT)
    with Client(server.port) as client:
        live(client, "t", "a")
    server.kill()
    server.start()
    with Client(server.port) as client:
        assert words(client, "a") == LIFE
    server.stop()
    server.start()
    with Client(server.port) as client:
        assert words(client, "a") == LIFE


def test_it_outlives_the_segments_of_the_log(laterd):
    server = laterd(SMALL)
    with Client(server.port) as client:
        live(client, "t", "a")
        fill(client)
        assert has_files(client)
        assert words(client, "a") == LIFE
    server.kill()
    server.start()
    with Client(server.port) as client:
        assert words(client, "a") == LIFE
        assert words(client, "f3") == ["pushed", "deleted"]


def test_it_says_by_whom_a_job_was_reserved(laterd, tmp_path):
    """By a consumer that waited, by name, by beanstalkd's protocol, by a Unix socket."""
    path = str(tmp_path / "socket")
    server = laterd(KEPT, listeners=("127.0.0.1:0", f"unix:{path}"), beanstalk=("127.0.0.1:0",))
    with Client(server.port) as client, Client(server.port) as other:
        assert other.get("/v1/topics").status == 200
        other.wire.send(reserve_of("t", wait="10s"))
        assert eventually(lambda: client.get("/v1/topics/t").json().get("waiters") == 1)
        client.push("t", id="waited", delay=0)
        assert eventually(lambda: words(client, "waited") == ["pushed", "reserved"])
        assert events(client, "waited")[1]["by"] == address(other)
        client.push("named", id="named", delay="1h")
    with socket.create_connection(("127.0.0.1", server.beanstalk_ports[0])) as third:
        third.sendall(b"use b\r\nwatch b\r\nput 1 0 60 1\r\nx\r\nreserve\r\n")
        seen = b""
        while b"RESERVED" not in seen:
            more = third.recv(4096)
            assert more, seen
            seen += more
        number = seen.split(b"RESERVED ")[1].split()[0].decode()
        with Client(server.port) as client:
            assert events(client, f"@{number}")[1]["by"] == "%s:%d" % third.getsockname()
    with socket.socket(socket.AF_UNIX) as fourth:
        fourth.connect(path)
        with Client(server.port) as client:
            client.push("u", id="unix", delay=0)
            fourth.sendall(reserve_of("u"))
            assert b"200" in fourth.recv(4096)
            assert events(client, "unix")[1]["by"] == "unix"
    shown = later("history", "unix", server=server)
    assert "unix" in shown.stdout.splitlines()[2].split()[-1], shown


def test_off_and_unknown_are_distinguished(laterd):
    with Client(laterd(KEPT).port) as client:
        answer = client.get("/v1/jobs/nobody/history")
        assert (answer.status, answer.json()["code"]) == (404, "not_found")
        assert "store.history" in answer.json()["detail"]
    with Client(laterd().port) as client:
        client.push("t", id="a")
        answer = client.get("/v1/jobs/a/history")
        assert (answer.status, answer.json()["code"]) == (404, "history_off")
        assert "history" not in client.get("/metrics").text


def test_redis_is_refused_with_it(tmp_path):
    file = tmp_path / "laterd.conf"
    file.write_text("[store]\nhistory = 30d\n[engine]\nengine = redis\n")
    done = subprocess.run([LATERD, "-c", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "store.history needs engine = embedded" in done.stderr, done


def test_later_shows_it(laterd):
    server = laterd(KEPT)
    with Client(server.port) as client:
        live(client, "t", "a")
    shown = later("history", "a", server=server)
    assert shown.returncode == 0, shown
    lines = shown.stdout.splitlines()[1:]
    assert len(lines) == len(LIFE) and all(word in line for word, line in zip(LIFE, lines, strict=True))
    assert "busy" in shown.stdout
    told = json.loads(later("history", "--json", "a", server=server).stdout)
    assert [one["event"] for one in told["events"]] == LIFE
    nobody = later("history", "nobody", server=server)
    assert nobody.returncode == 1 and "nothing is known" in nobody.stderr


def test_a_backup_has_it_and_verify_reads_it(laterd, tmp_path):
    server = laterd(SMALL)
    with Client(server.port) as client:
        live(client, "t", "a")
        fill(client)
        assert has_files(client)
    place = tmp_path / "backups"
    done = later("backup", place, server=server)
    assert done.returncode == 0, done
    server.kill()
    done = later("restore", place, tmp_path / "restored")
    assert done.returncode == 0 and "every byte checked" in done.stdout, done
    (tmp_path / "copy").mkdir()
    for one in (tmp_path / "restored").iterdir():
        content = bytearray(one.read_bytes())
        if one.name.startswith("hist-"):  # several, if the backup was made while they were merged
            content[4120] ^= 1
        (tmp_path / "copy" / one.name).write_bytes(content)
    with Client(laterd(SMALL, data=str(tmp_path / "restored")).port) as client:
        assert words(client, "a") == LIFE
        assert words(client, "f3") == ["pushed", "deleted"]
        client.push("t", id="later")
        assert words(client, "later") == ["pushed"]
    done = later("verify", tmp_path / "copy")
    assert done.returncode == 6 and "hist-" in done.stderr, done
    with Client(laterd(SMALL, data=str(tmp_path / "copy")).port) as client:
        client.push("t", id="a")  # the store opens all the same
        told = client.get("/v1/jobs/a/history").json()
        assert told["damaged"] and told["events"][-1]["event"] == "pushed"


def test_salvage_keeps_it(laterd, tmp_path):
    """Of files and of the log; also what lies behind a damaged header."""
    server = laterd(SMALL)
    with Client(server.port) as client:
        live(client, "t", "a")
        client.push("t", id="delayed", delay="1h")
        fill(client)
        assert has_files(client)
        client.push("t", id="young")
        told = {name: events(client, name) for name in ("a", "delayed", "f3", "young")}
    server.stop()
    whole = later("salvage", server.data, tmp_path / "whole")
    assert whole.returncode == 0 and "2 jobs carried over" in whole.stdout, whole
    assert " things that happened to jobs carried over" in whole.stdout, whole
    for name in os.listdir(server.data):
        if name.startswith("hist-"):
            with open(os.path.join(server.data, name), "r+b") as file:
                file.seek(100)
                file.write(b"rotten")
    damaged = later("salvage", "--json", server.data, tmp_path / "damaged")
    assert damaged.returncode == 6 and "hist-" in damaged.stderr, damaged
    assert json.loads(damaged.stdout)["history"] == int(whole.stdout.splitlines()[-1].split()[0])
    for place in ("whole", "damaged"):
        with Client(laterd(SMALL, data=str(tmp_path / place)).port) as client:
            assert {name: events(client, name) for name in told} == told
