"""The journal with the rest of laterd: two that lead in turn on one directory, and far jobs."""

import contextlib
import re
import shutil
import signal
import subprocess
import time

import pymysql
import pytest

from coordination import RedisService, until
from journal import CURSORS, DELETED, JOBS, LOGS, agree, differences, gauge, rows
from mariadb import NEEDED, MariaDb, a_maria  # noqa: F401  (a fixture)
from patience import PATIENCE_S, soon
from ports import free_port
from process import Laterd
from wire import Client, Closed, eventually

pytestmark = [NEEDED, pytest.mark.skipif(not RedisService.installed, reason="redis-server is not installed"),
              pytest.mark.embedded("the journal follows the embedded log")]

TIMEOUT_S = 2


@pytest.fixture(scope="module", name="service")
def a_service():
    with RedisService() as running:
        yield running


@pytest.fixture(name="base")
def a_base(maria, request):
    name = "l" + str(abs(hash(request.node.name)) % 10**12)
    yield maria.database(name), name
    maria.run(f"DROP DATABASE IF EXISTS {name}")


@pytest.fixture(name="member")
def a_member(service, tmp_path, request):
    """Starts laterds of one election on one directory, with this journal."""
    made = []

    def start(url, **config):
        name = re.sub(r"\W", "-", request.node.name)[:60]
        made.append(Laterd(tmp_path / f"laterd{len(made)}",
                           {"member": {"url": service.url, "name": name, "timeout": f"{TIMEOUT_S}s"},
                            "journal": {"url": url}, **config},
                           listeners=(f"127.0.0.1:{free_port()}",), data=str(tmp_path / "data")).start())
        return made[-1]

    yield start
    for laterd in made:
        laterd.kill()
        print("\n".join(laterd.lines))


def caught_up(server, maria, base, topics=("t",)):
    with Client(server.port, seconds=60) as client:
        assert eventually(lambda: gauge(client, "journal_lag_batches") == 0, 60), client.get("/metrics").body
        assert eventually(lambda: agree(client, topics, maria, base), 30, 0.2), \
            differences(client, topics, maria, base)
        # The rows are seen before the writer has its answer.
        assert eventually(lambda: gauge(client, "journal_lag_batches") == 0, 60), client.get("/metrics").body


def serves(laterd):
    try:
        with Client(laterd.port, seconds=5) as client:
            return client.get("/readyz").status == 200
    except (Closed, OSError):
        return False


def knows_leader(laterd):
    with Client(laterd.port) as client:
        return client.get("/v1/cluster").json().get("leader")


def seconds_to_hand_over(leader, waits):
    """A clean stop, from SIGTERM until the other is ready."""
    until(lambda: knows_leader(waits), 10)
    begun = time.monotonic()
    leader.signal(signal.SIGTERM)
    until(lambda: serves(waits), 30)
    return soon(time.monotonic() - begun, 0.2)


def leader(member, url):
    """One that leads already."""
    server = member(url)
    until(lambda: serves(server), 30)
    return server


def some(client, round_):
    """Again while it says "not now": on a busy machine a leader may doubt for a moment that it leads."""
    jobs = [{"id": f"{round_}-{i}", "body": i, "delay": "1h"} for i in range(200)]
    end = time.monotonic() + PATIENCE_S
    while jobs:
        answers = list(zip(jobs, client.push_many("t", jobs)))
        refused = [result for _, result in answers if result["status"] not in (201, 503)]
        assert not refused and time.monotonic() < end, answers[:3]
        jobs = [job for job, result in answers if result["status"] == 503]
    assert eventually(lambda: client.job(f"{round_}-0", method="DELETE").status in (204, 404))


def each_change_has_one_row(maria, name):
    """After four times some()."""
    assert maria.run(f"SELECT COUNT(*),COUNT(DISTINCT id,status) FROM {LOGS}", database=name)[0] == (804, 804)


def test_who_takes_over_goes_on_with_the_journal(member, maria, base):
    url, name = base
    servers = [member(url)]
    until(lambda: serves(servers[0]), 30)
    for round_ in range(3):
        servers.append(member(url))
        with Client(servers[round_].port) as client:
            some(client, round_)
        servers[round_].kill()
        until(lambda: serves(servers[-1]), 30)
    with Client(servers[-1].port) as client:
        some(client, 3)
    caught_up(servers[-1], maria, name)
    each_change_has_one_row(maria, name)
    assert maria.run(f"SELECT COUNT(*) FROM {CURSORS}", database=name)[0][0] == 1


@pytest.mark.deadline
def test_who_stops_lets_another_lead_before_mysql_has_all(member):
    maria = MariaDb().make().start()
    try:
        url = maria.database("slow")
        first = member(url)
        until(lambda: serves(first), 30)
        second = member(url)
        with Client(first.port) as client:
            some(client, 0)
            assert first.wait_log("journal_writes", 20)
            maria.signal(signal.SIGSTOP)
            some(client, 1)
        seconds_to_hand_over(first, second)
        assert first.process.poll() is None  # it waits for MySQL still
        maria.signal(signal.SIGCONT)
        assert first.process.wait(timeout=30) == 0
        with Client(second.port) as client:
            some(client, 2)
        caught_up(second, maria, "slow")
        assert not first.events("journal_fenced") and not second.events("journal_fenced")
    finally:
        maria.stop()


def longest_answer(laterd, seconds):
    """Of one question after the other; who loses the lead drops connections, and is asked again."""
    longest, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        begun, answered = time.monotonic(), False
        while not answered:
            assert time.monotonic() < begun + PATIENCE_S, "it serves no more"
            try:
                with Client(laterd.port, seconds=30) as client:
                    answered = client.get("/healthz").status == 200
            except (Closed, OSError):
                pass
        longest = max(longest, time.monotonic() - begun)
        time.sleep(0.02)
    return longest


def test_who_loses_the_lead_answers_while_its_journal_waits_for_mysql(member, service):
    maria = MariaDb().make().start()
    try:
        server = leader(member, maria.database("lost"))
        with Client(server.port) as client:
            some(client, 0)
            assert server.wait_log("journal_writes", 20)
            maria.signal(signal.SIGSTOP)
            some(client, 1)
        service.freeze()
        try:
            longest = longest_answer(server, TIMEOUT_S + 4)  # two seconds, and one, it waits for the journal
            assert server.wait_log("leads_no_longer") and server.wait_log("leader_closed")
        finally:
            service.thaw()
        soon(longest, 1)
        maria.signal(signal.SIGCONT)
        until(lambda: serves(server), 30)
        with Client(server.port) as client:
            some(client, 2)
        caught_up(server, maria, "lost")
    finally:
        maria.signal(signal.SIGCONT)
        maria.stop()


def taken_by_another(maria, name, batches=0):
    """As by one that did not know yet that it leads no longer."""
    maria.run(f"UPDATE {CURSORS} SET epoch=epoch+1,batch=batch+{batches}", database=name)


def through_three(disturbances, server, maria, name):
    """Of some() four times, one disturbance behind each of the first three."""
    with Client(server.port) as client:
        for round_, disturb in enumerate(disturbances):
            some(client, round_)
            caught_up(server, maria, name)
            disturb()
        some(client, 3)
    caught_up(server, maria, name)


def lose_connections(maria, name):
    for (thread,) in maria.run("SELECT id FROM information_schema.processlist "
                               f"WHERE db='{name}' AND user<>'root'"):  # not ours, which are ending
        with contextlib.suppress(pymysql.err.OperationalError):  # it may have ended by itself since
            maria.run(f"KILL {thread}")


def test_the_leader_takes_its_cursor_again_and_goes_on_exactly(member, maria, base):
    url, name = base
    server = leader(member, url)

    def take():
        taken_by_another(maria, name)

    def take_and_cut():
        take()
        lose_connections(maria, name)

    through_three([take, take_and_cut, take], server, maria, name)
    each_change_has_one_row(maria, name)
    assert len(server.events("journal_retaken")) == 3 and not server.events("journal_fenced")


def test_a_cursor_that_was_deleted_under_the_leader_is_made_again_where_it_was(member, maria, base):
    url, name = base
    server = leader(member, url)
    through_three([lambda: maria.run(f"DELETE FROM {CURSORS}", database=name)] * 3, server, maria, name)
    each_change_has_one_row(maria, name)
    assert maria.run(f"SELECT COUNT(*),MAX(epoch) FROM {CURSORS}", database=name)[0] == (1, 4)
    assert len(server.events("journal_cursor_made")) == 3 and not server.events("journal_fenced")
    server.kill()
    again = member(url)
    until(lambda: serves(again), 30)
    with Client(again.port) as client:
        some(client, 4)
    caught_up(again, maria, name)
    assert not again.events("journal_begins") and not again.events("journal_out_of_step")


def fenced_after(disturb, server, maria, name):
    """Of a queue that its journal has whole: what comes after the disturbance is not written."""
    with Client(server.port) as client:
        some(client, 0)
        caught_up(server, maria, name)
        disturb()
        assert client.push("t", id="late", body="x", delay="1h").status == 201
        assert server.wait_log("journal_fenced", 20)
        assert "late" not in rows(maria, name)


def test_but_not_beside_the_cursor_of_another_queue(member, maria, base):
    """An operator has taken the tables over."""
    url, name = base
    server = leader(member, url)
    fenced_after(lambda: maria.run(f"UPDATE {CURSORS} SET store_id=REPEAT('x',16)", database=name), server, maria, name)
    assert server.events("journal_of_another_store")
    assert maria.run(f"SELECT COUNT(*) FROM {CURSORS}", database=name)[0][0] == 1


def test_the_error_of_a_journal_that_is_away_is_the_one_of_now(member, service):  # noqa: ARG001  (member needs it)
    maria = MariaDb().make().start()
    try:
        server = member(maria.database("now"))
        until(lambda: serves(server), 30)
        with Client(server.port) as client:
            some(client, 0)
            caught_up(server, maria, "now")
            taken_by_another(maria, "now")
            some(client, 1)
            caught_up(server, maria, "now")
            assert server.events("journal_retaken")  # that there was another one has been dealt with
            maria.kill()
            client.push("t", id="late", body="x", delay="1h")
            assert server.wait_log("journal_away", 20)
        assert re.search(r'error="2\d\d\d: [^"]+"', server.events("journal_away")[0][1])
    finally:
        maria.stop()


def is_traced(pid):
    """Its main thread."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return not re.search(r"^TracerPid:\s+0$", file.read(), re.MULTILINE)


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_who_leads_no_longer_sets_no_cursor(member, maria, base, service):
    """Its main thread, which would close the journal, is held up; the resync's statement waits for a lock meanwhile."""
    url, name = base
    server = leader(member, url)
    with Client(server.port) as client:
        some(client, 0)
        caught_up(server, maria, name)
        taken_by_another(maria, name, batches=1)
        client.push("t", id="late", body="x", delay="1h")
        assert server.wait_log("journal_fenced", 20)
        (before,) = maria.run(f"SELECT epoch,batch FROM {CURSORS}", database=name)
        connection = maria.connect(name)
        holder = connection.cursor()
        holder.execute("BEGIN")
        holder.execute(f"SELECT 1 FROM {CURSORS} FOR UPDATE")
        assert client.post("/v1/journal/resync", {}).status == 200
    until(lambda: maria.run("SELECT 1 FROM information_schema.processlist WHERE info LIKE 'UPDATE laterd_journal_cursor%'"),
          20)
    waits = "epoll_wait,epoll_pwait,epoll_pwait2"
    with subprocess.Popen(["strace", "-q", "-o", "/dev/null", "-p", str(server.process.pid), "-e", f"trace={waits}",
                           "-e", f"inject={waits}:delay_enter=60000000"]) as tracer:
        try:
            until(lambda: is_traced(server.process.pid), 10)
            time.sleep(1)  # it waits once in this time, and is held up then
            (key,) = [key for key in service.call("KEYS", "laterd:member:*") if b"no_longer_sets" in key]
            service.call("DEL", key)
            time.sleep(TIMEOUT_S + 1)  # by then it must not think that it leads
            assert not server.events("leads_no_longer"), "the main thread was not held up"
            holder.execute("ROLLBACK")
            connection.close()
            until(lambda: not maria.run("SELECT 1 FROM information_schema.processlist "
                                        "WHERE info LIKE 'UPDATE laterd_journal_cursor%'"), 20)
            time.sleep(1)
            assert maria.run(f"SELECT epoch,batch FROM {CURSORS}", database=name)[0] == before
        finally:
            if connection.open:
                connection.close()
            tracer.kill()
            server.kill()


def test_but_not_from_one_that_has_written(member, maria, base):
    url, name = base
    server = leader(member, url)
    fenced_after(lambda: taken_by_another(maria, name, batches=1), server, maria, name)
    assert not server.events("journal_retaken")


def test_nor_from_one_that_has_begun_a_resync(member, maria, base):
    """Its images move no cursor. A resync of our own makes right what it wrote."""
    url, name = base
    server = leader(member, url)
    with Client(server.port) as client:
        some(client, 0)
        caught_up(server, maria, name)
        assert client.post("/v1/journal/resync", {}).status == 200
        until(lambda: client.get("/v1/journal").json()["resync"]["state"] == "done", 30)
        taken_by_another(maria, name)
        maria.run("UPDATE laterd_journal_resync SET ended=NULL", f"UPDATE {JOBS} SET status=1 WHERE status=3",
                  database=name)
        assert client.push("t", id="late", body="x", delay="1h").status == 201
        assert server.wait_log("journal_fenced", 10)
        assert "late" not in rows(maria, name) and not server.events("journal_retaken")
        assert client.post("/v1/journal/resync", {}).status == 200
        until(lambda: client.get("/v1/journal").json()["resync"]["state"] == "done", 30)
    caught_up(server, maria, name)


@pytest.mark.deadline
@pytest.mark.parametrize("connected", [True, False])
def test_on_redis_who_stops_lets_another_lead_while_mysql_is_frozen(member, maria, service, base, connected):
    """Also where the journal is still about to connect."""
    prefix = f"frozen{time.monotonic_ns()}"  # a try before this one has left its jobs
    redis = {"engine": {"engine": "redis"}, "redis": {"url": service.url, "prefix": prefix}}
    try:
        if not connected:
            maria.signal(signal.SIGSTOP)
        first = member(base[0], **redis)
        until(lambda: serves(first), 30)
        second = member(base[0], **redis)
        with Client(first.port) as client:
            if connected:
                assert first.wait_log("journal_writes", 20)
                maria.signal(signal.SIGSTOP)
            some(client, 0)
            assert eventually(lambda: gauge(client, "journal_leads") == 1, 10)
        seconds_to_hand_over(first, second)
    finally:
        maria.signal(signal.SIGCONT)
    assert first.process.wait(timeout=30) == 0
    with Client(second.port) as client:
        assert len(client.get("/v1/topics/t/jobs?state=delayed&limit=1000").json()["jobs"]) == 199


def test_far_jobs_are_in_the_journal(laterd, maria, base):
    url, name = base
    far = {"segment_bytes": "256K", "checkpoint_bytes": "256K", "recent_bytes": "64K", "horizon": "1m"}
    server = laterd({"journal": {"url": url}, "store": far})
    with Client(server.port, seconds=60) as client:
        for block in range(3):
            client.push_many("t", [{"id": f"{block}-{i}", "body": "x" * 500, "delay": "2h"} for i in range(500)])
        client.push_many("u", [{"body": "x" * 3000, "delay": "1h"}] * 300)  # so that the log is cleaned
        assert eventually(lambda: gauge(client, "far_jobs") > 500, 60)
        assert client.job("0-0", method="DELETE").status == 204
        assert client.job("0-1", "run").status < 300
        assert client.job("0-2", method="PATCH", delay="3h").status < 300
        assert client.push("t", id="0-3", body="another", delay="4h", if_exists="replace").status < 300
    caught_up(server, maria, name, ("t", "u"))
    server.kill()
    server.start()
    with Client(server.port, seconds=60) as client:
        assert client.job("1-0", method="DELETE").status == 204
    caught_up(server, maria, name, ("t", "u"))
    found = rows(maria, name)
    assert found["0-0"]["status"] == found["1-0"]["status"] == DELETED
    assert found["0-3"]["body"] == "another"
