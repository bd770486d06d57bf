"""The `delay-queue` dialect to the letter: what clients of the Go server see."""

import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patience import PATIENCE_S, soon
from wire import Client, Wire, request_bytes

PUSHED = (0, "添加成功", None)
DONE = (0, "操作成功", None)
BAD_BODY, BAD_JSON = "读取request body失败", "解析json失败"
NO_ID, PUSH_NO_TOPIC, POP_NO_TOPIC = "job id不能为空", "topic 不能为空", "topic不能为空"
BAD_DELAY, BAD_TTR = "delay 取值范围1 - (2^31 - 1)", "ttr 取值范围1 - 86400"


def push(client, **fields):
    job = {"topic": "t", "id": "i", "delay": 1, "ttr": 60, "body": ""}
    job.update(fields)
    return client.call("/push", {key: value for key, value in job.items() if value is not ...})


def pop_until(client, topic, seconds=PATIENCE_S):
    """The next job of the topic, though each pop waits only a second."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        code, message, data = client.call("/pop", topic=topic)
        assert (code, message) == DONE[:2]
        if data:
            return data
    return None


def test_the_reply_has_these_bytes(client, topic):
    answer = client.post("/push", id=topic, topic=topic, delay=3600, ttr=60, body="x")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text == '{"code":0,"message":"添加成功","data":null}'
    answer = client.post("/push", id="", topic=topic, delay=3600, ttr=60)
    assert answer.status == 200
    assert answer.text == '{"code":1,"message":"job id不能为空","data":null}'


def test_a_job_lives_as_in_the_original(client, topic):
    before = time.time()
    assert push(client, id=topic, topic=topic, delay=1, ttr=60, body="the body") == PUSHED
    code, message, data = client.call("/get", id=topic)
    assert (code, message) == DONE[:2]
    due = data.pop("delay")
    assert data == {"topic": topic, "id": topic, "ttr": 60, "body": "the body"}
    assert before + 0.9 <= due + 1 and due <= time.time() + 1
    job = pop_until(client, topic)
    assert job == {"id": topic, "body": "the body"}
    assert list(job) == ["id", "body"]
    assert time.time() >= before + 1, "P3: never before its due time"
    assert client.call("/finish", id=topic) == DONE
    assert client.call("/get", id=topic) == DONE


def test_get_shows_keys_in_the_original_order(client, topic):
    push(client, id=topic, topic=topic, delay=100)
    keys = list(client.call("/get", id=topic)[2])
    assert keys == ["topic", "id", "delay", "ttr", "body"]


def test_pop_answers_null_after_the_wait(client, topic):
    begin = time.monotonic()
    assert client.call("/pop", topic=topic) == DONE
    assert 0.9 <= soon(time.monotonic() - begin, 3)


@pytest.mark.parametrize("call", ["/finish", "/delete"])
def test_finish_and_delete_succeed_for_unknown_ids_and_from_any_state(client, topic, call):
    assert client.call(call, id="never " + topic) == DONE
    assert push(client, id=topic, topic=topic, delay=1000) == PUSHED
    assert client.call(call, id=topic) == DONE
    assert client.call("/get", id=topic) == DONE
    assert push(client, id=topic, topic=topic, delay=1) == PUSHED
    assert pop_until(client, topic)["id"] == topic
    assert client.call(call, id=topic) == DONE
    assert client.call("/get", id=topic) == DONE


@pytest.mark.parametrize("path", ["/push", "/pop", "/finish", "/delete", "/get"])
@pytest.mark.parametrize("body", ["", "{", "nonsense", "[]", '"text"', "7", '{"id":1}',
                                  '{"topic":["a"]}', '{"id":"a"} x'])
def test_what_is_not_the_json_wanted_is_a_parse_error(client, path, body):
    wrong_for = {"/push": True, "/pop": body != '{"id":1}',
                 "/finish": body != '{"topic":["a"]}', "/delete": body != '{"topic":["a"]}',
                 "/get": body != '{"topic":["a"]}'}
    code, message, data = client.call(path, body)
    assert (code, data) == (1, None)
    if wrong_for[path]:
        assert message in (BAD_JSON, BAD_BODY)


@pytest.mark.parametrize("field, value", [
    ("delay", "5"), ("delay", 1.5), ("ttr", "60"), ("ttr", True), ("ttr", [1]), ("id", 5),
    ("topic", {}), ("body", 1), ("body", {"a": 1}), ("body", False)])
def test_a_field_of_the_wrong_type_is_a_parse_error(client, field, value):
    assert push(client, **{field: value}) == (1, BAD_JSON, None)


@pytest.mark.parametrize("number", ["1e3", "1.0", "99999999999999999999", "0x10", "01", "+1"])
def test_a_number_that_is_no_integer_is_a_parse_error(client, number):
    body = '{"id":"a","topic":"t","delay":%s,"ttr":60,"body":""}' % number
    assert client.call("/push", body) == (1, BAD_JSON, None)


@pytest.mark.parametrize("fields, message", [
    ({"id": "", "topic": "", "delay": 0, "ttr": 0}, NO_ID),
    ({"id": " \t ", "topic": ""}, NO_ID),
    ({"id": "\u3000\u00a0"}, NO_ID),
    ({"id": ..., "topic": ...}, NO_ID),
    ({"id": None}, NO_ID),
    ({"topic": "", "delay": 0, "ttr": 0}, PUSH_NO_TOPIC),
    ({"topic": " \n"}, PUSH_NO_TOPIC),
    ({"topic": ...}, PUSH_NO_TOPIC),
    ({"delay": 0, "ttr": 0}, BAD_DELAY),
    ({"delay": ..., "ttr": 0}, BAD_DELAY),
    ({"delay": -1}, BAD_DELAY),
    ({"delay": 2**31 + 1}, BAD_DELAY),
    ({"delay": None}, BAD_DELAY),
    ({"ttr": 0}, BAD_TTR),
    ({"ttr": ...}, BAD_TTR),
    ({"ttr": 86401}, BAD_TTR),
    ({"ttr": -5}, BAD_TTR)])
def test_push_checks_in_the_original_order(client, fields, message):
    assert push(client, **fields) == (1, message, None)


@pytest.mark.parametrize("delay, ttr", [(1, 1), (2**31 - 1, 86400), (2**31, 1)])
def test_the_ranges_include_their_ends(client, topic, delay, ttr):
    assert push(client, id=topic, topic=topic, delay=delay, ttr=ttr) == PUSHED
    assert client.call("/delete", id=topic) == DONE


@pytest.mark.parametrize("body", ["{}", '{"topic":""}', '{"topic":"  "}', '{"topic":null}'])
def test_pop_without_a_topic_says_so(client, body):
    assert client.call("/pop", body) == (1, POP_NO_TOPIC, None)


@pytest.mark.parametrize("path", ["/finish", "/delete", "/get"])
@pytest.mark.parametrize("body", ["{}", '{"id":""}', '{"id":" \\t"}', '{"id":null}'])
def test_the_other_calls_without_an_id_say_so(client, path, body):
    assert client.call(path, body) == (1, NO_ID, None)


def test_keys_match_in_any_case_and_unknown_ones_are_ignored(client, topic):
    body = json.dumps({"ID": topic, "Topic": topic, "dElAy": 500, "TTR": 9, "BODY": "b",
                       "unknown": {"deep": [1, 2, {"x": None}]}})
    assert client.call("/push", body) == PUSHED
    data = client.call("/get", '{"Id":"%s"}' % topic)[2]
    assert (data["topic"], data["ttr"], data["body"]) == (topic, 9, "b")


def test_id_topic_and_body_are_trimmed_of_unicode_space(client, topic):
    space = " \t\r\n\u00a0\u2003\u3000\u0085"
    assert push(client, id=space + topic + space, topic=space + topic + space,
                body=space + "b o d y" + space, delay=500) == PUSHED
    data = client.call("/get", id=space + topic + space)[2]
    assert (data["id"], data["topic"], data["body"]) == (topic, topic, "b o d y")


def test_an_empty_body_is_fine(client, topic):
    assert push(client, id=topic, topic=topic, body=..., delay=500) == PUSHED
    assert client.call("/get", id=topic)[2]["body"] == ""


def test_replies_escape_as_go_does(client, topic):
    assert push(client, id=topic, topic=topic, body='<a href="x">&\u2028\u2029 é 中 \U0001f600',
                delay=500) == PUSHED
    text = client.post("/get", id=topic).text
    for piece in ("\\u003ca href=", "\\u003e", "\\u0026", "\\u2028", "\\u2029", "é", "中",
                  "\U0001f600"):
        assert piece in text


def test_a_second_push_with_a_live_id_replaces_the_job(client, topic):
    assert push(client, id=topic, topic=topic, delay=1, body="old") == PUSHED
    assert push(client, id=topic, topic=topic, delay=3000, body="new") == PUSHED
    assert client.call("/get", id=topic)[2]["body"] == "new"
    assert client.call("/pop", topic=topic) == DONE
    assert client.call("/pop", topic=topic) == DONE
    assert push(client, id=topic, topic=topic, delay=1, body="newest") == PUSHED
    assert pop_until(client, topic)["body"] == "newest"
    client.call("/delete", id=topic)


def test_a_comma_list_is_served_in_listed_order(client, topic):
    first, second, third = (f"{topic}-{name}" for name in "abc")
    for name in (third, second):
        assert push(client, id=name, topic=name, delay=1) == PUSHED
    time.sleep(1.2)
    taken = [client.call("/pop", topic=f"{first},{second},{third}")[2]["id"] for _ in range(2)]
    assert taken == [second, third]


def test_the_parts_of_a_comma_list_are_not_trimmed(client, topic):
    assert push(client, id=topic, topic=topic, delay=1) == PUSHED
    time.sleep(1.1)
    assert client.call("/pop", topic=f"other, {topic}") == DONE
    assert client.call("/pop", topic=f"other,{topic}")[2]["id"] == topic


def test_a_job_not_finished_within_ttr_comes_again(client, topic):
    assert push(client, id=topic, topic=topic, delay=1, ttr=1) == PUSHED
    for _ in range(3):
        assert pop_until(client, topic)["id"] == topic
    client.call("/delete", id=topic)


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "PATCH"])
def test_any_method_that_carries_a_body_will_do(shared, topic, method):
    with Wire(shared.port) as wire:
        body = json.dumps({"id": topic, "topic": topic, "delay": 50, "ttr": 1}).encode()
        head = f"{method} /push HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        wire.send(head.encode() + body)
        assert wire.response().json()["code"] == 0


def test_the_content_type_does_not_matter(client, topic):
    body = json.dumps({"id": topic, "topic": topic, "delay": 50, "ttr": 1})
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "image/png"},
                    {"Content-Type": "application/x-www-form-urlencoded"}):
        answer = client.request("POST", "/push", body, headers)
        assert answer.json()["code"] == 0


@pytest.mark.parametrize("path", ["/", "/nothing", "/push/", "/Push", "/pop/a"])
def test_other_paths_are_not_found_as_in_go(client, path):
    answer = client.post(path, "{}")
    assert answer.status == 404
    assert answer.text == "404 page not found\n"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_pipelined_calls_are_answered_in_order(shared, topic):
    with Wire(shared.port) as wire:
        wire.send(b"".join(
            request_bytes("POST", "/push", json.dumps(
                {"id": f"{topic}{n}", "topic": topic, "delay": 900, "ttr": 1}).encode())
            + request_bytes("POST", "/get", json.dumps({"id": f"{topic}{n}"}).encode())
            for n in range(50)))
        for number in range(50):
            assert wire.response().json()["code"] == 0
            assert wire.response().json()["data"]["id"] == f"{topic}{number}"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2**70, 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5)


@settings(max_examples=150, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["id", "topic", "delay", "ttr", "body", "x"]), JSON_VALUES))
def test_whatever_json_comes_a_reply_in_form_goes_back(shared, fields):
    with Client(shared.port) as one:
        answer = one.post("/push", json.dumps(fields))
        said = answer.json()
        assert answer.status == 200 and list(said) == ["code", "message", "data"]
        assert said["code"] in (0, 1)
        if said["code"] == 0:
            one.call("/delete", id=fields["id"])


@settings(max_examples=60, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.text(max_size=300).filter(lambda text: "\ud800" not in text))
def test_every_text_comes_back_as_it_was(shared, text):
    with Client(shared.port) as one:
        assert push(one, id="text", topic="text", delay=1000, body="[" + text + "]") == PUSHED
        assert one.call("/get", id="text")[2]["body"] == "[" + text + "]"
