"""Jobs that are due beyond the horizon: on disk alone, and everything works on them all the same."""

import os
import time

import pytest

from beanstalk import Connection
from wire import Client, eventually

pytestmark = pytest.mark.embedded("about the store on disk")
FAR = {"segment_bytes": "256K", "checkpoint_bytes": "256K", "recent_bytes": "64K", "horizon": "1m"}


def metric(client, name):
    for line in client.get("/metrics").body.decode().splitlines():
        if line.startswith(f"laterd_{name} "):
            return int(line.split()[1])
    raise AssertionError(f"no metric {name}")


def push_far(client, count, delay_s=3600, **fields):
    """Bodies by id of jobs that are far by now: the log has been cleaned of them."""
    bodies = {f"job-{number}": {"n": number, "text": os.urandom(500).hex()}
              for number in range(count)}
    jobs = [{"id": job_id, "body": body, "delay": f"{delay_s + number}s", **fields}
            for number, (job_id, body) in enumerate(bodies.items())]
    for first in range(0, count, 500):
        client.push_many("t", jobs[first:first + 500])
    client.push_many("u", [{"body": "x" * 3000, "delay": "1h"}] * 300) # so that it is cleaned
    eventually(lambda: metric(client, "far_jobs") > count // 2)
    return bodies


def test_far_jobs_are_found_changed_and_listed_and_survive_kill_9(laterd):
    server = laterd({"store": FAR})
    with Client(server.port) as client:
        bodies = push_far(client, 1500)
        for job_id in ("job-0", "job-700", "job-1499"):
            shown = client.job(job_id, method="GET").json()
            assert shown["body"] == bodies[job_id] and shown["state"] == "delayed"
        assert client.job("job-1", method="DELETE").status in (200, 204)
        assert client.push("t", id="job-2", body="y", if_exists="reject").status == 409
        assert client.push("t", id="job-3", body="another", delay="2h",
                           if_exists="replace").status in (200, 201)
        assert client.job("job-4", "run").status in (200, 204)
        del bodies["job-1"]
    server.kill()
    server.start()
    with Client(server.port) as client:
        assert metric(client, "far_jobs") > 700
        seen, cursor, due = [], "", ""
        while True:
            page = client.get(f"/v1/topics/t/jobs?state=delayed&limit=400{cursor}").json()
            seen += [job["id"] for job in page["jobs"]]
            assert due <= page["jobs"][0]["due"]
            due = page["jobs"][-1]["due"]
            following = page.get("cursor") or page.get("next_cursor")
            if not following:
                break
            cursor = f"&cursor={following}"
        assert len(seen) == len(set(seen)) and set(seen) == set(bodies) - {"job-4"}
        backwards, cursor = [], ""
        while cursor is not None:
            page = client.get(f"/v1/topics/t/jobs?order=desc&limit=400{cursor}").json()
            backwards += [job["id"] for job in page["jobs"]]
            cursor = f"&cursor={page['cursor']}" if "cursor" in page else None
        assert backwards == seen[::-1]
        assert client.job("job-1", method="GET").status == 404
        assert client.job("job-3", method="GET").json()["body"] == "another"
        taken = client.reserve("t", most=5)
        assert [job["id"] for job in taken] == ["job-4"]
        assert taken[0]["body"] == bodies["job-4"]


def test_a_batch_of_ids_that_far_jobs_have(laterd):
    server = laterd({"store": FAR})
    with Client(server.port) as client:
        bodies = push_far(client, 1000)
        for mode, statuses in (("keep", {200}), ("reject", {409})):
            again = [{"id": job_id, "body": "z", "delay": "1h", "if_exists": mode}
                     for job_id in list(bodies)[:500]]
            assert {result["status"] for result in client.push_many("t", again)} == statuses
        assert metric(client, "far_jobs") > 500, "they stay where they are"
        assert client.job("job-9", method="GET").json()["body"] == bodies["job-9"]


def test_beanstalkd_clients_reach_far_jobs_by_number(laterd):
    server = laterd({"store": FAR}, beanstalk=["127.0.0.1:0"])
    with Client(server.port) as client, Connection(server.beanstalk_port) as tube:
        tube.ask("use u")
        numbers = [tube.put(b"x" * 900 + str(number).encode(), delay=3600 + number)
                   for number in range(1000)]
        eventually(lambda: metric(client, "far_jobs") > 500)
        assert tube.ask(f"peek {numbers[3]}").data.endswith(b"x3")
        assert tube.ask("peek-delayed").number == numbers[0]
        assert tube.ask(f"delete {numbers[0]}") == "DELETED"
        assert tube.ask(f"delete {numbers[0]}") == "NOT_FOUND"
        assert tube.ask(f"kick-job {numbers[1]}") == "KICKED"
        assert tube.stats("u")["current-jobs-delayed"] == "998"
        assert tube.ask("peek-delayed").number == numbers[2]
        assert tube.ask("kick 5") == "KICKED 5"
        assert tube.ask("peek-delayed").number == numbers[7]


def test_p3_far_jobs_come_on_time(laterd):
    server = laterd({"store": {**FAR, "horizon": "2s"}})
    with Client(server.port) as client:
        bodies = push_far(client, 600, delay_s=9)
        start, came = time.time(), {}
        while len(came) < 5:
            for job in client.reserve("t", most=5, wait="20s"):
                late = time.time() - job["due"] if isinstance(job["due"], float) else 0
                assert late >= -0.001
                came[job["id"]] = job["body"]
        assert time.time() - start < 30
        assert all(bodies[job_id] == body for job_id, body in came.items())
        assert metric(client, "far_arrived_total") > 0
