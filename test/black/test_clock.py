"""P10 for the real process: libfaketime steps its wall clock, the monotonic ones run on."""

import glob
import os
import time

import pytest

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
    assert took >= 1.498  # decision 7: at most a thousandth early
    assert took < 5
    assert eventually(lambda: sum("clock_stepped" in line for line in server.lines) == 1)
