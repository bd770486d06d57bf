"""The scripts of the Redis engine, one after another.

No daemon takes part: see harness/redis_scripts.py. Spans are so long that they never pass by
themselves; pass_time() lets them. After each test every live job must be in exactly one structure.
"""

import random
import socket
import struct
import time

import pytest
from patience import TooLate
from redis import REDIS_SERVER, wait_until
from redis_scripts import (BURIED, Connection, DELAYED, Ear, FOREVER, HOUR, Job, Queue, READY, RESERVED,
                           RedisError, Server, place, script_text, valid)

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="no redis-server")
MINUTE = HOUR // 60


def make_topics(queue, *topics):
    """Their first jobs are told to all daemons: see what is told of others."""
    for topic in topics:
        queue.delete(queue.push(topic).seq)


def pass_time(us, *queues):
    """For these the queue's clock shows so much more from now on."""
    for queue in queues:
        queue.ahead_us += us


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
    if queue.now() >= due:
        raise TooLate("it was due before it was pushed")
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


def test_a_reserve_of_none_looks_and_takes_nothing(queue):
    best = queue.push("one", priority=1, due=7).jobs[0]
    queue.push("one", priority=9)
    queue.push("two", priority=3, due=5)
    looked = queue.reserve("two", "none", "one", "two", most=0, options="lw")
    assert looked.err == "empty" and looked.more and looked.marked and not looked.jobs
    assert looked.firsts == [(3, 5), None, (1, 7), (3, 5)]
    taken = queue.reserve("one", "two")
    assert taken.jobs[0].seq == best.seq and taken.firsts == [(9, 0), (3, 5)]
    last = queue.reserve("one", "two", most=2)
    assert len(last.jobs) == 2 and last.firsts == [None, None] and not last.more and not last.marked
    assert queue.repeat().firsts == []


def test_a_listed_reserve_that_has_enough_looks_no_further(queue):
    queue.push("one"), queue.push("one"), queue.push("two")
    assert queue.reserve("one", "two", options="l").firsts == [(5, 0), "unseen"]
    assert queue.reserve("one", "two", options="l").firsts == [None, "unseen"]
    assert queue.reserve("one", "two", options="l").firsts == [None, None]


def test_a_look_leaves_its_mark_where_there_is_nothing(queue, script_port):
    make_topics(queue, "t", "u")
    ear = Ear(script_port, queue.daemon)
    queue.push("t")
    queue.reserve("t", "u", most=0, options="w")
    other = Queue(script_port, daemon=b"daemon-2")
    other.push("t")
    other.push("u")
    assert ear.hear() == b"r03 u"
    assert ear.silent()
    ear.close()


def test_a_job_is_reported_to_the_daemon_that_waits_longest(queue, script_port):
    """Whoever promotes knows by itself if it is that one; else the other is told, and no third."""
    other = Queue(script_port, daemon=b"daemon-2")
    make_topics(queue, "t")
    for first, second in ((queue, other), (other, queue)):
        ear = Ear(script_port, first.daemon)
        first.reserve("t", options="w"), second.reserve("t", options="w")
        second.push("t", due=second.now() + MINUTE)
        pass_time(MINUTE, first, second)
        assert second.promote().count == 1
        while (notice := ear.hear()) != b"r3 t":
            assert notice[:1] == b"w"
        first.reserve("t")
        first.reserve("t", options="w")
        second.push("t", due=second.now() + MINUTE)
        pass_time(MINUTE, first, second)
        answer, topics = second.run("promote", 100)
        assert answer.count == 1 and topics == [b"t"]
        second.reserve("t")
        second.run("topic", "u", "t", 0, 0, "")  # all marks go
        ear.close()
    other.close()


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
    seq = queue.push(ttr=HOUR).seq
    lease = queue.reserve("t").jobs[0].lease
    pass_time(HOUR, queue)
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
    due = queue.now() + HOUR
    seq = queue.push(due=due, body=b"x").seq
    taken = queue.change("v", seq)
    assert (taken.state, taken.jobs[0].content) == (RESERVED, b"x")
    assert taken.jobs[0].due == due, "it may go back as if it had not been tried"
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
    listed = queue.list("t", DELAYED, most=2)
    assert sorted(job.seq for job in listed) == sorted(delayed)
    assert listed == sorted(listed, key=lambda job: (job.due, job.priority, job.seq))
    assert [job.seq for job in queue.list("t", READY)] == ready[2:]
    assert [job.seq for job in queue.list("t", RESERVED)] == ready[1:2]
    assert [job.seq for job in queue.list("t", BURIED)] == ready[:1]
    held = queue.list("t", RESERVED)[0]
    assert queue.list("t", RESERVED, after=(held.until, held.seq)) == []
    assert len(queue.list("t", RESERVED, after=(held.until, held.seq - 1))) == 1
    assert queue.list("t", BURIED, kind="p")[0].content == b"body"
    assert queue.list("nothing", READY) == []


def test_a_listing_goes_on_however_redis_spells_a_score(queue):
    for _ in range(3):
        queue.push()
    first, *others = [queue.reserve("t").jobs[0] for _ in range(3)]
    start = b"%.15e " % first.until + place(first)  # some versions write 1.8e+15
    assert float(start.split()[0]) == first.until
    _, parts = queue.run("list", "l", RESERVED, "t", start, -1, 0, 100)
    assert [Job(head).seq for head in parts[1:]] == [job.seq for job in others]


def test_a_listing_skips_no_job_when_others_of_its_instant_leave(queue):
    due = queue.now() + HOUR
    staying = set()
    for priority in range(6):  # that is the order among those of one instant
        staying.add(queue.push(due=due, priority=priority).seq)
    _, (start, *heads) = queue.run("list", "l", DELAYED, "t", b"", -1, 0, 2)
    for head in heads:
        queue.delete(Job(head).seq)
        staying.remove(Job(head).seq)
    queue.push("a", due=due)  # lies before them, as topics do
    _, (_, *heads) = queue.run("list", "l", DELAYED, "t", start, -1, 0, 100)
    assert sorted(Job(head).seq for head in heads) == sorted(staying)


def test_reserved_jobs_are_listed_once_and_all(queue):
    for number in range(2300):  # several slices, many of one instant
        queue.push("t" if number % 2 else "other", ttr=HOUR)
    taken = {"t": set(), "other": set()}
    while len(taken["t"]) < 1150:
        for job in queue.reserve("t", "other", most=500).jobs:
            taken[job.topic].add(job.seq)
    for topic in taken:
        listed = [job.seq for job in queue.list(topic, RESERVED)]
        assert len(listed) == len(set(listed)) and taken[topic] <= set(listed)


@pytest.mark.parametrize("what", "kc")
def test_kicking_and_clearing_stop_at_what_was_asked(queue, what):
    due = queue.now() + HOUR
    for step in range(20):
        queue.push("t" if step % 2 else "other", due=due)
    assert queue.sweep(what, "t", DELAYED, 0)[0].count == 10  # they are only counted
    assert queue.sweep(what, "t", BURIED, 0)[0].count == 0
    swept, start = queue.sweep(what, "t", DELAYED, 4)
    assert swept.count == 4 and swept.more
    swept, start = queue.sweep(what, "t", DELAYED, 10, start)
    assert swept.count == 6 and not swept.more
    jobs = valid(queue).values()
    assert sum(job.topic == "other" and job.place == DELAYED for job in jobs) == 10
    assert len(jobs) == (20 if what == "k" else 10)
    for most in (0, 4):
        assert queue.sweep(what, "nothing", DELAYED, most)[0].err == "not_found"


def test_a_paused_topic_gives_nothing_until_its_pause_ends(queue):
    queue.push()
    end = queue.now() + HOUR
    queue.run("topic", "p", "t", end, 0, "")
    answer = queue.reserve("t")
    assert answer.err == "empty" and answer.next_us == end
    pass_time(HOUR, queue)
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


def test_limits_are_reported(queue):
    assert queue.push("a", limits=(2, 1)).err == "ok"
    assert queue.push("b", limits=(2, 1)).err == "topics_limit"
    assert queue.push("a", limits=(2, 1)).err == "ok"
    assert queue.push("a", limits=(2, 1)).err == "jobs_limit"


def test_jobs_that_have_gone_make_room_and_are_looked_for_once(queue):
    seqs = [queue.push(limits=(3, 0)).seq for _ in range(3)]
    queue.finish(queue.reserve("t").jobs[0].seq), queue.delete(seqs[1])
    assert queue.push(limits=(3, 0)).err == "ok"
    assert queue.redis.call("HGET", queue.keys[0], "g") == b"0"
    assert queue.push(limits=(3, 0)).err == "ok"
    assert queue.push(limits=(3, 0)).err == "jobs_limit"
    assert len(valid(queue)) == 3 and queue.topic("t")["pushed"] == 5


@pytest.mark.parametrize("ranks", "da")
@pytest.mark.parametrize("later", [0, HOUR])
def test_the_quick_way_through_a_push_does_what_the_long_one_does(queue, later, ranks):
    """The first job of a topic, and one that replaces, take the long one; others need not."""
    queue.push("t", id="x")
    queue.delete("x")
    jobs = []
    for at, id in enumerate(["long", "quick"]):
        topic = "u" if at == 0 else "t"
        answer = queue.push(topic, body=b"some", due=queue.now() + later, id=id, priority=9, ranks=ranks,
                            waits=(1, 2))
        assert answer.err == "ok" and answer.state == (DELAYED if later else READY)
        assert queue.repeat().seq == answer.seq
        assert queue.push(topic, id=id).err == "exists"
        assert queue.push(topic, id=id, exists="k").jobs[0].seq == answer.seq
        jobs.append(queue.get(id).jobs[0])
        assert vars(answer.jobs[0]) | {"content": b"some", "form": jobs[-1].form} == vars(jobs[-1])
    unlike = {"topic", "id", "id_len", "due", "seq", "created"}
    long, quick = ({key: value for key, value in vars(job).items() if key not in unlike} for job in jobs)
    assert long == quick
    assert len(valid(queue)) == 2


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


def test_a_mark_brings_one_notice(queue, script_port):
    make_topics(queue, "t", "u")
    ear = Ear(script_port, queue.daemon)
    queue.push("t")
    until = queue.reserve("t", "u", most=2, options="w").jobs[0].until
    other = Queue(script_port, daemon=b"daemon-2")
    other.push("t")
    other.push("t")
    other.push("u")
    assert [ear.hear() for _ in range(3)] == [b"w3 %d" % until, b"r03 t", b"r03 u"]
    assert ear.silent()
    ear.close()


def test_a_promote_notifies_its_caller_alone_where_nobody_waits_longer(queue, script_port):
    make_topics(queue, "mine", "both", "other", "nobodys", "younger")
    ear = Ear(script_port, queue.daemon, b"daemon-2")
    other = Queue(script_port, daemon=b"daemon-2")
    other.number = 1000
    for topic in ("mine", "both", "other", "nobodys", "younger"):
        queue.push(topic, due=queue.now() + HOUR)
    queue.reserve("mine", "both", options="w")
    other.reserve("both", "other", options="w")
    queue.number += 10
    queue.reserve("younger", options="w")
    queue.number -= 5  # the promote was sent before that, and comes late
    pass_time(HOUR, queue)
    answer, topics = queue.run("promote", 100)
    assert answer.count == 5 and topics == [b"mine", b"both"]
    told = [ear.hear() for _ in range(3)]
    assert sorted(notice for notice in told if notice[:1] == b"r") == [b"r03 other", b"r03 younger"]
    other.close()
    ear.close()


def test_the_end_of_a_pause_is_notified(queue, script_port):
    ear = Ear(script_port, queue.daemon)
    queue.push("t")
    queue.run("topic", "p", "t", FOREVER, 0, "")
    queue.reserve("t", options="w")
    queue.run("topic", "u", "t", 0, 0, "")
    assert ear.hear() == b"r3 t"
    ear.close()


def test_a_pause_that_ends_sooner_than_it_did_is_notified(queue, script_port):
    ear = Ear(script_port, queue.daemon)
    queue.push("t")
    queue.run("topic", "p", "t", queue.now() + HOUR, 0, "")
    queue.reserve("t", options="w")
    queue.run("topic", "p", "t", queue.now() + HOUR // 60, 0, "")
    assert ear.hear() == b"r3 t"
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


def test_the_owner_is_notified_of_what_is_due_sooner(queue, script_port):
    make_topics(queue, "t")
    ear = Ear(script_port, queue.daemon)
    due = queue.now() + HOUR
    queue.promote()
    for step in (0, 1, -1):
        queue.push(due=due + step)
    queue.reserve("t")
    queue.push(ttr=HOUR // 2)
    until = queue.reserve("t").jobs[0].until
    assert [ear.hear() for _ in range(3)] == [b"w3 %d" % at for at in (due, due - 1, until)]
    assert ear.silent()
    ear.close()


def test_daemons_hear_of_each_other(queue, script_port):
    """All of what is news; the next one alone of a heartbeat like the one before."""
    other = Queue(script_port, daemon=b"daemon-2")
    everyone, second = Ear(script_port), Ear(script_port, other.daemon)
    assert set(queue.beat()) == {b"daemon-1"}
    seen = other.beat("n")
    assert {name: how for name, (how, _) in seen.items()} == {b"daemon-1": "y", b"daemon-2": "n"}
    assert seen[b"daemon-1"][1] < queue.beat()[b"daemon-1"][1]
    assert queue.beat(look="") == {}
    assert set(other.beat("x")) == {b"daemon-1"}
    news = [b"bydaemon-1", b"bndaemon-2", b"bxdaemon-2"]
    assert [everyone.hear() for _ in news] == news
    told = [*news[:2], b"bydaemon-1", b"bydaemon-1", news[2]]
    assert [second.hear() for _ in told] == told
    other.close()
    everyone.close()
    second.close()


def test_a_heartbeat_is_sent_to_the_next_daemon_that_can_receive_it(queue, script_port):
    others = [Queue(script_port, daemon=b"daemon-%d" % number) for number in (2, 3, 4)]
    third, everyone = Ear(script_port, b"daemon-4"), Ear(script_port)
    for one in (queue, *others):
        one.beat()
    assert [everyone.hear() for _ in range(4)] == [b"bydaemon-%d" % number for number in (1, 2, 3, 4)]
    assert [third.hear() for _ in range(4)][-1] == b"bydaemon-4"
    queue.beat()
    assert third.hear() == b"bydaemon-1"
    third.close()
    wait_until(lambda: queue.redis.call("PUBSUB", "SHARDNUMSUB", "{laterd:3}:notice:daemon-4")[1] == 0)
    queue.beat()
    assert everyone.hear() == b"bydaemon-1"  # there is nobody who could be told alone
    everyone.close()
    for one in others:
        one.close()


def test_all_are_notified_who_is_silent_and_that_it_is_not_any_more(queue, script_port):
    other, ear = Queue(script_port, daemon=b"daemon-2"), Ear(script_port)
    queue.beat(), other.beat()
    time.sleep(0.05)
    assert queue.beat(fresh_us=50_000)[b"daemon-2"][0] == "s"
    assert queue.beat(fresh_us=50_000)[b"daemon-2"][0] == "s"
    assert other.beat()[b"daemon-2"][0] == "y"
    told = [ear.hear() for _ in range(6)]
    assert [notice for notice in told if notice[2:] == b"daemon-2"] == [b"bydaemon-2", b"bsdaemon-2", b"bydaemon-2"]
    other.close()
    ear.close()


def test_a_daemon_that_says_nothing_more_is_dropped_from_the_records(queue, script_port):
    other = Queue(script_port, daemon=b"daemon-2")
    other.beat()
    assert set(queue.beat()) == {b"daemon-1", b"daemon-2"}
    wait_until(lambda: set(queue.beat(kept_us=1)) == {b"daemon-1"})
    other.close()


@pytest.mark.parametrize("ahead_us", [10_000_000, HOUR])
def test_a_record_from_the_future_counts_from_now_on(queue, script_port, ahead_us):
    """A master with a slower clock took over: the dead would live for as long as it is behind, and those that live
    must not be taken for dead (P4)."""
    other = Queue(script_port, daemon=b"daemon-2")
    other.beat()
    queue.redis.call("HSET", queue.keys[0], "hdaemon-2", b"y" + struct.pack("<Q", other.now() + ahead_us))
    assert set(queue.beat(fresh_us=1_000_000)) == {b"daemon-1", b"daemon-2"}
    (at_us,) = struct.unpack("<Q", queue.redis.call("HGET", queue.keys[0], "hdaemon-2")[1:9])
    assert at_us <= other.now()
    other.close()


def test_p6_a_dead_daemons_bound_jobs_go_back(queue, script_port):
    other = Queue(script_port, daemon=b"daemon-2")
    assert other.open().count == 1 and other.open().count == 0
    queue.push(), queue.push(), queue.push()
    held = other.reserve("t", most=2, options="b").jobs
    mine = queue.reserve("t", options="b").jobs[0]
    valid(queue)
    assert queue.forget(b"daemon-2").count == 0
    spared = queue.forget(b"daemon-9", young_us=HOUR)
    assert spared.count == 0 and HOUR - 10**7 < spared.next_us - queue.now() < HOUR
    assert queue.forget(b"daemon-2", young_us=HOUR).next_us == FOREVER
    assert queue.forget(b"daemon-9").count == 1
    assert [queue.get(job.seq).state for job in held] == [READY, READY]
    assert queue.get(held[0].seq).jobs[0].failures == 0
    assert queue.get(mine.seq).state == RESERVED
    assert other.open().count == 1, "it is not known here any more"
    other.close()


def test_a_daemon_that_leaves_gives_back_what_it_held_and_no_more(queue, script_port):
    other = Queue(script_port, daemon=b"daemon-2")
    other.open(places=256)
    seqs = [queue.push().seq for _ in range(4)]
    other.reserve("t", most=3, options="b"), queue.reserve("t", options="b")
    answer = other.forget(most=2)
    assert answer.more and answer.count == 0
    answer = other.forget(most=2)
    assert not answer.more and answer.count == 1
    assert [queue.get(seq).state for seq in seqs] == [READY, READY, READY, RESERVED]
    kept = [field for field in queue.redis.call("HKEYS", queue.keys[0]) if b"daemon-2" in field]
    assert not kept, "its answers go with it"
    other.close()


def test_a_daemon_taken_for_dead_by_mistake_is_known_again_once_it_holds_a_job(queue, script_port):
    other = Queue(script_port, daemon=b"daemon-2")
    queue.push(), queue.push()
    job = other.reserve("t", options="b").jobs[0]
    assert queue.forget(b"daemon-9").count == 1
    assert other.finish(job.seq, job.lease).err == "stale_lease"
    assert other.change("v", job.seq, options="b").err == "ok"
    assert queue.forget(b"daemon-9").count == 1
    assert queue.get(job.seq).state == READY
    other.close()


def test_another_count_of_partitions_is_refused(queue):
    answer = queue.open(partitions=8)
    assert answer.err == "invalid" and answer.count == 16


def test_a_partition_that_is_not_there_says_so(queue):
    queue.redis.call("FLUSHALL")
    with pytest.raises(RedisError, match="LATERDCLOSED"):
        queue.push()
    with pytest.raises(RedisError, match="LATERDCLOSED"):
        queue.reserve("t")
    queue.open()


def test_numbers_grow_even_if_redis_forgot_them(queue):
    before = queue.push().seq
    queue.redis.call("FLUSHALL")
    queue.open()
    assert queue.push().seq > before


def test_p8_a_full_redis_refuses_pushes_but_the_rest_goes_on(queue):
    seqs = [queue.push(waits=(0, 0)).seq for _ in range(9)]
    later = queue.push(due=queue.now() + HOUR, id="kept").seq
    queue.redis.call("CONFIG", "SET", "maxmemory", 1)
    try:
        for words in ({"topic": "new topic"}, {"id": "kept", "exists": "p"}):
            with pytest.raises(RedisError, match="OOM"):
                queue.push(**words)
        assert len(valid(queue)) == 10 and queue.topic("new topic") is None
        queue.promote()
        queue.beat(), queue.forget(b"daemon-9")
        taken = queue.reserve("t", most=3, options="b").jobs + queue.reserve("t", most=2).jobs
        assert [job.seq for job in taken] == seqs[:5]
        assert queue.change("t", seqs[0]).err == "ok"
        assert queue.change("l", seqs[0]).err == "ok"
        assert queue.change("b", seqs[1]).err == "ok"
        assert queue.change("k", seqs[1]).err == "ok"
        assert queue.finish(seqs[3]).err == "ok"
        assert queue.delete(seqs[5]).err == "ok"
        assert queue.sweep("c", "t", READY, 2)[0].count == 2
        assert queue.change("v", seqs[8]).err == queue.change("b", seqs[8]).err == "ok"
        assert queue.sweep("k", "t", BURIED, 2)[0].count == 1
        for what in "pu":
            assert queue.ask("topic", what, "t", queue.now() + HOUR, 0, "").err == "ok"
        assert queue.reserve("t").jobs
        assert queue.change("s", later, due=queue.now() + 2 * HOUR).err == "ok"
        with pytest.raises(RedisError, match="OOM"):
            queue.change("s", later, new=b"another")
        assert queue.get(later).jobs[0].content == b"body"
    finally:
        queue.redis.call("CONFIG", "SET", "maxmemory", "0")


def test_numbers_grow_even_if_the_clock_goes_back(queue):
    last = (queue.now() + HOUR) // 16 * 16 + 3
    state = queue.redis.call("HGET", queue.keys[0], "p")
    queue.redis.call("HSET", queue.keys[0], "p", struct.pack("<Q", last) + state[8:])
    assert [queue.push().seq for _ in range(3)] == [last + 16, last + 32, last + 48]
    assert queue.reserve("t").jobs[0].lease == last + 64


def test_an_older_answer_in_the_same_place_is_not_taken_for_this_one(queue):
    first = queue.push()
    script, args, number = queue.last
    answer, _ = queue.run(script, *args, number=number + 4096, again=True)
    assert answer.seq > first.seq and len(valid(queue)) == 2


def test_all_hear_that_a_partition_was_made_anew(queue, script_port):
    ear = Ear(script_port, queue.daemon)
    queue.open()
    queue.redis.call("FLUSHALL")
    queue.open()
    queue.beat()
    assert [ear.hear() for _ in range(2)] == [b"n3 daemon-1", b"bydaemon-1"]
    ear.close()


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


def test_while_a_cluster_moves_a_slot_no_half_of_a_partition_is_served(tmp_path):
    servers = [Server(tmp_path, "--cluster-enabled", "yes", "--cluster-config-file", "nodes-%d" % number)
               for number in range(2)]
    one, two = [Connection(server.port) for server in servers]
    try:
        one.call("CLUSTER", "ADDSLOTS", *range(16384))
        one.call("CLUSTER", "MEET", "127.0.0.1", servers[1].port)
        wait_until(lambda: all(b"cluster_state:ok" in node.call("CLUSTER", "INFO")
                               for node in (one, two)))
        here, there = Queue(servers[0].port), Queue(servers[1].port)
        here.open()
        here.push(), here.push(due=here.now() + HOUR)
        there.digests["push"] = two.call("SCRIPT", "LOAD", script_text("push"))
        slot = one.call("CLUSTER", "KEYSLOT", here.keys[0])
        two.call("CLUSTER", "SETSLOT", slot, "IMPORTING", one.call("CLUSTER", "MYID"))
        one.call("CLUSTER", "SETSLOT", slot, "MIGRATING", two.call("CLUSTER", "MYID"))

        def push(queue):
            try:
                if queue.asks:
                    queue.redis.call("ASKING")
                return queue.push().err
            except RedisError as error:
                return str(error).split()[0]

        def move(key):
            one.call("MIGRATE", "127.0.0.1", servers[1].port, key, 0, 5000)

        there.asks = True
        for bucket in here.buckets[:100]:
            move(bucket)
        pushes = 0
        while pushes < 3:  # which bucket it is for is a question of time
            said = push(here)
            assert said in ("ok", "ERR"), said
            pushes += said == "ok"
            time.sleep(0.01)
        said = [(push(there))]
        for key in here.keys:
            move(key)
            said.append((push(here), push(there)))
        assert said[0] == "TRYAGAIN"
        for source, target in said[1:4]:
            assert source in ("ASK", "TRYAGAIN") and target == "TRYAGAIN"
        assert said[4][0] == "ASK" and said[4][1] in ("ok", "ERR")
        pushes += said[4][1] == "ok"
        while pushes < 5:
            said = push(there)
            assert said in ("ok", "ERR"), said
            pushes += said == "ok"
            time.sleep(0.01)
        for bucket in here.buckets[100:]:
            move(bucket)  # what was made there meanwhile would be in the way
            pushes += push(there) == "ok"
        for node in (two, one):
            node.call("CLUSTER", "SETSLOT", slot, "NODE", two.call("CLUSTER", "MYID"))
        there.asks = False
        assert push(here) == "MOVED" and len(valid(there)) == pushes + 2
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
