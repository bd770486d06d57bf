"""A nats-server with JetStream of the test's own, and as much of its protocol as tests need."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

from patience import PATIENCE_S
from ports import SINGLE, take
from process import remove

INSTALLED = shutil.which("nats-server", path=os.environ.get("PATH", "") + ":/usr/sbin")


class Nats:
    def __init__(self, folder=None):
        self.folder = folder or tempfile.mkdtemp(prefix="laterd-nats-")
        self.port = take(SINGLE, 1)[0]
        self.process = None

    @property
    def url(self):
        return f"nats://127.0.0.1:{self.port}"

    def start(self, seconds=PATIENCE_S):
        self.process = subprocess.Popen(
            [INSTALLED, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", self.folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                self.ask("$JS.API.INFO", {})
                return self
            except OSError:
                time.sleep(0.02)
        raise RuntimeError(f"nats-server did not start on port {self.port}")

    def ask(self, subject, content, seconds=PATIENCE_S):
        """A request of JetStream's API; its answer."""
        data = json.dumps(content).encode()
        with socket.create_connection(("127.0.0.1", self.port), seconds) as connection:
            file = connection.makefile("rb")
            file.readline()  # INFO
            connection.sendall(b'CONNECT {"verbose":false}\r\nSUB answer 1\r\n'
                               + b"PUB %s answer %d\r\n%s\r\n" % (subject.encode(), len(data), data))
            while True:
                words = file.readline().split()
                if not words:
                    raise ConnectionError("it closed the connection")
                if words[0] == b"MSG":
                    return json.loads(file.read(int(words[-1])))

    def make_stream(self, name, *subjects, **options):
        answer = self.ask(f"$JS.API.STREAM.CREATE.{name}",
                          {"name": name, "subjects": list(subjects), "storage": "file", **options})
        assert "error" not in answer, answer

    def messages(self, name):
        return self.ask(f"$JS.API.STREAM.INFO.{name}", {})["state"]["messages"]

    def kill(self):
        """kill -9; its files stay, until __exit__()."""
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None

    def __enter__(self):
        return self if self.process else self.start()

    def __exit__(self, *_):
        self.kill()
        remove(self.folder)
