"""The `sdmq` dialect on a listener of its own: its calls, its ids, its labels beside /v1, its order, its long poll."""

import json
import re
import subprocess
import threading
import time
import urllib.parse

import pytest

from patience import before, soon
from process import LATERD, Laterd
from redis import Redis
from wire import Client, eventually

ID = re.compile(r"^(.+?):(?:(.+):)?([0-9.]+):([0-9]+)$")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    config = {"sdmq": {"clear_all": 1, "host": "10.0.0.9", "machine": 7}, "defaults": {"block_timeout": "1s"}}
    with Laterd(tmp_path_factory.mktemp("laterd"), config, sdmq=("127.0.0.1:0",)) as one:
        yield one


@pytest.fixture
def sdmq(server):
    with Client(server.sdmq_ports[0]) as one:
        yield one


@pytest.fixture
def v1(server):
    with Client(server.port) as one:
        yield one


def said(answer, success=True):
    assert answer.status == 200, answer
    answer = answer.json()
    assert list(answer) == ["success", "code", "message", "data"]
    assert (answer["success"], answer["code"]) == ((True, 200) if success else (False, 500)), answer
    assert (answer["message"] is None) == success and (success or answer["data"] is None)
    return answer["data"] if success else answer["message"]


def push(client, **fields):
    return said(client.request("POST", "/push", json.dumps(fields), {"Content-Type": "application/json"}))


def refused(client, **fields):
    return said(client.request("POST", "/push", json.dumps(fields), {"Content-Type": "application/json"}), False)


def call(client, path, **parameters):
    return client.get(path + ("?" + urllib.parse.urlencode(parameters) if parameters else ""))


def take(client, topic, wait=0):
    return said(call(client, "/get/" + urllib.parse.quote(topic), wait=wait))


def test_a_job_lives_as_in_the_designs_interface(sdmq, topic):
    before = int(time.time() * 1000)
    job_id = push(sdmq, topic=topic, body="{\"a\":\"中\"}", delay=300, bizKey="k", subtopic="eu", ttl=12,
                  extendData="{\"x\":1}", priority=5, status=0)
    assert ID.match(job_id).groups()[:3] == (topic, "k", "10.0.0.9")
    job = take(sdmq, topic) or take(sdmq, topic, wait="20s")
    assert int(time.time() * 1000) >= before + 300, "not due yet"
    created = job.pop("createTime")
    assert before - 5 <= created <= time.time() * 1000
    assert job == {"topic": topic, "subtopic": "eu", "id": job_id, "bizKey": "k", "delay": 300, "ttl": 12,
                   "body": "{\"a\":\"中\"}", "extendData": "{\"x\":1}", "status": 2, "priority": 5}
    assert said(call(sdmq, "/finish", jobId=job_id)) is None
    assert said(call(sdmq, "/finish", jobId=job_id)) is None, "and again"
    assert take(sdmq, topic) is None


def test_ids_are_unique_and_grow(sdmq, topic):
    ids = [push(sdmq, topic=topic, body="", delay=3600000) for _ in range(200)]
    numbers = [int(ID.match(one).group(4)) for one in ids]
    assert numbers == sorted(set(numbers))
    assert {number >> 12 & 1023 for number in numbers} == {7}


def test_a_job_is_due_after_its_create_time(sdmq, topic):
    now = int(time.time() * 1000)
    push(sdmq, id=topic + "1", topic=topic, body="", createTime=now - 60000, delay=60300)
    with before(now / 1000 + 0.3):
        assert take(sdmq, topic) is None
    job = take(sdmq, topic, wait="20s")
    assert (job["createTime"], job["delay"]) == (now - 60000, 60300)


def test_due_time_goes_before_priority(sdmq, topic):
    at = int(time.time() * 1000) - 1000
    for name, delay, priority in (("c", 2, 0), ("b", 1, 9), ("a", 1, 3), ("d", 3, 0)):
        push(sdmq, id=topic + name, topic=topic, createTime=at, delay=delay, priority=priority)
    assert [take(sdmq, topic)["id"][-1] for _ in range(4)] == ["a", "b", "c", "d"]


def test_the_same_id_replaces_and_a_delete_is_final(sdmq, topic):
    assert push(sdmq, id=topic, topic=topic, body="old", delay=0) == topic
    assert push(sdmq, id=topic, topic=topic, body="new", delay=0) == topic
    assert take(sdmq, topic)["body"] == "new"
    assert said(call(sdmq, "/delete", id=topic)) is None
    assert said(call(sdmq, "/delete", jobId=topic)) is None, "one that is not there is no error"
    assert take(sdmq, topic) is None


def test_who_does_not_finish_in_time_gets_it_again(sdmq, topic):
    push(sdmq, id=topic, topic=topic, ttl=1)
    with before(time.time() + 1):
        assert take(sdmq, topic)["id"] == topic
        assert take(sdmq, topic) is None
    assert take(sdmq, topic, wait="20s")["id"] == topic


def test_a_get_waits_for_a_job_and_for_no_longer_than_it_should(server, sdmq, topic):
    begin = time.monotonic()
    assert take(sdmq, topic, wait=200) is None
    assert 0.2 <= soon(time.monotonic() - begin, 5)
    assert said(sdmq.get("/get/" + topic)) is None, "defaults.block_timeout"
    taken = []

    def wait():
        with Client(server.sdmq_ports[0]) as other:
            taken.append(take(other, topic, wait="20s"))

    thread = threading.Thread(target=wait)
    thread.start()
    push(sdmq, id=topic, topic=topic, delay=100)
    thread.join(60)
    assert taken[0]["id"] == topic


def test_v1_sees_the_same_job_and_sdmq_that_of_v1(sdmq, v1, topic):
    push(sdmq, id=topic, topic=topic, body="x", delay=3600000, bizKey="k", subtopic="eu", extendData="e",
         createTime=1700000000000 + 10**12, priority=5)
    job = v1.job(topic, method="GET").json()
    assert (job["biz_key"], job["subtopic"], job["extend_data"], job["rank"]) == ("k", "eu", "e", 5)
    assert job["create_time"] == "2055-07-24T00:00:00.000Z" and job["due_ms"] == 2700003600000
    v1.push_id(topic + "v1", body="y", tags=["a"], biz_key="b", subtopic="s", extend_data="x", rank=2)
    job = take(sdmq, topic + "v1", wait="1s")
    assert (job["bizKey"], job["subtopic"], job["extendData"], job["priority"], job["body"]) == ("b", "s", "x", 2, "y")


def test_the_servers_own_pages_are_there(sdmq):
    assert sdmq.get("/healthz").status == 200
    assert sdmq.get("/v1/topics").status == 200
    assert "laterd_commands_total{protocol=\"sdmq\"" in sdmq.get("/metrics").body.decode()


@pytest.mark.parametrize("fields, message", [
    ({}, "参数topic错误"), ({"topic": None, "body": "x"}, "参数topic错误"), ({"topic": ""}, "参数topic错误"),
    ({"topic": "t", "status": 3, "id": "7"}, "任务7状态异常"),
    ({"topic": "t", "delay": "soon"}, "delay: this must be a whole number"),
    ({"topic": "t", "body": {"a": 1}}, "body: this must be a string"),
    ({"topic": "t", "extendData": "x" * 2001}, "extendData: up to 2000 bytes without NUL"),
    ({"topic": "t", "id": "@7"}, "id: has the form of the server's own ids, an at sign and a number")])
def test_a_bad_push_is_refused_with_what_is_wrong(sdmq, fields, message):
    assert refused(sdmq, **fields) == message


def test_bad_calls_are_refused(sdmq):
    assert "JSON object" in said(sdmq.request("POST", "/push", "nonsense", {"Content-Type": "application/json"}), False)
    assert said(call(sdmq, "/delete"), False) == "JobId 不能为空"
    assert said(call(sdmq, "/get/t", wait="long"), False).startswith("wait: ")
    for method, path, status in (("GET", "/push", 405), ("POST", "/get/t", 405), ("GET", "/nothing", 404)):
        answer = sdmq.request(method, path)
        assert answer.status == status
        assert answer.json()["success"] is False and answer.json()["code"] == 500


def test_without_a_journal_a_restore_says_so(sdmq):
    assert said(call(sdmq, "/reStore", expire="false"), False).startswith("there is no journal")
    assert said(call(sdmq, "/reStoreJob", jobId="7"), False).startswith("Job不存在!")
    assert said(call(sdmq, "/reStore/7"), False).startswith("Job不存在!")
    assert said(call(sdmq, "/reStore", expire="perhaps"), False) == "expire: true or false"


def test_clear_all_deletes_all_there_is(sdmq, v1):
    said(call(sdmq, "/clearAll"))
    for i in range(300):
        push(sdmq, topic=f"clear-{i % 100}", body="x", delay=3600000 if i % 2 else 0)
    v1.push_id("clear-buried", body="x", state="buried")
    assert take(sdmq, "clear-0")
    assert re.fullmatch(r"花费了\d+ ms，删除 301 行数据", said(call(sdmq, "/clearAll")))
    assert re.fullmatch(r"花费了\d+ ms，删除 0 行数据", said(call(sdmq, "/clearAll")))
    assert all(sum(v1.get(f"/v1/topics/clear-{i}").json().get(state, 0)
                   for state in ("delayed", "ready", "reserved", "buried")) == 0 for i in (0, 1, 99))


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_a_page_of_another_port_or_host_takes_and_deletes_nothing(sdmq, v1, topic, site):
    """It needs no form for that: an image is asked for by GET, and without an Origin."""
    job = push(sdmq, topic=topic, delay=0, body="1")
    for path in (f"/get/{topic}?wait=0", f"/finish?jobId={job}", f"/delete?jobId={job}", "/clearAll"):
        answer = sdmq.request("GET", path, b"", {"Sec-Fetch-Site": site})
        assert answer.status == 403 and answer.json()["success"] is False, path
    assert v1.counts(topic)["ready"] == 1
    for site in ("same-origin", "none"):
        assert sdmq.request("GET", "/finish?jobId=nobody", b"", {"Sec-Fetch-Site": site}).status == 200


def test_clear_all_is_refused_unless_it_is_allowed(laterd):
    server = laterd({}, sdmq=("127.0.0.1:0",))
    with Client(server.sdmq_ports[0]) as sdmq:
        job_id = push(sdmq, topic="t", body="x", bizKey="a")
        assert "clear_all = 1 under [sdmq]" in said(call(sdmq, "/clearAll"), False)
        assert take(sdmq, "t")["id"] == job_id
        topic, key, host, number = ID.match(job_id).groups()
        assert (topic, key) == ("t", "a") and host.count(".") == 3 and int(number) >> 12 & 1023


def test_a_long_push_gets_its_id_too(server, sdmq, topic):
    body = "x" * 300000
    job_id = push(sdmq, topic=topic, body=body)
    job = take(sdmq, topic, wait="5s")
    assert job["id"] == job_id and job["body"] == body


def test_a_topic_with_a_target_is_not_for_get(sdmq, v1, topic):
    answer = v1.request("PUT", f"/v1/topics/{topic}",
                        json.dumps({"target": {"type": "http", "url": "https://example.com/"}, "paused": True}),
                        {"Content-Type": "application/json"})
    assert answer.status in (200, 201), answer
    assert "target" in said(eventually(lambda: call(sdmq, "/get/" + topic, wait=0)), False)


def test_due_jobs_go_to_their_topics_broker_with_what_their_client_said(laterd):
    with Redis() as broker:
        server = laterd({"broker.mq": {"type": "redis", "url": broker.url}}, sdmq=("127.0.0.1:0",))
        with Client(server.port) as v1, Client(server.sdmq_ports[0]) as sdmq:
            answer = v1.request("PUT", "/v1/topics/pay", json.dumps(
                {"target": {"type": "redis", "broker": "mq", "kind": "stream", "key": "out"}}),
                {"Content-Type": "application/json"})
            assert answer.status in (200, 201), answer
            push(sdmq, id="7", topic="pay", body="b", delay=200, bizKey="17", subtopic="eu", extendData="{\"a\":1}")
            [(_, fields)] = eventually(lambda: broker.call("XRANGE", "out", "-", "+"))
            words = [field.decode() for field in fields]
            entry = dict(zip(words[::2], words[1::2]))
            assert (entry["id"], entry["topic"], entry["body"]) == ("7", "pay", "b")
            assert (entry["biz_key"], entry["subtopic"], entry["extend_data"]) == ("17", "eu", "{\"a\":1}")
            assert eventually(lambda: v1.job("7", method="GET").status == 404)


@pytest.mark.parametrize("text, problem", [
    ("[sdmq]\nmachine = 1024\n", "sdmq.machine"), ("[sdmq]\nhost = a b\n", "host"),
    ("[server]\nsdmq = nonsense\n", "nonsense"), ("[server]\nhttp = none\nbeanstalk = none\n", "server.sdmq")])
def test_a_bad_configuration_is_refused(tmp_path, text, problem):
    path = tmp_path / "laterd.conf"
    path.write_text(text)
    done = subprocess.run([LATERD, "-c", str(path), "--check-config"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and problem.split(".")[-1] in done.stderr, done.stderr


def test_the_listener_may_come_from_the_command_line(laterd):
    server = laterd({}, arguments=["--sdmq", "127.0.0.1:0"])
    assert eventually(lambda: server.sdmq_ports)
    with Client(server.sdmq_ports[0]) as sdmq:
        assert push(sdmq, topic="t", id="7") == "7"


def test_v1_restore_without_a_journal_says_so(v1):
    answer = v1.request("POST", "/v1/restore", "{}", {"Content-Type": "application/json"})
    assert answer.status == 409 and answer.json()["code"] == "no_journal"
