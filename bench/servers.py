"""The servers of a bench: started on free ports of the loopback, stopped by their own pid."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

START_TIMEOUT_S = 60


def free_port():
    """One that nobody listens on now, for a server that does not say which it has taken."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A process. It says on standard error where it listens, or `address` is known before."""

    def __init__(self, name, command, pinned, address=None, prefix=()):
        self.name = name
        self.started = time.monotonic()
        self.traced = "strace" in prefix
        self.log = tempfile.TemporaryFile(mode="w+b")
        pin = ["taskset", "-c", "0"] if pinned else []
        self.process = subprocess.Popen(
            [*pin, *prefix, *(str(word) for word in command)],
            stdout=subprocess.DEVNULL, stderr=self.log
        )
        try:
            self.address = self._said() if address is None else self._answering(address)
        except RuntimeError:
            self.stop()
            raise
        self.start_s = time.monotonic() - self.started

    @property
    def pid(self):
        """The server's own: taskset and valgrind become the server, strace starts it."""
        if not self.traced:
            return self.process.pid
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(children.read_text().split()[0])

    def text(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode(errors="replace")

    def _waits(self):
        until = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < until and self.process.poll() is None:
            yield
            time.sleep(0.005)
        raise RuntimeError(f"{self.name} did not start:\n{self.text()[-2000:]}")

    def _said(self):
        for _ in self._waits():
            found = re.search(r"listening.*?(127\.0\.0\.1:\d+)", self.text())
            if found:
                return found.group(1)

    def listens(self, protocol):
        """Where laterd takes connections of this protocol, as it says."""
        for _ in self._waits():
            found = re.search(rf"listening.*?(127\.0\.0\.1:\d+) protocol={protocol}", self.text())
            if found:
                return found.group(1)

    def _answering(self, address):
        host, port = address.split(":")
        for _ in self._waits():
            try:
                socket.create_connection((host, int(port)), 1).close()
                return address
            except OSError:
                continue

    def memory_bytes(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024

    def stop(self):
        if self.process.poll() is None:
            try:
                os.kill(self.pid, signal.SIGTERM)
            except (OSError, IndexError):
                self.process.terminate()  # the tracer has no child any more
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
