"""The webhook sink without a server: build/webhook_drive, a delivery a line."""

import json
import os
import queue
import subprocess
import threading

from patience import PATIENCE_S

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DRIVER = os.environ.get("PUSH_DRIVER", os.path.join(ROOT, "build", "webhook_drive"))
LOOPBACK = "127.0.0.1"


def preloaded(name, folder):
    """The environment of a program with test/harness/NAME.c in front of its libraries."""
    library = os.path.join(folder, f"{name}.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library,
                    os.path.join(ROOT, "test", "harness", f"{name}.c"), "-ldl"], check=True)
    return {"LD_PRELOAD": library}


def preloaded_names(folder):
    """The environment of a program that looks up names of the test's own: names.c."""
    return preloaded("names", folder)


class Sink:
    """`options` are those of [push], as the driver's arguments."""

    def __init__(self, environment=None, prefix=(), **options):
        options.setdefault("allow", LOOPBACK)
        self.process = subprocess.Popen(
            [*prefix, DRIVER, *[f"{name}={value}" for name, value in options.items()]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, **(environment or {})))
        self.outcomes = queue.Queue()
        self.log = []
        threading.Thread(target=self._read, daemon=True).start()
        self.logger = threading.Thread(target=self._read_log, daemon=True)
        self.logger.start()

    def _read(self):
        for line in self.process.stdout:
            outcome = json.loads(line)
            outcome["response"] = bytes.fromhex(outcome["response"])
            self.outcomes.put(outcome)

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line)

    def send(self, url, **delivery):
        delivery.setdefault("id", "j1")
        self.process.stdin.write(json.dumps({"url": url, **delivery}) + "\n")
        self.process.stdin.flush()

    def outcome(self, seconds=PATIENCE_S):
        return self.outcomes.get(timeout=seconds)

    def ask(self, url, seconds=PATIENCE_S, **delivery):
        self.send(url, **delivery)
        return self.outcome(seconds)

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) * 1024

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def close(self, seconds=70):
        """The end of the input; the exit code."""
        self.process.stdin.close()
        code = self.process.wait(seconds)
        self.logger.join(PATIENCE_S)
        return code

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            code = self.close()
            assert kind or code == 0, "".join(self.log)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
