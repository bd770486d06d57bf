"""later, asking what is no laterd: all it answers is 200, or nothing. Nothing was done then."""

import base64
import json
import os
import re
import subprocess

import local_server
import pytest
from fake_v1 import Fake
from process import LATER

DONE, NOTHING, USAGE, CONFLICT, REFUSED, UNREACHABLE, WRONG = range(7)

pytestmark = pytest.mark.embedded("it asks servers of its own")

JSON = {"Content-Type": "application/json"}
FOREIGN = {
    "empty": (200, {}, b""),
    "html": (200, {"Content-Type": "text/html"}, b"<html><body>Welcome</body></html>"),
    "object": (200, JSON, b"{}"),
    "status": (200, JSON, b'{"status":"ok","code":0}'),
    "array": (200, JSON, b"[]"),
    "text": (200, JSON, b'"ok"'),
    "numbers": (200, JSON, b'{"jobs":[1],"topics":[1],"results":[1],"attempts":[1],"events":[1],"due":[1]}'),
    "bytes": (200, JSON, b'{"jobs":["\xff\xfe"]}'),
}
NONE = {"none": (204, {}, b"")}
ASK = ("topics", "topics t", "list t", "list t --state buried", "list t --json", "get j", "attempts j", "history j",
       "stats", "stats --json", "cluster", "due 1h", "journal status", "top --json", "release j", "touch j", "bury j",
       "kick j", "run j", "reschedule j --delay 5s", "push t body", "push t body --json", "replay t",
       "topic show t", "topic test t", "topic set t --ttr 5s", "finish j k", "kick --topic t", "clear t --yes",
       "delete-topic t --yes")
NOTHING_SAID = ("finish j", "rm j", "pause t", "resume t")  # 204 is a laterd's answer to these, and to a reserve
POP = ("pop t", "pop t --json", "pop t --max 5 --finish")


class Foreign(local_server.LocalServer):
    """Answers all requests alike."""

    def __init__(self, answer):
        class Handler(local_server.Handler):
            def answer(self):
                self.text()
                self.send(*answer)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer

        self.begin(Handler)


def later(url, words, text=""):
    return subprocess.run([LATER, *words.split()], input=text, text=True, capture_output=True, timeout=60,
                          check=False, env=dict(os.environ, LATER_SERVER=url))


def says_that_it_is_no_laterd(url, words):
    done = later(url, words)
    assert done.returncode == REFUSED and "is it a laterd?" in done.stderr, (words, done)
    assert done.stdout == "", (words, done)


@pytest.mark.parametrize("name", FOREIGN)
def test_an_answer_that_no_laterd_gives_is_no_success(name):
    with Foreign(FOREIGN[name]) as server:
        for words in (*ASK, *NOTHING_SAID, *POP):
            says_that_it_is_no_laterd(server.url, words)


def test_no_content_is_a_success_only_where_a_laterd_says_no_more():
    with Foreign(NONE["none"]) as server:
        for words in ASK:
            says_that_it_is_no_laterd(server.url, words)
        for words in NOTHING_SAID:
            assert later(server.url, words).returncode == DONE
        for words in POP:
            assert later(server.url, words).returncode == NOTHING


BAD = "\x1b[2J\x9b1m\x07"  # a terminal would obey it
JOB = {"id": BAD, "topic": BAD, "state": BAD, "url": BAD, "tags": [BAD], "body": BAD, "result": BAD,
       "last_failure": {"time": BAD, "code": 1, "reason": BAD}}
PART = {"state": BAD, "why": BAD}
SHOWN = {
    "GET /v1/journal": {"journal": True, "state": BAD, "error": BAD, "hint": BAD, "writer": BAD, "mode": BAD,
                        "restore": PART, "resync": PART},
    "POST /v1/journal/resync": {"journal": True},
    "GET /v1/stats": {"version": BAD, "jobs": {}, "store": {"kind": BAD}},
    "GET /v1/cluster": {"role": BAD, "serving": True, "election": True, "name": BAD, "leader": BAD, "why": BAD},
    "GET /v1/topics": {"topics": [{"name": BAD}]},
    "GET /v1/topics/t": {"name": BAD, "held": BAD, "held_by": BAD, "next_due": BAD,
                         "settings": {"order": BAD, "target": {"type": BAD, "url": BAD}}},
    "GET /v1/topics/t/jobs": {"jobs": [JOB]},
    "POST /v1/topics/t/test": {"outcome": BAD, "reason": BAD, "response": BAD},
    "GET /v1/jobs/j": JOB,
    "GET /v1/jobs/j/attempts": {"attempts": [{"time": BAD, "reason": BAD, "address": BAD, "response": BAD}]},
    "GET /v1/jobs/j/history": {"events": [{"time": BAD, "event": BAD, "state": BAD, "by": BAD, "lease": BAD}]},
    "POST /v1/topics/t/jobs": JOB,
    "POST /v1/reserve": {"jobs": [JOB]},
}


@pytest.mark.parametrize("words", ["journal status", "journal resync", "stats", "cluster", "topics", "topics t", "list t",
                                   "list t --labels", "topic test t", "get j", "attempts j", "history j", "push t x",
                                   "pop t"])
def test_no_control_character_of_a_server_reaches_the_terminal(words):
    """Its texts may be those of others: of a job's client, or of a MySQL."""
    with Fake({path: (200, answer) for path, answer in SHOWN.items()}) as fake:
        done = later(fake.url, words)
    assert re.search(r"\?\[2J\?1m\?", done.stdout + done.stderr), done
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.stdout + done.stderr), done


@pytest.mark.parametrize("words, path, answer", [
    ("attempts j", "GET /v1/jobs/j/attempts", lambda said: {"attempts": [{"code": 500, **said}]}),
    ("topic test t", "POST /v1/topics/t/test", lambda said: {"outcome": "failed", **said}),
])
def test_of_an_answer_that_is_no_utf8_what_is_ascii_is_shown(words, path, answer):
    """As of an old page in GBK: what a receiver said was left out."""
    said = base64.b64encode("<h1>500</h1>数据库 timeout\n".encode("gbk")).decode()
    for text, shown in ((said, "<h1>500</h1>?????? timeout\n"), ("", ""), ("*", "")):
        with Fake({path: (200, answer({"response_base64": text}))}) as fake:
            assert later(fake.url, words).stdout.endswith(shown)


def test_lines_are_pushed_only_if_the_server_says_what_became_of_each():
    for results in ([], [{}, {}], [{"job": {"id": "a"}}], [{"job": {"id": "a"}}, {"status": 201}]):
        with Fake({"POST /v1/topics/t/jobs": (200, {"failed": 0, "results": results})}) as fake:
            done = later(fake.url, "push t --lines -", text="a\nb\n")
            assert done.returncode == REFUSED
            assert "the server answered for " in done.stderr and " jobs of 2" in done.stderr


def exporting(got, alone=None):
    """What is said of a topic whose reserved jobs are a and b, and what was written."""
    listed = {"jobs": [{"id": "a", "body_bytes": 1}, {"id": "b", "body_bytes": 1}]}
    with Fake({"GET /v1/topics/t": (200, {"name": "t"}), "GET /v1/topics/t/jobs": (200, listed),
               "POST /v1/get": (200, {"results": got}), "GET /v1/jobs/b": alone}) as fake:
        done = later(fake.url, "export t")
    assert '"end"' not in done.stdout
    return done.returncode, done.stderr


def closes(*_):
    raise ConnectionError


def test_an_export_is_whole_only_if_the_server_says_what_became_of_each_job():
    for got in ([], [{"job": {"id": "a"}}]):
        assert exporting(got) == (REFUSED, "later export: t: the server's answer is none that this `later` knows\n")


def test_an_export_that_ends_at_a_job_that_is_asked_for_alone_says_why():
    got = [{"job": {"id": "a"}}, {"status": 503}]
    code, said = exporting(got, closes)
    assert code == UNREACHABLE and "it closed the connection without an answer" in said
    assert exporting(got, (403, {"status": 403, "code": "forbidden"})) == (
        REFUSED, "later export: t: the server does not show a job (403)\n")
    code, said = exporting(got, (200, ["no job"]))
    assert code == REFUSED and said == "later export: t: the server's answer is none that this `later` knows\n"


def test_jobs_that_could_not_be_written_are_not_finished_and_that_is_said():
    with Fake({"POST /v1/reserve": (200, {"jobs": [{"id": "a", "lease": "1"}]})}) as fake, \
            open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([LATER, "-s", fake.url, "pop", "t", "--finish"], stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=60, check=False)
        assert done.returncode == REFUSED
        assert done.stderr == "later pop: cannot write the output: the jobs are not finished\n"
        assert [name for name, *_ in fake.requests] == ["POST /v1/reserve"]


def test_a_resync_whose_progress_cannot_be_read_says_why():
    begun = {"POST /v1/journal/resync": (202, {"journal": True, "resync": {"state": "running"}})}
    refusal = {"status": 400, "code": "bad_field", "detail": "another server"}
    with Fake({**begun, "GET /v1/journal": (400, refusal)}) as fake:
        done = later(fake.url, "journal resync")
        assert done.returncode == REFUSED and done.stderr == "later journal: another server (bad_field)\n"
        assert 0 < len(fake.asked("GET /v1/journal")) <= 2


TOPIC = {"name": "t", "delayed": 0, "ready": 3, "reserved": 0, "buried": 0}


def test_a_list_of_nothing_says_why_also_if_the_server_tells_no_limits():
    with Fake({"GET /v1/topics/t/jobs": (200, {"jobs": []}), "GET /v1/topics/t": (200, TOPIC)}) as older:
        done = later(older.url, "list t")
        assert (done.returncode, done.stdout) == (NOTHING, "")
        assert done.stderr == "later list: t: no job is delayed; 3 ready: later list --state ready t\n"
        assert later(older.url, "list t --json").stderr == ""


def test_a_list_that_was_refused_says_only_that():
    refusal = {"status": 404, "code": "not_found", "detail": "no such topic"}
    with Fake({"GET /v1/topics/t/jobs": (404, refusal)}) as fake:
        done = later(fake.url, "list t")
        assert done.returncode == NOTHING and done.stderr == "later list: t: no such topic (not_found)\n"


def test_topics_says_that_there_are_none():
    with Fake({"GET /v1/topics": (200, {"topics": []})}) as fake:
        done = later(fake.url, "topics")
        assert done.returncode == NOTHING and "there are no topics" in done.stderr
        assert later(fake.url, "topics --json").stderr == ""


def test_a_clear_that_is_refused_says_so_once():
    """Only an older server, which knows no state "all", is asked for one state after the other."""
    topic = {"name": "t", "delayed": 1, "ready": 2, "reserved": 0, "buried": 0}
    no = (503, {"status": 503, "code": "store_failed", "detail": "the disk has failed"})
    with Fake({"GET /v1/topics/t": (200, topic), "POST /v1/topics/t/clear": no}) as fake:
        done = later(fake.url, "clear t --yes")
        assert (done.returncode, done.stderr) == (REFUSED, "later clear: t: the disk has failed (store_failed)\n")

    def older(_, text):
        if json.loads(text)["state"] == "all":
            return 400, {"status": 400, "code": "bad_field", "field": "state", "detail": "no such state"}
        return 200, {"jobs": 1, "more": False}
    with Fake({"GET /v1/topics/t": (200, topic), "POST /v1/topics/t/clear": older}) as fake:
        done = later(fake.url, "clear t --yes")
        assert (done.returncode, done.stderr, done.stdout) == (DONE, "", "deleted 4 jobs\n")
