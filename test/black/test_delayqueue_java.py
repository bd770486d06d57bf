"""The `delayqueue-java` dialect: form or query parameters, absolute times, a pop that never blocks."""

import time
import urllib.parse

import pytest

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
    assert pop(java, topic) is None, "not due yet"
    job = eventually(lambda: pop(java, topic))
    assert time.time() * 1000 >= due_ms
    assert job["topic"] == topic and job["message"] == "a & b=c +中"
    assert isinstance(job["id"], str) and job["id"].isdigit()
    assert int(job["delayTime"]) == due_ms and int(job["ttrTime"]) == 30
    answer = java.request("POST", "/finish?id=" + job["id"]).json()
    assert (answer["code"], answer["msg"]) == (0, OK_TEXT)
    assert pop(java, topic) is None


def test_pop_does_not_block(java, topic):
    begin = time.monotonic()
    assert pop(java, topic) is None
    assert time.monotonic() - begin < 0.5


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
