"""[amqp_in.NAME] against a RabbitMQ that the test plays, and a slow disk: when messages are acknowledged, when it
consumes again, and what becomes of those under way at a stop."""

import os
import time

import pytest

from process import LATERD
from push import preloaded
from wire import Client, eventually

spec = pytest.importorskip("pika").spec
from fake_rabbit import FakeRabbit  # noqa: E402

pytestmark = [
    pytest.mark.embedded("it is about RabbitMQ and a slow disk"),
    pytest.mark.skipif(not os.path.exists(os.path.join(os.path.dirname(LATERD), "laterd-amqp.so")),
                       reason="needs librabbitmq when it was built")]

HOUR = {"x-delay": 3600000}
SLOW_MS = 4000


@pytest.fixture
def rabbit():
    with FakeRabbit() as made:
        yield made


@pytest.fixture
def slow(laterd, rabbit, tmp_path):
    """Starts a laterd whose disk can be made slow: server, and how."""
    disk = tmp_path / "disk"

    def start(**limits):
        server = laterd({"broker.rabbit": {"type": "amqp", "url": rabbit.url}, "limits": limits,
                         "amqp_in.slow": {"broker": "rabbit", "queue": "laterd.in", "topic": "slow",
                                          "prefetch": 4}},
                        environment={**preloaded("slow_sync", str(tmp_path)), "SLOW_SYNC_FILE": str(disk)})
        assert isinstance(rabbit.calls_until(spec.Basic.Consume)[-1], spec.Basic.Consume)
        return server

    def make_slow(server):
        """From now on laterd's thread for the disk makes the commits, which take long."""
        with Client(server.port) as client:
            disk.write_text("20")
            client.push("other", body="x")
            disk.write_text(str(SLOW_MS))

    return start, make_slow


def settled(calls):
    """[(tag, how)] of all messages that these calls settle, in order."""
    found, last = [], 0
    for call in calls:
        if isinstance(call, spec.Basic.Ack):
            first = last + 1 if call.multiple else call.delivery_tag
            found += [(tag, "stored") for tag in range(first, call.delivery_tag + 1)]
            last = call.delivery_tag
        elif isinstance(call, spec.Basic.Reject):
            found.append((call.delivery_tag, "later" if call.requeue else "refused"))
            last = call.delivery_tag
    return found


def test_p2_it_consumes_again_only_when_all_messages_are_settled(slow, rabbit):
    start, make_slow = slow
    server = start(jobs=4)
    make_slow(server)
    begun = time.monotonic()
    for number in range(4):  # three have a place, the fourth has none
        rabbit.deliver(b"%d" % number, HOUR)
    calls = rabbit.calls_until(spec.Basic.Cancel)
    assert not settled(calls)  # the disk has none of them yet
    rabbit.answer_cancel()
    calls = rabbit.calls_until(spec.Basic.Consume)
    assert settled(calls) == [(1, "stored"), (2, "stored"), (3, "stored"), (4, "later")]
    assert isinstance(calls[-1], spec.Basic.Consume)
    assert time.monotonic() - begun >= SLOW_MS / 1000 - 0.5  # the pause alone is a second


def test_it_does_not_consume_again_while_a_cancel_is_not_answered(slow, rabbit):
    start, _ = slow
    start(jobs=1)
    rabbit.deliver(b"0", HOUR)
    rabbit.deliver(b"1", HOUR)
    calls = rabbit.calls_until(spec.Basic.Reject)
    assert settled(calls) == [(1, "stored"), (2, "later")]
    end = time.monotonic() + 2
    while time.monotonic() < end:
        assert not isinstance(rabbit.call(0.1), spec.Basic.Consume)
    rabbit.answer_cancel()
    assert isinstance(rabbit.calls_until(spec.Basic.Consume)[-1], spec.Basic.Consume)


def test_p2_a_broker_that_sends_more_than_the_prefetch_loses_nothing(slow, rabbit):
    start, make_slow = slow
    server = start()
    make_slow(server)
    rabbit.deliver_all([b"%d" % number for number in range(20)], HOUR)
    assert server.wait_log("amqp_in_away")
    assert "does not keep to the prefetch" in server.events("amqp_in_away")[0][1]
    assert not settled(rabbit.calls_until(type(None)))


def test_what_is_becoming_a_job_at_a_stop_is_acknowledged_and_not_sent_again(slow, rabbit):
    start, make_slow = slow
    server = start()
    make_slow(server)
    for number in range(3):
        rabbit.deliver(b"%d" % number, HOUR)
    with Client(server.port) as client:
        pushes = 'laterd_commands_total{protocol="server",command="push"} 3'
        assert eventually(lambda: pushes in client.get("/metrics").text)
    server.signal(15)
    assert server.wait_log("draining")
    late = rabbit.deliver(b"late", HOUR)
    calls = rabbit.calls_until(spec.Connection.Close)
    assert server.wait() == 0
    assert settled(calls)[:3] == [(1, "stored"), (2, "stored"), (3, "stored")]
    assert settled(calls)[3:] in ([], [(late, "later")])  # RabbitMQ brings it to the next one
