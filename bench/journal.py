#!/usr/bin/python3
"""The journal beside a bare loop of multi-row INSERTs, and what it costs: `make bench-journal`.

rate: as many jobs as the loop wrote are pushed, and the time runs until MariaDB has committed the last.
The bare loop (pymysql, whose statements are made beforehand, so that the time
is the server's) writes the same rows in the same groups: 512 rows of jobs, 512 of changes, the cursor,
one transaction. They take turns.

restore: all rows of the tables into an empty queue, beside pushing by NDJSON.

cost: processor time of laterd's main thread for each push, of `later bench put`, with and without a
journal that writes meanwhile; in turns; medians. From /proc/PID/task/TID/schedstat.
"""

import argparse
import os
import pathlib
import re
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
    wish = parser.parse_args()
    os.environ.setdefault("LATERD", str(pathlib.Path(wish.build).resolve() / "laterd"))
    os.environ.setdefault("LATER", str(pathlib.Path(wish.build).resolve() / "later"))
    return wish


WISH = parse()

from mariadb import MariaDb  # noqa: E402
from process import LATER, Laterd  # noqa: E402
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


def journaled(server, jobs, turn):
    """Jobs a second, from the first push to the last commit."""
    with Client(server.port, seconds=60) as client:
        done = gauge(client, "journal_rows_total")
        begun = time.monotonic()
        for first in range(0, jobs, 1000):
            client.push_many("t", [{"id": f"j{turn}-{first}-{i:05d}", "body": BODY, "delay": "1h"}
                                   for i in range(min(1000, jobs - first))])
        while gauge(client, "journal_rows_total") < done + jobs:
            time.sleep(0.02)
        return jobs / (time.monotonic() - begun)


def main_ns(pid):
    with open(f"/proc/{pid}/task/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0])


def pushes(server, count):
    """ns of the main thread for each push."""
    before = main_ns(server.pid)
    subprocess.run([LATER, "bench", "put", "-s", f"http://127.0.0.1:{server.port}", "-n", str(count),
                    "-c", "16", "-D", "16", "--keep"], check=True, stdout=subprocess.DEVNULL)
    return (main_ns(server.pid) - before) / count


def by_ndjson(server, jobs):
    """Jobs a second, pushed in batches of 1,000 by one client."""
    head = [("Content-Type", "application/x-ndjson")]
    took = 0
    with Client(server.port, seconds=60) as client:
        for first in range(0, jobs, 1000):
            lines = "".join(f'{{"id":"n{first}-{i:05d}","body":"{BODY}","delay":"1h"}}\n' for i in range(1000))
            begun = time.monotonic()
            answer = client.request("POST", "/v1/topics/t/jobs", lines.encode(), head)
            took += time.monotonic() - begun
            assert answer.status == 200, answer
    return jobs / took


def restored(maria, folder, url):
    """(rows, rows a second) of all that is in the tables, into an empty queue without a disk of before."""
    maria.run("DELETE FROM laterd_journal_cursor", database="bench")
    server = Laterd(folder / "restored", {"journal": {"url": url, "max_lag": "64G"}}, sdmq=("127.0.0.1:0",))
    try:
        server.start()
        server.wait_log("journal_writes")
        begun = time.monotonic()
        with Client(server.sdmq_ports[0], seconds=600) as client:
            said = client.get("/reStore").json()
        assert said["success"], said
        took = time.monotonic() - begun
        server.wait_log("restored")
        rows = int(re.search(r"created=(\d+)", server.events("restored")[0][1]).group(1))
        return rows, rows / took
    finally:
        server.kill()


def main():
    maria = MariaDb(["--innodb-log-file-size=256M"]).make().start()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="laterd-bench-journal-"))
    url = maria.database("bench")
    with_it = Laterd(folder / "with", {"journal": {"url": url, "max_lag": "64G"}})
    without = Laterd(folder / "without", {})
    try:
        with_it.start()
        without.start()
        with_it.wait_log("journal_writes")
        rates, bares, costs, plains = [], [], [], []
        for turn in range(TURNS):
            bares.append(bare(maria, "bench", WISH.jobs))
            maria.run("DELETE FROM t_delay_queue_job WHERE id LIKE 'bare-%'", database="bench")
            rates.append(journaled(with_it, WISH.jobs, turn))
        for _ in range(TURNS):
            plains.append(pushes(without, WISH.pushes))
            costs.append(pushes(with_it, WISH.pushes))
            with Client(with_it.port) as client:
                while gauge(client, "journal_lag_batches"):
                    time.sleep(0.2)
        plain = by_ndjson(without, WISH.jobs)
        with_it.kill()
        count, back = restored(maria, folder, url)
        print(f"restore of {count} rows: {back:.0f} a second; pushed by NDJSON: {plain:.0f}; ratio "
              f"{back / plain:.2f}")
        ratios = [ours / theirs for ours, theirs in zip(rates, bares)]
        print(f"jobs a second: bare loop {statistics.median(bares):.0f}, journal "
              f"{statistics.median(rates):.0f}, ratio {statistics.median(ratios):.2f} "
              f"({', '.join(f'{ratio:.2f}' for ratio in ratios)})")
        extra = [cost / plain for cost, plain in zip(costs, plains)]
        print(f"main thread, ns a push: without {statistics.median(plains):.0f}, with "
              f"{statistics.median(costs):.0f}, ratio {statistics.median(extra):.3f} "
              f"({', '.join(f'{ratio:.3f}' for ratio in extra)})")
    finally:
        with_it.kill()
        without.kill()
        maria.stop()
        subprocess.run(["rm", "-rf", folder], check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
