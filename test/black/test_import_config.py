"""laterd --import-config: what it prints is a configuration that laterd runs with."""

import subprocess
import time

from process import LATERD
from wire import Client


def convert(path):
    return subprocess.run([LATERD, "--import-config", str(path)], capture_output=True, text=True,
                          timeout=10, check=False)


def test_a_server_with_the_printed_configuration_does_what_the_go_server_did(tmp_path, laterd):
    old = tmp_path / "delay-queue.conf"
    old.write_text("# 监听\nbind_address = '127.0.0.1:0'\nbucket_size = 5\n"
                   "queue_block_timeout = 1\nredis.password = \"secret\"\n")
    answer = convert(old)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "secret" not in answer.stdout
    new = tmp_path / "laterd.conf"
    new.write_text(answer.stdout)
    check = subprocess.run([LATERD, "-c", str(new), "--check-config"], timeout=10, check=False)
    assert check.returncode == 0
    server = laterd(start=False, arguments=("-c", str(new)))
    with server.start(), Client(server.port) as client:
        start = time.monotonic()
        answer = client.post("/pop", topic="a").json()
        assert answer == {"code": 0, "message": "操作成功", "data": None}
        assert 0.9 < time.monotonic() - start < 5


def test_a_file_that_cannot_be_read_or_understood_is_told(tmp_path):
    answer = convert(tmp_path / "none")
    assert answer.returncode == 1 and "No such file" in answer.stderr
    bad = tmp_path / "bad"
    bad.write_text("redis.db = 1\nwhat\n")
    answer = convert(bad)
    assert answer.returncode == 2 and "line 2: not a key = value" in answer.stderr
    assert convert("/").returncode == 1
