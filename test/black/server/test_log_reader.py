"""Who reads the log may hang: laterd must not. And the tests' own reader: what is asked for is there."""

import fcntl
import os
import re
import signal
import subprocess
import time

import pytest

from process import LATERD, config_text
from wire import Client, eventually

pytestmark = pytest.mark.embedded("the log is the same whatever the engine")


@pytest.fixture
def unread(tmp_path):
    """A laterd whose log goes into a small pipe: the process, its port, and the pipe's end that is read."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 16384)
    path = tmp_path / "laterd.conf"
    path.write_text(config_text({"server": {"http": "127.0.0.1:0", "beanstalk": "none"}}), encoding="utf-8")
    process = subprocess.Popen([LATERD, "-c", path, "--data-dir", tmp_path / "data"], stderr=write)
    os.close(write)
    text = b""
    while not (found := re.search(rb"listening addr=127.0.0.1:(\d+)", text)):
        text += os.read(read, 4096)
    yield process, int(found.group(1)), read
    process.kill()
    process.wait()
    os.close(read)


def test_a_reader_of_the_log_that_hangs_does_not_hang_laterd(unread):
    process, port, read = unread
    with Client(port) as client:
        for _ in range(300):  # a line each, of 130 bytes: the pipe is full in the middle of them
            process.send_signal(signal.SIGHUP)
            time.sleep(0.002)
            assert client.get("/healthz").status == 200
        os.set_blocking(read, False)
        text = os.read(read, 65536)
        assert text.count(b" reloaded ") < 300

        def is_told():
            process.send_signal(signal.SIGHUP)
            try:
                return b"log_lines_lost count=" in os.read(read, 65536)
            except BlockingIOError:
                return False
        assert eventually(is_told)
        process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_what_was_logged_is_seen_though_the_thread_that_reads_has_no_processor(laterd):
    server = laterd()
    with server.news:  # which that thread waits for
        server.signal(signal.SIGHUP)
        assert eventually(lambda: server.events("reloaded"))
