"""Ports of the loopback for servers that want to be told theirs. They are below those that the system
gives to connections, and each worker of a parallel run has a range of its own; TEST_PORTS is the number of one
(0 to 6) for a program beside them."""

import os
import random
import socket

WORKERS = 7
WORKER = int(os.environ.get("TEST_PORTS") or os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % WORKERS
SINGLE = range(10000 + 700 * WORKER, 10000 + 700 * (WORKER + 1))  # to 14899
OF_CLUSTERS = range(15000 + 1000 * WORKER, 15000 + 1000 * (WORKER + 1))  # to 21999
CHANCE = random.SystemRandom()  # tests and hypothesis set the seed of the other one
BUS = 10000  # of a cluster's node: its port and so much


def is_free(port):
    try:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
        return True
    except OSError:
        return False


given = set()


def take(ports, count, also=0):
    """`count` free ports that this process was not given before, while there are such."""
    found = []
    while len(found) < count:
        if len(given.intersection(ports)) > len(ports) // 2:
            given.difference_update(ports)
        port = CHANCE.choice(ports)
        if port not in given and is_free(port) and is_free(port + also):
            given.add(port)
            found.append(port)
    return found


def free_port():
    return take(SINGLE, 1)[0]


def cluster_ports(count):
    """Ports whose cluster bus is free, too."""
    return take(OF_CLUSTERS, count, BUS)
