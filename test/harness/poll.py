"""A consumer that waits."""

import re
import threading
import time

from patience import PATIENCE_S
from wire import Client, eventually

LONG_S = 600  # how long it waits: longer than whoever waits for it


class Poll(threading.Thread):
    """A parked reserve of one job; one that has got it at once is not parked."""

    def __init__(self, port, *topics, wait=f"{LONG_S}s"):
        super().__init__(daemon=True)
        self.port, self.topics, self.wait = port, topics, wait
        self.answer, self.error = None, None
        before = self.parked()
        self.start()
        assert eventually(lambda: not self.is_alive() or self.parked() > before), "it was not parked"
        time.sleep(0.2)  # an engine has asked for its topics
        assert self.is_alive() or self.jobs(), f"it did not wait: {self.answer}"

    def parked(self):
        """How many reserves are parked there; other ones may begin and end meanwhile."""
        with Client(self.port) as client:
            return int(re.search(r"^laterd_waiting (\d+)$", client.get("/metrics").text, re.MULTILINE).group(1))

    def run(self):
        try:
            with Client(self.port, seconds=LONG_S + 60) as client:
                self.answer = client.post("/v1/reserve", {"topics": list(self.topics), "wait": self.wait})
                self.at = time.monotonic()
        except Exception as error:  # for jobs(), which nobody asks if the server was killed
            self.error = error

    def jobs(self, seconds=PATIENCE_S):
        """What it got within so long; [] if it was answered without a job."""
        self.join(seconds)
        assert not self.is_alive(), "it is still parked"
        if self.error:
            raise self.error
        return self.answer.json()["jobs"] if self.answer.status == 200 else []

    def job(self, seconds=PATIENCE_S):
        jobs = self.jobs(seconds)
        assert jobs, self.answer
        return jobs[0]
