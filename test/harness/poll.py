"""A consumer that waits."""

import threading
import time

from patience import PATIENCE_S
from wire import Client


class Poll(threading.Thread):
    """A parked reserve of one job."""

    def __init__(self, port, *topics, wait="30s"):
        super().__init__(daemon=True)
        self.port, self.topics, self.wait, self.answer = port, topics, wait, None
        self.start()
        time.sleep(0.2)  # it is parked

    def run(self):
        with Client(self.port, seconds=60) as client:
            self.answer = client.post("/v1/reserve", {"topics": list(self.topics),
                                                      "wait": self.wait})
            self.at = time.monotonic()

    def jobs(self, seconds=PATIENCE_S):
        """What it got within so long; [] if it was answered without a job."""
        self.join(seconds)
        assert self.answer is not None, "it is still parked"
        return self.answer.json()["jobs"] if self.answer.status == 200 else []

    def job(self, seconds=PATIENCE_S):
        jobs = self.jobs(seconds)
        assert jobs, self.answer
        return jobs[0]
