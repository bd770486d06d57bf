"""Several laterds on one Redis behind nginx, round robin, as sdmq is run: the recipe of docs/sdmq.md, word for word
but for its addresses. A daemon that is killed costs its clients a second try; no acknowledged job is lost."""

import json
import os
import re
import shutil
import subprocess
import threading
import time

import pytest
from patience import PATIENCE_S
from ports import SINGLE, take
from process import ROOT
from redis import REDIS_SERVER, Redis
from wire import Client, Closed, eventually

NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
pytestmark = pytest.mark.skipif(not REDIS_SERVER or not NGINX, reason="there is no redis-server or no nginx")

TTR_S = 2
LOST = (Closed, OSError)


def recipe():
    """The block of nginx's configuration in the document."""
    with open(os.path.join(ROOT, "docs", "sdmq.md"), encoding="utf-8") as file:
        return re.search(r"```nginx\n(.*?)```", file.read(), re.S).group(1)


class Nginx:
    def __init__(self, folder, ports):
        self.port = take(SINGLE, 1)[0]
        text = recipe()
        for host, port in zip(("10.0.0.11", "10.0.0.12"), ports):
            assert f"server {host}:6355" in text
            text = text.replace(f"server {host}:6355", f"server 127.0.0.1:{port}")
        text, count = re.subn(r"listen 6355;", f"listen 127.0.0.1:{self.port};", text)
        assert count == 1
        path = folder / "nginx.conf"
        temporary = "".join(f"{kind}_temp_path {folder}/{kind};\n"
                            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        path.write_text(f"daemon off;\nmaster_process off;\npid {folder}/nginx.pid;\nerror_log stderr;\n"
                        f"events {{}}\nhttp {{\naccess_log off;\n{temporary}{text}\n}}\n")
        self.process = subprocess.Popen([NGINX, "-p", str(folder), "-c", str(path), "-e", "stderr"],
                                        stderr=subprocess.DEVNULL)

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def redis():
    with Redis() as server:
        yield server


@pytest.fixture
def front(laterd, redis, starter, tmp_path, request):
    keys = {"engine": {"engine": "redis"}, "redis": {"url": redis.url, "prefix": request.node.name}}
    daemons = [laterd({**keys, "sdmq": {"machine": i + 1}}, sdmq=("127.0.0.1:0",)) for i in range(2)]
    folder = tmp_path / "nginx"
    folder.mkdir()
    nginx = starter(Nginx)(folder, [daemon.sdmq_ports[0] for daemon in daemons])
    one = Front(nginx, daemons)
    assert eventually(one.serves)
    return one


class Front:
    def __init__(self, nginx, daemons):
        self.port, self.daemons = nginx.port, daemons

    def serves(self):
        try:
            return self.ask("GET", "/healthz").status == 200
        except LOST:
            return False

    def ask(self, method, path, fields=None):
        """Each request on a connection of its own."""
        with Client(self.port) as client:
            return client.request(method, path, json.dumps(fields) if fields else None,
                                  {"Content-Type": "application/json"} if fields else {})

    def told(self, method, path, fields=None):
        """The data of a success; None, True if the request was lost or is to be sent again."""
        try:
            answer = self.ask(method, path, fields)
        except LOST:
            return None, True
        if answer.status != 200 or not answer.json()["success"]:
            assert answer.status in (200, 502, 504), answer
            return None, True
        return answer.json()["data"], False

    def commands(self, daemon):
        with Client(daemon.port) as client:
            text = client.get("/metrics").body.decode()
        return sum(int(count) for count in re.findall(r"laterd_commands_total\{protocol=\"sdmq\",[^}]*\} (\d+)", text))


def test_requests_go_to_both_in_turn(front):
    ids = [front.told("POST", "/push", {"topic": "t", "body": str(i), "delay": 0})[0] for i in range(40)]
    assert len(set(ids)) == 40
    assert {int(one.rsplit(":", 1)[1]) >> 12 & 1023 for one in ids} == {1, 2}, "both have made some"
    for _ in range(40):
        job, _ = front.told("GET", "/get/t?wait=5s")
        assert front.told("GET", f"/finish?jobId={job['id']}") == (None, False)
    assert all(front.commands(daemon) >= 30 for daemon in front.daemons)


def test_a_long_poll_goes_through(front):
    taken = []
    thread = threading.Thread(target=lambda: taken.append(front.told("GET", "/get/t?wait=25s")[0]))
    thread.start()
    time.sleep(0.3)
    front.told("POST", "/push", {"topic": "t", "id": "7", "delay": 200})
    thread.join(PATIENCE_S)
    assert taken[0]["id"] == "7"


def test_p2_a_daemon_that_is_killed_loses_no_acknowledged_job(front):
    acknowledged, finished = set(), set()

    def push_some():
        for i in range(300):
            while front.told("POST", "/push", {"topic": "t", "id": f"j{i}", "body": "x", "ttl": TTR_S})[1]:
                pass
            acknowledged.add(f"j{i}")

    pusher = threading.Thread(target=push_some, daemon=True)
    pusher.start()
    assert eventually(lambda: len(acknowledged) > 50)
    front.daemons[0].kill()
    end = time.monotonic() + 2 * PATIENCE_S
    while (pusher.is_alive() or acknowledged - finished) and time.monotonic() < end:
        job, _ = front.told("GET", "/get/t?wait=500")
        if job and not front.told("GET", f"/finish?jobId={job['id']}")[1]:
            finished.add(job["id"])
    pusher.join(20)
    assert finished == acknowledged and len(finished) == 300
