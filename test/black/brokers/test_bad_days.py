"""What becomes of jobs while RabbitMQ has a bad day: an alarm, an exchange that is deleted, a queue that is full.
The real laterd and a real RabbitMQ; the sink alone is tried in test_amqp_sink.py."""

import pytest

from wire import Client, eventually

pytest.importorskip("pika")
from rabbit import NEEDED, a_channel, a_rabbit  # noqa: E402,F401

pytestmark = [
    pytest.mark.embedded("it is about RabbitMQ; the engine is that of the other tests"),
    NEEDED]

ALARM = "{resource_limit, memory, node()}"


@pytest.fixture(name="push_timeout")
def a_timeout_that_nothing_takes():
    return "5m"


@pytest.fixture(name="pushing")
def a_client(rabbit, laterd, push_timeout):
    """A client of a laterd with this RabbitMQ as its broker `rabbit`."""
    server = laterd({"broker.rabbit": {"type": "amqp", "url": rabbit.url}, "push": {"timeout": push_timeout}})
    with Client(server.port) as client:
        yield client


def set_target(client, topic, exchange, key, retry):
    answer = client.request("PUT", f"/v1/topics/{topic}", {
        "target": {"type": "amqp", "broker": "rabbit", "exchange": exchange, "routing_key": key}, "retry": retry})
    assert answer.status in (200, 201), answer


def waiting(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def shown(client, job):
    """The job, with its attempts; None: it is finished."""
    answer = client.get(f"/v1/jobs/{job}")
    return answer.json() if answer.status == 200 else None


def attempts(client, job):
    return client.get(f"/v1/jobs/{job}/attempts").json()["attempts"]


@pytest.mark.parametrize("push_timeout", ["1s"])
def test_in_a_memory_alarm_jobs_are_held_and_none_has_failed(rabbit, channel, pushing, topic):
    channel.queue_declare(topic)
    set_target(pushing, topic, "", topic, ["1s"])
    rabbit.eval(f"rabbit_alarm:set_alarm({{{ALARM}, []}}).")
    try:
        # RabbitMQ tells a connection of its alarm when it publishes: the first job is under way by then.
        pushing.push(topic, id="first", body="x")
        assert eventually(lambda: pushing.get(f"/v1/topics/{topic}").json().get("held") == "sink")
        pushing.push(topic, id="second", body="x")
        assert eventually(lambda: shown(pushing, "first")["state"] == "ready"), "it came back at its time-out"
        assert [shown(pushing, job)["failures"] for job in ("first", "second")] == [0, 0]
        assert shown(pushing, "second")["state"] == "ready" and pushing.get(f"/v1/topics/{topic}").json()["buried"] == 0
    finally:
        rabbit.eval(f"rabbit_alarm:clear_alarm({ALARM}).")
    assert eventually(lambda: shown(pushing, "first") is None and shown(pushing, "second") is None)
    assert waiting(channel, topic) >= 2, "what RabbitMQ had not read may be there twice"


def test_jobs_of_an_exchange_that_is_deleted_fail_until_it_is_back(channel, pushing, topic):
    def declare():
        channel.exchange_declare(topic, "fanout")
        channel.queue_bind(topic, topic)

    channel.queue_declare(topic)
    declare()
    set_target(pushing, topic, topic, "k", ["200ms"] * 10 + ["2s"] * 50)
    for i in range(100):
        pushing.push(topic, id=f"o{i}", body=f"{i}")
        if i == 50:
            channel.exchange_delete(topic)
    assert eventually(lambda: "404 NOT_FOUND" in str(attempts(pushing, "o99")))
    declare()
    assert eventually(lambda: all(shown(pushing, f"o{i}") is None for i in range(100)))
    bodies = {channel.basic_get(topic, auto_ack=True)[2] for _ in range(waiting(channel, topic))}
    assert bodies == {b"%d" % i for i in range(100)}


def test_a_job_for_a_queue_that_is_full_is_buried_and_says_so(channel, pushing, topic):
    channel.queue_declare(topic, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    set_target(pushing, topic, "", topic, ["100ms", "100ms"])
    pushing.push(topic, id="fits", body="x")
    assert eventually(lambda: shown(pushing, "fits") is None)
    pushing.push(topic, id="over", body="x")
    assert eventually(lambda: shown(pushing, "over")["state"] == "buried")
    assert len(attempts(pushing, "over")) == 3
    assert all("a queue is full" in attempt["reason"] for attempt in attempts(pushing, "over"))
    channel.queue_purge(topic)
    assert pushing.post("/v1/jobs/over/kick").status == 200
    assert eventually(lambda: shown(pushing, "over") is None)
    assert waiting(channel, topic) == 1
