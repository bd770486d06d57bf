"""What a client and an operator are told when Redis does not serve, or cannot do what they ask."""

import re
import subprocess

import pytest
from process import LATER
from redis import REDIS_SERVER, Redis, config, wait_until
from wire import Client

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")

AWAY = re.compile(r"Redis is away since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z: Connection refused")


@pytest.fixture
def redis():
    one = Redis(requirepass="very-secret")
    one.password = "very-secret"
    with one:
        yield one


def metric(client, name):
    found = re.search(rf"^laterd_{name} (\S+)$", client.get("/metrics").text, re.MULTILINE)
    return float(found[1])


@pytest.fixture
def server(laterd, redis):
    url = redis.url.replace("//", "//:very-secret@")
    return laterd(config(url))


def test_a_redis_that_is_away_is_named_with_the_time_since_when(server, redis):
    with Client(server.port) as client:
        job_id = client.push_id("t", body="x")
        redis.kill()
        wait_until(lambda: client.get("/readyz").status == 503, 20)
        wait_until(lambda: AWAY.search(client.get("/readyz").text), 20)
        told = [client.push("t", body="x"), client.job(job_id, method="GET"),
                client.get("/v1/topics/t"), client.push("t", id="a", body="x", due=0)]
        for answer in told:
            assert answer.status == 503 and AWAY.search(answer.json()["detail"]), answer
        assert AWAY.search(client.push_many("t", [{"body": 1}])[0]["problem"]["detail"])
        assert AWAY.search(client.call("/push", topic="t", id="1", delay=1, ttr=1, body="x")[1])
        texts = [answer.text for answer in told] + [client.get("/readyz").text, *server.lines]
        assert not any("very-secret" in text for text in texts)
        assert metric(client, "redis_connected") == metric(client, "redis_servers") == 0
        assert metric(client, "redis_losses_total") >= 1
        redis.start()
        wait_until(lambda: client.get("/readyz").text == "ready\n", 20)
        assert metric(client, "redis_connected") == metric(client, "redis_servers") == 1
        assert metric(client, "redis_connects_total") >= 2
        assert metric(client, "redis_round_trip_seconds_count") > 10


def test_sums_that_are_old_say_so(server, redis):
    with Client(server.port) as client:
        client.push_id("t", body="x")
        wait_until(lambda: client.get("/v1/stats").json()["jobs"]["ready"] == 1)
        assert client.get("/v1/stats").json()["store"]["stats_age_ms"] < 60_000
        redis.kill()
        wait_until(lambda: client.get("/v1/stats").json()["store"]["stats_age_ms"] > 1000, 30)
        assert client.get("/v1/stats").json()["jobs"]["ready"] == 1
        wait_until(lambda: metric(client, "redis_stats_age_seconds") >= 4, 30)
        told = subprocess.run([LATER, "stats", "--server", f"http://127.0.0.1:{server.port}"],
                              capture_output=True, text=True, check=True).stdout
        assert re.search(r"jobs and totals are those of \d+ s ago", told)


@pytest.mark.parametrize("how", ["push", "batch", "reschedule"])
def test_a_due_time_that_redis_cannot_hold_is_named_with_the_latest(server, how):
    due = "2300-01-01T00:00:00Z"
    with Client(server.port) as client:
        if how == "push":
            answer = client.push("t", body="x", due=due)
            status, detail = answer.status, answer.json()["detail"]
        elif how == "batch":
            result, = client.push_many("t", [{"body": "x", "due": due}])
            status, detail = result["status"], result["problem"]["detail"]
        else:
            answer = client.job(client.push_id("t", body="x", delay="1h"), method="PATCH", due=due)
            status, detail = answer.status, answer.json()["detail"]
    assert status == 501
    assert "due at 2300-01-01T00:00:00.000Z; the latest due time on Redis is 2255-06-05T" in detail


def test_a_password_that_is_asked_for_names_where_to_write_it(laterd, redis):
    server = laterd(config(redis.url), start=False)
    server.start(wait=False)
    assert server.wait() == 1
    assert "set LATERD_REDIS_PASSWORD, or put user:password@ into redis.url" in server.lines[-1]
