#!/usr/bin/python3
"""kill -9 where the queue lives in Redis: of daemons, of Redis, and of a master with a replica.

Two daemons serve one queue; eight connections, every third a client of beanstalkd, work through
both without a pause and connect again when theirs is gone. Four parts, each with its oracle and a
queue of its own, drained at the end:

    daemons    one of the two (now and then both) is killed and started again; Redis stays. A lease
               outlives the daemon that gave it, so a job that comes twice is a fault here too.
    redis      Redis, which syncs each write (appendfsync always), is killed and started again.
    failovers  the master is killed, in half of the rounds after its replica was cut off for a
               while; sentinels make the replica the master. wait_replicas = 1. What is lost is
               counted, and told as it is: Redis promises nothing here. Three failovers with
               wait_replicas = 0 come before, as the control: they should lose.
    cluster    three masters, each with a replica. redis-cli moves slots or evens them out, a
               master joins and leaves, a replica takes over by hand, or from a master that is
               killed. wait_replicas = 1, so that nothing may be lost.

The negative controls come first: the oracle is shown each fault, and a Redis that keeps nothing on
disk is killed, after which it must find jobs lost.

usage: crash_redis.py [--daemons N] [--redis N] [--failovers N] [--cluster N] [--seed N]
                      [--threads N]
"""

import argparse
import os
import random
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "harness"))
sys.path.insert(0, HERE)

from oracle import control, rounds_until_wrong, tell_what_is_wrong  # noqa: E402
from process import DidNotStart  # noqa: E402
from redis import Cluster, Redis, Sentinels, role  # noqa: E402
from redis_load import FAULTS, Part  # noqa: E402


def kill_daemons(part):
    part.load(0.05, 0.5)
    victims = [part.rng.choice(part.daemons)] if part.rng.random() < 0.8 else part.daemons
    for daemon in victims:
        daemon.kill()
    part.load(0, 0.3)
    for daemon in victims:
        if part.rng.random() < 0.1:  # killed while it starts
            daemon.start(wait=False)
            part.load(0, 0.03)
            daemon.kill()
        daemon.start()


def kill_redis(part, redis):
    part.load(0.1, 0.8)
    redis.kill()
    part.load(0, 0.8)
    redis.start()
    part.wait_ready(time.monotonic())


def fail_over(part, sentinels):
    part.load(0.3, 0.8)
    master = sentinels.master()
    replica = next(server for server in sentinels.servers if server is not master)
    until(sentinels.calm, "a sentinel is in TILT all the time")
    if part.rng.random() < part.cut_off:
        # Halted alone, it would find in its socket what the master had sent meanwhile.
        replica.freeze()
        master.call("CLIENT", "KILL", "TYPE", "replica")
        part.load(0.1, 0.4)
    master.kill()
    replica.thaw()
    # One attempt takes up to 4 s, and the next begins 8 s later: on a busy machine, some fail.
    until(lambda: sentinels.master() is replica and replica.info("replication")["role"] == "master",
          lambda: "the sentinels made nobody master: " + sentinels.describe(), seconds=120)
    part.load(0.2, 0.4)  # without a replica: nothing can be acknowledged
    master.extra = [f"replicaof 127.0.0.1 {replica.port}"]
    master.start()
    until(lambda: master.info("replication").get("master_link_status") == "up",
          "the old master did not become a replica")
    part.wait_ready(time.monotonic())  # not before: a daemon that has met too few replicas says so until there are
    until(lambda: sentinels.slaves_known() == 3, "the sentinels do not know the replica")


def move_slots(part, cluster, masters):
    source, target = part.rng.sample(masters, 2)
    cluster.reshard(source, target, part.rng.randrange(100, 1000))


def even_out(part, cluster, masters):
    del part
    cluster.cli("rebalance", masters[0].address)


def join_and_leave(part, cluster, masters):
    server = cluster.add_master()
    cluster.reshard(part.rng.choice(masters), server, part.rng.randrange(100, 1000))
    part.load(0.1, 0.5)
    cluster.remove_master(server)
    server.close()


def hand_over(part, cluster, masters):
    cluster.fail_over(part.rng.choice([one for one in cluster.servers if one not in masters]))


def kill_master(part, cluster, masters):
    victim = part.rng.choice(masters)
    with cluster.hasty():
        victim.kill()
        alive = [server for server in cluster.servers if server is not victim]
        until(lambda: sum(role(server) == "master" for server in alive) == len(masters),
              "no replica became the master")
    part.load(0.2, 0.4)  # without its replica: what is there cannot be acknowledged
    victim.start()
    until(lambda: victim.info("replication").get("master_link_status") == "up",
          "the old master did not become a replica")


def rebuild(part, cluster):
    part.load(0.3, 0.8)
    until(lambda: replicated(cluster), "a replica is not there")
    masters = [server for server in cluster.servers if role(server) == "master"]
    part.rng.choice([move_slots, even_out, join_and_leave, hand_over, hand_over, kill_master,
                     kill_master])(part, cluster, masters)
    part.wait_ready(time.monotonic())


def replicated(cluster):
    """Has each master a replica that listens? One may have lost its own to another."""
    facts = [server.info("replication") for server in cluster.servers]
    return cluster.agreed() and all(fact["connected_slaves"] != "0" for fact in facts
                                    if fact["role"] == "master")


def holds(claim):
    """Not when the question was cut off: a sentinel that makes a server a replica ends its connections."""
    try:
        return claim()
    except ConnectionError:
        return False


def until(claim, otherwise, seconds=60):
    """`otherwise`: what is wrong if it does not hold in time, or what tells that."""
    end = time.monotonic() + seconds
    while not holds(claim):
        if time.monotonic() > end:
            raise DidNotStart(otherwise() if callable(otherwise) else otherwise)
        time.sleep(0.02)


def run_part(name, rounds, part, one_round):
    """The counts, or None: something was wrong that no oracle has a word for."""
    begin, done = time.monotonic(), 0
    try:
        for number in rounds_until_wrong(f"crash-redis: {name}", part, rounds):
            one_round()
            done = number
        counts = part.end()
    except (DidNotStart, RuntimeError) as why:
        part.failures.append(str(why))
        counts = part.oracle.counts()
    finally:
        part.close()
    tell_what_is_wrong(f"crash-redis: {name}", part.failures, part.oracle)
    slowest = f", ready again within {part.slowest_s:.2f} s" if part.slowest_s else ""
    slowest += f", slowest answer {part.oracle.slowest_answer_s:.2f} s"
    print(f"crash-redis: {name}: {done} rounds in {time.monotonic() - begin:.0f} s{slowest}: "
          + ", ".join(f"{counts[key]} {key}" for key in counts)
          + f", {part.oracle.not_now} not now", flush=True)
    return None if part.failures else counts


def redis_control(rng, threads):
    """A Redis that keeps nothing must be seen to lose."""
    with Redis(appendonly="no") as redis:
        part = Part(redis.url, rng, threads)
        counts = run_part("control, appendonly no", 1, part, lambda: kill_redis(part, redis))
    return counts is not None and counts["lost"] > 0


def fail_over_often(rng, threads, rounds, wait_replicas):
    """False: something that no failover explains."""
    with Sentinels(appendonly="yes") as sentinels:
        part = Part(sentinels.url, rng, threads, wait_replicas=wait_replicas)
        # One that came back after its end may be called early: the oracle has forgotten its id.
        part.bears = ("lost", "resurrected", "doubled", "early")
        part.cut_off = 0.5 if wait_replicas else 1
        counts = run_part(f"failovers, wait_replicas {wait_replicas}", rounds, part,
                          lambda: fail_over(part, sentinels))
    return counts is not None and not any(counts[name] for name in FAULTS
                                          if name not in part.bears)


def run(options, rng):
    """True: nothing is wrong."""
    good = True
    if options.daemons:
        with Redis(appendonly="yes") as redis:
            part = Part(redis.url, rng, options.threads)
            counts = run_part("daemons", options.daemons, part, lambda: kill_daemons(part))
            good &= counts is not None and not any(counts[name] for name in FAULTS)
    if options.redis:
        if not redis_control(rng, options.threads):
            print("crash-redis: the control lost nothing: what follows shows nothing")
            good = False
        with Redis(appendonly="yes", appendfsync="always") as redis:
            part = Part(redis.url, rng, options.threads)
            counts = run_part("redis", options.redis, part, lambda: kill_redis(part, redis))
            good &= counts is not None and not any(counts[name] for name in FAULTS)
    if options.failovers:
        good &= fail_over_often(rng, options.threads, 3, wait_replicas=0)
        good &= fail_over_often(rng, options.threads, options.failovers, wait_replicas=1)
    if options.cluster:
        with Cluster(appendonly="yes", repl_ping_replica_period=1) as cluster:
            part = Part(cluster.url, rng, options.threads, wait_replicas=1, partitions=64)
            counts = run_part("cluster", options.cluster, part, lambda: rebuild(part, cluster))
            good &= counts is not None and not any(counts[name] for name in FAULTS)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--daemons", type=int, default=100, help="rounds of killing daemons")
    parser.add_argument("--redis", type=int, default=20, help="rounds of killing Redis")
    parser.add_argument("--failovers", type=int, default=10)
    parser.add_argument("--cluster", type=int, default=20, help="rounds of rebuilding a cluster")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--threads", type=int, default=8)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "big")
    control()
    print(f"crash-redis: seed {seed}, {options.daemons} + {options.redis} + {options.failovers} + "
          f"{options.cluster} rounds, {options.threads} connections", flush=True)
    good = run(options, random.Random(seed))
    print(f"crash-redis: seed {seed}: {'ok' if good else 'FAILED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
