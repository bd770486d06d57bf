"""[journal] of a queue in Redis: one daemon of several writes it, and whatever happens to Redis is noticed.
What is written is in test_journal.py, which runs with --engine=redis as well."""

import contextlib
import signal
import time

import pymysql
import pytest

from journal import CURSORS, JOBS, LOGS, gauge_of, rows
from mariadb import NEEDED, MariaDb, a_maria  # noqa: F401  (a fixture)
from patience import soon
from redis import Cluster, Connection, Redis
from redis_journal import a_base, a_daemon, a_redis, is_equal  # noqa: F401  (fixtures)
from wire import Client, eventually

pytestmark = [NEEDED]
STREAMS = "laterd_journal_stream"


def push(server, names, **options):
    with Client(server.port) as client:
        client.push_many("t", [{"id": name, "body": "x", "delay": "1h", **options} for name in names])


def the_one(servers):
    """Which of them writes."""
    found = []
    assert eventually(lambda: found.extend(s for s in servers if gauge_of(s, "journal_leads") == 1) or found, 15)
    return found[0]


def entries_in(redis, partition):
    """The last one stays: by it the next reader knows that this is the history that MySQL has."""
    with Connection(redis.port) as connection:
        return connection.call("ZLEXCOUNT", f"{{laterd:{partition}}}:o", "[j", "(k")


def test_all_changes_are_written_whichever_daemon_made_them(daemon, maria, base):
    servers = [daemon(), daemon(), daemon(url="")]
    for number, server in enumerate(servers):
        push(server, [f"{number}-{i}" for i in range(100)])
    with Client(servers[2].port) as client:
        assert client.job("0-7", method="DELETE").status == 204
    is_equal(servers[0], maria, base)
    assert sum(gauge_of(server, "journal_leads") or 0 for server in servers) == 1
    assert maria.run(f"SELECT COUNT(*) FROM {LOGS}", database=base)[0][0] == 301
    threads = maria.run(f"SELECT DISTINCT thread FROM {LOGS} ORDER BY thread", database=base)
    assert [thread for (thread,) in threads] == [f"laterd-{partition}" for partition in range(4)]


def test_how_old_the_oldest_change_is_is_known_before_mysql_is_there(redis, laterd):
    maria = MariaDb().make().start()
    try:
        sections = {"engine": {"engine": "redis"}, "redis": {"url": redis.url, "partitions": 2},
                    "journal": {"url": maria.database("late")}}
        first = laterd(sections)
        push(first, [f"a{i}" for i in range(20)])
        # The gauge is 0 before it has looked, too. What Redis let go is on MySQL's disk.
        is_equal(first, maria, "late")
        assert eventually(lambda: all(entries_in(redis, partition) == 1 for partition in range(2)), 20)
        maria.kill()
        push(first, ["b0"])
        pushed = time.monotonic()
        first.stop()
        second = laterd(sections)
        assert eventually(lambda: gauge_of(second, "journal_lag_seconds"), 20)
        assert 0 < gauge_of(second, "journal_lag_seconds") <= time.monotonic() - pushed + 1
        assert gauge_of(second, "journal_lag_batches") == 1
    finally:
        maria.stop()


def test_another_daemon_goes_on_when_the_one_is_killed_or_ends(daemon, maria, base):
    servers = [daemon(), daemon()]
    push(servers[0], [f"a{i}" for i in range(50)])
    first = the_one(servers)
    first.kill()
    (left,) = [server for server in servers if server is not first]
    push(left, [f"b{i}" for i in range(50)])
    is_equal(left, maria, base)
    back = daemon()
    left.stop()
    push(back, [f"c{i}" for i in range(50)])
    is_equal(back, maria, base)
    assert maria.run(f"SELECT COUNT(*),COUNT(DISTINCT id) FROM {LOGS}", database=base)[0] == (150, 150)


def test_who_is_fenced_off_goes_on_if_it_is_its_turn_still(daemon, maria, base):
    server = daemon()
    push(server, ["a"])
    is_equal(server, maria, base)
    maria.run(f"UPDATE {CURSORS} SET epoch=epoch+1", database=base)
    push(server, ["b"])
    assert server.wait_log("journal_fenced", 10)
    is_equal(server, maria, base)
    assert maria.run(f"SELECT COUNT(*) FROM {LOGS}", database=base)[0][0] == 2


def test_a_cursor_that_was_taken_or_deleted_is_had_again_and_nothing_is_there_twice(daemon, maria, base):
    server, expected = daemon(), 0
    for number, loss in enumerate((f"UPDATE {CURSORS} SET epoch=epoch+1", f"DELETE FROM {CURSORS}") * 2):
        push(server, [f"{number}-{i}" for i in range(40)])
        expected += 41
        with Client(server.port) as client:
            assert client.job(f"{number}-0", method="DELETE").status == 204
        is_equal(server, maria, base)
        maria.run(loss, database=base)
        if number == 1:  # and the connection is lost
            for (thread,) in maria.run("SELECT id FROM information_schema.processlist "
                                       f"WHERE db='{base}' AND id<>CONNECTION_ID()"):
                with contextlib.suppress(pymysql.err.OperationalError):  # it may have ended by itself since
                    maria.run(f"KILL {thread}")
    push(server, ["last"])
    is_equal(server, maria, base)
    assert maria.run(f"SELECT COUNT(*),COUNT(DISTINCT id,status) FROM {LOGS}", database=base)[0] == \
        (expected + 1, expected + 1)
    assert len(server.events("journal_cursor_made")) == 2 and not server.events("journal_out_of_step")


def test_what_was_written_is_gone_from_redis(daemon, maria, base, redis):
    server = daemon(partitions=1)
    for block in range(5):
        push(server, [f"a{block}-{i}" for i in range(700)])
    is_equal(server, maria, base)
    assert eventually(lambda: entries_in(redis, 0) == 1, 10)


def refused(server, name):
    with Client(server.port) as client:
        answer = client.push("t", id=name, body="x" * 1000, delay="1h", if_exists="replace")
        assert answer.status in (201, 503), answer
        return answer.status == 503 and answer.json()["code"] == "journal_behind"


def test_beyond_the_lag_all_daemons_refuse_pushes(daemon, laterd, redis):
    maria = MariaDb().make().start()
    try:
        url = maria.database("lag")
        server, other = daemon(partitions=1, url=url, max_lag="1M"), daemon(partitions=1, url="")
        push(server, ["a"])
        is_equal(server, maria, "lag")
        maria.kill()
        assert any(refused(server, f"j{i % 100}") for i in range(3000))
        assert refused(other, "k")
        with Client(other.port) as client:
            assert client.job("a", method="DELETE").status == 204  # ends are taken
        maria.start()
        assert eventually(lambda: not refused(other, "k"), 30)
        is_equal(server, maria, "lag")
    finally:
        maria.stop()


def test_or_it_is_given_up_and_begun_again(daemon, redis):
    maria = MariaDb().make().start()
    keys = {"max_lag": "1M", "on_lag": "detach"}
    try:
        url = maria.database("lag")
        server = daemon(partitions=1, url=url, **keys)
        push(server, ["a"])
        is_equal(server, maria, "lag")
        # Others see a commit before it is on disk: one that a kill undoes would leave no cursor to be out of step.
        assert eventually(lambda: gauge_of(server, "journal_lag_batches") == 0, 20)
        maria.kill()
        assert not any(refused(server, f"j{i % 100}") for i in range(3000))
        maria.start()
        assert server.wait_log("journal_out_of_step", 20)
        assert server.wait_log("journal_given_up", 20)
        assert eventually(lambda: entries_in(redis, 0), 10)  # a new beginning
        server.stop()
        server = daemon(partitions=1, url=url, **keys)
        assert server.wait_log("journal_out_of_step", 20)  # it has gaps
        server.stop()
        maria.run(f"DELETE FROM {CURSORS}", database="lag")
        server = daemon(partitions=1, url=url, **keys)
        assert server.wait_log("journal_begins", 20)
        push(server, ["b"])
        assert eventually(lambda: "b" in rows(maria, "lag"), 10)
    finally:
        maria.stop()


def ready(server):
    with Client(server.port) as client:
        return client.get("/readyz").status == 200


def test_beyond_the_lags_time_no_daemon_is_ready_whoever_writes(daemon):
    maria = MariaDb().make().start()
    try:
        url = maria.database("old")
        servers = [daemon(url=url, max_lag_time="2s"), daemon(url=url, max_lag_time="2s"), daemon(url="")]
        push(servers[0], ["a"])
        is_equal(servers[0], maria, "old")
        maria.kill()
        push(servers[1], ["b"])
        assert eventually(lambda: not any(ready(server) for server in servers), 20)
        assert all(refused(server, "b") for server in servers)
        first = the_one(servers)
        assert first.wait_log("journal_behind", 5)
        first.kill()  # the limit is Redis' own
        left = [server for server in servers if server is not first]
        assert all(refused(server, "b") for server in left)
        maria.start()
        assert eventually(lambda: all(ready(server) and not refused(server, "b") for server in left), 40)
        is_equal(left[0], maria, "old")
    finally:
        maria.stop()


def test_or_it_is_given_up_though_nothing_changes_any_more(daemon):
    maria = MariaDb().make().start()
    try:
        server = daemon(partitions=1, url=maria.database("old"), max_lag_time="2s", on_lag="detach")
        push(server, ["a"])
        is_equal(server, maria, "old")
        maria.kill()
        push(server, ["b"])
        assert server.wait_log("journal_out_of_step", 20)
        assert server.wait_log("journal_given_up", 20)
        assert eventually(lambda: ready(server) and not refused(server, "c"))
    finally:
        maria.stop()


def take_lease(connection):
    """As a daemon would whose clock is right when the others' are not."""
    connection.call("HSET", "{laterd:0}:h", "jl", b"AAAAAAAA" + (1 << 52).to_bytes(8, "little") + b"another")


@pytest.mark.deadline
def test_who_loses_the_lease_does_not_wait_for_mysql(daemon, redis):
    maria = MariaDb().make().start()
    try:
        server, took = daemon(url=maria.database("silent")), []
        push(server, ["a"])
        is_equal(server, maria, "silent")
        maria.signal(signal.SIGSTOP)
        push(server, ["b"])
        with Client(server.port, seconds=30) as client, Connection(redis.port) as connection:
            assert eventually(lambda: gauge_of(server, "journal_lag_batches") == 1, 10)
            take_lease(connection)
            while gauge_of(server, "journal_leads") == 1 or not took or time.monotonic() < took[0] + 2:
                begun = time.monotonic()
                assert client.get("/metrics").status == 200
                took.append(begun if not took else time.monotonic() - begun)
            soon(max(took[1:]), 0.5)
            connection.call("HDEL", "{laterd:0}:h", "jl")
        maria.signal(signal.SIGCONT)
        is_equal(server, maria, "silent")
    finally:
        maria.stop()


def test_a_redis_that_was_emptied_is_another_queue(daemon, maria, base, redis):
    server = daemon()
    push(server, ["a"])
    is_equal(server, maria, base)
    Connection(redis.port).call("FLUSHALL")
    assert eventually(lambda: server.wait_log("journal_of_another_store", 1), 20)
    assert eventually(lambda: push(server, ["b"]) is None, 10)
    assert set(rows(maria, base)) == {"a"}


def test_a_redis_of_an_older_save_writes_nothing(daemon, maria, base, redis):
    server = daemon(partitions=1)
    push(server, ["a"])
    is_equal(server, maria, base)
    Connection(redis.port).call("SAVE")
    push(server, ["b", "c"])
    is_equal(server, maria, base)
    redis.kill()
    redis.start()
    for name in ("d", "e", "f", "g"):
        assert eventually(lambda name=name: not refused(server, name), 20)
    assert server.wait_log("journal_out_of_step", 20)
    assert maria.run(f"SELECT COUNT(*) FROM {JOBS}", database=base)[0][0] == 3


def test_an_older_copy_of_mysql_is_noticed(daemon, maria, base):
    server = daemon(partitions=1)
    push(server, ["a"])
    is_equal(server, maria, base)
    (before,) = maria.run(f"SELECT entry,mark FROM {STREAMS}", database=base)
    push(server, ["b"])
    is_equal(server, maria, base)
    push(server, ["c"])
    is_equal(server, maria, base)
    server.stop()
    maria.run(f"UPDATE {STREAMS} SET entry={before[0]},mark={before[1]}", database=base)
    server = daemon(partitions=1)
    assert server.wait_log("journal_out_of_step", 20)


def test_in_a_cluster_each_partition_has_its_entries(laterd, maria, base):
    with Cluster(replicas=0) as cluster:
        server = laterd({"engine": {"engine": "redis"}, "redis": {"url": cluster.url},
                         "journal": {"url": maria.url_of[base]}})
        with Client(server.port) as client:
            for i in range(20):
                client.push_many("t", [{"id": f"{i}-{j}", "body": "x", "delay": "1h"} for j in range(10)])
            for i in range(20):
                assert client.job(f"{i}-3", method="DELETE").status == 204
        is_equal(server, maria, base)
        assert maria.run(f"SELECT COUNT(*) FROM {STREAMS}", database=base)[0][0] == 16
        assert maria.run(f"SELECT COUNT(*) FROM {LOGS}", database=base)[0][0] == 220
