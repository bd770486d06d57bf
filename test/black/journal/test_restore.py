"""Jobs brought back from MySQL: a queue that lost its disk, twice, beside pushes and ends, with and without
what is past due; rows that laterd wrote and rows that sdmq wrote."""

import json
import os
import re
import shutil
import subprocess
import threading
import time

import pytest

from journal import (CURSORS, DELAYED, FINISHED, JOBS, READY, differences, gauge, listed, rows, store_of)
from long_turns import turns_stay_short
from mariadb import NEEDED, MariaDb, a_maria  # noqa: F401  (a fixture)
from patience import soon
from process import LATER, ROOT, Laterd
from silent import unanswered_port
from wire import Client, Stream, eventually

pytestmark = [NEEDED]


@pytest.fixture(name="base")
def a_base(maria, request):
    name = "r" + str(abs(hash(request.node.name)) % 10**12)
    maria.urls = {**getattr(maria, "urls", {}), name: maria.database(name)}
    yield name
    maria.run(f"DROP DATABASE IF EXISTS {name}")


@pytest.fixture(name="queue")
def a_queue(maria, base, tmp_path):
    """queue("data"): a laterd with an sdmq listener whose journal is the test's database."""
    started = []

    def start(data, **keys):
        server = Laterd(tmp_path / data, {"journal": {"url": maria.urls[base], **keys}},
                        sdmq=("127.0.0.1:0",))
        started.append(server)
        return server.start()
    yield start
    for server in started:
        server.kill()
        print("\n".join(server.lines))


def take_over(maria, base):
    """What journal_of_another_store says is to be run."""
    maria.run(f"DELETE FROM {CURSORS}", database=base)


def restore(server, path="/reStore"):
    before = len(server.events("restored"))
    with Client(server.sdmq_ports[0], seconds=120) as client:
        said = client.get(path).json()
    assert said["success"], said
    assert server.wait_log("restored", 5, count=before + 1)
    return said


def written(client, maria, base, topics=("t",)):
    assert eventually(lambda: gauge(client, "journal_lag_batches") == 0, 30)
    assert eventually(lambda: not differences(client, topics, maria, base), 10, 0.2), \
        differences(client, topics, maria, base)


def shape(client, job_id):
    job = client.job(job_id, method="GET").json()
    return {key: job.get(key) for key in ("topic", "due_ms", "priority", "body", "body_base64", "retry", "biz_key",
                                          "subtopic", "tags", "extend_data", "content_type", "ttr_ms")}, \
        job["state"] == "buried"


def fill(client):
    client.push("t", id="plain", body="é'\"\\🎉", delay="1h", priority=9, ttr="90s")
    client.push("t", id="labels", body={"x": 1}, delay="2h", biz_key="o'1", subtopic="eu", tags=["a", "b"],
                extend_data="{\"k\":1}", retry=["1m", "2h"])
    client.push("t", id="raw", body_base64="/wD+", delay="1h", content_type="application/x")
    client.push("t", id="done", body="x")
    client.job("done", method="DELETE")
    client.push("t", id="dead", body="x", delay="0s")
    (job,) = client.reserve("t")
    assert client.job("dead", "bury", lease=job["lease"]).status < 300
    return client.push_id("t", body="numbered", delay="3h")


def test_a_queue_that_lost_its_disk_is_rebuilt(queue, maria, base):
    names = ("plain", "labels", "raw", "dead")
    server = queue("one")
    with Client(server.port) as client:
        numbered = fill(client)
        written(client, maria, base)
        before = {name: shape(client, name) for name in names}
        store = store_of(maria, base)
    server.kill()
    shutil.rmtree(server.data, ignore_errors=True)  # in Redis: the next one has a prefix of its own
    take_over(maria, base)
    server = queue("two")
    said = restore(server)
    assert "5" in said["data"], said
    with Client(server.port) as client:
        assert {name: shape(client, name) for name in names} == before
        assert client.job("done", method="GET").status == 404
        assert client.job(f"{numbered}.{store}", method="GET").json()["body"] == "numbered"
        assert "rows=5 created=5 kept=0 refused=0" in server.events("restored")[0][1]
        written(client, maria, base)
        restore(server)  # twice is harmless
        assert "created=0 kept=5" in server.events("restored")[1][1]
        # A job under its new name ends in the row that it came from.
        client.job(f"{numbered}.{store}", method="DELETE")
        written(client, maria, base)
        restore(server)
        assert "rows=4 created=0" in server.events("restored")[2][1]


def test_a_row_that_is_refused_is_logged_by_its_id(queue, laterd, maria, base):
    server = laterd({"journal": {"url": maria.url(base)}, "push": {"allow": "127.0.0.1", "ports": "9", "job_targets": "any"}})
    with Client(server.port) as client:
        target = {"target": {"type": "http", "url": "http://127.0.0.1:9/"}}
        assert client.request("PUT", "/v1/topics/t", target).status == 200
        client.push("t", id="plain", body="x", delay="1h")
        client.push("t", id='has "a URL"', body="x", delay="1h", url="http://127.0.0.1:9/own")
        written(client, maria, base)
    server.kill()
    take_over(maria, base)
    server = queue("two")  # sends nothing to jobs' own URLs
    assert server.wait_log("journal_writes", 10)
    restore(server)
    assert "rows=2 created=1 kept=0 refused=1" in server.events("restored")[0][1]
    assert 'id="has \\"a URL\\"" error=job_target' in server.events("restore_refused")[0][1]


def test_a_restore_into_the_queue_itself_changes_nothing(queue, maria, base):
    server = queue("one")
    with Client(server.port) as client:
        fill(client)
        # Of these the restore knows by their numbers that they live: it takes none, hundreds in a row.
        client.push_many("numbered", [{"body": str(i), "delay": "1h"} for i in range(1000)])
        restore(server)  # it waits until MySQL has what was pushed
        assert "created=0" in server.events("restored")[0][1]
        assert sum(1 for _ in listed(client, "t")) == 5
        assert sum(1 for _ in listed(client, "numbered")) == 1000
        written(client, maria, base, ("t", "numbered"))


def test_beside_pushes_and_ends_nothing_comes_back(queue, maria, base):
    server = queue("one")
    with Client(server.port) as client:
        for block in range(3):
            client.push_many("t", [{"id": f"j{block * 1000 + i}", "body": "x", "delay": "1h"}
                                   for i in range(1000)])
        client.push_many("t", [{"body": "x", "delay": "1h"} for i in range(1000)])
    ended, stop = set(), threading.Event()

    def work():
        with Client(server.port, seconds=60) as client:
            for i in range(3000):
                if stop.is_set():
                    return
                if client.job(f"j{i}", method="DELETE").status == 204:
                    ended.add(f"j{i}")
                client.push("t", id=f"n{i}", body="x", delay="1h")
    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(5):
        restore(server)
    stop.set()
    thread.join()
    with Client(server.port, seconds=60) as client:
        assert all("created=0" in facts for _, facts in server.events("restored"))
        assert len(ended) > 20
        assert not ended & {job["id"] for job in listed(client, "t")}
        written(client, maria, base)


def sdmq_row(maria, base, job_id, status, delay=3600000, **columns):
    columns = {"topic": "old", "body": "b", "create_time": int(time.time() * 1000), "ttl": 30, **columns}
    names = ",".join(columns)
    values = ",".join(f"'{value}'" for value in columns.values())
    maria.run(f"INSERT INTO {JOBS}(id,status,delay,{names}) VALUES('{job_id}',{status},{delay},{values})",
              database=base)


def test_rows_that_sdmq_wrote_become_jobs(queue, maria, base):
    server = queue("one")
    assert server.wait_log("journal_writes", 10)
    sdmq_row(maria, base, "old:k:1", DELAYED, bizkey="k", subtopic="s", body="héllo")
    sdmq_row(maria, base, "old:2", 6)
    sdmq_row(maria, base, "old:3", FINISHED)
    sdmq_row(maria, base, "old:4", READY, delay=-3600000)
    sdmq_row(maria, base, "old:5", DELAYED, topic="", body="no topic")
    restore(server, "/reStore?expire=false")
    with Client(server.port) as client:
        job = client.job("old:k:1", method="GET").json()
        assert (job["body"], job["biz_key"], job["subtopic"], job["ttr_ms"]) == ("héllo", "k", "s", 30000)
        assert client.job("old:2", method="GET").json()["state"] == "delayed"
        assert client.job("old:3", method="GET").status == 404
        assert client.job("old:4", method="GET").status == 404  # past due
        assert "no topic" not in str(list(listed(client, "old")))
        assert "old:5" in server.events("restore_row_unread")[0][1]
        restore(server)
        assert client.job("old:4", method="GET").json()["state"] == "ready"


SDMQS_TABLES = """
CREATE TABLE t_delay_queue_job(id varchar(128) NOT NULL, bizkey varchar(128), topic varchar(128),
 subtopic varchar(250), delay bigint(20), create_time bigint(20), body text, status int(11), ttl int(11),
 update_time datetime(3), extend_data varchar(2000), PRIMARY KEY(id), KEY a(id,status), KEY b(status))
 ENGINE=InnoDB DEFAULT CHARSET=utf8;
CREATE TABLE t_delay_queue_job_log(id varchar(128) NOT NULL, status int(11), thread varchar(60),
 update_time datetime(3), host varchar(128), KEY a(id,status)) ENGINE=InnoDB DEFAULT CHARSET=utf8
"""


def of_the_page(name):
    """The statements of docs/migrate-sdmq.md whose block begins with `-- NAME`."""
    with open(os.path.join(ROOT, "docs", "migrate-sdmq.md"), encoding="utf-8") as file:
        text = re.search(rf"```sql\n-- {name}.*?\n(.*?)```", file.read(), re.S).group(1)
    return [" ".join(part.split()) for part in text.split(";") if part.strip()]


def test_sdmqs_tables_are_taken_over_as_the_page_says(queue, maria, base):
    """Step 4 of docs/migrate-sdmq.md: what laterd prints, sdmq's statements before and after, a restore."""
    maria.run(*SDMQS_TABLES.split(";"), database=base)
    maria.run(*of_the_page("as sdmq"), database=base)
    for number in range(20):
        sdmq_row(maria, base, f"old:{number}", [DELAYED, FINISHED][number % 2], bizkey=str(number), extend_data="{}")
    before = maria.run(f"SELECT * FROM {JOBS} ORDER BY id", database=base)
    server = queue("one")
    assert server.wait_log("journal_tables_unfit", 10)
    printed = server.events("journal_tables_unfit")[0][1]
    said = [" ".join(part.split()) for part in printed[printed.index("ALTER"):].rstrip('"').split(";") if part.strip()]
    assert said == of_the_page("alter")
    maria.run(*said, database=base)
    assert maria.run(f"SELECT * FROM {JOBS} ORDER BY id", database=base) == before
    assert server.wait_log("journal_writes", 30)
    with Client(server.port) as client, Client(server.sdmq_ports[0]) as sdmq:
        answer = sdmq.request("POST", "/push", json.dumps({"topic": "pay", "id": "new", "body": "🎉", "delay": 7200000}),
                              {"Content-Type": "application/json"})
        assert answer.json()["success"]
        restore(server)
        assert len(list(listed(client, "old"))) == 10
        job = client.job("pay:o7:10.0.0.1:7", method="GET").json()
        assert (job["body"], job["biz_key"], job["subtopic"], job["ttr_ms"]) == ("text", "o7", "eu", 30000)
        assert sdmq.get("/finish?jobId=old:0").json()["success"]
        written(client, maria, base, ("pay", "old"))
        # sdmq's statements, on the changed tables, with another id
        maria.run(*[part.replace("10.0.0.1:7", "10.0.0.1:8") for part in of_the_page("as sdmq")], database=base)
        unfinished = maria.run(of_the_page("as sdmq")[-1], database=base)
        assert len(unfinished) == 12 and "pay:o7:10.0.0.1:8" in {row[0] for row in unfinished}
        assert rows(maria, base, "id='old:0'")["old:0"]["status"] == FINISHED
        assert [row[0] for row in maria.run(*of_the_page("left"), database=base)] == ["pay:o7:10.0.0.1:8"]


def test_one_job_is_restored_by_its_id(queue, maria, base):
    server = queue("one")
    assert server.wait_log("journal_writes", 10)
    sdmq_row(maria, base, "old:1", DELAYED)
    sdmq_row(maria, base, "old:2", DELAYED)
    restore(server, "/reStoreJob?jobId=old:1")
    with Client(server.port) as client, Client(server.sdmq_ports[0]) as sdmq:
        assert [job["id"] for job in listed(client, "old")] == ["old:1"]
        assert not sdmq.get("/reStoreJob?jobId=nobody").json()["success"]
        sdmq_row(maria, base, "old:3", FINISHED)
        said = sdmq.get("/delete?jobId=old:3").json()
        assert not said["success"] and "已经完成" in said["message"]
        assert sdmq.get("/delete?jobId=nobody").json()["success"]


def test_one_that_lives_by_its_number_is_there(queue, maria, base):
    server = queue("one")
    assert server.wait_log("journal_writes", 10)
    with Client(server.port) as client:
        number = client.push_id("t", body="x", delay="1h")
        written(client, maria, base)
        for name in (number, f"{number}.{store_of(maria, base)}"):
            answer = client.request("POST", "/v1/restore", {"id": name})
            assert answer.status == 200, answer
            assert (answer.json()["rows"], answer.json()["created"], answer.json()["kept"]) == (1, 0, 1)
        assert client.job(number, method="DELETE").status == 204
        written(client, maria, base)
        answer = client.request("POST", "/v1/restore", {"id": number})  # whatever became of it
        assert (answer.json()["created"], answer.json()["kept"]) == (1, 0), answer
        assert len(list(listed(client, "t"))) == 1


def later(server, *words):
    return subprocess.run([LATER, "-s", f"http://127.0.0.1:{server.port}", "journal", *words],
                          capture_output=True, text=True, timeout=120, check=False)


def test_the_command_line_restores(queue, maria, base):
    server = queue("one")
    assert server.wait_log("journal_writes", 10)
    sdmq_row(maria, base, "old:1", DELAYED)
    sdmq_row(maria, base, "old:2", READY, delay=-3600000)
    sdmq_row(maria, base, "old:3", DELAYED)
    done = later(server, "restore", "old:1")
    assert done.returncode == 0 and done.stdout.startswith("1 row: 1 restored, 0 there already"), done
    assert later(server, "restore", "nobody").returncode == 1
    done = later(server, "restore", "--no-expire")
    assert done.returncode == 0 and "1 restored, 1 there already" in done.stdout, done
    done = later(server, "restore", "--json")
    assert json.loads(done.stdout)["created"] == 1, done
    assert later(server, "again").returncode == 2


def test_without_a_journal_the_command_line_says_so(tmp_path):
    with Laterd(tmp_path) as server:
        done = later(server, "restore")
        assert done.returncode == 3 and "journal" in done.stderr, done


def test_without_mysql_a_restore_says_so():
    maria = MariaDb().make().start()
    server = None
    try:
        url = maria.database("away")
        server = Laterd(maria.folder + "/q", {"journal": {"url": url}}, sdmq=("127.0.0.1:0",)).start()
        assert server.wait_log("journal_writes", 10)
        maria.kill()
        with Client(server.sdmq_ports[0], seconds=60) as client:
            said = client.get("/reStoreJob?jobId=x").json()
            assert not said["success"] and "MySQL" in said["message"], said
            with Client(server.port) as pusher:
                pusher.push("t", body="x")
            said = client.get("/reStore").json()
            assert not said["success"] and "MySQL" in said["message"], said
        assert server.stop() == 0
    finally:
        if server:
            server.kill()
        maria.stop()


def test_many_rows_come_back_in_pages(queue, maria, base):
    server = queue("one")
    with Client(server.port, seconds=60) as client:
        for block in range(10):
            client.push_many("t", [{"id": f"{block}-{i}", "body": "x" * 200, "delay": "1h"} for i in range(1000)])
        client.push_many("t", [{"id": f"big-{i}", "body": "y" * 200000, "delay": "1h"} for i in range(30)])
        written(client, maria, base)
    server.kill()
    shutil.rmtree(server.data, ignore_errors=True)  # in Redis: the next one has a prefix of its own
    take_over(maria, base)
    server = queue("two")
    restore(server)
    assert "rows=10030 created=10030 kept=0 refused=0" in server.events("restored")[0][1]
    with Client(server.port, seconds=60) as client:
        written(client, maria, base)
    assert len(rows(maria, base, "status NOT IN(3,4)")) == 10030


@pytest.mark.serial
@pytest.mark.deadline
@pytest.mark.parametrize("accepts", [True, False], ids=["silent", "full"])
def test_a_stop_ends_connects_to_mysql_that_are_under_way(laterd, accepts):
    """The journal's and a restore's: to a server that says nothing, and to one that does not even take them."""
    with unanswered_port(accepts) as port:
        server = laterd({"journal": {"url": f"mysql://u:p@127.0.0.1:{port}/d", "timeout": "20s"},
                         "server": {"drain_seconds": 0}})
        with Stream(server.port) as client:  # a restore goes on if its client leaves
            client.send(b'POST /v1/restore HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{"id":"x"}')
            time.sleep(0.5)
        begun = time.monotonic()
        assert server.stop() == 0
        soon(time.monotonic() - begun, 2.5)


@pytest.mark.deadline
@pytest.mark.embedded("an engine without a store copies bodies in its turns (decision 146)")
def test_jobs_with_large_bodies_make_no_turn_long(maria, base, tmp_path):
    """They are copied by other threads, on their way to MySQL and back: as text, and in base64."""
    bodies = [{"body": "%08d" % 7 * (3 << 19)}, {"body_base64": "/wAA" + "AAAA" * (3 << 20)}]
    config = {"journal": {"url": maria.urls[base]}, "server": {"turn_cpu": 1},
              "limits": {"body_bytes": "32M", "request_bytes": "64M"}}
    pushed = []
    maria.run("SET GLOBAL max_allowed_packet=268435456")
    try:
        with Laterd(tmp_path / "first", config) as server, Client(server.port, seconds=60) as client:
            def push():
                for body in bodies:
                    pushed.append(f"large-{len(pushed)}")
                    client.push("t", id=pushed[-1], delay="1h", **body)
                assert eventually(lambda: gauge(client, "journal_lag_batches") == 0, 60)
            turns_stay_short(server, push)
            while len(pushed) < 6:
                push()
        with Laterd(tmp_path / "second", config) as server, Client(server.port, seconds=60) as client:
            take_over(maria, base)
            assert server.wait_log("journal_writes", 30)

            def bring_back():
                for body in bodies:
                    name = pushed.pop(0)
                    assert client.post("/v1/restore", {"id": name}).status == 200
                    job = client.get(f"/v1/jobs/{name}").json()
                    assert all(job[key] == value for key, value in body.items())
            turns_stay_short(server, bring_back)
    finally:
        maria.run("SET GLOBAL max_allowed_packet=16777216")
