"""later topic, attempts, replay, and what push, release and bury say for them."""

import json
import re

import pytest
from fake_v1 import Fake
from test_later_limits import run
from wire import eventually

DONE, NOTHING, USAGE, CONFLICT, REFUSED = range(5)


@pytest.fixture
def later(shared):
    return lambda *words, **options: run(f"http://127.0.0.1:{shared.port}", *words, **options)


def settings(client, topic, wanted):
    """Until they are those: on Redis a daemon is told of them."""
    assert eventually(lambda: client.get(f"/v1/topics/{topic}").json().get("settings") == wanted)


def test_set_changes_what_its_options_name_and_leaves_the_rest(client, later, topic, tmp_path):
    path = tmp_path / "hook"
    path.write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    done = later("topic", "set", topic, "--retry", "alipay", "--attempts", "3", "--jitter", "0.5")
    assert done.returncode == DONE and done.stdout.startswith("version "), done
    settings(client, topic, {"retry": "alipay", "attempts": 3, "jitter": 0.5})
    done = later("topic", "set", topic, "--url", "https://a.example/", "--sign", f"file:{path}", "--sign", "$B",
                 "--header", "X-A: 1", "--success-body", "ok", "--rate", "5/m", "--paused")
    assert done.returncode == DONE, done
    target = {"type": "http", "url": "https://a.example/", "headers": {"X-A": "1"}, "sign": [f"file:{path}", "$B"],
              "success": {"body": "ok"}}
    settings(client, topic, {"target": target, "retry": "alipay", "attempts": 3, "jitter": 0.5,
                             "rate": "5/m", "paused": True})
    resume = ("topic", "set", topic, "--resumed", "--retry", "1s,2m", "--key-concurrency", "2", "--key-rate", "1/10s")
    refused = later(*resume) # what is paused sends nothing, and is not tried
    assert refused.returncode == USAGE and "$B is not in the environment" in refused.stderr, refused
    assert later(*resume, "--sign", f"file:{path}").returncode == DONE
    target["sign"] = [f"file:{path}"]
    settings(client, topic, {"target": target, "retry": ["1s", "120s"], "attempts": 3, "jitter": 0.5,
                             "rate": "5/m", "key_concurrency": 2, "key_rate": "1/10s"})
    shown = later("topics", topic).stdout.splitlines()
    assert "key_concurrency 2" in shown and "key_rate  1/10s" in shown, shown


def test_set_from_a_file_replaces_all(client, later, topic, tmp_path):
    assert later("topic", "set", topic, "--attempts", "3").returncode == DONE
    path = tmp_path / "settings.json"
    path.write_text('{"retry":{"min":"1s","attempts":3}}')
    assert later("topic", "set", topic, "--file", str(path)).returncode == DONE
    settings(client, topic, {"retry": ["1s", "2s"]})
    assert later("topic", "set", topic, "--file", "-", input='{"order":"key"}').returncode == DONE
    settings(client, topic, {"order": "key"})
    assert later("topic", "set", topic, "--file", "-", input="[]").returncode == USAGE
    for text in ("[]", "no"):
        said = later("topic", "set", topic, "--file", "-", input=text).stderr
        assert "standard input: this is not an object of JSON" in said and not said.rstrip().endswith(":")
    said = later("topic", "set", topic, "--file", "/nosuch").stderr
    assert "cannot read /nosuch: No such file or directory" in said
    assert "/nosuch: No such file or directory" in later("push", topic, "@/nosuch").stderr
    assert later("list", topic, "--limit", "0").returncode == USAGE
    assert later("topic", "set", topic).returncode == USAGE
    assert later("topic", "mend", topic).returncode == USAGE


def test_waits_stand_between_commas_or_blanks(client, later, topic):
    for waits in ("1m,10m", "1m 10m", "1m, 10m", "1m , 10m"):  # between blanks as defaults.retry has them
        assert later("topic", "set", topic, "--retry", waits).returncode == DONE
        settings(client, topic, {"retry": ["60s", "600s"]})
        assert later("topic", "unset", topic).returncode == DONE
    for waits in ("1m,,10m", "1m,", "1m x"):
        assert later("topic", "set", topic, "--retry", waits).returncode == USAGE


def test_set_prints_what_holds_then_and_its_version_alone_as_json(later, topic):
    first = later("topic", "set", topic, "--retry", "1m,10m", "--rate", "5/m")
    version, text = first.stdout.split("\n", 1)
    assert re.fullmatch(r"version \d+", version)
    assert json.loads(text) == {"retry": ["60s", "600s"], "rate": "5/m"}
    second = later("topic", "set", topic, "--attempts", "2")
    assert json.loads(second.stdout.split("\n", 1)[1]) == {"retry": ["60s", "600s"], "rate": "5/m", "attempts": 2}
    assert later("topic", "show", topic).stdout == second.stdout
    third = later("topic", "set", topic, "--rate", "7/m", "--json")
    assert list(json.loads(third.stdout)) == ["version"]


def test_a_version_may_be_asked_for(client, later, topic):
    version = json.loads(later("topic", "set", topic, "--attempts", "3", "--json").stdout)["version"]
    settings(client, topic, {"attempts": 3})
    stale = later("topic", "set", topic, "--attempts", "4", "--if-version", str(version - 1))
    says = f"later topic: {topic}: the settings have version {version}, not {version - 1}\n"
    assert (stale.returncode, stale.stderr) == (CONFLICT, says)
    stale = later("topic", "unset", topic, "--if-version", str(version - 1))
    assert (stale.returncode, stale.stderr) == (CONFLICT, says)
    none = later("topic", "set", f"no-{topic}", "--attempts", "4", "--if-version", "7")
    assert (none.returncode, none.stderr) == (
        CONFLICT, f"later topic: no-{topic}: the settings do not have version 7\n")
    assert later("topic", "set", topic, "--attempts", "4", "--if-version", str(version)).returncode == DONE


def test_settings_that_somebody_else_has_set_meanwhile_are_kept():
    refused = {"status": 412, "code": "version", "detail": "If-Match names another one"}
    with Fake({"GET /v1/topics/t": (200, {"name": "t", "settings": {}, "version": 3}),
               "PUT /v1/topics/t": (412, refused)}) as fake:
        answer = run(fake.url, "topic", "set", "t", "--attempts", "4")
        assert answer.returncode == CONFLICT
        assert answer.stderr == ("later topic: t: somebody else has set them meanwhile, nothing was changed: "
                                 "run it again\n")


def test_show_and_unset(client, later, topic):
    assert later("topic", "show", topic).returncode == NOTHING
    later("topic", "set", topic, "--attempts", "3", "--jitter", "0.2")
    settings(client, topic, {"attempts": 3})
    shown = later("topic", "show", topic)
    version, text = shown.stdout.split("\n", 1)
    assert version.startswith("version ") and json.loads(text) == {"attempts": 3}
    assert later("topic", "unset", topic).stdout == "no settings\n"
    assert eventually(lambda: "settings" not in client.get(f"/v1/topics/{topic}").json())
    client.push(topic)
    assert later("topic", "show", topic).returncode == NOTHING


def test_one_success_option_leaves_the_other_as_it_is(client, later, topic):
    assert later("topic", "set", topic, "--url", "https://a.example/", "--success-body", "ok").returncode == DONE
    target = {"type": "http", "url": "https://a.example/", "success": {"body": "ok"}}
    settings(client, topic, {"target": target})
    assert later("topic", "set", topic, "--success-status", "200-204").returncode == DONE
    target["success"] = {"body": "ok", "status": "200-204"}
    settings(client, topic, {"target": target})


@pytest.mark.parametrize("verb", ["show", "unset", "test", "delete"])
def test_only_set_takes_options_for_settings(client, later, topic, verb):
    assert later("topic", "set", topic, "--attempts", "3").returncode == DONE
    settings(client, topic, {"attempts": 3})
    for words in (["--url", "https://a.example/"], ["--attempts", "4"], ["--file", "-"]):
        refused = later("topic", verb, topic, "--yes", *words, input="{}")
        assert refused.returncode == USAGE, refused
        assert f"options for settings are those of set, not of {verb}" in refused.stderr
    if verb != "unset":
        assert later("topic", verb, topic, "--yes", "--if-version", "1").returncode == USAGE
    assert client.get(f"/v1/topics/{topic}").json()["settings"] == {"attempts": 3}


def test_what_the_server_refuses_names_the_field(later, topic):
    refused = later("topic", "set", topic, "--url", "ftp://a/")
    assert refused.returncode == USAGE and "http://" in refused.stderr
    assert later("topic", "set", topic, "--sign", "whsec_abc").returncode == USAGE


def test_topic_delete_deletes_settings_and_jobs(client, later, topic):
    later("topic", "set", topic, "--attempts", "3")
    settings(client, topic, {"attempts": 3})
    client.push(topic)
    assert later("topic", "delete", topic).returncode != DONE  # nobody can be asked
    done = later("topic", "delete", topic, "--yes")
    assert done.returncode == DONE, done
    assert eventually(lambda: client.get(f"/v1/topics/{topic}").status == 404)


def test_a_test_without_a_target_is_a_conflict(later, topic):
    assert later("push", topic, "x").returncode == DONE
    refused = later("topic", "test", topic, "hello")
    assert refused.returncode == CONFLICT
    assert refused.stderr == (f"later topic: {topic}: the topic has no target with a URL (no_target): "
                              "set one by `later topic set`\n")


def test_a_push_to_an_address_that_is_never_allowed_is_refused(later, topic):
    assert later("topic", "set", topic, "--url", "https://a.example/", "--paused").returncode == DONE
    refused = later("push", topic, "x", "--url", "http://10.1.2.3/hook")
    assert (refused.returncode, refused.stderr) == (
        REFUSED, "later push: a job may not bring a target of its own here: the address 10.1.2.3 is not public, "
                 "and push.allow does not list it (job_target)\n")
    done = later("push", topic, "--lines", "--url", "http://10.1.2.3/hook", input="a\nb\n")
    assert done.returncode == REFUSED and done.stdout == "0 pushed, 2 refused\n", done
    assert later("push", topic, "x", "--url", "https://b.example/").returncode == DONE


@pytest.mark.parametrize("verb", ["unset", "test", "show"])
def test_a_topic_that_is_not_there_is_exit_1(later, topic, verb):
    refused = later("topic", verb, topic)
    assert (refused.returncode, refused.stdout) == (NOTHING, "")
    assert refused.stderr == f"later topic: {topic}: no such topic (not_found)\n"


def test_unset_of_a_topic_without_settings_leaves_it(later, topic):
    assert later("push", topic, "x").returncode == DONE
    done = later("topic", "unset", topic)
    assert (done.returncode, done.stdout) == (DONE, "no settings\n")


def test_a_schedule_and_a_ttr_are_printed_as_options_take_them(later, topic):
    assert later("push", topic, "x", "--id", topic, "--ttr", "90s", "--retry", "0,1500us,1h30m").returncode == DONE
    lines = later("get", topic).stdout.splitlines()
    assert "ttr       1m30s" in lines and "retry     0s,1500us,1h30m" in lines
    assert later("push", topic, "x", "--ttr", "1m30s", "--retry", "0s,1500us,1h30m").returncode == DONE


def test_push_takes_names_levels_and_what_deliveries_need(client, later, topic):
    done = later("push", topic, "x", "--retry", "zing", "--level", "3", "--key", "k", "--header", "A: b",
                 "--header", "C:d", "--json")
    assert done.returncode == DONE, done
    job = json.loads(done.stdout)
    assert job["retry"] == [5000, 10000, 60000, 300000, 1800000] and job["state"] == "delayed"
    shown = json.loads(later("get", job["id"], "--json").stdout)
    assert shown["key"] == "k" and shown["headers"] == {"A": "b", "C": "d"}
    refused = later("push", topic, "x", "--url", "https://a.example/")
    assert refused.returncode == REFUSED and "type http" in refused.stderr
    assert later("push", topic, "x", "--header", "A").returncode == USAGE
    assert later("push", topic, "x", "--level", "3", "--delay", "1s").returncode == USAGE
    assert later("push", topic, "x", "--retry", '{"min":"1s","attempts":3}').returncode == DONE


def test_attempts_say_that_none_has_failed(client, later, topic):
    client.push(topic, id=f"{topic}-0", delay="1h")
    shown = later("attempts", f"{topic}-0")
    assert shown.returncode == NOTHING and f"`later get {topic}-0` shows the job" in shown.stderr


def test_attempts_and_replay_show_and_find_what_consumers_said(client, later, topic):
    for number, code in enumerate(("503", "404")):
        client.push(topic, id=f"{topic}-{number}")
        job, = client.reserve(topic)
        assert later("bury", job["id"], "--lease", job["lease"], "--reason", "no connection", "--code",
                     code).returncode == DONE
    shown = later("attempts", f"{topic}-0")
    assert "503" in shown.stdout and "no connection" in shown.stdout
    assert later("replay", topic, "--code", "500").returncode == NOTHING
    assert later("replay", topic, "--from", "4102444800000").returncode == NOTHING  # milliseconds, as --due has them
    assert later("replay", topic, "--to", "1500000000000").returncode == NOTHING
    assert "look like seconds since 1970" in later("replay", topic, "--from", "1500000000").stderr
    replayed = later("replay", topic, "--code", "5xx", "--since", "1h")
    assert replayed.stdout == "kicked 1 of 2 buried jobs\n"
    assert client.get(f"/v1/jobs/{topic}-0").json()["state"] == "ready"
    client.push(topic + "-none", id=f"{topic}-2")
    assert later("attempts", f"{topic}-2").returncode == NOTHING


def test_topics_shows_why_a_buried_job_failed(client, later, topic):
    assert later("push", topic, "x", "--id", f"{topic}-1").returncode == 0
    assert "\nburied " not in later("topics", topic).stdout
    assert later("pop", topic).returncode == 0
    assert later("bury", f"{topic}-1", "--code", "503", "--reason", "no such shop").returncode == 0
    line, = re.findall(r"^buried    .*", later("topics", topic).stdout, re.M)
    assert line.startswith(f"buried    {topic}-1, failed 20") and line.endswith(" code 503: no such shop"), line


def test_topics_shows_why_a_job_failed_that_waits_for_its_next_attempt(client, later, topic):
    for name in ("untried", "failed"):
        assert later("push", topic, "x", "--id", f"{topic}-{name}", "--delay", "1h").returncode == 0
    assert "\nretrying " not in later("topics", topic).stdout
    assert later("run", f"{topic}-failed").returncode == 0 and later("pop", topic).returncode == 0
    assert later("release", f"{topic}-failed", "--delay", "2h", "--code", "503", "--reason", "closed").returncode == 0
    line, = re.findall(r"^retrying  .*", later("topics", topic).stdout, re.M)
    assert line.startswith(f"retrying  {topic}-failed, failed 20") and line.endswith(" code 503: closed"), line


def test_get_shows_the_schedule_what_it_carries_and_the_last_failure(client, later, topic):
    job_id = f"{topic}-job"
    done = later("push", topic, "x", "--id", job_id, "--retry", "1s,2m", "--key", "k", "--header", "A: b")
    assert done.returncode == DONE
    job, = client.reserve(topic)
    done = later("bury", job_id, "--lease", job["lease"], "--reason", "the bank is closed", "--code", "7")
    assert done.returncode == DONE
    lines = later("get", job_id).stdout.splitlines()
    assert "retry     1s,2m" in lines and "ttr       1m" in lines and "key       k" in lines and 'headers   {"A":"b"}' in lines
    failed, = [line for line in lines if line.startswith("failed ")]
    assert failed.endswith("code 7: the bank is closed"), failed


def test_topics_shows_where_a_topic_sends_to_and_that_it_is_paused(client, later, topic):
    done = later("topic", "set", topic, "--url", "https://a.example/", "--retry", "alipay", "--rate", "5/m", "--paused")
    assert done.returncode == DONE
    assert eventually(lambda: "PAUSED" in later("topics", topic).stdout)
    lines = later("topics", topic).stdout.splitlines()
    assert "target    http https://a.example/" in lines and "retry     alipay" in lines and "rate      5/m" in lines
    assert any(f"later topic set {topic} --resumed" in line for line in lines)
    wanted = {"target": {"type": "redis", "broker": "r", "kind": "list", "key": "k"}}
    assert later("topic", "set", topic, "--file", "-", input=json.dumps(wanted)).returncode == DONE
    settings(client, topic, wanted)
    client.push(topic, id=f"{topic}-waits")
    assert eventually(lambda: client.get(f"/v1/topics/{topic}").json().get("held") == "sink")
    shown = later("topics", topic).stdout
    assert "target    redis  broker r  kind list  key k" in shown.splitlines()
    assert "held      nothing sends to it now: its [broker.NAME] is not configured" in shown
    wanted = {"target": {"type": "kafka", "broker": "r", "topic": "orders", "partition": 0}}
    assert later("topic", "set", topic, "--file", "-", input=json.dumps(wanted)).returncode == DONE
    settings(client, topic, wanted)
    assert "target    kafka  broker r  topic orders  partition 0" in later("topics", topic).stdout.splitlines()
