"""The scripts of the Redis engine, driven directly.

The arguments are made here from docs/redis-layout.md, so a slip in the encoder in C cannot hide one
in a script. valid() asks that every live job is in exactly one structure.
"""

import functools
import math
import os
import re
import socket
import struct
import subprocess
import time

import pytest
from patience import PATIENCE_S
from redis import REDIS_SERVER, cluster_ports

SCRIPTS = os.path.join(os.path.dirname(__file__), "../../src/engine/redis/scripts")
FOREVER = 2**53 - 1
ERRORS = ["ok", "not_found", "exists", "stale_lease", "wrong_state", "empty", "invalid",
          "jobs_limit", "topics_limit"]
DELAYED, READY, RESERVED, BURIED = 1, 2, 3, 4
STATES = {DELAYED: "delayed", READY: "ready", RESERVED: "held", BURIED: "buried"}
HOUR = 3600 * 1000000
# Around what is not the common case, as script_text.c has it.
SLOW_PATH = (b"local function slow_path(keys, base, count)\nlocal KEYS, ARGV = KEYS, ARGV\nif #ARGV > count then\n"
             b"KEYS, ARGV = { unpack(KEYS, keys + 1, keys + 4) }, { unpack(ARGV, base + 1, base + count) }\nend\n")
END = b"end\n"
ALONE = b"local routes, routes_from, args_from, many, likely_topic = nil, 0, 0, nil, nil\n"
PROMOTE_SLOW_PATH = b"local function slow_path()\n"
JOB_FUNCTIONS = b"local function job_functions()\n"
# What comes before the script itself, as script_text.c puts it; "entry" is in all that change jobs.
START = ["clock", "marks", "common"]
SHARED = [*START, "record", "notify", "job"]
HOT = ["clock", "marks", ALONE, SLOW_PATH, *SHARED[2:]]  # of those that have a fast path
PARTS = {"push": [*HOT, "entry", "room", "push_slow", END, "push"],
         "reserve": [*HOT[:3], "close", SLOW_PATH, "common", JOB_FUNCTIONS, "record", "entry", "reserve_jobs", END,
                     "reserve_slow", END, "reserve"],
         "topic": [*SHARED, "room", "topic"],
         "settings": [*SHARED, "room", "settings"],
         "end": [*HOT, "entry", "end_slow", END, "end"],
         "list": [*START, "record", "walk", "list"],
         "sweep": [*SHARED, "entry", "walk", "sweep"],
         "promote": ["clock", "marks", PROMOTE_SLOW_PATH, *SHARED[2:], "entry", "counts", "promote_slow", END, "promote"],
         "rebuild": [*SHARED, "counts", "rebuild"],
         "open": [*START, "record", "entry", "open"],
         **{name: [*START, name] for name in ("heartbeat", "count_due", "set_clock", "journal")},
         **{name: [*SHARED, "entry", name] for name in ("reap_dead", "change", "resync")}}
HEAD = struct.Struct("<BBHQQ8sHHHHHIIQ")
FIELDS = ("state flags reserves until lease holder failures timeouts releases buries kicks "
          "priority delay_s due").split()
INLINE_MAX = 1024
COMPACT, AHEAD_BASE = 32, 1024  # of a record: docs/redis-layout.md


class RedisError(Exception):
    pass


class Connection:
    """RESP, as much of it as is needed."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb")

    def send(self, *args):
        out = [b"*%d\r\n" % len(args)]
        for arg in args:
            arg = arg if isinstance(arg, bytes) else str(arg).encode()
            out.append(b"$%d\r\n%s\r\n" % (len(arg), arg))
        self.socket.sendall(b"".join(out))

    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            size = int(rest)
            return None if size < 0 else self.file.read(size + 2)[:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        if kind == b"-":
            raise RedisError(rest.decode())
        return int(rest) if kind == b":" else rest

    def call(self, *args):
        self.send(*args)
        return self.read()

    def close(self):
        self.file.close()
        self.socket.close()


class Ear(Connection):
    """Hears what partition 3 tells all daemons, and what it tells these."""

    def __init__(self, port, *daemons):
        super().__init__(port)
        channels = ["{laterd:3}:notice", *(b"{laterd:3}:notice:" + daemon for daemon in daemons)]
        self.send("SSUBSCRIBE", *channels)
        for _ in channels:
            self.read()
        self.socket.settimeout(PATIENCE_S)

    def hear(self):
        return self.read()[2]

    def silent(self):
        """Was there no more to be heard? What was told by now comes before the answer to this."""
        self.send("PING")
        return self.read() == [b"pong", b""]


@functools.lru_cache(maxsize=None)
def script_text(name):
    parts = PARTS.get(name, [*SHARED, name])
    text = b""
    for part in parts:
        if isinstance(part, bytes):
            text += part
            continue
        with open(os.path.join(SCRIPTS, part + ".lua"), "rb") as file:
            text += file.read()
    text = b"".join(code_of(line) + b"\n" for line in text.splitlines())
    return re.sub(rb"(HEAD|COMPACT|SHORT|LONG)\.([A-Z_]+)",
                  lambda found: head_word(found[1].decode(), found[2].decode()), text)


def code_of(line):
    """A line without its indentation and comment: what laterd sends of it."""
    code = rb"""((?:[^'"-]|-(?!-)|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")*)"""
    return re.match(code, line.strip(b" "))[1].rstrip(b" ")


@functools.lru_cache(maxsize=None)
def head_fields(which):
    """name: (format, offset, bytes), in the order of the table in job_head.h."""
    fields, at = {}, 0
    with open(os.path.join(SCRIPTS, "../job_head.h"), encoding="utf-8") as file:
        tables = dict(re.findall(r"define (JOB_\w+_FIELDS)\(FIELD\)(.*?)\n\n", file.read(), re.DOTALL))
    table = re.sub(r"(JOB_\w+_FIELDS)\(FIELD\)", lambda found: tables[found[1]],
                   tables["JOB_%s_FIELDS" % which])
    for name, form, size in re.findall(r'FIELD\((\w+), "(\w+)", (\d)\)', table):
        fields[name] = (form, at, int(size))
        at += int(size)
    assert at == {"HEAD": 54, "COMPACT": 28, "SHORT": 33, "LONG": 46}[which]  # docs/redis-layout.md
    return fields, at


def head_word(which, word):
    """What script_text.c puts where a script says HEAD.word."""
    fields, size = head_fields(which)
    names = list(fields)
    if word in fields:
        return b"%d" % (fields[word][1] + 1)
    if word in ("BYTES", "TOPIC"):
        return b"%d" % (size + (word == "TOPIC"))
    if "_TO_" in word:
        first, last = map(names.index, word.split("_TO_"))
        return b"'<%s'" % "".join(fields[name][0] for name in names[first:last + 1]).encode()
    if word.endswith("_END"):
        _, at, size = fields[word[:-len("_END")]]
        return b"%d" % (at + size)
    return b"'<%s'" % fields[word[:-len("_FORMAT")]][0].encode()


class Server:
    """A Redis of our own on a free loopback port."""

    def __init__(self, where, *options):
        [self.port] = cluster_ports(1)  # it may be told to be of a cluster
        self.process = subprocess.Popen(
            [REDIS_SERVER, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(where),
             "--save", "", "--appendonly", "no", *options], stdout=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                Connection(self.port).close()
                break
            except OSError:
                time.sleep(0.05)

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Answer:
    def __init__(self, first):
        (err, self.state, self.flags, _, self.count, self.next_us, self.seq,
         self.now) = struct.unpack("<BBBBIQQQ", first)
        self.err = ERRORS[err]
        self.kept, self.replaced = bool(self.flags & 1), bool(self.flags & 2)
        self.more = bool(self.flags & 4)
        self.marked = bool(self.flags & 16)
        self.jobs = []


def small(number, size):
    return number.to_bytes(size, "little")


class Job:
    """As an answer has it: number, head if there is one, record; `whole`: with its content."""

    def __init__(self, text, whole=False):
        self.seq, = struct.unpack(">Q", text[:8])
        head, record = (b"", text[8:]) if text[8] & 128 else (text[8:8 + HEAD.size], text[8 + HEAD.size:])
        self.form, self.id_len, self.topic_len, self.retries = record[:4]
        self.state, self.reserves, self.until, self.lease, self.holder = 1, 0, 0, 0, b"\0" * 8
        self.failures = self.timeouts = self.releases = self.buries = self.kicks = 0
        self.flags, self.body_kind = self.form & 2, self.form >> 2 & 1
        if self.form & 1:
            self.priority, = struct.unpack("<I", record[4:8])
            self.ttr = int.from_bytes(record[8:15], "little")
            self.delay_s, = struct.unpack("<I", record[15:19])
            self.due, self.created = (int.from_bytes(record[at:at + 7], "little") for at in (19, 26))
            self.sum, self.type_len, self.body_len = struct.unpack("<QBI", record[33:46])
            at = 46
        else:
            self.priority, ttr = struct.unpack("<HH", record[4:8])
            self.ttr, self.type_len = ttr * 1000000, 0
            self.delay_s = int.from_bytes(record[8:11], "little")
            self.due = int.from_bytes(record[11:18], "little")
            if self.form & COMPACT:
                self.created = self.seq + AHEAD_BASE - int.from_bytes(record[18:20], "little")
                at = 28
            else:
                self.created = int.from_bytes(record[18:25], "little")
                at = 33
            self.sum, = struct.unpack("<Q", record[at - 8:at])
        if head:
            vars(self).update(zip(FIELDS, HEAD.unpack(head)))
        self.topic = record[at:at + self.topic_len].decode()
        at += self.topic_len
        self.id = record[at:at + self.id_len].decode()
        at += self.id_len
        self.waits = struct.unpack("<%dQ" % self.retries, record[at:at + 8 * self.retries])
        self.content = record[at + 8 * self.retries:]
        if not whole:
            rest, self.content = self.content, None
            if not self.form & 1:
                self.body_len, = struct.unpack("<H", rest)
        elif not self.form & 1:
            self.body_len = len(self.content)


def record_of(topic, id, body, due, priority, ttr, delay_s, waits=(), arrival=False):
    """What comes before the time of making, what after it, and what is apart."""
    names = topic.encode() + id.encode() + struct.pack("<%dQ" % len(waits), *waits)
    form, apart = 128 | (2 if arrival else 0), b""
    if len(body) <= INLINE_MAX and priority < 1 << 16 and ttr % 1000000 == 0 and ttr < 65536000000:
        start = struct.pack("<BBBBHH", form | COMPACT, len(id), len(topic), len(waits), priority, ttr // 1000000)
        return start + small(delay_s, 3) + small(due, 7), struct.pack("<Q", 77) + names + body, apart
    start = struct.pack("<BBBBI", form | 1, len(id), len(topic), len(waits), priority)
    start += small(ttr, 7) + small(delay_s, 4) + small(due, 7)
    rest = struct.pack("<QBI", 77, 0, len(body)) + names
    if len(body) > INLINE_MAX:
        return bytes([start[0] | 8]) + start[1:], rest, body
    return start, rest + body, apart


def first_of(text):
    """(priority, rank) of what is still ready in a topic, None, or "unseen"."""
    if text[:11] == b"\xff" * 11:
        return None if text[11] == 255 else "unseen"
    return struct.unpack(">IQ", text[:12])


class Queue:
    """One partition, seen by one daemon."""

    def __init__(self, port, partition=3, partitions=16, daemon=b"daemon-1", prefix="laterd"):
        self.redis = Connection(port)
        self.partition, self.partitions, self.daemon = partition, partitions, daemon
        self.keys = ["{%s:%d}:%s" % (prefix, partition, end) for end in "hdlo"]
        self.buckets = [f"{self.keys[0][:-1]}j{n}" for n in range(256)]
        self.digests = {}
        self.asks = False  # the slot is on its way to this server
        self.ahead_us = 0  # of Redis' clock, by which requests say that the queue's is
        self.number = 0
        self.last = None

    def run(self, script, *args, number=None, again=False):
        if script not in self.digests:
            self.digests[script] = self.redis.call("SCRIPT", "LOAD", script_text(script))
        if number is None:
            self.number += 1
            number = self.number
        request = self.request(number, again)
        self.last = (script, args, number)
        parts = self.redis.call("EVALSHA", self.digests[script], 4, *self.keys, request, *args)
        if isinstance(parts, bytes):  # alone it stands for an array of one
            parts = [parts]
        answer = Answer(parts[0])
        while script == "reserve" and any(part[:1] == b"r" for part in parts[1:-1]):  # a job in two parts
            at = next(at for at, part in enumerate(parts) if at and part[:1] == b"r")
            parts[at:at + 2] = [parts[at][3:] + parts[at + 1]]
        if script == "push" and answer.err == "ok" and len(parts) == 1 and not answer.kept:  # the head is what was sent
            start = bytes([args[0][0] & ~COMPACT]) + args[0][1:]
            parts.append(struct.pack(">Q", answer.seq) + start + small(answer.now, 7) + args[1] + args[2])
        return answer, parts[1:]

    def request(self, number, again=False, place=None):
        """ARGV[1] of a script; `place` in the ring, if it is not the usual one."""
        place = number % 4096 if place is None else place
        return (b"%d" % (again + 2 * self.asks) + b"a" + self.daemon + struct.pack(">H", place)
                + struct.pack("<QQQQ", number, 0, FOREVER, self.ahead_us))  # no bounds of the clock

    def repeat(self):
        """The reply to the last request was lost: it is sent again."""
        script, args, number = self.last
        answer, parts = self.run(script, *args, number=number, again=True)
        return self.with_jobs(script, answer, parts)

    def with_jobs(self, script, answer, parts):
        whole = script == "change" and self.last[1][0] == "v"
        if script == "reserve":
            *parts, firsts = parts
            answer.firsts = [first_of(firsts[i:i + 13]) for i in range(0, len(firsts), 13)]
        if script in ("reserve", "get"):
            answer.jobs = [Job(part, True) for part in parts]
        elif script in ("push", "end", "change") and parts and parts[0]:  # a stored refusal has an empty one
            answer.jobs = [Job(parts[0], script == "push" and not answer.kept or whole)]
        return answer

    def ask(self, script, *args):
        answer, parts = self.run(script, *args)
        return self.with_jobs(script, answer, parts)

    def now(self):
        seconds, micros = self.redis.call("TIME")
        return int(seconds) * 1000000 + int(micros) + self.ahead_us

    def open(self, partitions=None, places=4096, layout=4, journal=""):
        return self.ask("open", self.partition, partitions or self.partitions,
                        "{laterd:%d}:notice" % self.partition, layout, places, 0, 0, journal, "r", 0)

    def beat(self, how="y", kept_us=HOUR, fresh_us=HOUR, look="l"):
        """{daemon: (how, when)}, as all daemons have said."""
        answer, parts = self.run("heartbeat", how, kept_us, look, fresh_us)
        records = [parts[0][at:at + 17] for at in range(0, len(parts[0]), 17)]
        assert answer.count == len(records)
        return {record[:8]: (record[8:9].decode(), struct.unpack("<Q", record[9:])[0])
                for record in records}

    def forget(self, *living, most=100, young_us=0):
        """All daemons but these, and this one; none: this one."""
        names = b"".join(living + (self.daemon,)) if living else b""
        forgotten, start = 0, b""
        while True:
            answer = self.ask("reap_dead", most, names, young_us, start)
            forgotten += answer.count
            if not answer.more or most < 100:
                answer.count = forgotten
                return answer
            start = struct.pack("<Q", answer.seq) if answer.seq else b""

    def promote(self, most=100):
        return self.ask("promote", most)

    def push(self, *topic, **job):
        return self.ask("push", *self.push_words(*topic, **job))

    def push_many(self, jobs):
        """In one call, each as push() has it. The first of each one's answers."""
        words = []
        for place, job in enumerate(jobs):
            self.number += 1
            words += [self.request(self.number, place=place), *self.push_words(**job)]
        digest = self.redis.call("SCRIPT", "LOAD", script_text("push"))
        return [Answer(one[0] if isinstance(one, list) else one)
                for one in self.redis.call("EVALSHA", digest, 4, *self.keys, *words)]

    def push_words(self, topic="t", body=b"body", due=0, priority=5, ttr=HOUR, id="", exists="j", ranks="d",
                   waits=(), limits=()):
        delay_s = max(0, math.ceil((due - self.now()) / 1000000)) if due else 0
        before, behind, apart = record_of(topic, id, body, due, priority, ttr, delay_s, waits, ranks == "a")
        start = bytes([len(topic)]) + topic.encode() + struct.pack(">I", priority)
        start += b"" if ranks == "a" else struct.pack(">Q", due)
        delayed = b"w" + start[:1 + len(topic)] + struct.pack(">QI", due, priority)
        jobs, topics = limits or (0, 0)
        return (before, behind, apart, due, start, "#p" + topic, id and "i" + id,
                ranks, exists, jobs or FOREVER, topics, delayed)

    def reserve(self, *topics, most=1, options="", most_bytes=1 << 24):
        return self.ask("reserve", options, most, most_bytes, *topics)

    @staticmethod
    def ref(job):
        return ("", struct.pack(">Q", job)) if isinstance(job, int) else (job, b"\0" * 8)

    def finish(self, job, lease=0):
        return self.ask("end", "f", *self.ref(job), lease, "")

    def delete(self, job, lease=0, options=""):
        return self.ask("end", "d", *self.ref(job), lease, options)

    def change(self, what, job, lease=0, options="", due="", priority="", ttr="", new=None):
        extra = ("",) if new is None else (struct.pack("<BBIQ", 0, 0, len(new), 78), new)
        return self.ask("change", what, *self.ref(job), lease, options, due, priority, ttr, *extra)

    def get(self, job):
        return self.ask("get", "", *self.ref(job))

    def list(self, topic, state, after=(-1, 0), most=100, kind="l"):
        jobs, start = [], b""
        while True:
            answer, parts = self.run("list", kind, state, topic, start, after[0], after[1], most)
            if answer.err != "ok":
                return jobs
            if kind == "p":
                return [Job(parts[1], True)] if len(parts) > 1 else []
            jobs += [Job(head) for head in parts[1:]]
            start = parts[0]
            if not answer.more:
                return jobs

    def sweep(self, what, topic, state, most, start=b""):
        answer, parts = self.run("sweep", what, state, topic, start, most)
        return answer, parts[0]

    def topic(self, name):
        answer, parts = self.run("topic", "t", name, 0, 0, "")
        if answer.err != "ok":
            return None
        names = ("ready urgent buried oldest held pushed reserved finished deleted "
                 "replaced timeouts released buried_ever kicked pauses pause_until pause_us next_due").split()
        figures = dict(zip(names, struct.unpack("<18Q", parts[1])))
        elsewhere = "finished deleted replaced ready buried held".split()
        figures["delayed"] = figures["pushed"] - sum(figures[name] for name in elsewhere)
        return figures

    def close(self):
        self.redis.close()


def place(job):
    rank = job.created if job.flags & 2 else job.due
    return bytes([job.topic_len]) + job.topic.encode() + struct.pack(">IQQ", job.priority, rank, job.seq)


def delayed_place(job):
    rank = struct.pack(">Q", job.created) if job.flags & 2 else b""
    return bytes([job.topic_len]) + job.topic.encode() + struct.pack(">QIQ", job.due, job.priority, job.seq) + rank


# What lies in the buckets: those alone that are not as an empty one must be, for there are 256.
FILLED = """local filled = {}
for i, key in ipairs(KEYS) do
    local flat = redis.call('HGETALL', key)
    if #flat ~= 2 or flat[1] ~= '!' or flat[2] ~= '' then filled[#filled + 1] = { i - 1, flat } end
end
return filled"""


def valid(queue):
    """Every live job is in exactly one structure, and every place has its job. Returns the jobs."""
    redis = queue.redis
    flat = redis.call("HGETALL", queue.keys[0])
    fields = dict(zip(flat[::2], flat[1::2]))
    where = {}
    filler = b"\xff" * 65
    flat = redis.call("ZRANGE", queue.keys[1], 0, -1, "WITHSCORES")
    assert all(member == filler or member[:1] == b"\0" for member in flat[::2])  # no places, as layout 2 had
    firsts = {member[1:].decode(): int(score) for member, score in zip(flat[::2], flat[1::2]) if member != filler}
    flat = redis.call("ZRANGE", queue.keys[2], 0, -1, "WITHSCORES")
    for member, score in zip(flat[::2], flat[1::2]):
        if member != filler:
            where.setdefault(member[-8:], []).append((RESERVED, member, int(score)))
    topics, holds, daemons = set(), set(), set()
    for member in redis.call("ZRANGE", queue.keys[3], 0, -1):
        kind, rest = member[:1], member[1:]
        if kind == b"r":
            where.setdefault(rest[-8:], []).append((READY, rest, 0))
        elif kind == b"w":
            at = 2 + rest[0] + 12
            where.setdefault(rest[at - 1:at + 7], []).append((DELAYED, rest, 0))
        elif kind == b"b":
            where.setdefault(rest[-8:], []).append((BURIED, rest, 0))
        elif kind == b"t":
            topics.add(rest.decode())
        elif kind == b"h":
            holds.add((rest[:8], rest[8:]))
        elif kind == b"d":
            daemons.add(rest)
    assert {daemon for daemon, _ in holds} <= daemons
    jobs = {}
    for number, flat in redis.call("EVAL", FILLED, len(queue.buckets), *queue.buckets):
        there = dict(zip(flat[::2], flat[1::2]))
        assert there.pop(b"!") == b""
        for name in [field for field in there if len(field) == 8]:
            assert name[5] == number
            record, head = there.pop(name), there.pop(b"+" + name, b"")
            body = there.pop(b"*" + name) if record[0] & 8 else b""
            job = Job(name + head + record + body, True)
            jobs[job.seq] = job
            assert job.seq % queue.partitions == queue.partition and job.topic in topics
            assert len(where.get(name, [])) == 1, (job.seq, where.get(name))
            state, member, score = where.pop(name)[0]
            job.place = state
            if state == BURIED:
                assert job.state == BURIED
                since = struct.pack(">QQ", job.until, job.seq)
                assert member == bytes([job.topic_len]) + job.topic.encode() + since
            elif state == DELAYED:
                assert member == delayed_place(job)
            else:
                assert member == place(job)
            if state == DELAYED:
                assert job.state == 1 and firsts[job.topic] <= job.due
            if state == RESERVED:
                assert job.state == RESERVED and score == job.until and job.lease > 0
            else:
                assert job.lease == 0 and not job.flags & 1
            assert ((job.holder, name) in holds) == bool(job.flags & 1)
            holds.discard((job.holder, name))
            if job.id:
                assert fields[b"i" + job.id.encode()] == name
        assert not there
    assert not where and not holds and set(firsts) <= topics
    assert not any(field[:1] in (b"j", b"b") and len(field) == 9 for field in fields)
    assert sum(1 for field in fields if field[:1] == b"i") == sum(1 for job in jobs.values() if job.id)
    pushed = struct.unpack("<Q", fields[b"p"][8:16])[0]
    assert pushed - int(fields.get(b"g", 0)) == len(jobs)
    for topic in topics:
        figures = queue.topic(topic)
        for state, name in STATES.items():
            of = [job for job in jobs.values() if job.topic == topic and job.place == state]
            assert figures[name] == len(of), (topic, name)
    return jobs


@pytest.fixture(scope="module")
def script_port(tmp_path_factory):
    """The port of a redis-server that the scripts of one file share."""
    server = Server(tmp_path_factory.mktemp("redis"))
    yield server.port
    server.stop()


@pytest.fixture
def queue(script_port):
    """An empty partition, looked over when the test is done."""
    queue = Queue(script_port)
    queue.redis.call("FLUSHALL")
    assert queue.open().err == "ok"
    yield queue
    valid(queue)
    queue.close()
