"""P10 for the real process: libfaketime steps its wall clock, the monotonic ones run on; and a
restart finds a clock that was set back."""

import glob
import os
import time

import pytest

from patience import before, soon
from wire import Client, eventually

LIBRARY = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
pytestmark = pytest.mark.skipif(not LIBRARY, reason="faketime is not installed")


@pytest.mark.parametrize("step", ["+10y", "-10y", "+1h"])
def test_p10_a_stepped_wall_clock_moves_no_job_and_is_logged(laterd, tmp_path, step):
    steps = tmp_path / "step"
    steps.write_text("+0\n")
    server = laterd(environment=dict(os.environ, LD_PRELOAD=LIBRARY[0], FAKETIME_NO_CACHE="1",
                                     FAKETIME_DONT_FAKE_MONOTONIC="1",
                                     FAKETIME_TIMESTAMP_FILE=str(steps)))
    with Client(server.port) as client:
        begin = time.monotonic()
        assert client.post("/v1/topics/t/jobs", delay="1500ms", body=1).status == 201
        steps.write_text(step + "\n")
        jobs = client.post("/v1/reserve", topics=["t"], wait="10s").json()["jobs"]
        took = time.monotonic() - begin
    assert len(jobs) == 1
    assert took >= 1.5
    soon(took, 5)
    assert eventually(lambda: sum("clock_stepped" in line for line in server.lines) == 1)


def syncs(client):
    return client.get("/v1/stats").json()["store"]["syncs"]


@pytest.mark.embedded("on Redis its own clock counts")
def test_p10_what_was_ready_stays_ready_when_a_restart_finds_the_clock_set_back(laterd):
    server = laterd()
    with Client(server.port) as client:
        client.push_id("t", id="second", body=1, priority=2)
        client.push_id("t", id="later", body=1, delay="1h")
        with before(time.time() + 1):
            client.push_id("t", id="first", body=1, delay="1s", priority=1)
            was = syncs(client)
            assert eventually(lambda: syncs(client) > was)  # an empty batch, which proves that it is durable
            was = syncs(client)
            assert client.state("first") == "delayed"
        assert eventually(lambda: client.get("/v1/topics/t").json()["ready"] == 2)
        # Nothing is logged of a job that falls due, but the time soon after.
        assert eventually(lambda: syncs(client) > was)
    server.kill()
    server.environment.update(LD_PRELOAD=LIBRARY[0], FAKETIME="-2h",
                              FAKETIME_DONT_FAKE_MONOTONIC="1")
    server.start()
    with Client(server.port) as client:
        topic = client.get("/v1/topics/t").json()
        assert (topic["ready"], topic["delayed"]) == (2, 1)
        assert [job["id"] for job in client.reserve("t", most=3)] == ["first", "second"]
