"""A resync of the journal of a queue in Redis: as test_resync.py has it, and what is of Redis alone."""

import json

import pytest

from journal import CURSORS, DELAYED, DELETED, JOBS, LOGS, differences, gauge, rows
from mariadb import NEEDED, a_maria  # noqa: F401  (a fixture)
from redis_journal import a_base, a_daemon, a_redis, is_equal  # noqa: F401  (fixtures)
from test_redis_journal import entries_in
from test_resync import RESYNCS, Load, cannot_end, damage, fill, later, state
from wire import Client, eventually

pytestmark = [NEEDED]


def leads(server):
    with Client(server.port) as client:
        return gauge(client, "journal_leads") == 1


def test_rows_that_are_missing_or_wrong_or_of_no_job_are_made_right(daemon, maria, base):
    server = daemon()
    assert server.wait_log("journal_writes")
    with Client(server.port, seconds=60) as client:
        fill(client, 1200)
        is_equal(server, maria, base)
        damage(maria, base)
        changes = maria.run(f"SELECT COUNT(*) FROM {LOGS}", database=base)
        assert len(differences(client, ("t",), maria, base)) > 300
        done = later(server, "resync", "--json")
        assert done.returncode == 0, (done, server.lines)
        said = json.loads(done.stdout)
        assert said["state"] == "done" and said["closed"] >= 2 and said["jobs"] > 1000
        assert not differences(client, ("t",), maria, base)
        found = rows(maria, base)
        assert found["never"]["status"] == found["@99999999.0123456789abcdef"]["status"] == DELETED
        assert maria.run(f"SELECT COUNT(*) FROM {LOGS}", database=base) == changes
        assert maria.run(f"SELECT ended IS NULL FROM {RESYNCS}", database=base) == ((0,),)
        client.push("t", id="after", body="x", delay="1h")
        is_equal(server, maria, base)


def test_a_job_that_was_restored_under_its_old_number_keeps_its_row(daemon, maria, base):
    server = daemon()
    assert server.wait_log("journal_writes")
    with Client(server.port, seconds=60) as client:
        number = client.push_id("t", body="x", delay="1h")
        assert client.job(number, method="DELETE").status == 204
        assert eventually(lambda: [row["status"] for row in rows(maria, base).values()] == [DELETED], 20)
        is_equal(server, maria, base)
        assert later(server, "restore", number).returncode == 0
        is_equal(server, maria, base)
        assert later(server, "resync").returncode == 0
        is_equal(server, maria, base)
        (row,) = [row for name, row in rows(maria, base).items() if name.startswith(number + ".")]
        assert row["status"] == DELAYED


def test_beside_a_load_of_two_daemons_nothing_is_lost(daemon, maria, base):
    servers = [daemon(), daemon()]
    assert eventually(lambda: any(map(leads, servers)), 20)
    writes = next(server for server in servers if leads(server))
    other = next(server for server in servers if server is not writes)
    with Client(writes.port, seconds=60) as client:
        fill(client, 1200)
        is_equal(writes, maria, base)
        refused = later(other, "resync")
        assert refused.returncode == 3 and "does not write the journal" in refused.stderr
        load = Load(other)
        load.start()
        for turn in range(2):
            assert eventually(lambda rounds=load.rounds: load.rounds > rounds + 5, 60)
            if turn == 0:
                damage(maria, base)
            maria.run(f"DELETE FROM {JOBS} WHERE id LIKE 'l%' AND MOD(CRC32(id),3)={turn}",
                      f"UPDATE {JOBS} SET status=1 WHERE status=3 LIMIT 50", database=base)
            assert later(writes, "resync").returncode == 0
        load.stop()
        assert not load.error, load.error
        is_equal(writes, maria, base)


def test_killed_in_the_middle_another_daemon_goes_on(daemon, maria, base):
    servers = [daemon(), daemon()]
    assert eventually(lambda: any(map(leads, servers)), 20)
    writes = next(server for server in servers if leads(server))
    other = next(server for server in servers if server is not writes)
    with Client(writes.port, seconds=60) as client:
        fill(client, 4000)
        is_equal(writes, maria, base)
        damage(maria, base)
        with cannot_end(maria, base, "j003998"):
            assert client.post("/v1/journal/resync", {}).status == 200
            assert eventually(lambda: maria.run(f"SHOW TABLES LIKE '{RESYNCS}'", database=base) and
                              maria.run(f"SELECT 1 FROM {RESYNCS}", database=base), 20)
            assert state(client)["state"] == "running"
            writes.kill()
    with Client(other.port, seconds=60) as client:
        assert eventually(lambda: state(client)["state"] == "done", 60), state(client)
    is_equal(other, maria, base)
    assert not maria.run(f"SELECT 1 FROM {RESYNCS} WHERE ended IS NULL", database=base)


def test_one_that_is_fenced_goes_on_without_having_failed(daemon, maria, base):
    """Another writer takes the cursor while the resync's first commit waits for it."""
    server = daemon()
    assert server.wait_log("journal_writes")
    with Client(server.port, seconds=60) as client:
        fill(client, 2000)
        is_equal(server, maria, base)
        damage(maria, base)
        connection = maria.connect(base)
        with connection, connection.cursor() as holder:
            holder.execute("BEGIN")
            holder.execute(f"SELECT 1 FROM {CURSORS} FOR UPDATE")
            begun = later(server, "resync", "--no-wait", "--json")
            assert begun.returncode == 0 and json.loads(begun.stdout)["state"] == "running"
            assert eventually(lambda: maria.run("SELECT 1 FROM information_schema.processlist WHERE "
                                                "info LIKE 'UPDATE laterd_journal_cursor%'"), 20)
            holder.execute(f"UPDATE {CURSORS} SET epoch=epoch+1")
            holder.execute("COMMIT")
        states = []
        assert eventually(lambda: states.append(state(client)["state"]) or states[-1] == "done", 60, every=0.005)
        assert set(states) == {"running", "done"}
        assert server.events("journal_fenced") and not server.events("journal_resync_failed")
        is_equal(server, maria, base)


def test_a_journal_out_of_step_begins_again_by_a_resync(daemon, maria, base, redis):
    """MySQL is an older copy."""
    server = daemon()
    assert server.wait_log("journal_writes")
    with Client(server.port, seconds=60) as client:
        fill(client, 600)
        is_equal(server, maria, base)
        tables = (JOBS, CURSORS, "laterd_journal_stream")
        maria.run(*(f"CREATE TABLE old_{table} AS SELECT * FROM {table}" for table in tables), database=base)
        fill(client, 300, prefix="k")
        for job in client.reserve("t", most=50):
            client.job(job["id"], "finish", lease=job["lease"])
        is_equal(server, maria, base)
        assert eventually(lambda: all(entries_in(redis, partition) <= 1 for partition in range(4)))
        server.stop()
        maria.run(*(statement for table in tables for statement in
                    (f"DELETE FROM {table}", f"INSERT INTO {table} SELECT * FROM old_{table}")), database=base)
        server.start()
        assert server.wait_log("journal_out_of_step")
    with Client(server.port, seconds=60) as client:
        assert later(server, "resync").returncode == 0
        is_equal(server, maria, base)
        client.push("t", id="later", body="x")
        is_equal(server, maria, base)


@pytest.mark.parametrize("max_lag", ["1M"])
def test_it_makes_no_more_entries_than_mysql_takes(daemon, maria, base, max_lag):
    server = daemon(max_lag=max_lag)
    assert server.wait_log("journal_writes")
    with Client(server.port, seconds=60) as client:
        for first in range(0, 3000, 50):
            client.push_many("t", [{"id": f"j{i}", "body": "x" * 500, "delay": "1h"} for i in range(first, first + 50)])
            assert eventually(lambda: maria.run(f"SELECT COUNT(*) FROM {JOBS}", database=base)[0][0] == first + 50, 20)
        maria.run(f"DELETE FROM {JOBS}", database=base)
        assert client.post("/v1/journal/resync", {}).status == 200
        assert eventually(lambda: state(client)["state"] == "done", 60), state(client)
        assert not server.events("journal_given_up") and not server.events("journal_out_of_step")
        is_equal(server, maria, base)
