"""How busy the machine is: for how long it has kept this process from running. What depends on how soon
something happened cannot be judged then: a daemon that gets no processor for five seconds is dead to the
others, and a job that it held is handed out again, as it should be."""

import threading
import time

EVERY_S = 0.05


class Busy:
    """Looks while the block runs; `longest_s` is by how much a sleep of its own was too long."""

    def __init__(self):
        self.longest_s = 0.0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)

    def _look(self):
        before = time.monotonic()
        while not self.over.wait(EVERY_S):
            now = time.monotonic()
            self.longest_s = max(self.longest_s, now - before - EVERY_S)
            before = now

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
