"""Makes the golden directories of one version: small stores as that laterd wrote them, packed, each
with a listing of every job and topic beside it as that laterd told of them.

    LATERD=…/build/laterd test/golden/make.py test/golden/0.1.0/COMMIT
    LATERD=…/build/laterd test/golden/make.py test/golden/history/COMMIT --history
    LATERD=…/build/laterd test/golden/make.py test/golden/far/COMMIT --far
    LATERD=…/build/laterd test/golden/make.py test/golden/buried/COMMIT --buried
    LATERD=…/build/laterd test/golden/make.py test/golden/ready/COMMIT --ready
    LATERD=…/build/laterd test/golden/make.py test/golden/led/COMMIT --led
    LATERD=…/build/laterd test/golden/make.py test/golden/reused/COMMIT --reused

They are made once, and never again: test/black/server/test_golden.py opens them with today's.
"""

import json
import os
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))

from golden import histories, listing, text_of, wait_until_it_leads  # noqa: E402
from process import Laterd  # noqa: E402
from wire import Client  # noqa: E402

FAR = "2300-01-01T00:00:00Z"
CONFIG = {"store": {"segment_bytes": "256K"}, "limits": {"ttr_seconds": "36500d"},
          "push": {"job_targets": "any"}}
FAR_KINDS = ("--far", "--buried", "--ready")
DURABILITIES = {"closed": "sync", "killed": "sync", "os": "os"}


def reserve(client, topic, count):
    return client.post("/v1/reserve", topics=[topic], max=count).json()["jobs"]


def fill(client):
    """Jobs in every state, and what else a store keeps."""
    for number in range(12):
        client.push_id("delayed", due=FAR, body={"n": number}, priority=number * 1000003)
    client.push_id("delayed", id="order/ä 1", due="9999-12-31T23:59:59Z", body="a client's id")
    client.push_id("delayed", id="x" * 255, due=FAR, body_base64="AAECA//+")
    client.push_id("delayed", id="typed", due=FAR, body="<a/>", content_type="text/xml")
    client.push_id("delayed", id="empty", due=FAR)
    client.push_id("ready", id="moved", due=FAR, body="made ready, and another priority")
    client.request("PATCH", "/v1/jobs/moved", priority=7)
    client.job("moved", "run")
    for number in range(5):
        client.push_id("ready", body=[number, "z" * number * 100], priority=5 - number)
    client.push_id("retried", id="schedule", retry=["1s", "1h", "36000d"], body="many waits")
    client.push_id("retried", id="64 waits", due=FAR, retry=[f"{n}s" for n in range(1, 65)])
    for _ in range(4):
        client.push_id("held", body="reserved for long", ttr="36000d")
    reserve(client, "held", 3)
    for number in range(4):
        client.push_id("buried", id=f"dead-{number}", body={"n": number})
    for job in reserve(client, "buried", 2):
        client.job(job["id"], "bury", lease=job["lease"])
    client.push_id("buried", id="dead from the start", state="buried", body="a dead letter")
    client.push_id("paused", body="nobody may have it")
    for topic in ("paused", "paused-empty"):
        path = f"/v1/topics/{topic}/pause"
        if client.post(path, create=True).status >= 300:  # an older one
            assert client.post(path).status < 300
    client.push_id("replaced", id="twice", due=FAR, body="the old one")
    client.push_id("replaced", id="twice", due=FAR, body="the new one", if_exists="replace")
    ended = [client.push_id("ended", body="gone") for _ in range(6)]
    for job in reserve(client, "ended", 3):
        client.job(job["id"], "finish", lease=job["lease"])
        ended.remove(job["id"])
    for job_id in ended:
        client.job(job_id, method="DELETE")


def fill_for_delivery(client):
    """What push delivery keeps: settings of topics, properties of jobs, notes of attempts."""
    client.request("PUT", "/v1/topics/set", retry="alipay", attempts=5, ttr="90s", rate="7/s", order="key",
                   target={"type": "http", "url": "https://192.0.2.1/hook", "headers": {"X-A": "1"}},
                   paused=True)
    client.request("PUT", "/v1/topics/unset", retry=["1m"])
    assert client.request("PUT", "/v1/topics/unset", b"{}",
                          {"Content-Type": "application/json"}).status == 200
    client.request("PUT", "/v1/topics/set-again", retry=["1m"])
    client.request("PUT", "/v1/topics/set-again", retry=["2m", "36000d"], concurrency=3)
    client.push_id("set", id="with all", due=FAR, key="k/1", url="https://192.0.2.1/own",
                   headers={"X-B": "2", "X-C": "ü"}, biz_key="biz", tags=["a", "b"], body={"n": 1})
    client.push_id("set", id="ranked", due=FAR, rank=7, subtopic="s", extend_data="more")
    client.push_id("moved", id="from elsewhere", due=FAR, created="2020-02-02T02:02:02.020202Z",
                   attempt=9, failures=4, retry=["1h"] * 6, body="was in another queue")
    for number in range(7):  # five notes are kept
        job = client.push("noted", id="noted", delay=0) if number == 0 else None
        assert not job or job.status == 201
        held, = reserve(client, "noted", 1)
        client.job("noted", "release", lease=held["lease"], delay="36000d" if number == 6 else 0,
                   reason=f"attempt {number}: ünreached", code=500 + number)
    client.push_id("noted", id="buried with a reason")
    held, = reserve(client, "noted", 1)
    assert client.job(held["id"], "bury", lease=held["lease"], reason="no use", code=410).status == 200


def fill_for_history(client):
    """What happens to jobs: all kinds of it, and what it may say. Returns their ids."""
    ids = [client.push_id("told", body="an id of the server's", delay=0)]
    for name in ("finished", "ä/1", "y" * 255):
        ids.append(client.push_id("told", id=name, delay="20ms", priority=3))
    while len(ids) > 1 and (held := client.reserve("told", wait=2000)):
        job, = held
        if job["attempt"] == 1 and job["id"] == "finished":
            client.job(job["id"], "release", lease=job["lease"], reason="no answer: é", code=503)
        elif job["attempt"] == 2:
            client.job(job["id"], "bury", lease=job["lease"], reason="r" * 300, code=410)
            client.job(job["id"], "kick")
        else:
            client.job(job["id"], "finish", lease=job["lease"])
    client.push_id("told", id="again", due=FAR)
    client.push_id("told", id="again", due=FAR, if_exists="replace")
    client.request("PATCH", "/v1/jobs/again", due="2200-01-01T00:00:00Z")
    client.push_id("told", id="slow", delay=0, ttr="1s")
    client.reserve("told")
    time.sleep(1.2)  # its ttr ends
    client.request("PATCH", "/v1/jobs/again", due=FAR)
    client.job("slow", method="DELETE")
    return [*ids, "again", "slow"]


def churn(client, server):
    """Bodies that come and go, until the cleaner has carried the jobs of several segments."""
    kept = []
    for number in range(140):
        job_id = client.push_id("large", due=FAR, body=f"{number} " * 5000)
        kept.append(job_id)
        if len(kept) > 6:
            client.job(kept.pop(number % 3), method="DELETE")
    end = time.monotonic() + 20
    while "wal-00000002" in os.listdir(server.data) and time.monotonic() < end:
        time.sleep(0.05)
    assert "wal-00000002" not in os.listdir(server.data), "no checkpoint was made"


def far_job(number):
    """Two of three have an id of their client's."""
    job = {"due": FAR if number % 2 else f"{2100 + number}-01-01T00:00:00Z", "priority": number}
    if number % 3:
        return {**job, "id": f"far-{number}", "body": {"n": number, "text": "x" * (number % 700)}}
    return {**job, "body": "y" * (number % 900)}


def fill_far(client, server):
    """Jobs that lie in slices: some of them moved, replaced or ended since, some back in the log."""
    client.push_many("far", [far_job(number) for number in range(600)])
    end = time.monotonic() + 20
    while far_jobs(client) < 500 and time.monotonic() < end:
        client.job(client.push_id("large", due=FAR, body="z" * 50000), method="DELETE")
    assert far_jobs(client) >= 500, "no slices were made"
    assert any(name.startswith("slice-") for name in os.listdir(server.data))
    for number in range(1, 300, 7):
        if number % 3:
            client.job(f"far-{number}", method="DELETE")
    client.push_id("far", id="far-301", due=FAR, body="another one", if_exists="replace")
    client.request("PATCH", "/v1/jobs/far-302", due="2200-01-01T00:00:00Z", priority=9)
    client.job("far-304", "run")


def fill_buried(client):
    """Buried jobs in slices of their own: some of them kicked, deleted or replaced since."""
    client.push_many("dead", [dead_job(number) for number in range(500)])
    end = time.monotonic() + 20
    while far_jobs(client, "buried_") < 400 and time.monotonic() < end:
        client.job(client.push_id("large", due=FAR, body="z" * 50000), method="DELETE")
    assert far_jobs(client, "buried_") >= 400, "no slices were made of buried jobs"
    for number in range(1, 300, 7):
        if number % 3:
            client.job(f"dead-{number}", method="DELETE")
    client.push_id("dead", id="dead-301", due=FAR, body="another one", if_exists="replace")
    assert client.job("dead-302", "kick").status in (200, 204)
    assert client.post("/v1/topics/dead/kick", {"max": 5}).status == 200


def fill_ready(client):
    """Ready jobs in slices of their own: some of them deleted, replaced or taken since."""
    client.push_many("piled", [piled_job(number) for number in range(500)])
    end = time.monotonic() + 20
    while far_jobs(client, "ready_") < 400 and time.monotonic() < end:
        client.job(client.push_id("large", due=FAR, body="z" * 50000), method="DELETE")
    assert far_jobs(client, "ready_") >= 400, "no slices were made of ready jobs"
    for number in range(1, 300, 7):
        if number % 3:
            client.job(f"piled-{number}", method="DELETE")
    client.push_id("piled", id="piled-301", body="another one", if_exists="replace")
    for job in reserve(client, "piled", 5):
        assert client.job(job["id"], "finish", lease=job["lease"]).status in (200, 204)


def piled_job(number):
    """As far_job(), ready from the start, in seven priorities."""
    job = {"priority": number % 7, "created": f"2020-01-01T00:{number // 60:02}:{number % 60:02}Z"}
    if number % 3:
        return {**job, "id": f"piled-{number}", "body": {"n": number, "text": "x" * (number % 700)}}
    return {**job, "body": "y" * (number % 900)}


def dead_job(number):
    """As far_job(), buried from the start; they differ in when they were due."""
    job = {"state": "buried", "priority": number, "created": f"2020-01-01T00:{number // 60:02}:{number % 60:02}Z"}
    if number % 3:
        return {**job, "id": f"dead-{number}", "body": {"n": number, "text": "x" * (number % 700)}}
    return {**job, "body": "y" * (number % 900)}


def lead_again(server):
    """A second epoch, and what is written in it: the first ends in the middle of the log."""
    server.kill()
    server.start()
    wait_until_it_leads(server)
    with Client(server.port) as client:
        client.push_id("delayed", id="in the second epoch", due=FAR, body="the third one writes behind it")
        client.job(client.push_id("ended", id="ended in it", due=FAR), method="DELETE")
    assert server.stop() == 0
    server.start()
    wait_until_it_leads(server)


def metric(client, name):
    text = client.get("/metrics").text
    return int(next(line for line in text.splitlines() if line.startswith(f"laterd_{name} ")).split()[1])


def far_jobs(client, state=""):
    return metric(client, f"far_{state}jobs")


def reuse(client, server):
    """Until the log's last segments lie in files that had been others before."""
    for _ in range(10):
        churn(client, server)
        if metric(client, "reused_segments_total") >= 6:
            return
    raise AssertionError("no segment's file was used again")


def make(folder, target, durability, kill, kind):
    history, far, led = kind == "--history", kind in FAR_KINDS, kind == "--led"
    config = {name: dict(keys) for name, keys in CONFIG.items()}
    config["store"]["durability"] = durability
    if far:
        config["store"] |= {"horizon": "1h", "checkpoint_bytes": "256K"}
    if kind == "--buried":
        config["store"]["buried_in_memory"] = 10
    if kind == "--ready":
        config["store"]["ready_in_memory"] = 10
    if history:
        config["store"]["history"] = "3660d"
    if led:  # its journal's database never answers: the follower is dropped, and copies are marked
        config |= {"member": {"url": "alone"}, "journal": {"url": "mysql://nobody@127.0.0.1:1/none",
                                                           "max_lag": "1M", "on_lag": "detach"}}
    with Laterd(folder, config) as server:
        if led:
            wait_until_it_leads(server)
        with Client(server.port) as client:
            fill(client)
            fill_for_delivery(client)
            told = fill_for_history(client) if history else []
            if far:
                fill_far(client, server)
            if kind == "--buried":
                fill_buried(client)
            if kind == "--ready":
                fill_ready(client)
            (reuse if kind == "--reused" else churn)(client, server)
        if led:
            lead_again(server)
        with Client(server.port) as client:
            if history:  # in memory, and in the log alone
                client.push_id("told", id="young too", due=FAR)
                told.append("young too")
            client.push_id("young", id="after the checkpoints", due=FAR, body="the last one")
            job, = reserve(client, "retried", 1)
            client.job(job["id"], "release", lease=job["lease"], delay="36000d")
            time.sleep(0.5)  # nothing is on its way to the disk
            found = listing(client)
            happened = histories(client, told)
        if kill:
            server.kill()
        else:
            assert server.stop() == 0
    with open(target + ".jsonl", "w", encoding="utf-8") as file:
        file.write(text_of(found))
    if history:
        with open(target + ".history.jsonl", "w", encoding="utf-8") as file:
            file.write(text_of(happened))
    with tarfile.open(target + ".tar.xz", "w:xz") as archive:
        for name in sorted(os.listdir(server.data)):
            archive.add(os.path.join(server.data, name), name)
    print(target, len(found), json.dumps(sorted(os.listdir(server.data))))


def main():
    kind = sys.argv[2] if len(sys.argv) > 2 else ""
    for name, durability in DURABILITIES.items():
        if kind in (*FAR_KINDS, "--led") and name == "os":
            continue
        with tempfile.TemporaryDirectory() as folder:
            make(folder, f"{sys.argv[1]}-{name}", durability, kill=name != "closed", kind=kind)


if __name__ == "__main__":
    main()
