"""laterd --import-config: what it prints is a configuration that laterd runs with."""

import re
import subprocess
import time

import pytest
from patience import soon
from process import LATERD
from redis import REDIS_SERVER, Redis
from wire import Client


def convert(path):
    return subprocess.run([LATERD, "--import-config", str(path)], capture_output=True, text=True,
                          timeout=60, check=False)


def test_a_server_with_the_printed_configuration_does_what_the_go_server_did(tmp_path, laterd):
    old = tmp_path / "delay-queue.conf"
    old.write_text("# 监听\nbind_address = '127.0.0.1:0'\nbucket_size = 5\n"
                   "queue_block_timeout = 1\nredis.password = \"secret\"\n")
    answer = convert(old)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "secret" not in answer.stdout
    new = tmp_path / "laterd.conf"
    new.write_text(answer.stdout)
    check = subprocess.run([LATERD, "-c", str(new), "--check-config"], timeout=60, check=False)
    assert check.returncode == 0
    server = laterd(start=False, arguments=("-c", str(new)))
    with server.start(), Client(server.port) as client:
        start = time.monotonic()
        answer = client.post("/pop", topic="a").json()
        assert answer == {"code": 0, "message": "操作成功", "data": None}
        assert 0.9 < soon(time.monotonic() - start, 5)


@pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")
def test_the_printed_configuration_serves_from_redis_when_the_comment_is_taken_away(tmp_path, laterd):
    with Redis() as redis:
        redis.call("CONFIG", "SET", "requirepass", "secret")
        redis.password = "secret"
        old = tmp_path / "delay-queue.conf"
        old.write_text(f"bind_address = 127.0.0.1:0\nredis.host = 127.0.0.1:{redis.port}\n"
                       "redis.db = 3\nredis.password = secret\n")
        answer = convert(old)
        assert (answer.returncode, answer.stderr) == (0, "") and "secret" not in answer.stdout
        text = re.sub(r"^#(\[|engine =|url =)", r"\1", answer.stdout, flags=re.M)
        assert f"\nurl = redis://127.0.0.1:{redis.port}/3\n" in text
        new = tmp_path / "laterd.conf"
        new.write_text(text)
        server = laterd(start=False, arguments=("-c", str(new)),
                        environment={"LATERD_REDIS_PASSWORD": "secret"})
        with server.start(), Client(server.port) as client:
            assert client.post("/push", topic="a", id="1", delay=10, ttr=10, body="x").status == 200
            assert "db3:keys=" in redis.call("INFO", "keyspace").decode()


def test_a_file_that_cannot_be_read_or_understood_is_reported(tmp_path):
    answer = convert(tmp_path / "none")
    assert answer.returncode == 1 and "No such file" in answer.stderr
    bad = tmp_path / "bad"
    bad.write_text("redis.db = 1\nwhat\n")
    answer = convert(bad)
    assert answer.returncode == 2 and "line 2: not a key = value" in answer.stderr
    assert convert("/").returncode == 1


def test_laterds_own_configuration_is_not_taken_for_the_go_servers(tmp_path):
    own = tmp_path / "laterd.conf"
    own.write_text(subprocess.run([LATERD, "--print-config"], capture_output=True, text=True,
                                  check=True).stdout)
    answer = convert(own)
    assert answer.returncode == 2 and answer.stdout == ""
    assert f"{own}: this is a configuration of laterd already" in answer.stderr
