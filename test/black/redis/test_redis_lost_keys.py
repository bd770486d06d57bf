"""Keys of a partition that were lost, or are none of ours, one script after another: the rest goes on."""

import struct

import pytest
from patience import TooLate
from redis import REDIS_SERVER
from redis_scripts import BURIED, HOUR, RESERVED, delayed_place, valid
from wire import eventually

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="no redis-server")
REPLACED, LOST, MISSED = 2, 32, 128


def bucket_of(queue, seq):
    return queue.buckets[struct.pack(">Q", seq)[5]]


def push_elsewhere(queue, seq, *args, **kwargs):
    """A job in another bucket than that one."""
    while True:
        pushed = queue.push(*args, **kwargs)
        if bucket_of(queue, pushed.seq) != bucket_of(queue, seq):
            return pushed.seq
        queue.delete(pushed.seq)


def test_a_bucket_of_another_type_is_named(queue):
    key = queue.buckets[7]
    queue.redis.call("DEL", key)
    queue.redis.call("SET", key, "a stranger's")
    answer, parts = queue.run("open", 3, 16, "{laterd:3}:notice", 3, 4096, 0, 0)
    assert (answer.err, parts) == ("invalid", [key.encode()])
    queue.redis.call("DEL", *queue.keys)
    answer, parts = queue.run("open", 3, 16, "{laterd:3}:notice", 3, 4096, 0, 0)
    assert (answer.err, parts) == ("invalid", [key.encode()])
    queue.redis.call("DEL", key)
    assert queue.open().err == "ok"


def test_p2_jobs_whose_other_keys_were_lost_are_put_back(queue):
    seq = queue.push("t", id="one", priority=3).seq
    queue.redis.call("DEL", *queue.keys)
    assert queue.open().flags & (REPLACED | LOST) == REPLACED | LOST
    start = "0"
    while True:
        answer, parts = queue.run("rebuild", start, 60, "r")
        start = parts[0]
        if not answer.more:
            break
    assert queue.push("t", id="one").err == "exists"
    queue.promote()
    job = queue.reserve("t").jobs[0]
    assert (job.seq, job.id, job.content) == (seq, "one", b"body")
    queue.redis.call("FLUSHALL")
    assert queue.open().flags & (REPLACED | LOST) == REPLACED


def test_p2_a_promote_that_cannot_read_a_job_leaves_no_other_half_moved(queue):
    soon = queue.now() + 1500000
    old = queue.push("old", due=soon).jobs[0]
    push_elsewhere(queue, old.seq, "new", due=soon)
    if queue.now() >= soon:
        raise TooLate("they were due before they were pushed")
    # As layout 2 had it.
    queue.redis.call("ZREM", queue.keys[3], b"w" + delayed_place(old))
    name = struct.pack(">Q", old.seq)
    old_place = b"\3old" + struct.pack(">IQ", old.priority, old.due) + name
    queue.redis.call("ZADD", queue.keys[1], soon, old_place)
    queue.redis.call("DEL", bucket_of(queue, old.seq))
    assert eventually(lambda: queue.now() > soon, 10)
    promoted = queue.promote()
    assert promoted.err == "ok"
    assert queue.topic("new")["ready"] == 1
    assert queue.redis.call("ZSCORE", queue.keys[1], old_place)  # it is looked for again
    # Who makes the bucket again says so: that is promote() if it was this bucket's turn, one of 256.
    assert queue.open().flags & MISSED != promoted.flags & MISSED
    queue.promote()
    assert list(valid(queue)) == [job.seq for job in queue.list("new", 2)]


def test_a_promote_makes_the_bucket_again_that_it_looks_at(queue):
    queue.redis.call("DEL", queue.buckets[7])
    assert eventually(lambda: queue.promote().flags & MISSED, every=0)  # each for 1 ms of 256
    assert not (queue.promote().flags | queue.open().flags) & MISSED


def test_a_place_of_layout_2_that_is_left_is_found(queue):
    place = b"\3old" + b"\xff" * 20
    queue.redis.call("ZADD", queue.keys[1], 1, place)
    with pytest.raises(AssertionError):
        valid(queue)
    queue.redis.call("ZREM", queue.keys[1], place)


def test_what_jobs_of_a_lost_bucket_leave_goes(queue):
    held, buried = queue.push("t", ttr=1000000).seq, push_elsewhere(queue, 0, "t")
    assert queue.reserve("t", most=2).count == 2
    assert queue.change("b", buried).err == "ok"
    queue.redis.call("DEL", bucket_of(queue, held), bucket_of(queue, buried))
    assert queue.open().flags & MISSED
    assert eventually(lambda: queue.promote().count and queue.topic("t")["held"] == 0, 10)
    assert queue.sweep("c", "t", BURIED, 10)[0].count == 0
    assert queue.topic("t")["buried"] == 0
    assert valid(queue) == {}


def test_a_listing_goes_on_behind_what_it_has_shown(queue):
    for _ in range(20):
        queue.push("t", ttr=HOUR)
    queue.reserve("t", most=20)
    jobs = queue.list("t", RESERVED)
    assert len(jobs) == 20
    seventh = jobs[6]
    behind = queue.list("t", RESERVED, after=(seventh.until, seventh.seq))
    assert [job.seq for job in behind] == [job.seq for job in jobs[7:]]
