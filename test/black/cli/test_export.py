"""later export and later import: a whole queue as lines of JSON, from engine to engine."""

import base64
import json
import os
import re
import signal
import subprocess
import threading
import time
from datetime import datetime, timedelta

import pytest
from golden import listing
from patience import TooLate
from process import LATER
from redis import REDIS_SERVER, Redis
from terminal import on_a_terminal
from wire import Client, eventually

DONE, NOTHING, USAGE, CONFLICT, REFUSED, UNREACHABLE, WRONG = range(7)
FAR = "2200-01-01T00:00:00.123457Z"

pytestmark = [pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server"),
              pytest.mark.embedded("it chooses its engines by itself")]


def later(server, *words, text=None, seconds=120):
    return subprocess.run([LATER, "-s", f"127.0.0.1:{server.port}", *map(str, words)], text=True,
                          capture_output=True, timeout=seconds, check=False, input=text)


def unless_busy(done):
    """Redis is always there: it is busy if it does not answer in time."""
    if "(again)" in done.stderr or "there was no answer in time" in done.stderr:  # of a request, or of a job in it
        raise TooLate(done.stderr)
    return done


def exported(server, *words):
    done = unless_busy(later(server, "export", *words))
    assert done.returncode == DONE, done.stderr
    return done.stdout


def imported(server, text, *words, code=DONE):
    done = unless_busy(later(server, "import", "--json", *words, text=text))
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(name="redis", scope="module")
def redis_server():
    with Redis() as server:
        yield server


@pytest.fixture(name="servers")
def all_servers(laterd, redis):
    """Embedded, on Redis, and embedded again: all three are empty."""
    made = []
    for kind in ("embedded", "redis", "embedded"):
        config = {"push": {"job_targets": "any"}, "engine": {"engine": kind},
                  "limits": {"body_bytes": "4M"}}
        if kind == "redis":
            config["redis"] = {"url": redis.url, "prefix": f"q{time.monotonic_ns()}"}
        made.append(laterd(config))
    return made


def fill(client):
    """Jobs in every state, and everything that a job and a topic can have."""
    for number in range(30):
        client.push_id("delayed", due=FAR, body={"n": number}, priority=number * 1000003)
    client.push_id("delayed", id="order/ä \"1\"", due=FAR, body="a client's \u2028 id\n\u0001")
    client.push_id("delayed", id="x" * 255, due=FAR, body_base64="AAECA//+", ttr="250us")
    client.push_id("delayed", id="typed", due=FAR, body="<a/>", content_type="text/xml", ttr="90s")
    client.push_id("delayed", id="empty", due=FAR)
    for length in (60_000, 70_000, 1_200_000):
        client.push_id("large", id=f"large-{length}", due=FAR, body="é" * (length // 2))
    client.request("POST", "/v1/topics/delayed/jobs",
                   b'{"id":"exact","due":"2200-01-01T00:00:00Z","body":{"b": 1.0, "a":'
                   b'123456789012345678901234567890,"b":[1e3 ,"\\u0041"]}}',
                   {"Content-Type": "application/json"})
    client.request("PUT", "/v1/topics/settings", retry="alipay", ttr="17s", concurrency=3)
    # What it refers to is not on this machine: it is taken as it is, by the import too.
    assert client.request("PUT", "/v1/topics/signed?check_secrets=false",
                          target={"type": "http", "sign": ["$NOT_HERE"]}).status == 200
    client.push_id("settings", id="no schedule", due=FAR, retry=[], body="x")
    client.push_id("settings", id="the topic's", due=FAR, body="y")
    client.push_id("sent", id="u", due=FAR, url="https://example.org/a?b=c", key="k/1",
                   headers={"X-A": "1", "X-B": "ü"}, biz_key="biz", tags=["t1", "t2"], retry=["1ms", "500us"])
    client.request("PUT", "/v1/topics/rabbit", target={"type": "amqp", "broker": "elsewhere", "routing_key": "{key}"})
    client.push_id("rabbit", id="came by amqp_in", due=FAR, amqp=base64.b64encode(b"\x01\x05X.due\x04paid\0\0").decode())
    client.push_id("sent", id="ranked", due=FAR, rank=5, subtopic="s")
    for number in range(7):
        client.push_id("ready", id=f"r{6 - number}", body=f"{number}", ttr="2h")
        time.sleep(0.002)
    client.push_id("retried", id="retried", retry=["2s", "3h", "4h"], body="again")
    for _ in range(2):
        job, = client.reserve("retried", wait="10s")
        client.job("retried", "release", lease=job["lease"], reason="it failed", code=503)
    for number in range(4):
        client.push_id("buried", id=f"dead-{number}", body={"n": number})
    for job in client.reserve_all("buried", 3):
        client.job(job["id"], "bury", lease=job["lease"])
    client.post("/v1/topics/buried/pause", **{"for": "10h"})
    client.post("/v1/topics/paused,empty/pause", create=True)


class Moment:
    """A time of the API or none: an import takes what is left of a pause, and so the time moves a little."""

    def __init__(self, text):
        self.text = text

    def __eq__(self, other):
        if not (self.text and other.text):
            return self.text == other.text
        return abs(datetime.fromisoformat(self.text) - datetime.fromisoformat(other.text)) < timedelta(minutes=5)

    __hash__ = None

    def __repr__(self):
        return repr(self.text)


OF_A_MOVE = ("last_failure", "lease", "deadline", "deadline_ms")


def all_of(client, renamed=None):
    """What the API tells of all jobs and topics, but for what cannot be brought along."""
    jobs, topics = {}, {}
    for line in listing(client):
        if "state" in line:
            jobs[line["id"]] = {key: line[key] for key in line if key not in OF_A_MOVE}
        elif "paused" in line:
            topics[line["name"]] = {key: line[key] for key in line if key != "paused_until"}
    for name, topic in topics.items():
        answer = client.get(f"/v1/topics/{name}").json()
        topic["settings"] = answer.get("settings")
        topic["paused until"] = Moment(answer.get("paused_until"))
    for old, new in (renamed or {}).items():
        jobs[new] = {**jobs.pop(old), "id": new}
    return topics, jobs


def order_of(client):
    return [job["id"] for job in client.reserve_all("ready", 7)]


def test_a_body_with_ends_of_lines_is_one_line(laterd):
    server, other = laterd(), laterd()
    with Client(server.port) as client, Client(other.port) as there:
        answer = client.request("POST", "/v1/topics/t/jobs", '{"id":"a","body":{\n "a":\r\n "b c"}}',
                                {"Content-Type": "application/json"})
        assert answer.status == 201
        text = exported(server)
        assert len(text.splitlines()) == 4, text
        assert imported(other, text)["created"] == 1
        assert there.get("/v1/jobs/a").json()["body"] == {"a": "b c"}


def test_a_whole_queue_goes_from_embedded_to_redis_and_back(servers, tmp_path):
    first, second, third = servers
    with Client(first.port) as a, Client(second.port) as b, Client(third.port) as c:
        fill(a)
        text = exported(first)
        told = imported(second, text, "--map", tmp_path / "map")
        with open(tmp_path / "map", encoding="utf-8") as file:
            renamed = dict(line.rstrip("\n").rsplit("\t", 1) for line in file)
        renamed = {old: new for old, new in renamed.items() if old != new}
        assert told["renamed"] == len(renamed) == 30
        assert told["refused"] == told["kept"] == told["bad_lines"] == 0
        assert told["created"] == told["jobs"] and told["notes_left_out"] == 1
        wanted = all_of(a, renamed)
        assert len(wanted[1]) == told["jobs"] > 50
        assert all_of(b) == wanted
        again = imported(second, text)
        assert again["created"] == 0 and again["kept"] == told["jobs"]
        assert again["configured"] == again["other_settings"] == 0
        pipe = later(third, "import", "--json", text=exported(second))
        assert pipe.returncode == DONE and json.loads(pipe.stdout.splitlines()[-1])["renamed"] == 0
        assert all_of(c) == wanted
        assert b'{"b": 1.0, "a":123456789012345678901234567890,"b":[1e3 ,"\\u0041"]}' in \
            c.get("/v1/jobs/exact").body
        assert exported(third).splitlines()[1:-1] != []
        assert order_of(c) == order_of(b) == order_of(a) == [f"r{6 - n}" for n in range(7)]
        for client in (a, b, c):  # the schedule goes on where it was: after the third failure 4h
            client.job("retried", "run")
            job, = client.reserve("retried")
            assert job["attempt"] == 3 and job["failures"] == 2
            client.job("retried", "release", lease=job["lease"])
            job = client.job("retried", method="GET").json()
            assert job["failures"] == 3 and 14_000_000 < job["due_ms"] - time.time() * 1000 < 14_401_000


def test_reserved_jobs_come_along_and_can_be_taken(servers):
    first, second, _ = servers
    with Client(first.port) as a, Client(second.port) as b:
        for number in range(5):
            a.push_id("t", id=f"j{number}", body=number)
        held = [job["id"] for job in a.reserve_all("t", 3)]
        told = imported(second, exported(first))
        assert told["reserved"] == 3 and told["created"] == 5
        taken = b.reserve_all("t", 5)
        assert {job["id"] for job in taken} == {f"j{n}" for n in range(5)}
        assert {job["id"] for job in taken if job["attempt"] == 2} == set(held)


def test_an_export_of_some_topics_is_of_those(servers):
    first, *_ = servers
    with Client(first.port) as client:
        for topic in ("a", "b c", "d"):
            client.push_id(topic, id=f"of {topic}", due=FAR)
    lines = [json.loads(line) for line in exported(first, "b c", "d").splitlines()]
    assert [line["job"]["id"] for line in lines if "job" in line] == ["of b c", "of d"]
    assert lines[0]["later"]["format"] == 1
    assert lines[-1]["end"] == {"topics": 2, "jobs": 2, "ended": 0, "damaged": 0}
    done = later(first, "export", "nowhere")
    assert done.returncode == NOTHING and '"end"' not in done.stdout
    done = later(first, "import", "--dry-run", text="\n".join(map(json.dumps, lines)) + "\n")
    assert done.returncode == DONE and "2 jobs; nothing was sent" in done.stdout


def test_what_is_reported_of_jobs_is_of_those_that_were_imported(servers):
    first, second, _ = servers
    with Client(first.port) as client:
        client.push("t", body="its id is the server's", due=FAR)
    text = exported(first)
    tried = later(second, "import", "--dry-run", text=text)
    assert "1 had an id that the old server made, and would get one of its own\n" in tried.stdout
    done = later(second, "import", text=text)
    assert "1 imported" in done.stdout and "1 had an id that the old server made, and has one of its own now\n" in done.stdout
    done = later(second, "import", text=text)
    assert "0 imported, 1 there already" in done.stdout and "had an id" not in done.stdout
    assert imported(second, text)["renamed"] == 0


def test_an_export_that_is_not_whole_is_reported_and_can_be_run_again(servers):
    first, second, _ = servers
    with Client(first.port) as client:
        client.push_many("t", [{"id": f"j{n}", "due": FAR} for n in range(900)])
    text = exported(first)
    cut = text[:len(text) // 2]
    told = imported(second, cut, code=WRONG)
    assert 350 < told["created"] < 550
    told = imported(second, text[:text.index('{"end"')], code=WRONG)
    assert told["created"] + told["kept"] == 900
    assert imported(second, text)["kept"] == 900


def test_lines_that_an_export_had_and_lacks_are_reported(servers):
    first, second, _ = servers
    with Client(first.port) as client:
        client.push_many("t", [{"id": f"j{n}", "due": FAR} for n in range(9)])
    text = exported(first)
    lines = text.splitlines(keepends=True)
    lacking = "".join(line for line in lines if '"id":"j4"' not in line)
    done = later(second, "import", "--dry-run", text=lacking)
    assert done.returncode == WRONG
    assert f"line {len(lines) - 1}: the export had 9 jobs, and 8 of them are here\n" in done.stderr
    told = imported(second, lacking + text.replace('"id":"j', '"id":"k'), code=WRONG)
    assert told["missing"] == 1 and told["created"] == 17
    done = later(second, "import", text="".join(lines[:4]) + text)
    assert done.returncode == WRONG and "line 5: the last line of the export before this one is missing" in done.stderr
    assert imported(second, text + text)["missing"] == 0


def test_a_pipe_of_both_that_is_interrupted_goes_on_when_it_is_run_again(servers):
    """By Ctrl-C, which both get. To Redis, and back to an embedded engine."""
    with Client(servers[0].port) as client:
        for first in range(0, 4000, 1000):
            client.push_many("t", [{"id": f"j{n}", "due": FAR} for n in range(first, first + 1000)])
    for source, target in zip(servers, servers[1:]):
        pipe = f"{LATER} -s 127.0.0.1:{source.port} export | {LATER} -s 127.0.0.1:{target.port} import"
        with subprocess.Popen(["bash", "-c", pipe], start_new_session=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as both, Client(target.port) as client:
            assert eventually(lambda: client.get("/v1/topics/t").status == 200)  # some have come
            os.killpg(both.pid, signal.SIGINT)
            both.communicate(timeout=60)
        done = unless_busy(subprocess.run(["bash", "-o", "pipefail", "-c", pipe], capture_output=True, text=True,
                                          check=False))
        assert done.returncode == DONE and "4,000 jobs" in done.stderr and " 0 refused" in done.stdout, done
        with Client(target.port) as client:
            assert client.get("/v1/topics/t").json()["delayed"] == 4000


def test_what_is_no_export_is_refused_by_its_line(servers):
    first, *_ = servers
    done = later(first, "import", text="hello\n")
    assert done.returncode == WRONG
    assert "line 1: an export does not begin like this: nothing is read from here on\n" in done.stderr
    start = exported(first).splitlines()[0]
    marked = imported(first, "\ufeff" + exported(first), "--dry-run")  # as shells of Windows write files
    assert marked["bad_lines"] == 0, marked
    done = later(first, "import", text='{"later":{"format":2}}\n')
    assert done.returncode == REFUSED and "newer" in done.stderr
    bad = [start, '{"job":{"id":"a"}}', '{"job":{"id":"a","topic":"t","state":"ready","ttr_ms":"x"',
           '{"job":{"id":"a","topic":"t","state":"delayed","due":"' + FAR + '","colour":1}}',
           '{"job":{"id":"@9","topic":"t","state":"ready"}}', '{"other":{}}', '',
           '{"job":{"id":"b","topic":"t","state":"delayed","due":"' + FAR + '"}}',
           '{"end":{"jobs":2}}', ""]
    done = later(first, "import", "--json", text="\n".join(bad))
    told = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == REFUSED, done
    assert told["created"] == 1 and told["refused"] == 1 and told["bad_lines"] == 4
    for line in (2, 3, 5, 6):
        assert f"line {line}: " in done.stderr
    assert "colour" in done.stderr


def test_the_text_counts_what_was_left_out(servers):
    first, *_ = servers
    start = exported(first).splitlines()[0]
    lines = [start, '{"topic":{"name":"t","settings":{"ttr":"soon"}}}',
             '{"job":{"id":"a","topic":"t","state":"flying"}}', '{"job":{"id":"b","topic":"t","state":"ready"}}',
             '{"end":{"jobs":2}}', ""]
    done = later(first, "import", text="\n".join(lines))
    assert done.returncode == REFUSED and "line 3: the job's state is none of" in done.stderr, done
    assert "1 imported, 0 there already, 0 refused\n1 bad line left out\n" in done.stdout
    assert "settings of 1 topic refused\n" in done.stdout


def test_on_redis_no_setting_is_advised_for_history(servers):
    for server, wanted in ((servers[0], "set store.history"), (servers[1], "engine = redis keeps none")):
        done = later(server, "history", "a")
        assert done.returncode == NOTHING and wanted in done.stderr, done


def test_other_settings_are_kept_and_said(servers):
    first, second, _ = servers
    with Client(first.port) as a, Client(second.port) as b:
        a.request("PUT", "/v1/topics/t", retry=["1m"])
        b.request("PUT", "/v1/topics/t", retry=["2m"])
        text = exported(first)
        done = later(second, "import", text=text)
        assert done.returncode == DONE and "other settings" in done.stderr
        assert "settings: 0 set, 0 the same here already, 1 other than here and left out\n" in done.stdout
        assert b.get("/v1/topics/t").json()["settings"] == {"retry": ["120s"]}


def test_topics_are_counted_as_they_are_in_the_export_and_by_what_became_of_them(servers):
    first, *_ = servers
    text = "\n".join([exported(first).splitlines()[0],
                      '{"topic":{"name":"a","paused":true,"settings":{"attempts":3}}}',
                      '{"topic":{"name":"b","paused":true,"paused_until":"2020-01-01T00:00:00Z"}}',
                      '{"topic":{"name":"c","settings":{"attempts":4}}}', '{"end":{"jobs":0}}', ""])
    in_it = "3 topics: 2 with settings, 1 paused\n"
    assert later(first, "import", "--dry-run", text=text).stdout == f"{in_it}0 jobs; nothing was sent\n"
    for set_now, same in ((2, 0), (0, 2)):
        assert later(first, "import", text=text).stdout == (
            f"{in_it}settings: {set_now} set, {same} the same here already, 0 other than here and left out\n"
            "0 imported, 0 there already, 0 refused\n")
    told = imported(first, text)
    assert [told[key] for key in ("with_settings", "configured", "same_settings", "paused")] == [2, 0, 2, 1]


def test_a_directory_is_no_export(servers, tmp_path):
    done = later(servers[0], "import", tmp_path)
    assert done.returncode == USAGE and done.stdout == ""
    assert done.stderr.startswith(f"later import: {tmp_path} is a directory, and no export: "), done


def test_settings_that_another_laterd_has_just_set_are_compared(servers, laterd):
    one = servers[1]
    two = laterd({**one.config, "push": {"job_targets": "any"}})
    start = exported(one).splitlines()[0]
    for number in range(5):
        topic = '{"topic":{"name":"t%d","settings":{"attempts":3}}}' % number
        text = "\n".join([start, topic, '{"end":{"jobs":0}}', ""])
        with Client(one.port) as client:
            assert client.request("PUT", f"/v1/topics/t{number}", attempts=3).status == 200
        told = imported(two, text)
        assert told["topics_refused"] == told["other_settings"] == 0, told


@pytest.mark.parametrize("which", [0, 1], ids=["embedded", "redis"])
def test_an_export_under_load_has_every_job_that_stays(servers, which):
    server = servers[which]
    ended = threading.Event()

    def work(name, held):
        """Jobs come and go, and those that were held go back, ready or delayed."""
        number = 0
        with Client(server.port) as one:
            while not ended.is_set():
                number += 1
                one.push_id("t", id=f"{name}-{number}", due=FAR)
                one.job(f"{name}-{number}", method="DELETE")
                if held:
                    job = held.pop()
                    one.job(job["id"], "release", lease=job["lease"],
                            delay=["0ms", "1h"][number % 2])

    with Client(server.port) as client:
        stay = [f"stay-{n}" for n in range(3000)]
        for at in range(0, 3000, 500):
            client.push_many("t", [{"id": job, "body": job, **({"due": FAR} if n % 3 else {})}
                                   for n, job in enumerate(stay[at:at + 500])])
        threads = [threading.Thread(target=work, args=(name, client.reserve_all("t", 200)))
                   for name in "ab"]
        client.post("/v1/topics/t/pause")
        for thread in threads:
            thread.start()
        try:
            text = exported(server)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    found = [json.loads(line)["job"] for line in text.splitlines() if line.startswith('{"job"')]
    assert {job["id"] for job in found} >= set(stay)
    assert all(job["body"] == job["id"] for job in found if job["id"].startswith("stay"))


def many(jobs):
    """An export of so many jobs, one of them reserved."""
    lines = [{"later": {"format": 1}}]
    lines += [{"job": {"id": f"j{number}", "topic": "t", "state": "reserved" if number == 0 else "delayed",
                       "due": FAR, "created": FAR, "body": "b"}} for number in range(jobs)]
    return "\n".join(map(json.dumps, [*lines, {"end": {"jobs": jobs}}])) + "\n"


def test_a_dry_run_of_an_export_writes_no_map_and_its_numbers_are_for_scripts(servers, tmp_path):
    (tmp_path / "ids").write_text("of the import before")
    done = later(servers[0], "import", "--dry-run", "--map", tmp_path / "ids", text=many(1500))
    assert done.returncode == DONE
    assert done.stdout == ("0 topics: 0 with settings, 0 paused\n1500 jobs; nothing was sent\n"
                           "1 was reserved, and could be taken here at once\n")
    assert (tmp_path / "ids").read_text() == "of the import before"


def test_on_a_terminal_an_import_counts_what_is_done(servers, tmp_path):
    (tmp_path / "export").write_text(many(1500))
    shown, code = on_a_terminal(f"http://127.0.0.1:{servers[0].port}", b"", "import", tmp_path / "export")
    assert code == DONE
    counts = [part.strip() for part in shown.split("\x1b[K")[0].split("\r") if part]
    assert counts and all(re.fullmatch(r"[0-9,]+ jobs", count) for count in counts)
    assert counts[-1] == "1,500 jobs"
