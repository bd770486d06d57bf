"""Servers that do not answer."""

import contextlib
import socket
import threading


class SilentBroker:
    """Takes connections and never answers: as one that hangs."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.connections = []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                self.connections.append(self.listener.accept()[0])
            except OSError:
                return

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)  # else the thread that accepts takes one more
        self.listener.close()
        for connection in self.connections:
            connection.close()


@contextlib.contextmanager
def unanswered_port(accepts):
    """A port where connections come about and nothing is said; or, not `accepts`, where none comes about, since the
    backlog is full."""
    with contextlib.ExitStack() as ends:
        listener = ends.enter_context(socket.create_server(("127.0.0.1", 0), backlog=8 if accepts else 0))
        for _ in range(0 if accepts else 4):
            waiting = ends.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
