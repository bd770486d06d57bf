"""/metrics, /healthz and /readyz: text that a Prometheus server takes, with numbers that add up."""

import re

from beanstalk import Connection
from wire import Client, eventually

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')


def parse(text):
    """{family: {'type', 'help', 'samples': [(name, labels, value)]}}; fails on bad text."""
    families, current = {}, None
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, help_text = line[7:].split(" ", 1)
            assert name not in families, f"{name} comes twice"
            current = families[name] = {"help": help_text, "type": None, "samples": []}
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert families.get(name) is current, f"TYPE of {name} without its HELP before it"
            assert kind in ("counter", "gauge", "histogram", "summary")
            current["type"] = kind
        else:
            match = SAMPLE.match(line)
            assert match, line
            name, labels, value = match.groups()
            family = next(iter(key for key in families if families[key] is current))
            suffix = name[len(family):]
            allowed = ("_bucket", "_sum", "_count") if current["type"] == "histogram" else ("",)
            assert name.startswith(family) and suffix in allowed, line
            inner = (labels or "{}")[1:-1]
            assert "".join(m.group() for m in LABEL.finditer(inner)) == inner, line
            found = {m.group(1): m.group(2) for m in LABEL.finditer(inner)}
            current["samples"].append((name, found, float(value)))
    return families


def metrics(client):
    answer = client.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return parse(answer.text)


def value(families, family, **labels):
    return next(v for _, found, v in families[family]["samples"] if found == labels)


def test_the_text_is_well_formed(client, topic):
    client.push_id(topic + '"\\ü', body="x")
    for name, family in metrics(client).items():
        assert name.startswith("laterd_") and family["type"] and family["help"].strip()
        assert (family["type"] == "counter") == name.endswith("_total"), name
        seen = [(sample, tuple(sorted(labels.items()))) for sample, labels, _ in family["samples"]]
        assert len(seen) == len(set(seen)), f"{name} has a series twice"


def test_histograms_only_rise_and_end_at_their_count(client, topic, engine):
    for _ in range(20):
        client.push_id(topic, body="x")
    assert len(client.reserve(topic, most=20)) == 20
    families = metrics(client)
    histograms = {n: f for n, f in families.items() if f["type"] == "histogram"}
    syncs = {"laterd_sync_seconds"} if engine == "embedded" else set()
    assert {"laterd_lateness_seconds"} | syncs <= set(histograms)
    for name, family in histograms.items():
        buckets = [(float(labels["le"]), v) for s, labels, v in family["samples"] if s.endswith("_bucket")]
        assert buckets == sorted(buckets) and buckets[-1][0] == float("inf"), name
        assert [v for _, v in buckets] == sorted(v for _, v in buckets), name
        count = next(v for s, _, v in family["samples"] if s.endswith("_count"))
        assert count == buckets[-1][1]
    assert next(v for s, _, v in families["laterd_lateness_seconds"]["samples"]
                if s.endswith("_count")) >= 20


def test_the_numbers_follow_what_happens(laterd, engine):
    server = laterd()
    with Client(server.port) as client:
        client.push_id("a", body="x", delay="1h")
        client.push_id("a", body="x")
        job, = client.reserve("a")
        families = metrics(client)
        assert value(families, "laterd_jobs", state="delayed") == 1
        assert value(families, "laterd_jobs", state="reserved") == 1
        assert value(families, "laterd_pushed_total") == 2
        client.job(job["id"], "finish", lease=job["lease"])
        families = metrics(client)
        assert value(families, "laterd_finished_total") == 1
        assert value(families, "laterd_jobs", state="reserved") == 0
        assert engine == "redis" or value(families, "laterd_wal_bytes") > 0


def test_the_number_of_topics_shown_is_bounded(laterd):
    server = laterd({"server": {"metrics_topics": 5}})
    with Client(server.port) as client:
        for number in range(40):
            client.push_id(f"topic-{number}", body="x")
        shown = {labels["topic"] for family in metrics(client).values()
                 for _, labels, _ in family["samples"] if "topic" in labels}
        assert 0 < len(shown) <= 6
        assert value(metrics(client), "laterd_jobs", state="ready") == 40


def test_more_topics_than_a_page_has_are_all_shown_and_counted(laterd):
    """By pages: of /metrics 500 topics each, of beanstalkd's statistics 1,000."""
    topics = 2300
    server = laterd({"server": {"metrics_topics": 10000}}, beanstalk=["127.0.0.1:0"])
    with Client(server.port, seconds=60) as client, Connection(server.beanstalk_port) as conn:
        for number in range(topics):
            conn.send(f"use topic-{number:04}\r\nput 0 3600 60 1\r\nx\r\n".encode())
        for _ in range(2 * topics):
            conn.answer()
        for _ in range(3):
            families = metrics(client)
            shown = [labels["topic"] for _, labels, _ in families["laterd_topic_pushed_total"]["samples"]]
            assert shown == [f"topic-{number:04}" for number in range(topics)]
            assert value(families, "laterd_topics_not_shown") == 0
            assert value(families, "laterd_topics") == topics
            assert value(families, "laterd_jobs", state="delayed") == topics
        assert int(conn.ask("stats").table()["current-tubes"]) == topics + 1


def test_health_and_readiness(client):
    assert client.get("/healthz").text == "ok\n"
    assert eventually(lambda: client.get("/readyz").status == 200)
