"""[journal]: what a queue writes to MySQL, and what it does when that is away, slow, read-only, full,
of the wrong collation, has a second writer or refuses a row."""

import datetime
import json
import os
import signal
import socket
import subprocess
import threading
import time

import pymysql
import pytest

from journal import (BURIED, CURSORS, DELAYED, DELETED, FINISHED, JOBS, LOGS, READY, REJECTED,
                     agree, differences, gauge, rows)
from mariadb import MYSQLD, NEEDED, MariaDb, a_maria  # noqa: F401  (a fixture)
from patience import PATIENCE_S, soon
from process import LATERD
from relay import Relay
from wire import Client, eventually

pytestmark = [NEEDED]

SDMQ = """
CREATE TABLE t_delay_queue_job(id varchar(128) NOT NULL, bizkey varchar(128), topic varchar(128),
 subtopic varchar(250), delay bigint(20), create_time bigint(20), body text, status int(11), ttl int(11),
 update_time datetime(3), PRIMARY KEY(id)) ENGINE=InnoDB DEFAULT CHARSET=utf8;
CREATE TABLE t_delay_queue_job_log(id varchar(128) NOT NULL, status int(11), thread varchar(60),
 update_time datetime(3), host varchar(128)) ENGINE=InnoDB DEFAULT CHARSET=utf8
"""


@pytest.fixture(name="base")
def a_base(maria, request):
    """A database of the test's own: its name."""
    name = "d" + str(abs(hash(request.node.name)) % 10**12)
    maria.url_of = {**getattr(maria, "url_of", {}), name: maria.database(name)}
    yield name
    if maria.process and maria.process.poll() is None:
        maria.run(f"DROP DATABASE IF EXISTS {name}", "SET GLOBAL read_only=0")


@pytest.fixture(name="writer")
def a_writer(laterd, maria, base):
    """Starts a laterd whose journal is the test's database: writer(mode="before", …)."""
    def start(data=None, sections=None, **keys):
        keys = {"url": maria.url_of[base], **keys}
        options = {"data": str(data)} if data else {}
        return laterd({"journal": keys, **(sections or {})}, **options)
    return start


def caught_up(server, maria, base, topics=("t",)):
    with Client(server.port) as client:
        assert eventually(lambda: gauge(client, "journal_lag_batches") == 0, 60), client.get("/metrics").body
        assert eventually(lambda: agree(client, topics, maria, base), 30, 0.2), \
            differences(client, topics, maria, base)
        # The rows are seen before the writer has its answer.
        assert eventually(lambda: gauge(client, "journal_lag_batches") == 0, 60), client.get("/metrics").body


def logged(maria, base, job):
    return [row[0] for row in maria.run(f"SELECT status FROM {LOGS} WHERE id='{job}' ORDER BY update_time,status",
                                        database=base)]


# What is written

def test_each_state_of_a_job_has_its_row(writer, maria, base):
    server = writer()
    with Client(server.port) as client:
        client.push("t", id="delayed", body="x", delay="1h", priority=7)
        client.push("t", id="reserved", body="x")
        client.push("t", id="finished", body="x")
        client.push("t", id="deleted", body="x")
        client.push("t", id="buried", body="x")
        client.push("t", id="moved", body="x", delay="1h")
        assert client.job("deleted", method="DELETE").status == 204
        taken = {job["id"]: job["lease"] for job in client.reserve("t", most=10)}
        assert set(taken) == {"reserved", "buried", "finished"}
        assert client.job("finished", "finish", lease=taken["finished"]).status == 204
        assert client.job("buried", "bury", lease=taken["buried"]).status < 300
        assert client.job("moved", method="PATCH", delay="2h").status < 300
        client.push("t", id="ready", body="x")
        caught_up(server, maria, base)
        found = rows(maria, base)
        assert {name: row["status"] for name, row in found.items()} == {
            "delayed": DELAYED, "ready": READY, "reserved": READY, "finished": FINISHED,
            "deleted": DELETED, "buried": BURIED, "moved": DELAYED}
        assert abs(found["moved"]["delay"] - 7200000) < 60000
        assert json.loads(found["delayed"]["extend_data"])["priority"] == 7
        assert sorted(logged(maria, base, "finished")) == [READY, READY, FINISHED]
        assert sorted(logged(maria, base, "buried")) == [READY, READY, BURIED]


def test_bodies_and_labels_are_kept_byte_by_byte(writer, maria, base):
    server = writer()
    with Client(server.port) as client:
        nasty = "'\"\\\0\n\r\x1a%_;--é🎉 "
        client.push("t", id="A", body=nasty, delay="1h")
        client.push("t", id="a", body="lower", delay="1h")
        client.push("t", id="a ", body="blank", delay="1h")
        client.push("t", id="it's \"🎉\"\\", body={"x": [1, "é"]}, delay="1h")
        client.push("t", id="raw", body_base64="/wD+", delay="1h")
        client.push("t", id="labels", body="x", delay="1h", biz_key="o'17", subtopic="eu",
                    tags=["p", "q"], extend_data="{\"k\":\"v\"}", ttr="90s", retry=["1s", "2m"],
                    content_type="text/plain")
        caught_up(server, maria, base)
        found = rows(maria, base)
        assert found["A"]["body"] == nasty and found["a"]["body"] == "lower"
        assert found["a "]["body"] == "blank"
        row = found["labels"]
        extend = json.loads(row["extend_data"])
        assert (row["bizkey"], row["subtopic"], row["ttl"]) == ("o'17", "eu", 90)
        assert extend["retry_ms"] == [1000, 120000] and extend["content_type"] == "text/plain"
        assert json.loads(extend["properties"])["tags"] in ("p,q", ["p", "q"])


def test_a_job_that_replaces_another_has_the_row(writer, maria, base):
    server = writer()
    with Client(server.port) as client:
        for number in range(50):
            client.push("t", id="one", body=number, delay="1h", if_exists="replace")
            client.push("u", id="two", body=number)
            (job,) = client.reserve("u")
            client.job("two", "finish", lease=job["lease"])
        caught_up(server, maria, base)
        assert rows(maria, base)["two"]["status"] == FINISHED


def test_only_ends_are_logged_if_asked_for_and_times_have_their_zone(writer, maria, base):
    server = writer(log="ends", time_zone="+08:00")
    with Client(server.port) as client:
        client.push("t", id="a", body="x", delay="1h")
        client.push("t", id="b", body="x")
        client.job("b", method="DELETE")
        caught_up(server, maria, base)
        assert maria.run(f"SELECT id,status FROM {LOGS}", database=base) == (("b", DELETED),)
        written = rows(maria, base)["a"]["update_time"].replace(tzinfo=datetime.timezone.utc)
        assert abs(written.timestamp() - 8 * 3600 - time.time()) < 60


def test_many_clients_leave_queue_and_journal_equal(writer, maria, base):
    server = writer()
    with Client(server.port) as client:
        for block in range(10):
            client.push_many("t", [{"id": f"j{block}-{i}", "body": i, "delay": f"{i % 3}h", "priority": i}
                                   for i in range(500)])
            for job in client.reserve("t", most=50):
                if block % 2:
                    client.job(job["id"], "release", lease=job["lease"], delay="30m", priority=3)
                else:
                    client.job(job["id"], "finish", lease=job["lease"])
        caught_up(server, maria, base)
        assert gauge(client, "journal_rejected_total") == 0


# After a restart, of either

def test_it_goes_on_where_it_was_after_a_kill(writer, maria, base, tmp_path):
    data = tmp_path / "one"
    for round_ in range(3):
        server = writer(data=data)
        with Client(server.port) as client:
            client.push_many("t", [{"id": f"{round_}-{i}", "body": i, "delay": "1h"} for i in range(300)])
            client.job(f"{round_}-1", method="DELETE")
        server.kill()
    server = writer(data=data)
    caught_up(server, maria, base)
    counts = maria.run(f"SELECT COUNT(*),COUNT(DISTINCT id,status) FROM {LOGS}", database=base)[0]
    assert counts == (903, 903)  # each event once


def test_mysql_away_is_waited_for(laterd, tmp_path):
    del tmp_path
    maria = MariaDb().make().start()
    try:
        url = maria.database("away")
        server = laterd({"journal": {"url": url}})
        with Client(server.port) as client:
            client.push("t", id="before", body="x", delay="1h")
            caught_up(server, maria, "away")
            maria.kill()
            for i in range(200):
                assert client.push("t", id=f"j{i}", body="x", delay="1h").status == 201
            assert eventually(lambda: gauge(client, "journal_up") == 0)
            assert eventually(lambda: gauge(client, "journal_lag_batches") > 0)
            assert client.get("/readyz").status == 200
            assert server.wait_log("journal_away", 15)
            maria.start()
            assert eventually(lambda: gauge(client, "journal_up") == 1, 30)
            caught_up(server, maria, "away")
            assert "hint=" in server.events("journal_away")[0][1]
    finally:
        maria.stop()


def test_a_frozen_mysql_holds_nobody_up(laterd):
    maria = MariaDb().make().start()
    try:
        url = maria.database("slow")
        server = laterd({"journal": {"url": url, "timeout": "1s"}})
        with Client(server.port) as client:
            client.push("t", id="before", body="x", delay="1h")
            caught_up(server, maria, "slow")
            maria.signal(signal.SIGSTOP)
            begun = time.monotonic()
            for i in range(100):
                assert client.push("t", id=f"j{i}", body="x", delay="1h").status == 201
            soon(time.monotonic() - begun, 5)
            assert eventually(lambda: any("2013" in said and "slow, frozen or down" in said
                                          for _, said in server.events("journal_away")), 15), server.lines
            maria.signal(signal.SIGCONT)
            caught_up(server, maria, "slow")
    finally:
        maria.stop()


# Bad days

def stays_away(client):
    """While it connects twice more."""
    connections = gauge(client, "journal_connections_total")

    def has_tried():
        assert gauge(client, "journal_up") == 0
        return gauge(client, "journal_connections_total") >= connections + 2
    assert eventually(has_tried)


def test_a_read_only_mysql_is_named_and_waited_for(writer, maria, base):
    server = writer()
    with Client(server.port) as client:
        client.push("t", id="a", body="x", delay="1h")
        caught_up(server, maria, base)
        maria.run("SET GLOBAL read_only=1")
        client.push("t", id="b", body="x", delay="1h")
        assert server.wait_log("journal_away", 10)
        assert "read-only" in server.events("journal_away")[-1][1]
        stays_away(client)  # it takes connections
        assert len(server.events("journal_away")) == len(server.events("journal_writes")) == 1
        maria.run("SET GLOBAL read_only=0")
        caught_up(server, maria, base)
        assert gauge(client, "journal_up") == 1


def test_a_read_only_mysql_is_noticed_by_a_journal_that_has_nothing_to_write(writer, maria, base):
    with Relay(maria.port) as relay:
        server = writer(url=maria.url_of[base].replace(f":{maria.port}/", f":{relay.port}/"))
        with Client(server.port) as client:
            client.push("t", id="a", body="x", delay="1h")
            caught_up(server, maria, base)
            maria.run("SET GLOBAL read_only=1")
            relay.cut_all()
            assert server.wait_log("journal_away", 15)  # the idle connection is asked each 5 s
            assert eventually(lambda: "read-only" in server.events("journal_away")[-1][1], 10)
            assert gauge(client, "journal_up") == 0
            maria.run("SET GLOBAL read_only=0")
            assert eventually(lambda: gauge(client, "journal_up") == 1, 20)


def test_a_connection_lost_while_it_looks_who_moved_the_cursor_is_no_fence(writer, maria, base):
    with Relay(maria.port) as relay:
        server = writer(url=maria.url_of[base].replace(f":{maria.port}/", f":{relay.port}/"))
        with Client(server.port) as client:
            client.push("t", id="a", body="x", delay="1h")
            caught_up(server, maria, base)
            maria.run(f"UPDATE {CURSORS} SET epoch=epoch+1", database=base)

            def put_it_back():
                maria.run(f"UPDATE {CURSORS} SET epoch=epoch-1", database=base)
                return False

            relay.before(b"SELECT epoch,batch,", put_it_back)
            client.push("t", id="b", body="x", delay="1h")
            caught_up(server, maria, base)
            assert relay.hook is None and not server.events("journal_fenced")


@pytest.mark.serial
@pytest.mark.deadline
def test_a_second_signal_ends_a_daemon_at_once_that_waits_for_mysql(laterd):
    maria = MariaDb().make().start()
    try:
        server = laterd({"journal": {"url": maria.database("frozen")}})
        with Client(server.port) as client:
            client.push("t", id="a", body="x", delay="1h")
            caught_up(server, maria, "frozen")
            maria.signal(signal.SIGSTOP)
            client.push("t", id="b", body="x", delay="1h")
            time.sleep(0.3)  # it is being written
        server.signal(signal.SIGTERM)
        assert server.wait_log("draining")  # a sooner signal is the same one
        time.sleep(0.7)  # it has drained, and waits for the journal's thread
        assert server.process.poll() is None
        begun = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.wait() == 1
        soon(time.monotonic() - begun, 0.5)
        assert server.wait_log("stopped_at_once") and not server.events("stopped")
        maria.signal(signal.SIGCONT)
        server.start()
        caught_up(server, maria, "frozen")
    finally:
        maria.stop()


def closed(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.embedded("how a daemon that ends gives up its journal is the engine's")
def test_a_daemon_that_ends_takes_no_cursor(writer, maria, base, tmp_path):
    with Relay(maria.port) as relay:
        url = maria.url_of[base].replace(f":{maria.port}/", f":{relay.port}/")
        first = writer(url=url, data=tmp_path / "one")
        assert first.wait_log("journal_writes", 20)
        first.stop()
        epochs = maria.run(f"SELECT epoch FROM {CURSORS}", database=base)
        hangs, goes_on = threading.Event(), threading.Event()

        def hang():
            hangs.set()
            return goes_on.wait(PATIENCE_S)

        relay.before(b"information_schema", hang)
        server = writer(url=url, data=tmp_path / "one")
        assert hangs.wait(PATIENCE_S)
        server.process.send_signal(signal.SIGTERM)
        assert eventually(lambda: closed(server.port), 10)
        time.sleep(0.4)  # the journal is closed right after, and waited for up to 3 s
        goes_on.set()
        assert server.process.wait(PATIENCE_S) == 0
        assert maria.run(f"SELECT epoch FROM {CURSORS}", database=base) == epochs
        assert not server.events("journal_away")


@pytest.mark.skipif(bool(MYSQLD), reason="needs MariaDB's tablespace of a fixed size")
def test_a_full_mysql_is_named_and_waited_for(laterd):
    maria = MariaDb(["--innodb-file-per-table=0", "--innodb-data-file-path=ibdata1:12M"]).make().start()
    try:
        url = maria.database("full")
        server = laterd({"journal": {"url": url}})
        with Client(server.port) as client:
            for i in range(60):
                assert client.push("t", id=f"j{i}", body="x" * 100000, delay="1h").status == 201
            assert server.wait_log("journal_away", 20)
            said = server.events("journal_away")[-1][1]
            assert "1114" in said and "disk is full: make room there" in said, said
            stays_away(client)
            assert len(server.events("journal_away")) == len(server.events("journal_writes")) == 1
            maria.kill()
            maria.options = []  # its file may grow again
            maria.start()
            assert eventually(lambda: gauge(client, "journal_up") == 1, 30)
            caught_up(server, maria, "full")
            assert gauge(client, "journal_rejected_total") == 0
    finally:
        maria.stop()


def test_sdmqs_own_tables_are_refused_with_what_to_run(writer, maria, base):
    maria.run(*[part for part in SDMQ.split(";")], database=base)
    server = writer()
    with Client(server.port) as client:
        assert client.push("t", id="A", body="🎉", delay="1h").status == 201
        client.push("t", id="a", body="x" * 100000, delay="1h")
        assert server.wait_log("journal_tables_unfit", 10)
        said = server.events("journal_tables_unfit")[0][1]
        statements = said[said.index("ALTER"):].rstrip('"')
        assert ("utf8mb4_0900_bin" if MYSQLD else "utf8mb4_nopad_bin") in statements and "mediumtext" in statements
        maria.run(*[part for part in statements.split(";") if part.strip()], database=base)
        assert eventually(lambda: gauge(client, "journal_up") == 1, 30)
        caught_up(server, maria, base)


def test_a_row_that_is_refused_is_set_aside_and_the_others_are_written(writer, maria, base):
    server = writer()
    with Client(server.port) as client:
        client.push("t", id="first", body="x", delay="1h")
        caught_up(server, maria, base)
        maria.run(f"ALTER TABLE {JOBS} ADD CONSTRAINT no_spam CHECK (topic <> 'spam')", database=base)
        client.push_many("t", [{"id": f"a{i}", "body": "x", "delay": "1h"} for i in range(200)])
        client.push("spam", id="bad", body="x", delay="1h")
        client.push_many("t", [{"id": f"b{i}", "body": "x", "delay": "1h"} for i in range(200)])
        caught_up(server, maria, base)
        set_aside = maria.run(f"SELECT id,error,event FROM {REJECTED}", database=base)
        assert [row[0] for row in set_aside] == [b"bad"]
        assert "no_spam" in set_aside[0][1] and b"INSERT INTO" in set_aside[0][2]
        assert gauge(client, "journal_rejected_total") == 1
        assert "bad" in server.events("journal_row_rejected")[0][1]
        maria.run(f"ALTER TABLE {JOBS} DROP CONSTRAINT no_spam", set_aside[0][2].decode(), database=base)
        caught_up(server, maria, base, ("t", "spam"))


def test_a_body_larger_than_a_packet_is_set_aside(laterd):
    maria = MariaDb(["--max-allowed-packet=1M"]).make().start()
    try:
        url = maria.database("packet")
        server = laterd({"journal": {"url": url}, "limits": {"body_bytes": "4M"}})
        with Client(server.port) as client:
            client.push("t", id="a", body="x", delay="1h")
            client.push("big", id="large", body="y" * 2000000, delay="1h")
            client.push("t", id="b", body="x" * 400000, delay="1h")
            client.push("t", id="c", body="x" * 400000, delay="1h")
            client.push("t", id="d", body="x" * 400000, delay="1h")
            caught_up(server, maria, "packet")
            assert [row[0] for row in maria.run(f"SELECT id FROM {REJECTED}", database="packet")] == [b"large"]
            assert "max_allowed_packet" in server.events("journal_row_rejected")[0][1]
    finally:
        maria.stop()


def test_a_table_that_was_dropped_is_made_again_and_nothing_is_set_aside(writer, maria, base):
    server = writer()
    with Client(server.port) as client:
        client.push("t", id="a", body="x", delay="1h")
        caught_up(server, maria, base)
        maria.run(f"DROP TABLE {LOGS}", database=base)
        client.push("t", id="b", body="x", delay="1h")
        caught_up(server, maria, base)
        assert gauge(client, "journal_rejected_total") == 0


def test_missing_rights_are_named(laterd, maria):
    name = "norights"
    maria.run(f"DROP DATABASE IF EXISTS {name}", "DROP USER IF EXISTS 'poor'@'%'",  # of a try before this one
              f"CREATE DATABASE {name}", "CREATE USER 'poor'@'%' IDENTIFIED BY 'poor'",
              f"GRANT SELECT ON {name}.* TO 'poor'@'%'")
    server = laterd({"journal": {"url": f"mysql://poor@127.0.0.1:{maria.port}/{name}", "password": "poor"}})
    assert server.wait_log("journal_table_missing", 10)
    said = server.events("journal_table_missing")[0][1]
    assert "denied" in said and "CREATE TABLE" in said
    with Client(server.port) as client:
        assert client.push("t", body="x").status == 201
    maria.run(f"GRANT ALL ON {name}.* TO 'poor'@'%'")
    with Client(server.port) as client:
        assert eventually(lambda: gauge(client, "journal_up") == 1, 30)


@pytest.mark.embedded("a queue is its data directory")
def test_of_two_queues_that_begin_in_one_database_one_is_refused(laterd, maria, base, tmp_path):
    server = laterd({"journal": {"url": maria.url_of[base]}}, data=str(tmp_path / "made-the-tables"))
    assert server.wait_log("journal_writes", 20)
    server.kill()
    maria.run(f"DELETE FROM {CURSORS}",
              f"CREATE TRIGGER slow BEFORE INSERT ON {CURSORS} FOR EACH ROW SET @slept = SLEEP(1)", database=base)
    servers = [laterd({"journal": {"url": maria.url_of[base]}}, data=str(tmp_path / name)) for name in "ab"]
    assert eventually(lambda: any(each.events("journal_writes") for each in servers), 30)
    assert eventually(lambda: any(each.events("journal_of_another_store") for each in servers), 30)
    writes = [each for each in servers if each.events("journal_writes")]
    (refused_one,) = [each for each in servers if each not in writes]
    assert "a database of its own" in refused_one.events("journal_of_another_store")[0][1]
    assert maria.run(f"SELECT COUNT(*) FROM {CURSORS}", database=base)[0][0] == 1


@pytest.mark.embedded("on Redis it goes on when it has the lease again: test_redis_journal.py")
def test_a_second_writer_is_fenced_off(writer, maria, base, tmp_path):
    server = writer(data=tmp_path / "one")
    with Client(server.port) as client:
        client.push("t", id="a", body="x", delay="1h")
        caught_up(server, maria, base)
        maria.run(f"UPDATE {CURSORS} SET epoch=epoch+1", database=base)  # as another one does at its start
        client.push("t", id="b", body="x", delay="1h")
        assert server.wait_log("journal_fenced", 10)
        assert client.push("t", id="c", body="x", delay="1h").status == 201
        time.sleep(0.3)
        assert set(rows(maria, base)) == {"a"}
        assert gauge(client, "journal_up") == 0
    server.kill()
    server = writer(data=tmp_path / "one")
    caught_up(server, maria, base)


def test_another_queue_is_kept_out_of_the_tables(writer, maria, base, tmp_path):
    server = writer(data=tmp_path / "one")
    with Client(server.port) as client:
        client.push("t", id="a", body="x", delay="1h")
    caught_up(server, maria, base)
    other = writer(data=tmp_path / "two")
    assert other.wait_log("journal_of_another_store", 10)
    said = other.events("journal_of_another_store")[0][1]
    statement = said[said.index("DELETE"):].rstrip('"')
    with Client(other.port) as client:
        client.push("t", id="other", body="x", delay="1h")
        time.sleep(0.4)  # in which it has tried again, after 0.1 and 0.3 s
        assert set(rows(maria, base)) == {"a"}
        assert len(other.events("journal_of_another_store")) == 1
        maria.run(statement, database=base)  # the first queue is taken to be gone
        assert eventually(lambda: "other" in rows(maria, base), 30)
    with Client(server.port) as client:
        client.push("t", id="late", body="x", delay="1h")
    assert server.wait_log("journal_fenced", 10)
    assert "late" not in rows(maria, base)


@pytest.mark.embedded("copies the data directory")
def test_an_older_copy_of_the_queue_writes_nothing(writer, maria, base, tmp_path):
    server = writer(data=tmp_path / "one")
    with Client(server.port) as client:
        client.push("t", id="a", body="x", delay="1h")
        caught_up(server, maria, base)
    server.stop()
    subprocess.run(["cp", "-a", tmp_path / "one", tmp_path / "copy"], check=True)
    server = writer(data=tmp_path / "one")
    with Client(server.port) as client:
        for i in range(10):
            client.push("t", id=f"b{i}", body="x", delay="1h")
        caught_up(server, maria, base)
    server.stop()
    before = rows(maria, base)
    server = writer(data=tmp_path / "copy")
    assert server.wait_log("journal_out_of_step", 10)
    with Client(server.port) as client:
        assert client.push("t", id="c", body="x").status == 503  # on_lag = refuse
    assert rows(maria, base) == before


# The lag

def refused(client, code):
    answer = client.push("t", body="x", delay="1h")
    return answer.status == 503 and answer.json()["code"] == code


def test_beyond_the_lag_pushes_are_refused_until_it_has_caught_up(laterd):
    maria = MariaDb().make().start()
    try:
        url = maria.database("lag")
        server = laterd({"journal": {"url": url, "max_lag_time": "2s"}})
        with Client(server.port) as client:
            client.push("t", id="a", body="x")
            (job,) = client.reserve("t")
            caught_up(server, maria, "lag")
            maria.kill()
            client.push("t", id="b", body="x")
            assert eventually(lambda: refused(client, "journal_behind"), 20)
            assert client.get("/readyz").status == 503
            assert client.job("a", "finish", lease=job["lease"]).status == 204  # ends are taken
            assert server.wait_log("journal_behind", 5)
            maria.start()
            assert eventually(lambda: client.push("t", id="c", body="x").status == 201, 30)
            caught_up(server, maria, "lag")
    finally:
        maria.stop()


@pytest.mark.embedded("the log has it still; on Redis entries go: test_redis_journal.py")
def test_or_it_is_given_up(laterd):
    maria = MariaDb().make().start()
    try:
        url = maria.database("lag")
        server = laterd({"journal": {"url": url, "max_lag_time": "1s", "on_lag": "detach"}})
        with Client(server.port) as client:
            client.push("t", id="a", body="x", delay="1h")
            caught_up(server, maria, "lag")
            maria.kill()
            client.push("t", id="b", body="x")
            for _ in range(30):
                assert client.push("t", body="x").status == 201
                time.sleep(0.1)
            assert server.wait_log("journal_out_of_step", 5)
            assert gauge(client, "journal_up") == 0
        server.stop()
        maria.start()
        server = laterd({"journal": {"url": url}}, data=server.data)
        caught_up(server, maria, "lag")  # the log had it still
    finally:
        maria.stop()


@pytest.mark.embedded("of segments of the log")
def test_what_the_log_keeps_no_longer_is_reported_until_somebody_begins_again(laterd):
    maria = MariaDb().make().start()
    keys = {"on_lag": "detach", "max_lag": "1M", "max_lag_time": "1h"}
    try:
        url = maria.database("lag")
        server = laterd({"journal": {"url": url, **keys}, "store": {"segment_bytes": "256K"}})
        with Client(server.port) as client:
            client.push("t", id="a", body="x", delay="1h")
            caught_up(server, maria, "lag")
            assert eventually(lambda: gauge(client, "journal_lag_batches") == 0, 20)  # its commit is on disk
            maria.kill()
            for block in range(200):
                client.push_many("t", [{"id": f"j{i}", "body": "x" * 1000, "if_exists": "replace"}
                                       for i in range(100)])
                if server.events("journal_out_of_step") and server.events("store_notice") or block == 199:
                    break
            assert server.wait_log("journal_out_of_step", 5)
        server.stop()
        maria.start()
        server = laterd({"journal": {"url": url}}, data=server.data)
        assert server.wait_log("journal_out_of_step", 10)
        server.stop()
        maria.run(f"DELETE FROM {CURSORS}", database="lag")
        server = laterd({"journal": {"url": url}}, data=server.data)
        assert server.wait_log("journal_begins", 10)
        for again in ("stop", "kill"):  # before there was a change; whatever the manifest has by then
            getattr(server, again)()
            server = laterd({"journal": {"url": url}}, data=server.data)
            assert server.wait_log("journal_writes", 10)
        with Client(server.port) as client:
            assert client.push("t", id="c", body="x").status == 201
            assert eventually(lambda: "c" in rows(maria, "lag"))
        assert not server.events("journal_out_of_step")
    finally:
        maria.stop()


# mode = before

@pytest.mark.embedded("mode = before follows the log")
def test_before_a_reply_the_row_is_there(writer, maria, base):
    server = writer(mode="before")
    with Client(server.port) as client:
        assert eventually(lambda: gauge(client, "journal_up") == 1)
        for i in range(20):
            assert client.push("t", id=f"j{i}", body="x", delay="1h").status == 201
            assert rows(maria, base, f"id='j{i}'")
        client.job("j0", method="DELETE")
        assert rows(maria, base)["j0"]["status"] == DELETED


@pytest.mark.embedded("mode = before follows the log")
def test_before_without_mysql_changes_are_refused(laterd):
    maria = MariaDb().make().start()
    try:
        url = maria.database("strict")
        server = laterd({"journal": {"url": url, "mode": "before"}})
        with Client(server.port) as client:
            assert eventually(lambda: client.push("t", id="a", body="x", delay="1h").status == 201)
            maria.kill()
            begun = time.monotonic()
            assert eventually(lambda: refused(client, "journal_down"), 20)
            soon(time.monotonic() - begun, 15)
            assert client.job("a", method="GET").status == 200
            assert client.job("a", method="DELETE").status == 503
            maria.start()
            # 404: it was done, but not answered in time.
            assert eventually(lambda: client.job("a", method="DELETE").status in (204, 404), 30)
            assert eventually(lambda: rows(maria, "strict")["a"]["status"] == DELETED)
    finally:
        maria.stop()


# The configuration

def checked(tmp_path, text):
    path = tmp_path / "laterd.conf"
    path.write_text(text, encoding="utf-8")
    ended = subprocess.run([LATERD, "-c", path, "--check-config"], capture_output=True, text=True,
                           timeout=20, check=False)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("keys, says", [
    ("url = postgres://secret@h/d", "it must begin with mysql://"),
    ("url = mysql://h/d", "the user is missing"),
    ("url = mysql://u@h", "the database is missing"),
    ("url = mysql://u@/d", "the host is missing"),
    ("url = mysql://u@h:0/d", "the port is not a number"),
    ("url = mysql://u@h/d?tls=maybe", "tls must be off, on or verify"),
    ("url = mysql://u@h/d?x=y", "there are tls="),
    ("mode = sometimes", "mode = sometimes: must be one of: after before"),
    ("on_lag = ignore", "must be one of: refuse detach"),
    ("time_zone = Asia/Shanghai", "must be an offset such as +00:00"),
    ("max_lag = 1", "must be bytes"),
    ("url = mysql://u@h/d\nmax_lag = 20M", "max_lag = 20M: must be at least 32M, twice store.segment_bytes"),
    ("url = mysql://u@h/d\nmode = before\n[engine]\nengine = redis", "journal.mode = before needs engine = embedded"),
])
def test_what_is_wrong_with_it_is_said_without_passwords(tmp_path, keys, says):
    code, said = checked(tmp_path, f"[journal]\n{keys}\n")
    assert code == 2 and says in said and "secret" not in said, said


@pytest.mark.parametrize("keys, says", [
    ("url = $NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE"),
    ("url = file:/no/such/file", "url: /no/such/file: No such file"),
    ("url = mysql://u@h/d\npassword = file:/no/such/file", "password: /no/such/file: No such file"),
    ("url = mysql://u@h/d?tls=verify\nca = /no/such/file", "ca: it cannot be read: No such file"),
])
def test_what_cannot_be_read_may_be_there_at_the_next_start(tmp_path, keys, says):
    code, said = checked(tmp_path, f"[journal]\n{keys}\n")
    assert code == 1 and says in said, said


def test_a_ca_that_has_no_effect_need_not_be_there(tmp_path):
    for query in ("", "?tls=on"):
        code, said = checked(tmp_path, f"[journal]\nurl = mysql://u@h/d{query}\nca = /no/such/file\n")
        assert code == 0 and "journal.ca has no effect" in said, said


def test_wrong_text_in_a_file_is_wrong_configuration(tmp_path):
    (tmp_path / "url").write_text("mysql://u@h\n", encoding="utf-8")
    code, said = checked(tmp_path, f"[journal]\nurl = file:{tmp_path}/url\n")
    assert code == 2 and "the database is missing" in said, said


def test_the_password_may_be_in_a_file(laterd, maria, base, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a pass:word@%\n", encoding="utf-8")
    server = laterd({"journal": {"url": f"mysql://laterd@127.0.0.1:{maria.port}/{base}",
                                 "password": f"file:{secret}"}})
    assert server.wait_log("journal_writes", 10)
    assert not any("pass:word" in line for line in server.lines)


def test_a_password_that_was_replaced_is_read_at_the_next_connection(laterd, maria, base, tmp_path):
    user, secret = "rotated", tmp_path / "secret"
    secret.write_text("old\n", encoding="utf-8")
    maria.run(f"CREATE OR REPLACE USER '{user}'@'%' IDENTIFIED BY 'old'", f"GRANT ALL ON `{base}`.* TO '{user}'@'%'")
    server = laterd({"journal": {"url": f"mysql://{user}@127.0.0.1:{maria.port}/{base}", "password": f"file:{secret}"}})
    assert server.wait_log("journal_writes", 10)
    maria.run(f"ALTER USER '{user}'@'%' IDENTIFIED BY 'new'")
    for (thread,) in maria.run(f"SELECT id FROM information_schema.processlist WHERE user='{user}'"):
        maria.run(f"KILL {thread}")
    assert server.wait_log("journal_away", 10)
    with Client(server.port) as client:
        client.push("t", id="a", body="x")
        secret.unlink()
        assert eventually(lambda: any(f"journal.password: {secret}: No such file" in line for line in server.lines), 20)
        secret.write_text("new\n", encoding="utf-8")
        assert eventually(lambda: maria.run(f"SELECT COUNT(*) FROM {JOBS}", database=base)[0][0] == 1, 30)


def test_without_the_plugin_the_package_is_named(tmp_path):
    laterd = tmp_path / "laterd"
    with open(LATERD, "rb") as source:
        laterd.write_bytes(source.read())
    os.chmod(laterd, 0o755)
    path = tmp_path / "laterd.conf"
    path.write_text("[journal]\nurl = mysql://u@h/d\n", encoding="utf-8")
    ended = subprocess.run([laterd, "-c", path, "--check-config"], capture_output=True, text=True,
                           timeout=20, check=False)
    assert ended.returncode != 0 and "apt-get install libmariadb3" in ended.stderr


def test_a_stop_does_not_wait_for_a_mysql_that_is_not_there(laterd, tmp_path):
    del tmp_path
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = laterd({"journal": {"url": f"mysql://u@127.0.0.1:{silent.getsockname()[1]}/d"}})
        with Client(server.port) as client:
            assert client.push("t", body="x").status == 201
        begun = time.monotonic()
        assert server.stop() == 0
        soon(time.monotonic() - begun, 15)


assert pymysql  # the harness needs it
