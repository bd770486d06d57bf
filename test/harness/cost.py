"""What a request costs a server, in counts with little noise: so they may be tests."""

import contextlib
import itertools
import os
import shutil
import select
import signal
import socket
import tempfile


def closed_loop(port, request, good, connections, depth, rounds):
    """Each connection keeps `depth` requests under way; each answer has `good` in it, once. Returns how
    many were answered."""
    poll = select.epoll()
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
    numbered = {one.fileno(): one for one in sockets}
    got, left = dict.fromkeys(numbered, b""), dict.fromkeys(numbered, rounds)
    for number, one in numbered.items():
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        poll.register(number, select.EPOLLIN)
    for one in sockets:
        one.sendall(request * depth)
    while any(left.values()):
        ready = poll.poll(60)
        assert ready, f"no answer came behind {[one[-200:] for one in got.values() if one]}"
        for number, _ in ready:
            data = numbered[number].recv(1 << 20)
            assert data, f"the connection ended behind {got[number][-200:]}"
            got[number] += data
            if got[number].count(good) == depth:
                got[number] = b""
                left[number] -= 1
                if left[number]:
                    numbered[number].sendall(request * depth)
    for one in sockets:
        one.close()
    poll.close()
    return connections * depth * rounds


@contextlib.contextmanager
def quick_disk():
    """A directory in memory: on a disk that is slow for a moment laterd's threads do what else its turns do."""
    in_memory = os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 256 << 20  # containers have less
    with tempfile.TemporaryDirectory(prefix="laterd-", dir="/dev/shm" if in_memory else "/tmp") as path:
        yield path


def per_request(start, load, read, rounds):
    """What each request adds to a server's count: start and stop are in both runs alike. load(server,
    rounds) returns how many requests were answered."""
    counts = []
    for turns in rounds:
        server = start()
        answered = load(server, turns)
        os.kill(server.pid, signal.SIGTERM)
        server.wait(60)
        counts.append((answered, read()))
    (few, few_count), (many, many_count) = counts
    return (many_count - few_count) / (many - few)


TRIES = 4


def system_calls(start, folder, load, most):
    """How many a request costs, and strace's table of them. start(prefix, data) starts the server.

    After a commit of a millisecond the disk's thread makes the next four, with more calls (decision 107): so as
    long as there are more than `most` it is tried again, and the least of the tries counts."""
    tried = []
    while len(tried) < TRIES and (not tried or min(tried)[0] > most):
        tried.append(system_calls_once(start, folder, load))
    return min(tried)


def system_calls_once(start, folder, load):
    report = folder / "calls"

    def read():
        rows = [line.split() for line in report.read_text().splitlines()]
        return next(int(row[3]) for row in rows if row and row[-1] == "total")

    prefix = ["strace", "-c", "-f", "-q", "-o", str(report)]
    with quick_disk() as data:
        stores = itertools.count()
        cost = per_request(lambda: start(prefix, f"{data}/{next(stores)}"), load, read, (1, 60))
    return cost, report.read_text()
