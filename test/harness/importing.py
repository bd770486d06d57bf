"""`later import` against a laterd of the test's own."""

import os
import socket
import subprocess
import time

from patience import PATIENCE_S
from process import LATER


def importer_of(laterd, *what):
    """A function that runs `later import WHAT WORDS` into a new laterd, which is its .server: another may be put there."""
    def run(*words, env=()):
        return subprocess.run([LATER, "import", *what, *map(str, words),
                               "--server", f"http://127.0.0.1:{run.server.port}"],
                              capture_output=True, text=True, timeout=100, check=False,
                              env=dict(os.environ, **dict(env)))
    run.server = laterd()
    return run


class Source:
    """A server to import from: a process that listens on a Unix socket, and one connection to it."""

    def start(self, command, path):
        """Connects, and says so; False if it ended instead, or does not listen in time."""
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and self.process.poll() is None:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(path)
            except OSError:
                self.socket.close()
                time.sleep(0.01)
                continue
            self.file = self.socket.makefile("rb")
            return True
        self.process.kill()
        self.process.wait()
        return False

    def kill(self):
        self.file.close()
        self.socket.close()
        self.process.kill()
        self.process.wait()
