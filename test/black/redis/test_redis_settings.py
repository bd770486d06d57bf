"""Settings of topics, properties and notes of jobs on Redis: what one daemon is told the others know,
and what lies there survives daemons."""

import pytest
from redis import REDIS_SERVER, Redis, config, wait_until
from wire import Client

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")

HEARD = 2  # seconds until another daemon knows of a change


@pytest.fixture(scope="module")
def redis():
    with Redis() as server:
        yield server


@pytest.fixture
def keys(redis, request):
    return config(redis.url, prefix=request.node.name[-40:])


def put(client, topic, settings, version=None):
    """`version`: only if the settings have it."""
    headers = {} if version is None else {"If-Match": f'"{version}"'}
    return client.request("PUT", f"/v1/topics/{topic}", settings, headers)


def settings_of(client, topic):
    """(settings, version); (None, None): there is no such topic."""
    answer = client.get(f"/v1/topics/{topic}")
    if answer.status == 404:
        return None, None
    said = answer.json()
    return said.get("settings"), said.get("version")


def test_what_one_daemon_sets_the_other_sees_within_two_seconds(laterd, keys):
    one, other = Client(laterd(keys).port), Client(laterd(keys).port)
    answer = put(one, "orders", {"retry": ["1s", "2s"]})
    assert answer.status == 200, answer
    version = answer.json()["version"]
    assert settings_of(one, "orders")[1] == version, "who sets it sees it at once"
    wait_until(lambda: settings_of(other, "orders")[1] == version, HEARD)
    # A push through the other takes its schedule from there.
    job = other.push("orders", body="x").json()
    assert other.job(job["id"], method="GET").json()["retry"] == [1000, 2000]

    assert put(other, "orders", {"retry": ["5s"]}, version=1).status == 412
    answer = put(other, "orders", {"retry": ["5s"]}, version=version)
    assert answer.status == 200, answer
    wait_until(lambda: settings_of(one, "orders")[1] == answer.json()["version"], HEARD)

    assert other.request("DELETE", "/v1/topics/orders").status == 200
    wait_until(lambda: settings_of(one, "orders") == (None, None), HEARD)


def test_a_daemon_that_starts_knows_all_settings(laterd, keys):
    one = Client(laterd(keys).port)
    for i in range(100):
        assert put(one, f"topic-{i}", {"retry": [f"{i + 1}s"]}).status == 200
    other = Client(laterd(keys).port)
    for i in range(100):
        job = other.push(f"topic-{i}", body="x").json()
        assert other.job(job["id"], method="GET").json()["retry"] == [1000 * (i + 1)]


def test_settings_are_those_of_a_redis_that_has_started_again(laterd):
    with Redis(appendonly="yes", appendfsync="always") as redis:
        keys = config(redis.url, prefix="again")
        one, other = Client(laterd(keys).port), Client(laterd(keys).port)
        version = put(one, "orders", {"retry": ["1s"]}).json()["version"]
        redis.kill()
        redis.start()
        wait_until(lambda: put(one, "lists", {"retry": ["2s"]}).status == 200)
        newer = settings_of(one, "lists")[1]
        assert newer > version
        wait_until(lambda: settings_of(other, "lists")[1] == newer)
        assert settings_of(other, "orders")[1] == version

        redis.kill()  # and comes back with nothing
        redis.settings = {"save": '""'}
        redis.start()
        for client in (one, other):
            wait_until(lambda: settings_of(client, "orders") == (None, None))
