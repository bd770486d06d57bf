"""The sink of RabbitMQ against a real one: what counts as delivered, and what is said of what is not. Driven
without a queue behind it (test/harness/sink_drive.c): one RabbitMQ for all, for it takes long to start."""

import os
import queue
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from patience import PATIENCE_S
from process import LATERD
from relay import Relay

pika = pytest.importorskip("pika")
from fake_rabbit import FakeRabbit  # noqa: E402
from rabbit import NEEDED, PLUGIN, a_channel, a_rabbit  # noqa: E402,F401
from wire import eventually  # noqa: E402

BUILD = os.path.dirname(LATERD)
NEVER_LATE = "timeout=600000"  # ms, of a delivery
pytestmark = [NEEDED, pytest.mark.embedded("the sink alone, without a laterd")]


class Drive:
    """The sink in a process of its own."""

    def __init__(self, url, *options):
        self.process = subprocess.Popen([os.path.join(BUILD, "sink_drive"), PLUGIN, url, *options],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def tell(self, line):
        self.process.stdin.write(line + "\n")

    def expect(self, start, seconds=PATIENCE_S):
        """The next line that begins so; those before it are passed over."""
        end = time.monotonic() + seconds
        while True:
            line = self.lines.get(timeout=max(0.01, end - time.monotonic()))
            assert line is not None, f"it ended before {start}"
            if line.startswith(start):
                return line

    def send(self, name, exchange, key, body="x"):
        self.tell(f"send {name} {exchange} {key} {body}")
        return self.expect(f"done {name} ").split(" ", 2)[2]

    def kill(self):
        self.process.kill()
        self.process.wait(timeout=20)


@pytest.fixture(name="drive")
def a_drive(rabbit):
    drive = Drive(rabbit.url, NEVER_LATE)
    drive.expect("ready 1")
    yield drive
    drive.kill()


@pytest.fixture(name="relayed")
def a_drive_behind_a_relay(rabbit):
    """The sink, and what is between it and RabbitMQ."""
    with Relay(rabbit.port) as relay:
        drive = Drive(rabbit.url.replace(f":{rabbit.port}/", f":{relay.port}/"), NEVER_LATE, "window=100")
        drive.expect("ready 1")
        yield drive, relay
        drive.kill()


def test_a_job_is_published_persistent_with_its_properties(channel, drive):
    channel.queue_declare("plain", durable=True)
    assert drive.send("id-1", "-", "plain", "a body") == "delivered "
    _, properties, body = channel.basic_get("plain", auto_ack=True)
    assert body == b"a body" and properties.delivery_mode == 2
    assert properties.message_id == "id-1" and properties.timestamp == 1800000000
    assert properties.content_type == "application/octet-stream"
    assert properties.headers["laterd-topic"] == "orders" and properties.headers["laterd-attempt"] == "1"


def test_topic_and_key_are_filled_in(channel, drive):
    channel.queue_declare("to.orders.k7")
    assert drive.send("a", "-", "to.{topic}.{key}") == "delivered "
    assert drive.send("b", "-", "{key}" * 200).startswith("refused exchange or routing key is longer")


def test_what_no_queue_takes_has_failed_though_it_is_confirmed(channel, drive):
    channel.exchange_declare("routes", "direct")
    channel.queue_declare("routed")
    channel.queue_bind("routed", "routes", "k")
    assert drive.send("a", "routes", "nowhere").startswith("failed no queue takes it: 312 NO_ROUTE")
    assert drive.send("b", "routes", "k") == "delivered "
    drive.tell("many 500 routes nowhere 10")
    assert drive.expect("many").split()[2:5] == ["0", "500", "0"]


def test_the_one_that_came_back_is_the_one_that_failed(channel, drive):
    channel.exchange_declare("mingled", "direct")
    channel.queue_declare("taken")
    channel.queue_bind("taken", "mingled", "yes")
    for i in range(200):
        drive.tell(f"send {i} mingled {'yes' if i % 3 else 'no'} body{i}")
    kinds = dict(drive.expect("done ").split(" ")[1:3] for _ in range(200))
    assert all(kinds[str(i)] == ("delivered" if i % 3 else "failed") for i in range(200))


def test_headers_that_do_not_fit_into_a_frame_are_refused_and_others_go_on(rabbit, channel):
    channel.queue_declare("framed")
    properties = b"".join(pika.BasicProperties(headers={"long": "x" * 5000}).encode())
    kept = b"\x01\x00\x06framed" + properties
    rabbit.eval("application:set_env(rabbit, frame_max, 4096).")
    try:
        drive = Drive(rabbit.url, NEVER_LATE)
        drive.expect("ready 1")
        drive.tell(f"kept a {kept.hex()} x")
        assert drive.expect("done a").startswith(
            "done a refused its properties and headers have 50")  # and some bytes
        assert drive.send("b", "-", "framed") == "delivered "
        drive.kill()
    finally:
        rabbit.eval("application:set_env(rabbit, frame_max, 131072).")
    drive = Drive(rabbit.url, NEVER_LATE)
    drive.expect("ready 1")
    drive.tell(f"kept a {kept.hex()} x")
    assert drive.expect("done a") == "done a delivered "
    drive.kill()


def test_it_opens_no_more_channels_than_rabbitmq_allows(rabbit, channel):
    names = [f"few{i}" for i in range(8)]
    for name in names:
        channel.exchange_declare(name, "fanout")
        channel.queue_declare(name)
        channel.queue_bind(name, name)
    rabbit.eval("application:set_env(rabbit, channel_max, 2).")
    try:
        drive = Drive(rabbit.url, NEVER_LATE)
        drive.expect("ready 1")
        for name in names:
            assert drive.send(name, name, "k") == "delivered "
        drive.kill()
    finally:
        rabbit.eval("application:set_env(rabbit, channel_max, 2047).")


def test_a_missing_exchange_fails_its_own_messages(channel, drive):
    channel.queue_declare("other")
    reason = drive.send("a", "missing", "k")
    assert reason.startswith("failed RabbitMQ closed the channel: 404 NOT_FOUND - no exchange 'missing'")
    assert drive.send("b", "-", "other") == "delivered "
    assert drive.send("c", "missing", "k").startswith("failed RabbitMQ closed the channel")


def test_an_exchange_that_is_deleted_while_messages_go_there_loses_none(channel, relayed):
    drive, relay = relayed
    channel.exchange_declare("brief", "fanout")
    channel.queue_declare("briefs")
    channel.queue_bind("briefs", "brief")
    relay.before(b"\x0510000", lambda: channel.exchange_delete("brief"))  # its id, behind the length of that
    drive.tell("many 20000 brief k 100")
    delivered, failed, other = map(int, drive.expect("many").split()[2:5])
    assert relay.hook is None
    there = channel.queue_declare("briefs", passive=True).method.message_count
    assert delivered + failed == 20000 and other == 0
    assert 9000 < delivered <= there < 10000, "what was called delivered is there"


def test_a_queue_that_is_full_refuses(channel, drive):
    channel.queue_declare("small", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    assert drive.send("a", "-", "small") == "delivered "
    assert drive.send("b", "-", "small").startswith("failed RabbitMQ refused it (basic.nack): a queue is full")


def test_a_wrong_password_is_reported(rabbit):
    drive = Drive(rabbit.url.replace("guest:guest", "guest:wrong"))
    try:
        assert "403" in drive.expect("ready 0")
    finally:
        drive.kill()


def test_in_memory_alarm_nothing_is_wanted_and_what_was_sent_comes_back(rabbit, channel, drive):
    channel.queue_declare("alarmed")
    rabbit.eval("rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).")
    drive.tell("send first - alarmed x")  # a connection is told when it publishes
    assert "it takes no messages now" in drive.expect("ready 0")
    assert drive.send("second", "-", "alarmed").startswith("unsent it takes no messages now")
    rabbit.eval("rabbit_alarm:clear_alarm({resource_limit, memory, node()}).")
    assert drive.expect("done first ") == "done first delivered ", "the alarm ended within its time-out"
    assert eventually(lambda: drive.send("third", "-", "alarmed") == "delivered ")


def test_what_was_under_way_when_an_alarm_began_counts_no_attempt(rabbit, channel):
    """RabbitMQ reads what it is sent up to the alarm; the rest stays in the connection beyond its time-out."""
    channel.queue_declare("under.way")
    drive = Drive(rabbit.url, "timeout=700")
    try:
        drive.expect("ready 1")
        rabbit.eval("rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []}).")
        for i in range(300):
            drive.tell(f"send {i} - under.way {'x' * 1000}")
        told = [drive.expect("done ").split(" ", 3)[2:] for _ in range(300)]
    finally:
        rabbit.eval("rabbit_alarm:clear_alarm({resource_limit, memory, node()}).")
        drive.kill()
    assert {kind for kind, _ in told} <= {"delivered", "unsent"}
    assert ["unsent", "RabbitMQ stopped reading (an alarm) before it confirmed it"] in told


def test_a_connection_that_an_operator_closes_counts_no_attempt(rabbit, channel, relayed):
    drive, relay = relayed
    channel.queue_declare("closed", durable=True)
    relay.delay = 0.2  # so that it takes longer than the operator does
    drive.tell("many 100000 - closed 100")
    assert eventually(lambda: channel.queue_declare("closed", durable=True, passive=True).method.message_count >= 500)
    rabbit.eval('[rabbit_networking:close_connection(P, "by the test") || P <- rabbit_networking:connections(), '
                'lists:keyfind(<<"connection_name">>, 1, element(2, lists:keyfind(client_properties, 1, '
                'rabbit_networking:connection_info(P, [client_properties])))) =/= false].')
    relay.delay = 0
    delivered, failed, other = map(int, drive.expect("many", 2 * PATIENCE_S).split()[2:5])
    assert failed == 0 and delivered + other == 100000 and other > 0


class Closing(FakeRabbit):
    """Of the second message it reads only the beginning: then it confirms the first, says why it ends, and does."""

    code, published = 501, 0

    def _take(self, connection, one):
        super()._take(connection, one)
        self.published += isinstance(getattr(one, "method", None), pika.spec.Basic.Publish)
        if self.published == 2:
            self.published += 1  # once
            channel = one.channel_number
            connection.sendall(pika.frame.Method(channel, pika.spec.Basic.Ack(1)).marshal() + pika.frame.Method(
                0, pika.spec.Connection.Close(self.code, "by the test", 0, 0)).marshal())
            time.sleep(0.3)  # the other end has it, while it writes
            connection.close()


@pytest.mark.parametrize("code, kind", [(501, "failed"), (320, "unsent")])
def test_what_rabbitmq_said_before_a_write_failed_counts(code, kind):
    with Closing() as rabbit:
        rabbit.code = code
        drive = Drive(rabbit.url, NEVER_LATE)
        try:
            drive.expect("ready 1")
            drive.tell("send first - q x")
            assert eventually(lambda: rabbit.published == 1)
            drive.tell("many 1 - q 30000000")
            told = sorted(drive.lines.get(timeout=PATIENCE_S) for _ in range(3))
        finally:
            drive.kill()
    assert told[0] == "done first delivered "
    assert told[1].split()[2:5] == {"failed": ["0", "1", "0"], "unsent": ["0", "0", "1"]}[kind]
    assert told[2] == f"ready 0 it closed the connection: {code} by the test"


class Publishes(FakeRabbit):
    """It notes on which channels messages come, and answers none of them."""

    def __init__(self):
        self.channels, self.publisher = {}, None  # of exchanges
        super().__init__()

    def _take(self, connection, one):
        super()._take(connection, one)
        if isinstance(getattr(one, "method", None), pika.spec.Basic.Publish):
            self.publisher = connection
            self.channels[one.method.exchange] = one.channel_number


def test_what_came_behind_a_channels_end_counts_though_that_cannot_be_answered():
    """The connection is reset while the sink stands still: it has all that was sent, and can write nothing."""
    with Publishes() as rabbit:
        drive = Drive(rabbit.url, NEVER_LATE)
        try:
            drive.expect("ready 1")
            names = [f"x{number}" for number in range(8)]  # of 16 channels, one has not all of them
            for name in names:
                drive.tell(f"send {name} {name} key x")
            assert eventually(lambda: len(rabbit.channels) == len(names))
            gone = rabbit.channels["x0"]
            name = next(name for name in names if rabbit.channels[name] != gone)
            drive.process.send_signal(signal.SIGSTOP)
            rabbit.publisher.sendall(
                pika.frame.Method(gone, pika.spec.Channel.Close(404, "by the test", 60, 40)).marshal()
                + pika.frame.Method(rabbit.channels[name], pika.spec.Basic.Ack(0, True)).marshal())
            rabbit.publisher.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            rabbit.publisher.shutdown(socket.SHUT_RD)  # wakes the thread that reads: close() alone would wait for it
            rabbit.publisher.close()
            time.sleep(0.2)
            drive.process.send_signal(signal.SIGCONT)
            told = dict(drive.expect("done ").split(" ", 2)[1:] for _ in names)
        finally:
            drive.kill()
    assert told["x0"].startswith("failed RabbitMQ closed the channel: 404")
    assert told[name] == "delivered "


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        words = file.read().rsplit(") ", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_while_rabbitmq_reads_nothing_messages_wait_without_work(rabbit, channel):
    channel.queue_declare("slow")
    reached, go_on = threading.Event(), threading.Event()
    with Relay(rabbit.port) as relay:
        drive = Drive(rabbit.url.replace(f":{rabbit.port}/", f":{relay.port}/"), NEVER_LATE, "window=4000")
        relay.before(b"xxxxxxxxxx", lambda: (reached.set(), go_on.wait(PATIENCE_S)))
        drive.expect("ready 1")
        drive.tell("many 4000 - slow 4000")  # more than sockets hold
        try:
            assert reached.wait(PATIENCE_S)
            time.sleep(1)  # they are full
            before = cpu_seconds(drive.process.pid)
            time.sleep(3)
            assert cpu_seconds(drive.process.pid) - before < 0.1
            go_on.set()
            assert drive.expect("many").split()[2] == "4000"
        finally:
            go_on.set()
            drive.kill()


def test_p2_what_was_confirmed_outlives_a_broker_that_is_killed(rabbit, drive):
    rabbit.connect().channel().queue_declare("kept", durable=True)
    for i in range(5000):
        drive.tell(f"send {i} - kept {i}")
    told = [drive.expect("done ").split(" ")[1:3] for _ in range(500)]
    rabbit.kill()
    told += [drive.expect("done ").split(" ")[1:3] for _ in range(4500)]
    delivered = {int(name) for name, kind in told if kind == "delivered"}
    assert {kind for _, kind in told} <= {"delivered", "unsent"}, "no attempt counts while it is away"
    rabbit.start().wait()
    drive.expect("ready 1", 60)
    connection = rabbit.connect()
    channel = connection.channel()
    there = set()
    while (message := channel.basic_get("kept", auto_ack=True))[0]:
        there.add(int(message[2]))
    assert 500 <= len(delivered) and delivered <= there
    assert drive.send("after", "-", "kept") == "delivered "
    connection.close()
