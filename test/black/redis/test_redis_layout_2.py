"""A partition that laterd left with an older layout is converted while it serves.

layout-2.dump was written by the scripts of layout 2, before they changed.
"""

import base64
import os
import struct

import pytest
from redis import REDIS_SERVER
from redis_scripts import BURIED, DELAYED, HOUR, READY, RESERVED, script_port, queue, valid

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="no redis-server")


def layout_2(queue):
    """The partition as a dump has it that scripts of layout 2 left: its jobs are due in 2150, but for two."""
    queue.redis.call("FLUSHALL")
    keys = {key[-1]: key for key in queue.keys} | {"r": queue.keys[0][:-1] + "r"}
    with open(os.path.join(os.path.dirname(__file__), "layout-2.dump"), encoding="ascii") as file:
        for line in file:
            if line[0] == "#":
                continue
            key, member, value = line.split()
            if key == "h":
                queue.redis.call("HSET", keys[key], base64.b64decode(member), base64.b64decode(value))
            else:
                queue.redis.call("ZADD", keys[key], value, base64.b64decode(member))


def convert(queue):
    """Moves the jobs that nobody has asked for out of the hash, as the daemon does step by step."""
    more, start = True, "0"
    while more:
        answer, parts = queue.run("rebuild", start, 60, "c")
        more, start = answer.more, parts[0]


def old_places(queue):
    return [member for member in queue.redis.call("ZRANGE", queue.keys[1], 0, -1) if 0 < member[0] < 255]


def test_what_layout_2_left_is_converted_while_others_go_on(queue):
    layout_2(queue)
    assert len(old_places(queue)) == 45
    assert queue.open(layout=2).err == "ok"  # an older laterd is refused from the first newer one on
    assert queue.open().err == "ok"
    refused = queue.open(layout=2)
    assert refused.err == "invalid" and refused.seq == 4
    assert queue.delete("arrival").err == "ok"  # it is where it was
    queue.push("orders", due=queue.now() + HOUR, id="new")
    assert queue.open().err == "ok"
    for _ in range(20):
        if not queue.promote().more and not old_places(queue):
            break
    convert(queue)
    jobs = valid(queue).values()
    assert queue.redis.call("HEXISTS", queue.keys[0], "k") == 0
    states = sorted((job.topic, job.place) for job in jobs)
    assert states.count(("orders", DELAYED)) == 22 and states.count(("mail", DELAYED)) == 20
    assert states.count(("a" * 200, DELAYED)) == 1 and states.count(("soon", READY)) == 2
    assert states.count(("ready", READY)) == 4 and states.count(("held", RESERVED)) == 2
    assert states.count(("buried", BURIED)) == 1 and len(states) == 52
    assert [job.priority for job in queue.reserve("soon", most=9).jobs] == [1, 5]
    orders = queue.list("orders", DELAYED)
    assert [(job.due, job.priority, job.seq) for job in orders] == sorted(
        (job.due, job.priority, job.seq) for job in orders)
    assert len(queue.list("mail", DELAYED)) == 20
    queue.open()  # of nothing that the dump's daemon holds


def test_a_crash_amid_the_conversion_does_no_harm(queue):
    layout_2(queue)
    assert queue.open().err == "ok"
    due = queue.now() + HOUR
    for number in range(300):  # more than one call moves
        queue.push("later", due=due + number)
    for member in queue.redis.call("ZRANGEBYLEX", queue.keys[3], "[w\x05later", "(w\x05later\x7f"):
        queue.redis.call("ZREM", queue.keys[3], member)  # as layout 2 would have it
        score, priority, number = struct.unpack(">QIQ", member[7:])
        queue.redis.call("ZADD", queue.keys[1], score, b"\x05later" + struct.pack(">IQQ", priority, score, number))
    assert len(old_places(queue)) == 345
    queue.promote()
    assert 200 < len(old_places(queue)) < 345
    queue.redis.call("HSET", queue.keys[0], "k", "+inf")  # begun again, as from an older save
    for _ in range(20):
        queue.promote()
    assert old_places(queue) == [] and len(queue.list("later", DELAYED)) == 300
    assert queue.topic("later")["next_due"] == due
    convert(queue)
