"""A TCP relay between clients and servers of the loopback: it can spread connections over several
servers like a balancer, and cut a connection between a request and its reply."""

import contextlib
import socket
import threading
import time

CHUNK = 1 << 16
FIRST_WORDS = 1000  # bytes of what a connection asks at first


class Search:
    """Looks for bytes in what passes, in however many pieces they come, from when they are looked for: what has passed
    before, while something else was looked for, is not part of it."""

    def __init__(self):
        self.wanted, self.tail = None, b""

    def finds(self, wanted, marker, piece):
        """`wanted`: for what the marker is looked for, which tells one search from the next; None: for nothing."""
        if wanted is not self.wanted:
            self.wanted, self.tail = wanted, b""
        if wanted is None:
            return False
        seen = self.tail + piece
        found = marker in seen
        self.tail = b"" if found else seen[max(0, len(seen) - len(marker) + 1):]
        return found


class Relay:
    """Listens on a port of its own; connection n goes to the port targets[n % len(targets)], or to
    the next one that answers. `targets` may be changed at any time."""

    def __init__(self, *targets):
        self.targets = list(targets)
        self.taken = 0
        self.pairs = set()
        self.asked = {}  # what each connection said first
        self.lock = threading.Lock()
        self.marker, self.cuts = None, 0
        self.muted = set()
        self.hook = None
        self.delay = 0  # seconds by which each batch of replies is late
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, marker):
        """Once: the next request that holds these bytes reaches the server and is done there, but
        its connection ends before the reply has passed. `cuts` counts."""
        self.marker = marker

    def before(self, marker, act):
        """Once: before the next request that holds these bytes passes, act() is called, and waited
        for. The connection ends in place of the request if that returns False."""
        self.hook = (marker, act)

    def mute(self, marker):
        """From now on nothing passes to clients that have asked for this; their connections stay,
        those that are made from now on work."""
        with self.lock:
            self.muted = {pair for pair, words in self.asked.items() if marker in words}

    def cut_all(self):
        """Ends all connections, now."""
        with self.lock:
            pairs = list(self.pairs)
        for pair in pairs:
            end(*pair)

    def close(self):
        end(self.listener)  # shut down: the thread that accepts would take one more
        self.cut_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _server(self):
        for _ in range(len(self.targets)):
            with self.lock:
                port = self.targets[self.taken % len(self.targets)]
                self.taken += 1
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", port), timeout=10)
        return None

    def _accept(self):
        with contextlib.suppress(OSError):  # it is closed
            while True:
                client, _ = self.listener.accept()
                server = self._server()
                if not server:
                    client.close()
                    continue
                pair = (client, server)
                for one in pair:
                    one.settimeout(None)
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self.lock:
                    self.pairs.add(pair)
                deaf = threading.Event()
                threading.Thread(target=self._requests, args=(pair, deaf), daemon=True).start()
                threading.Thread(target=self._replies, args=(pair, deaf), daemon=True).start()

    def _requests(self, pair, deaf):
        client, server = pair
        to_cut, to_act = Search(), Search()
        with contextlib.suppress(OSError):
            while data := client.recv(CHUNK):
                marker, hook = self.marker, self.hook
                if to_cut.finds(marker, marker, data):
                    self.marker = None
                    deaf.set()
                if to_act.finds(hook, hook and hook[0], data):
                    self.hook = None
                    if hook[1]() is False:
                        break
                if len(self.asked.get(pair, b"")) < FIRST_WORDS:
                    self.asked[pair] = self.asked.get(pair, b"") + data
                server.sendall(data)
        self._end(pair)

    def _replies(self, pair, deaf):
        client, server = pair
        with contextlib.suppress(OSError):
            while data := server.recv(CHUNK):
                if pair in self.muted:
                    continue
                if not deaf.is_set():
                    time.sleep(self.delay)
                    client.sendall(data)
                    continue
                server.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    while server.recv(CHUNK):  # until all is done that was sent
                        pass
                self.cuts += 1
                break
        self._end(pair)

    def _end(self, pair):
        with self.lock:
            self.pairs.discard(pair)
            self.asked.pop(pair, None)
        end(*pair)


def end(*sockets):
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
