"""The real laterd as a process: started on free ports of the loopback, stopped by its own pid."""

import hashlib
import os
import re
import select
import shutil
import signal
import subprocess
import threading
import time

from patience import PATIENCE_S, TooLate

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LATERD = os.environ.get("LATERD", os.path.join(ROOT, "build", "laterd"))
LATER = os.environ.get("LATER", os.path.join(ROOT, "build", "later"))

LINE = re.compile(r"^\S+Z (debug|info|warn|error) (\S+) ?(.*)$")


class DidNotStart(Exception):
    """laterd ended, or said nothing, before it was listening."""


def remove(folder):
    """With all that is in it, though a process that ends may still make files there."""
    end = time.monotonic() + PATIENCE_S
    shutil.rmtree(folder, ignore_errors=True)
    while os.path.exists(folder) and time.monotonic() < end:
        time.sleep(0.05)
        shutil.rmtree(folder, ignore_errors=True)


def config_text(sections):
    """{'limits': {'jobs': 5}, 'server': {'http': [a, b]}} as INI."""
    lines = []
    for section, keys in sections.items():
        lines.append(f"[{section}]")
        for key, value in keys.items():
            for one in value if isinstance(value, (list, tuple)) else [value]:
                lines.append(f"{key} = {one}")
    return "\n".join(lines) + "\n"


class Laterd:
    """One laterd. `ports` are those of its HTTP listeners, in the order of the configuration;
    `beanstalk_ports` those of the listeners for clients of beanstalkd, which it has when
    `beanstalk` or the arguments say so; `sdmq_ports` those for clients of sdmq."""

    redis_url = None  # every laterd that does not say otherwise keeps its queue there
    redis_watch = None  # a Busy that asks a Redis that is always there: see _judge_start()

    def __init__(self, folder, config=None, listeners=("127.0.0.1:0",), arguments=(), beanstalk=(),
                 sdmq=(), **options):
        self.folder = str(folder)
        self.data = options.pop("data", os.path.join(self.folder, "data"))
        self.prefix = list(options.pop("prefix", ()))
        self.environment = dict(os.environ, **options.pop("environment", {}))
        self.popen_options = options
        self.listeners = list(listeners)
        self.beanstalk = list(beanstalk)
        self.sdmq = list(sdmq)
        self.arguments = list(arguments)
        self.config = {name: dict(keys) for name, keys in (config or {}).items()}
        self.heard, self.part = [], b""  # whole lines, and what came of the next one
        self.news = threading.Condition()
        self.process = None
        self.reader = None

    # Starting and stopping

    def command(self):
        sections = dict(self.config)
        sections["server"] = dict(sections.get("server", {}))
        sections["server"].setdefault("http", self.listeners)
        sections["server"].setdefault("beanstalk", self.beanstalk or "none")
        sections["server"].setdefault("sdmq", self.sdmq or "none")
        if self.redis_url and "engine" not in sections:
            # A queue of its own, which it finds again when it is started again. To make one of 16 partitions costs
            # Redis four times as much, and here hundreds are made.
            sections["engine"] = {"engine": "redis"}
            sections["redis"] = {"url": self.redis_url, "prefix": f"laterd-{self.queue()}", "partitions": 4,
                                 **sections.get("redis", {})}
        path = os.path.join(self.folder, "laterd.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(config_text(sections))
        return [*self.prefix, LATERD, "-c", path, "--data-dir", self.data, *self.arguments]

    def queue(self):
        return hashlib.sha256(self.data.encode()).hexdigest()[:16]

    def start(self, seconds=PATIENCE_S, wait=True):
        os.makedirs(self.folder, exist_ok=True)
        self.heard, self.part = [], b""
        self.process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                        env=self.environment, **self.popen_options)
        self.reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self.reader.start()
        if wait:
            self.wait_listening(seconds)
        return self

    def wait_listening(self, seconds=PATIENCE_S):
        begun = time.monotonic()
        if not self.wait_log("listening", seconds,
                             count=max(1, len(self.listeners) + len(self.beanstalk) + len(self.sdmq))):
            self.kill()
            self._judge_start("\n".join(self.lines), begun)
        return self

    def _judge_start(self, said, begun):
        """It waits for five seconds for a Redis that does not answer. One that is always there was late for an eighth of
        that at least, if the machine was busy."""
        silent = "cannot use Redis" in said and "it does not answer" in said
        if silent and self.redis_watch and self.redis_watch.longest_since(begun) >= 5 / 8:
            raise TooLate(said)
        raise DidNotStart(said)

    def _read(self, process):
        """The thread that waits for what it says."""
        waits = select.poll()
        waits.register(process.stderr.fileno(), select.POLLIN)
        while waits.poll() and self._hear(process):
            pass
        with self.news:
            process.stderr.close()
            if self.process is process:
                self.reader = None
            self.news.notify_all()

    def _hear(self, process):
        """Takes all that it has said by now; False: it says nothing more."""
        with self.news:
            now = select.poll()
            if not process.stderr.closed:
                now.register(process.stderr.fileno(), select.POLLIN)
            while now.poll(0):
                data = os.read(process.stderr.fileno(), 1 << 16)
                if not data:
                    self.heard += [self.part.decode("utf-8", "replace")] if self.part else []
                    self.part = b""
                    return False
                *whole, self.part = (self.part + data).split(b"\n")
                self.heard += [line.decode("utf-8", "replace") for line in whole]
                self.news.notify_all()
        return True

    @property
    def lines(self):
        """What it has said, up to now: what it wrote before it answered is there when the answer is, though the
        thread that reads had no processor meanwhile."""
        with self.news:
            if self.process:
                self._hear(self.process)
            return list(self.heard)

    @property
    def pid(self):
        """laterd's own, also when a tracer started it."""
        if not self.prefix:
            return self.process.pid
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(children, encoding="ascii") as file:
            return int(file.read().split()[0])

    def signal(self, number):
        os.kill(self.pid, number)

    def written_bytes(self):
        """How many its calls have written so far, to files and sockets."""
        with open(f"/proc/{self.pid}/io", encoding="ascii") as file:
            return int(re.search(r"^wchar: (\d+)", file.read(), re.MULTILINE).group(1))

    def kill(self):
        """kill -9, and nothing is said any more."""
        if self.process and self.process.poll() is None:
            try:
                self.signal(signal.SIGKILL)
            except (OSError, IndexError):
                self.process.kill()
        return self.wait()

    def stop(self, seconds=PATIENCE_S):
        """SIGTERM; returns the exit code."""
        if self.process and self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds=PATIENCE_S):
        if not self.process:
            return None
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        reader = self.reader
        if reader:
            reader.join(PATIENCE_S)  # so that its last words are heard, and not taken for the next one's
        return code

    def __enter__(self):
        return self.start() if not self.process else self

    def __exit__(self, *_):
        self.kill()

    # What it says

    def events(self, name):
        """[(level, facts)] of the log lines with that event."""
        found = []
        for line in self.lines:
            match = LINE.match(line)
            if match and match.group(2) == name:
                found.append((match.group(1), match.group(3)))
        return found

    def wait_log(self, name, seconds=10, count=1):
        """Waits until the event was logged so often; False when time or the process ended first."""
        end = time.monotonic() + max(seconds, PATIENCE_S)
        with self.news:
            while len(self.events(name)) < count:
                left = end - time.monotonic()
                if left <= 0 or self.reader is None:
                    return len(self.events(name)) >= count
                self.news.wait(left)
        return True

    def ports_of(self, protocol):
        found = []
        for _, facts in self.events("listening"):
            match = re.search(rf"addr=\S+:(\d+) protocol={protocol}\b", facts)
            if match:
                found.append(int(match.group(1)))
        return found

    @property
    def ports(self):
        return self.ports_of("http")

    @property
    def beanstalk_ports(self):
        return self.ports_of("beanstalk")

    @property
    def sdmq_ports(self):
        return self.ports_of("sdmq")

    @property
    def beanstalk_port(self):
        return self.beanstalk_ports[0]

    @property
    def port(self):
        return self.ports[0]
