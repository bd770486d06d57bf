"""A RabbitMQ that a test plays: it answers a client's opening calls, notes all others in their order, and sends
what the test says, when the test says so. One connection consumes; one that publishes is only opened, unless the
test's own class does more."""

import queue
import socket
import threading
import time

from patience import PATIENCE_S

import pika
from pika import frame, spec

# What is answered at once. Cancel is not: that is the test's.
ANSWERS = {
    spec.Connection.StartOk: lambda _: spec.Connection.Tune(64, 131072, 0),
    spec.Connection.Open: lambda _: spec.Connection.OpenOk(),
    spec.Connection.Close: lambda _: spec.Connection.CloseOk(),
    spec.Channel.Open: lambda _: spec.Channel.OpenOk(),
    spec.Confirm.Select: lambda _: spec.Confirm.SelectOk(),
    spec.Basic.Qos: lambda _: spec.Basic.QosOk(),
    spec.Basic.Consume: lambda call: spec.Basic.ConsumeOk(call.consumer_tag),
}


class FakeRabbit:
    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"amqp://guest:guest@127.0.0.1:{self.listener.getsockname()[1]}/%2f"
        self.calls = queue.Queue()  # methods of the channel that consumes
        self.consumer = None
        self.heartbeats = 0  # of the connection that consumes
        self.tag = 0
        self.connections = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        data = b""
        try:
            while True:
                used, one = frame.decode_frame(data)
                if used == 0:
                    more = connection.recv(65536)
                    if not more:
                        break
                    data += more
                    continue
                data = data[used:]
                self._take(connection, one)
        except OSError:
            pass
        if connection is self.consumer:
            self.calls.put(None)

    def _take(self, connection, one):
        if isinstance(one, frame.ProtocolHeader):
            start = spec.Connection.Start(0, 9, {}, b"PLAIN", b"en_US")
            connection.sendall(frame.Method(0, start).marshal())
        if isinstance(one, frame.Heartbeat) and connection is self.consumer:
            self.heartbeats += 1
        if not isinstance(one, frame.Method):
            return
        if isinstance(one.method, spec.Basic.Consume):
            self.consumer = connection
        if connection is self.consumer and (one.channel_number or isinstance(one.method, spec.Connection.Close)):
            self.calls.put(one.method)
        answer = ANSWERS.get(type(one.method))
        if answer:
            connection.sendall(frame.Method(one.channel_number, answer(one.method)).marshal())

    def deliver(self, body, headers=None):
        """Sends a message to the consumer; its delivery tag."""
        self.deliver_all([body], headers)
        return self.tag

    def deliver_all(self, bodies, headers=None):
        """Sends these messages at once: a consumer that ends the connection at one of them has been sent all. With
        `headers` of all, or a list of those of each."""
        frames = b""
        for number, body in enumerate(bodies):
            self.tag += 1
            own = headers[number] if isinstance(headers, list) else headers
            frames += frame.Method(1, spec.Basic.Deliver("laterd", self.tag, False, "x", "key")).marshal()
            frames += frame.Header(1, len(body), pika.BasicProperties(headers=own)).marshal()
            frames += frame.Body(1, body).marshal()
        self.consumer.sendall(frames)

    def answer_cancel(self):
        self.consumer.sendall(frame.Method(1, spec.Basic.CancelOk("laterd")).marshal())

    def call(self, seconds=PATIENCE_S):
        """The next call; None: the connection has ended, or nothing came."""
        try:
            return self.calls.get(timeout=seconds)
        except queue.Empty:
            return None

    def calls_until(self, *kinds):
        """All calls up to the first of one of these kinds, that one included; up to the end, if none comes."""
        found, end = [], time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            one = self.call(1)
            if one:
                found.append(one)
            if isinstance(one, kinds) or (one is None and not self.is_open()):
                break
        return found

    def calls_until_tag(self, tag):
        """All calls up to one that settles this delivery tag."""
        found, end = [], time.monotonic() + PATIENCE_S
        while time.monotonic() < end and (not found or getattr(found[-1], "delivery_tag", 0) < tag):
            one = self.call(1)
            if one:
                found.append(one)
        return found

    def is_open(self):
        return self.consumer is not None and self.consumer.fileno() >= 0

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # else the thread that accepts takes one more
        self.listener.close()
        for connection in self.connections:
            connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
