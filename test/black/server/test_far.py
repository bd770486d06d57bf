"""Jobs that are due beyond the horizon: on disk alone, and everything works on them all the same."""

import datetime
import json
import os
import resource
import struct
import subprocess
import time

import pytest

from beanstalk import Connection
from golden import listing, text_of
from patience import soon
from process import LATER
from wire import Client, eventually

pytestmark = pytest.mark.embedded("about the store on disk")
FAR = {"segment_bytes": "256K", "checkpoint_bytes": "256K", "recent_bytes": "64K", "horizon": "1m"}


OFF = {**FAR, "horizon": "0"}


def later(*words, code=0):
    done = subprocess.run([LATER, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done
    return done.stdout


def manifest(folder):
    """(version, incompatible features) of docs/disk-format.md, of the slot that counts."""
    with open(os.path.join(folder, "MANIFEST"), "rb") as file:
        slots = [file.read(4096) for _ in range(2)]
    newest = max(slots, key=lambda slot: struct.unpack_from("<Q", slot, 32)[0])
    return struct.unpack_from("<I", newest, 8)[0], struct.unpack_from("<I", newest, 92)[0]


def metric(client, name):
    for line in client.get("/metrics").body.decode().splitlines():
        if line.startswith(f"laterd_{name} "):
            return int(line.split()[1])
    raise AssertionError(f"no metric {name}")


def push_far(client, count, delay_s=3600, **fields):
    """Bodies by id of jobs most of which are far by now: the log has been cleaned of them."""
    begun = time.monotonic()
    bodies = {f"job-{number}": {"n": number, "text": os.urandom(500).hex()}
              for number in range(count)}
    jobs = [{"id": job_id, "body": body, "delay": f"{delay_s + number}s", **fields}
            for number, (job_id, body) in enumerate(bodies.items())]
    for first in range(0, count, 500):
        client.push_many("t", jobs[first:first + 500])
    client.push_many("u", [{"body": "x" * 3000, "delay": "1h"}] * 300) # so that it is cleaned
    filed = eventually(lambda: metric(client, "far_jobs") > count // 2 or time.monotonic() - begun > delay_s)
    soon(time.monotonic() - begun, delay_s)  # else they are due
    assert filed
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
            following = page.get("cursor")
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
        assert eventually(lambda: metric(client, "far_jobs") > 500)
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
            jobs = client.reserve("t", most=5, wait="20s")
            assert jobs, came.keys()
            for job in jobs:
                assert time.time() * 1000 >= job["due_ms"]
                came[job["id"]] = job["body"]
        soon(time.time() - start, 30)
        assert all(bodies[job_id] == body for job_id, body in came.items())
        assert metric(client, "far_arrived_total") > 0


def test_p3_the_year_2100_and_a_millisecond_side_by_side(laterd):
    server = laterd({"store": FAR})
    when = datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc)
    with Client(server.port) as client:
        for name in ("stays", "comes"):
            client.push_id("c", id=name, due="2100-01-01T00:00:00Z", body=name)
        bodies = push_far(client, 1000, delay_s=int(when.timestamp() - time.time()) - 5000)
        took = []
        for number in range(50):
            pushed_at = time.time()
            client.push_id("ms", id=f"ms-{number}", delay="1ms", body=number)
            job, = client.reserve("ms", wait="20s")
            took.append(time.time() - pushed_at)
            assert took[-1] >= 0.001 and job["body"] == number
            assert client.job(job["id"], "finish", lease=job["lease"]).status in (200, 204)
        soon(sorted(took)[len(took) // 2], 0.1)
        assert client.job("stays", method="GET").json()["due_ms"] == when.timestamp() * 1000
        far = metric(client, "far_jobs")
        assert client.job("comes", method="PATCH", delay="1ms").status == 200
        job, = client.reserve("c", wait="20s")
        assert job["id"] == "comes" and job["body"] == "comes"
        assert far > 500
    server.kill()
    server.start()
    with Client(server.port) as client:
        shown = client.job("stays", method="GET").json()
        assert shown["due"].startswith("2100-01-01T00:00:00") and shown["body"] == "stays"
        assert client.counts("t")["delayed"] == len(bodies)


def test_a_store_whose_log_stays_small_has_no_slices(laterd):
    """Whatever the horizon, and though it has far jobs: of all features it uses files again (6) alone."""
    server = laterd({"store": {**FAR, "checkpoint_bytes": "64M"}})
    with Client(server.port) as client:
        client.push("far", id="far", body="far", due="2100-01-01T00:00:00Z")
        for number in range(400):
            client.push("t", id="one", body=f"{number} " * 2000, if_exists="replace")
        assert eventually(lambda: metric(client, "checkpoints_total") > 3)
        assert metric(client, "far_jobs") == metric(client, "slices") == 0
    server.stop()
    assert manifest(server.data)[1] & ~(1 << 6) == 0


def test_a_horizon_that_is_taken_away_leaves_every_tool_at_work(laterd, tmp_path):
    server = laterd({"store": FAR})
    with Client(server.port) as client:
        bodies = push_far(client, 1500)
        for number in range(0, 300, 3):
            assert client.job(f"job-{number}", method="DELETE").status in (200, 204)
        expected = text_of(listing(client))
        assert expected.count("\n") > len(bodies) - 100
    server.kill()
    server = laterd({"store": OFF}, data=server.data)
    with Client(server.port) as client:
        far, slices = metric(client, "far_jobs"), metric(client, "slices")
        assert far > 500 and text_of(listing(client)) == expected
        client.push_many("u", [{"body": "x" * 3000, "delay": "1h"}] * 300)
        assert metric(client, "far_departed_total") == 0 and metric(client, "slices") <= slices
        later("-s", f"127.0.0.1:{server.port}", "backup", tmp_path / "backups")
        export = later("-s", f"127.0.0.1:{server.port}", "export")
        jobs = {one["job"]["id"]: one["job"] for one in map(json.loads, export.splitlines()) if "job" in one}
        assert jobs["job-1"]["body"] == bodies["job-1"] and "job-0" not in jobs
        expected = text_of(listing(client))
    server.stop()
    assert "slice" in later("verify", server.data)
    later("restore", tmp_path / "backups", tmp_path / "restored")
    restored = laterd({"store": OFF}, data=str(tmp_path / "restored"))
    with Client(restored.port) as client:
        assert text_of(listing(client)) == expected
    later("salvage", server.data, tmp_path / "salvaged")
    assert manifest(server.data)[1] & 8 and not manifest(tmp_path / "salvaged")[1] & 8
    salvaged = laterd({"store": OFF}, data=str(tmp_path / "salvaged"))
    with Client(salvaged.port) as client:
        assert metric(client, "far_jobs") == 0
        assert client.counts("t")["delayed"] == len(bodies) - 100
        assert client.job("job-1", method="GET").json()["body"] == bodies["job-1"]


def in_two_gigabytes():
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))


@pytest.mark.parametrize("with_header", [True, False])
def test_a_slice_that_has_become_huge_is_read_as_far_as_a_slice_can_go(laterd, tmp_path, with_header):
    """A sparse file, as a file system may leave it, has any length; it is not read into memory whole."""
    server = laterd({"store": FAR})
    with Client(server.port) as client:
        push_far(client, 1500)
    server.stop()
    path = min(entry.path for entry in os.scandir(server.data) if entry.name.startswith("slice-"))
    os.truncate(path, 1 << 40)
    if not with_header:
        with open(path, "r+b") as file:
            file.write(bytes(4096))
    name = os.path.basename(path)
    done = subprocess.run([LATER, "verify", server.data], capture_output=True, text=True, timeout=120,
                          check=False, preexec_fn=in_two_gigabytes)
    assert done.returncode == 6 and "out of memory" not in done.stderr, done
    assert f"{name}: offset {1 << 40}: it was cut, or has grown" in done.stderr or not with_header, done
    assert "no slice is longer than this: the rest is not read" in done.stderr or with_header, done
    done = subprocess.run([LATER, "--json", "salvage", server.data, tmp_path / "new"], capture_output=True,
                          text=True, timeout=120, check=False, preexec_fn=in_two_gigabytes)
    assert done.returncode == 6 and json.loads(done.stdout)["lost"] == 0, done


def bury_many(client, count):
    """Bodies by id of jobs that are buried, most of which have left memory by now."""
    bodies = {f"dead-{number}": {"n": number, "text": os.urandom(500).hex()}
              for number in range(count)}
    jobs = [{"id": job_id, "body": body, "state": "buried"} for job_id, body in bodies.items()]
    for first in range(0, count, 500):
        client.push_many("t", jobs[first:first + 500])
    client.push_many("u", [{"body": "x" * 3000, "delay": "1h"}] * 300) # so that the log is cleaned
    assert eventually(lambda: metric(client, "far_buried_jobs") > count // 2)
    return bodies


def test_buried_jobs_leave_memory_and_survive_kill_9(laterd, tmp_path):
    server = laterd({"store": {**FAR, "buried_in_memory": "100"}})
    with Client(server.port) as client:
        bodies = bury_many(client, 1500)
        assert manifest(server.data)[1] & 16
        for job_id in ("dead-0", "dead-700", "dead-1499"):
            shown = client.job(job_id, method="GET").json()
            assert shown["body"] == bodies[job_id] and shown["state"] == "buried"
        assert client.push("t", id="dead-2", body="y", if_exists="reject").status == 409
        assert client.job("dead-1", method="DELETE").status in (200, 204)
        assert client.job("dead-3", "kick").json()["state"] == "ready"
        assert client.counts("t")["buried"] == 1498 and client.counts("t")["ready"] == 1
    server.kill()
    server.start()
    with Client(server.port) as client:
        assert metric(client, "far_buried_jobs") > 700 and metric(client, "far_jobs") < 400
        assert client.counts("t")["buried"] == 1498
        seen, cursor = [], ""
        while cursor is not None:
            page = client.get(f"/v1/topics/t/jobs?state=buried&limit=400{cursor}").json()
            seen += [job["id"] for job in page["jobs"]]
            cursor = f"&cursor={page['cursor']}" if "cursor" in page else None
        assert len(seen) == len(set(seen)) and set(seen) == set(bodies) - {"dead-1", "dead-3"}
        export = later("-s", f"127.0.0.1:{server.port}", "export")
        jobs = {one["job"]["id"]: one["job"] for one in map(json.loads, export.splitlines()) if "job" in one}
        assert jobs["dead-9"]["body"] == bodies["dead-9"] and jobs["dead-9"]["state"] == "buried"
    server.stop()
    assert "slice" in later("verify", server.data)
    later("salvage", server.data, tmp_path / "salvaged")
    assert not manifest(tmp_path / "salvaged")[1] & 24
    salvaged = laterd({"store": OFF}, data=str(tmp_path / "salvaged"))
    with Client(salvaged.port) as client:
        assert client.counts("t")["buried"] == 1498
        assert client.job("dead-9", method="GET").json()["body"] == bodies["dead-9"]


def test_all_buried_jobs_are_kicked_though_most_are_not_in_memory(laterd):
    server = laterd({"store": {**FAR, "buried_in_memory": "0"}}, beanstalk=["127.0.0.1:0"])
    with Client(server.port) as client, Connection(server.beanstalk_port) as tube:
        bodies = bury_many(client, 1500)
        tube.ask("use t")
        assert b'"n":' in tube.ask("peek-buried").data.replace(b" ", b"")
        assert tube.ask("kick 40") == "KICKED 40"
        assert tube.stats("t")["current-jobs-buried"] == "1460"
        done = client.replay("t", max=100000)
        assert client.counts("t")["ready"] == 1500, done
        taken = {}
        while len(taken) < 1500:
            jobs = client.reserve("t", most=100)
            assert jobs
            for job in jobs:
                taken[job["id"]] = job["body"]
        assert taken == bodies


def test_replay_by_code_finds_all_that_failed_so_among_those_that_have_left_memory(laterd):
    """Jobs with notes stay in memory, wherever they stand among the far ones in the order of the list."""
    server = laterd({"store": {**FAR, "buried_in_memory": "0"}})
    with Client(server.port) as client:
        bury_many(client, 700)
        failed = {f"fail-{number}": 503 if number % 2 else 404 for number in range(300)}
        for job_id in failed:
            client.push("t", id=job_id, body="x")
        for job in client.reserve("t", most=300):
            client.job(job["id"], "bury", lease=job["lease"], code=failed[job["id"]], reason="r")
        bury_many(client, 1500) # some again; the others' due times are later
        far = metric(client, "far_buried_jobs")
        assert client.counts("t")["buried"] == 1800 > far
        out = json.loads(later("-s", f"127.0.0.1:{server.port}", "--json", "replay", "t", "--code", "5xx"))
        assert out["kicked"] == 150 and out["looked_at"] == 1800, out
        assert {job["id"] for job in client.reserve("t", most=500)} == {j for j, code in failed.items() if code == 503}
        server.kill()
        server.start()
    with Client(server.port) as client:
        assert client.replay("t", code=404)["kicked"] == 150
        assert client.replay("t", max=100000)["kicked"] == 1500 # they have no notes, and no code


def test_an_image_of_far_jobs_is_no_part_of_what_is_verified_saved_or_salvaged(laterd, tmp_path):
    """Nothing depends on far-index: a stale one, or any bytes, lose no job, and the next start removes it."""
    server = laterd({"store": FAR})
    with Client(server.port) as client:
        push_far(client, 800)
    server.stop()
    image = os.path.join(server.data, "far-index")
    with open(image, "wb") as file:
        file.write(os.urandom(10000))
    assert "slice" in later("verify", server.data, code=6) # the disk gave back other bytes
    later("backup", "--data-dir", server.data, tmp_path / "saved")
    later("salvage", server.data, tmp_path / "salvaged")
    saved, = (one for one in (tmp_path / "saved").iterdir() if (one / "MANIFEST").exists())
    assert any(one.name.startswith("slice-") for one in saved.iterdir())
    for folder in (saved, tmp_path / "salvaged"):
        assert not os.path.exists(folder / "far-index")
    assert os.path.getsize(image) == 10000
    server.start()
    assert not os.path.exists(image)
    with Client(server.port) as client:
        assert client.counts("t")["delayed"] == 800


def pile_up(client, count):
    """Bodies by id, in the order in which they are to be handed out: nobody has taken any, and most have left memory."""
    bodies = {f"ready-{number}": {"n": number, "text": os.urandom(500).hex()} for number in range(count)}
    jobs = [{"id": job_id, "body": body, "priority": body["n"] % 3} for job_id, body in bodies.items()]
    for first in range(0, count, 500):
        client.push_many("t", jobs[first:first + 500])
    client.push_many("u", [{"body": "x" * 3000, "delay": "1h"}] * 300) # so that the log is cleaned
    assert eventually(lambda: metric(client, "far_ready_jobs") > count // 2)
    return dict(sorted(bodies.items(), key=lambda one: (one[1]["n"] % 3, one[1]["n"])))


def take(client, expected, count):
    """Takes and finishes so many: the next ones of `expected`."""
    taken = 0
    while taken < count:
        jobs = client.reserve("t", most=min(50, count - taken))
        assert jobs, taken
        for job in jobs:
            job_id = next(iter(expected))
            assert (job["id"], job["body"]) == (job_id, expected.pop(job_id))
            assert client.job(job_id, "finish", lease=job["lease"]).status in (200, 204)
        taken += len(jobs)


def test_ready_jobs_leave_memory_and_are_handed_out_in_order_after_kill_9(laterd, tmp_path):
    server = laterd({"store": {**FAR, "ready_in_memory": "100"}})
    with Client(server.port) as client:
        expected = pile_up(client, 1500)
        assert manifest(server.data)[1] & 32
        assert client.counts("t")["ready"] == 1500
        take(client, expected, 300)
        assert client.push("t", id="urgent", body={"n": -1}, priority=0, due="2001-01-01T00:00:00Z").status == 201
        expected = {"urgent": {"n": -1}, **expected}
        assert client.job("ready-1490", method="DELETE").status in (200, 204)
        assert expected.pop("ready-1490")
    server.kill()
    server.start()
    with Client(server.port) as client:
        assert metric(client, "far_ready_jobs") > 500 and client.counts("t")["ready"] == 1200
        take(client, expected, 200)
        later("-s", f"127.0.0.1:{server.port}", "backup", tmp_path / "backups")
    server.stop()
    assert "slice" in later("verify", server.data)
    later("restore", tmp_path / "backups", tmp_path / "restored")
    later("salvage", server.data, tmp_path / "salvaged")
    assert not manifest(tmp_path / "salvaged")[1] & 40
    for folder in ("restored", "salvaged"):
        other = laterd({"store": OFF}, data=str(tmp_path / folder))
        with Client(other.port) as client:
            assert client.counts("t")["ready"] == 1000
            take(client, dict(expected), 1000)
            assert client.reserve("t") == []


def test_delayed_jobs_that_fall_due_while_no_consumer_is_there_do_not_stay_in_memory(laterd):
    server = laterd({"store": {**FAR, "horizon": "2s", "ready_in_memory": "0"}}, beanstalk=["127.0.0.1:0"])
    with Client(server.port) as client, Connection(server.beanstalk_port) as tube:
        bodies = {f"job-{number}": {"n": number, "text": os.urandom(500).hex()} for number in range(1000)}
        jobs = [{"id": job_id, "body": body, "delay": "8s"} for job_id, body in bodies.items()]
        for first in range(0, 1000, 500):
            client.push_many("t", jobs[first:first + 500])
        client.push_many("u", [{"body": "x" * 3000, "delay": "1h"}] * 300)
        assert eventually(lambda: metric(client, "far_jobs") > 500 or client.counts("t")["ready"])
        assert eventually(lambda: client.counts("t")["ready"] == 1000)
        assert eventually(lambda: metric(client, "far_ready_jobs") > 400)
        assert tube.stats("t")["current-jobs-ready"] == "1000"
        tube.ask("use t")
        assert b'"n":' in tube.ask("peek-ready").data.replace(b" ", b"")
        assert len(client.get("/v1/topics/t/jobs?state=ready&limit=1000").json()["jobs"]) == 1000
        taken = {}
        while len(taken) < 1000:
            jobs = client.reserve("t", most=100)
            assert jobs, len(taken)
            taken.update((job["id"], job["body"]) for job in jobs)
        assert taken == bodies
