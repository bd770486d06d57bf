"""A broker that hangs."""

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
