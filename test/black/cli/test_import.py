"""later import beanstalkd: what a real beanstalkd left on disk, and what laterd then holds."""

import base64
import fcntl
import json
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import threading
import time

import pytest
from importing import Source, importer_of
from wire import Client

BEANSTALKD = shutil.which("beanstalkd", path="/usr/bin:/usr/local/bin:/usr/sbin")
DONE, NOTHING, USAGE, CONFLICT, REFUSED, UNREACHABLE, WRONG = range(7)

pytestmark = pytest.mark.skipif(not BEANSTALKD, reason="there is no beanstalkd on this machine")


class Beanstalkd(Source):
    """A real beanstalkd with its binlog in `folder`, and one connection to it."""

    def __init__(self, folder, *arguments):
        os.makedirs(folder, exist_ok=True)
        self.folder = str(folder)
        self.path = f"{self.folder}.socket"
        if os.path.exists(self.path):
            os.unlink(self.path)
        assert self.start([BEANSTALKD, "-l", f"unix:{self.path}", "-b", self.folder, *arguments],
                          self.path), "beanstalkd does not start"

    def ask(self, line, body=None):
        """The words of the answer; the data behind it, if any, as the last one."""
        self.socket.sendall(line.encode() + b"\r\n" + (b"" if body is None else body + b"\r\n"))
        words = self.file.readline().split()
        if words[0] in (b"OK", b"FOUND", b"RESERVED"):
            words.append(self.file.read(int(words[-1]) + 2)[:-2])
        return words

    def put(self, tube, body, priority=0, delay=0, ttr=60):
        self.ask(f"use {tube}")
        answer = self.ask(f"put {priority} {delay} {ttr} {len(body)}", body)
        assert answer[0] == b"INSERTED"
        return int(answer[1])

    def job(self, number):
        """What it knows of a job, or None."""
        answer = self.ask(f"peek {number}")
        if answer[0] == b"NOT_FOUND":
            return None
        lines = self.ask(f"stats-job {number}")[-1].decode().splitlines()[1:]
        facts = dict(line.split(": ") for line in lines)
        asked_at = time.time()
        return {"body": answer[-1], "topic": facts["tube"].strip('"'), "state": facts["state"],
                "priority": int(facts["pri"]), "ttr_ms": int(facts["ttr"]) * 1000,
                "due": asked_at + int(facts["time-left"]) if facts["state"] == "delayed" else 0}


@pytest.fixture
def beanstalkd(tmp_path, starter):
    return starter(lambda folder="binlog", *arguments: Beanstalkd(tmp_path / folder, *arguments))


@pytest.fixture
def importer(laterd):
    return importer_of(laterd, "beanstalkd")


def mapped(answer):
    """{old number: what was printed} and the last line of --json."""
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    return {line["old"]: line for line in lines[:-1]}, lines[-1]


def held(client, name):
    """The job as laterd has it, in the words of Beanstalkd.job."""
    job = client.get(f"/v1/jobs/{name}").json()
    body = base64.b64decode(job["body_base64"]) if "body_base64" in job else job["body"].encode()
    due = job["due_ms"] / 1000 if job["state"] == "delayed" else 0
    return {"body": body, "topic": job["topic"], "state": job["state"],
            "priority": job["priority"], "ttr_ms": job["ttr_ms"], "due": due}


def compare(server, beanstalkd, numbers, ids):
    """Every job that a beanstalkd has is in laterd just so, and no other one is."""
    with Client(server.port) as client:
        found = 0
        for number in numbers:
            begin, theirs = time.time(), beanstalkd.job(number)
            asking_s = time.time() - begin
            assert (theirs is None) == (number not in ids), number
            if theirs is None:
                continue
            ours = held(client, ids[number]["id"])
            assert abs(ours.pop("due") - theirs.pop("due")) <= 2 + asking_s
            assert ours == theirs
            found += 1
        assert found == len(ids)


def live(server, rand, rounds, numbers):
    """A random life: many jobs in all states, over many files. Adds to the numbers there were."""
    for tube in range(6):
        server.ask(f"watch tube-{tube}")
    for _ in range(rounds):
        deed = rand.randrange(10)
        if deed < 5 or not numbers:
            body = rand.randbytes(rand.choice((0, 1, 30, 300, 2000)))
            if rand.randrange(2):
                body = base64.b64encode(body)
            numbers.append(server.put(f"tube-{rand.randrange(6)}", body,
                                      rand.choice((0, 5, 1024, 2**32 - 1)),
                                      rand.choice((0, 0, 1000, 86400 * 300)),
                                      rand.choice((1, 60, 3600))))
            continue
        number = rand.choice(numbers)
        if deed == 5:
            server.ask(f"kick-job {number}")
        elif server.ask(f"reserve-job {number}")[0] != b"RESERVED":
            continue
        elif deed < 8:
            server.ask(f"delete {number}")
        elif deed == 8:
            server.ask(f"bury {number} {rand.randrange(2**32)}")
        else:
            server.ask(f"touch {number}")
            if rand.randrange(4):
                server.ask(f"release {number} {rand.randrange(99)} {rand.choice((0, 5000))}")


@pytest.mark.parametrize("seed, file_bytes", [(1, 4096), (2, 20000), (3, 1 << 20)])
def test_every_job_of_a_random_life_is_imported_as_it_was(importer, beanstalkd, seed, file_bytes):
    server = beanstalkd("binlog", "-s", str(file_bytes))
    rand, numbers = random.Random(seed), []
    live(server, rand, 1500, numbers)
    for number in rand.sample(numbers, len(numbers) * 3 // 4):
        server.ask(f"delete {number}")
    live(server, rand, 500, numbers)
    stats = server.ask("stats")[-1].decode()
    assert file_bytes > 20000 or "binlog-records-migrated: 0\n" not in stats  # it was compacted
    server.kill()
    answer = importer(server.folder, "--json")
    assert (answer.returncode, answer.stderr) == (DONE, "")
    ids, summary = mapped(answer)
    assert summary["created"] == len(ids) > 100 and summary["damaged"] == 0
    compare(importer.server, beanstalkd(), numbers, ids)


def test_a_log_that_was_cut_by_kill_9_in_the_middle_of_writing(importer, beanstalkd, tmp_path):
    server = beanstalkd("binlog", "-s", "8192")
    done = []

    def write():
        try:
            for number in range(10**6):
                done.append(server.put(f"t{number % 3}", b"%d" % number * 50,
                                       delay=number % 2 * 900))
                if number % 3 == 0:
                    server.ask(f"delete {done[number // 2]}")
        except (OSError, IndexError, ValueError):
            pass

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(0.5)
    server.process.kill()
    writer.join()
    copy = shutil.copytree(server.folder, tmp_path / "copy")
    answer = importer(copy, "--json")
    ids, summary = mapped(answer)
    # beanstalkd writes a record in four pieces: with luck it ended between two of them, in a put that
    # it had not answered.
    torn = re.fullmatch(r"later import: (binlog\.\d+: no record at byte \d+; .*"
                        r"|job (\d+) of tube t\d: its body is torn.*)\n", answer.stderr)
    if torn:
        assert answer.returncode == WRONG and summary["damaged"] == 1
        assert not torn[2] or int(torn[2]) not in done
    else:
        assert answer.returncode == DONE, answer.stderr
    last = torn and torn[2] and int(torn[2])
    compare(importer.server, beanstalkd(),
            [number for number in range(1, len(done) + 3) if number != last], ids)


def test_ready_jobs_keep_their_order_over_all_tubes(importer, beanstalkd):
    server = beanstalkd()
    order = [server.put(f"t{number % 7}", b"", priority=number % 2) for number in range(60)]
    server.kill()
    ids, _ = mapped(importer(server.folder, "--json"))
    with Client(importer.server.port) as client:
        topics = [f"t{number}" for number in range(7)]
        jobs = client.post("/v1/reserve", topics=topics, max=60).json()["jobs"]
    wanted = order[0::2] + order[1::2]
    assert [job["id"] for job in jobs] == [ids[number]["id"] for number in wanted]


def test_an_import_that_is_run_again_doubles_nothing(importer, beanstalkd, tmp_path):
    server = beanstalkd()
    numbers = [server.put("t", b"%d" % number, delay=number % 2 * 999) for number in range(700)]
    server.kill()
    first = importer(server.folder, "--map", str(tmp_path / "ids"))
    again = importer(server.folder, "--json")
    assert "700 imported, 0 there already, 0 refused" in first.stdout
    ids, summary = mapped(again)
    assert (summary["created"], summary["kept"]) == (0, 700)
    lines = (tmp_path / "ids").read_text().splitlines()
    assert sorted(lines) == sorted(f"{number}\t{ids[number]['id']}" for number in numbers)


def test_a_directory_in_use_is_refused_and_a_dry_run_sends_nothing(importer, beanstalkd, tmp_path):
    server = beanstalkd()
    server.put("mail", b"x")
    server.put("mail", b"y", delay=100)
    server.ask("watch mail")
    number = server.put("mail", b"z")
    server.ask(f"reserve-job {number}")
    server.ask(f"bury {number} 0")
    answer = importer(server.folder)
    assert answer.returncode == CONFLICT and "stop it" in answer.stderr
    server.kill()
    answer = importer(server.folder, "--dry-run", "--json")
    summary = json.loads(answer.stdout)
    assert summary["tubes"] == [{"name": "mail", "ready": 1, "delayed": 1, "buried": 1}]
    with Client(importer.server.port) as client:
        assert client.get("/v1/topics").json()["topics"] == []
    assert importer(tmp_path / "none").returncode == NOTHING
    answer = importer(server.folder, "--prefix", "old.")
    assert "ids begin with old." in answer.stdout
    with Client(importer.server.port) as client:
        assert client.get(f"/v1/jobs/old.{number}").json()["state"] == "buried"


def test_a_beanstalkd_cannot_start_while_its_directory_is_read(beanstalkd):
    server = beanstalkd()
    server.put("t", b"x")  # it listens before it makes its directory
    server.kill()
    with open(f"{server.folder}/lock", "rb") as lock:  # as import takes it
        fcntl.lockf(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        answer = subprocess.run([BEANSTALKD, "-l", f"unix:{server.path}", "-b", server.folder],
                                stderr=subprocess.PIPE, timeout=60, check=False)
    assert answer.returncode != 0


def test_what_is_damaged_is_named_and_the_rest_is_imported(importer, beanstalkd):
    server = beanstalkd("binlog", "-s", "4096")
    for _ in range(60):
        server.put("t", b"x" * 200)
    server.kill()
    record = 4 + 1 + 80 + 202
    for number in (1, 2, 3):
        os.chmod(f"{server.folder}/binlog.{number}", 0o600)
    with open(f"{server.folder}/binlog.1", "r+b") as file:  # the body of the second job is torn
        file.seek(4 + 2 * record - 20)
        file.write(bytes(20))
    with open(f"{server.folder}/binlog.2", "r+b") as file:  # rot behind the first record
        file.seek(4 + record)
        file.write(b"\xff" * 9)
    os.truncate(f"{server.folder}/binlog.3", 4 + 2 * record - 100)
    answer = importer(server.folder, "--json")
    assert answer.returncode == WRONG
    assert "job 2 of tube t: its body is torn" in answer.stderr
    assert "binlog.2: no record at byte 291" in answer.stderr
    assert "binlog.3: the file ends within a job's body at byte 291" in answer.stderr
    ids, summary = mapped(answer)
    assert summary["damaged"] == 3
    assert 60 - 2 * 14 - 1 <= len(ids) < 60 and 2 not in ids and 1 in ids and 60 in ids


def test_records_of_version_5_are_read(importer, beanstalkd, tmp_path):
    """Old binlogs cannot be made any more, but beanstalkd 1.12 still reads them: so does import."""
    folder = tmp_path / "old"
    folder.mkdir()

    def record(number, state, tube=b"", priority=9, ttr=44):
        now = int(time.time() * 1e6)
        return (struct.pack("<q", len(tube)) + tube +
                struct.pack("<QI4xQQI4xQQIIIIIB", number, priority, 3 * 10**9, ttr * 10**6, 7,
                            now, now + 3 * 10**9, 1, 2, 3, 4, 5, state) +
                (b"hello\r\n" if tube else b""))

    (folder / "binlog.4").write_bytes(
        struct.pack("<i", 5) + record(77, 4, b"mail") + record(78, 1, b"mail") + record(77, 3) +
        record(79, 2, b"other") + record(80, 4, b"mail") + record(78, 0) + bytes(999))
    shutil.copytree(folder, tmp_path / "copy")
    answer = importer(folder, "--json")
    assert answer.returncode == DONE, answer.stderr
    ids, _ = mapped(answer)
    assert set(ids) == {77, 79, 80}
    compare(importer.server, beanstalkd("copy"), range(75, 85), ids)


def test_jobs_that_the_server_refuses_are_named(laterd, importer, beanstalkd):
    importer.server = laterd({"limits": {"body_bytes": "1K", "jobs": 4},
                              "redis": {"partitions": 1}})
    server = beanstalkd()
    server.put("t", b"x" * 2000)
    for _ in range(6):
        server.put("t", b"x")
    server.kill()
    answer = importer(server.folder)
    assert answer.returncode == REFUSED
    assert "job 1 of tube t: " in answer.stderr and "run it again" in answer.stderr
    assert "4 imported, 0 there already, 3 refused" in answer.stdout
    importer.server.stop()
    importer.server.config["limits"] = {"body_bytes": "1K"}
    importer.server.start()
    answer = importer(server.folder)
    assert "2 imported, 4 there already, 1 refused" in answer.stdout
    assert answer.returncode == REFUSED and "run it again" not in answer.stderr
