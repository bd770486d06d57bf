"""The scripts of the Redis engine, driven directly, against the dullest model of a queue.

No daemon takes part: the arguments are made here from docs/redis-layout.md, so a slip in the
encoder in C cannot hide one in a script. Time is real: spans are either so long that they never
pass or so short that they have. After each step every live job must be in exactly one structure.
"""

import os
import random
import shutil
import socket
import struct
import subprocess
import time

import pytest

SCRIPTS = os.path.join(os.path.dirname(__file__), "../../src/redis/scripts")
FOREVER = 2**53 - 1
ERRORS = ["ok", "not_found", "exists", "stale_lease", "wrong_state", "empty", "invalid",
          "jobs_limit", "topics_limit"]
DELAYED, READY, RESERVED, BURIED = 1, 2, 3, 4
STATES = {DELAYED: "delayed", READY: "ready", RESERVED: "held", BURIED: "buried"}
HOUR = 3600 * 1000000
PARTS = {"push": ["common", "room", "push"], "put": ["common", "job", "room", "push"],
         "reserve": ["common", "reserve"], "topic": ["common", "job", "room", "topic"],
         "end": ["common", "end", "job", "end_other"],
         "list": ["common", "job", "walk", "list"], "sweep": ["common", "job", "walk", "sweep"]}
HEAD = struct.Struct("<BBHQQ8sHHHHHBBIIQQQQBBBBIQ")
FIELDS = ("state flags reserves until lease holder failures timeouts releases buries kicks "
          "retries id_len priority delay_s due seq created ttr topic_len body_kind type_len pad body_len sum").split()

pytestmark = pytest.mark.skipif(not shutil.which("redis-server"), reason="no redis-server")


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


def script_text(name):
    parts = PARTS.get(name, ["common", "job", name])
    text = b""
    for part in parts:
        with open(os.path.join(SCRIPTS, part + ".lua"), "rb") as file:
            text += file.read()
    return text


class Server:
    """A Redis of our own on a free loopback port."""

    def __init__(self, where, *options):
        self.port = free_port()
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(where),
             "--save", "", "--appendonly", "no", *options], stdout=subprocess.DEVNULL)
        for _ in range(100):
            try:
                Connection(self.port).close()
                break
            except OSError:
                time.sleep(0.05)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def free_port():
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            if probe.getsockname()[1] < 55536:  # a cluster's bus is 10,000 above
                return probe.getsockname()[1]


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("redis"))
    yield server.port
    server.stop()


class Answer:
    def __init__(self, first):
        (err, self.state, self.flags, _, self.count, self.now, self.next_us,
         self.seq) = struct.unpack("<BBBBIQQQ", first)
        self.err = ERRORS[err]
        self.kept, self.replaced = bool(self.flags & 1), bool(self.flags & 2)
        self.more, self.owner = bool(self.flags & 4), bool(self.flags & 8)
        self.jobs = []


class Job:
    def __init__(self, head, content=None):
        vars(self).update(zip(FIELDS, HEAD.unpack(head[:HEAD.size])))
        at = HEAD.size
        self.topic = head[at:at + self.topic_len].decode()
        at += self.topic_len
        self.id = head[at:at + self.id_len].decode()
        at += self.id_len
        self.waits = struct.unpack("<%dQ" % self.retries, head[at:])
        self.content = content


class Queue:
    """One partition, seen by one daemon."""

    def __init__(self, port, partition=3, partitions=16, daemon=b"daemon-1", prefix="laterd"):
        self.redis = Connection(port)
        self.partition, self.partitions, self.daemon = partition, partitions, daemon
        self.keys = ["{%s:%d}:%s" % (prefix, partition, end) for end in "hdro"]
        self.digests = {}
        self.number = 0
        self.last = None

    def run(self, script, *args, number=None, again=False):
        if script not in self.digests:
            self.digests[script] = self.redis.call("SCRIPT", "LOAD", script_text(script))
        if number is None:
            self.number += 1
            number = self.number
        request = (b"1" if again else b"0") + b"a" + self.daemon
        request += struct.pack(">H", number % 4096) + struct.pack("<Q", number)
        self.last = (script, args, number)
        parts = self.redis.call("EVALSHA", self.digests[script], 4, *self.keys, request, *args)
        answer = Answer(parts[0])
        return answer, parts[1:]

    def repeat(self):
        """The reply to the last request was lost: it is sent again."""
        script, args, number = self.last
        answer, parts = self.run(script, *args, number=number, again=True)
        return self.with_jobs(script, answer, parts)

    @staticmethod
    def with_jobs(script, answer, parts):
        if script in ("reserve", "get"):
            answer.jobs = [Job(parts[i], parts[i + 1]) for i in range(0, len(parts), 2)]
        elif script in ("push", "put", "end", "change") and parts:
            answer.jobs = [Job(parts[0], parts[1] if len(parts) > 1 else None)]
        return answer

    def ask(self, script, *args):
        answer, parts = self.run(script, *args)
        return self.with_jobs(script, answer, parts)

    def now(self):
        seconds, micros = self.redis.call("TIME")
        return int(seconds) * 1000000 + int(micros)

    def hello(self, own_us=0, alive_us=60000000, partitions=None):
        return self.ask("hello", self.partition, partitions or self.partitions, "laterd:notice",
                        own_us, alive_us, 1)

    def promote(self, most=100):
        return self.ask("promote", most)

    def push(self, topic="t", body=b"body", due=0, priority=5, ttr=HOUR, id="", exists="j", ranks="d",
             waits=(), limits=()):
        flags = 2 if ranks == "a" else 0
        head = HEAD.pack(1, flags, 0, 0, 0, b"\0" * 8, 0, 0, 0, 0, 0, len(waits), len(id), priority, 0,
                         due, 0, 0, ttr, len(topic), 0, 0, 0, len(body), 77)
        head += topic.encode() + id.encode() + struct.pack("<%dQ" % len(waits), *waits)
        script = "put" if exists == "p" or ranks == "b" else "push"
        return self.ask(script, head, body, topic, struct.pack(">I", priority), due, id,
                        exists + ranks, *limits)

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
        extra = ("",) if new is None else (struct.pack("<BBBIQ", 0, 0, 0, len(new), 78), new)
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
                return [Job(parts[1], parts[2])] if len(parts) > 1 else []
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
        names = ("ready urgent buried oldest next_due held pushed reserved finished deleted "
                 "replaced timeouts released buried_ever kicked pauses pause_until pause_us").split()
        figures = dict(zip(names, struct.unpack("<18Q", parts[1])))
        elsewhere = "finished deleted replaced ready buried held".split()
        figures["delayed"] = figures["pushed"] - sum(figures[name] for name in elsewhere)
        return figures

    def close(self):
        self.redis.close()


@pytest.fixture
def queue(port):
    queue = Queue(port)
    queue.redis.call("FLUSHALL")
    assert queue.hello().err == "ok"
    yield queue
    valid(queue)
    queue.close()


def place(job):
    rank = job.created if job.flags & 2 else job.due
    return bytes([job.topic_len]) + job.topic.encode() + struct.pack(">IQQ", job.priority, rank, job.seq)


def valid(queue):
    """Every live job is in exactly one structure, and every place has its job. Returns the jobs."""
    redis = queue.redis
    flat = redis.call("HGETALL", queue.keys[0])
    fields = dict(zip(flat[::2], flat[1::2]))
    where = {}
    filler = b"\xff" * 65
    flat = redis.call("ZRANGE", queue.keys[1], 0, -1, "WITHSCORES")
    for member, score in zip(flat[::2], flat[1::2]):
        if member != filler:
            where.setdefault(member[-8:], []).append((DELAYED, member, int(score)))
    flat = redis.call("ZRANGE", queue.keys[2], 0, -1, "WITHSCORES")
    for member, score in zip(flat[::2], flat[1::2]):
        if member != filler and member[0] != 0:
            where.setdefault(member[-8:], []).append((RESERVED, member, int(score)))
    topics, holds = set(), set()
    for member in redis.call("ZRANGE", queue.keys[3], 0, -1):
        kind, rest = member[:1], member[1:]
        if kind == b"r":
            where.setdefault(rest[-8:], []).append((READY, rest, 0))
        elif kind == b"b":
            where.setdefault(rest[-8:], []).append((BURIED, rest, 0))
        elif kind == b"t":
            topics.add(rest.decode())
        elif kind == b"h":
            holds.add((rest[:8], rest[8:]))
    jobs = {}
    for field, value in fields.items():
        if field[:1] == b"j" and len(field) == 9:
            job = Job(value)
            jobs[job.seq] = job
            name = field[1:]
            assert name == struct.pack(">Q", job.seq) and job.seq % queue.partitions == queue.partition
            assert b"b" + name in fields and job.topic in topics
            assert len(where.get(name, [])) == 1, (job.seq, where.get(name))
            state, member, score = where.pop(name)[0]
            job.place = state
            if state == BURIED:
                assert job.state == BURIED
                since = struct.pack(">QQ", job.until, job.seq)
                assert member == bytes([job.topic_len]) + job.topic.encode() + since
            else:
                assert member == place(job)
            if state == DELAYED:
                assert job.state == 1 and score == job.due
            if state == RESERVED:
                assert job.state == RESERVED and score == job.until and job.lease > 0
            else:
                assert job.lease == 0 and not job.flags & 1
            assert ((job.holder, name) in holds) == bool(job.flags & 1)
            holds.discard((job.holder, name))
            if job.id:
                assert fields[b"i" + job.id.encode()] == name
    assert not where and not holds
    assert sum(1 for field in fields if field[:1] == b"b" and len(field) == 9) == len(jobs)
    assert sum(1 for field in fields if field[:1] == b"i") == sum(1 for job in jobs.values() if job.id)
    pushed = struct.unpack("<4Q", fields[b"s"])[1]
    assert pushed - int(fields.get(b"g", 0)) == len(jobs)
    for topic in topics:
        figures = queue.topic(topic)
        for state, name in STATES.items():
            of = [job for job in jobs.values() if job.topic == topic and job.place == state]
            assert figures[name] == len(of), (topic, name)
    return jobs


def test_a_job_goes_its_way_from_push_to_finish(queue):
    pushed = queue.push("orders", b"hello", ttr=HOUR)
    assert (pushed.err, pushed.state) == ("ok", READY)
    taken = queue.reserve("orders")
    job = taken.jobs[0]
    assert (job.content, job.state, job.reserves) == (b"hello", RESERVED, 1)
    assert job.seq == pushed.seq and job.until == taken.now + HOUR and job.lease > job.seq
    assert queue.reserve("orders").err == "empty"
    assert queue.finish(job.seq, job.lease + 16).err == "stale_lease"
    assert queue.finish(job.seq, job.lease).err == "ok"
    assert queue.finish(job.seq, job.lease).err == "not_found"
    assert valid(queue) == {}


def test_p3_no_job_is_ready_before_its_due_time(queue):
    due = queue.now() + 60000
    pushed = queue.push(due=due)
    assert pushed.state == DELAYED and pushed.jobs[0].delay_s == 1
    while True:
        promoted = queue.promote()
        taken = queue.reserve("t")
        if taken.jobs:
            break
        assert promoted.now < due and promoted.next_us == due
    assert taken.now >= due


def test_ready_jobs_go_by_priority_then_rank_then_number(queue):
    random.seed(4)
    pushed = []
    for _ in range(200):
        priority, due = random.choice([0, 7, 1 << 31]), random.randrange(1, 5)
        ranks = random.choice("da")
        job = queue.push(due=due, priority=priority, ranks=ranks).jobs[0]
        pushed.append((priority, due if ranks == "d" else job.created, job.seq))
    taken = []
    while True:
        answer = queue.reserve("t", most=37)
        taken += [job.seq for job in answer.jobs]
        if answer.err == "empty":
            break
    assert taken == [seq for _, _, seq in sorted(pushed)]


def test_reserve_takes_the_best_of_topics_or_the_first_listed(queue):
    one = queue.push("one", priority=9).seq
    two = queue.push("two", priority=1).seq
    taken = queue.reserve("one", "two", "one", most=5, options="l").jobs
    assert [job.seq for job in taken] == [one, two]
    queue.change("l", one, due=0)
    queue.change("l", two, due=0)
    assert [job.seq for job in queue.reserve("one", "two", "one", most=5).jobs] == [two, one]


def test_an_id_names_one_live_job(queue):
    first = queue.push(id="a", body=b"1")
    assert queue.push(id="a", body=b"2").err == "exists"
    kept = queue.push(id="a", body=b"2", exists="k")
    assert kept.kept and kept.jobs[0].seq == first.seq
    lease = queue.reserve("t").jobs[0].lease
    replaced = queue.push(id="a", body=b"3", exists="p")
    assert replaced.replaced and replaced.seq > first.seq
    assert queue.finish(first.seq, lease).err == "not_found"
    assert queue.finish("a", lease).err == "stale_lease"
    assert queue.reserve("t").jobs[0].content == b"3"
    assert queue.delete("a").err == "ok"
    assert queue.push(id="a").err == "ok"


def test_a_retry_schedule_ends_in_burial_and_begins_anew_by_a_kick(queue):
    seq = queue.push(waits=(0, HOUR)).seq
    job = queue.reserve("t").jobs[0]
    assert queue.change("l", seq, job.lease).state == READY
    queue.reserve("t")
    assert queue.change("l", seq).jobs[0].failures == 2
    assert queue.get(seq).state == DELAYED
    assert queue.change("r", seq).state == READY
    queue.reserve("t")
    buried = queue.change("l", seq)
    assert (buried.state, buried.jobs[0].failures, buried.jobs[0].buries) == (BURIED, 3, 1)
    kicked = queue.change("k", seq)
    assert (kicked.state, kicked.jobs[0].failures, kicked.jobs[0].kicks) == (READY, 0, 1)


def test_a_ttr_that_ran_out_is_a_failed_attempt(queue):
    seq = queue.push(ttr=1000).seq
    lease = queue.reserve("t").jobs[0].lease
    time.sleep(0.003)
    assert queue.promote().count == 1
    job = queue.get(seq).jobs[0]
    assert (job.failures, job.timeouts) == (1, 1)
    assert queue.finish(seq, lease).err == "stale_lease"
    assert queue.reserve("t").jobs[0].lease > lease


def test_what_was_not_delivered_goes_back_to_its_place(queue):
    first, second = queue.push(due=1).seq, queue.push(due=2).seq
    lease = queue.reserve("t").jobs[0].lease
    back = queue.change("l", first, lease, options="u")
    assert (back.state, back.jobs[0].reserves, back.jobs[0].failures) == (READY, 0, 0)
    assert [job.seq for job in queue.reserve("t", most=2).jobs] == [first, second]


def test_touch_keeps_the_lease_and_moves_its_end(queue):
    seq = queue.push(ttr=HOUR).seq
    job = queue.reserve("t").jobs[0]
    touched = queue.change("t", seq, job.lease, ttr=2 * HOUR).jobs[0]
    assert touched.lease == job.lease and touched.until > job.until + HOUR - 1000000


def test_reschedule_changes_due_priority_and_body_of_delayed_jobs_only(queue):
    seq = queue.push(due=queue.now() + HOUR, body=b"old").seq
    changed = queue.change("s", seq, due=queue.now() + 2 * HOUR, priority=3, new=b"newer")
    assert changed.state == DELAYED and changed.jobs[0].priority == 3
    got = queue.get(seq).jobs[0]
    assert (got.content, got.body_len, got.sum) == (b"newer", 5, 78)
    assert queue.change("s", seq, due=0).state == READY
    assert queue.change("s", seq, due=0).err == "wrong_state"


def test_any_job_but_a_reserved_one_can_be_reserved_by_name(queue):
    seq = queue.push(due=queue.now() + HOUR, body=b"x").seq
    taken = queue.change("v", seq)
    assert (taken.state, taken.jobs[0].content) == (RESERVED, b"x")
    assert abs(taken.jobs[0].due - taken.now) < 1000
    assert queue.change("v", seq).err == "wrong_state"
    assert queue.change("b", seq, taken.jobs[0].lease).state == BURIED
    assert queue.change("v", seq).jobs[0].failures == 0


def test_lists_show_each_state_and_peek_its_first(queue):
    due = queue.now() + HOUR
    delayed = [queue.push(due=due + step % 3).seq for step in range(10)]
    queue.push("other", due=due)
    ready = [queue.push(due=1).seq for _ in range(3)]
    for _ in range(2):
        queue.reserve("t")
    queue.change("b", ready[0])
    assert sorted(job.seq for job in queue.list("t", DELAYED, most=2)) == sorted(delayed)
    assert [job.seq for job in queue.list("t", READY)] == ready[2:]
    assert [job.seq for job in queue.list("t", RESERVED)] == ready[1:2]
    assert [job.seq for job in queue.list("t", BURIED)] == ready[:1]
    after = (due, max(delayed[::3]))
    assert all((job.due, job.seq) > after for job in queue.list("t", DELAYED, after=after))
    assert len(queue.list("t", DELAYED, after=after)) == 6
    assert queue.list("t", BURIED, kind="p")[0].content == b"body"
    assert queue.list("nothing", READY) == []


def test_a_listing_goes_on_however_redis_spells_a_score(queue):
    due = (queue.now() // 10 ** 8 + 2) * 10 ** 8  # in some versions such a score is 1.8e+15
    for step in (0, 100, 200):
        queue.push(due=due + step)
    start = b"%d.%de+15 1" % divmod(due // 10 ** 8, 10 ** 7)
    _, parts = queue.run("list", "l", DELAYED, "t", start, -1, 0, 100)
    assert [Job(head).due - due for head in parts[1:]] == [100, 200]


@pytest.mark.parametrize("what", "kc")
def test_kicking_and_clearing_stop_at_what_was_asked(queue, what):
    due = queue.now() + HOUR
    for step in range(20):
        queue.push("t" if step % 2 else "other", due=due)
    swept, start = queue.sweep(what, "t", DELAYED, 4)
    assert swept.count == 4 and swept.more
    swept, start = queue.sweep(what, "t", DELAYED, 10, start)
    assert swept.count == 6 and not swept.more
    jobs = valid(queue).values()
    assert sum(job.topic == "other" and job.place == DELAYED for job in jobs) == 10
    assert len(jobs) == (20 if what == "k" else 10)
    assert queue.sweep(what, "nothing", DELAYED, 4)[0].err == "not_found"


def test_a_paused_topic_gives_nothing_until_its_pause_ends(queue):
    queue.push()
    end = queue.now() + 30000
    queue.run("topic", "p", "t", end, 0, "")
    answer = queue.reserve("t")
    assert answer.err == "empty" and answer.next_us == end
    time.sleep(0.04)
    assert queue.reserve("t").err == "ok"
    queue.run("topic", "p", "t", FOREVER, 0, "")
    assert queue.topic("t")["pauses"] == 2
    queue.push()
    assert queue.reserve("t").err == "empty"
    queue.run("topic", "u", "t", 0, 0, "")
    assert queue.reserve("t").err == "ok"
    assert queue.run("topic", "u", "nothing", 0, 0, "")[0].err == "not_found"


def test_topics_come_by_pages_in_order(queue):
    names = sorted("topic-%03d" % number for number in range(25))
    for name in random.sample(names, len(names)):
        queue.push(name)
    seen, after = [], ""
    while True:
        answer, parts = queue.run("topic", "l", after, 7, 0, "")
        seen += [part.decode() for part in parts[::2]]
        if not answer.more:
            break
        after = seen[-1]
    assert seen == names


def test_limits_are_told(queue):
    assert queue.push("a", limits=(2, 1)).err == "ok"
    assert queue.push("b", limits=(2, 1)).err == "topics_limit"
    assert queue.push("a", limits=(2, 1)).err == "ok"
    assert queue.push("a", limits=(2, 1)).err == "jobs_limit"


def test_an_idle_topic_makes_room_for_another(queue):
    names = ["topic-%03d" % number for number in range(150)]
    seqs = [queue.push(name).seq for name in names]
    queue.run("topic", "p", names[140], FOREVER, 0, "")
    queue.delete(seqs[140]), queue.delete(seqs[145])
    tries = 0
    while queue.push("new", limits=(0, 150)).err != "ok":
        tries += 1
        assert tries < 5
    assert queue.topic(names[145]) is None and queue.topic(names[140])["pauses"] == 1


def test_a_request_sent_again_gets_the_first_answer_and_does_nothing(queue):
    pushed = queue.push(id="a")
    job = queue.reserve("t").jobs[0]
    taken = queue.repeat()
    assert [(again.seq, again.lease) for again in taken.jobs] == [(job.seq, job.lease)]
    queue.change("l", "a", job.lease, due=0)
    again = queue.repeat()
    assert again.err == "ok" and again.jobs[0].releases == 1
    assert queue.get(job.seq).jobs[0].releases == 1
    queue.delete("a")
    assert queue.repeat().err == "ok" and pushed.seq == job.seq
    third = queue.push(body=b"z")
    last = queue.last
    assert queue.finish(queue.reserve("t").jobs[0].seq).err == "ok"
    queue.last = last
    assert queue.repeat().seq == third.seq
    assert valid(queue) == {}


def test_what_is_not_answered_yet_is_done_when_sent_again(queue):
    queue.push()
    script, args, number = queue.last
    queue.run(script, *args, number=number + 1, again=True)
    assert len(valid(queue)) == 2


def test_a_mark_brings_one_notice(queue, port):
    ear = Connection(port)
    ear.call("SUBSCRIBE", "laterd:notice")
    queue.push("t")
    queue.reserve("t", "u", most=2, options="w")
    queue.push("t")
    queue.push("t")
    queue.push("u")
    ear.socket.settimeout(0.2)
    assert [ear.read()[2] for _ in range(2)] == [b"r3 t", b"r3 u"]
    with pytest.raises(TimeoutError):
        ear.read()
    ear.close()


def test_the_end_of_a_pause_is_told(queue, port):
    ear = Connection(port)
    ear.call("SUBSCRIBE", "laterd:notice")
    queue.push("t")
    queue.run("topic", "p", "t", FOREVER, 0, "")
    queue.reserve("t", options="w")
    queue.run("topic", "u", "t", 0, 0, "")
    ear.socket.settimeout(1)
    assert ear.read()[2] == b"r3 t"
    ear.close()


def test_a_pause_that_ends_sooner_than_it_did_is_told(queue, port):
    ear = Connection(port)
    ear.call("SUBSCRIBE", "laterd:notice")
    queue.push("t")
    queue.run("topic", "p", "t", queue.now() + HOUR, 0, "")
    queue.reserve("t", options="w")
    queue.run("topic", "p", "t", queue.now() + HOUR // 60, 0, "")
    ear.socket.settimeout(1)
    assert ear.read()[2] == b"r3 t"
    ear.close()


def test_who_may_not_publish_leaves_no_job_half_moved(queue):
    queue.redis.call("ACL", "SETUSER", "default", "resetchannels")
    try:
        queue.reserve("t", options="w")
        queue.push("t", due=1, ttr=HOUR)
        job = queue.reserve("t").jobs[0]
        assert queue.change("l", job.seq, job.lease).err == "ok"
        queue.push("t", due=queue.now() + HOUR)
        assert queue.reserve("t").jobs[0].seq == job.seq
        assert len(valid(queue)) == 2
    finally:
        queue.redis.call("ACL", "SETUSER", "default", "allchannels")


def test_the_owner_is_told_of_what_is_due_sooner(queue, port):
    ear = Connection(port)
    ear.call("SUBSCRIBE", "laterd:notice")
    due = queue.now() + HOUR
    queue.hello(alive_us=9 * HOUR)
    queue.promote()
    for step in (0, 1, -1):
        queue.push(due=due + step)
    queue.reserve("t")
    queue.push(ttr=HOUR // 2)
    until = queue.reserve("t").jobs[0].until
    ear.socket.settimeout(0.2)
    assert [ear.read()[2] for _ in range(3)] == [b"w3 %d" % at for at in (due, due - 1, until)]
    with pytest.raises(TimeoutError):
        ear.read()
    ear.close()


def test_one_daemon_owns_the_timer_until_it_is_silent(queue, port):
    other = Queue(port, daemon=b"daemon-2")
    assert queue.hello(own_us=50000).owner
    answer = other.hello(own_us=50000)
    assert not answer.owner and answer.next_us > answer.now
    assert queue.hello(own_us=50000).owner
    time.sleep(0.06)
    assert other.hello(own_us=50000).owner
    assert not queue.hello(own_us=50000).owner
    other.hello(own_us=0)
    assert queue.hello(own_us=50000).owner
    other.close()


def test_p6_a_dead_daemons_bound_jobs_go_back(queue, port):
    other = Queue(port, daemon=b"daemon-2")
    other.hello(alive_us=20000)
    queue.push(), queue.push(), queue.push()
    held = other.reserve("t", most=2, options="b").jobs
    mine = queue.reserve("t", options="b").jobs[0]
    valid(queue)
    time.sleep(0.03)
    queue.promote()
    assert [queue.get(job.seq).state for job in held] == [READY, READY]
    assert queue.get(held[0].seq).jobs[0].failures == 0
    assert queue.get(mine.seq).state == RESERVED
    other.close()


def test_another_count_of_partitions_is_refused(queue):
    answer = queue.hello(partitions=8)
    assert answer.err == "invalid" and answer.count == 16


def test_a_partition_that_is_not_there_says_so(queue):
    queue.redis.call("FLUSHALL")
    with pytest.raises(RedisError, match="LATERDCLOSED"):
        queue.push()
    with pytest.raises(RedisError, match="LATERDCLOSED"):
        queue.reserve("t")
    queue.hello()


def test_numbers_grow_even_if_redis_forgot_them(queue):
    before = queue.push().seq
    queue.redis.call("FLUSHALL")
    queue.hello()
    assert queue.push().seq > before


def test_p8_a_full_redis_refuses_pushes_but_the_rest_goes_on(queue):
    seqs = [queue.push(waits=(0, 0)).seq for _ in range(9)]
    queue.redis.call("CONFIG", "SET", "maxmemory", "1mb")
    try:
        with pytest.raises(RedisError, match="OOM"):
            queue.push("new topic")
        assert len(valid(queue)) == 9 and queue.topic("new topic") is None
        queue.promote()
        queue.hello(own_us=1000)
        taken = queue.reserve("t", most=3, options="b").jobs + queue.reserve("t", most=2).jobs
        assert [job.seq for job in taken] == seqs[:5]
        assert queue.change("t", seqs[0]).err == "ok"
        assert queue.change("l", seqs[0]).err == "ok"
        assert queue.change("b", seqs[1]).err == "ok"
        assert queue.change("k", seqs[1]).err == "ok"
        assert queue.finish(seqs[3]).err == "ok"
        assert queue.delete(seqs[5]).err == "ok"
        assert queue.sweep("c", "t", READY, 2)[0].count == 2
    finally:
        queue.redis.call("CONFIG", "SET", "maxmemory", "0")


def test_numbers_grow_even_if_the_clock_goes_back(queue):
    last = (queue.now() + HOUR) // 16 * 16 + 3
    state = queue.redis.call("HGET", queue.keys[0], "s")
    queue.redis.call("HSET", queue.keys[0], "s", struct.pack("<Q", last) + state[8:])
    assert [queue.push().seq for _ in range(3)] == [last + 16, last + 32, last + 48]
    assert queue.reserve("t").jobs[0].lease == last + 64


def test_an_older_answer_in_the_same_place_is_not_taken_for_this_one(queue):
    first = queue.push()
    script, args, number = queue.last
    answer, _ = queue.run(script, *args, number=number + 4096, again=True)
    assert answer.seq > first.seq and len(valid(queue)) == 2


def test_a_daemon_that_never_said_hello_is_missed_all_the_same(queue, port):
    other = Queue(port, daemon=b"daemon-3")
    queue.push()
    taken = other.reserve("t", options="b")
    score = int(queue.redis.call("ZSCORE", queue.keys[2], b"\0daemon-3"))
    assert score == taken.now + 5000000
    other.close()


def test_each_end_is_counted_as_what_it_is(queue):
    seqs = [queue.push(id="id-%d" % number).seq for number in range(5)]
    queue.reserve("t", most=3)
    queue.finish("id-0"), queue.delete("id-1"), queue.delete("id-2", options="d")
    assert queue.delete(seqs[3], options="f").err == "ok"
    assert queue.delete(seqs[4], options="d").err == "ok"
    figures = queue.topic("t")
    assert (figures["finished"], figures["deleted"], figures["reserved"]) == (3, 2, 3)
    queue.push(id="held")
    lease = queue.reserve("t").jobs[0].lease
    assert queue.delete("held", lease, options="f").err == "wrong_state"
    assert queue.delete("held", lease).err == "ok"


def wait_until(claim):
    for _ in range(200):
        if claim():
            return
        time.sleep(0.05)
    assert claim()


def test_while_a_cluster_moves_a_slot_no_half_of_a_partition_is_served(tmp_path):
    servers = [Server(tmp_path, "--cluster-enabled", "yes", "--cluster-config-file", "nodes-%d" % number)
               for number in range(2)]
    one, two = [Connection(server.port) for server in servers]
    try:
        one.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        one.call("CLUSTER", "MEET", "127.0.0.1", servers[1].port)
        wait_until(lambda: all(b"cluster_state:ok" in node.call("CLUSTER", "INFO")
                               for node in (one, two)))
        here, there = Queue(servers[0].port), Queue(servers[1].port)
        here.hello()
        here.push(), here.push(due=here.now() + HOUR)
        there.digests["push"] = two.call("SCRIPT", "LOAD", script_text("push"))
        slot = one.call("CLUSTER", "KEYSLOT", here.keys[0])
        two.call("CLUSTER", "SETSLOT", slot, "IMPORTING", one.call("CLUSTER", "MYID"))
        one.call("CLUSTER", "SETSLOT", slot, "MIGRATING", two.call("CLUSTER", "MYID"))

        def push(queue):
            try:
                if queue is there:
                    queue.redis.call("ASKING")
                return queue.push().err
            except RedisError as error:
                return str(error).split()[0]

        said = [(push(here), push(there))]
        for key in here.keys:
            one.call("MIGRATE", "127.0.0.1", servers[1].port, key, 0, 5000)
            said.append((push(here), push(there)))
        assert said[0] == ("ok", "TRYAGAIN") and said[4] == ("ASK", "ok")
        for source, target in said[1:4]:
            assert source in ("ASK", "TRYAGAIN") and target == "TRYAGAIN"
        for node in (two, one):
            node.call("CLUSTER", "SETSLOT", slot, "NODE", two.call("CLUSTER", "MYID"))
        assert push(here) == "MOVED" and len(valid(there)) == 4
    finally:
        for server in servers:
            server.stop()


def test_large_batches_pass(queue):
    for _ in range(2500):
        queue.push(due=queue.now() + 1)
    time.sleep(0.001)
    while queue.promote(2000).more:
        pass
    assert len(queue.reserve("t", most=1000).jobs) == 1000
    answer = queue.reserve("t", most=1000, most_bytes=400)
    assert len(answer.jobs) == 100 and answer.more


class Model:
    """What the queue should hold: job number -> [state, topic, id, lease, failures, retries]."""

    def __init__(self):
        self.jobs = {}

    def pick(self, chance):
        return chance.choice(sorted(self.jobs)) if self.jobs and chance.random() < 0.9 else 1


def everything(queue):
    """All bytes of the partition."""
    flat = queue.redis.call("HGETALL", queue.keys[0])
    return [dict(zip(flat[::2], flat[1::2]))] + [
        queue.redis.call("ZRANGE", key, 0, -1, "WITHSCORES") for key in queue.keys[1:]]


def answered_ok(queue):
    """Was the last request a change that was done? Then its answer is kept."""
    slot = b"a" + queue.daemon + struct.pack(">H", queue.last[2] % 4096)
    kept = queue.redis.call("HGET", queue.keys[0], slot)
    return kept is not None and kept[:8] == struct.pack("<Q", queue.last[2])


def step_push(queue, model, chance):
    topic, id = chance.choice("xyz"), chance.choice(["", "", "a", "b", "c"])
    exists, later = chance.choice("jpk"), chance.random() < 0.4
    ranks = chance.choice("ddab")
    waits = chance.choice([(), (0,), (HOUR, 0)])
    answer = queue.push(topic, due=queue.now() + HOUR if later else chance.randrange(1000), id=id,
                        priority=chance.randrange(3), exists=exists, ranks=ranks, waits=waits)
    old = [seq for seq, job in model.jobs.items() if id and job["id"] == id]
    if old and exists == "j":
        assert answer.err == "exists"
        return
    assert answer.err == "ok"
    if old and exists == "k":
        assert answer.kept and answer.jobs[0].seq == old[0]
        return
    assert answer.replaced == bool(old)
    for seq in old:
        del model.jobs[seq]
    state = BURIED if ranks == "b" else DELAYED if later else READY
    assert answer.state == state
    model.jobs[answer.seq] = dict(state=state, topic=topic, id=id, lease=0, failures=0, waits=waits)


def step_reserve(queue, model, chance):
    topics = chance.sample("xyz", chance.randrange(1, 4))
    most = chance.randrange(1, 4)
    answer = queue.reserve(*topics, most=most, options=chance.choice(["", "l", "b", "lw"]))
    ready = [seq for seq, job in model.jobs.items() if job["state"] == READY and job["topic"] in topics]
    assert len(answer.jobs) == min(most, len(ready))
    for job in answer.jobs:
        assert job.seq in ready and job.lease > 0
        model.jobs[job.seq].update(state=RESERVED, lease=job.lease)


def fail(job):
    job["failures"] += 1
    waits = job["waits"]
    if waits and job["failures"] > len(waits):
        return BURIED
    return DELAYED if waits and waits[job["failures"] - 1] else READY


def step_job(queue, model, chance):
    seq = model.pick(chance)
    job = model.jobs.get(seq)
    what = chance.choice("finish delete l lu lx ld t b k r s v get".split())
    lease = chance.choice([0, job["lease"] if job else 0, 12345])
    if what in ("k", "r", "s", "v", "get"):
        lease = 0
    state = job["state"] if job else 0
    needs = what in ("finish", "l", "lu", "lx", "ld", "t", "b") or (what == "delete" and lease)
    if not job:
        wanted = "not_found"
    elif needs and state != RESERVED:
        wanted = "stale_lease" if lease else "wrong_state"
    elif needs and lease not in (0, job["lease"]):
        wanted = "stale_lease"
    elif (what == "v" and state == RESERVED) or (what == "k" and state not in (DELAYED, BURIED)):
        wanted = "wrong_state"
    elif what in ("r", "s") and state != DELAYED:
        wanted = "wrong_state"
    else:
        wanted = "ok"
    if what == "finish":
        answer = queue.finish(seq, lease)
    elif what == "delete":
        answer = queue.delete(seq, lease)
    elif what == "get":
        answer = queue.get(seq)
    elif what[0] == "l":
        answer = queue.change("l", seq, lease, options=what[1:].replace("d", ""),
                              due=queue.now() + HOUR if what == "ld" else "",
                              priority=chance.choice(["", 1]))
    elif what == "s":
        answer = queue.change("s", seq, due=chance.choice(["", 0]), priority=chance.choice(["", 2]),
                              new=chance.choice([None, b"new"]))
    else:
        answer = queue.change(what, seq, lease)
    assert answer.err == wanted, what
    if wanted != "ok":
        return
    if what in ("finish", "delete"):
        del model.jobs[seq]
        return
    after = {"get": state, "t": state, "b": BURIED, "k": READY, "r": READY, "v": RESERVED, "ld": DELAYED,
             "lu": READY, "s": answer.state}.get(what)
    if what in ("l", "lx"):
        after = fail(job)
    if what == "ld":
        job["failures"] += 1
    if what in ("k", "v") and state == BURIED:
        job["failures"] = 0
    assert answer.state == after, what
    job.update(state=after, lease=answer.jobs[0].lease)
    assert answer.jobs[0].failures == job["failures"]


def step_sweep(queue, model, chance):
    what, topic, state = chance.choice("kkc"), chance.choice("xyz"), chance.choice([DELAYED, BURIED])
    most = chance.randrange(1, 4)
    of = [seq for seq, job in model.jobs.items() if job["state"] == state and job["topic"] == topic]
    answer, _ = queue.sweep(what, topic, state, most)
    if answer.err == "not_found":
        assert not of
        return
    assert answer.count == min(most, len(of))
    left = {seq: job for seq, job in valid(queue).items()}
    for seq in of:
        if seq not in left:
            assert what == "c"
            del model.jobs[seq]
        elif left[seq].place == READY:
            assert what == "k"
            model.jobs[seq]["state"] = READY
            if state == BURIED:
                model.jobs[seq]["failures"] = 0


@pytest.mark.parametrize("seed", range(6))
def test_p9_random_lives_agree_with_the_model(queue, seed):
    chance = random.Random(seed)
    model = Model()
    for step in range(400):
        kind = chance.choices([step_push, step_reserve, step_job, step_sweep], [4, 2, 8, 1])[0]
        kind(queue, model, chance)
        if chance.random() < 0.1 and kind is not step_sweep:
            before = everything(queue)
            if answered_ok(queue):
                queue.repeat()
                assert everything(queue) == before
        if step % 5 == 0:
            queue.promote()
            jobs = valid(queue)
            assert {seq: job.place for seq, job in jobs.items()} == {
                seq: job["state"] for seq, job in model.jobs.items()}
            assert all(jobs[seq].lease == job["lease"] for seq, job in model.jobs.items())
