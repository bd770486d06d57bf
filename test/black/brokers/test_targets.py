"""Topics whose target is a stream or list of Redis, or a subject of NATS: the real laterd, the real
brokers, which are killed under load. Kafka has no broker here: its plugin is tested with librdkafka's
mock cluster (test/unit/sink/kafka_test.c), and its topic's settings below."""

import os
import signal
import time

import pytest

from nats import INSTALLED, Nats
from patience import soon
from process import ROOT, Laterd
from redis import Redis, wait_until
from wire import Client, eventually

JOBS = 400

needs_nats = pytest.mark.skipif(
    not INSTALLED or not os.path.exists(os.path.join(ROOT, "build", "laterd-nats.so")),
    reason="nats-server or libnats is not installed")


@pytest.fixture
def broker():
    with Redis(appendonly="yes", appendfsync="always") as server:
        yield server


@pytest.fixture
def laterd_to(tmp_path):
    """laterd_to(NAME, type, url): a laterd with that broker, and a client of it."""
    started = []

    def make(name, kind, url, **keys):
        server = Laterd(tmp_path, {f"broker.{name}": {"type": kind, "url": url, **keys}})
        started.append(server)
        server.start()
        started.append(Client(server.port))
        return server, started[-1]
    yield make
    for one in reversed(started):
        (one.close if isinstance(one, Client) else one.kill)()


def set_target(client, topic, /, **target):
    answer = client.request("PUT", f"/v1/topics/{topic}", {"target": target, "retry": ["1s"] * 30})
    assert answer.status in (200, 201), answer


def left(client, topic):
    answer = client.get(f"/v1/topics/{topic}").json()
    return sum(answer[state] for state in ("delayed", "ready", "reserved", "buried"))


def push(client, topic, first, count):
    for begin in range(first, first + count, 100):
        results = client.push_many(topic, [{"id": f"o{i}", "body": f"body {i}"}
                                           for i in range(begin, min(begin + 100, first + count))])
        assert all(result["status"] == 201 for result in results), results


def entries(broker, key="orders"):
    """What is in the stream: one dictionary of its fields for each entry."""
    found = []
    for _, fields in broker.call("XRANGE", key, "-", "+"):
        words = [field.decode() for field in fields]
        found.append(dict(zip(words[::2], words[1::2])))
    return found


def test_a_stream_gets_each_job_with_its_fields(broker, laterd_to):
    _, client = laterd_to("cache", "redis", broker.url)
    set_target(client, "pay", type="redis", broker="cache", kind="stream", key="orders",
               headers={"X-Shop": "7"})
    client.push("pay", id="o-1", body="hello", content_type="text/plain")
    wait_until(lambda: left(client, "pay") == 0)
    [entry] = entries(broker)
    assert entry["body"] == "hello" and entry["id"] == "o-1" and entry["topic"] == "pay"
    assert entry["content_type"] == "text/plain" and entry["header:X-Shop"] == "7"
    assert entry["attempt"] == "1" and entry["message_id"] and "." not in entry["message_id"]


def test_redis_is_logged_in_to_with_a_password_that_was_replaced(broker, laterd_to, tmp_path):
    def write(password):
        (tmp_path / "new").write_text(f"redis://:{password}@127.0.0.1:{broker.port}/0\n", encoding="utf-8")
        os.rename(tmp_path / "new", tmp_path / "url")

    def replace(password):
        broker.call("CONFIG", "SET", "requirepass", password)
        broker.password = password
        broker.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    replace("0ld")
    write("0ld")
    laterd, client = laterd_to("cache", "redis", f"file:{tmp_path}/url")
    set_target(client, "pay", type="redis", broker="cache", kind="list", key="bodies")
    push(client, "pay", 0, 1)
    wait_until(lambda: left(client, "pay") == 0)
    os.remove(tmp_path / "url")
    replace("n3w")
    push(client, "pay", 1, 1)
    wait_until(lambda: laterd.events("broker_url_unread"))
    assert left(client, "pay") == 1
    write("n3w")
    wait_until(lambda: left(client, "pay") == 0)
    assert broker.call("LRANGE", "bodies", 0, -1) == [b"body 1", b"body 0"]
    assert not any(password in line for line in laterd.lines for password in ("0ld", "n3w"))


def test_a_list_gets_the_bodies(broker, laterd_to):
    _, client = laterd_to("cache", "redis", broker.url)
    set_target(client, "pay", type="redis", broker="cache", kind="list", key="work")
    push(client, "pay", 0, 50)
    wait_until(lambda: left(client, "pay") == 0)
    assert sorted(broker.call("LRANGE", "work", 0, -1)) == sorted(b"body %d" % i for i in range(50))


def test_metrics_are_of_each_broker(broker, laterd_to):
    server, client = laterd_to("one", "redis", broker.url)
    server.kill()
    server.config["broker.two"] = dict(server.config["broker.one"])
    server.start()
    with Client(server.port) as client:
        def both_are_connected():
            text = client.get("/metrics").text
            return all(f'laterd_broker_connects_total{{broker="{name}"}} 1' in text for name in ("one", "two"))

        assert eventually(both_are_connected)
        lines = client.get("/metrics").text.splitlines()
    family = [i for i, line in enumerate(lines) if "laterd_broker_connects_total" in line]
    assert family == list(range(family[0], family[0] + 4)), "HELP, TYPE, and one of each"
    assert lines[family[2]] == 'laterd_broker_connects_total{broker="one"} 1'


def test_a_key_of_another_type_buries_the_job_with_redis_reason(broker, laterd_to):
    _, client = laterd_to("cache", "redis", broker.url)
    broker.call("SET", "orders", "text")
    set_target(client, "pay", type="redis", broker="cache", kind="stream", key="orders")
    client.push("pay", id="o-1", body="hello")
    wait_until(lambda: client.get("/v1/topics/pay").json()["buried"] == 1)
    assert "WRONGTYPE" in client.get("/v1/jobs/o-1/attempts").text


def test_p2_nothing_is_lost_when_redis_is_killed_under_load(broker, laterd_to):
    _, client = laterd_to("cache", "redis", broker.url, timeout="2s")
    set_target(client, "pay", type="redis", broker="cache", kind="stream", key="orders")
    push(client, "pay", 0, JOBS // 2)
    broker.kill()
    push(client, "pay", JOBS // 2, JOBS // 2)
    time.sleep(0.3)  # it is tried meanwhile
    broker.start()
    wait_until(lambda: left(client, "pay") == 0, 20)
    found = [entry["id"] for entry in entries(broker)]
    assert set(found) == {f"o{i}" for i in range(JOBS)}
    attempts = [int(entry["attempt"]) for entry in entries(broker)]
    assert max(attempts) == 1  # that it was away was nobody's attempt


def test_a_full_redis_keeps_the_jobs_waiting(broker, laterd_to):
    _, client = laterd_to("cache", "redis", broker.url)
    broker.call("CONFIG", "SET", "maxmemory", "1")
    set_target(client, "pay", type="redis", broker="cache", kind="list", key="work")
    push(client, "pay", 0, 20)
    time.sleep(0.5)
    assert left(client, "pay") == 20
    assert client.get("/v1/topics/pay").json()["buried"] == 0
    broker.call("CONFIG", "SET", "maxmemory", "0")
    wait_until(lambda: left(client, "pay") == 0)
    assert broker.call("LLEN", "work") == 20


def test_p6_the_end_does_not_wait_for_a_redis_that_is_frozen(broker, laterd_to):
    """The sink has no thread that could hang: its jobs are given back at once."""
    server, client = laterd_to("cache", "redis", broker.url, timeout="30s")
    server.kill()
    server.config["server"] = {"drain_seconds": "0s"}
    server.start()
    client = Client(server.port)
    set_target(client, "t", type="redis", broker="cache", kind="list", key="l")
    push(client, "t", 0, 1)
    assert eventually(lambda: left(client, "t") == 0)
    broker.freeze()
    try:
        push(client, "t", 1, 20)
        assert eventually(lambda: client.get("/v1/topics/t").json()["reserved"] > 0)
        begun = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        soon(time.monotonic() - begun, 3)
        assert server.events("stopped") and not server.events("ended_beside_thread")
        server.start()
        with Client(server.port) as again:
            state = again.get("/v1/topics/t").json()
            assert state["ready"] + state["reserved"] == 20, state
            assert all(again.get(f"/v1/jobs/o{i}").json()["failures"] == 0 for i in range(1, 21))
    finally:
        broker.thaw()


@needs_nats
def test_p2_nothing_is_lost_or_doubled_when_nats_is_killed_under_load(laterd_to):
    with Nats() as nats:
        nats.make_stream("ORDERS", "orders.>")
        _, client = laterd_to("bus", "nats", nats.url, timeout="2s")
        set_target(client, "pay", type="nats", broker="bus", subject="orders.{topic}")
        push(client, "pay", 0, JOBS // 2)
        nats.kill()
        push(client, "pay", JOBS // 2, JOBS // 2)
        nats.start()
        wait_until(lambda: left(client, "pay") == 0, 20)
        assert nats.messages("ORDERS") == JOBS  # what was sent twice has its Nats-Msg-Id


@needs_nats
def test_without_a_stream_the_attempts_say_how_to_make_one(laterd_to):
    with Nats() as nats:
        _, client = laterd_to("bus", "nats", nats.url)
        answer = client.request("PUT", "/v1/topics/pay", {
            "target": {"type": "nats", "broker": "bus", "subject": "orders.paid"}, "attempts": 1})
        assert answer.status in (200, 201), answer
        client.push("pay", id="o-1", body="hello")
        wait_until(lambda: client.get("/v1/topics/pay").json()["buried"] == 1)
        shown = client.get("/v1/jobs/o-1/attempts").text
        assert "nats stream add NAME --subjects orders.paid" in shown


def test_kafka_away_keeps_the_jobs(laterd_to):
    if not os.path.exists(os.path.join(ROOT, "build", "laterd-kafka.so")):
        pytest.skip("librdkafka is not installed")
    server, client = laterd_to("events", "kafka", "kafka://127.0.0.1:1")
    set_target(client, "pay", type="kafka", broker="events", topic="orders")
    push(client, "pay", 0, 10)
    time.sleep(1)
    assert left(client, "pay") == 10
    assert client.get("/v1/topics/pay").json()["buried"] == 0
    assert server.stop() == 0
