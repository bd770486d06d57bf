"""laterd ends beside a broker's thread that hangs: outcomes that it gave before are not lost, and none counts twice."""

import os
import shutil
import subprocess

import pytest
from process import LATERD, ROOT, Laterd
from wire import Client, eventually

JOBS = {"d": 400, "f": 20, "r": 20, "k": 60}  # delivered, failed, refused, kept; more than one message tells


def version():
    told = subprocess.run([LATERD, "--version"], capture_output=True, text=True, check=True).stdout
    return told.split()[1]


@pytest.fixture(name="hanging")
def laterd_with_the_plugin(tmp_path):
    """A laterd that finds test/harness/hanging_plugin.c beside its executable."""
    folder = tmp_path / "bin"
    folder.mkdir()
    shutil.copy(LATERD, folder / "laterd")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", f'-DLATERD_VERSION="{version()}"',
                    "-I", os.path.join(ROOT, "src"), "-o", folder / "laterd-nats.so",
                    os.path.join(ROOT, "test", "harness", "hanging_plugin.c")], check=True)
    config = {"broker.bus": {"type": "nats", "url": "nats://127.0.0.1:1", "window": 1000},
              "push": {"concurrency": 2000, "timeout": "300s"}, "server": {"drain_seconds": "0s"}}
    server = Laterd(tmp_path, config, prefix=["/bin/sh", "-c", f'shift; {folder / "laterd"} "$@"; exit $?', "sh"])
    with server:
        yield server


# Alone: it ends at once (drain_seconds = 0), and on a busy Redis not all outcomes are answered by then.
@pytest.mark.serial
def test_p2_outcomes_that_a_hanging_thread_has_given_count_once_at_the_end(hanging):
    target = {"type": "nats", "broker": "bus", "subject": "s"}
    with Client(hanging.port) as client:
        settings = {"target": target, "concurrency": 1000, "retry": ["1h"] * 3}
        assert client.request("PUT", "/v1/topics/t", settings).status < 300
        for i in range(6):  # so that it takes more at a time
            client.push_many("t", [{"body": "g"} for _ in range(500)])
        assert eventually(lambda: client.get("/v1/topics/t").json()["totals"]["finished"] == 3000)
        for kind, count in JOBS.items():
            done = client.push_many("t", [{"id": f"{kind}{i}", "body": kind, "ttr": "600s"} for i in range(count)])
            assert all(result["status"] == 201 for result in done), done
        assert eventually(lambda: client.get("/v1/topics/t").json()["reserved"] == sum(JOBS.values()))
        assert client.request("POST", "/v1/topics/t/pause").status == 204  # the next start sends nothing
    assert hanging.stop() == 0
    [(_, facts)] = hanging.events("ended_beside_thread")
    assert 'waits_for="bus"' in facts
    hanging.start()
    with Client(hanging.port) as client:
        topic = client.get("/v1/topics/t").json()
        assert [topic[state] for state in ("delayed", "ready", "reserved", "buried")] == [20, 60, 0, 20]
        for kind, count in JOBS.items():
            for i in range(count):
                answer = client.get(f"/v1/jobs/{kind}{i}")
                if kind == "d":
                    assert answer.status == 404
                    continue
                job = answer.json()
                expected = {"f": (1, 1), "r": (1, 0), "k": (0, 0)}[kind]
                assert (job["attempt"], job["failures"]) == expected, job
        attempts = client.get("/v1/jobs/f0/attempts").json()["attempts"]
        assert [attempt["reason"] for attempt in attempts] == ["it says no"]
