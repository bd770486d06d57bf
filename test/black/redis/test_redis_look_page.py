"""The commands under "Looking" in docs/redis-layout.md, run by a shell as they stand there. Only the port is another."""

import re
import subprocess

import pytest
from process import ROOT
from redis import REDIS_SERVER, Redis
from wire import Client

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")


def commands():
    with open(f"{ROOT}/docs/redis-layout.md", encoding="utf-8") as file:
        page = file.read().split("## Looking\n")[1]
    return re.findall(r"^    (.*)$", page, re.M)


@pytest.mark.parametrize("settings, partitions", [({}, 1), ({"partitions": 16}, 16)])
def test_the_page_shows_how_to_look_at_a_queue(laterd, settings, partitions):
    with Redis() as redis:
        server = laterd({"engine": {"engine": "redis"}, "redis": {"url": redis.url, **settings}})
        assert re.search(rf"\bpartitions={partitions}\b", "\n".join(server.lines))
        with Client(server.port) as client:
            for number in range(5):
                client.push_id("orders", id=f"own-{number}", delay="1h")
            client.push_id("orders")
        told = [subprocess.run(["bash", "-c", command.replace("redis-cli", f"redis-cli -p {redis.port}")],
                               capture_output=True, text=True, timeout=60, check=True) for command in commands()]
    assert [done.stderr for done in told] == [""] * 6
    said = [done.stdout.strip() for done in told]
    assert said[4:] == ["6", "5"], "of all partitions"
    if partitions == 1:
        assert said[:4] == ["2", "5", "torders", "6"]
