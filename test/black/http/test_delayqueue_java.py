"""The `delayqueue-java` dialect: form or query parameters, absolute times, a pop that never blocks."""

import os
import time
import urllib.parse

import pytest

from patience import before, soon
from process import DidNotStart
from wire import Client, eventually

OK_TEXT = "操作成功！"
FAILED_TEXT = "系统异常，请联系管理员"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def java(shared):
    with Client(shared.ports[1]) as one:
        yield one


def push(java, in_form=False, **fields):
    query = urllib.parse.urlencode(fields)
    if in_form:
        answer = java.request("POST", "/push", query, FORM)
    else:
        answer = java.request("POST", "/push?" + query)
    assert answer.status == 200, answer
    return answer.json()


def pop(java, topic):
    answer = java.get("/pop/" + urllib.parse.quote(topic))
    assert answer.status == 200
    said = answer.json()
    assert (said["code"], said["msg"]) == (0, OK_TEXT)
    return said["data"]


@pytest.mark.parametrize("in_form", [False, True])
def test_a_job_lives_as_in_the_original(java, topic, in_form):
    due_ms = int(time.time() * 1000) + 300
    said = push(java, in_form, topic=topic, delayTime=due_ms, ttrTime=30, message="a & b=c +中")
    assert (said["code"], said["msg"]) == (0, OK_TEXT)
    assert said["data"], "ours adds the id"
    with before(due_ms / 1000):
        assert pop(java, topic) is None, "not due yet"
    job = eventually(lambda: pop(java, topic))
    assert time.time() * 1000 >= due_ms
    assert job["topic"] == topic and job["message"] == "a & b=c +中"
    assert isinstance(job["id"], str) and job["id"].isdigit()
    assert int(job["delayTime"]) == due_ms and int(job["ttrTime"]) == 30
    answer = java.request("POST", "/finish?id=" + job["id"]).json()
    assert (answer["code"], answer["msg"]) == (0, OK_TEXT)
    assert pop(java, topic) is None


def test_jobs_of_one_time_come_in_one_answer(java, topic):
    due_ms = int(time.time() * 1000) + 300
    for i in range(20):
        push(java, topic=topic, delayTime=due_ms, ttrTime=30, message=f"m{i}")
    said = java.get("/pop/" + topic + "?wait=20s&max=50").json()
    assert said["code"] == 0 and [job["message"] for job in said["data"]] == [f"m{i}" for i in range(20)]
    assert java.get("/pop/" + topic + "?max=5").json()["data"] == []


def test_pop_waits_if_it_says_so(java, topic):
    push(java, topic=topic, delayTime=int(time.time() * 1000) + 300, ttrTime=30, message="x")
    said = java.get("/pop/" + topic + "?wait=20s").json()
    assert said["code"] == 0 and said["data"]["message"] == "x"
    begin = time.monotonic()
    assert java.get("/pop/" + topic + "?wait=200").json()["data"] is None
    assert 0.2 <= soon(time.monotonic() - begin, 5)
    said = java.get("/pop/" + topic + "?wait=a%20while").json()
    assert (said["code"], said["msg"]) == (1, FAILED_TEXT) and said["exception"].startswith("wait: ")


def test_pop_does_not_block(java, topic):
    begin = time.monotonic()
    assert pop(java, topic) is None
    soon(time.monotonic() - begin, 0.5)


def test_the_fork_sends_dates(java, topic):
    date = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() + 86400))
    assert push(java, topic=topic, delayTime=date, ttrTime=30, message="m")["code"] == 0


@pytest.mark.parametrize("without", ["topic", "delayTime", "ttrTime"])
def test_a_missing_parameter_fails_in_the_original_form(java, topic, without):
    fields = {"topic": topic, "delayTime": 9999999999999, "ttrTime": 30, "message": "m"}
    del fields[without]
    said = push(java, **fields)
    assert said["code"] == 1 and said["msg"] == FAILED_TEXT and said["exception"]


@pytest.mark.parametrize("field, value", [("delayTime", "soon"), ("ttrTime", "x"), ("ttrTime", "-1")])
def test_a_parameter_that_cannot_be_read_fails_in_the_original_form(java, topic, field, value):
    fields = {"topic": topic, "delayTime": 9999999999999, "ttrTime": 30, "message": "m",
              field: value}
    said = push(java, **fields)
    assert said["code"] == 1 and said["msg"] == FAILED_TEXT and said["exception"]


def test_v1_is_served_beside_it(java):
    assert java.get("/healthz").status == 200
    assert java.get("/v1/topics").status == 200


# Dates without a zone

ZONES = [
    ("Europe/Berlin", "2030-01-15 12:00:00", "2030-01-15T11:00:00Z"),
    ("Europe/Berlin", "2030-07-15 12:00:00", "2030-07-15T10:00:00Z"),
    ("Europe/Berlin", "2030-03-31 01:59:59", "2030-03-31T00:59:59Z"),
    ("Europe/Berlin", "2030-03-31 02:30:00", "2030-03-31T01:30:00Z"),  # left out
    ("Europe/Berlin", "2030-03-31 03:00:00", "2030-03-31T01:00:00Z"),
    ("Europe/Berlin", "2030-10-27 02:30:00", "2030-10-27T00:30:00Z"),  # twice: the first
    ("Europe/Berlin", "2030-10-27 03:00:00", "2030-10-27T02:00:00Z"),
    ("Asia/Shanghai", "2030-01-15 12:00:00", "2030-01-15T04:00:00Z"),
    ("America/St_Johns", "2030-01-15 12:00:00", "2030-01-15T15:30:00Z"),
    ("UTC", "2030-07-15 12:00:00", "2030-07-15T12:00:00Z"),
]


@pytest.mark.parametrize("how", ["config", "environment"])
@pytest.mark.parametrize("zone", sorted({zone for zone, _, _ in ZONES}))
def test_a_date_is_of_the_zone_of_the_configuration_or_the_machine(laterd, zone, how):
    if zone != "UTC" and not os.path.exists(f"/usr/share/zoneinfo/{zone}"):
        pytest.skip("no time zone data")
    other = "Asia/Tokyo"  # is overruled by the configuration
    server = laterd({"server": {"time_zone": zone}} if how == "config" else {},
                    listeners=["127.0.0.1:0,delayqueue-java"],
                    environment={"TZ": other if how == "config" else zone})
    with Client(server.port) as client:
        for of_zone, local, utc in ZONES:
            if of_zone != zone:
                continue
            said = push(client, topic="t", delayTime=local, ttrTime=30, message="x")
            job = client.job("@" + said["data"], method="GET").json()
            assert job["due"] == utc.replace("Z", ".000Z"), local


def test_a_date_before_1970_is_past(java, topic):
    push(java, topic=topic, delayTime="1969-07-20 20:17:40", ttrTime=30, message="landed")
    assert pop(java, topic)["message"] == "landed"


def test_a_zone_that_is_not_there_is_refused_at_the_start(laterd):
    for zone in ("Europe/Atlantis", "../etc/passwd", "/etc/localtime", "Europe", "Europe/"):
        with pytest.raises(DidNotStart, match="time_zone"):
            laterd({"server": {"time_zone": zone}})
