"""What settings, properties, reasons and replay are to clients, command by command: the same
assertions for the embedded engine and for Redis, in one partition and in sixteen. As in
test_contract.py nothing waits for a time to pass; what another part of the server must be told
first is waited for.
"""

import functools

import pytest
from process import Laterd
from redis import REDIS_SERVER, Redis
from wire import Client, eventually

ENGINES = ["embedded", "redis in 1 part", "redis in 16 parts"]
HTTP = {"type": "http", "url": "https://a.example/"}

pytestmark = pytest.mark.usefixtures("redis_is_there")


@pytest.fixture(scope="module")
def redis():
    with Redis() as server, server.watched():
        yield server


@pytest.fixture(scope="module", params=ENGINES)
def server(request, tmp_path_factory):
    """A laterd whose engine all tests of this file are run on in turn; they may start it again."""
    config = {"engine": {"engine": "embedded"}}
    if request.param != "embedded":
        if not REDIS_SERVER:
            pytest.skip("there is no redis-server")
        config = {"engine": {"engine": "redis"},
                  "redis": {"url": request.getfixturevalue("redis").url,
                            "prefix": request.param.replace(" ", "-"),
                            "partitions": request.param.split()[2]}}
    with Laterd(tmp_path_factory.mktemp("laterd"), config) as one:
        yield one


@pytest.fixture(scope="module", params=["no defaults", "defaults"])
def either(server, request, tmp_path_factory):
    """The same engine, without and with a schedule for topics that have none: its port, and that."""
    if request.param == "no defaults":
        yield server.port, None
        return
    config = {name: dict(keys) for name, keys in server.config.items()}
    config["defaults"] = {"retry": "0s 1h", "attempts": "4"}
    if "redis" in config:
        config["redis"]["prefix"] += "-defaults"
    with Laterd(tmp_path_factory.mktemp("defaults"), config) as one:
        yield one.port, [0, 3600000, 3600000]


@pytest.fixture
def client(server):
    with Client(server.port) as one:
        yield one


def restart(server):
    """As an operator does it; a client of what is there then."""
    assert server.stop() == 0
    server.start()
    return Client(server.port)


def code(answer):
    """The problem's, or None."""
    return answer.json()["code"] if answer.status >= 400 else None


def path_of(topic, rest=""):
    return f"/v1/topics/{topic}{rest}"


def put(client, topic, settings, **headers):
    return client.request("PUT", path_of(topic), settings,
                          {name.replace("_", "-"): value for name, value in headers.items()})


def version_of(client, topic):
    """0: it has no settings, or is not there."""
    answer = client.get(path_of(topic))
    return answer.json().get("version", 0) if answer.status == 200 else 0


def configure(client, topic, **settings):
    """Sets them, and waits until this server goes by them. The version."""
    answer = put(client, topic, settings)
    assert answer.status == 200, answer
    version = answer.json()["version"]
    assert eventually(lambda: version_of(client, topic) == version)
    return version


def shown(client, name):
    answer = client.job(name, method="GET")
    assert answer.status == 200, answer
    return answer.json()


def attempts(client, name):
    answer = client.get(f"/v1/jobs/{name}/attempts")
    assert answer.status == 200, answer
    return answer.json()


def notes(client, name):
    """[(code or None, reason or None)], oldest first."""
    return [(one.get("code"), one.get("reason")) for one in attempts(client, name)["attempts"]]


def end(client, topic, verb, **fields):
    """The job that is taken from the topic, and then released, buried or finished."""
    job, = client.reserve(topic, wait="25s")
    answer = client.job(job["id"], verb, lease=job["lease"], **fields)
    assert answer.status < 300, answer
    return answer.json() if answer.status == 200 else None


# Settings

def test_settings_are_set_replaced_and_taken_away(client, topic):
    first = configure(client, topic, attempts=3)
    assert first > 0
    second = configure(client, topic, retry=["1s"])
    assert second > first and client.get(path_of(topic)).json()["settings"] == {"retry": ["1s"]}
    assert client.get(path_of(topic)).headers["etag"] == f'"{second}"'
    assert put(client, topic, {}).json()["version"] == 0
    assert eventually(lambda: version_of(client, topic) == 0)
    assert configure(client, topic, attempts=2) > second, "a version is never given twice"


def test_what_is_not_there_can_be_taken_away(client, topic):
    for headers in ({}, {"If_None_Match": "*"}):
        answer = put(client, topic, {}, **headers)
        assert answer.status == 200 and answer.json()["version"] == 0, answer
    assert client.get(path_of(topic)).status == 404, "and that makes no topic"


def test_a_version_that_is_not_the_present_one_is_refused(client, topic):
    refused = put(client, topic, {"attempts": 3}, If_Match='"1"')
    assert (refused.status, code(refused)) == (412, "version")
    assert client.get(path_of(topic)).status == 404
    first = put(client, topic, {"attempts": 3}, If_None_Match="*").json()["version"]
    assert put(client, topic, {"attempts": 4}, If_None_Match="*").status == 412
    second = put(client, topic, {"attempts": 4}, If_Match=f'"{first}"').json()["version"]
    assert second > first
    for method, settings in (("PUT", {"attempts": 5}), ("PUT", {}), ("DELETE", None)):
        answer = client.request(method, path_of(topic), settings, {"If-Match": f'"{first}"'})
        assert answer.status == 412, (method, answer)
    assert eventually(lambda: version_of(client, topic) == second)
    assert client.get(path_of(topic)).json()["settings"] == {"attempts": 4}
    assert put(client, topic, {}, If_Match=f'"{second}"').json()["version"] == 0


@pytest.mark.parametrize("jobs", [0, 3])
def test_deleting_a_topic_takes_its_settings_away(client, topic, jobs):
    configure(client, topic, retry=["1h"])
    for _ in range(jobs):
        client.push_id(topic, body=1)
    answer = client.request("DELETE", path_of(topic))
    assert answer.status == 200 and answer.json() == {"jobs": jobs, "removed": True}, answer
    assert eventually(lambda: client.get(path_of(topic)).status == 404)
    assert "retry" not in client.push(topic, body=1).json()


# What jobs get from them

def test_a_job_without_a_schedule_has_that_of_its_topic_or_of_the_server(either, topic):
    port, default = either
    with Client(port) as client:
        assert client.push(topic, body=1, delay="1h").json().get("retry") == default
        configure(client, topic, retry=["0s", "1h"])
        assert client.push(topic, body=1, delay="1h").json()["retry"] == [0, 3600000]
        assert client.push(topic, body=1, delay="1h", retry=["7s"]).json()["retry"] == [7000]
        assert "retry" not in client.push(topic, body=1, delay="1h", retry=[]).json()
        results = client.push_many(topic, [{"body": 1, "delay": "1h"}] * 3)
        assert [one["job"]["retry"] for one in results] == [[0, 3600000]] * 3
        configure(client, topic, ttr="7s")
        job = client.push_id(topic, body=1, delay="1h")
        assert shown(client, job)["ttr_ms"] == 7000 and shown(client, job).get("retry") == default
        put(client, topic, {})
        assert eventually(lambda: version_of(client, topic) == 0)
        assert client.push(topic, body=1, delay="1h").json().get("retry") == default


def test_attempts_say_how_often_a_job_fails(client, topic):
    configure(client, topic, attempts=3)
    client.push_id(topic, id=topic, body=1)
    assert [end(client, topic, "release")["state"] for _ in range(3)] == ["ready", "ready", "buried"]
    assert client.job(topic, "kick").json()["failures"] == 0
    assert [end(client, topic, "release")["state"] for _ in range(3)] == ["ready", "ready", "buried"]


def test_attempts_cut_a_schedule_or_repeat_its_last_wait(client, topic):
    configure(client, topic, retry=["1m", "1h"], attempts=2)
    assert client.push(topic, body=1, delay="1h").json()["retry"] == [60000]
    configure(client, topic, retry=["1m", "1h"], attempts=5)
    assert client.push(topic, body=1, delay="1h").json()["retry"] == [60000] + 3 * [3600000]


def test_only_the_server_reserves_where_there_is_a_target(client, topic):
    configure(client, topic, target=HTTP, paused=True)
    client.push_id(topic, body=1)
    for topics in ([topic], [f"{topic}-other", topic]):
        answer = client.post("/v1/reserve", {"topics": topics})
        assert (answer.status, code(answer)) == (409, "pushed_topic")
    configure(client, topic, attempts=3)
    assert len(client.reserve(topic)) == 1


# Properties

GIVEN = {"url": "https://b.example/x", "key": "k", "headers": {"A": "b", "C": "d"}}


def given(job):
    return {name: job[name] for name in GIVEN if name in job}


def test_properties_stay_with_a_job_through_all_its_changes(client, topic):
    configure(client, topic, target={"type": "http"}, paused=True)
    client.push_id(topic, id=topic, body=1, delay="1h", retry=[], **GIVEN)
    plain = client.push_id(topic, body=1, delay="1h")
    assert given(shown(client, topic)) == GIVEN and given(shown(client, plain)) == {}
    for body in ("x", "x" * 5000, 1):
        assert client.job(topic, method="PATCH", body=body, delay="2h").status == 200
        job = shown(client, topic)
        assert given(job) == GIVEN and job["body"] == body
    assert client.job(topic, method="PATCH", priority=7).status == 200
    assert client.job(topic, "run").status == 200
    configure(client, topic, attempts=9)
    assert given(client.reserve(topic)[0]) == GIVEN
    assert client.job(topic, "release", lease=shown(client, topic)["lease"]).status == 200
    assert end(client, topic, "bury")["state"] == "buried"
    assert client.job(topic, "kick").status == 200
    assert given(shown(client, topic)) == GIVEN
    assert client.push(topic, id=topic, body=2, if_exists="keep", key="other").json()["result"] == "kept"
    assert given(shown(client, topic)) == GIVEN


@pytest.mark.parametrize("fields", [{}, {"key": "other"}, {"headers": {"X": "y"}}])
def test_a_job_that_replaces_another_has_its_own_properties(client, topic, fields):
    client.push_id(topic, id=topic, body=1, delay="1h", key="k", headers={"A": "b"})
    answer = client.push(topic, id=topic, body=2, delay="1h", if_exists="replace", **fields)
    assert answer.json()["result"] == "replaced"
    assert given(shown(client, topic)) == fields
    assert client.job(topic, method="DELETE").status == 204
    client.push_id(topic, id=topic, body=3)
    assert given(shown(client, topic)) == {}


# Reasons

def test_a_release_says_why_with_and_without_a_delay(client, topic):
    client.push_id(topic, id=topic, body=1, retry=["0s", "1h", "1h", "1h"])
    assert attempts(client, topic)["attempts"] == [] and "last_failure" not in shown(client, topic)
    assert end(client, topic, "release", reason="one", code=500)["state"] == "ready"
    assert shown(client, topic)["last_failure"]["reason"] == "one"
    assert end(client, topic, "release", reason="two", delay="1h")["state"] == "delayed"
    assert client.job(topic, "run").status == 200
    assert end(client, topic, "release", code=404, priority=3)["state"] == "delayed"
    assert notes(client, topic) == [(500, "one"), (None, "two"), (404, None)]
    assert attempts(client, topic)["failures"] == 3
    times = [one["time"] for one in attempts(client, topic)["attempts"]]
    assert times == sorted(times)


def test_a_release_without_a_reason_leaves_none_and_takes_none_away(client, topic):
    client.push_id(topic, id=topic, body=1)
    end(client, topic, "release", reason="one")
    end(client, topic, "release")
    end(client, topic, "bury")
    assert notes(client, topic) == [(None, "one")]
    assert shown(client, topic)["last_failure"]["reason"] == "one"
    assert attempts(client, topic)["failures"] == 2


@pytest.mark.parametrize("revival", ["kick", "kick of the topic", "replay"])
def test_a_buried_job_keeps_its_reasons_when_it_comes_back(client, topic, revival):
    client.push_id(topic, id=topic, body=1)
    end(client, topic, "release", reason="one")
    buried = end(client, topic, "bury", reason="two", code=503)
    assert buried["state"] == "buried" and buried["last_failure"]["code"] == 503
    if revival == "kick":
        assert client.job(topic, "kick").json()["last_failure"]["code"] == 503
    elif revival == "replay":
        assert client.post(path_of(topic, "/replay"), {"code": 503}).json()["kicked"] == 1
    else:
        assert client.post(path_of(topic, "/kick"), max=9).json()["jobs"] == 1
    job = shown(client, topic)
    assert (job["state"], job["failures"], job["last_failure"]["reason"]) == ("ready", 0, "two")
    assert notes(client, topic) == [(None, "one"), (503, "two")]


def test_the_last_five_of_seven_are_kept(client, topic):
    client.push_id(topic, id=topic, body=1)
    for number in range(7):
        end(client, topic, "bury" if number == 6 else "release", reason=f"{number}", code=500 + number)
    assert notes(client, topic) == [(500 + number, f"{number}") for number in range(2, 7)]
    assert attempts(client, topic)["failures"] == 6


@pytest.mark.parametrize("how", ["replace", "finish", "DELETE"])
def test_reasons_end_with_their_job(client, topic, how):
    client.push_id(topic, id=topic, body=1, key="k")
    end(client, topic, "release", reason="old", code=500)
    if how == "replace":
        answer = client.push(topic, id=topic, body=2, if_exists="replace").json()
        assert answer["result"] == "replaced" and "last_failure" not in answer
    elif how == "finish":
        end(client, topic, "finish")
    else:
        assert client.job(topic, method="DELETE").status == 204
    if how != "replace":
        assert client.get(f"/v1/jobs/{topic}/attempts").status == 404
        client.push_id(topic, id=topic, body=2)
    assert notes(client, topic) == [] and "last_failure" not in shown(client, topic)
    end(client, topic, "release", reason="new")
    assert notes(client, topic) == [(None, "new")]


def test_every_view_of_a_job_has_its_last_failure(client, topic):
    client.push_id(topic, id=topic, body=1)
    said = end(client, topic, "release", reason="why", code=502)
    views = {"release": said, "GET": shown(client, topic)}

    def listing(state):
        job, = client.get(path_of(topic, f"/jobs?state={state}")).json()["jobs"]
        return job
    views["list ready"] = listing("ready")
    views["reserve"], = client.reserve(topic)
    views["list reserved"] = listing("reserved")
    lease = views["reserve"]["lease"]
    views["touch"] = client.job(topic, "touch", lease=lease).json()
    views["bury"] = client.job(topic, "bury", lease=lease).json()
    views["list buried"] = listing("buried")
    views["kick"] = client.job(topic, "kick").json()
    client.push_id(topic, id=topic, body=1, if_exists="replace")
    end(client, topic, "release", code=502, delay="1h")
    views["list delayed"] = listing("delayed")
    views["PATCH"] = client.job(topic, method="PATCH", body="new", delay="2h").json()
    views["run"] = client.job(topic, "run").json()
    assert {name: view.get("last_failure", {}).get("code") for name, view in views.items()} == \
        dict.fromkeys(views, 502)


def test_a_stale_lease_leaves_no_reason(client, topic):
    client.push_id(topic, id=topic, body=1)
    job, = client.reserve(topic)
    stale = str(int(job["lease"]) + 16)
    for verb in ("release", "bury"):
        assert code(client.job(topic, verb, lease=stale, reason="x")) == "stale_lease"
    assert notes(client, topic) == []


# Replay

def test_replay_kicks_those_that_failed_so(client, topic):
    for number, why in enumerate(({"code": 503}, {"code": 500}, {"code": 404}, {"reason": "x"}, {})):
        client.push_id(topic, id=f"{topic}-{number}", body=1)
        end(client, topic, "bury", **why)

    replay = functools.partial(client.replay, topic)
    assert replay(code="503", to="2000-01-01T00:00:00Z") == {"looked_at": 5, "kicked": 0, "more": False}
    assert replay(code=503, since="1h") == {"looked_at": 5, "kicked": 1, "more": False}
    assert client.state(f"{topic}-0") == "ready"
    assert replay(code="5xx") == {"looked_at": 4, "kicked": 1, "more": False}
    assert replay(code="0")["kicked"] == 1 and client.state(f"{topic}-3") == "ready"
    assert replay(code=404, max=1)["kicked"] == 1
    assert replay() == {"looked_at": 1, "kicked": 1, "more": False}


# What survives

def test_settings_properties_and_reasons_survive_a_restart(server, topic):
    with Client(server.port) as client:
        version = configure(client, topic, retry="alipay", attempts=3)
        configure(client, f"{topic}-hook", target={"type": "http"}, paused=True)
        configure(client, f"{topic}-gone", attempts=3)
        assert put(client, f"{topic}-gone", {}).status == 200
        client.push_id(f"{topic}-hook", id=f"{topic}-p", body=1, delay="1h", **GIVEN)
        client.push_id(f"{topic}-hook", id=f"{topic}-q", body=1, delay="1h", key="old")
        assert client.job(f"{topic}-q", method="PATCH", body="new").status == 200
        client.push_id(f"{topic}-n", id=f"{topic}-n", body=1)
        for number in range(7):
            end(client, f"{topic}-n", "release", reason=f"{number}", code=500 + number)
    with restart(server) as client:
        assert eventually(lambda: version_of(client, topic) == version)
        assert client.get(path_of(topic)).json()["settings"] == {"retry": "alipay", "attempts": 3}
        assert client.get(path_of(f"{topic}-gone")).json().get("settings") is None
        assert client.push(topic, body=1, delay="1h").json()["retry"] == [120000, 600000]
        assert given(shown(client, f"{topic}-p")) == GIVEN
        assert given(shown(client, f"{topic}-q")) == {"key": "old"}
        assert shown(client, f"{topic}-q")["body"] == "new"
        assert notes(client, f"{topic}-n") == [(500 + number, f"{number}") for number in range(2, 7)]
        assert shown(client, f"{topic}-n")["failures"] == 7
        end(client, f"{topic}-n", "bury", code=599)
        assert [one[0] for one in notes(client, f"{topic}-n")] == [503, 504, 505, 506, 599]
        assert configure(client, topic, attempts=4) > version
