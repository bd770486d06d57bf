"""How busy the machine is: for how long it has kept this process from running. What depends on how soon
something happened cannot be judged then: a daemon that gets no processor for five seconds is dead to the
others, and a job that it held is handed out again, as it should be."""

import threading
import time

EVERY_S = 0.05


class Busy:
    """Looks while the block runs; `longest_s` is by how much a sleep of its own was too long, with the time that
    `also`, which is called after each sleep, took."""

    def __init__(self, also=lambda: None):
        self.also = also
        self.late = []  # (when a look ended, by how much it was late)
        self.error = None  # of `also`, after which there are no more looks
        self.begun = time.monotonic()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)

    def _look(self):
        self.begun = time.monotonic()
        while not self.over.wait(EVERY_S):
            try:
                self.also()
            except Exception as error:
                self.error = error
                return
            now = time.monotonic()
            self.late.append((now, now - self.begun - EVERY_S))
            self.begun = now

    def longest_since(self, when):
        """Of the looks that ended after that time.monotonic(), or go on. Raises what `also` has raised."""
        if self.error:
            raise self.error
        now = 0 if self.over.is_set() else time.monotonic() - self.begun - EVERY_S
        return max(0.0, now, *(late for end, late in list(self.late) if end >= when))

    @property
    def longest_s(self):
        return self.longest_since(0)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
