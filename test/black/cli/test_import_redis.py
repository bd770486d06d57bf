"""later import redis: the layouts of three older servers, written by hand into a real Redis."""

import json
import os
import socket
import socketserver
import struct
import threading
import time

import pytest
from importing import Source, importer_of
from redis import REDIS_SERVER, free_port
from wire import Client

DONE, NOTHING, USAGE, CONFLICT, REFUSED, UNREACHABLE, WRONG = range(7)

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server on this machine")


class Redis(Source):
    """A redis-server of the test's own, on a port and on a socket, and one connection to it. The
    connection is over the socket, for nobody else can have that one."""

    def __init__(self, folder, *arguments):
        self.path = str(folder / "redis.socket")
        for _ in range(10):  # somebody else may have taken the port
            self.port = free_port()
            if self.start([REDIS_SERVER, "--port", str(self.port), "--bind", "127.0.0.1",
                           "--unixsocket", self.path, "--save", "", "--appendonly", "no",
                           "--dir", str(folder), *arguments], self.path):
                return
        raise AssertionError("redis-server does not start")

    def url(self, db=1, user=""):
        return f"redis://{user}127.0.0.1:{self.port}/{db}"

    def _reply(self):
        line = self.file.readline()[:-2]
        kind, rest = line[:1], line[1:]
        assert kind != b"-", line
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def __call__(self, *words):
        return self.many([words])[0]

    def many(self, commands):
        out = []
        for words in commands:
            words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
            out += [b"*%d\r\n" % len(words)] + [b"$%d\r\n%s\r\n" % (len(word), word)
                                                for word in words]
        self.socket.sendall(b"".join(out))
        return [self._reply() for _ in commands]


@pytest.fixture
def redis(tmp_path, starter):
    return starter(lambda *arguments: Redis(tmp_path, *arguments))


@pytest.fixture
def importer(laterd):
    return importer_of(laterd, "redis", "--layout")


def packed(value):
    """MessagePack as the Go server's encoder has it: sized strings, 64-bit integers."""
    if isinstance(value, dict):
        return bytes([0x80 | len(value)]) + b"".join(packed(x) for kv in value.items() for x in kv)
    if isinstance(value, int):
        return b"\xd3" + struct.pack(">q", value)
    value = value if isinstance(value, bytes) else value.encode()
    if len(value) < 32:
        return bytes([0xa0 | len(value)]) + value
    if len(value) < 256:
        return b"\xd9" + bytes([len(value)]) + value
    if len(value) < 65536:
        return b"\xda" + struct.pack(">H", len(value)) + value
    return b"\xdb" + struct.pack(">I", len(value)) + value


def job(name, topic, delay, ttr=60, body=""):
    return packed({"1": topic, "2": name, "3": int(delay), "4": ttr, "5": body})


def held(server, name):
    with Client(server.port) as client:
        return client.get(f"/v1/jobs/{name}").json()


def summary(answer):
    return json.loads(answer.stdout.splitlines()[-1])


def fill_delay_queue(redis, now):
    """One job of each kind. Popped: its pool entry has the old time, its bucket the end of ttr."""
    redis("SELECT", 1)
    for name, topic, delay, ttr, body in (
            ("later", "orders", now + 1000, 60, '{"n":1}'),
            ("second", "orders", now - 50, 60, "two"),
            ("first", "orders", now - 5, 60, "one"),
            ("popped", "mail", now - 20, 300, "p" * 70000),
            ("moved", "mail", now + 2000, 61, "the newer push"),
            ("stray", "mail", now + 3000, 62, b"\xff\x00bytes"),
            ("订单:1", "订单", now + 4000, 86400, "你好")):
        redis("SET", name, job(name, topic, delay, ttr, body))
    redis("ZADD", "dq_bucket_1", now + 1000, "later", now + 280, "popped")
    redis("ZADD", "dq_bucket_2", now + 100, "moved", now + 2000, "moved", now + 4000, "订单:1")
    redis("ZADD", "dq_bucket_3", now + 9000, "moved", now - 3, "done")
    redis("ZADD", "dq_bucket_2", now + 100, "moved")
    redis("RPUSH", "dq_queue_orders", "first", "done-too", "second", "first")


def test_each_kind_of_job_of_the_go_server_is_imported_as_it_was(importer, redis):
    source, now = redis(), int(time.time())
    fill_delay_queue(source, now)
    before = sorted((key, source("DUMP", key)) for key in source("KEYS", "*"))
    answer = importer("delay-queue", source.url(), "--json")
    assert (answer.returncode, answer.stderr) == (DONE, "")
    assert before == sorted((key, source("DUMP", key)) for key in source("KEYS", "*"))
    total = summary(answer)
    assert (total["jobs"], total["created"], total["stray"], total["gone"]) == (7, 7, 1, 2)
    assert {topic["name"]: topic for topic in total["topics"]}["mail"] == {
        "name": "mail", "ready": 0, "delayed": 1, "reserved": 1, "stray": 1}
    server = importer.server
    for name, state, due, ttr in (("later", "delayed", now + 1000, 60),
                                  ("popped", "delayed", now + 280, 300),
                                  ("moved", "delayed", now + 2000, 61),
                                  ("stray", "delayed", now + 3000, 62),
                                  ("%E8%AE%A2%E5%8D%95%3A1", "delayed", now + 4000, 86400)):
        one = held(server, name)
        assert (one["state"], one["due_ms"], one["ttr_ms"]) == (state, due * 1000, ttr * 1000), name
    assert held(server, "popped")["body"] == "p" * 70000
    assert held(server, "stray")["body_base64"] == "/wBieXRlcw=="
    assert held(server, "%E8%AE%A2%E5%8D%95%3A1")["body"] == "你好"
    with Client(server.port) as client:
        jobs = client.post("/v1/reserve", topics=["orders"], max=5).json()["jobs"]
    assert [one["id"] for one in jobs] == ["first", "second"]  # the list's order, not the time's


def test_a_dry_run_sends_nothing_and_says_what_is_there(importer, redis):
    source, now = redis(), int(time.time())
    fill_delay_queue(source, now)
    answer = importer("delay-queue", f"unix://{source.path}", "--dry-run")
    assert answer.returncode == NOTHING and "holds nothing" in answer.stderr  # database 0
    answer = importer("delay-queue", source.url(), "--dry-run")
    assert answer.returncode == DONE
    assert "7 jobs; nothing was sent" in answer.stdout
    assert "in no bucket and no list (STRAY), due at their own time: 1\n" in answer.stdout
    assert "entries whose job is gone, as after a finish: 2\n" in answer.stdout
    with Client(importer.server.port) as client:
        assert client.get("/v1/topics").json()["topics"] == []


def test_an_import_that_is_run_again_doubles_nothing(importer, redis, tmp_path):
    source, now = redis(), int(time.time())
    source("SELECT", 1)
    source.many([("SET", f"job-{n}", job(f"job-{n}", f"t{n % 7}", now + 1000 + n, 60, "x" * n))
                 for n in range(3000)])
    source.many([("ZADD", f"dq_bucket_{n % 3 + 1}", now + 1000 + n, f"job-{n}")
                 for n in range(3000)])
    assert "\n3000 jobs; nothing was sent\n" in importer("delay-queue", source.url(), "--dry-run").stdout
    first = importer("delay-queue", source.url(), "--map", str(tmp_path / "ids"))
    assert first.returncode == DONE, first.stderr
    assert "3000 imported, 0 there already, 0 refused" in first.stdout
    lines = (tmp_path / "ids").read_text().splitlines()
    assert sorted(lines) == sorted(f"job-{n}\tjob-{n}" for n in range(3000))
    again = summary(importer("delay-queue", source.url(), "--json"))
    assert (again["created"], again["kept"]) == (0, 3000)
    beside = summary(importer("delay-queue", source.url(), "--json", "--prefix", "old."))
    assert beside["created"] == 3000
    assert held(importer.server, "old.job-2999")["topic"] == "t3"


def test_what_is_foreign_or_broken_is_named_and_the_rest_is_imported(importer, redis):
    source, now = redis(), int(time.time())
    source("SELECT", 1)
    source("SET", "good", job("good", "t", now + 99))
    source("SET", "session", "hello")
    source("SET", "empty", "")
    source("HSET", "cache", "a", "b")
    source("RPUSH", "another_list", "a")
    source("ZADD", "dq_bucket_x", 1, "a")
    source("ZADD", "dq_bucket_1", now + 99, "good", "inf", "never", -5, "early")
    whole = job("torn", "t", now + 99, 60, "body")
    source("SET", "torn", whole[:-3])
    source("SET", "longer", whole + b"\x00")
    source("SET", "renamed", whole)
    source("SET", "untyped", packed({"1": "t", "2": "untyped", "3": "soon", "4": 60, "5": ""}))
    source("SET", "partial", packed({"1": "t", "2": "partial", "3": now, "4": 60}))
    source("SET", "huge", b"\xdf\xff\xff\xff\xff\xa1")
    answer = importer("delay-queue", source.url())
    assert answer.returncode == WRONG
    for text in ("key session: not of this layout", "key cache: not of this layout"):
        assert text in answer.stderr or "and more of them" in answer.stderr
    assert len(answer.stderr.splitlines()) == 11
    total = summary(importer("delay-queue", source.url(), "--json"))
    assert (total["foreign"], total["damaged"], total["jobs"], total["kept"]) == (5, 8, 1, 1)


def test_names_of_keys_are_those_of_the_old_configuration(importer, redis):
    source, now = redis(), int(time.time())
    source("SET", "a", job("a", "t", now - 9))
    source("ZADD", "q/7/b", now + 500, "a")
    answer = importer("delay-queue", source.url(0), "--bucket-name", "q/%d/b",
                      "--queue-name", "r-%s")
    assert answer.returncode == DONE, answer.stderr
    assert held(importer.server, "a")["due_ms"] == (now + 500) * 1000
    assert importer("delay-queue", source.url(0), "--bucket-name", "q").returncode == USAGE
    assert importer("go", source.url(0)).returncode == USAGE
    assert importer("delay-queue", "http://127.0.0.1").returncode == USAGE
    assert importer("delay-queue", "redis+cluster://127.0.0.1").returncode == USAGE


def test_a_password_is_given_and_one_that_is_wrong_is_reported(importer, redis):
    source = redis("--requirepass", "s3/cret")
    source("AUTH", "s3/cret")
    source("SELECT", 1)
    source("SET", "a", job("a", "t", time.time() + 99))
    assert importer("delay-queue", source.url(user=":s3%2Fcret@")).returncode == DONE
    for user in ("", ":other@"):
        answer = importer("delay-queue", source.url(user=user))
        assert answer.returncode == UNREACHABLE
        assert "NOAUTH" in answer.stderr or "WRONGPASS" in answer.stderr
        assert "other" not in answer.stderr
    source.kill()
    answer = importer("delay-queue", f"redis://127.0.0.1:{source.port}/1")
    assert answer.returncode == UNREACHABLE and "refused" in answer.stderr


def test_a_password_comes_from_a_file_the_url_or_the_environment(importer, redis, tmp_path):
    source, secret = redis("--requirepass", "s3/cret"), tmp_path / "password"
    secret.write_text("s3/cret\n")
    source("AUTH", "s3/cret")
    source("SELECT", 1)
    source("SET", "one", job("one", "t", time.time() + 99))
    right, wrong = {"LATER_REDIS_PASSWORD": "s3/cret"}, {"LATER_REDIS_PASSWORD": "old"}
    assert importer("delay-queue", source.url(), env=right).returncode == DONE
    assert importer("delay-queue", source.url(), env=wrong).returncode == UNREACHABLE
    assert importer("delay-queue", source.url(user=":s3%2Fcret@"), env=wrong).returncode == DONE
    answer = importer("delay-queue", source.url(user=":old@"), "--password-file", secret, env=wrong)
    assert answer.returncode == DONE
    secret.write_text("x" * 256)
    answer = importer("delay-queue", source.url(), "--password-file", secret)
    assert answer.returncode == USAGE and "has up to 255 bytes" in answer.stderr


def test_a_redis_that_hangs_is_given_up_after_the_timeout(importer, redis):
    source = redis()
    os.kill(source.process.pid, 19)
    answer = importer("delay-queue", source.url(), "--timeout", "300ms")
    os.kill(source.process.pid, 18)
    assert answer.returncode == UNREACHABLE and "no answer in time" in answer.stderr


def test_jobs_that_the_server_refuses_are_named(importer, redis, laterd):
    importer.server = laterd({"limits": {"body_bytes": "1K"}})
    source, now = redis(), int(time.time())
    source("SELECT", 1)
    for name, topic, body in (("large", "t", "x" * 2000), ("good", "t", ""), ("@7", "t", ""),
                              ("far", "t" * 300, ""), (b"\xff", "t", "")):
        source("SET", name, job(name, topic, now + 99, 60, body))
    answer = importer("delay-queue", source.url())
    assert answer.returncode == REFUSED
    assert "1 imported, 0 there already, 4 refused" in answer.stdout
    assert "job large of topic t: " in answer.stderr
    assert "its topic is longer than 200 bytes" in answer.stderr


def test_sdmq_jobs_come_with_all_that_was_said_of_them_and_without_those_that_are_done(importer, redis):
    source, now = redis(), int(time.time() * 1000)

    def put(name, delay, created=now, **more):
        value = {"body": "b:" + name, "createTime": created, "delay": delay, "id": name,
                 "status": 1, "subtopic": "s", "topic": "pay", "ttl": 0, **more}
        source("HSET", "io.sdmq:main:pools", name, json.dumps(value))

    put("pay:1:10.0.0.1:77", 60000)
    put("prio", 90000, priority=3, bizKey="17", extendData="{\"a\":1}", ttl=12)
    put("ready", 1000, now - 5000, status=2)
    put("finished", 1000, now - 5000, status=3)
    put("deleted", 600000, status=4)
    put("bodiless", 70000, body=None)
    source("HSET", "io.sdmq:main:pools", "torn", '{"id":"torn","topic"')
    source("ZADD", "io.sdmq:main:1", now + 60000, "pay:1:10.0.0.1:77", now + 90000, "prio")
    source("ZADD", "io.sdmq:main:2", now + 600000, "deleted", now + 70000, "bodiless")
    source("RPUSH", "io.sdmq:main:ready", "ready", "finished")
    source("SET", "io.sdmq:main:ready:LOCK", "x")
    source("HSET", "io.sdmq:other:pools", "prio", source("HGET", "io.sdmq:main:pools", "prio"))
    answer = importer("sdmq", source.url(0), "--json")
    assert answer.returncode == WRONG and "job torn: it is no JSON" in answer.stderr
    assert "job prio: its id is in two pools" in answer.stderr
    total = summary(answer)
    assert (total["created"], total["finished"], total["damaged"], total["foreign"]) == (4, 2, 2, 0)
    one = held(importer.server, "pay%3A1%3A10.0.0.1%3A77")
    assert (one["due_ms"], one["body"]) == (now + 60000, "b:pay:1:10.0.0.1:77")
    assert one["subtopic"] == "s" and "biz_key" not in one and one["ttr_ms"] == 60000
    prio = held(importer.server, "prio")
    assert (prio["priority"], prio["rank"], prio["due_ms"]) == (0, 3, now + 90000)
    assert (prio["biz_key"], prio["subtopic"], prio["extend_data"], prio["ttr_ms"]) == ("17", "s", "{\"a\":1}", 12000)
    assert prio["create_time"].startswith(str(time.gmtime(now // 1000).tm_year))
    assert held(importer.server, "ready")["state"] == "ready"
    assert held(importer.server, "bodiless")["body"] == ""


@pytest.mark.parametrize("wrapped", [False, True])
def test_delayqueue_java_jobs_in_both_ways_that_redisson_writes_longs(importer, redis, wrapped):
    source, now = redis(), int(time.time() * 1000)

    def number(value):
        return json.dumps(["java.lang.Long", value] if wrapped else value, separators=(",", ":"))

    for name, due, topic in ((7, now + 60000, "pay"), (2**62, now - 9000, "pay"),
                             (9, now + 50000, "mail")):
        source("HSET", "delayQueueJobPool", number(name), json.dumps(
            {"@class": "com.example.core.DelayQueueJob", "delayTime": due, "id": name,
             "message": f"m{name}", "topic": topic, "ttrTime": 30}))
    for name, due in ((7, now + 60000), (9, now + 50000), (11, now)):
        source("ZADD", f"delayBucket{name % 10}", due, json.dumps(
            {"@class": "com.example.core.ScoredSortedItem", "delayQueueJobId": name,
             "delayTime": due}))
    source("RPUSH", "pay", number(2**62))
    answer = importer("delayqueue-java", source.url(0), "--json")
    assert (answer.returncode, answer.stderr) == (DONE, "")
    total = summary(answer)
    assert (total["created"], total["stray"], total["gone"]) == (3, 0, 1)
    one = held(importer.server, "7")
    assert (one["topic"], one["due_ms"], one["ttr_ms"], one["body"]) == (
        "pay", now + 60000, 30000, "m7")
    assert held(importer.server, str(2**62))["state"] == "ready"


class Rehashing(socketserver.StreamRequestHandler):
    """A Redis with one key, which SCAN shows twice: it may do so while its table grows."""

    def words(self):
        for _ in range(int(self.rfile.readline()[1:] or 0)):
            length = int(self.rfile.readline()[1:])
            yield self.rfile.read(length + 2)[:-2].decode()

    def handle(self):
        value = json.dumps({"id": "a", "topic": "t", "delay": 1000, "createTime": int(time.time() * 1000), "body": "b"})

        def array(*texts):
            return f"*{len(texts)}\r\n" + "".join(f"${len(text)}\r\n{text}\r\n" for text in texts)

        pool = "io.sdmq:main:pools"
        replies = {"SELECT": "+OK\r\n", "TYPE": "+hash\r\n",
                   "SCAN": "*2\r\n$1\r\n0\r\n" + array(pool, pool),
                   "HSCAN": "*2\r\n$1\r\n0\r\n" + array("a", value)}
        while words := list(self.words()):
            self.wfile.write(replies[words[0]].encode())


def test_a_key_that_redis_shows_twice_is_read_once(importer):
    with socketserver.TCPServer(("127.0.0.1", 0), Rehashing) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        answer = importer("sdmq", f"redis://127.0.0.1:{server.server_address[1]}/0", "--json")
    assert (answer.returncode, answer.stderr) == (DONE, "")
    assert (summary(answer)["created"], summary(answer)["damaged"]) == (1, 0)
