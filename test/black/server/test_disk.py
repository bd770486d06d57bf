"""Bad days of the disk: kill -9, a full disk, a disk whose syncs fail, a second process, damage."""

import contextlib
import json
import os
import pathlib
import re
import resource
import socket
import subprocess
import time

import nobody
import pytest

from patience import PATIENCE_S, before
from process import LATER, LATERD, DidNotStart
from small_disk import small_disk_at
from wire import Client, Closed, Wire, eventually

pytestmark = pytest.mark.embedded("about the store on disk")
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


def push_many(client, topic, count, size=200, **fields):
    """The ids of jobs pushed in one batch."""
    results = client.push_many(topic, [{"body": "x" * size, **fields}] * count)
    return [result["job"]["id"] for result in results if result["status"] == 201]


def ids_of(client, topic, state):
    found, cursor = set(), ""
    while True:
        page = client.get(f"/v1/topics/{topic}/jobs?state={state}&limit=1000{cursor}").json()
        found |= {job["id"] for job in page["jobs"]}
        following = page.get("cursor")
        if not following:
            return found
        cursor = f"&cursor={following}"


# kill -9

def test_p2_kill_9_keeps_every_acknowledged_job(laterd):
    server = laterd({"store": {"segment_bytes": "256K"}})
    with Client(server.port) as client:
        delayed = set(push_many(client, "t", 500, delay="1h"))
        ready = set(push_many(client, "r", 500))
        assert len(delayed) == len(ready) == 500
        held = client.reserve("r", most=10)
        for job in held[:5]:
            assert client.job(job["id"], "finish", lease=job["lease"]).status in (200, 204)
    server.kill()
    server.start()
    finished = {job["id"] for job in held[:5]}
    with Client(server.port) as client:
        assert ids_of(client, "t", "delayed") == delayed
        alive = ids_of(client, "r", "ready") | ids_of(client, "r", "reserved")
        assert alive == ready - finished, "P5: what was finished stays finished"


def test_p2_bodies_survive_many_generations(laterd):
    server = laterd({"store": {"segment_bytes": "256K", "recent_bytes": "64K"}})
    expected = {}
    for generation in range(5):
        with Client(server.port) as client:
            for number in range(60):
                body = {"n": number, "g": generation, "text": os.urandom(2000).hex()}
                expected[client.push_id("t", body=body, delay="1h")] = body
            for job_id in list(expected)[::3]:
                client.job(job_id, method="DELETE")
                del expected[job_id]
        server.kill()
        server.start()
    with Client(server.port) as client:
        for job_id, body in expected.items():
            assert client.job(job_id, method="GET").json()["body"] == body


def test_ids_are_never_given_again(laterd):
    server = laterd()
    seen = set()
    for _ in range(4):
        with Client(server.port) as client:
            for _ in range(10):
                job_id = client.push_id("t", body="x")
                assert job_id not in seen
                seen.add(job_id)
                client.job(job_id, method="DELETE")
        server.kill()
        server.start()


def test_p4_a_lease_from_before_the_crash_cannot_finish_a_new_reservation(laterd):
    server = laterd()
    with Client(server.port) as client:
        job_id = client.push_id("t", body="x", ttr="500ms")
        old, = client.reserve("t")
    server.kill()
    server.start()
    with Client(server.port) as client:
        new = eventually(lambda: client.reserve("t"))[0]
        assert new["id"] == job_id
        with before(new["deadline_ms"] / 1000):
            assert client.job(job_id, "finish", lease=old["lease"]).status == 409
            assert client.job(job_id, "finish", lease=new["lease"]).status in (200, 204)


def test_pauses_and_buried_jobs_survive(laterd):
    server = laterd()
    with Client(server.port) as client:
        job_id = client.push_id("t", body="x", retry=["1h"])
        job, = client.reserve("t")
        client.job(job_id, "bury", lease=job["lease"])
        client.push_id("p", body="x")
        client.post("/v1/topics/p/pause", create=True)
    server.kill()
    server.start()
    with Client(server.port) as client:
        assert client.state(job_id) == "buried"
        assert client.reserve("p") == []
        client.post("/v1/topics/p/resume")
        assert len(client.reserve("p")) == 1


def test_disk_use_follows_the_live_jobs(laterd):
    server = laterd({"store": {"segment_bytes": "256K"}})

    def disk():
        total = 0
        for name in os.listdir(server.data):
            try:
                total += os.stat(os.path.join(server.data, name)).st_size
            except FileNotFoundError:
                pass  # just removed: that is what we are here to see
        return total
    with Client(server.port) as client:
        keep = client.push_id("keep", body="k" * 1000, delay="1h")
        for _ in range(40):
            for job_id in push_many(client, "t", 50, size=2000, delay="1h"):
                client.job(job_id, method="DELETE")
        assert eventually(lambda: disk() < 3_000_000, 15), f"{disk()} bytes for one small job"
        server.kill()
        server.start()
    with Client(server.port) as client:
        assert client.job(keep, method="GET").json()["body"] == "k" * 1000


def test_later_verify_reads_every_byte_and_finds_damage(laterd):
    server = laterd()
    with Client(server.port) as client:
        push_many(client, "t", 200, delay="1h")
    assert server.stop() == 0
    good = subprocess.run([LATER, "verify", server.data], capture_output=True, text=True, check=False)
    assert good.returncode == 0, good.stdout + good.stderr
    segment = max((entry for entry in os.scandir(server.data) if entry.is_file()),
                  key=lambda entry: entry.stat().st_size)
    with open(segment.path, "r+b") as file:
        data = file.read()
        at = data.find(b"x" * 100)
        assert at > 0
        file.seek(at + 50)
        file.write(b"y")
    bad = subprocess.run([LATER, "verify", server.data], capture_output=True, text=True, check=False)
    assert bad.returncode != 0 and segment.name in bad.stdout + bad.stderr
    with pytest.raises(DidNotStart, match=segment.name):
        server.start()


def flip(path, text, behind=0):
    """Turns a bit of the first such text in the file."""
    with open(path, "r+b") as file:
        at = file.read().find(text)
        assert at >= 0
        file.seek(at + behind)
        byte = file.read(1)[0]
        file.seek(at + behind)
        file.write(bytes([byte ^ 1]))


def first_segment(server):
    return min(entry.path for entry in os.scandir(server.data) if entry.name.startswith("wal-"))


def test_p8_one_flipped_byte_of_a_live_job_does_not_stop_the_cleaning(laterd, tmp_path):
    server = laterd({"store": {"segment_bytes": "256K", "max_bytes": "2M", "recent_bytes": "64K"}})
    with Client(server.port) as client:
        hurt = client.push_id("keep", id="hurt-one", body="hurt " * 50, delay="1h")
        whole = [client.push_id("keep", body=f"whole {number} " * 20, delay="1h")
                 for number in range(5)]
        flip(first_segment(server), b"hurt hurt", 50)

        def churn():
            for job_id in push_many(client, "t", 50, size=2000, delay="1h"):
                client.job(job_id, method="DELETE")
            return server.events("segment_set_aside")
        assert eventually(churn, 60), server.lines
        for _ in range(40):
            churn()
        assert eventually(lambda: client.push("t", body="x").status == 201, 15)
        assert [level for level, _ in server.events("segment_damaged")] == ["error"]
        assert len(server.events("segment_unread")) == 1
        assert "laterd_damaged_segments 1" in client.get("/metrics").text
        ready = client.get("/readyz")
        assert ready.status == 200 and "damaged segments: 1" in ready.text
    server.kill()
    server.start()
    with Client(server.port) as client:
        assert 'laterd_topic_jobs{topic="keep",state="delayed"} 6' in client.get("/metrics").text
        assert client.job(hurt, method="GET").status == 500
        for number, job_id in enumerate(whole):
            assert client.job(job_id, method="GET").json()["body"] == f"whole {number} " * 20
        assert "laterd_damaged_segments 1" in client.get("/metrics").text
    server.stop()
    aside, = (entry.path for entry in os.scandir(server.data) if entry.name.endswith(".damaged"))
    flip(aside, b"hurt hurt", 50)  # better means of reading were found
    done = later("salvage", server.data, str(tmp_path / "new"))
    assert done.returncode == 6 and "1 of them doubtful" in done.stdout, done
    assert " 0 jobs known to be lost" in " " + done.stdout.replace("\n", " ")
    assert "was set aside, and may be an older one" in done.stderr
    os.truncate(aside, 1 << 40)  # a sparse file has any length: it must not be read into memory whole
    longer = later("salvage", server.data, str(tmp_path / "longer"))
    assert longer.returncode == 6 and longer.stdout == done.stdout.replace("/new,", "/longer,"), longer
    assert "it is longer than a segment can be: the rest is not read" in longer.stderr
    os.unlink(aside)
    done = later("salvage", server.data, str(tmp_path / "without"))
    assert done.returncode == 6 and "1 job known to be lost" in done.stdout
    assert re.search(r"job @\d+ \(hurt-one\) is lost: its body is damaged: wal-[0-9a-f]{8}: offset \d+\n",
                     done.stderr), done.stderr
    server.start()
    with Client(server.port) as client:
        assert client.get("/readyz").text == "ready\n"


def later(*arguments):
    return subprocess.run([LATER, *arguments], capture_output=True, text=True, check=False,
                          timeout=60)


def contents(directory):
    found = {}
    for entry in os.scandir(directory):
        with open(entry.path, "rb") as file:
            found[entry.name] = file.read()
    return found


@pytest.fixture
def damaged(laterd):
    """A stopped store: a job in a batch of its own that was deleted, one alike that lives, 100 others."""
    server = laterd()
    with Client(server.port) as client:
        server.dead = client.push_id("t", body="dead " * 50, delay="1h")
        server.hurt = client.push_id("t", body="hurt " * 50, delay="1h", id="the-hurt-one")
        server.whole = {client.push_id("t", body=f"whole {number}", delay="1h"): f"whole {number}"
                        for number in range(100)}
        client.job(server.dead, method="DELETE")
        client.post("/v1/topics/p/pause", create=True)
    assert server.stop() == 0
    return server


def test_one_flipped_byte_in_a_dead_record_stops_no_start(damaged):
    flip(first_segment(damaged), b"dead dead", 20)
    seen = later("verify", damaged.data)
    assert seen.returncode == 6 and re.search(r"(batch \d+ is|batches \d+ to \d+ are) damaged", seen.stderr)
    assert f"later salvage {damaged.data} NEW" in seen.stderr
    assert "102 jobs" not in seen.stdout and "101 live" not in seen.stdout
    assert "101 jobs" in seen.stdout, "it counts past the damage"
    damaged.start()
    assert "held only what has ended" in damaged.events("store_notice")[0][1]
    with Client(damaged.port) as client:
        for job_id, body in damaged.whole.items():
            assert client.job(job_id, method="GET").json()["body"] == body
        assert client.job(damaged.dead, method="GET").status == 404
        assert "damaged segments: 1" in client.get("/readyz").text


def test_damage_of_a_live_job_is_refused_by_name_and_salvage_brings_over_the_rest(damaged, tmp_path):
    flip(first_segment(damaged), b"hurt hurt", 20)
    before = contents(damaged.data)
    with pytest.raises(DidNotStart) as why:
        damaged.start()
    assert "the-hurt-one" in str(why.value) and "later salvage DIR NEW" in str(why.value)
    new = str(tmp_path / "new")
    done = later("salvage", damaged.data, new)
    assert done.returncode == 6, done
    assert "100 jobs carried over" in done.stdout and "1 job known to be lost" in done.stdout
    assert "the-hurt-one" in done.stderr
    assert contents(damaged.data) == before, "the damaged store was changed"
    assert later("verify", new).returncode == 0
    damaged.data = new
    damaged.start()
    with Client(damaged.port) as client:
        for job_id, body in damaged.whole.items():
            assert client.job(job_id, method="GET").json()["body"] == body
        assert client.job(damaged.dead, method="GET").status == 404
        assert client.get("/v1/topics/p").json()["paused"], "pauses are carried over"
        fresh = client.push_id("t", body="x")
        assert int(fresh[1:]) > 102, "a number was given twice"


def test_salvage_says_what_is_doubtful_and_takes_a_store_without_its_manifest(damaged, tmp_path):
    path = first_segment(damaged)
    with open(path, "rb") as file:
        at = file.read().find(b"the-hurt-one")
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(b"The")  # its name is not what it was; its body is
    os.unlink(os.path.join(damaged.data, "MANIFEST"))
    done = later("salvage", "--json", damaged.data, str(tmp_path / "new"))
    assert done.returncode == 6
    counts = json.loads(done.stdout)
    assert (counts["carried"], counts["doubtful"], counts["lost"]) == (101, 1, 0)


def test_salvage_of_a_store_without_its_manifest_says_that_there_was_damage(damaged, tmp_path):
    with open(os.path.join(damaged.data, "MANIFEST"), "r+b") as file:
        file.write(bytes(8192))
    done = later("salvage", damaged.data, str(tmp_path / "new"))
    assert done.returncode == 6 and "MANIFEST" in done.stderr and "101 jobs carried" in done.stdout


def test_salvage_refuses_directories_of_which_one_is_in_the_other(damaged):
    before = contents(damaged.data)
    for new in (damaged.data, damaged.data + "/new", damaged.data + "/deep/er//new/",
                os.path.dirname(damaged.data)):
        done = later("salvage", damaged.data, new)
        assert done.returncode == 3 and "in the other" in done.stderr, (new, done)
    assert contents(damaged.data) == before


def test_salvage_writes_into_no_directory_that_has_anything(damaged, tmp_path):
    new = tmp_path / "new"
    new.mkdir()
    (new / "mine").write_text("mine")
    done = later("salvage", damaged.data, str(new))
    assert done.returncode == 3 and "not an empty directory" in done.stderr
    assert contents(new) == {"mine": b"mine"}
    assert later("salvage", str(tmp_path / "nowhere"), str(tmp_path / "other")).returncode == 1
    assert later("salvage", str(new), str(tmp_path / "other")).returncode == 1
    damaged.start()
    done = later("salvage", damaged.data, str(tmp_path / "another"))
    assert done.returncode == 3 and "stop it" in done.stderr


def test_salvage_of_a_sound_store_takes_all_of_it(damaged, tmp_path):
    done = later("salvage", damaged.data, str(tmp_path / "new"))
    assert done.returncode == 0 and "101 jobs carried over" in done.stdout


def job_record(path, body):
    """Where the JOB record with that body begins in the segment, and its bytes."""
    with open(path, "rb") as file:
        raw = file.read()
    at = raw.find(body) - 104  # without a content type
    assert at > 0 and raw[at + 4] == 1 and raw[at + 86] == 0
    return at, raw[at:at + int.from_bytes(raw[at:at + 4], "little")]


def put(server, body):
    with socket.create_connection(("127.0.0.1", server.beanstalk_port), timeout=PATIENCE_S) as stream:
        stream.sendall(b"use mine\r\nput 0 3600 60 %d\r\n" % len(body) + body + b"\r\n")
        said = b""
        while b"INSERTED" not in said:
            more = stream.recv(100)
            assert more, said
            said += more


def test_salvage_takes_no_clients_bytes_for_a_job_that_lives(laterd, tmp_path):
    records = []
    for number in range(2):  # the same number and id in another store
        server = laterd(beanstalk=["127.0.0.1:0"])
        with Client(server.port) as client:
            client.push("bank", id="pay-1", body=["pay 10 to Bob", "pay 99 to Eve"][1 - number],
                        delay="1h")
        if number == 0:
            server.stop()
            records.append(job_record(first_segment(server), b"pay 99 to Eve")[1])
    put(server, records[0])
    server.stop()
    path = first_segment(server)
    at, _ = job_record(path, records[0])
    overwrite(path, at, 1)  # the length of the real record
    new = str(tmp_path / "new")
    done = later("salvage", server.data, new)
    assert done.returncode == 6 and "not believed" in done.stderr, done
    server.data = new
    server.start()
    with Client(server.port) as client:
        assert client.job("pay-1", method="GET").json()["body"] == "pay 10 to Bob"


def test_p2_salvage_keeps_a_job_that_was_changed_behind_the_damage(laterd, tmp_path):
    server = laterd()
    with Client(server.port) as client:
        client.push("t", id="the-hurt-one", body="x")
        job, = client.reserve("t")
        assert client.job(job["id"], "bury", lease=job["lease"]).status in (200, 204)
    server.stop()
    flip(first_segment(server), b"the-hurt-one")
    done = later("salvage", "--json", server.data, str(tmp_path / "new"))
    assert done.returncode == 6
    counts = json.loads(done.stdout)
    assert (counts["carried"], counts["doubtful"], counts["lost"]) == (1, 1, 0)


@ROOT_ONLY
@pytest.mark.parametrize("lock", [True, False])
def test_verify_and_salvage_read_a_file_system_that_cannot_be_written_to(damaged, tmp_path, lock):
    if not lock:
        os.unlink(os.path.join(damaged.data, "LOCK"))
    for command in (["mount", "--bind", damaged.data, damaged.data],
                    ["mount", "-o", "remount,bind,ro", damaged.data]):
        if subprocess.run(command, capture_output=True, check=False).returncode:
            subprocess.run(["umount", "-l", damaged.data], capture_output=True, check=False)
            pytest.skip("cannot mount here")
    try:
        seen = later("verify", damaged.data)
        assert seen.returncode == 0, seen
        done = later("salvage", damaged.data, str(tmp_path / "new"))
        assert done.returncode == 0 and "101 jobs carried over" in done.stdout, done
        with pytest.raises(DidNotStart):
            damaged.start()
    finally:
        subprocess.run(["umount", "-l", damaged.data], check=True)


def segments_of(data):
    """Those with anything in them, oldest first."""
    names = sorted(name for name in os.listdir(data) if name.startswith("wal-"))
    found = []
    for name in names:
        with open(os.path.join(data, name), "rb") as file:
            if any(file.read(4096)):
                found.append(os.path.join(data, name))
    return found


def overwrite(path, offset, size):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(b"\xa5" * size)


def to_link(path):
    os.rename(path, path + ".real")
    os.symlink(path + ".real", path)


def unlink_all(path):
    for name in segments_of(os.path.dirname(path)):
        os.unlink(name)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("harm, word", [
    (os.unlink, "missing"),
    (unlink_all, "missing"),
    (lambda path: os.rename(path, path[:-8] + "000000ff"), "renamed"),
    (to_link, "cannot be opened"),
    (lambda path: os.truncate(path, os.path.getsize(path) - 64 * 1024), "it was cut"),
    (lambda path: os.truncate(path, 1 << 43), "has grown"),  # whoever reads all of that does not end
    (lambda path: overwrite(path, 0, 100), "header is damaged"),
    (lambda path: overwrite(path, 0, os.path.getsize(path)), "header is damaged"),
    (lambda path: os.unlink(os.path.join(os.path.dirname(path), "MANIFEST")), "MANIFEST"),
    (lambda path: overwrite(os.path.join(os.path.dirname(path), "MANIFEST"), 20, 4), "MANIFEST"),
], ids=["missing", "all-missing", "renamed", "link", "cut", "grown", "header", "overwritten", "no-manifest",
        "manifest-slot"])
def test_p2_salvage_is_not_silent_about_files_that_are_not_whole(laterd, tmp_path, harm, word, many):
    server = laterd({"store": {"segment_bytes": "256K", "recent_bytes": "64K"}})
    with Client(server.port) as client:
        push_many(client, "t", 10, delay="1h")
        for _ in range(4 if many else 0):
            push_many(client, "t", 50, size=5000, delay="1h")
    assert server.stop() == 0
    segments = segments_of(server.data)
    assert len(segments) > 2 if many else len(segments) == 1
    assert later("salvage", server.data, str(tmp_path / "whole")).returncode == 0
    harm(segments[0])
    if word == "it was cut":
        assert "later salvage DIR NEW" in later("verify", server.data).stderr
    assert "a spare file is damaged; nothing" not in later("verify", server.data).stderr
    done = later("salvage", server.data, str(tmp_path / "new"))
    assert done.returncode == 6 and word in done.stderr, done
    assert "MANIFEST" in done.stderr or "wal-" in done.stderr, done
    assert ("1 file is shorter than before: more jobs" in done.stdout) == (word == "it was cut"), done


def spare_files(data, reused):
    """docs/disk-format.md: those of a reused file have a header of their own, the others have zeros."""
    begins = b"\1LTDSPAR" if reused else bytes(8)
    found = []
    for path in pathlib.Path(data).glob("wal-*"):
        with contextlib.suppress(FileNotFoundError):  # laterd may have renamed it meanwhile
            if path.read_bytes()[:8] == begins:
                found.append(path)
    return found


@pytest.mark.parametrize("of, offset", [("new", 20), ("new", 80_000), ("reused", 20), ("reused", 4090)])
def test_a_flipped_byte_in_a_spare_file_is_reported_as_harmless(laterd, tmp_path, of, offset):
    server = laterd({"store": {"segment_bytes": "256K"}})
    with Client(server.port) as client:
        push_many(client, "stays", 3, delay="1h")
        for _ in range(400):  # in small commits: for large ones no file is kept
            push_many(client, "gone", 20, size=1000)
            assert client.post("/v1/topics/gone/clear", state="ready").status == 200
            if of == "new" or spare_files(server.data, reused=True):
                break
    assert server.stop() == 0
    spares = spare_files(server.data, reused=of == "reused")
    assert spares
    content = bytearray(spares[0].read_bytes())
    content[offset] ^= 4
    spares[0].write_bytes(content)
    done = later("verify", server.data)
    assert done.returncode == 6 and "later salvage" not in done.stderr, done
    assert f"{spares[0].name}: a spare file is damaged; nothing was in it" in done.stderr
    assert "the queue is whole: start laterd" in done.stderr
    done = later("salvage", server.data, str(tmp_path / "new"))
    assert done.returncode == 6 and "3 jobs carried over" in done.stdout, done
    assert "a spare file that held nothing, unless batches are missing" in done.stderr
    server.start()
    with Client(server.port) as client:
        assert len(ids_of(client, "stays", "delayed")) == 3


def test_a_directory_that_others_can_write_to_is_warned_about(laterd, tmp_path):
    data = tmp_path / "open"
    data.mkdir()
    os.chmod(data, 0o777)
    server = laterd(data=str(data))
    (level, facts), = server.events("data_dir_exposed")
    assert level == "warn" and "mode=0777" in facts
    server.stop()
    os.chmod(data, 0o700)
    server.start()
    assert not server.events("data_dir_exposed")


@nobody.ROOT_ONLY
@pytest.mark.parametrize("whose", ["the directory", "a file in it"])
def test_a_directory_that_it_may_not_write_to_is_reported_with_what_to_do(whose):
    with nobody.folder_for_nobody() as folder:
        data = os.path.join(folder, "data")
        os.mkdir(data, 0o755)
        if whose == "a file in it":
            os.close(os.open(os.path.join(data, "LOCK"), os.O_CREAT, 0o600))
            os.chown(data, nobody.NOBODY, nobody.NOBODY)
        done = nobody.run_as_nobody(folder, LATERD, "--data-dir", data, "--http", "127.0.0.1:0", "--beanstalk", "none")
    assert done.returncode == 1 and f'cannot write in "{data}", the data directory: Permission' in done.stderr
    assert f"belongs to user 0, and laterd runs as user {nobody.NOBODY}: chown -R it" in done.stderr


@nobody.ROOT_ONLY
def test_a_directory_that_root_once_had_made_is_reported_with_whose_it_is():
    with nobody.folder_for_nobody() as folder:
        data = os.path.join(folder, "data")
        os.mkdir(data, 0o700)
        done = nobody.run_as_nobody(folder, LATERD, "--data-dir", data, "--http", "127.0.0.1:0", "--beanstalk", "none")
        below = nobody.run_as_nobody(folder, LATERD, "--data-dir", f"{data}/of-root", "--http", "127.0.0.1:0", "--beanstalk", "none")
    assert done.returncode == below.returncode == 1
    assert f'cannot use "{data}" as the data directory: Permission denied\n' in done.stderr
    assert f"belongs to user 0, and laterd runs as user {nobody.NOBODY}: chown -R it" in done.stderr
    assert "Permission denied; choose another with --data-dir" in below.stderr and "belongs" not in below.stderr


@ROOT_ONLY
@pytest.mark.parametrize("folder, why", [("/proc", "No such file or directory"), ("/dev/pts", "Permission denied")])
def test_a_directory_in_which_no_files_can_be_made_is_reported_as_such(folder, why):
    """The system says ENOENT of a new name in /proc, which is about no job."""
    if not os.path.ismount(folder):
        pytest.skip("not there, or a folder like any other")
    done = subprocess.run([LATERD, "--data-dir", folder, "--http", "127.0.0.1:0", "--beanstalk", "none"],
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1 and f'cannot write in "{folder}", the data directory: {why}' in done.stderr
    assert "no files can be made there: choose another directory" in done.stderr and "mode" not in done.stderr


@nobody.ROOT_ONLY
def test_a_file_of_the_store_that_root_once_made_is_named_with_what_to_do(laterd):
    """By a laterd that was tried by hand, in the service's directory."""
    with nobody.folder_for_nobody() as folder:
        data = os.path.join(folder, "data")
        server = laterd(data=data)
        with Client(server.port) as client:
            client.push_id("t", body="x")
        server.stop()
        for name in os.listdir(data):
            os.chown(os.path.join(data, name), nobody.NOBODY, nobody.NOBODY)
        os.chown(data, nobody.NOBODY, nobody.NOBODY)
        os.chown(os.path.join(data, "wal-00000001"), 0, 0)
        os.mkdir(os.path.join(data, "lost+found"), 0o700)  # root's, on any file system
        done = nobody.run_as_nobody(folder, LATERD, "--data-dir", data, "--http", "127.0.0.1:0", "--beanstalk", "none")
        verified = nobody.run_as_nobody(folder, LATER, "verify", data)
        os.chown(os.path.join(data, "wal-00000001"), nobody.NOBODY, nobody.NOBODY)
        with open(os.path.join(data, "far-index"), "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as image:
            image.write(bytes(4096))
        beside = nobody.run_as_nobody(folder, LATER, "verify", data)
    assert done.returncode == 1 and f'cannot use wal-00000001 in "{data}", the data directory: Permission' in done.stderr
    assert f"belongs to user 0, and laterd runs as user {nobody.NOBODY}: chown -R it" in done.stderr
    assert verified.returncode == beside.returncode == 4, "nothing is damaged"
    assert f"cannot read {data}/far-index: Permission denied" in beside.stderr
    assert verified.stderr.endswith(f"later verify: cannot read {data}/wal-00000001: Permission denied; "
                                    "run it as laterd's user, or as root\n")


def test_files_of_others_in_the_directory_are_named_and_left_alone(laterd, tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o700)
    (folder / "lost+found").mkdir()
    for name in ("far-index", "far-index.tmp", "MANIFEST.tmp"):  # of a stop, and of a kill
        (folder / name).write_bytes(bytes(4096))
    server = laterd(data=str(folder))
    assert not server.events("data_dir_shared"), "all that is there is laterd's own, or the system's"
    with Client(server.port) as client:
        client.push_id("t", body="x")
    server.stop()
    (folder / 'my "notes"').write_text("not a log")
    with Client(server.start().port) as client:
        (level, facts), = server.events("data_dir_shared")
        assert level == "warn" and "files=1 " in facts and 'first="my ?notes?"' in facts
        assert len(client.reserve("t")) == 1
    assert (folder / 'my "notes"').read_text() == "not a log"


# A full disk

@ROOT_ONLY
def test_p2_what_a_salvage_leaves_on_a_full_disk_is_no_store(laterd, tmp_path):
    """laterd would serve the jobs that had room, as if there were no others."""
    server = laterd()
    with Client(server.port) as client:
        for _ in range(60):
            client.push_id("t", due="2300-01-01T00:00:00Z", body="x" * 1000000)
    server.stop()
    with small_disk_at(tmp_path / "disk", 50) as disk:
        done = later("salvage", server.data, str(disk / "new"))
        assert done.returncode == 4 and "the new store is not whole, remove it" in done.stderr, done
        assert "MANIFEST" not in os.listdir(disk / "new")
        ended = subprocess.run([LATERD, "--data-dir", str(disk / "new"), "--http", "127.0.0.1:0", "--beanstalk", "none"],
                               capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert ended.returncode == 1 and "ended before this store was whole" in ended.stderr, ended


@pytest.fixture
def small_disk(tmp_path):
    with small_disk_at(tmp_path / "small", 3) as path:
        yield path


@ROOT_ONLY
@pytest.mark.parametrize("size", [1000, 5000, 12_000, 30_000])
def test_p8_a_full_disk_refuses_pushes_but_finish_delete_and_restart_go_on(laterd, small_disk, size):
    server = laterd({"store": {"segment_bytes": "256K"}}, data=str(small_disk / "data"))
    with Client(server.port) as client:
        ids, answer = [], None
        for _ in range(4000):
            answer = client.push("t", body="x" * size)
            if answer.status != 201:
                break
            ids.append(answer.json()["id"])
        assert answer.status in (503, 507) and "disk" in answer.text, answer
        assert server.wait_log("store_full")
        assert len(ids) > 40
        # A little room may come back at any time, so one push may still pass; not all of them.
        codes = {client.call("/push", id=str(number), topic="other", delay=1000, ttr=1,
                             body="x" * size)[0] for number in range(200)}
        assert 1 in codes
        held = client.reserve_all("t", 20)
        assert len(held) == 20
        for job in held[:10]:
            assert client.job(job["id"], "finish", lease=job["lease"]).status in (200, 204)
        for job in held[10:]:
            assert client.job(job["id"], method="DELETE").status in (200, 204)
        assert client.get("/healthz").status == 200
    gone = {job["id"] for job in held}
    server.kill()
    server.start()
    with Client(server.port) as client:
        alive = ids_of(client, "t", "ready") | ids_of(client, "t", "reserved")
        assert alive == set(ids) - gone
        most = sorted(alive)[: len(alive) * 3 // 4]
        for job_id in most:
            assert client.job(job_id, method="DELETE").status in (200, 204)
        assert eventually(lambda: client.push("t", body="x" * size).status == 201, 15), \
            "room came back, and it should have noticed by itself"
        assert not server.events("store_full") or server.wait_log("store_has_room", 15)


def test_the_limit_of_a_files_size_is_not_told_as_a_full_disk(laterd, tmp_path):
    """RLIMIT_FSIZE, as `ulimit -f` and LimitFSIZE= set it: for a new segment, and for the open one."""
    server = laterd({"store": {"segment_bytes": "256K"}}, data=str(tmp_path / "data"))
    with Client(server.port) as client:
        assert client.push("t", body="x").status == 201
    server.stop()
    server = laterd({"store": {"segment_bytes": "1M"}}, data=str(tmp_path / "data"),
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000)))
    assert server.wait_log("store_full")
    (_, facts), = server.events("store_full")
    assert "why=file_size_limit " in facts and "raise LimitFSIZE=" in facts, facts
    with Client(server.port) as client:
        answer = client.push("t", body="x")
        assert answer.status == 507 and "the limit of a file's size" in answer.json()["detail"], answer


def test_a_store_that_fails_by_the_limit_of_a_files_size_says_so(laterd):
    server = laterd({"store": {"segment_bytes": "1M"}})
    # Two files are made ahead, filled with zeros: to one that cannot be made the limit is a full disk.
    assert eventually(lambda: server.written_bytes() >= 2 << 20)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
    with Client(server.port) as client:
        assert client.push("t", body="x").status == 503
    assert server.wait_log("store_failed")
    (_, facts), = server.events("store_failed")
    assert 'error="File too large"' in facts and "raise LimitFSIZE=" in facts, facts


def test_a_soft_limit_of_a_files_size_is_raised(laterd):
    server = laterd({"store": {"segment_bytes": "1M"}},
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY)))
    with Client(server.port) as client:
        assert client.push("t", body="x").status == 201


@ROOT_ONLY
def test_segments_too_large_for_a_small_disk_are_named_by_their_setting(laterd, small_disk):
    server = laterd({"store": {"segment_bytes": "1536K"}}, data=str(small_disk / "data"))
    with Client(server.port) as client:
        answer = client.push("t", body="x")
        assert answer.status == 507 and "store.segment_bytes" in answer.json()["detail"]
        assert server.wait_log("store_full")
        (level, facts), = server.events("store_full")
        assert level == "warn" and "why=disk_full " in facts and "lower store.segment_bytes" in facts
        assert "kept_bytes=3145728 segment_bytes=1572864" in facts
        free = int(re.search(r"free_bytes=(\d+)", facts).group(1))
        assert 0 <= free <= 3 << 20  # 0: while a segment is being made there
    server.stop()
    server = laterd({"store": {"segment_bytes": "256K"}}, data=str(small_disk / "data"))  # as the hint says
    with Client(server.port) as client:
        assert eventually(lambda: client.push("t", body="x").status == 201, 15)
    server.stop()
    done = subprocess.run([LATERD, "-c", "/dev/null", "--data-dir", str(small_disk / "other"), "--http", "127.0.0.1:0",
                           "--beanstalk", "none"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "no room for a first segment of 16777216 bytes: make room, or lower store.segment_bytes" in done.stderr


@ROOT_ONLY
def test_p8_a_disk_filled_by_somebody_else_recovers_by_itself(laterd, small_disk):
    server = laterd({"store": {"segment_bytes": "256K"}}, data=str(small_disk / "data"))
    with Client(server.port) as client:
        keep = client.push_id("t", body="keep")
        with open(small_disk / "other", "wb") as other:
            try:
                other.write(b"x" * 4_000_000)
                other.flush()
            except OSError:
                pass
        answer = None
        for _ in range(300):
            answer = client.push("t", body="x" * 5000)
            if answer.status != 201:
                break
        assert answer.status in (503, 507), answer
        assert client.state(keep) == "ready"
        os.truncate(small_disk / "other", 0)
        assert eventually(lambda: client.push("t", body="x" * 5000).status == 201, 15)
        assert client.get("/readyz").status == 200


# A disk that fails

def failing(call, when):
    return ["strace", "-f", "-q", "-o", "/dev/null", "-e", f"trace={call}",
            "-e", f"inject={call}:error=EIO:when={when}"]


@pytest.mark.parametrize("call", ["pwrite64,fdatasync", "pwrite64", "fdatasync"])
def test_p7_after_a_failed_write_or_sync_nothing_is_acknowledged_until_restart(laterd, call):
    server = laterd({"store": {"segment_bytes": "256K"}}, prefix=failing(call, "400+"))
    acknowledged, answer = [], None
    with Client(server.port) as client:
        for number in range(600):
            try:
                answer = client.push("t", body=number, delay="1h")
            except (Closed, OSError):
                pytest.fail("the connection was cut instead of an answer")
            if answer.status != 201:
                break
            acknowledged.append(answer.json()["id"])
        if answer.status == 201:
            pytest.skip(f"this store does not use {call}")
        assert answer.status == 503, answer
        for _ in range(5):
            assert client.push("t", body="x").status == 503
        assert client.post("/push", id="i", topic="t", delay=1, ttr=1).json()["code"] == 1
        assert client.get("/readyz").status == 503
        assert client.get("/healthz").status == 200
        assert "laterd_store_failed 1" in client.get("/metrics").text
        assert server.wait_log("store_failed")
    server.kill()
    server.prefix = []
    server.start()
    with Client(server.port) as client:
        kept = ids_of(client, "t", "delayed")
        assert set(acknowledged) <= kept, "an acknowledged job is gone"
        assert client.push("t", body="x").status == 201
        assert client.get("/readyz").status == 200


def test_p7_a_crowd_of_clients_cannot_take_the_stores_descriptors(laterd):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    server = laterd({"store": {"segment_bytes": "256K", "recent_bytes": "64K"}}, preexec_fn=few)
    with Client(server.port) as client:
        first = push_many(client, "t", 100, size=10_000, delay="1h")
        crowd = [Wire(server.port, seconds=PATIENCE_S) for _ in range(200)]
        assert server.wait_log("accept_paused")
        for _ in range(10):  # 40 segments more
            first += push_many(client, "t", 100, size=10_000, delay="1h")
        assert len(first) == 1100, "a push was refused"
        for job_id in first[::10]:
            assert client.job(job_id, method="GET").status == 200
            assert client.job(job_id, method="DELETE").status in (200, 204)
        for wire in crowd:
            wire.close()
        assert client.push("t", body="x").status == 201
        assert client.get("/readyz").status == 200
    assert not server.events("store_failed")


def test_p1_no_answer_comes_before_the_disk_has_the_change(laterd):
    """With every write held up for a while, no push may be answered sooner."""
    slow = ["strace", "-f", "-q", "-o", "/dev/null", "-e", "trace=pwrite64,fdatasync,pwritev,pwritev2",
            "-e", "inject=pwrite64,fdatasync,pwritev,pwritev2:delay_enter=300000"]
    server = laterd({"store": {"segment_bytes": "256K"}}, start=False, prefix=slow)
    server.start(seconds=60)
    with Client(server.port, seconds=30) as client:
        time.sleep(1)
        for durability in (None, "sync"):
            begin = time.monotonic()
            fields = {"durability": durability} if durability else {}
            assert client.push("t", body="x", **fields).status == 201
            assert time.monotonic() - begin >= 0.29, "answered before the write"
        begin = time.monotonic()
        said = json.loads(client.post("/push", id="i", topic="t", delay=9, ttr=1).body)
        assert said["code"] == 0 and time.monotonic() - begin >= 0.29
        begin = time.monotonic()
        assert client.call("/delete", id="i")[0] == 0
        assert time.monotonic() - begin >= 0.29
