"""later beside servers with low limits, older ones, and what it says when it is refused."""

import json
import os
import re
import subprocess
import threading
import time

import pytest
from fake_v1 import Fake
from patience import before
from process import LATER
from terminal import on_a_terminal
from test_later import CONFLICT, DONE, NOTHING, REFUSED, USAGE
from wire import Client, eventually


def run(url, *words, **options):
    return subprocess.run([LATER, *words], env=dict(os.environ, LATER_SERVER=url),
                          capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.fixture
def small(laterd):
    """later against a server that takes 100 jobs at once."""
    server = laterd({"limits": {"batch_jobs": 100}, "redis": {"partitions": 1}})
    url = f"http://127.0.0.1:{server.port}"

    def later(*words, **options):
        return run(url, *words, **options)

    later.port = server.port
    return later


def test_what_holds_a_topic_names_words_that_the_configuration_has():
    with Fake({"GET /v1/topics/t": (200, {"name": "t", "held": "others"})}) as fake:
        shown = run(fake.url, "topics", "t").stdout
    assert "held      order by key: another laterd sends it, or is about to (push.ordered)\n" in shown, shown


def test_a_server_that_answers_for_more_times_than_were_asked_for_is_not_believed():
    due = [{"until": "2026-11-27T00:00:00Z", "jobs": count} for count in range(5000)]
    with Fake({"GET /v1/due": (200, {"due": due})}) as fake:
        for words in ([], ["1m", "2m"]):
            shown = run(fake.url, "due", *words)
            assert shown.returncode == DONE and len(shown.stdout.splitlines()) == 1 + (len(words) or 7), shown


def test_topics_are_listed_once_whatever_their_names(laterd):
    server = laterd({"limits": {"batch_jobs": 1}})
    names = ["a", "b\u0085", "c\u202e", "d"]  # U+0085 is shown as ?, and is a part of the name
    with Client(server.port) as client:
        for name in names:
            assert client.push(name).status == 201
    listed = run(f"http://127.0.0.1:{server.port}", "topics", "--json")
    assert [json.loads(line)["name"] for line in listed.stdout.rstrip("\n").split("\n")] == names
    shown = run(f"http://127.0.0.1:{server.port}", "topics")
    assert shown.stdout.count("\n") == 1 + len(names)


def test_a_low_limit_of_jobs_in_a_batch_breaks_no_command(small):
    lines = "".join(f"job {number}\n" for number in range(250))
    answer = small("push", "many", "--lines", input=lines)
    assert (answer.returncode, answer.stdout, answer.stderr) == (DONE, "250 pushed, 0 refused\n", "")
    for number in range(120):
        assert small("push", f"topic-{number:03}", "x", "--delay", "1h").returncode == DONE
    assert len(small("topics").stdout.splitlines()) == 1 + 121
    answer = small("list", "many", "--state", "ready", "--limit", "1000")
    assert (len(answer.stdout.splitlines()), answer.stderr) == (1 + 250, "")
    answer = small("top", "--once", "--every", "100ms")
    # Those with a rate come first: on a busy machine that of "many" is older than ten seconds by now.
    assert answer.returncode == DONE and re.search(r"^(many|topic-\d+) +", answer.stdout, re.M)
    answer = small("pop", "many", "--max", "230", "--finish", "--json")
    assert (answer.returncode, answer.stderr) == (DONE, "")
    assert len(answer.stdout.splitlines()) == 230
    with Client(small.port) as client:
        assert client.get("/v1/topics/many").json()["ready"] == 20


def test_a_low_limit_of_bytes_in_a_request_breaks_no_bulk_push(laterd):
    server = laterd({"limits": {"request_bytes": 4096, "body_bytes": 1024}})
    answer = run(f"http://127.0.0.1:{server.port}", "push", "t", "--lines",
                 input=f"{'x' * 900}\n" * 100)
    assert (answer.returncode, answer.stdout, answer.stderr) == (DONE, "100 pushed, 0 refused\n", "")


def test_a_line_that_no_request_may_hold_does_not_stop_the_rest(laterd):
    server = laterd({"limits": {"request_bytes": 4096, "body_bytes": 1024}})
    url = f"http://127.0.0.1:{server.port}"
    lines = ["a", "x" * 5000, "b", "y" * 600000, "c"]
    answer = run(url, "push", "t", "--lines", input="\n".join(lines))
    assert (answer.returncode, answer.stdout) == (REFUSED, "3 pushed, 2 refused\n")
    assert answer.stderr == "".join(
        f"later push: line {number}: the job has {size + 12} bytes as JSON; limits.request_bytes is 4.0 KiB\n"
        for number, size in ((2, 5000), (4, 600000)))
    assert run(url, "pop", "t", "--max", "9", "--body").stdout == "a\nb\nc\n"
    exported = json.loads(run(url, "export", "t").stdout.splitlines()[2])
    text = [json.dumps(line) for line in (
        {"later": {"format": 1}}, {"topic": {"name": "t"}}, {"job": {**exported["job"], "id": "l", "body": "x" * 5000}},
        {"job": {**exported["job"], "id": "m", "body": "m"}}, {"end": {"topics": 1, "jobs": 2}})]
    answer = run(url, "import", input="\n".join(text) + "\n")
    assert (answer.returncode, "1 imported, 0 there already, 1 refused" in answer.stdout) == (REFUSED, True), answer
    assert "job l of topic t: the job has " in answer.stderr and "stopped" not in answer.stderr


def test_all_buried_jobs_that_were_asked_for_are_kicked(small):
    jobs = "".join('{"state":"buried"}\n' for _ in range(250))
    assert small("push", "dead", "--ndjson", input=jobs).returncode == DONE
    assert small("kick", "--topic", "dead", "--max", "130").stdout == "kicked 130 jobs\n"
    assert small("kick", "--topic", "dead").stdout == "kicked 120 jobs\n"


LIMITS = {"batch_jobs": 3, "reserve_max": 2, "list_limit": 5, "body_bytes": 2048}


def take_batch(_, body):
    count = len(body.splitlines())
    if count > 3:
        return 413, {"status": 413, "code": "batch_too_large", "detail": "more than limits.batch_jobs"}
    return 200, {"failed": 0, "results": [{"status": 201, "job": {}}] * count}


@pytest.mark.parametrize("routes, asked", [
    ({"GET /v1/limits": (200, LIMITS)}, [3, 3, 1]),
    ({}, [7, 3, 3, 1]),  # an older server says it by refusing
])
def test_a_bulk_push_asks_for_the_limit_or_learns_it(routes, asked):
    with Fake({"POST /v1/topics/t/jobs": take_batch, **routes}) as fake:
        answer = run(fake.url, "push", "t", "--lines", input="x\n" * 7)
        assert (answer.returncode, answer.stdout, answer.stderr) == (
            DONE, "7 pushed, 0 refused\n", "")
        assert [len(body.splitlines()) for body in fake.asked("POST /v1/topics/t/jobs")] == asked
        assert len(fake.asked("GET /v1/limits")) == 1


def test_an_older_server_behind_a_prefix_that_ends_like_the_api_is_not_taken_for_a_wrong_url():
    """It has no GET /v1/limits."""
    pushed = {"failed": 0, "results": [{"status": 201, "job": {"id": "a"}}]}
    with Fake({"POST /queues/v1/v1/topics/t/jobs": (200, pushed)}) as fake:
        answer = run(f"{fake.url}/queues/v1", "push", "t", "--lines", input="a\n")
        assert answer.returncode == DONE, answer
        assert fake.asked("GET /queues/v1/v1/limits")


def test_a_page_is_no_longer_than_the_server_makes_it():
    def page(query, _):
        first = 0 if "cursor" not in query else 5
        topics = [{"name": f"t{number}"} for number in range(first, first + 5)]
        return 200, {"topics": topics, **({"cursor": "t4"} if first == 0 else {})}

    with Fake({"GET /v1/limits": (200, LIMITS), "GET /v1/topics": page}) as fake:
        assert len(run(fake.url, "topics").stdout.splitlines()) == 1 + 10
        queries = [query for name, query, _ in fake.requests if name == "GET /v1/topics"]
        assert queries == ["limit=5", "limit=5&cursor=t4"]


# Finishing

WAITED_FOR_S = 1  # so long later waits for what it says of a topic that gave it nothing


def reserved(*ids):
    return 200, {"jobs": [{"id": name, "topic": "t", "lease": f"7{name}", "body": name}
                          for name in ids]}


def test_popped_jobs_are_finished_in_one_request():
    with Fake({"POST /v1/reserve": reserved("a", "b", "c"),
               "POST /v1/finish": (200, {"failed": 0, "results": [{"status": 204}] * 3})}) as fake:
        answer = run(fake.url, "pop", "t", "--max", "3", "--finish", "--body")
        assert (answer.returncode, answer.stdout, answer.stderr) == (DONE, "a\nb\nc\n", "")
        assert [json.loads(body) for body in fake.asked("POST /v1/finish")] == [
            {"jobs": [{"id": "a", "lease": "7a"}, {"id": "b", "lease": "7b"},
                      {"id": "c", "lease": "7c"}]}]


def test_popped_jobs_are_finished_one_by_one_on_an_older_server():
    routes = {f"POST /v1/jobs/{name}/finish": (204, None) for name in "ab"}
    with Fake({"POST /v1/reserve": reserved("a", "b"), **routes}) as fake:
        answer = run(fake.url, "pop", "t", "--max", "2", "--finish", "--body")
        assert (answer.returncode, answer.stdout, answer.stderr) == (DONE, "a\nb\n", "")
        assert [fake.asked(name) for name in routes] == [['{"lease":"7a"}'], ['{"lease":"7b"}']]


def test_of_several_jobs_each_is_finished_with_its_own_lease():
    stale = {"status": 409, "code": "stale_lease", "detail": "another lease, or none, holds this"}
    results = [{"status": 204}, {"status": 409, "problem": stale}, {"status": 204}]
    with Fake({"POST /v1/finish": (200, {"failed": 1, "results": results})}) as fake:
        answer = run(fake.url, "finish", "a", "b", "c", "-L", "1", "-L", "2", "-L", "3")
        assert answer.returncode == CONFLICT
        assert answer.stdout == "finished a\nfinished c\n"
        assert answer.stderr == ("later finish: b: another lease, or none, holds this "
                                 "(stale_lease)\n")
        assert [job["lease"] for job in json.loads(fake.asked("POST /v1/finish")[0])["jobs"]] == [
            "1", "2", "3"]
        answer = run(fake.url, "finish", "a", "b", "--lease", "1")
        assert answer.returncode == USAGE and "2 ids and 1 lease:" in answer.stderr


def test_what_a_pop_took_nothing_from_is_asked_for_only_where_people_read_it():
    """GET of one topic looks for its next job, among all jobs of the server."""
    with Fake({"POST /v1/reserve": (204, None), "GET /v1/topics/t": (200, {"name": "t", "delayed": 3})}) as fake:
        for options in ([], ["--body"], ["--json"]):
            answer = run(fake.url, "pop", "t", *options)
            assert (answer.returncode, answer.stdout, answer.stderr) == (NOTHING, "", "")
        for option, says in [("--body", "later pop: t: no job is ready\n"), ("--json", "")]:
            assert on_a_terminal(fake.url, b"", "pop", "t", option) == (says, NOTHING)
        assert not fake.asked("GET /v1/topics/t")
        says = "later pop: t: no job is ready; it has 3 delayed\n"
        with before(time.time() + WAITED_FOR_S):
            assert on_a_terminal(fake.url, b"", "pop", "t") == (says, NOTHING)


def test_a_kick_asks_for_topics_of_the_first_ten_ids_that_no_job_has():
    gone = (404, {"status": 404, "code": "not_found", "detail": "no such job"})
    with Fake({f"POST /v1/jobs/{number}/kick": gone for number in range(12)}) as fake:
        assert run(fake.url, "kick", *map(str, range(12))).returncode == NOTHING
        assert [name for name, *_ in fake.requests if name.startswith("GET")] == [
            f"GET /v1/topics/{number}" for number in range(10)]


def test_what_a_pop_took_nothing_from_is_waited_for_no_longer_than_a_second():
    gone = threading.Event()

    def silent(*_):
        gone.wait(60)
        return 200, {"name": "t", "delayed": 3}

    with Fake({"POST /v1/reserve": (204, None), "GET /v1/topics/t": silent}) as fake:
        shown = on_a_terminal(fake.url, b"", "pop", "t", "--timeout", "50s")
        assert not gone.is_set() and shown == ("later pop: t: no job is ready\n", NOTHING)
        assert eventually(lambda: fake.asked("GET /v1/topics/t"))
        gone.set()


def test_a_pop_of_several_that_takes_nothing_says_so_on_an_older_server_too():
    """It has no GET /v1/limits, which is asked for in silence."""
    with Fake({"POST /v1/reserve": (204, None), "GET /v1/topics/t": (200, {"name": "t", "delayed": 3})}) as fake:
        says = "later pop: t: no job is ready; it has 3 delayed\n"
        with before(time.time() + WAITED_FOR_S):
            assert on_a_terminal(fake.url, b"", "pop", "t", "--max", "5") == (says, NOTHING)
        assert fake.asked("GET /v1/limits")
    with Fake({}) as refusing:
        says = "later pop: there is no such call (no_such_path)\n"
        assert on_a_terminal(refusing.url, b"", "pop", "t") == (says, NOTHING)


def test_jobs_are_finished_whatever_the_server_knows(small):
    for number in range(3):
        assert small("push", "t", "x", "--id", f"job-{number}").returncode == DONE
    assert len(small("pop", "t", "--max", "3", "--json").stdout.splitlines()) == 3
    answer = small("finish", "job-0", "no-such", "job-1", "job-2")
    assert answer.returncode == NOTHING
    assert answer.stdout == "finished job-0\nfinished job-1\nfinished job-2\n"
    assert answer.stderr.startswith("later finish: no-such: ")


# Clearing

def test_clear_deletes_what_was_agreed_to_and_says_how_many(small):
    url = f"http://127.0.0.1:{small.port}"
    for options in ([], ["--delay", "1h"]):
        assert small("push", "t", "--lines", *options, input="x\n" * 250).returncode == DONE
    answer = small("clear", "t", input="")
    assert answer.returncode == USAGE and "--yes" in answer.stderr
    shown, code = on_a_terminal(url, b"n\n", "clear", "t")
    assert code == REFUSED and "t: 500 jobs. Delete them? [y/N] " in shown
    shown, code = on_a_terminal(url, b"y\n", "clear", "t", "--state", "ready")
    assert code == DONE and "t: 250 ready jobs. Delete them? [y/N] " in shown
    assert shown.endswith("deleted 250 jobs\n") and re.search(r"\d+ of 250 jobs deleted", shown)
    answer = small("clear", "t", "--yes")
    assert (answer.returncode, answer.stdout, answer.stderr) == (DONE, "deleted 250 jobs\n", "")
    assert small("clear", "t", "--yes", "--json").stdout == '{"jobs":0}\n'
    assert small("clear", "no-such", "--yes").returncode == NOTHING
    assert small("clear", "t", "--state", "done").returncode == USAGE


@pytest.mark.parametrize("removed, code, says", [
    (True, DONE, "deleted 7 jobs and the topic\n"), (False, CONFLICT, "deleted 7 jobs\n")])
def test_a_topic_is_deleted_unless_it_is_in_use(removed, code, says):
    with Fake({"GET /v1/topics/old": (200, {"name": "old", "ready": 7}),
               "DELETE /v1/topics/old": (200, {"jobs": 7, "removed": removed})}) as fake:
        assert run(fake.url, "delete-topic", "old", input="").returncode == USAGE
        assert not fake.asked("DELETE /v1/topics/old")
        answer = run(fake.url, "delete-topic", "old", "--yes")
        assert (answer.returncode, answer.stdout) == (code, says)
        assert ("the topic stays" in answer.stderr) == (not removed)
        assert run(fake.url, "delete-topic", "nope", "-y").returncode == NOTHING


def test_pause_of_a_topic_that_does_not_exist_says_how_to_make_it():
    def pause(_, body):
        if json.loads(body or "{}").get("create"):
            return 204, None
        return 404, {"status": 404, "code": "not_found", "detail": "no such topic"}

    with Fake({"POST /v1/topics/nope/pause": pause}) as fake:
        answer = run(fake.url, "pause", "nope", "--for", "1m")
        assert answer.returncode == NOTHING
        assert answer.stderr == ("later pause: nope: there is no such topic; --create makes it, "
                                 "and pauses it\n")
        answer = run(fake.url, "pause", "nope", "--for", "1m", "--create")
        assert (answer.returncode, answer.stdout) == (DONE, "paused nope\n")
        assert json.loads(fake.asked("POST /v1/topics/nope/pause")[1]) == {
            "for": 60000, "create": True}


# What is said

@pytest.mark.parametrize("words, says", [
    (["nosuch"], "later: there is no command 'nosuch'"),
    (["psuh", "t", "x"], "later: there is no command 'psuh'; did you mean push?"),
    (["put", "t", "x"], "later: there is no command 'put'; did you mean push?"),
    (["push", "t", "x", "--dealy", "3s"],
     "later push: there is no option --dealy; did you mean --delay?"),
])
def test_a_typing_mistake_is_answered_with_what_was_meant(words, says):
    answer = run("http://127.0.0.1:1", *words)
    assert answer.returncode == USAGE and answer.stderr.splitlines()[0] == says


def test_figures_are_printed_as_the_server_sends_them_and_bodies_in_full():
    stats = {"name": "t", "jobs": {}, "store": {"sync_ms_avg": 3.2}}
    job = {"id": "a", "body": 0.12345678901234568}
    with Fake({"GET /v1/stats": (200, stats), "GET /v1/jobs/a": (200, job),
               "GET /v1/topics/t": (200, stats)}) as fake:
        shown = '{"name":"t","jobs":{},"store":{"sync_ms_avg":3.2}}\n'
        assert run(fake.url, "topics", "t", "--json").stdout == shown
        assert run(fake.url, "stats", "--json").stdout == shown
        assert '"body":0.12345678901234568' in run(fake.url, "get", "a", "--json").stdout


def test_a_refusal_names_the_option_that_is_at_fault(small):
    answer = small("push", "t", "x", "--due", "tomorrow")
    assert answer.returncode == USAGE
    assert answer.stderr.startswith("later push: --due 'tomorrow': ")
    answer = small("push", "t", "x", "--if-exists", "maybe")
    assert answer.stderr.startswith("later push: --if-exists 'maybe': ")
    answer = small("push", "t", "--ndjson", input='{"delay":"soon"}\n')
    assert answer.stderr.startswith("later push: line 1: delay: ")


@pytest.mark.parametrize("words, says", [
    (["push", "t", "x", "--tag", "a", "--tag", "b,c"], "later push: --tag: a tag is "),
    (["push", "t", "x", "--header", "A B: c"], "later push: --header: a header's name is "),
    (["--json", "push", "t", "x", "--retry", "1s,9999999d"], "later push: --retry: this duration must be "),
    (["topic", "set", "t", "--url", "ftp://x"], "later topic: t: --url: the URL must begin with "),
    (["topic", "set", "t", "--url", "http://x/", "--sign", "x"], "later topic: t: --sign: this must say where "),
    (["topic", "set", "t", "--url", "http://x/", "--success-status", "x"],
     "later topic: t: --success-status 'x': this must be statuses "),
    (["topic", "set", "t", "--url", "http://x/", "--target-timeout", "9999d"],
     "later topic: t: --target-timeout '9999d': this duration must be "),
    (["topic", "set", "t", "--key-rate", "x"], "later topic: t: --key-rate 'x': this must be a number of jobs "),
])
def test_a_refusal_names_the_option_whatever_the_server_calls_it(small, words, says):
    answer = small(*words)
    assert answer.returncode == USAGE and answer.stderr.startswith(says), answer


@pytest.mark.parametrize("words", [["topic", "set", "t"], ["push", "t", "x"]])
@pytest.mark.parametrize("url", ["ftp://jo:hidden@h/", "https:/jo:hidden@h", "https://jo:hidden@h:99999/",
                                 "https://h:99999/?token=hidden"])
def test_a_refusal_shows_no_password_of_a_url(small, words, url):
    answer = small(*words, "--url", url)
    assert answer.returncode == USAGE and ": --url: " in answer.stderr and "hidden" not in answer.stderr, answer


def test_options_before_the_command_are_at_fault_for_nothing(small):
    """Their table is another one: what stands at the same place in the command's was not given."""
    url = f"http://127.0.0.1:{small.port}"
    for field, value in (("retry", "foo"), ("attempts", 0), ("ttr", "x"), ("jitter", 7), ("rate", "x")):
        answer = small("--server", url, "--timeout", "9s", "topic", "set", "t", "--file", "-",
                       input=json.dumps({field: value}))
        assert answer.returncode == USAGE and answer.stderr.startswith(f"later topic: t: {field}: "), answer


@pytest.mark.parametrize("more, code", [
    ({"config_key": "limits.ttr_seconds", "detail": "the ttr is too long"}, REFUSED),
    ({"detail": "the header 'limits.push.' is not one"}, USAGE)])
def test_the_key_that_an_answer_names_tells_a_rule_of_the_server_from_a_bad_value(more, code):
    """Not the words of its text, which may repeat what was sent."""
    problem = {"status": 400, "code": "bad_field", "field": "ttr", **more}
    with Fake({"POST /v1/topics/t/jobs": (400, problem)}) as fake:
        assert run(fake.url, "push", "t", "x").returncode == code


def test_a_refusal_for_a_limit_says_its_value():
    problem = {"status": 413, "code": "too_large", "detail": "the body is over limits.body_bytes"}
    with Fake({"GET /v1/limits": (200, LIMITS), "POST /v1/topics/t/jobs": (413, problem)}) as fake:
        answer = run(fake.url, "push", "t", "x")
        assert answer.returncode == REFUSED
        assert answer.stderr == ("later push: the body is over limits.body_bytes "
                                 "(too_large; limits.body_bytes is 2.0 KiB)\n")
    with Fake({"POST /v1/topics/t/jobs": (413, problem)}) as older:
        assert run(older.url, "push", "t", "x").stderr.endswith("limits.body_bytes (too_large)\n")
