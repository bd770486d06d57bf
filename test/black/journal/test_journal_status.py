"""GET /v1/journal and `later journal status`: how the journal is, what MySQL lacks, and what to do."""

import json
import signal
import subprocess

import pytest

from fake_v1 import Fake
from journal import CURSORS, JOBS, gauge_of
from mariadb import NEEDED, MariaDb, a_maria  # noqa: F401  (a fixture)
from process import LATER
from redis_journal import a_base, a_daemon, a_redis, is_equal  # noqa: F401  (fixtures)
from test_journal import a_writer, caught_up  # noqa: F401  (a fixture)
from wire import Client, eventually

pytestmark = [NEEDED]


def look(server):
    with Client(server.port, seconds=30) as client:
        answer = client.get("/v1/journal")
        assert answer.status == 200
        return answer.json()


def becomes(server, state, seconds=30):
    assert eventually(lambda: look(server)["state"] == state, seconds), look(server)
    return look(server)


def later(server, *words):
    done = subprocess.run([LATER, "journal", *words, "-s", f"http://127.0.0.1:{server.port}"], check=False,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    return done.stdout


def push(server, *names):
    with Client(server.port) as client:
        for name in names:
            assert client.push("t", id=name, body="x", delay="1h").status == 201


def test_without_a_journal_there_is_none(laterd):
    server = laterd()
    assert look(server) == {"journal": False, "state": "none", "restore": {"state": "none"}, "resync": {"state": "none"}}


def status_of(said):
    none = {"state": "none"}
    with Fake({"GET /v1/journal": (200, {"restore": none, "resync": none, **said})}) as fake:
        done = subprocess.run([LATER, "journal", "status", "-s", fake.url], check=False, capture_output=True, text=True,
                              timeout=30)
    assert done.returncode == 0, done
    return done.stdout


def test_a_server_of_an_earlier_version_says_less():
    assert status_of({"journal": True}) == "restore: none\nresync: none\n"


def test_what_is_not_known_yet_is_said():
    partitions = [{"partition": i, "cursor": 0, "entries": None, "bytes": None, "refuses_pushes": False} for i in range(2)]
    said = {"journal": True, "state": "waits", "state_ms": 1000, "mode": "after", "lag": None, "partitions": partitions}
    words = status_of(said)
    assert "\nlag: not known yet\n" in words
    assert "\npartition 0: lag not known yet\npartition 1: lag not known yet\n" in words
    partitions[0].update(entries=3, bytes=100)
    words = status_of(dict(said, lag={"entries": 3, "bytes": 100, "seconds": 2}))
    assert "\nlag: 3 changes, " in words and "\npartition 1: lag not known yet\n" in words
    assert "lag" not in status_of(dict(said, state="elsewhere", partitions=[]))


def cursor_of(maria, base):
    return maria.run(f"SELECT batch,epoch FROM {CURSORS}", database=base)[0]


@pytest.mark.embedded("of a queue in Redis: below")
def test_it_writes_waits_and_writes_again(writer, base):  # noqa: ARG001  (writer needs base)
    maria = MariaDb().make().start()
    try:
        server = writer(url=maria.database("own"))
        push(server, "a")
        caught_up(server, maria, "own")
        seen = []  # one answer is judged: a later one may have a lag again

        def has_all():
            seen.append(look(server))
            return seen[-1]["state"] == "writes" and seen[-1]["lag"]["entries"] == 0

        assert eventually(has_all, 30), seen[-1]
        said = seen[-1]
        assert (said["error"], said["hint"], said["mode"], said["on_lag"]) == (None, None, "after", "refuse")
        assert (said["partitions"], said["writer"], said["refuses_pushes"], said["rejected"]) == (None, None, False, 0)
        assert (said["cursor"], said["epoch"]) == cursor_of(maria, "own")
        assert said["lag"] == {"entries": 0, "bytes": said["lag"]["bytes"], "seconds": 0}
        assert eventually(lambda: "lag: MySQL has all changes\n" in later(server, "status"), 30)
        words = later(server, "status")
        assert words.startswith("journal: writes, for ")
        maria.kill()
        push(server, "b", "c")
        said = becomes(server, "waits")
        assert said["error"].startswith("2") and "MySQL" in said["hint"] and said["lag"]["entries"] >= 1
        # a change of the server's own may come between the two answers
        assert eventually(lambda: look(server)["lag"]["entries"] == gauge_of(server, "journal_lag_batches"), 30)
        assert gauge_of(server, "journal_up") == 0
        assert eventually(lambda: look(server)["state_ms"] >= 1000 and look(server)["lag"]["seconds"] >= 1, 30)
        words = later(server, "status")
        for part in ("journal: waits, for ", "\nerror: 2", "\nwhat to do: ", "\nlag: "):
            assert part in words
        maria.start()
        said = becomes(server, "writes")
        assert said["error"] is None and said["state_ms"] < 30000
    finally:
        maria.stop()


@pytest.mark.embedded("of a queue in Redis: below")
def test_a_fenced_one_and_one_out_of_step_say_what_to_do(writer, maria, base):
    server = writer()
    push(server, "a")
    caught_up(server, maria, base)
    maria.run(f"UPDATE {CURSORS} SET epoch=epoch+1", database=base)
    push(server, "b")
    said = becomes(server, "fenced")
    assert "another laterd writes for this queue" in said["error"] and "later journal resync" in said["hint"]
    assert "journal: fenced, for " in later(server, "status")
    assert later(server, "resync").count("written, ") == 1
    said = becomes(server, "writes")
    maria.run(f"UPDATE {CURSORS} SET batch=batch+1000", database=base)
    server.kill()
    server.start()
    said = becomes(server, "out_of_step")
    assert "older copy" in said["error"] and "later journal resync" in said["hint"] and said["refuses_pushes"]
    words = later(server, "status")
    assert "journal: out of step, for " in words and "pushes: refused" in words


@pytest.mark.embedded("of a queue in Redis: below")
def test_rows_that_mysql_refused_are_counted(writer, maria, base):
    server = writer()
    push(server, "a")
    caught_up(server, maria, base)
    maria.run(f"ALTER TABLE {JOBS} ADD CONSTRAINT no_bad CHECK(id<>'bad')", database=base)
    push(server, "bad", "good")
    assert eventually(lambda: look(server)["rejected"] == 1, 30)
    assert "rejected: 1 row that MySQL refused" in later(server, "status")


@pytest.mark.embedded("of a queue in Redis: test_redis_resync.py")
def test_a_resync_that_is_only_begun_is_shown(writer, maria, base):
    server = writer()
    push(server, "a")
    caught_up(server, maria, base)
    assert later(server, "resync", "--no-wait").startswith("the resync has begun")
    assert eventually(lambda: look(server)["resync"]["state"] == "done", 30)
    said = json.loads(later(server, "resync", "--no-wait", "--json"))
    assert said["state"] == "running" and said["step"] in ("waits", "jobs", "rows", "commits")


@pytest.mark.embedded("of a queue in Redis: test_redis_resync.py")
def test_what_a_resync_does_is_true_while_mysql_is_frozen(writer, maria, base):
    """Jobs that were read are not said to be written; nor are rows compared before MySQL has what it lacked."""
    server = writer(timeout="60s")
    with Client(server.port, seconds=60) as client:
        for first in range(0, 3000, 500):
            client.push_many("t", [{"id": f"j{i}", "body": "x" * 3000, "delay": "1h"} for i in range(first, first + 500)])
    caught_up(server, maria, base)
    maria.signal(signal.SIGSTOP)
    with subprocess.Popen([LATER, "journal", "resync", "-s", f"http://127.0.0.1:{server.port}"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as command:
        try:
            shown = command.stderr.readline()
            assert shown.startswith("later journal: resync: ") and " of 3,000 jobs read" in shown, shown
            assert eventually(lambda: look(server)["resync"]["jobs"] > 500), look(server)
            said = look(server)["resync"]
            assert (said["step"], said["rows"]) == ("jobs", 0) and 500 < said["jobs"] < said["of"] == 3000
            assert " jobs read, " in later(server, "status") and "written" not in later(server, "status")
        finally:
            maria.signal(signal.SIGCONT)
        assert command.wait(timeout=60) == 0
        assert command.stdout.read().startswith("3,000 jobs written, 3,000 unfinished rows compared with the queue, 0 ")
    said = look(server)["resync"]
    assert said["step"] is None and said["rows"] == said["rows_of"] == said["jobs"] == 3000


@pytest.mark.embedded("starts a Redis by itself")
def test_of_several_daemons_on_redis_one_writes_all_partitions(daemon, maria, base):
    servers = [daemon(), daemon()]
    with Client(servers[0].port) as client:
        client.push_many("t", [{"id": f"a{i}", "body": "x", "delay": "1h"} for i in range(50)])
    is_equal(servers[0], maria, base)
    assert eventually(lambda: sorted(look(server)["state"] for server in servers) == ["elsewhere", "writes"], 30)
    (writes,) = [server for server in servers if look(server)["state"] == "writes"]
    (other,) = [server for server in servers if server is not writes]
    said = look(writes)
    assert [part["partition"] for part in said["partitions"]] == [0, 1, 2, 3] and said["writer"] is None
    # The rows are seen before the writer has its answer.
    assert eventually(lambda: all(part["cursor"] > 0 and part["entries"] == 0 for part in look(writes)["partitions"]))
    assert eventually(lambda: tuple(look(writes)[name] for name in ("cursor", "epoch")) == cursor_of(maria, base))
    elsewhere = look(other)
    assert (elsewhere["lag"], elsewhere["partitions"], elsewhere["cursor"]) == (None, [], None)
    assert f"process {writes.process.pid}" in elsewhere["writer"] and elsewhere["error"] is None
    assert f"another daemon writes it: {elsewhere['writer']}, for " in later(other, "status")
    assert "partitions: this daemon writes all 4\n" in later(writes, "status")


@pytest.mark.embedded("starts a Redis by itself")
def test_on_redis_each_partition_says_what_mysql_lacks(daemon):
    maria = MariaDb().make().start()
    try:
        server = daemon(url=maria.database("own"))
        push(server, "a")
        is_equal(server, maria, "own")
        # Others see a commit before the writer has its answer: killed then, it would count this change, too.
        assert eventually(lambda: look(server)["cursor"] > 0, 30), look(server)
        maria.kill()
        with Client(server.port) as client:
            client.push_many("t", [{"id": f"b{i}", "body": "x", "delay": "1h"} for i in range(40)])
        said = becomes(server, "waits")
        assert said["error"].startswith("2") and "MySQL" in said["hint"]
        assert eventually(lambda: look(server)["lag"]["entries"] == 40, 30), look(server)
        said = look(server)
        assert sum(part["entries"] for part in said["partitions"]) == 40 == gauge_of(server, "journal_lag_batches")
        assert sum(part["bytes"] for part in said["partitions"]) == said["lag"]["bytes"] > 0
        words = later(server, "status")
        assert "lag: 40 changes, " in words and words.count("not in MySQL, ") == \
            sum(part["entries"] > 0 for part in said["partitions"])
        maria.start()
        becomes(server, "writes")
        is_equal(server, maria, "own")
    finally:
        maria.stop()
