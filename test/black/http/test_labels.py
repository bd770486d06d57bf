"""Labels of jobs in /v1: what a client says of its job is kept, shown, and refused by name where it is none."""

import json

import pytest

from wire import Client, eventually

LABELS = {"biz_key": "order 17", "subtopic": "eu", "tags": ["a", "中文"], "extend_data": "{\"n\":1}\n",
          "create_time": "2023-11-14T22:13:20.123Z", "rank": 7}


def of(job):
    return {name: job[name] for name in LABELS if name in job}


def test_labels_come_back_from_get_and_reserve(client, topic):
    job_id = client.push_id(topic, body="x", **LABELS)
    assert of(client.job(job_id, method="GET").json()) == LABELS
    answer = client.request("POST", "/v1/reserve", json.dumps({"topics": [topic], "wait": "5s"}),
                            {"Content-Type": "application/json"})
    assert of(answer.json()["jobs"][0]) == LABELS


def test_a_job_without_labels_shows_none(client, topic):
    job_id = client.push_id(topic, body="x", rank=0)
    assert of(client.job(job_id, method="GET").json()) == {}


def test_a_new_body_keeps_the_labels(client, topic):
    job_id = client.push_id(topic, body="x", delay="1h", **LABELS)
    assert client.request("PATCH", "/v1/jobs/" + job_id, json.dumps({"body": "y"}),
                          {"Content-Type": "application/json"}).status == 200
    job = client.job(job_id, method="GET").json()
    assert job["body"] == "y" and of(job) == LABELS


@pytest.mark.parametrize("field, value", [
    ("biz_key", ""), ("biz_key", "x" * 129), ("subtopic", "a\nb"), ("tags", "a"), ("tags", ["a,b"]),
    ("extend_data", "x" * 2001), ("create_time", 0), ("create_time", "then"), ("rank", -1), ("rank", 2**32)])
def test_a_label_that_is_none_is_refused_by_name(client, topic, field, value):
    answer = client.push(topic, body="x", **{field: value})
    assert answer.status == 400, answer
    assert answer.json()["field"].startswith(field)


def test_labels_that_are_too_much_together_are_refused(client, topic):
    answer = client.push(topic, body="x", extend_data="\"" * 2000, subtopic="\"" * 250)
    assert answer.status == 400, answer
    assert answer.json()["code"] == "properties_too_large" and answer.json()["field"] == "extend_data"


def test_of_one_millisecond_the_lower_rank_goes_first(client, topic):
    due = client.job(client.push_id(topic, body="now"), method="GET").json()["due_ms"] + 700
    for rank in (500, 3, 70000, 0, 999):
        client.push_id(topic, body=str(rank), due=due, rank=rank)

    def all_of():
        answer = client.request("POST", "/v1/reserve", json.dumps({"topics": [topic], "max": 10}),
                                {"Content-Type": "application/json"})
        taken.extend(answer.json()["jobs"] if answer.status == 200 else [])
        return len(taken) == 6

    taken = []
    assert eventually(all_of)
    assert [job["body"] for job in taken] == ["now", "0", "3", "500", "70000", "999"]
    assert all(job["due_ms"] == due for job in taken[1:]), "its microseconds alone differ"


def test_a_rank_is_never_early(client, topic):
    due = "2030-01-31T08:00:00.005007Z"
    job_id = client.push_id(topic, body="x", due=due, rank=3)
    assert client.job(job_id, method="GET").json()["due"] == "2030-01-31T08:00:00.006003Z"
    job_id = client.push_id(topic, body="x", due=due, rank=7)
    assert client.job(job_id, method="GET").json()["due"] == due


def test_a_listing_shows_them_if_it_is_asked(client, topic):
    for i in range(250):
        client.push_id(topic, id=f"{topic}-{i}", body="x", due=2_000_000_000_000 + i, biz_key=f"k{i}", tags=["a"])
    plain = client.get(f"/v1/topics/{topic}/jobs?limit=2").json()["jobs"]
    assert [of(job) for job in plain] == [{}, {}]
    found, cursor = [], ""
    while cursor is not None:
        answer = client.get(f"/v1/topics/{topic}/jobs?properties=true&limit=200{cursor}").json()
        found += answer["jobs"]
        cursor = "&cursor=" + answer["cursor"] if "cursor" in answer else None
    assert [job["biz_key"] for job in found] == [f"k{i}" for i in range(250)]
    assert found[0] == {**plain[0], "biz_key": "k0", "tags": ["a"]}
    assert client.get(f"/v1/topics/{topic}/jobs?properties=yes").status == 400
    assert client.get("/v1/topics/nobody-knows-it/jobs?properties=true").status == \
        client.get("/v1/topics/nobody-knows-it/jobs").status
