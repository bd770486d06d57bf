"""A cluster is rebuilt under load: by redis-cli, as people do it, by hand, and by a kill -9. Two
daemons, clients of both protocols that work without a pause, and the oracle of the crash tests: no
job is lost, comes twice within its ttr, too early or after its end; whoever asks is answered in
time, with success or with "not now".
"""

import binascii
import contextlib
import itertools
import os
import random
import sys
import time

import pytest
from busy import Busy
from patience import soon
from redis import REDIS_CLI, REDIS_SERVER, Cluster, identity, owners, role, wait_until
from wire import Client, eventually

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                                "crash"))

from redis_load import Part  # noqa: E402

pytestmark = pytest.mark.skipif(not REDIS_SERVER or not REDIS_CLI,
                                reason="there is no redis-server, or no redis-cli")

TIMEOUT_S = 2
NOISE_S = 1.5  # what a busy machine may add
BUSY_S = 0.5  # beyond it the machine tells nothing about how long an answer takes
PARTITIONS = 128
PAUSE_S = 0.01  # after each act of a client: without it they use all processors that there are, and prove no more
SLOTS_MOVED = 60  # at a time: redis-cli takes up to two seconds for each on a busy machine


@pytest.fixture(scope="module")
def cluster():
    with Cluster(repl_ping_replica_period=1) as six:
        yield six


def first_slots(server):
    """Those that redis-cli moves away first."""
    slots = []
    for word in owners(server).get(identity(server), []):
        ends = [int(end) for end in word.split("-")]
        slots += range(ends[0], ends[-1] + 1)
    return set(sorted(slots)[:SLOTS_MOVED])


def prefix_that_moves(cluster, name):
    """Of a queue with two partitions or more in those slots of each master: most have none."""
    moved = [slots for slots in map(first_slots, cluster.servers) if slots]
    for number in itertools.count():
        prefix = f"{name}-{number}"
        slots = {binascii.crc_hqx(f"{prefix}:{part}".encode(), 0) % 16384 for part in range(PARTITIONS)}
        if all(len(slots & those) >= 2 for those in moved):
            return prefix


class Load:
    """Goes on while the block runs, and is judged at its end."""

    tries = itertools.count()

    def __init__(self, cluster, name, **settings):
        # A test that is tried again has a queue of its own.
        prefix = prefix_that_moves(cluster, f"{name}-{next(self.tries)}")
        self.part = Part(cluster.url, random.Random(name), 6, PAUSE_S, prefix=prefix,
                         timeout=f"{TIMEOUT_S}s", partitions=PARTITIONS, **settings)

        self.busy = Busy()

    def __enter__(self):
        self.busy.__enter__()
        self.goes_on()
        return self

    def goes_on(self):
        """Until more was acknowledged."""
        before = self.acknowledged()
        assert eventually(lambda: self.acknowledged() > before + 50, 20), self.part.oracle.counts()

    def acknowledged(self):
        return self.part.oracle.counts()["acknowledged"]

    def was_silent(self):
        """Did a daemon say that none of its heartbeats was answered for five seconds?"""
        return any(daemon.events("redis_silent") for daemon in self.part.daemons)

    def __exit__(self, failure, *_):
        try:
            if failure:
                return
            self.goes_on()
            counts, faults = self.part.end(), dict(self.part.oracle.faults)
            if self.was_silent():  # and so dead to the other, which gave away what its connections held
                del faults["doubled"]
            assert not self.part.failures, "\n".join(
                self.part.failures + [line for daemon in self.part.daemons for line in daemon.lines[-30:]])
            assert not any(faults.values()), (counts, self.part.oracle.faults)
            if self.busy.longest_s <= BUSY_S:
                soon(self.part.oracle.slowest_answer_s, TIMEOUT_S + NOISE_S)
        finally:
            self.busy.__exit__()
            self.part.close()


@pytest.mark.long
def test_p2_p4_p5_redis_cli_moves_slots_under_load(cluster):
    first, second, third = cluster.servers[:3]
    with Load(cluster, "reshard") as load:
        cluster.reshard(first, second, SLOTS_MOVED)
        load.goes_on()
        cluster.cli("rebalance", third.address, "--cluster-threshold", 1)  # a hundredth: most go back
        cluster.reshard(third, first, SLOTS_MOVED)


@pytest.mark.long
def test_p2_p4_p5_a_master_joins_and_leaves_under_load(cluster):
    with contextlib.ExitStack() as ends, Load(cluster, "join") as load:
        server = cluster.add_master()
        ends.callback(server.close)
        cluster.reshard(cluster.servers[0], server, SLOTS_MOVED)
        load.goes_on()
        cluster.remove_master(server)
        load.goes_on()


def starts_and_serves(laterd, *seeds):
    url = "redis+cluster://" + ",".join(server.address for server in seeds)
    server = laterd({"engine": {"engine": "redis"}, "redis": {"url": url, "prefix": "seeds"}})
    with Client(server.port) as client:
        for number in range(32):  # in all partitions
            client.push_id("t", id=f"{seeds[0].port}-{number}", body="x")


def test_a_server_that_left_the_cluster_may_stay_in_the_url(cluster, laterd):
    """It answers, and is a master; but it knows of no slots."""
    server = cluster.add_master()
    cluster.reshard(cluster.servers[0], server, 10)
    cluster.remove_master(server)
    starts_and_serves(laterd, server, cluster.servers[0])
    server.close()


def test_all_servers_of_the_url_may_have_become_replicas(cluster, laterd):
    """Each leads to its master, which knows the others."""
    starts_and_serves(laterd, *[one for one in cluster.servers if role(one) != "master"])


def test_p2_p4_p5_every_master_hands_over_to_its_replica_under_load(cluster):
    with Load(cluster, "hand-over") as load:
        for replica in [server for server in cluster.servers if role(server) != "master"]:
            cluster.fail_over(replica)
            load.goes_on()


def test_p2_p4_p5_a_replica_takes_over_from_a_dead_master_under_load(cluster):
    """An acknowledged change is in the replica: wait_replicas = 1."""
    master, replica = cluster.servers[1], cluster.servers[4]
    if role(master) != "master":
        master, replica = replica, master
    with cluster.hasty(), Load(cluster, "take-over", wait_replicas=1) as load:
        master.kill()
        time.sleep(0.5)  # before the replica takes over, and behind the last answers
        load.part.oracle.server_died()  # a reservation waits for no replica
        wait_until(lambda: role(replica) == "master", 20)
        master.start()  # as a replica: only then can changes be acknowledged
        wait_until(lambda: master.info("replication").get("master_link_status") == "up", 20)
        load.part.wait_ready(time.monotonic())
