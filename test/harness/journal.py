"""What a queue has beside what its journal has, row by row. Neither knows of the other: the queue is asked
over HTTP, the tables by SQL."""

import base64
import json
import urllib.parse

import pymysql
from pymysql.constants import ER

from mariadb import PASSWORD, USER  # noqa: F401  (tests take them from here, too)
from wire import Client

JOBS, LOGS = "t_delay_queue_job", "t_delay_queue_job_log"
CURSORS, REJECTED = "laterd_journal_cursor", "laterd_journal_rejected"
DELAYED, READY, FINISHED, DELETED, BURIED = 1, 2, 3, 4, 6
COLUMNS = ("id", "bizkey", "topic", "subtopic", "delay", "create_time", "body", "status", "ttl",
           "update_time", "extend_data")


def gauge(client, name):
    """A figure of /metrics; None: it has none of that name."""
    for line in client.get("/metrics").body.decode().splitlines():
        if line.startswith(f"laterd_{name} "):
            return float(line.split()[1])
    return None


def gauge_of(server, name):
    with Client(server.port) as client:
        return gauge(client, name)


def rows(maria, database, where="TRUE"):
    """{id: {column: value}}"""
    found = maria.run(f"SELECT {','.join(COLUMNS)} FROM {JOBS} WHERE {where}", database=database)
    return {row[0]: dict(zip(COLUMNS, row)) for row in found}


def store_of(maria, database):
    """The identity of the queue that writes there, as it stands in ids."""
    return maria.run(f"SELECT LOWER(HEX(store_id)) FROM {CURSORS}", database=database)[0][0][:16]


def body_of(row):
    how = json.loads(row["extend_data"]).get("body")
    if how == "base64":
        return base64.b64decode(row["body"])
    return json.loads(row["body"]) if how == "json" else row["body"]


def as_journal(row):
    """What of a row must be as in the queue. Whether a job is delayed or fell due nobody writes down."""
    extend = json.loads(row["extend_data"])
    return {"topic": row["topic"], "due_ms": row["create_time"] + row["delay"],
            "priority": extend.get("priority", 0), "buried": row["status"] == BURIED, "body": body_of(row)}


def as_queue(job):
    body = base64.b64decode(job["body_base64"]) if "body_base64" in job else job.get("body")
    return {"topic": job["topic"], "due_ms": job["due_ms"], "priority": job.get("priority", 0),
            "buried": job["state"] == "buried", "body": body}


def listed(client, topic):
    for state in ("delayed", "ready", "reserved", "buried"):
        cursor = ""
        while True:
            path = f"/v1/topics/{urllib.parse.quote(topic, safe='')}/jobs?state={state}&limit=1000{cursor}"
            answer = client.get(path)
            if answer.status == 404:
                break
            assert answer.status == 200, answer
            page = answer.json()
            yield from page["jobs"]
            if not page.get("cursor"):
                break
            cursor = "&cursor=" + urllib.parse.quote(page["cursor"], safe="")


def row_id(name, store):
    """A job's id as the table has it."""
    return f"{name}.{store}" if name.startswith("@") and "." not in name else name


AT_ONCE = 200  # jobs that are asked for in one request


def whole(client, names):
    """The jobs with their bodies, in that order."""
    for at in range(0, len(names), AT_ONCE):
        asked = names[at:at + AT_ONCE]
        answer = client.post("/v1/get", {"jobs": [{"id": name} for name in asked]})
        assert answer.status == 200, answer
        for name, result in zip(asked, answer.json()["results"]):
            if result["status"] == 413:  # too large beside others
                answer = client.job(name, method="GET")
                assert answer.status == 200, answer
                yield answer.json()
            else:
                assert result["status"] == 200, result
                yield result["job"]


def queue(client, topics, store):
    """{id as the table has it: job}"""
    names = [job["id"] for topic in topics for job in listed(client, topic)]
    return {row_id(job["id"], store): as_queue(job) for job in whole(client, names)}


def differences(client, topics, maria, database):
    """Sentences; none: they are equal."""
    if not maria.run(f"SELECT 1 FROM information_schema.tables WHERE table_schema='{database}' AND table_name='{CURSORS}'") \
            or not maria.run(f"SELECT 1 FROM {CURSORS}", database=database):
        return ["the journal has not begun: it has no cursor"]
    store = store_of(maria, database)
    ours = queue(client, topics, store)
    theirs = {name: as_journal(row)
              for name, row in rows(maria, database, "status NOT IN(3,4)").items()}
    said = [f"{name} is in the queue alone: {ours[name]}" for name in ours.keys() - theirs.keys()]
    said += [f"{name} is in the journal alone: {theirs[name]}" for name in theirs.keys() - ours.keys()]
    said += [f"{name}: {ours[name]} in the queue, {theirs[name]} in the journal"
             for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]]
    return said


def same_names(client, topics, maria, database):
    """Have they the same jobs, as far as ids tell?"""
    cursors = maria.run(f"SELECT LOWER(HEX(store_id)) FROM {CURSORS}", database=database)
    if not cursors:
        return False
    theirs = {row[0] for row in maria.run(f"SELECT id FROM {JOBS} WHERE status NOT IN(3,4)", database=database)}
    return theirs == {row_id(job["id"], cursors[0][0][:16]) for topic in topics for job in listed(client, topic)}


def agree(client, topics, maria, database):
    """Are they equal? Not as long as the journal has not made its tables. It is asked until it is true, so what is
    cheap comes first."""
    try:
        return same_names(client, topics, maria, database) and not differences(client, topics, maria, database)
    except pymysql.err.ProgrammingError as error:
        if error.args[0] != ER.NO_SUCH_TABLE:
            raise
        return False
