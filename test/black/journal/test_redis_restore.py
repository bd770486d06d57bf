"""Jobs brought back from MySQL into a queue in Redis: one that lost its Redis, beside pushes and ends by all
daemons, when the daemon that does it stops, and what one that does not write the journal says. What is restored
is in test_restore.py, which runs with --engine=redis as well."""

import signal
import threading
import time

import pytest

from journal import CURSORS, JOBS, LOGS, as_journal, differences, gauge, listed, queue, rows, store_of
from mariadb import NEEDED, a_maria  # noqa: F401  (a fixture)
from patience import TooLate, soon
from redis import Cluster, Connection, Redis
from redis_journal import a_base, a_daemon, a_redis, is_equal  # noqa: F401  (fixtures)
from wire import Client, eventually

pytestmark = [NEEDED]


def has_the_same_jobs(server, maria, base):
    """Of a queue that lost its Redis: daemons may differ by milliseconds about the clock of the new one, and so
    about due times (decision 27)."""
    def same():
        theirs = {name: as_journal(row) for name, row in rows(maria, base, "status NOT IN(3,4)").items()}
        with Client(server.port) as client:
            ours = queue(client, ("t",), store_of(maria, base))
        return ours.keys() == theirs.keys() and all(
            abs(ours[name].pop("due_ms") - job.pop("due_ms")) < 1000 and ours[name] == job
            for name, job in theirs.items())
    assert eventually(same, 60, 0.2), differences_of(server, maria, base)


def differences_of(server, maria, base):
    with Client(server.port) as client:
        return differences(client, ("t",), maria, base)


def leads(server):
    with Client(server.port) as client:
        return gauge(client, "journal_leads") == 1


def the_one(servers):
    """Which of them writes, and the others."""
    found = []
    assert eventually(lambda: found.extend(s for s in servers if leads(s)) or found, 15)
    return found[0], [server for server in servers if server is not found[0]]


def push(server, names, **options):
    with Client(server.port, seconds=60) as client:
        for at in range(0, len(names), 1000):
            client.push_many("t", [{"id": name, "body": "x", "delay": "1h", **options}
                                   for name in names[at:at + 1000]])


def restore(server, seconds=120):
    with Client(server.port, seconds=seconds) as client:
        return client.request("POST", "/v1/restore", {})


def refusal(server):
    """Why a restore is refused by the one that writes the journal; "" if it is not."""
    answer = restore(server)
    return answer.json()["detail"] if answer.status == 503 else ""


def left(redis, partitions=4):
    """What restores have left in Redis: members, and fields."""
    with Connection(redis.port) as connection:
        return sum(connection.call("ZLEXCOUNT", f"{{laterd:{p}}}:o", "[e", "(f") +
                   connection.call("HEXISTS", f"{{laterd:{p}}}:h", "jr") for p in range(partitions))


def names_there(server):
    with Client(server.port, seconds=60) as client:
        return {job["id"] for job in listed(client, "t")}


def test_a_queue_that_lost_its_redis_is_rebuilt(daemon, maria, base, redis):
    servers = [daemon(), daemon(), daemon(url="")]
    push(servers[2], [f"a{i}" for i in range(300)])
    with Client(servers[1].port) as client:
        client.push("t", id="done", body="x")
        assert client.job("done", method="DELETE").status == 204
        numbered = client.push_id("t", body="numbered", delay="3h")
    is_equal(servers[0], maria, base)
    store = store_of(maria, base)
    redis.kill()
    redis.start()  # it has no save: all is lost
    assert eventually(lambda: any(s.events("journal_of_another_store") for s in servers[:2]), 30)
    # Not before somebody has said so; and whoever has the lease by then, which was lost with all else.
    one = eventually(lambda: next((s for s in servers[:2] if "another" in refusal(s)), None), 30)
    assert one
    others = [server for server in servers if server is not one]
    maria.run(f"DELETE FROM {CURSORS}", database=base)
    answers = []
    assert eventually(lambda: answers.append(restore(one)) or answers[-1].status == 200, 60, 0.5), answers
    said = answers[-1].json()
    assert (said["rows"], said["created"], said["kept"], said["refused"]) == (301, 301, 0, 0), answers
    assert names_there(others[0]) == {f"a{i}" for i in range(300)} | {f"{numbered}.{store}"}
    has_the_same_jobs(servers[2], maria, base)  # the journal goes on
    push(others[0], ["b"])
    with Client(servers[2].port) as client:
        assert client.job("a7", method="DELETE").status == 204
        assert client.job(f"{numbered}.{store}", method="DELETE").status == 204
    has_the_same_jobs(one, maria, base)
    said = restore(one).json()  # twice is harmless
    assert (said["rows"], said["created"], said["kept"]) == (300, 0, 300)
    assert eventually(lambda: left(redis) == 0, 20)


def test_beside_pushes_and_ends_of_all_daemons_nothing_comes_back(daemon, maria, base, redis):
    servers = [daemon(), daemon(), daemon(url="")]
    names = [f"j{i}" for i in range(3000)]
    push(servers[0], names)
    with Client(servers[0].port) as client:
        client.push_many("t", [{"body": "x", "delay": "1h"} for i in range(500)])
    is_equal(servers[0], maria, base)
    one, _ = the_one(servers[:2])
    ended, stop = set(), threading.Event()

    def work(server, mine):
        with Client(server.port, seconds=60) as client:
            for name in mine:
                if stop.is_set():
                    return
                if client.job(name, method="DELETE").status == 204:
                    ended.add(name)
                client.push("t", id="n" + name, body="x", delay="1h")
    threads = [threading.Thread(target=work, args=(server, names[-1 - i::-3])) for i, server in enumerate(servers)]
    for thread in threads:
        thread.start()
    answers = [restore(one) for _ in range(4)]
    stop.set()
    for thread in threads:
        thread.join()
    assert all(answer.status == 200 and answer.json()["created"] == 0 for answer in answers), answers
    assert len(ended) > 20
    assert not ended & names_there(one)
    is_equal(one, maria, base)
    assert eventually(lambda: left(redis) == 0, 20)


def test_one_that_does_not_write_the_journal_says_who_does(daemon, laterd, redis):
    servers = [daemon(), daemon()]
    one, (other,) = the_one(servers)
    assert eventually(lambda: restore(other).status == 409, 20)
    said = restore(other).json()
    assert said["code"] == "journal_elsewhere"
    assert f"process {one.process.pid}" in said["detail"], said
    without = laterd({"engine": {"engine": "redis"}, "redis": {"url": redis.url, "partitions": 4}})
    assert restore(without).json()["code"] == "no_journal"


def lose_buckets(connection, partitions=4):
    """So that all rows are to be pushed again."""
    for p in range(partitions):
        for bucket in range(256):
            connection.call("DEL", f"{{laterd:{p}}}:j{bucket}")


def test_one_that_lost_the_lease_does_not_send_to_itself(daemon, redis):
    server = daemon()
    assert eventually(lambda: leads(server), 15)
    redis.freeze()
    try:
        assert eventually(lambda: not leads(server), 20)
        said = restore(server)
    finally:
        redis.thaw()
    assert (said.status, said.json()["code"]) == (503, "journal_down"), said


def test_a_restore_whose_journal_goes_ends(daemon, maria, base, redis):
    """Its rows were being read, and its pushes are on their way: what it reads outlives the journal. (Under
    AddressSanitizer it shows if it does not.)"""
    server = daemon()
    push(server, [f"j{i}" for i in range(6000)], body="x" * 2000)  # more than is read ahead
    is_equal(server, maria, base)
    with Connection(redis.port) as connection:
        for pause_s in (0.02, 0.05, 0.1, 0.2):
            answers = []
            lose_buckets(connection)
            thread = threading.Thread(target=lambda said=answers: said.append(restore(server)))
            thread.start()
            assert eventually(lambda: left(redis) > 4 or not thread.is_alive(), 20, 0.001)
            time.sleep(pause_s)
            connection.call("HSET", "{laterd:0}:h", "jl", b"AAAAAAAA" + (1 << 52).to_bytes(8, "little") + b"another")
            thread.join()
            assert answers[0].status in (200, 409, 503), answers  # 409: it was noticed before
            connection.call("HDEL", "{laterd:0}:h", "jl")
            assert eventually(lambda: leads(server), 15)
        assert eventually(lambda: restore(server).status == 200, 60, 0.5)
    assert len(names_there(server)) == 6000


def were_reserved(maria, base, where="TRUE"):
    """So that their rows are written again, as they wait now."""
    maria.run(f"UPDATE {JOBS} SET status=2 WHERE {where}", database=base)


def test_rows_that_say_all_of_their_jobs_are_not_written_again(daemon, maria, base, redis):
    server = daemon()
    push(server, [f"j{i}" for i in range(100)])
    push(server, ["due", "overdue"], delay="0s")
    with Client(server.port) as client:
        taken, = client.reserve("t")
        assert client.job(taken["id"], "bury", lease=taken["lease"]).status in (200, 204)
    is_equal(server, maria, base)
    redis.call("FLUSHALL")
    assert server.wait_log("journal_of_another_store", 30)
    were_reserved(maria, base, "id LIKE 'j1%'")
    maria.run(f"UPDATE {JOBS} SET update_time='2001-01-01'", database=base)
    logged = maria.run(f"SELECT COUNT(*) FROM {LOGS}", database=base)
    maria.run(f"DELETE FROM {CURSORS}", database=base)
    assert eventually(lambda: restore(server).status == 200, 60, 0.5)
    has_the_same_jobs(server, maria, base)

    def again():
        return {row[0] for row in maria.run(f"SELECT id FROM {JOBS} WHERE update_time>'2001-01-02'", database=base)}
    assert eventually(lambda: len(again()) >= 11, 30)  # which that comparison does not see
    with Client(server.port) as client:
        assert eventually(lambda: gauge(client, "journal_lag_batches") == 0, 30)
    assert again() == {"j1"} | {f"j1{i}" for i in range(10)}
    assert maria.run(f"SELECT COUNT(*) FROM {LOGS}", database=base)[0][0] - logged[0][0] == 11
    with Client(server.port) as client:  # their rows are theirs
        assert client.job("j2", method="DELETE").status == 204
        assert client.job("j3", "run").status in (200, 204)
    has_the_same_jobs(server, maria, base)


@pytest.mark.parametrize("on_lag", ["refuse", "detach"])
def test_a_restore_waits_for_a_mysql_that_is_slower(daemon, maria, base, redis, on_lag):
    server = daemon(max_lag="1M", on_lag=on_lag)  # half of it is filled by 2,000 rows of these
    for block in range(6):
        push(server, [f"a{block}-{i}" for i in range(1000)], body="x" * 100)
        has_rows(server, maria, base, 1000 * (block + 1))
    redis.call("FLUSHALL")
    assert server.wait_log("journal_of_another_store", 30)
    were_reserved(maria, base)
    maria.run(f"DELETE FROM {CURSORS}", database=base)
    assert eventually(lambda: maria.run(f"SELECT 1 FROM {CURSORS}", database=base), 30)
    answers, locks = [], maria.connect(base)
    locks.autocommit(False)
    thread = threading.Thread(target=lambda: answers.append(restore(server)))
    with locks, locks.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {JOBS} WHERE id='a0-1' FOR UPDATE")  # it commits nothing
        thread.start()
        time.sleep(3)
        with Client(server.port) as client:  # others' pushes are taken
            pushed = client.push("t", id="mine", body="x", delay="1h").status
    thread.join()
    assert pushed == 201
    said = answers[0].json()
    assert (answers[0].status, said["created"], said["refused"]) == (200, 6000, 0), answers
    assert not server.events("journal_given_up")
    has_the_same_jobs(server, maria, base)


def test_a_restore_of_what_is_there_does_not_wait_for_mysql(daemon, maria, base):
    first = daemon(partitions=1)
    for block in range(15):
        push(first, [f"a{block}-{i}" for i in range(100)], body="x" * 16000)
    has_rows(first, maria, base, 1500)
    were_reserved(maria, base)
    first.stop()
    server = daemon(partitions=1, max_lag="1M")  # half of it is filled by 32 rows
    assert server.wait_log("journal_writes", 30)
    begun = time.monotonic()
    assert restore(server).json()["kept"] == 1500
    soon(time.monotonic() - begun, 1.2)  # 0.3 s alone


def has_rows(server, maria, base, count):
    """Waits until the table has so many: cheaper than to compare each, where there are many. The gauge alone would
    not do: it is 0, too, before the daemon has looked."""
    assert eventually(lambda: (JOBS,) in maria.run("SHOW TABLES", database=base) and
                      maria.run(f"SELECT COUNT(*) FROM {JOBS}", database=base) == ((count,),), 30)
    with Client(server.port) as client:
        assert eventually(lambda: gauge(client, "journal_lag_batches") == 0, 30)


def test_an_older_save_gets_back_what_it_lacks(daemon, maria, base, redis):
    server = daemon(partitions=2)
    push(server, ["a", "b"])
    is_equal(server, maria, base)
    with Connection(redis.port) as connection:
        connection.call("SAVE")
    push(server, ["c", "d"])
    with Client(server.port) as client:
        assert client.job("b", method="DELETE").status == 204
        assert client.job("d", method="DELETE").status == 204
    is_equal(server, maria, base)
    redis.kill()
    redis.start()
    assert server.wait_log("journal_out_of_step", 20)
    assert restore(server).status == 503
    assert "docs/journal.md" in restore(server).json()["detail"]
    with Client(server.port) as client:
        assert eventually(lambda: client.job("b", method="DELETE").status == 204, 20)  # it had ended
    server.stop()
    maria.run(f"DELETE FROM {CURSORS}", database=base)
    server = daemon(partitions=2)
    assert eventually(lambda: restore(server).status == 200, 60, 0.5)
    assert names_there(server) == {"a", "c"}
    has_the_same_jobs(server, maria, base)


def test_changes_behind_a_failover_reach_mysql_when_it_begins_again(daemon, maria, base, redis):
    """The same numbers are other entries then: those that MySQL lacks must not go from Redis."""
    server, other = daemon(partitions=1), daemon(partitions=1, url="")
    push(server, ["a", "b"])
    is_equal(server, maria, base)
    with Connection(redis.port) as connection:
        connection.call("SAVE")
    push(server, ["c", "d", "e"])
    is_equal(server, maria, base)
    server.process.send_signal(signal.SIGSTOP)
    redis.kill()
    redis.start()
    try:
        with Client(other.port) as client:
            assert eventually(lambda: client.job("a", method="DELETE").status == 204, 20)
        push(other, [f"n{i}" for i in range(20)])
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert server.wait_log("journal_out_of_step", 20)
    server.stop()
    maria.run(f"DELETE FROM {CURSORS}", database=base)
    server = daemon(partitions=1)
    assert eventually(lambda: restore(server).status == 200, 60, 0.5)
    assert names_there(server) == {"b", "c", "d", "e", *(f"n{i}" for i in range(20))}
    has_the_same_jobs(server, maria, base)


def test_jobs_lost_with_their_buckets_come_back(daemon, maria, base, redis):
    server = daemon(partitions=1)
    with Client(server.port) as client:
        client.push("t", id="a", body="x", delay="1h")
        numbered = client.push_id("t", body="numbered", delay="1h")
        is_equal(server, maria, base)
        with Connection(redis.port) as connection:
            lose_buckets(connection, 1)
        said = restore(server).json()
        assert (said["created"], said["refused"]) == (2, 0), said
        for name in ("a", f"{numbered}.{store_of(maria, base)}"):
            assert client.job(name, method="GET").json()["due_ms"] > 0


def test_when_the_one_stands_still_its_restore_ends_and_another_goes_on(daemon, maria, base, redis):
    servers = [daemon(), daemon()]
    push(servers[0], [f"j{i}" for i in range(4000)])
    is_equal(servers[0], maria, base)
    one, (other,) = the_one(servers)
    answers = []
    for _ in range(10):  # until one is seen while it goes on
        with Connection(redis.port) as connection:
            lose_buckets(connection)
        thread = threading.Thread(target=lambda: answers.append(restore(one)))
        thread.start()
        if eventually(lambda: left(redis) > 0 or not thread.is_alive(), 20, 0.001) and thread.is_alive():
            break
        thread.join()
    else:
        raise TooLate("each restore was over before it was seen")
    one.process.send_signal(signal.SIGSTOP)
    try:
        assert eventually(lambda: leads(other), 60)
        before = len(other.events("restored"))
        assert eventually(lambda: restore(other).status == 200, 60)
        gone = sorted(names_there(other))[:100]
        with Client(other.port) as client:
            for name in gone:
                assert client.job(name, method="DELETE").status == 204
    finally:
        one.process.send_signal(signal.SIGCONT)
    thread.join()
    assert len(other.events("restored")) == before + 1
    is_equal(other, maria, base)
    assert not set(gone) & names_there(other)
    assert eventually(lambda: left(redis) == 0, 30)
    assert maria.run(f"SELECT COUNT(*) FROM {JOBS} WHERE status NOT IN(3,4)", database=base)[0][0] == 3900


def test_in_a_cluster_rows_go_where_their_ids_belong(laterd, maria, base):
    with Cluster(replicas=0) as cluster:
        config = {"engine": {"engine": "redis"}, "redis": {"url": cluster.url}, "journal": {"url": maria.url_of[base]}}
        server, prefix = laterd(config), {"prefix": "second"}
        push(server, [f"j{i}" for i in range(300)])
        with Client(server.port) as client:
            client.push_many("t", [{"body": "x", "delay": "1h"} for i in range(50)])
        is_equal(server, maria, base)
        said = restore(server).json()
        assert (said["created"], said["kept"]) == (0, 300), said  # those by number live, and are no rows
        server.stop()
        maria.run(f"DELETE FROM {CURSORS}", database=base)
        server = laterd({**config, "redis": {**config["redis"], **prefix}})
        assert server.wait_log("journal_writes", 20)
        assert restore(server).json()["created"] == 350
        is_equal(server, maria, base)
