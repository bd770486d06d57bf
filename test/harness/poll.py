"""A consumer that waits."""

import re
import threading
import time

from patience import PATIENCE_S
from wire import Client, Closed, eventually

LONG_S = 600  # how long it waits: longer than whoever waits for it


class Poll(threading.Thread):
    """A parked reserve of one job."""

    def __init__(self, port, *topics, wait=f"{LONG_S}s"):
        super().__init__(daemon=True)
        self.port, self.topics, self.wait, self.answer = port, topics, wait, None
        before = self.parked()
        self.start()
        assert eventually(lambda: self.answer or not self.is_alive() or self.parked() > before), "it was not parked"
        time.sleep(0.2)  # an engine has asked for its topics

    def parked(self):
        """How many reserves are parked there; other ones may begin and end meanwhile."""
        with Client(self.port) as client:
            return int(re.search(r"^laterd_waiting (\d+)$", client.get("/metrics").text, re.MULTILINE).group(1))

    def run(self):
        try:
            with Client(self.port, seconds=LONG_S + 60) as client:
                self.answer = client.post("/v1/reserve", {"topics": list(self.topics), "wait": self.wait})
                self.at = time.monotonic()
        except (OSError, Closed):
            pass  # the server was killed: there is no answer

    def jobs(self, seconds=PATIENCE_S):
        """What it got within so long; [] if it was answered without a job."""
        self.join(seconds)
        assert self.answer is not None, "it is still parked"
        return self.answer.json()["jobs"] if self.answer.status == 200 else []

    def job(self, seconds=PATIENCE_S):
        jobs = self.jobs(seconds)
        assert jobs, self.answer
        return jobs[0]
