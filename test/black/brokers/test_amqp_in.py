"""[amqp_in.NAME], which replaces RabbitMQ's delayed-message plugin, against a real RabbitMQ with a stock client:
the steps of docs/migrate-delayed-message-plugin.md, and what is kept when laterd is killed."""

import decimal
import subprocess
import time

import pytest

from long_turns import turns_stay_short
from patience import PATIENCE_S
from process import LATER
from redis import Redis
from wire import Client, eventually

pika = pytest.importorskip("pika")
from rabbit import NEEDED, a_channel, a_rabbit  # noqa: E402,F401

pytestmark = [
    pytest.mark.embedded("it is about RabbitMQ; the engine is that of the other tests"),
    NEEDED]


def migrated(channel, name):
    """Steps 1 to 3 of the page: NAME is a fanout into laterd's queue, NAME.due has the type and bindings that NAME had."""
    channel.queue_declare(f"{name}.laterd", durable=True)
    channel.exchange_declare(f"{name}.due", "direct", durable=True)
    channel.queue_declare(f"{name}.work", durable=True)
    channel.queue_bind(f"{name}.work", f"{name}.due", "paid")
    channel.exchange_declare(name, "fanout", durable=True)
    channel.queue_bind(f"{name}.laterd", name)
    channel.confirm_delivery()


def config(rabbit, name, **more):
    return {"broker.rabbit": {"type": "amqp", "url": rabbit.url},
            f"amqp_in.{name}": {"broker": "rabbit", "queue": f"{name}.laterd", "topic": name, **more}}


def publish(channel, exchange, headers=None, body=b"x", key="paid", **properties):
    channel.basic_publish(exchange, key, body, pika.BasicProperties(headers=headers, delivery_mode=2, **properties))


def received(channel, queue, count):
    """Bodies and properties of so many messages, in the order in which they came."""
    got, end = [], time.monotonic() + PATIENCE_S
    while len(got) < count:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method:
            got.append((method, properties, body))
        else:
            assert time.monotonic() < end, f"{len(got)} of {count} came"
            channel.connection.sleep(0.02)
    return got


def waiting(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def state(client, job):
    answer = client.get(f"/v1/jobs/{job}")
    return answer.json()["state"] if answer.status == 200 else None


def test_a_message_goes_on_when_its_delay_is_over_with_all_it_had(rabbit, channel, laterd):
    migrated(channel, "orders")
    laterd(config(rabbit, "orders"))
    headers = {"x-delay": 300, "n": 7, "deep": {"list": [1, "two"], "d": decimal.Decimal("1.25")}}
    begun = time.monotonic()
    publish(channel, "orders", headers, b"\x00body\xff", message_id="m-1", correlation_id="c", priority=3,
            content_type="text/plain", reply_to="back", expiration="60000", type="t", app_id="shop",
            timestamp=1700000000, content_encoding="utf-8")
    (method, properties, body), = received(channel, "orders.work", 1)
    assert time.monotonic() - begun >= 0.29, "not before its time"
    assert body == b"\x00body\xff" and method.exchange == "orders.due" and method.routing_key == "paid"
    assert properties.headers == {**headers, "x-delay": -300}
    assert (properties.message_id, properties.correlation_id, properties.priority, properties.reply_to,
            properties.expiration, properties.type, properties.app_id, properties.timestamp,
            properties.content_type, properties.content_encoding, properties.delivery_mode) == (
                "m-1", "c", 3, "back", "60000", "t", "shop", 1700000000, "text/plain", "utf-8", 2)
    assert eventually(lambda: waiting(channel, "orders.laterd") == 0)


@pytest.mark.serial
@pytest.mark.deadline
def test_large_messages_make_no_turn_long(rabbit, channel, laterd):
    """Their bodies are copied by other threads, on their way in and on their way out."""
    migrated(channel, "large")
    server = laterd({**config(rabbit, "large"), "server": {"turn_cpu": 1},
                     "limits": {"body_bytes": "32M", "request_bytes": "64M"}})
    body = b"%08d" % 7 * (4 << 20)

    def play():
        for _ in range(2):
            publish(channel, "large", {"x-delay": 300}, body)
            (_, _, got), = received(channel, "large.work", 1)
            assert got == body
    turns_stay_short(server, play)


def test_a_content_type_with_control_characters_is_not_the_jobs_but_goes_on(rabbit, channel, laterd):
    migrated(channel, "types")
    server = laterd(config(rabbit, "types"))
    for name, kind in (("good", "text/plain"), ("bad", "a\r\nX-Evil: 1")):
        publish(channel, "types", {"x-delay": 3600000, "x-laterd-id": name}, name.encode(), content_type=kind)
    with Client(server.port) as client:
        assert eventually(lambda: state(client, "good") and state(client, "bad"))
        assert client.get("/v1/jobs/good").json()["content_type"] == "text/plain"
        assert "content_type" not in client.get("/v1/jobs/bad").json()
        for name in ("good", "bad"):
            assert client.post(f"/v1/jobs/{name}/run").status == 200
    got = {body: properties.content_type for _, properties, body in received(channel, "types.work", 2)}
    assert got == {b"good": "text/plain", b"bad": "a\r\nX-Evil: 1"}


def test_shorter_delays_overtake_and_none_is_at_once(rabbit, channel, laterd):
    migrated(channel, "mixed")
    server = laterd(config(rabbit, "mixed"))
    publish(channel, "mixed", {"x-delay": 3600000, "x-laterd-id": "last"}, b"last")
    publish(channel, "mixed", {"x-delay": "400"}, b"first")
    got = received(channel, "mixed.work", 1)
    publish(channel, "mixed", {"x-delay": 1800000, "x-laterd-id": "later"}, b"later")
    for body, delay in ((b"negative", -5), (b"zero", 0), (b"word", "soon")):
        publish(channel, "mixed", {"x-delay": delay}, body)
    publish(channel, "mixed", None, b"bare")
    got += received(channel, "mixed.work", 4)
    with Client(server.port) as client:
        for name in ("later", "last"):
            assert state(client, name) == "delayed"
            assert client.post(f"/v1/jobs/{name}/run").status == 200
            got += received(channel, "mixed.work", 1)
    assert [body for _, _, body in got][0] == b"first" and [body for _, _, body in got][5:] == [b"later", b"last"]
    assert {body: (properties.headers or {}).get("x-delay") for _, properties, body in got} == {
        b"last": -3600000, b"later": -1800000, b"first": -400, b"negative": -5, b"zero": 0, b"word": "soon",
        b"bare": None}


def test_a_message_with_an_id_is_replaced_and_cancelled(rabbit, channel, laterd):
    migrated(channel, "named")
    server = laterd(config(rabbit, "named"))
    publish(channel, "named", {"x-delay": 60000, "x-laterd-id": "a"}, b"old")
    publish(channel, "named", {"x-delay": 60000, "x-laterd-id": "b"}, b"cancelled")
    publish(channel, "named", {"x-delay": 200, "x-laterd-id": "a"}, b"new")
    publish(channel, "named", {"x-delay": 1, "x-laterd-id": "b", "x-laterd-if-exists": "keep"}, b"ignored")
    publish(channel, "named", {"x-laterd-id": "b", "x-laterd-cancel": True})
    (_, _, body), = received(channel, "named.work", 1)
    assert body == b"new"
    with Client(server.port) as client:
        assert eventually(lambda: state(client, "b") is None and state(client, "a") is None)
    assert waiting(channel, "named.work") == 0 == waiting(channel, "named.laterd")


def test_what_can_be_no_job_goes_to_the_dead_letters_of_its_queue(rabbit, channel, laterd):
    channel.queue_declare("dead")
    channel.queue_declare("strict.laterd", durable=True,
                          arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    migrated_but_queue = {"limits": {"body_bytes": "1K"}, **config(rabbit, "strict")}
    channel.exchange_declare("strict", "fanout")
    channel.queue_bind("strict.laterd", "strict")
    channel.confirm_delivery()
    server = laterd(migrated_but_queue)
    publish(channel, "strict", {"x-delay": 1}, b"x" * 200000)
    publish(channel, "strict", {"x-laterd-cancel": True}, b"of what?")
    publish(channel, "strict", {"x-delay": 1, "big": "x" * 4000}, b"too many headers")
    assert [len(body) for _, _, body in received(channel, "dead", 3)] == [200000, 8, 16]
    with Client(server.port) as client:
        assert 'intake_messages_total{verdict="refused"} 3' in client.get("/metrics").text


def test_what_no_queue_takes_when_it_is_due_is_kept_with_the_reason(rabbit, channel, laterd):
    migrated(channel, "astray")
    server = laterd(config(rabbit, "astray"))
    publish(channel, "astray", {"x-delay": 1, "x-laterd-id": "lost"}, key="nowhere")
    with Client(server.port) as client:
        assert eventually(lambda: state(client, "lost") == "delayed" and
                   "NO_ROUTE" in client.get("/v1/jobs/lost/attempts").text)
        channel.queue_bind("astray.work", "astray.due", "nowhere")
        assert client.post("/v1/jobs/lost/run").status in (200, 404)  # 404: its next attempt was sooner
    assert received(channel, "astray.work", 1)


def test_while_the_store_takes_no_jobs_the_queue_keeps_them(rabbit, channel, laterd):
    migrated(channel, "full")
    server = laterd({"limits": {"jobs": 3}, **config(rabbit, "full")})
    for i in range(6):
        publish(channel, "full", {"x-delay": 3600000, "x-laterd-id": f"full-{i}"})
    with Client(server.port) as client:
        assert eventually(lambda: 'intake_messages_total{verdict="later"} 0' not in client.get("/metrics").text)
        assert eventually(lambda: waiting(channel, "full.laterd") == 3)
        for i in range(3):
            client.request("DELETE", f"/v1/jobs/full-{i}")
        assert eventually(lambda: waiting(channel, "full.laterd") == 0, 20)
        # The queue is empty when laterd has the messages, which is a little before they are jobs.
        assert eventually(lambda: sum(state(client, f"full-{i}") is not None for i in range(6)) == 3)


def test_it_works_on_the_redis_engine_too(rabbit, channel, laterd):
    migrated(channel, "shared")
    with Redis(appendonly="yes") as redis:
        engine = {"engine": {"engine": "redis"}, "redis": {"url": redis.url}}
        server = laterd({**engine, **config(rabbit, "shared")})
        for number in range(50):
            publish(channel, "shared", {"x-delay": 300, "x-number": number}, body=b"b%d" % number)
        publish(channel, "shared", {"x-delay": 3600000, "x-laterd-id": "shared-late"})
        with Client(server.port) as client:
            assert eventually(lambda: state(client, "shared-late") == "delayed")
            publish(channel, "shared", {"x-laterd-id": "shared-late", "x-laterd-cancel": True})
            assert eventually(lambda: state(client, "shared-late") is None)
        got = received(channel, "shared.work", 50)
        assert {body for _, _, body in got} == {b"b%d" % number for number in range(50)}
        assert all(properties.headers["x-delay"] == -300 for _, properties, _ in got)
        server.kill()


def test_an_export_brings_along_where_a_message_goes_and_all_it_had(rabbit, channel, laterd):
    migrated(channel, "moved")
    old = laterd(config(rabbit, "moved"))
    publish(channel, "moved", {"x-delay": 3600000, "x-laterd-id": "moved-1", "n": 7}, b"body", message_id="m-1")
    with Client(old.port) as client:
        assert eventually(lambda: state(client, "moved-1") == "delayed")
    new = laterd({"broker.rabbit": {"type": "amqp", "url": rabbit.url}})
    text = subprocess.run([LATER, "-s", f"127.0.0.1:{old.port}", "export"], check=True, capture_output=True).stdout
    subprocess.run([LATER, "-s", f"127.0.0.1:{new.port}", "import"], check=True, capture_output=True, input=text)
    old.kill()
    with Client(new.port) as client:
        assert client.post("/v1/jobs/moved-1/run").status == 200
    (method, properties, body), = received(channel, "moved.work", 1)
    assert (method.exchange, method.routing_key, body) == ("moved.due", "paid", b"body")
    assert properties.message_id == "m-1" and properties.headers["n"] == 7


def test_p2_nothing_is_lost_when_laterd_is_killed_under_load(rabbit, channel, laterd, tmp_path):
    migrated(channel, "load")
    server = laterd(config(rabbit, "load"), folder=tmp_path / "killed")
    total = 3000
    for i in range(total):
        publish(channel, "load", {"x-delay": 50 + i % 400}, b"%d" % i)
        if i % 1000 == 500:
            server.kill()
            server = laterd(config(rabbit, "load"), folder=tmp_path / "killed")
    seen = {}
    end = time.monotonic() + 3 * PATIENCE_S
    while len(seen) < total and time.monotonic() < end:
        method, _, body = channel.basic_get("load.work", auto_ack=True)
        if method:
            seen[int(body)] = seen.get(int(body), 0) + 1
    assert len(seen) == total, f"{total - len(seen)} were lost"
    print("duplicates:", sum(seen.values()) - total)
