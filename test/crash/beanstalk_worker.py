"""A client of beanstalkd that works until the server is gone, and tells the oracle."""

import random
import threading
import time

from beanstalk import Connection, Gone, command


class BeanstalkWorker(threading.Thread):
    """Puts, reserves, deletes, releases and buries on one connection."""

    def __init__(self, port, oracle, seed, tubes, ttr_s):
        super().__init__(daemon=True)
        self.port, self.oracle, self.random = port, oracle, random.Random(seed)
        self.tubes, self.ttr_s, self.failure, self.connection = tubes, ttr_s, None, None

    def run(self):
        try:
            with Connection(self.port, seconds=20) as self.connection:
                for tube in self.tubes:
                    self.connection.ask(f"watch {tube}")
                while True:
                    self.random.choice([self.put, self.put_many] + [self.take] * 5)()
        except (Gone, OSError):
            pass
        except Exception as error:  # noqa: BLE001: an answer nobody expects is a finding
            self.failure = repr(error)

    def attempt(self):
        """(nonce, bytes of its put)"""
        delay = self.random.choice([0, 0, 0, 1])
        # Seconds from when the server read it: not before now + delay, by any clock of this machine.
        nonce, body = self.oracle.attempt(time.time() + delay - 0.001, self.random.randrange(300))
        body = body.encode()
        return nonce, command(f"put {self.random.randrange(3)} {delay} {self.ttr_s} {len(body)}",
                              body)

    def use(self):
        self.connection.ask(f"use {self.random.choice(self.tubes)}")

    def put(self):
        self.use()
        nonce, data = self.attempt()
        self.inserted(nonce, self.connection.send(data).answer())

    def put_many(self):
        self.use()
        attempts = [self.attempt() for _ in range(8)]
        self.connection.send(b"".join(data for _, data in attempts))
        for nonce, _ in attempts:
            self.inserted(nonce, self.connection.answer())

    def inserted(self, nonce, answer):
        assert answer.word == "INSERTED", answer
        self.oracle.pushed(nonce, f"@{answer.number}")  # its name over HTTP

    def take(self):
        asked_at = time.monotonic()
        found = self.connection.reserve()
        if not found:
            return
        job_id, body = found
        stats = self.connection.stats_job(job_id)  # None: somebody has deleted it meanwhile
        nonce = self.oracle.delivered(body.decode(), asked_at, int(stats["ttr"]) if stats else 0)
        if nonce is not None:
            self.deal_with(nonce, job_id)

    def deal_with(self, nonce, job_id):
        if self.random.random() < 0.6:
            self.oracle.trying_to_end(nonce)
            if self.ask(f"delete {job_id}", "DELETED"):
                self.oracle.ended(nonce)
        else:
            self.oracle.let_go(nonce)
            if self.random.random() < 0.5:
                self.ask(f"bury {job_id} 1", "BURIED")
            else:  # BURIED: it was pushed over HTTP with a retry schedule, which is used up
                self.ask(f"release {job_id} 1 0", "RELEASED", "BURIED")

    def ask(self, line, *words):
        """Was it done? Else the ttr was over, or somebody has deleted the job."""
        answer = self.connection.ask(line)
        assert answer.text in (*words, "NOT_FOUND"), answer
        return answer.text in words
