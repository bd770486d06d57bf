#!/usr/bin/python3
"""The journal beside a bare loop of multi-row INSERTs, and what it costs: `make bench-journal`.

rate: as many jobs as the loop wrote are pushed, and the time runs until MariaDB has committed the last.
The bare loop (pymysql, whose statements are made beforehand, so that the time
is the server's) writes the same rows in the same groups: 512 rows of jobs, 512 of changes, the cursor,
one transaction. They take turns.

restore: all rows of the tables into an empty queue, beside pushing as many by NDJSON into an empty queue
without a journal. They take turns.

cost: processor time of laterd's main thread for each push, of `later bench put`, with and without a
journal that writes meanwhile; in turns; medians. From /proc/PID/task/TID/schedstat.

`--engine redis`: the same of a queue in Redis. Each laterd has a Redis of its own, and the cost is also given
for the main thread of Redis, which does the work there (the `# CPU` section of INFO). A restore goes into
a Redis that is empty, as after its loss.

After `--seconds` it ends, prints what has been measured, and fails.
"""

import argparse
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "test" / "harness"))

GROUP, BODY = 512, "x" * 256
TURNS = 3


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--jobs", type=int, default=100000)
    parser.add_argument("--pushes", type=int, default=100000)
    parser.add_argument("--rows", type=int, default=0,
                        help="rows of the restore; more than the other parts leave are pushed before it")
    parser.add_argument("--engine", choices=("embedded", "redis"), default="embedded")
    parser.add_argument("--partitions", type=int, default=4, help="of a queue in Redis")
    parser.add_argument("--only", choices=("restore",), help="measure this alone")
    parser.add_argument("--seconds", type=int, default=1200, help="it takes no longer")
    wish = parser.parse_args()
    os.environ.setdefault("LATERD", str(pathlib.Path(wish.build).resolve() / "laterd"))
    os.environ.setdefault("LATER", str(pathlib.Path(wish.build).resolve() / "later"))
    return wish


WISH = parse()

from mariadb import MariaDb  # noqa: E402
from process import LATER, Laterd  # noqa: E402
from redis import Redis  # noqa: E402
from wire import Client  # noqa: E402

TABLES = ("t_delay_queue_job", "t_delay_queue_job_log")


def gauge(client, name):
    for line in client.get("/metrics").body.decode().splitlines():
        if line.startswith(f"laterd_{name} "):
            return float(line.split()[1])
    return None


def bare(maria, database, jobs):
    """Rows a second of the loop alone."""
    extend = '{"laterd":1,"priority":0,"failures":0,"us":0}'
    groups = []
    for first in range(0, jobs, GROUP):
        names = [f"bare-{first}-{i:08d}" for i in range(min(GROUP, jobs - first))]
        groups.append((
            "INSERT INTO t_delay_queue_job(id,bizkey,topic,subtopic,delay,create_time,body,status,ttl,"
            "update_time,extend_data) VALUES" + ",".join(
                f"('{name}',NULL,'t',NULL,3600000,1795446284698,'{BODY}',1,60,'2026-11-23 15:04:44.803',"
                f"'{extend}')" for name in names) +
            " ON DUPLICATE KEY UPDATE topic=VALUES(topic),body=VALUES(body),status=VALUES(status)",
            "INSERT INTO t_delay_queue_job_log(id,status,thread,update_time,host) VALUES" + ",".join(
                f"('{name}',1,'laterd-0','2026-11-23 15:04:44.803','host/10.0.0.1')" for name in names)))
    connection = maria.connect(database)
    cursor = connection.cursor()
    begun = time.monotonic()
    for number, (insert, log) in enumerate(groups):
        cursor.execute("START TRANSACTION")
        cursor.execute(insert)
        cursor.execute(log)
        cursor.execute(f"UPDATE laterd_journal_cursor SET epoch={number}+1000000 WHERE store_id=x'00'")
        cursor.execute("COMMIT")
    took = time.monotonic() - begun
    connection.close()
    return jobs / took


def push_all(client, jobs, name):
    for first in range(0, jobs, 1000):
        client.push_many("t", [{"id": f"{name}-{first}-{i:05d}", "body": BODY, "delay": "1h"}
                               for i in range(min(1000, jobs - first))])


def catch_up(client):
    while gauge(client, "journal_lag_batches"):
        time.sleep(0.05)


def journaled(server, jobs, turn):
    """Jobs a second, from the first push to the last commit."""
    with Client(server.port, seconds=60) as client:
        done = gauge(client, "journal_rows_total")
        begun = time.monotonic()
        push_all(client, jobs, f"j{turn}")
        while gauge(client, "journal_rows_total") < done + jobs:
            time.sleep(0.02)
        return jobs / (time.monotonic() - begun)


def main_ns(pid):
    with open(f"/proc/{pid}/task/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0])


def redis_ns(redis):
    """Of its main thread, which runs the scripts; a server that does not tell of that thread: of all."""
    info = redis.info("cpu")
    system = info.get("used_cpu_sys_main_thread", info["used_cpu_sys"])
    user = info.get("used_cpu_user_main_thread", info["used_cpu_user"])
    return (float(system) + float(user)) * 1e9


def pushes(queue, count):
    """ns of laterd's main thread for each push, and of Redis'."""
    before, before_redis = main_ns(queue.server.pid), redis_ns(queue.redis) if queue.redis else 0
    subprocess.run([LATER, "bench", "put", "-s", f"http://127.0.0.1:{queue.server.port}", "-n", str(count),
                    "-c", "16", "-D", "16", "--keep"], check=True, stdout=subprocess.DEVNULL)
    theirs = redis_ns(queue.redis) - before_redis if queue.redis else 0
    return (main_ns(queue.server.pid) - before) / count, theirs / count


def by_ndjson(server, jobs):
    """Jobs a second, pushed in batches of 1,000 by one client."""
    head = [("Content-Type", "application/x-ndjson")]
    took = 0
    with Client(server.port, seconds=60) as client:
        for first in range(0, jobs, 1000):
            lines = "".join(f'{{"id":"n{first}-{i:05d}","body":"{BODY}","delay":"1h"}}\n'
                            for i in range(min(1000, jobs - first)))
            begun = time.monotonic()
            answer = client.request("POST", "/v1/topics/t/jobs", lines.encode(), head)
            took += time.monotonic() - begun
            assert answer.status == 200, answer
    return jobs / took


class Queue:
    """A laterd, and with `--engine redis` the Redis that its queue is in."""

    def __init__(self, folder, url=None):
        self.folder, self.redis = folder, None
        config = {"journal": {"url": url, "max_lag": "64G"}} if url else {}
        if WISH.engine == "redis":
            self.redis = Redis()
            config["engine"] = {"engine": "redis"}
            config["redis"] = {"url": self.redis.url, "partitions": WISH.partitions}
        self.server = Laterd(folder, config, sdmq=("127.0.0.1:0",))

    def start(self):
        if self.redis:
            self.redis.start()
        self.server.start()
        return self

    def stop(self):
        if self.server.process:
            self.server.kill()
        if self.redis:
            self.redis.close()


def pushed_by_ndjson(folder, jobs):
    queue = Queue(folder)
    try:
        return by_ndjson(queue.start().server, jobs)
    finally:
        queue.stop()


def restored(maria, folder, url):
    """(rows, rows a second) of all that is in the tables, into an empty queue."""
    maria.run("DELETE FROM laterd_journal_cursor", database="bench")
    queue = Queue(folder, url)
    try:
        queue.start()
        queue.server.wait_log("journal_writes")
        begun = time.monotonic()
        with Client(queue.server.sdmq_ports[0], seconds=WISH.seconds) as client:
            said = client.get("/reStore").json()
        assert said["success"], said
        took = time.monotonic() - begun
        queue.server.wait_log("restored")
        rows = int(re.search(r"created=(\d+)", queue.server.events("restored")[0][1]).group(1))
        return rows, rows / took
    finally:
        queue.stop()


def line(name, ours, theirs, bar):
    """Medians, and the ratio of each turn, since the machine may have changed between turns."""
    ratios = [our / their for our, their in zip(ours, theirs)]
    if ratios:
        print(f"{name}: {statistics.median(theirs):.0f}, journal {statistics.median(ours):.0f}, ratio "
              f"{statistics.median(ratios):.3f} ({', '.join(f'{ratio:.3f}' for ratio in ratios)}; bar: {bar})")


def unfinished(maria):
    return maria.run("SELECT COUNT(*) FROM t_delay_queue_job WHERE status NOT IN(3,4)", database="bench")[0][0]


def measure_pushes(maria, with_it, without, results):
    for turn in range(TURNS):
        results["bare"].append(bare(maria, "bench", WISH.jobs))
        maria.run("DELETE FROM t_delay_queue_job WHERE id LIKE 'bare-%'", database="bench")
        results["rate"].append(journaled(with_it.server, WISH.jobs, turn))
    for _ in range(TURNS):
        for queue, name in ((without, "plain"), (with_it, "cost")):
            laterd, redis = pushes(queue, WISH.pushes)
            results[name].append(laterd)
            if queue.redis:
                results[name + "_redis"].append(redis)
        with Client(with_it.server.port) as client:
            catch_up(client)


def measure(maria, folder, url, results):
    """Fills `results` as it goes on."""
    with_it, without = Queue(folder / "with", url), Queue(folder / "without")
    try:
        with_it.start()
        without.start()
        with_it.server.wait_log("journal_writes")
        if WISH.only != "restore":
            measure_pushes(maria, with_it, without, results)
        with Client(with_it.server.port, seconds=60) as client:
            push_all(client, max(0, WISH.rows - unfinished(maria)), "more")
            catch_up(client)
    finally:
        with_it.stop()
        without.stop()
    for turn in range(TURNS):
        results["ndjson"].append(pushed_by_ndjson(folder / f"pushed-{turn}", unfinished(maria)))
        rows, rate = restored(maria, folder / f"restored-{turn}", url)
        assert rows == unfinished(maria), rows
        results["rows"] = [rows]
        results["restore"].append(rate)


def report(results):
    line("jobs a second: bare loop", results["rate"], results["bare"], "at least 0.7")
    line("laterd's main thread, ns a push: without", results["cost"], results["plain"], "at most 1.1")
    line("Redis' main thread, ns a push: without", results["cost_redis"], results["plain_redis"], "none")
    for rows in results["rows"]:
        line(f"rows a second, {rows} of them: pushed by NDJSON", results["restore"], results["ndjson"], "at least 0.5")


def too_long(*_):
    raise TimeoutError(f"it took longer than {WISH.seconds} s")


def main():
    names = ("bare", "rate", "plain", "cost", "plain_redis", "cost_redis", "ndjson", "rows", "restore")
    results = {name: [] for name in names}
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(WISH.seconds)
    maria = MariaDb(["--innodb-log-file-size=256M"]).make().start()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="laterd-bench-journal-"))
    failed = None
    try:
        measure(maria, folder, maria.database("bench"), results)
    except TimeoutError as error:
        failed = error
    finally:
        signal.alarm(0)
        maria.stop()
        subprocess.run(["rm", "-rf", folder], check=False)
    report(results)
    if failed:
        print(failed, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
