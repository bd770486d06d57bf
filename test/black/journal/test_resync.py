"""A resync brings the rows of the journal to what the queue holds: rows that are missing, wrong, or of no job,
beside pushes and takes, over kills of laterd and of MySQL."""

import contextlib
import json
import signal
import subprocess
import threading
import time

import pytest

from journal import CURSORS, DELAYED, DELETED, FINISHED, JOBS, LOGS, agree, differences, gauge, rows
from fake_v1 import Fake
from mariadb import NEEDED, USER, a_maria  # noqa: F401  (a fixture)
from process import LATER
from test_journal import a_base, a_writer, caught_up  # noqa: F401  (fixtures)
from wire import Client, Closed, eventually

pytestmark = [NEEDED, pytest.mark.embedded("of a queue in Redis: test_redis_resync.py")]

RESYNCS = "laterd_journal_resync"


def later(server, *words, seconds=120):
    return subprocess.run([LATER, "journal", *words, "-s", f"http://127.0.0.1:{server.port}"], check=False,
                          capture_output=True, text=True, timeout=seconds)


def state(client):
    return client.get("/v1/journal").json()["resync"]


def fill(client, count, prefix="j", topic="t"):
    """Jobs of all kinds: with and without an id, delayed, ready, buried, reserved."""
    for first in range(0, count, 500):
        client.push_many(topic, [{**({"id": f"{prefix}{i:06d}"} if i % 3 else {}), "body": f"body {prefix} {i}",
                                  "delay": "1h" if i % 2 else 0, "ttr": "1h", "priority": i % 5}
                                 for i in range(first, min(first + 500, count))])
    for number, job in enumerate(client.reserve(topic, most=count // 10)):
        if number % 3 == 0:
            client.job(job["id"], "bury", lease=job["lease"])
        if number % 3 == 1:
            client.job(job["id"], "finish", lease=job["lease"])


def damage(maria, base):
    """As a hand, or an older copy, would leave the rows."""
    maria.run(
        f"DELETE FROM {JOBS} WHERE id LIKE 'j%1'",  # missing
        f"DELETE FROM {JOBS} WHERE id LIKE '@%3.%'",
        f"UPDATE {JOBS} SET body='wrong',topic='else',delay=delay+1000 WHERE id LIKE 'j%2'",
        f"UPDATE {JOBS} SET status=3 WHERE id LIKE 'j%4'",  # ended, and is not
        f"UPDATE {JOBS} SET status=4 WHERE id LIKE '@%6.%'",
        f"UPDATE {JOBS} SET status=1 WHERE id LIKE 'j%' AND status=3 AND id NOT LIKE 'j%4'",  # has ended
        f"UPDATE {JOBS} SET extend_data='{{}}' WHERE id LIKE 'j%5'",
        f"INSERT INTO {JOBS}(id,topic,delay,create_time,body,status,ttl,update_time,extend_data) "
        f"VALUES('never','t',0,1795446284698,'x',1,60,'2026-11-23 15:04:44.803','{{}}'),"
        f"('@99999999.0123456789abcdef','t',0,1795446284698,'x',2,60,NULL,'{{}}')",
        database=base)


@contextlib.contextmanager
def cannot_end(maria, base, name):
    """No resync ends while the block runs, and none goes beyond the row of that job."""
    with maria.connect(base) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"SELECT 1 FROM {JOBS} WHERE id='{name}' FOR UPDATE")
        yield


def test_rows_that_are_missing_or_wrong_or_of_no_job_are_made_right(writer, maria, base):
    server = writer()
    with Client(server.port, seconds=60) as client:
        fill(client, 1200)
        caught_up(server, maria, base)
        damage(maria, base)
        changes = maria.run(f"SELECT COUNT(*) FROM {LOGS}", database=base)
        assert len(differences(client, ("t",), maria, base)) > 300
        done = later(server, "resync", "--json")
        assert done.returncode == 0, done
        said = json.loads(done.stdout)
        assert said["state"] == "done" and said["unread"] == 0 and said["closed"] >= 2
        assert said["jobs"] >= said["of"] > 1000
        assert not differences(client, ("t",), maria, base)
        found = rows(maria, base)
        assert found["never"]["status"] == DELETED
        assert found["@99999999.0123456789abcdef"]["status"] == DELETED
        assert maria.run(f"SELECT COUNT(*) FROM {LOGS}", database=base) == changes  # nothing has changed
        assert maria.run(f"SELECT run,ended IS NULL FROM {RESYNCS}", database=base) == ((1, 0),)
        assert gauge(client, "journal_resyncing") == 0 and gauge(client, "journal_resync_closed") == said["closed"]
        client.push("t", id="after", body="x", delay="1h")
        caught_up(server, maria, base)
        again = later(server, "resync")
        assert again.returncode == 0 and " jobs written" in again.stdout and " 0 without a job marked deleted" in again.stdout
        assert not differences(client, ("t",), maria, base)


def test_a_job_that_was_restored_under_its_old_number_keeps_its_row(writer, maria, base):
    """Its row is that of a number which is no more: it lives under the row's id."""
    server = writer()
    with Client(server.port, seconds=60) as client:
        number = client.push_id("t", body="x", delay="1h")
        assert client.job(number, method="DELETE").status == 204
        caught_up(server, maria, base)
        assert later(server, "restore", number).returncode == 0
        caught_up(server, maria, base)
        assert later(server, "resync").returncode == 0
        caught_up(server, maria, base)
        (row,) = [row for name, row in rows(maria, base).items() if name.startswith(number + ".")]
        assert row["status"] == DELAYED


class Load(threading.Thread):
    """Pushes, takes, finishes, moves and replaces, until it is told to stop."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.going, self.rounds, self.error = server, True, 0, None

    def run(self):
        try:
            with Client(self.server.port, seconds=60) as client:
                while self.going:
                    self.round(client)
                    self.rounds += 1
        except (OSError, AssertionError, Closed) as error:  # laterd was killed: the test knows
            self.error = error

    def round(self, client):
        number = self.rounds
        client.push_many("t", [{"id": f"l{number}-{i}", "body": i, "delay": "1h" if i % 4 == 0 else 0, "ttr": "1h"}
                               for i in range(20)])
        client.push_many("t", [{"id": f"r{i}", "body": [number, i], "delay": "2h", "if_exists": "replace"}
                               for i in range(10)])
        for i, job in enumerate(client.reserve("t", most=30)):
            word = ("finish", "bury", "release")[i % 3]
            client.job(job["id"], word, lease=job["lease"])
        for i in range(5):
            client.job(f"j{(number * 7 + i) % 1200:06d}", method="PATCH", delay="3h")
            client.job(f"j{(number * 11 + i) % 1200:06d}", method="DELETE")
        client.job(f"r{number % 10}", method="DELETE")

    def stop(self):
        self.going = False
        self.join(60)


def test_beside_a_load_nothing_is_lost_and_no_change_is_written_twice(writer, maria, base):
    server = writer()
    with Client(server.port, seconds=60) as client:
        fill(client, 1200)
        caught_up(server, maria, base)
        load = Load(server)
        load.start()
        for turn in range(3):
            damage_load = f"DELETE FROM {JOBS} WHERE id LIKE 'l%' AND MOD(CRC32(id),3)={turn}"
            assert eventually(lambda rounds=load.rounds: load.rounds > rounds + 10, 60)
            if turn == 0:
                damage(maria, base)
            maria.run(damage_load, f"UPDATE {JOBS} SET status=1 WHERE status=3 LIMIT 50", database=base)
            assert later(server, "resync").returncode == 0
        assert eventually(lambda: load.rounds > 30, 60)
        load.stop()
        assert not load.error, load.error
        caught_up(server, maria, base)
        twice = maria.run(f"SELECT id,COUNT(*) FROM {LOGS} WHERE status IN({FINISHED},{DELETED}) AND id LIKE 'l%' "
                          "GROUP BY id HAVING COUNT(*)>1", database=base)
        assert not twice


def test_killed_in_the_middle_it_begins_again_by_itself(writer, maria, base, tmp_path):
    server = writer(data=tmp_path / "data")
    with Client(server.port, seconds=60) as client:
        fill(client, 6000)
        caught_up(server, maria, base)
    damage(maria, base)
    killed = 0
    for turn in range(6):
        held = cannot_end(maria, base, "j005999") if turn == 0 else contextlib.nullcontext()
        with held, Client(server.port, seconds=60) as client:
            load = Load(server)
            load.start()
            if turn == 0:
                assert client.post("/v1/journal/resync", {}).status == 200
            assert eventually(lambda: maria.run(f"SHOW TABLES LIKE '{RESYNCS}'", database=base) and
                              maria.run(f"SELECT 1 FROM {RESYNCS}", database=base), 20)
            time.sleep(0.02 * turn)
            killed += state(client)["state"] == "running"
            server.kill()
        load.stop()
        server.start()
    assert killed
    with Client(server.port, seconds=60) as client:
        assert eventually(lambda: not maria.run(f"SELECT 1 FROM {RESYNCS} WHERE ended IS NULL", database=base), 60)
        caught_up(server, maria, base)


def test_mysql_killed_in_the_middle_is_waited_for(writer, maria, base):
    server = writer()
    with Client(server.port, seconds=60) as client:
        fill(client, 6000)
        caught_up(server, maria, base)
        damage(maria, base)
        with cannot_end(maria, base, "j005999"):
            assert client.post("/v1/journal/resync", {}).status == 200
            second = client.post("/v1/journal/resync", {})
            assert (second.status, second.json()["code"]) == (409, "resync_under_way")
            restore = client.post("/v1/restore", {})
            assert (restore.status, restore.json()["code"]) == (409, "resync_under_way")
            one = client.post("/v1/restore", {"id": "j000001"})
            assert (one.status, one.json()["code"]) == (409, "resync_under_way")
        for _ in range(3):
            maria.kill()
            time.sleep(0.3)
            maria.start()
            time.sleep(0.3)
        assert eventually(lambda: state(client)["state"] == "done", 60), state(client)
        assert later(server, "resync").returncode == 0
        caught_up(server, maria, base)


def test_a_journal_that_was_given_up_goes_on_without_a_restart(writer, maria, base):
    """MySQL is an older copy: it lacks what it had committed, so the two are out of step."""
    server = writer()
    with Client(server.port, seconds=60) as client:
        fill(client, 600)
        caught_up(server, maria, base)
        maria.run(f"CREATE TABLE old_jobs AS SELECT * FROM {JOBS}", f"CREATE TABLE old_cursor AS SELECT * FROM {CURSORS}",
                  database=base)
        for job in client.reserve("t", most=50):
            client.job(job["id"], "finish", lease=job["lease"])
        fill(client, 300, prefix="k")
        caught_up(server, maria, base)
        server.stop()
        maria.run(f"DELETE FROM {JOBS}", f"INSERT INTO {JOBS} SELECT * FROM old_jobs",
                  f"UPDATE {CURSORS} c JOIN old_cursor o ON o.store_id=c.store_id SET c.batch=o.batch", database=base)
        server.start()
        assert server.wait_log("journal_out_of_step")
    with Client(server.port, seconds=60) as client:
        assert client.post("/v1/topics/t/jobs", {"id": "refused", "body": "x"}).status == 503
        assert later(server, "resync").returncode == 0
        assert eventually(lambda: client.get("/readyz").status == 200, 10)
        client.push("t", id="taken", body="x")
        caught_up(server, maria, base)
        server.stop()
        server.start()
    with Client(server.port, seconds=60) as client:
        client.push("t", id="later", body="x")
        caught_up(server, maria, base)
        assert not server.events("journal_out_of_step")


def test_mysql_that_lost_commits_while_it_was_away_is_made_right(writer, maria, base):
    server = writer()
    with Client(server.port, seconds=60) as client:
        fill(client, 300)
        caught_up(server, maria, base)
        maria.run(f"UPDATE {CURSORS} SET batch=1", f"DELETE FROM {JOBS} WHERE id LIKE 'j%7'", database=base)
        client.push("t", id="stops", body="x")
        assert server.wait_log("journal_fenced")
        assert later(server, "resync").returncode == 0
        caught_up(server, maria, base)


def test_far_jobs_get_their_rows(writer, maria, base):
    """Most jobs are not in memory."""
    server = writer(sections={"store": {"horizon": "1m", "checkpoint_bytes": "256K", "segment_bytes": "1M"}})
    with Client(server.port, seconds=60) as client:
        for first in range(0, 8000, 500):
            client.push_many("t", [{"id": f"j{i}", "body": "x" * 300, "delay": "5h"} for i in range(first, first + 500)])
        caught_up(server, maria, base)
        assert eventually(lambda: gauge(client, "far_jobs") > 1000, 60)
        damage(maria, base)
        assert later(server, "resync").returncode == 0
        assert gauge(client, "far_jobs") > 1000
        caught_up(server, maria, base)


def test_without_the_right_to_create_the_table_may_be_made_by_hand(writer, maria, base):
    """The log has what to run; afterwards the right is needed no more."""
    server = writer()
    with Client(server.port, seconds=60) as client:
        fill(client, 30)
        caught_up(server, maria, base)
        maria.run(f"REVOKE CREATE ON `{base}`.* FROM '{USER}'@'%'")
        server.signal(signal.SIGTERM)
        server.wait()
    server = writer(data=server.data)
    with Client(server.port, seconds=60) as client:
        caught_up(server, maria, base)
        assert client.post("/v1/journal/resync", {}).status == 200
        assert server.wait_log("journal_table_missing", 20)
        said = server.events("journal_table_missing")[-1][1]
        assert f"CREATE TABLE IF NOT EXISTS {RESYNCS}(" in said
        maria.run(said.split("run in its database: ")[1].rsplit('"', 1)[0], database=base)
        assert eventually(lambda: state(client)["state"] == "done", 60), state(client)
        assert later(server, "resync").returncode == 0
        caught_up(server, maria, base)


def test_a_conflict_after_a_restart_ends_the_command():
    """Another daemon writes the journal now, or the server that came back has none."""
    begun = []

    def begin(_query, _body):
        begun.append(1)
        problem = {"status": 409, "code": "journal_elsewhere", "detail": "ask the one that does, b:1"}
        return (200, {"journal": True}) if len(begun) == 1 else (409, problem)

    with Fake({"POST /v1/journal/resync": begin,
               "GET /v1/journal": (200, {"journal": True, "resync": {"state": "none"}})}) as fake:
        done = subprocess.run([LATER, "journal", "resync", "-s", fake.url], check=False, capture_output=True,
                              text=True, timeout=30)
    assert done.returncode == 3 and "ask the one that does, b:1" in done.stderr


def test_without_a_journal_it_is_refused(laterd):
    server = laterd()
    done = later(server, "resync")
    assert done.returncode == 3 and "journal" in done.stderr
    assert later(server, "resync", "x").returncode == 2
    assert later(server, "status").stdout.startswith("this server has no journal: ")


@pytest.mark.parametrize("words", [("--json",), ()])
def test_restore_shows_how_far_it_is(writer, laterd, maria, base, words):
    """A frozen MySQL makes it last; the metrics count what came."""
    server = writer()
    with Client(server.port, seconds=60) as client:
        client.push_many("t", [{"id": f"j{i}", "body": "x", "delay": "1h"} for i in range(500)])
        caught_up(server, maria, base)
    server.kill()
    maria.run(f"DELETE FROM {CURSORS}", database=base)
    new = laterd({"journal": {"url": maria.url_of[base]}})
    assert new.wait_log("journal_writes")
    with subprocess.Popen([LATER, "journal", "restore", "-s", f"http://127.0.0.1:{new.port}", *words], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as restoring:
        maria.signal(signal.SIGSTOP)
        time.sleep(3)
        maria.signal(signal.SIGCONT)
        out, err = restoring.communicate(timeout=60)
    assert restoring.returncode == 0, err
    assert "500" in out
    with Client(new.port) as client:
        assert gauge(client, "restoring") == 0
        assert gauge(client, "restore_rows_total") == gauge(client, "restore_created_total") == 500
        assert gauge(client, "restore_kept_total") == gauge(client, "restore_refused_total") == 0
        said = client.get("/v1/journal").json()["restore"]
        assert (said["state"], said["of"], said["rows"], said["created"]) == ("done", 500, 500, 500)
