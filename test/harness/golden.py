"""What a laterd tells of all its jobs and topics: a listing to compare stores by."""

import contextlib
import hashlib
import json
import urllib.parse

from wire import Client, Closed, eventually

STATES = ("delayed", "ready", "reserved", "buried")


def page_through(client, path, what):
    cursor = ""
    while True:
        page = client.get(f"{path}{'&' if '?' in path else '?'}limit=500{cursor}").json()
        yield from page[what]
        if not page.get("cursor"):
            return
        cursor = f"&cursor={page['cursor']}"


def short(job):
    """A long body by its hash."""
    body = json.dumps(job.get("body"))
    if len(body) > 200:
        job["body"] = "sha256 " + hashlib.sha256(body.encode()).hexdigest()
    return job


def listing(client):
    """A line for each topic that is in use, then for each job, all that the API tells of it."""
    topics = sorted(page_through(client, "/v1/topics", "topics"), key=lambda one: one["name"])
    lines = []
    for topic in topics:
        keep = ("name", "paused", "paused_until", *STATES)
        if topic["paused"] or any(topic[state] for state in STATES):  # others may be forgotten
            lines.append({key: topic[key] for key in keep if key in topic})
        answer = client.get(f"/v1/topics/{urllib.parse.quote(topic['name'], safe='')}").json()
        if "settings" in answer:
            lines.append({"name": topic["name"], "settings": answer["settings"],
                          "version": answer["version"]})
    jobs = [job["id"] for topic in topics for state in STATES
            for job in page_through(client, f"/v1/topics/{topic['name']}/jobs?state={state}",
                                    "jobs")]
    for job_id in sorted(jobs):
        lines.append(short(client.job(job_id, method="GET").json()))
        if "last_failure" in lines[-1]:
            lines.append({"attempts": client.get(f"/v1/jobs/{urllib.parse.quote(job_id, safe='')}/attempts")
                          .json()["attempts"], "of": job_id})
    return lines


def histories(client, ids):
    """A line for each id: what happened to the jobs that had it."""
    return [client.get(f"/v1/jobs/{urllib.parse.quote(one, safe='')}/history").json() for one in ids]


def wait_until_it_leads(server):
    """One that waits sends its clients away when it leads."""
    def leads():
        with Client(server.port) as client, contextlib.suppress(Closed):
            return client.get("/v1/topics").status == 200
        return False
    assert eventually(leads)


def text_of(lines):
    return "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines)
