"""Fixtures of a queue in Redis that has a journal: a database of the test's own, a Redis, and the daemons. A test
file imports those that it uses by their functions' names."""

import pytest

from journal import CURSORS, agree, differences, gauge
from redis import Redis
from wire import Client, eventually


@pytest.fixture(name="base")
def a_base(maria, request):
    """A database of the test's own: its name."""
    name = "r" + str(abs(hash(request.node.name)) % 10**12)
    maria.url_of = {**getattr(maria, "url_of", {}), name: maria.database(name)}
    yield name
    maria.run(f"DROP DATABASE IF EXISTS {name}")


@pytest.fixture(name="redis")
def a_redis():
    with Redis() as server:
        yield server


@pytest.fixture(name="daemon")
def a_daemon(laterd, redis, maria, base):
    """Starts a laterd on the test's queue: daemon(max_lag="1M", …); daemon(url="") has no journal."""
    def start(partitions=4, **keys):
        return laterd({"engine": {"engine": "redis"}, "redis": {"url": redis.url, "partitions": partitions},
                       "journal": {"url": maria.url_of[base], **keys}})
    return start


def is_equal(server, maria, base, topics=("t",)):
    """Waits until the tables have what the queue has."""
    assert eventually(lambda: (CURSORS,) in maria.run("SHOW TABLES", database=base) and
                      maria.run(f"SELECT 1 FROM {CURSORS}", database=base), 20)
    with Client(server.port) as client:
        equal = eventually(lambda: agree(client, topics, maria, base), 30, 0.1)
        assert equal, differences(client, topics, maria, base)
        # The rows are seen before the writer has its answer. One that does not write says 0, or nothing.
        assert eventually(lambda: not gauge(client, "journal_lag_batches"), 30), client.get("/metrics").text
