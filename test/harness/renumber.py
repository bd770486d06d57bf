"""Between a client of beanstalkd and a server whose job ids are not 1, 2, 3 …: the client sees the
ids that beanstalkd would have given, and may ask by them. Everything else passes as it is.
"""

import re
import socket
import threading

from beanstalk import Connection, Gone
from wire import Stream

# The commands whose first word is a job's id.
BY_ID = {b"delete", b"release", b"bury", b"touch", b"peek", b"kick-job", b"stats-job",
         b"reserve-job"}


class Client(Stream):
    """The client's side: its commands, cut where they end."""

    over = Gone

    def __init__(self, accepted):  # pylint: disable=super-init-not-called
        self.socket = accepted
        self.kept = b""

    def command(self):
        """(its line's words, what follows them)"""
        while b"\r\n" not in self.kept:
            self._more()
        line, _, self.kept = self.kept.partition(b"\r\n")
        words = line.split(b" ")
        length = int(words[4]) + 2 if words[0] == b"put" else 0
        while len(self.kept) < length:
            self._more()
        body, self.kept = self.kept[:length], self.kept[length:]
        return words, b"\r\n" + body


class Renumber:
    """Listens on `port`, a free one of the loopback, for the server on the other."""

    def __init__(self, server_port):
        self.server_port = server_port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Condition()
        self.ids = []  # the server's, in the order of their puts

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _accept(self):
        try:
            while True:
                accepted, _ = self.listener.accept()
                pair = Client(accepted), Connection(self.server_port, seconds=None)
                for copy in (self._commands, self._answers):
                    threading.Thread(target=copy, args=pair, daemon=True).start()
        except OSError:
            pass  # it was closed

    def _commands(self, client, server):
        try:
            while True:
                words, rest = client.command()
                if words[0] in BY_ID:
                    words[1] = self._outer(words[1])
                server.send(b" ".join(words) + rest)
        except (Gone, OSError):
            server.close_softly()

    def _answers(self, client, server):
        try:
            while True:
                client.send(self._shown(server.answer()))
        except (Gone, OSError):
            client.close_softly()

    def _outer(self, number):
        with self.lock:
            at = int(number) - 1
            return b"%d" % self.ids[at] if 0 <= at < len(self.ids) else number

    def _inner(self, number):
        """The number of the put. A consumer that waits may get the job before this has read the
        answer to who put it, on another connection."""
        with self.lock:
            self.lock.wait_for(lambda: int(number) in self.ids, 20)
            return b"%d" % (self.ids.index(int(number)) + 1)

    def _shown(self, answer):
        words = answer.line.split(b" ")
        if words[0] == b"INSERTED":
            with self.lock:
                self.ids.append(int(words[1]))
                self.lock.notify_all()
        if words[0] in (b"INSERTED", b"RESERVED", b"FOUND"):
            words[1] = self._inner(words[1])
        data = answer.data
        if words[0] == b"OK":  # of stats-job: `id: 17` with other digits has another length
            data = re.sub(rb"^---\nid: (\d+)\n",
                          lambda found: b"---\nid: " + self._inner(found[1]) + b"\n", data)
            words[1] = b"%d" % len(data)
        return b" ".join(words) + b"\r\n" + (b"" if data is None else data + b"\r\n")
