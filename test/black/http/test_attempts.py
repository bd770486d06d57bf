"""Why attempts failed: what consumers say, what is kept and shown, and what is replayed by it."""

import functools
import urllib.parse


def path_of(topic, rest=""):
    return f"/v1/topics/{urllib.parse.quote(topic, safe='')}{rest}"


def take(client, topic):
    job, = client.reserve(topic, wait=20000)
    return job


def bury(client, topic, name, **why):
    client.push(topic, id=name)
    job = take(client, topic)
    assert job["id"] == name
    answer = client.job(name, "bury", lease=job["lease"], **why)
    assert answer.status == 200, answer
    return answer.json()


def test_a_reason_and_a_code_are_shown_with_the_job(client, topic):
    shown = bury(client, topic, f"{topic}-a", reason='no "database"\n', code=503)
    assert shown["last_failure"]["code"] == 503
    failure = client.get(f"/v1/jobs/{topic}-a").json()["last_failure"]
    assert (failure["code"], failure["reason"]) == (503, 'no "database"\n')
    listed, = client.get(path_of(topic, "/jobs?state=buried")).json()["jobs"]
    assert listed["last_failure"]["code"] == 503
    attempts = client.get(f"/v1/jobs/{topic}-a/attempts").json()["attempts"]
    assert [(one["code"], one["reason"]) for one in attempts] == [(503, 'no "database"\n')]


def test_the_last_five_attempts_are_kept(client, topic):
    client.push(topic, id=f"{topic}-a")
    for number in range(7):
        job = take(client, topic)
        client.job(f"{topic}-a", "release", lease=job["lease"], reason=f"reason {number}")
    attempts = client.get(f"/v1/jobs/{topic}-a/attempts").json()
    assert [one["reason"] for one in attempts["attempts"]] == [f"reason {n}" for n in range(2, 7)]
    assert attempts["failures"] == 7


def test_replay_kicks_what_failed_in_some_way(client, topic):
    for number, why in enumerate(({"code": 503}, {"code": 500}, {"code": 404}, {"reason": "x"}, {})):
        bury(client, topic, f"{topic}-{number}", **why)

    replay = functools.partial(client.replay, topic)

    assert replay(code="503", to="2000-01-01T00:00:00Z") == {"looked_at": 5, "kicked": 0, "more": False}
    assert replay(code=503, since="1h") == {"looked_at": 5, "kicked": 1, "more": False}
    assert client.get(f"/v1/jobs/{topic}-0").json()["state"] == "ready"
    assert replay(code="5xx")["kicked"] == 1
    assert replay(code="0")["kicked"] == 1
    one = replay(max=1)
    assert one["kicked"] == 1 and one["more"]
    assert replay()["kicked"] == 1
    assert replay() == {"looked_at": 0, "kicked": 0, "more": False}
    assert client.post("/v1/topics/no-such/replay", {}).status == 404
