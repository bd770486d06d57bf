"""later top on a terminal: keys, signals, sizes, and what the terminal is like afterwards."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time

import pytest
from fake_v1 import Fake
from patience import PATIENCE_S, soon
from process import LATER

STATS = {"version": "0.1.0", "now_ms": 1000, "uptime_ms": 5000, "topics": 3,
         "jobs": {"delayed": 1, "ready": 2, "reserved": 3, "buried": 4},
         "totals": {"pushed": 12345678, "buried": 67, "kicked": 89}}


def topic(name, pushed=0.0):
    return {"name": name, "rates": {"pushed": pushed, "finished": 0.0}}


def two_pages(query, _):
    if "cursor" in query:
        return 200, {"topics": [topic("zz-busiest", 9.5)]}
    return 200, {"topics": [topic("关闭订单"), topic("long-" * 30)], "cursor": "long"}


ROUTES = {"GET /v1/stats": (200, STATS), "GET /v1/topics": two_pages}


class Terminal:
    """A later that runs on a terminal of its own."""

    def __init__(self, url, *words, columns=80, lines=24):
        self.master, self.slave = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(self.slave)
        self.shown = b""
        self.process = subprocess.Popen([LATER, *words], stdin=self.slave, stdout=self.slave,
                                        stderr=self.slave,
                                        env=dict(os.environ, LATER_SERVER=url))

    def resize(self, columns, lines):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))

    def until(self, pattern, seconds=PATIENCE_S):
        """Waits until what was shown since the last call matches."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.shown.decode("utf-8", "replace")):
            left = end - time.monotonic()
            assert left > 0 and select.select([self.master], [], [], left)[0], self.shown
            self.shown += os.read(self.master, 65536)
        shown, self.shown = self.shown, b""
        return shown.decode("utf-8", "replace")

    def press(self, keys):
        os.write(self.master, keys)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def fake():
    with Fake(dict(ROUTES)) as server:
        yield server


OFF = r"\x1b\[\?25h\x1b\[\?1049l"


def test_q_ends_it_at_once_and_the_terminal_is_as_it_was(fake):
    with Terminal(fake.url, "top", "--every", "1h") as terminal:
        terminal.until("zz-busiest")
        assert termios.tcgetattr(terminal.slave) != terminal.before
        terminal.press(b"xyq")
        terminal.until(OFF)
        assert terminal.process.wait(PATIENCE_S) == 0
        assert termios.tcgetattr(terminal.slave) == terminal.before


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 0),
                                          (signal.SIGHUP, 129)])
def test_a_signal_ends_it_and_the_terminal_is_as_it_was(fake, number, code):
    with Terminal(fake.url, "top", "--every", "1h") as terminal:
        terminal.until("zz-busiest")
        os.kill(terminal.process.pid, number)
        terminal.until(OFF)
        assert terminal.process.wait(PATIENCE_S) == code
        assert termios.tcgetattr(terminal.slave) == terminal.before


def test_a_stopped_one_lends_the_terminal_and_takes_it_again(fake):
    with Terminal(fake.url, "top", "--every", "1h") as terminal:
        terminal.until("zz-busiest")
        os.kill(terminal.process.pid, signal.SIGTSTP)
        terminal.until(OFF)
        assert os.WIFSTOPPED(os.waitpid(terminal.process.pid, os.WUNTRACED)[1])
        assert termios.tcgetattr(terminal.slave) == terminal.before
        os.kill(terminal.process.pid, signal.SIGCONT)
        terminal.until(r"\x1b\[\?1049h(.|\n)*zz-busiest")
        terminal.press(b"q")
        assert terminal.process.wait(PATIENCE_S) == 0


def test_a_new_size_is_drawn_at_once(fake):
    with Terminal(fake.url, "top", "--every", "1h") as terminal:
        narrow = terminal.until("zz-busiest")
        assert "FINISHED/S" not in narrow and "buried   kicked" in narrow
        terminal.resize(120, 30)
        os.kill(terminal.process.pid, signal.SIGWINCH)
        assert "FINISHED/S" in terminal.until("zz-busiest")
        assert len(fake.asked("GET /v1/stats")) == 1


def test_the_busiest_of_all_pages_stands_first_and_long_names_end_in_an_ellipsis(fake):
    with Terminal(fake.url, "top", "--every", "1h") as terminal:
        page = terminal.until(r"关闭订单(.|\n)*\x1b\[J")
        page = page[page.index("TOPIC"):].replace("\x1b[K", "").replace("\r", "")
        rows = page.split("\n")
        assert rows[1].startswith("zz-busiest ")
        cut = [row for row in rows if row.startswith("long-long-")]
        assert len(cut) == 1 and "…" in cut[0] and len(cut[0]) <= 80
        # Twice as wide as its four characters, and so four columns short in characters.
        wide, = [row for row in rows if row.startswith("关闭订单")]
        assert len(wide) == len(rows[1]) - 4


def test_q_ends_it_though_the_server_does_not_answer(fake):
    hangs, ends = threading.Event(), threading.Event()

    def hang(*_):
        hangs.set()
        ends.wait(60)
        return 200, STATS

    with Terminal(fake.url, "top", "--every", "100ms") as terminal:
        terminal.until("zz-busiest")
        fake.routes["GET /v1/stats"] = hang
        try:
            assert hangs.wait(PATIENCE_S)
            begun = time.monotonic()
            terminal.press(b"q")
            assert terminal.process.wait(PATIENCE_S) == 0
            soon(time.monotonic() - begun, 5)  # and not only after --timeout
        finally:
            ends.set()


def test_without_a_terminal_it_prints_one_look_of_all_topics(fake):
    done = subprocess.run([LATER, "top", "--every", "100ms"], capture_output=True, text=True,
                          timeout=60, check=False, env=dict(os.environ, LATER_SERVER=fake.url))
    assert done.returncode == 0 and "\x1b" not in done.stdout
    rows = done.stdout[done.stdout.index("TOPIC"):].splitlines()
    assert rows[1].startswith("zz-busiest ") and any("long-" * 30 in row for row in rows)
