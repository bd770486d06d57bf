"""P8: every limit has a key, and an answer that names it."""

import json
import re

import pytest

from wire import Client, Wire, eventually, request_bytes

# On Redis each partition has its share of these limits; in one partition they are exact.
ONE = {"partitions": 1}


def names(answer, status, limit, code=None):
    statuses = status if isinstance(status, tuple) else (status,)
    assert answer.status in statuses, answer
    assert limit in answer.text, f"the answer should name {limit}: {answer}"
    assert code is None or answer.json()["code"] == code, answer


def test_p8_jobs(laterd):
    with Client(laterd({"limits": {"jobs": 3}, "redis": ONE}).port) as client:
        ids = [client.push_id("t", body=n, delay="1h") for n in range(3)]
        names(client.push("t", body="x"), 429, "limits.jobs")
        assert "limits.jobs" in client.post("/push", id="i", topic="t", delay=1, ttr=1).text
        assert client.push("t", id="@1", body="x").status == 400
        client.job(ids[0], method="DELETE")
        assert client.push("t", body="x").status == 201


def test_p8_topics(laterd):
    with Client(laterd({"limits": {"topics": 3}, "redis": ONE}).port) as client:
        for number in range(3):
            client.push_id(f"t{number}", body="x", delay="1h")
        names(client.push("one more", body="x"), 429, "limits.topics")
        answer = client.post("/v1/reserve", topics=["yet another"], wait="1s")
        assert answer.status in (204, 429)
        assert client.push("t0", body="x").status == 201


def test_p8_idle_topics_make_room(laterd):
    with Client(laterd({"limits": {"topics": 3}, "redis": ONE}).port) as client:
        for number in range(20):
            job_id = client.push_id(f"t{number}", body="x")
            assert client.job(job_id, method="DELETE").status in (200, 204)


def test_p8_waiters(laterd):
    server = laterd({"limits": {"waiters": 2}})
    body = json.dumps({"topics": ["t"], "wait": "20s"}).encode()
    polls = [Wire(server.port).send(request_bytes("POST", "/v1/reserve", body)) for _ in range(2)]
    with Client(server.port) as client:
        assert eventually(lambda: client.get("/v1/stats").json()["waiting"] == 2)
        names(client.post("/v1/reserve", topics=["t"], wait="20s"), 429, "limits.waiters")
        assert client.post("/v1/reserve", topics=["t"]).status == 204, "not waiting needs no place"
        polls[0].close()
        assert eventually(lambda: client.get("/v1/stats").json()["waiting"] == 1)
    polls[1].close()


@pytest.mark.embedded("Redis has maxmemory: test_redis_failures.py fills it")
def test_p8_memory(laterd):
    with Client(laterd({"limits": {"memory_bytes": "24M", "jobs": 10000000},
                        "store": {"recent_bytes": "1M"}}).port) as client:
        batch = json.dumps([{"body": "x" * 50, "delay": "1h"}] * 1000)
        for _ in range(1000):
            results = client.post("/v1/topics/t/jobs", batch)
            if "memory" in results.text:
                break
        assert "limits.memory_bytes" in results.text
        for _ in range(10000):  # buffers of the large request are free again
            answer = client.push("t", body="x", delay="1h")
            if answer.status != 201:
                break
        names(answer, (429, 503, 507), "limits.memory_bytes")
        listed = client.get("/v1/topics/t/jobs?state=delayed&limit=1").json()["jobs"]
        assert client.job(listed[0]["id"], method="DELETE").status in (200, 204)


def test_p8_body(laterd):
    with Client(laterd({"limits": {"body_bytes": "1000"}}).port) as client:
        assert client.push("t", body="x" * 900).status == 201
        names(client.push("t", body="x" * 1100), 413, "limits.body_bytes")
        assert client.push("t", body="x").status == 201, "the connection is still good"


def test_p8_request_bytes(laterd):
    server = laterd({"limits": {"request_bytes": "2000", "body_bytes": "1000"}})
    with Wire(server.port) as wire:
        wire.send("POST /v1/topics/t/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n\r\n")
        names(wire.response(), 413, "limits.request_bytes", "body_too_large")
        assert wire.closed()
    with Wire(server.port) as wire:
        wire.send("POST /v1/topics/t/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        wire.send(b"7d1\r\n" + b"x" * 2001 + b"\r\n0\r\n\r\n")
        names(wire.response(), 413, "limits.request_bytes", "body_too_large")


def test_p8_json_depth(laterd):
    with Client(laterd({"limits": {"json_depth": 8}}).port) as client:
        fine, deep = "[" * 6 + "]" * 6, "[" * 9 + "]" * 9
        assert client.post("/v1/topics/t/jobs", '{"body":%s}' % fine).status == 201
        names(client.post("/v1/topics/t/jobs", '{"body":%s}' % deep), 400, "limits.json_depth")


@pytest.mark.parametrize("body", ["[" * 200_000, '{"body":' * 100_000, '{"body":' + "[" * 300_000],
                         ids=["array", "object", "array inside"])
def test_p8_absurdly_deep_json_harms_nobody(shared, client, body):
    assert client.request("POST", "/v1/topics/t/jobs", body,
                          {"Content-Type": "application/json"}).status == 400
    assert client.request("POST", "/push", body).json()["code"] == 1
    assert client.get("/healthz").status == 200


def test_p8_batch_jobs(laterd):
    with Client(laterd({"limits": {"batch_jobs": 5}}).port) as client:
        assert client.post("/v1/topics/t/jobs", [{"body": 1}] * 5).status in (200, 201, 207)
        answer = client.post("/v1/topics/t/jobs", [{"body": 1}] * 6)
        assert "limits.batch_jobs" in answer.text
        names(client.post("/v1/reserve", topics=["t"], max=6), 400, "limits.batch_jobs")
        assert len(client.reserve("t", most=5)) == 5


def test_a_batch_of_more_jobs_than_an_engine_does_at_once_is_done(laterd):
    with Client(laterd({"limits": {"batch_jobs": 10000}, "redis": ONE}).port) as client:
        for _ in range(2):
            answer = client.post("/v1/topics/t/jobs", [{"body": 1}] * 9000)
            assert answer.status in (200, 201, 207), answer
            assert answer.json()["failed"] == 0, answer.text[:300]
        assert client.get("/v1/topics/t").json()["ready"] == 18000


def test_p8_reserve_topics(laterd):
    with Client(laterd({"limits": {"reserve_topics": 2}}).port) as client:
        assert client.reserve("a", "b") == []
        names(client.post("/v1/reserve", topics=["a", "b", "c"]), 400, "limits.reserve_topics")
        assert "limits.reserve_topics" in client.post("/pop", topic="a,b,c").text


def test_p8_connections(laterd):
    server = laterd({"limits": {"connections": 3}})
    first = [Wire(server.port) for _ in range(3)]
    for wire in first:
        wire.send(request_bytes("GET", "/healthz"))
        assert wire.response().status == 200
    with Wire(server.port) as fourth:
        fourth.send(request_bytes("GET", "/healthz"))
        names(fourth.response(), 503, "limits.connections")
        assert fourth.closed()
    first.pop().close()

    def again():
        with Client(server.port) as client:
            return client.get("/healthz").status == 200
    assert eventually(again)
    for wire in first:
        wire.close()


def test_p8_line(laterd):
    with Wire(laterd({"limits": {"line_bytes": 200}}).port) as wire:
        wire.send(request_bytes("GET", "/v1/jobs/" + "x" * 300))
        names(wire.response(), 414, "limits.line_bytes", "line_too_long")
        assert wire.closed()


def test_p8_headers(laterd):
    server = laterd({"limits": {"headers": 16}})
    with Wire(server.port) as wire:
        wire.send(request_bytes("GET", "/healthz", headers={f"X-{n}": "a" for n in range(20)}))
        names(wire.response(), 431, "limits.headers", "headers_too_large")
        assert wire.closed()


def test_p8_header_bytes(laterd):
    server = laterd({"limits": {"header_bytes": 512}})
    for headers in ({"X": "a" * 600}, {"X" * 600: "a"}, {f"X-{n}": "a" * 90 for n in range(9)}):
        with Wire(server.port) as wire:
            wire.send(request_bytes("GET", "/healthz", headers=headers))
            names(wire.response(), 431, "limits.header_bytes", "headers_too_large")
            assert wire.closed()


def test_p8_wait(laterd):
    with Client(laterd({"limits": {"wait_seconds": "1s"}}).port) as client:
        answer = client.post("/v1/reserve", topics=["t"], wait="1h")
        if answer.status == 400:
            assert "limits.wait_seconds" in answer.text
        else:
            assert answer.status == 204


@pytest.mark.embedded("Redis keeps its own files")
def test_p8_disk(laterd):
    server = laterd({"store": {"segment_bytes": "256K", "max_bytes": "2M"}})
    with Client(server.port) as client:
        ids, answer = [], None
        for _ in range(400):
            answer = client.push("t", body="x" * 10_000, delay="1h")
            if answer.status != 201:
                break
            ids.append(answer.json()["id"])
        names(answer, (429, 503, 507), "store.max_bytes")
        assert len(ids) > 50
        for job_id in ids:
            assert client.job(job_id, method="DELETE").status in (200, 204)
        assert eventually(lambda: client.push("t", body="x").status == 201), "room came back"


@pytest.mark.parametrize("topic_bytes, status", [(200, 201), (201, 400)])
def test_p8_topic_names_are_bounded(client, topic_bytes, status):
    assert client.push("n" * topic_bytes, body="x").status == status


def test_p8_one_answer_takes_no_gigabyte(shared):
    """However many large jobs are asked for: a bounded part of them comes, the rest later."""
    body = "b" * 1_000_000
    with Client(shared.port) as client:
        for _ in range(20):
            assert client.push("large", body=body, ttr="10m").status == 201
        left = 20
        while left:
            jobs = client.reserve("large", most=20)
            assert 1 <= len(jobs) <= 2
            left -= len(jobs)


def test_the_limits_that_clients_need_can_be_read(laterd):
    server = laterd({"limits": {"batch_jobs": 7, "body_bytes": "3K", "request_bytes": "10K",
                                "reserve_topics": 5, "wait_seconds": "2m", "ttr_seconds": "1h"},
                     "beanstalk": {"job_bytes": 99}})
    with Client(server.port) as client:
        limits = client.get("/v1/limits").json()
        assert limits["batch_jobs"] == limits["reserve_max"] == limits["list_limit"] == 7
        assert limits["body_bytes"] == 3072 and limits["request_bytes"] == 10240
        assert limits["reserve_topics"] == 5 and limits["wait_ms"] == 120_000
        assert limits["ttr_ms"] == 3_600_000 and limits["default_ttr_ms"] == 60_000
        assert limits["id_bytes"] == 255 and limits["topic_bytes"] == 200
        assert limits["beanstalk_job_bytes"] == 99
        assert client.post("/v1/limits").status == 405


def test_errors_of_limits_have_the_limits_value(laterd):
    server = laterd({"limits": {"batch_jobs": 2, "body_bytes": 10, "request_bytes": 1000, "jobs": 1,
                                "reserve_topics": 2, "wait_seconds": "2s", "ttr_seconds": "1h",
                                "json_depth": 4, "line_bytes": 100, "headers": 16},
                     "redis": ONE},
                    listeners=["127.0.0.1:0", "127.0.0.1:0,delayqueue-java"])

    def detail(answer):
        return answer.json().get("detail") or answer.text

    with Client(server.port) as client, Client(server.ports[1]) as java:
        assert detail(client.push("t", body="x" * 11)) == \
            "the body has 11 bytes; limits.body_bytes is 10"
        assert "the body has 11 bytes; limits.body_bytes is 10" in \
            client.call("/push", id="i", topic="t", delay=1, ttr=1, body="x" * 11)[1]
        form = "topic=t&delayTime=1&ttrTime=1&message=" + "x" * 11
        assert "the body has 11 bytes; limits.body_bytes is 10" in java.post("/push?" + form).text
        assert detail(client.post("/v1/topics/t/jobs", [{}] * 3)) == \
            "the batch has 3 jobs; limits.batch_jobs is 2"
        assert detail(client.post("/v1/finish", jobs=[{"id": "a"}] * 3)) == \
            "the batch has 3 jobs; limits.batch_jobs is 2"
        for answer, end in [
                (client.post("/v1/reserve", topics=["a", "b", "c"]), "limits.reserve_topics, which is 2"),
                (client.post("/v1/reserve", topics=["a"], wait="3s"), "limits.wait_seconds, which is 2s"),
                (client.post("/v1/reserve", topics=["a"], max=3), "limits.batch_jobs, which is 2"),
                (client.post("/v1/finish", jobs=[{"id": "a"}] * 3), "limits.batch_jobs is 2"),
                (client.push("t", ttr="2h"), "limits.ttr_seconds, which is 3600s"),
                (client.push("t", body=[[[[[]]]]]), "limits.json_depth, which is 4"),
                (client.get("/v1/topics?limit=3"), "limits.batch_jobs, which is 2"),
                (client.post("/v1/reserve", "x" * 1001),
                 "limits.request_bytes: it has 1001 bytes, the limit is 1000"),
                (client.get("/" + "a" * 100), "limits.line_bytes, which is 100"),
                (client.request("GET", "/", b"", {f"X-{n}": "1" for n in range(16)}),
                 "limits.headers, which is 16")]:
            assert detail(answer).endswith(end), answer
            key = answer.json().get("config_key")
            assert key == re.search(r"limits\.\w+", end).group() or answer.status in (414, 431), answer
        for answer in (client.post("/v1/reserve", topics=["a"], max=0), client.get("/v1/topics?limit=0")):
            assert answer.status == 400 and "config_key" not in answer.json(), answer
        assert client.push("t", body="x", delay="1h").status == 201
        assert detail(client.push("t", body="x")).endswith("; the limit is 1")
        assert "; the limit is 1" in client.call("/push", id="i", topic="t", delay=1, ttr=1)[1]
        assert "; the limit is 1" in java.post("/push?" + form[:-5]).text
