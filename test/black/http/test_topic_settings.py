"""Settings of topics: what they are, what they change for each protocol's jobs, and how they go."""

import urllib.parse

import pytest
from beanstalk import Connection
from process import Laterd
from wire import Client, eventually


def path_of(topic, rest=""):
    return f"/v1/topics/{urllib.parse.quote(topic, safe='')}{rest}"


def put(client, topic, settings, **headers):
    return client.request("PUT", path_of(topic), settings,
                          {name.replace("_", "-"): value for name, value in headers.items()})


def configure(client, topic, **settings):
    """Sets them, and waits until this server goes by them: on Redis it is told. The version."""
    answer = put(client, topic, settings)
    assert answer.status == 200, answer
    version = answer.json()["version"]
    assert eventually(lambda: client.get(path_of(topic)).json().get("version", 0) == version)
    return version


def code(answer):
    return answer.json()["code"]


def take(client, topic):
    job, = client.reserve(topic, wait=20000)
    return job


def test_settings_are_shown_in_their_fixed_form(client, topic):
    given = {"ttr": 90000, "retry": ["1m", 90000], "rate": "5/1m", "jitter": 0.50,
             "target": {"url": "https://a.example/", "type": "http", "success": {"status": "200-299"}}}
    version = configure(client, topic, **given)
    answer = client.get(path_of(topic))
    assert answer.headers["etag"] == f'"{version}"'
    assert answer.json()["settings"] == {
        "target": {"type": "http", "url": "https://a.example/"}, "retry": ["60s", "90s"], "ttr": "90s",
        "jitter": 0.5, "rate": "5/m"}
    assert put(client, topic, answer.json()["settings"]).json()["version"] > version


def test_a_topic_with_settings_alone_is_there_until_they_are_taken_away(client, topic):
    assert client.get(path_of(topic)).status == 404
    configure(client, topic, attempts=3)
    assert topic in [one["name"] for one in client.get("/v1/topics?limit=1000").json()["topics"]]
    assert put(client, topic, {}).json()["version"] == 0
    assert eventually(lambda: "settings" not in client.get(path_of(topic)).json())


def test_a_change_may_depend_on_the_version(client, topic):
    assert put(client, topic, {"attempts": 3}, If_Match='"1"').status == 412
    first = put(client, topic, {"attempts": 3}, If_None_Match="*").json()["version"]
    assert code(put(client, topic, {"attempts": 4}, If_None_Match="*")) == "version"
    second = put(client, topic, {"attempts": 4}, If_Match=f'"{first}"').json()["version"]
    assert second > first
    assert put(client, topic, {}, If_Match=f'"{first}"').status == 412
    assert client.request("DELETE", path_of(topic), None, {"If-Match": f'"{first}"'}).status == 412
    assert client.request("DELETE", path_of(topic), None, {"If-Match": f'"{second}"'}).status == 200


def test_what_is_wrong_changes_nothing_and_is_named(client, topic):
    version = configure(client, topic, attempts=3)
    for settings, field in (({"retry": ["1s"] * 65}, "retry[64]"), ({"colour": "red"}, "colour"),
                            ({"target": {"type": "http", "sign": ["whsec_c2VjcmV0"]}}, "target.sign[0]"),
                            ({"target": {"type": "http", "headers": {"Host": "a"}}}, "target.headers.Host")):
        answer = put(client, topic, settings)
        assert answer.status == 400 and answer.json()["field"] == field, answer
        assert "c2VjcmV0" not in answer.text
    assert client.get(path_of(topic)).json()["version"] == version


def test_jobs_without_a_schedule_get_that_of_their_topic(client, topic):
    configure(client, topic, retry=["0s", "1h"], ttr="7s")
    plain = client.push(topic, id=f"{topic}-plain").json()
    assert plain["retry"] == [0, 3600000]
    shown = client.get(f"/v1/jobs/{topic}-plain").json()
    assert shown["retry"] == [0, 3600000] and shown["ttr_ms"] == 7000
    own = client.push(topic, id=f"{topic}-own", retry=["5s"], ttr="9s").json()
    assert own["retry"] == [5000]
    assert client.get(f"/v1/jobs/{topic}-own").json()["ttr_ms"] == 9000
    assert "retry" not in client.push(topic, id=f"{topic}-none", retry=[]).json()
    batch = client.push_many(topic, [{"id": f"{topic}-many"}])
    assert batch[0]["job"]["retry"] == [0, 3600000]


def test_a_change_of_settings_is_for_later_jobs(client, topic):
    client.push(topic, id=f"{topic}-old", delay="1h")
    configure(client, topic, retry="zing")
    assert "retry" not in client.get(f"/v1/jobs/{topic}-old").json()
    assert client.push(topic, delay="1h").json()["retry"] == [5000, 10000, 60000, 300000, 1800000]


def fail(client, topic):
    job = take(client, topic)
    return client.job(job["id"], "release", lease=job["lease"]).json()


def test_with_attempts_a_job_does_not_come_back_for_as_long_as_it_fails(client, topic):
    configure(client, topic, attempts=3)
    client.push(topic, body="x")
    assert [fail(client, topic)["state"] for _ in range(3)] == ["ready", "ready", "buried"]


def test_jobs_of_the_delay_queue_dialect_are_buried_when_their_topics_attempts_are_used_up(client, topic):
    configure(client, topic, attempts=2)
    answer = client.post("/push", {"topic": topic, "id": topic, "delay": 1, "ttr": 60, "body": "x"})
    assert answer.json()["code"] == 0
    assert [fail(client, topic)["state"] for _ in range(2)] == ["ready", "buried"]


def test_jobs_of_delayqueue_java_are_buried_when_their_topics_attempts_are_used_up(shared, client, topic):
    configure(client, topic, attempts=2)
    with Client(shared.ports[1]) as java:
        answer = java.request("POST", f"/push?topic={topic}&delayTime=1&ttrTime=60&message=x")
    assert answer.json()["code"] == 0
    assert [fail(client, topic)["state"] for _ in range(2)] == ["ready", "buried"]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A server that clients of both protocols use, with defaults for all topics."""
    config = {"defaults": {"retry": "0s 1h", "attempts": "4"}}
    with Laterd(tmp_path_factory.mktemp("both"), config, beanstalk=("127.0.0.1:0",)) as server:
        yield server


def test_jobs_of_beanstalkd_are_buried_when_their_topics_attempts_are_used_up(both, topic):
    with Client(both.port) as client, Connection(both.beanstalk_port) as tube:
        configure(client, topic, attempts=2)
        tube.ask(f"use {topic}")
        tube.ask(f"watch {topic}")
        job = tube.put(b"x")
        for _ in range(2):
            assert tube.reserve(5)[0] == job
            tube.ask(f"release {job} 0 0")
        assert tube.state(job) == "buried"


def test_defaults_of_the_server_are_for_topics_without_settings(both, topic):
    with Client(both.port) as client:
        assert client.push(topic).json()["retry"] == [0, 3600000, 3600000]
        configure(client, topic, attempts=2)
        assert client.push(topic).json()["retry"] == [0]
        configure(client, topic, retry=["5s"])
        assert client.push(topic).json()["retry"] == [5000]


def test_a_topic_with_a_target_cannot_be_reserved(both, topic):
    with Client(both.port) as client, Connection(both.beanstalk_port) as tube:
        configure(client, topic, target={"type": "http", "url": "https://a.example/"}, paused=True)
        client.push(topic)
        client.push(topic + "-other", body="mine")
        answer = client.post("/v1/reserve", {"topics": [topic + "-other", topic]})
        assert answer.status == 409 and code(answer) == "pushed_topic"
        tube.ask(f"watch {topic}")
        tube.ask("ignore default")
        assert tube.ask("reserve-with-timeout 0").word == "INTERNAL_ERROR"
        tube.ask(f"watch {topic}-other")
        assert tube.reserve(5)[1] == b"mine"
        assert client.post("/pop", {"topic": topic}).json()["code"] == 1
        configure(client, topic, attempts=3)
        assert client.reserve(topic)


def test_a_job_may_bring_its_url_where_its_topic_has_a_target_of_type_http(client, topic):
    answer = client.push(topic, url="https://a.example/")
    assert answer.status == 403 and code(answer) == "job_target" and "type http" in answer.json()["detail"]
    configure(client, topic, target={"type": "http"}, paused=True)
    job = client.push_id(topic, url="https://a.example/x", key="k", headers={"A": "b"}, delay="1h")
    shown = client.get(f"/v1/jobs/{urllib.parse.quote(job)}").json()
    assert (shown["url"], shown["key"], shown["headers"]) == ("https://a.example/x", "k", {"A": "b"})
    result, = client.push_many(topic, [{"url": "ftp://a.example/"}])
    assert result["problem"]["field"] == "url"


def test_an_empty_schedule_of_a_push_counts_against_that_of_the_topic(client, topic):
    """Its client wants it back at once, however often."""
    configure(client, topic, retry=["1h"], attempts=2)
    job = client.push_id(topic, retry=[])
    for failures in range(4):
        taken, = client.reserve(topic, wait="5s")
        assert taken["id"] == job and taken["failures"] == failures and "retry" not in taken
        assert client.post(f"/v1/jobs/{urllib.parse.quote(job)}/release", {}).json()["state"] == "ready"
    configure(client, topic, target={"type": "http"}, retry=["1h"], paused=True)
    assert client.push(topic, retry=[]).status == 201


def test_an_empty_schedule_of_a_topic_is_refused(client, topic):
    answer = put(client, topic, {"retry": []})
    assert answer.status == 400 and code(answer) == "bad_field" and "at least one wait" in answer.json()["detail"]


@pytest.mark.parametrize("policy", ["any", "off"])
def test_push_job_targets_says_which_jobs_may_bring_a_url(laterd, topic, policy):
    server = laterd({"push": {"job_targets": policy}})
    with Client(server.port) as client:
        answer = client.push(topic, url="https://a.example/", delay="1h")
        if policy == "off":
            assert answer.status == 403 and "job_targets is off" in answer.json()["detail"]
            return
        assert answer.status == 201
        assert eventually(lambda: client.get(path_of(topic)).json().get("settings") == {"target": {"type": "http"}})
        configure(client, topic + "-pulled", attempts=3)
        assert client.push(topic + "-pulled", url="https://a.example/").status == 403


def test_settings_survive_a_restart(laterd, topic):
    server = laterd()
    with Client(server.port) as client:
        version = configure(client, topic, retry="alipay", attempts=3)
    server.stop()
    server.start()
    with Client(server.port) as client:
        assert eventually(lambda: client.get(path_of(topic)).json().get("version") == version)
        assert client.get(path_of(topic)).json()["settings"] == {"retry": "alipay", "attempts": 3}
        assert client.push(topic, delay="1h").json()["retry"] == [120000, 600000]
        assert configure(client, topic, attempts=4) > version


def test_a_limit_that_was_lowered_below_a_topics_ttr_keeps_nobody_from_pausing_its_target(laterd, topic):
    server = laterd()
    target = {"type": "http", "url": "https://a.example/"}
    with Client(server.port) as client:
        configure(client, topic, target=target, ttr="30d")
    server.stop()
    server.config["limits"] = {"ttr_seconds": "7d"}
    server.start()
    with Client(server.port) as client:
        assert eventually(lambda: "settings" in client.get(path_of(topic)).json())
        refused = put(client, topic, {"target": target, "ttr": "30d", "rate": "5/s"})
        assert refused.status == 400 and refused.json()["field"] == "ttr", refused
        configure(client, topic, target=target, ttr="30d", paused=True)
        assert client.get(path_of(topic)).json()["settings"]["paused"] is True
        assert put(client, topic, {"target": target, "ttr": "30d"}).status == 400
        configure(client, topic, target=target, ttr="7d")


def test_deleting_a_topic_takes_its_settings_away(client, topic):
    configure(client, topic, attempts=3)
    client.push(topic)
    assert code(client.request("DELETE", path_of(topic, "?if_empty=true"))) == "not_empty"
    assert client.get(path_of(topic)).json()["settings"] == {"attempts": 3}
    assert client.request("DELETE", path_of(topic)).json() == {"jobs": 1, "removed": True}
    assert eventually(lambda: client.get(path_of(topic)).status == 404)
    assert "retry" not in client.push(topic).json()
    assert client.request("DELETE", path_of(topic)).status == 200


def test_an_empty_topic_with_settings_can_be_deleted_as_one(client, topic):
    configure(client, topic, attempts=3)
    answer = client.request("DELETE", path_of(topic, "?if_empty=true"))
    assert answer.status == 200 and answer.json()["removed"], answer


# ---- replay and test ----

def test_replay_goes_through_many_pages(client, topic):
    client.push_many(topic, [{"state": "buried"} for _ in range(350)])
    answer = client.post(path_of(topic, "/replay"), {"max": 301}).json()
    assert answer["kicked"] == 301 and answer["more"]
    assert client.get(path_of(topic)).json()["buried"] == 49
    assert client.post(path_of(topic, "/replay"), {}).json() == {"looked_at": 49, "kicked": 49, "more": False}


def test_a_test_needs_a_target(client, topic):
    assert code(client.post(path_of(topic, "/test"), {"body": "x"})) == "no_target"
    configure(client, topic, target={"type": "http"})
    assert "bring their own" in client.post(path_of(topic, "/test"), {}).json()["detail"]
    assert client.post(path_of(topic, "/test"), {"delay": 1}).status == 400
