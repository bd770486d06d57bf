"""The beanstalkd protocol seen from outside, and Debian's beanstalkd as a process to compare with."""

import os
import shutil
import socket
import subprocess
import time

from patience import PATIENCE_S
from ports import free_port
from wire import Stream

BEANSTALKD = os.environ.get("BEANSTALKD") or shutil.which("beanstalkd") or "/usr/bin/beanstalkd"

# The answers that are followed by a body, and where its length stands.
WITH_DATA = {b"RESERVED": 2, b"FOUND": 2, b"OK": 1}


class Gone(Exception):
    """The server closed the connection before an answer was whole."""


class Answer:
    """One answer: its line, and its data if it has any."""

    def __init__(self, line, data=None):
        self.line, self.data = line, data

    @property
    def text(self):
        return self.line.decode("latin-1")

    @property
    def word(self):
        return self.text.split(" ")[0]

    @property
    def number(self):
        """The first number of the line: an id or a count."""
        return int(self.text.split(" ")[1])

    def table(self):
        """The YAML dictionary of stats as {key: value}, values as they stand there."""
        pairs = (row.split(": ", 1) for row in self.rows())
        return {key: value for key, value in pairs}

    def rows(self):
        """The YAML list of tubes, or the rows of a dictionary, without the leading '---'."""
        rows = self.data.decode("latin-1").split("\n")
        assert rows[0] == "---" and rows[-1] == "", self
        return [row[2:] if row.startswith("- ") else row for row in rows[1:-1]]

    def __eq__(self, other):
        if isinstance(other, str):
            return self.data is None and self.text == other
        return (self.line, self.data) == (other.line, other.data)

    __hash__ = None

    def __repr__(self):
        return self.text if self.data is None else f"{self.text} {self.data[:200]!r}"


class Connection(Stream):
    """One connection that speaks the protocol; also byte by byte."""

    over = Gone
    encoding = "latin-1"

    def _take(self, length):
        self._fill(length)
        taken, self.kept = self.kept[:length], self.kept[length:]
        return taken

    def answer(self):
        """The next answer, whole."""
        while b"\r\n" not in self.kept:
            self._more()
        line, _, self.kept = self.kept.partition(b"\r\n")
        words = line.split(b" ")
        if words[0] not in WITH_DATA:
            return Answer(line)
        length = int(words[WITH_DATA[words[0]]])
        data = self._take(length + 2)
        assert data.endswith(b"\r\n"), (line, data)
        return Answer(line, data[:-2])

    def ask(self, line, body=None):
        """Sends one command and reads its answer."""
        return self.send(command(line, body)).answer()

    def put(self, body=b"x", priority=0, delay=0, ttr=60):
        """The new job's id."""
        body = body if isinstance(body, bytes) else body.encode()
        answer = self.ask(f"put {priority} {delay} {ttr} {len(body)}", body)
        assert answer.word == "INSERTED", answer
        return answer.number

    def reserve(self, timeout=0):
        """(id, body), or None when there is none."""
        answer = self.ask(f"reserve-with-timeout {timeout}")
        if answer.word != "RESERVED":
            assert answer.word in ("TIMED_OUT", "DEADLINE_SOON"), answer
            return None
        return answer.number, answer.data

    def stats_job(self, job_id):
        """{key: value} or None."""
        answer = self.ask(f"stats-job {job_id}")
        return answer.table() if answer.word == "OK" else None

    def state(self, job_id):
        table = self.stats_job(job_id)
        return table and table["state"].strip('"')

    def stats(self, tube=None):
        answer = self.ask(f"stats-tube {tube}" if tube else "stats")
        return answer.table() if answer.word == "OK" else None

    def closed(self, seconds=PATIENCE_S):
        """Does the server close within the time, sending nothing more?"""
        self.socket.settimeout(seconds)
        try:
            self._more()
        except Gone:
            return not self.kept
        except socket.timeout:
            pass
        return False


def command(line, body=None):
    """The bytes of a command; `body` with the CR LF that ends it."""
    head = (line if isinstance(line, bytes) else line.encode("latin-1")) + b"\r\n"
    return head if body is None else head + body + b"\r\n"


class Beanstalkd:
    """Debian's beanstalkd on a port of its own; `arguments` as its manual has them."""

    def __init__(self, *arguments, prefix=()):
        self.arguments, self.prefix, self.process, self.port = arguments, list(prefix), None, None

    def start(self, seconds=PATIENCE_S):
        # It cannot be asked which port it was given, so somebody may take ours in between: again.
        for _ in range(5):
            self.port = free_port()
            self.process = subprocess.Popen(
                [*self.prefix, BEANSTALKD, "-l", "127.0.0.1", "-p", str(self.port),
                 *map(str, self.arguments)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            end = time.monotonic() + seconds
            while self.process.poll() is None and time.monotonic() < end:
                try:
                    socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                    return self
                except OSError:
                    time.sleep(0.005)
            self.kill()
        raise RuntimeError(f"{BEANSTALKD} did not start")

    @property
    def beanstalk_port(self):
        return self.port

    @property
    def pid(self):
        return self.process.pid

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stderr.close()
            self.process = None

    def __enter__(self):
        return self.start() if not self.process else self

    def __exit__(self, *_):
        self.kill()
