"""docs/migrate-sdmq.md, walked: sdmq's jobs from Redis into laterd beside it, and back by the program of the document,
into a server that speaks sdmq's interface (another laterd: sdmq itself is not here)."""

import json
import os
import re
import subprocess
import sys
import time

import pytest
from process import LATER, ROOT
from redis import REDIS_SERVER, Redis
from wire import Client

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")


def program(folder):
    with open(os.path.join(ROOT, "docs", "migrate-sdmq.md"), encoding="utf-8") as file:
        text = re.search(r"```python\n(.*?)```", file.read(), re.S).group(1)
    path = folder / "back.py"
    path.write_text(text)
    return str(path)


def of(client, job_id):
    job = client.job(job_id, method="GET").json()
    return {name: job.get(name) for name in ("topic", "due_ms", "body", "biz_key", "subtopic", "extend_data",
                                             "create_time", "rank", "ttr_ms")}


def test_jobs_come_over_and_go_back_as_they_were(laterd, tmp_path):
    now = int(time.time() * 1000)
    with Redis() as redis:
        for i in range(300):
            job = {"id": f"pay:{i}:10.0.0.1:{i}", "topic": "pay", "body": f"b{i}", "createTime": now - i, "delay": 3600000 + i,
                   "status": 1, "ttl": 30, "bizKey": str(i), "subtopic": "eu", "extendData": "{\"a\":1}", "priority": i % 3}
            redis.call("HSET", "io.sdmq:dq:pools", job["id"], json.dumps(job))
            redis.call("ZADD", f"io.sdmq:dq:{i % 4 + 1}", job["createTime"] + job["delay"], job["id"])
        before = len(redis.call("HGETALL", "io.sdmq:dq:pools"))
        server, old = (laterd({}, sdmq=("127.0.0.1:0",)) for _ in range(2))
        with Client(server.port) as client, Client(old.port) as other, Client(server.sdmq_ports[0]) as sdmq:
            # 2. side by side: new jobs go to laterd, deletes to both
            answer = sdmq.request("POST", "/push", json.dumps({"topic": "pay", "id": "new", "body": "中", "delay": 7200000,
                                                               "bizKey": "n", "priority": 7}),
                                  {"Content-Type": "application/json"})
            assert answer.json()["data"] == "new"
            assert sdmq.get("/delete?jobId=pay:9:10.0.0.1:9").json()["success"], "laterd has not got it"
            # 3. import, twice
            command = [LATER, "--server", f"http://127.0.0.1:{server.port}", "import", "redis", "--layout", "sdmq",
                       redis.url + "/0"]
            done = subprocess.run([*command, "--dry-run"], capture_output=True, text=True, check=False)
            assert done.returncode == 0 and "300 jobs; nothing was sent" in done.stdout, done
            for text in ("300 imported, 0 there already", "0 imported, 300 there already"):
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                assert done.returncode == 0 and text in done.stdout, done
            assert len(redis.call("HGETALL", "io.sdmq:dq:pools")) == before, "Redis is only read"
            job = of(client, "pay:5:10.0.0.1:5")
            assert (job["due_ms"], job["biz_key"], job["rank"], job["ttr_ms"]) == (now + 3600000, "5", 2, 30000)
            # going back, twice
            for _ in range(2):
                done = subprocess.run([sys.executable, program(tmp_path), f"http://127.0.0.1:{server.port}",
                                       f"http://127.0.0.1:{old.sdmq_ports[0]}"], capture_output=True, text=True, check=False)
                assert done.returncode == 0 and done.stdout == "301 jobs sent to sdmq\n", done
            for job_id in ("new", *(f"pay:{i}:10.0.0.1:{i}" for i in range(300))):
                assert of(client, job_id) == of(other, job_id)
            assert other.get("/v1/topics/pay").json()["delayed"] == 301
