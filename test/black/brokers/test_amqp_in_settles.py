"""[amqp_in.NAME] against a RabbitMQ that the test plays, and a slow disk: when messages are acknowledged, when it
consumes again, and what becomes of those under way at a stop."""

import os
import socket
import threading
import time

import pytest

from patience import PATIENCE_S
from process import LATERD
from push import preloaded
from redis import Redis
from wire import Client, eventually

spec = pytest.importorskip("pika").spec
from fake_rabbit import FakeRabbit  # noqa: E402

pytestmark = [
    pytest.mark.embedded("it is about RabbitMQ and a slow disk"),
    pytest.mark.skipif(not os.path.exists(os.path.join(os.path.dirname(LATERD), "laterd-amqp.so")),
                       reason="needs librabbitmq when it was built")]

HOUR = {"x-delay": 3600000}


@pytest.fixture
def rabbit():
    with FakeRabbit() as made:
        yield made


@pytest.fixture
def slow(laterd, rabbit, tmp_path):
    """Starts a laterd whose disk can be held up: server; how; how it goes on."""
    disk = tmp_path / "disk"

    def say(text):
        (tmp_path / "next").write_text(text)
        os.replace(tmp_path / "next", disk)

    def start(prefetch=4, heartbeat="10s", **limits):
        server = laterd({"broker.rabbit": {"type": "amqp", "url": rabbit.url, "heartbeat": heartbeat}, "limits": limits,
                         "amqp_in.slow": {"broker": "rabbit", "queue": "laterd.in", "topic": "slow",
                                          "prefetch": prefetch}},
                        environment={**preloaded("slow_sync", str(tmp_path)), "SLOW_SYNC_FILE": str(disk)})
        assert isinstance(rabbit.calls_until(spec.Basic.Consume)[-1], spec.Basic.Consume)
        return server

    def hold(server):
        """From now on laterd's thread for the disk makes the commits, and none ends."""
        with Client(server.port) as client:
            say("20")
            client.push("other", body="x")
            say("hold")

    return start, hold, lambda: say("0")


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
    start, hold, go_on = slow
    server = start(jobs=4)
    hold(server)
    rabbit.deliver_all([b"%d" % number for number in range(4)], HOUR)  # three have a place, the fourth has none
    calls = rabbit.calls_until(spec.Basic.Cancel)
    assert not settled(calls)  # the disk has none of them yet
    rabbit.answer_cancel()
    assert rabbit.call(1.5) is None  # the pause is one second
    go_on()
    calls = rabbit.calls_until(spec.Basic.Consume)
    assert settled(calls) == [(1, "stored"), (2, "stored"), (3, "stored"), (4, "later")]
    assert isinstance(calls[-1], spec.Basic.Consume)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        words = file.read().rsplit(") ", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_it_sleeps_while_its_messages_take_all_the_memory_that_they_may(slow, rabbit):
    start, hold, go_on = slow
    server = start(prefetch=1000, heartbeat="4s")
    hold(server)
    body, each, rounds = b"x" * 131000, 10, 54  # 70.7 MB; 64 MiB may be under way
    same = {**HOUR, "x-laterd-id": "one", "x-laterd-if-exists": "keep"}  # so that one waits for the other

    def deliver():
        for _ in range(rounds):
            rabbit.deliver_all([body] * each, same)

    sender = threading.Thread(target=deliver, daemon=True)
    sender.start()
    time.sleep(2)  # it has read what it may
    before, heartbeats = cpu_seconds(server.pid), rabbit.heartbeats
    time.sleep(5)
    used, heartbeats = cpu_seconds(server.pid) - before, rabbit.heartbeats - heartbeats
    go_on()
    sender.join(PATIENCE_S)
    found = settled(rabbit.calls_until_tag(rounds * each))
    assert [tag for tag, how in found if how == "stored"] == list(range(1, rounds * each + 1))
    assert used < 0.5
    assert heartbeats  # else RabbitMQ ends the connection, and delivers all again


def test_it_does_not_consume_again_while_a_cancel_is_not_answered(slow, rabbit):
    start, _, _ = slow
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


def test_what_follows_a_message_that_was_put_back_waits_behind_it_if_it_has_its_id(slow, rabbit):
    start, _, _ = slow
    server = start(jobs=2)

    def deliver(body, job, **more):
        rabbit.deliver(body, {**HOUR, "x-laterd-id": job, **more})

    def end(client, job):
        assert client.request("DELETE", f"/v1/jobs/{job}").status in (200, 204)

    deliver(b"0", "first")
    deliver(b"1", "second")
    deliver(b"older", "a")  # there is no place for it
    calls = rabbit.calls_until(spec.Basic.Reject)
    assert settled(calls) == [(1, "stored"), (2, "stored"), (3, "later")]
    with Client(server.port) as client:
        end(client, "first")
        end(client, "second")
        deliver(b"newer", "a")  # the older one, which comes again, would replace it
        deliver(b"", "a", **{"x-laterd-cancel": True})
        deliver(b"other", "b")
        assert settled(rabbit.calls_until(spec.Basic.Ack)) == [(4, "later"), (5, "later"), (6, "stored")]
        rabbit.answer_cancel()
        rabbit.calls_until(spec.Basic.Consume)
        end(client, "b")
        deliver(b"older", "a")
        deliver(b"newer", "a")
        assert eventually(lambda: client.get("/v1/jobs/a").json().get("body") == "newer")
        deliver(b"", "a", **{"x-laterd-cancel": True})
        assert eventually(lambda: client.get("/v1/jobs/a").status == 404)


def test_on_redis_what_came_with_a_message_of_its_id_waits_for_the_answer_to_that(laterd, rabbit):
    def named(job, **more):
        return {**HOUR, "x-laterd-id": job, **more}

    with Redis(appendonly="yes") as redis:
        server = laterd({"engine": {"engine": "redis"}, "redis": {"url": redis.url, "partitions": 1},
                         "limits": {"jobs": 1}, "broker.rabbit": {"type": "amqp", "url": rabbit.url},
                         "amqp_in.slow": {"broker": "rabbit", "queue": "laterd.in", "topic": "slow"}})
        rabbit.calls_until(spec.Basic.Consume)
        rabbit.deliver(b"0", named("first"))
        assert settled(rabbit.calls_until(spec.Basic.Ack)) == [(1, "stored")]
        rabbit.deliver_all([b"older", b"newer", b""],  # Redis has no place for the first
                           [named("a"), named("a"), named("a", **{"x-laterd-cancel": True})])
        calls = []
        assert eventually(lambda: calls.append(rabbit.call(0.2)) or len(settled(calls)) == 3)
        assert settled(calls) == [(2, "later"), (3, "later"), (4, "later")]
        rabbit.answer_cancel()
        rabbit.calls_until(spec.Basic.Consume)
        with Client(server.port) as client:
            assert client.request("DELETE", "/v1/jobs/first").status in (200, 204)
            rabbit.deliver_all([b"older", b"newer"], [named("a"), named("a")])
            assert eventually(lambda: client.get("/v1/jobs/a").json().get("body") == "newer")
            rabbit.deliver_all([b"newest", b""], [named("a"), named("a", **{"x-laterd-cancel": True})])
            assert eventually(lambda: client.get("/v1/jobs/a").status == 404)
        server.kill()


def test_p2_a_broker_that_sends_more_than_the_prefetch_loses_nothing(slow, rabbit):
    start, hold, _ = slow
    server = start()
    hold(server)
    rabbit.deliver_all([b"%d" % number for number in range(20)], HOUR)
    assert server.wait_log("amqp_in_away")
    assert "does not keep to the prefetch" in server.events("amqp_in_away")[0][1]
    assert not settled(rabbit.calls_until(type(None)))


def test_what_is_becoming_a_job_at_a_stop_is_acknowledged_and_not_sent_again(slow, rabbit):
    start, hold, go_on = slow
    server = start()
    hold(server)
    rabbit.deliver_all([b"%d" % number for number in range(3)], HOUR)
    with Client(server.port) as client:
        pushes = 'laterd_commands_total{protocol="server",command="push"} 3'
        assert eventually(lambda: pushes in client.get("/metrics").text)
    server.signal(15)
    assert server.wait_log("draining")
    late = rabbit.deliver(b"late", HOUR)  # it is there still: it waits for the disk
    go_on()
    calls = rabbit.calls_until(spec.Connection.Close)
    assert server.wait() == 0
    assert settled(calls)[:3] == [(1, "stored"), (2, "stored"), (3, "stored")]
    assert settled(calls)[3:] in ([], [(late, "later")])  # RabbitMQ brings it to the next one


class Brief(FakeRabbit):
    """Ends each connection as soon as it is open."""

    def _take(self, connection, one):
        super()._take(connection, one)
        if isinstance(getattr(one, "method", None), spec.Connection.Open):
            connection.shutdown(socket.SHUT_RDWR)


def test_a_broker_that_ends_each_connection_at_once_is_connected_to_ever_less_often(laterd):
    with Brief() as rabbit:
        laterd({"broker.rabbit": {"type": "amqp", "url": rabbit.url}})
        assert eventually(lambda: rabbit.connections)
        time.sleep(4)
        # After pauses of 0.1 s, 0.2 s, 0.4 s …, not of 0.1 s each.
        assert 2 <= len(rabbit.connections) <= 7


def test_a_broker_that_ends_each_consumer_at_once_is_asked_ever_less_often(laterd, rabbit):
    laterd({"broker.rabbit": {"type": "amqp", "url": rabbit.url},
            "amqp_in.slow": {"broker": "rabbit", "queue": "laterd.in", "topic": "slow"}})
    end, count = time.monotonic() + 4, 0
    while time.monotonic() < end:
        if isinstance(rabbit.call(0.1), spec.Basic.Consume):
            count += 1
            rabbit.consumer.shutdown(socket.SHUT_RDWR)
    assert 2 <= count <= 7, count  # after pauses of 0.1 s, 0.2 s, 0.4 s …, not of 0.1 s each


class Deaf(FakeRabbit):
    """Of its first connection it reads nothing any more, once that consumes; and takes few bytes unread."""

    deaf = True

    def __init__(self):
        super().__init__()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)  # laterd's buffer is small with it

    def _take(self, connection, one):
        super()._take(connection, one)
        if isinstance(getattr(one, "method", None), spec.Basic.Consume) and self.deaf:
            self.deaf = False
            threading.Event().wait()  # of a thread that ends with the process


def test_a_broker_that_reads_nothing_is_left_and_connected_to_again(laterd):
    with Deaf() as rabbit:
        laterd({"broker.rabbit": {"type": "amqp", "url": rabbit.url, "timeout": "1s", "heartbeat": "60s"},
                "amqp_in.slow": {"broker": "rabbit", "queue": "laterd.in", "topic": "slow", "prefetch": 60000}})
        assert isinstance(rabbit.calls_until(spec.Basic.Consume)[-1], spec.Basic.Consume)
        rabbit.consumer.settimeout(PATIENCE_S)
        wrong = {"x-laterd-if-exists": "perhaps"}  # each is rejected by a frame of its own
        try:
            for _ in range(100):
                rabbit.deliver_all([b"x"] * 500, wrong)
        except OSError:
            pass  # it was left before it had all of them
        rabbit.tag = 0
        assert isinstance(rabbit.calls_until(spec.Basic.Consume)[-1], spec.Basic.Consume)
        rabbit.deliver(b"y", HOUR)
        assert settled(rabbit.calls_until(spec.Basic.Ack)) == [(1, "stored")]
