"""docs/disk-format.md is right: a reader written from that page alone finds in stores what laterd tells of them."""

import base64
import datetime
import glob
import hashlib
import json
import os
import random
import subprocess
import tarfile
import time

import pytest
from golden import histories, listing
from process import LATER, ROOT
from store_format import BURIED, DELAYED, READY, RESERVED
from store_reader import Store
from wire import Client

pytestmark = pytest.mark.embedded("about the store on disk")
GOLDEN = sorted(glob.glob(os.path.join(ROOT, "test", "golden", "*", "*.tar.xz")))
STATES = {DELAYED: "delayed", READY: "ready", RESERVED: "reserved", BURIED: "buried"}
HAPPENED = ("", "pushed", "replaced", "reserved", "released", "undelivered", "abandoned", "timed_out", "buried",
            "kicked", "run", "rescheduled", "finished", "deleted")
FAR = ("2300-01-01T00:00:00Z", "2100-06-01T00:00:00.000001Z", "9999-12-31T23:59:59Z")
SMALL = {"store": {"segment_bytes": "256K", "checkpoint_bytes": "256K", "buried_in_memory": 10, "ready_in_memory": 10,
                   "history": "36600d"}, "limits": {"ttr_seconds": "36500d"}, "push": {"job_targets": "any"}}


# What the store says, in the words of the API

def time_text(time_us):
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=time_us)
    return moment.isoformat(timespec="microseconds" if time_us % 1000 else "milliseconds") + "Z"


def name_of(thing):
    return thing["id"].decode() or f"@{thing['number']}"


def job_shown(job):
    shown = {"id": name_of(job), "topic": job["topic"].decode(), "state": STATES[job["state"]],
             "attempt": job["counts"][0], "failures": job["failures"], "priority": job["priority"],
             "ttr_ms": job["ttr"] // 1000, "due": time_text(job["due"]), "due_ms": job["due"] // 1000,
             "created": time_text(job["created"])}
    shown |= json.loads(job["properties"] or "{}")
    if job["retry"]:
        shown["retry"] = [wait // 1000 for wait in job["retry"]]
    if job["type"]:
        shown["content_type"] = job["type"].decode()
    if job["state"] == RESERVED:
        shown |= {"deadline": time_text(job["until"]), "deadline_ms": job["until"] // 1000, "lease": str(job["lease"])}
    try:
        shown["body"] = json.loads(job["body"]) if job["json"] else job["body"].decode()
    except UnicodeDecodeError:
        shown["body_base64"] = base64.b64encode(job["body"]).decode()
    text = json.dumps(shown.get("body"))
    if len(text) > 200:
        shown["body"] = "sha256 " + hashlib.sha256(text.encode()).hexdigest()
    return shown


def note_shown(note):
    code = {"code": note["code"]} if note["code"] else {}
    return {**code, **json.loads(note["text"]), "time": time_text(note["time"])}


def event_shown(event):
    shown = {"event": HAPPENED[event["what"]], "number": str(event["number"]), "time": time_text(event["time"])}
    shown |= {"state": STATES[event["state"]]} if event["state"] else {}
    shown |= {key: time_text(event[key]) for key in ("due", "until") if key in event}
    shown |= {"lease": str(event["lease"])} if "lease" in event else {}
    shown |= {"topic": event["topic"].decode()} if event["topic"] else {}
    shown |= {"code": event["code"]} if event["code"] else {}
    if event["note"] and event["what"] == HAPPENED.index("reserved"):
        return {**shown, "by": event["note"].decode()}
    return shown | json.loads(event["note"] or b"{}")


def check(store, told, happened=()):
    """Does laterd tell of this store what was read in it?"""
    jobs = {line["id"]: line for line in told if "topic" in line}
    for line in jobs.values():
        last = line.pop("last_failure", None)
        assert not last or last == [one["attempts"] for one in told if one.get("of") == line["id"]][0][-1]
    assert {name_of(job): job_shown(job) for job in store.jobs.values()} == jobs
    notes = {name_of(store.jobs[number]): [note_shown(one) for one in found.values()]
             for number, found in store.notes.items() if number in store.jobs}
    assert notes == {line["of"]: line["attempts"] for line in told if "of" in line}
    for topic in (line for line in told if "paused" in line):
        assert bool(store.topics.get(topic["name"].encode())) == topic["paused"]
    assert {name.decode(): version for name, (version, _) in store.settings.items()} == \
        {line["name"]: line["version"] for line in told if "settings" in line}
    for line in happened:
        events = [event_shown(event) for event in store.happened if name_of(event) == line["id"]]
        assert events == [event for event in line["events"] if event["event"] != "due"], line["id"]


def lines_of(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.mark.parametrize("archive", GOLDEN, ids=lambda path: os.path.basename(path)[:-len(".tar.xz")])
def test_a_store_of_a_released_version_is_as_the_page_says(archive, tmp_path):
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path)
    path = archive.removesuffix(".tar.xz")
    check(Store(tmp_path), lines_of(path + ".jsonl"), lines_of(path + ".history.jsonl"))


# A store of today's

def job_of(dice):
    job = {"priority": dice.choice((0, 7, 1023, 1024, 2**32 - 1)), **dice.choice(({"due": dice.choice(FAR)},) * 3 + (
        {"state": "buried"}, {}, {"created": "2020-01-01T00:00:00Z"}))}
    job |= dice.choice(({"body": "z" * dice.randrange(1500)}, {"body": {"a": [1, "ü"]}}, {"body_base64": "AP/+"}, {}))
    job |= dice.choice(({}, {"id": f"id-{dice.randrange(1500)}", "if_exists": dice.choice(("keep", "replace"))}))
    return job | dice.choice(({},) * 9 + ({"key": "k", "headers": {"X": "ü"}}, {"retry": ["1h", "2h"]},
                                          {"content_type": "text/xml"}, {"ttr": "250ms"}))


def end_reservation(client, dice, job):
    verb = dice.choice(("finish", "finish", "bury", "release", "release", "touch", None))
    more = {"bury": {"reason": "r" * dice.randrange(300), "code": 410},
            "release": {"delay": dice.choice((0, "36000d"))}}
    if verb:
        client.job(job["id"], verb, lease=job["lease"], **more.get(verb, {}))


def live(client, dice):
    """One thing that a client does."""
    topic, some = f"t{dice.randrange(4)}", [f"id-{dice.randrange(1500)}" for _ in range(15)]
    what = dice.randrange(12)
    if what < 4:
        client.push_many(topic, [job_of(dice) for _ in range(dice.randrange(1, 60))])
    elif what < 6:
        for job_id in some:
            client.job(job_id, method="DELETE")
    elif what < 8:
        for job in client.reserve(topic, most=8):
            end_reservation(client, dice, job)
    elif what == 8:
        for job_id in some:
            client.request("PATCH", f"/v1/jobs/{job_id}", due=dice.choice(FAR), priority=dice.randrange(9))
    elif what == 9:
        client.post(f"/v1/topics/{topic}/{dice.choice(('pause', 'resume'))}")
    elif what == 10:
        client.post(f"/v1/topics/{topic}/kick", {"max": dice.randrange(1, 20)})
    else:
        client.job(client.push_id("large", due=FAR[0], body="z" * 50000), method="DELETE")


def told_by(server, ids):
    with Client(server.port) as client:
        return listing(client), [one for one in histories(client, ids) if one.get("events")]


def told_when_quiet(server, ids):
    """When nothing has changed for a while: that a ttr of 250 ms has ended is on the disk a moment later."""
    told, before = told_by(server, ids), None
    while told != before:
        time.sleep(0.3)
        told, before = told_by(server, ids), told
    return told


@pytest.mark.parametrize("seed", (1, 2))
def test_a_store_of_this_version_is_as_the_page_says(laterd, tmp_path, seed):
    """Slices of all kinds, history, what the cleaner wrote again: in backups under way, after kill -9 and after an end
    in order."""
    server, dice = laterd(SMALL), random.Random(seed)
    with Client(server.port) as client:
        for number in range(4):
            client.request("PUT", f"/v1/topics/t{number}", ttr="36000d")
        for turn in range(400):
            live(client, dice)
            if turn % 100 == 99:
                place = tmp_path / f"place{turn}"
                subprocess.run([LATER, "-s", f"127.0.0.1:{server.port}", "backup", "--copy", place], check=True,
                               capture_output=True)
                Store(glob.glob(f"{place}/2*")[0])
    ids = [f"id-{number}" for number in range(0, 1500, 30)]
    for end in (server.kill, server.stop):
        told = told_when_quiet(server, ids)
        end()
        store = Store(server.data)
        check(store, *told)
        assert any(store.lives.values()) and store.happened
        server.start()
