"""The scripts of the Redis engine in random lives, against the dullest model of a queue."""

import random
import struct

import pytest
from redis import REDIS_SERVER
from redis_scripts import BURIED, DELAYED, HOUR, READY, RESERVED, valid

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="no redis-server")


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
    assert queue.sweep(what, topic, state, 0)[0].count == len(of)
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


JOBS_MAX, TOPICS_MAX = 25, 4


def push_at_the_limits(queue, chance):
    """Refused if the truth says so, and only then."""
    jobs = valid(queue)
    topic, id = chance.choice("abcdefgh"), chance.choice(["", "", "1", "2", "3"])
    old = [job for job in jobs.values() if id and job.id == id]
    known = queue.topic(topic)
    full = {job.topic for job in jobs.values()}
    answer = queue.push(topic, id=id, exists="p", ranks=chance.choice("ddab"), waits=chance.choice([(), (0,)]),
                        due=chance.choice([0, queue.now() + HOUR]), limits=(JOBS_MAX, TOPICS_MAX))
    if not old and len(jobs) >= JOBS_MAX:
        assert answer.err == "jobs_limit"
    elif not known and len(full) >= TOPICS_MAX:
        assert answer.err == "topics_limit"
    else:
        assert answer.err == "ok" and answer.replaced == bool(old)


def end_or_change(queue, chance):
    jobs = valid(queue)
    if not jobs:
        return
    job = jobs[chance.choice(sorted(jobs))]
    what = chance.choice("finish delete sweep l lu lx b k v t".split())
    if what == "finish":
        queue.finish(job.seq)
    elif what == "delete":
        queue.delete(job.seq)
    elif what == "sweep":
        queue.sweep(chance.choice("kc"), job.topic, chance.choice([DELAYED, BURIED]), 3)
    else:
        queue.change(what[0], job.seq, options=what[1:])


def counts_agree(queue):
    """The figures of each topic are those of the jobs that are there."""
    queue.promote()
    jobs = list(valid(queue).values())
    for topic in "abcdefgh":
        of = [job.place for job in jobs if job.topic == topic]
        figures = queue.topic(topic) or dict.fromkeys(["delayed", "ready", "held", "buried"], 0)
        assert {state: figures[name] for state, name in (
            (DELAYED, "delayed"), (READY, "ready"), (RESERVED, "held"), (BURIED, "buried"))} == {
                state: of.count(state) for state in (DELAYED, READY, RESERVED, BURIED)}, topic


@pytest.mark.parametrize("seed", range(4))
def test_p8_limits_and_counts_stay_true_through_random_lives(queue, seed):
    chance = random.Random(seed)
    for step in range(400):
        kind = chance.choices(["push", "reserve", "other", "again", "dead"], [8, 3, 4, 1, 1])[0]
        if kind == "push":
            push_at_the_limits(queue, chance)
        elif kind == "reserve":
            queue.reserve(*chance.sample("abcdefgh", 3), most=3, options=chance.choice(["", "b", "w"]))
        elif kind == "other":
            end_or_change(queue, chance)
        elif kind == "again":
            queue.repeat()
        else:  # other daemons give back what its connections hold
            queue.forget(b"another!", most=100) if step % 50 else queue.forget()
            queue.open()
        if step % 5 == 0:
            counts_agree(queue)


@pytest.mark.parametrize("state", [DELAYED, READY, RESERVED, BURIED])
def test_pages_show_each_job_that_stays_once_whatever_others_do(queue, state):
    chance = random.Random(state)
    due = queue.now() + HOUR
    for number in range(120):
        queue.push(chance.choice("tu"), due=due + number // 40 if state == DELAYED else 0,
                   ranks="b" if state == BURIED else "d", priority=chance.randrange(3))
    if state == RESERVED:
        queue.reserve("t", "u", most=200)
    here = {seq for seq, job in valid(queue).items() if job.topic == "t" and job.place == state}
    going = set(chance.sample(sorted(here), len(here) // 2))
    left, shown, start, more = set(going), [], b"", True
    while more:
        answer, (start, *heads) = queue.run("list", "l", state, "t", start, -1, 0, 3)
        more = answer.more
        shown += [struct.unpack(">Q", head[:8])[0] for head in heads]
        for seq in chance.sample(sorted(left), min(2, len(left))):
            assert queue.delete(seq).err == "ok"
            left.remove(seq)
        queue.push("a", due=due)  # before them, and it stays
    assert len(shown) == len(set(shown)) and here - going <= set(shown) <= here
