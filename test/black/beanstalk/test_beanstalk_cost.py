"""What a put of a beanstalkd client costs, in figures without noise: so they may be tests."""

import os
import re
import select
import shutil
import signal
import socket

import pytest

pytestmark = [pytest.mark.serial,
              pytest.mark.embedded("what the embedded engine costs")]

BODY = b"x" * 256
PUT = b"put 0 86400 60 %d\r\n%s\r\n" % (len(BODY), BODY)

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
needs_valgrind = pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind")


def put(port, connections, depth, rounds, seconds_max=60):
    """Closed loop: each connection keeps `depth` puts under way. Returns how many were answered."""
    poll = select.epoll()
    sockets, left, sent, cut = {}, {}, {}, {}
    for _ in range(connections):
        one = socket.create_connection(("127.0.0.1", port))
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number = one.fileno()
        sockets[number], left[number], sent[number], cut[number] = one, depth, 1, b""
        poll.register(number, select.EPOLLIN)
    answered, goal = 0, connections * depth * rounds
    for one in sockets.values():
        one.sendall(PUT * depth)
    while answered < goal:
        ready = poll.poll(seconds_max)
        assert ready, "no answer came"
        for number, _ in ready:
            data = sockets[number].recv(1 << 20)
            *answers, cut[number] = (cut[number] + data).split(b"\r\n")
            assert data and all(one.startswith(b"INSERTED ") for one in answers), answers[:9]
            answered += len(answers)
            left[number] -= len(answers)
            if left[number] == 0 and sent[number] < rounds:
                left[number] = depth
                sent[number] += 1
                sockets[number].sendall(PUT * depth)
    for one in sockets.values():
        one.close()
    poll.close()
    return answered


def cost(laterd, prefix, read, load, rounds):
    """What each put adds to the whole server's count: start and stop are in both runs alike."""
    counts = []
    for turns in rounds:
        server = laterd(beanstalk=("127.0.0.1:0",), prefix=prefix)
        answered = put(server.beanstalk_port, *load, turns)
        os.kill(server.pid, signal.SIGTERM)
        server.wait(60)
        counts.append((answered, *read()))
    (few, few_count, _), (many, many_count, report) = counts
    return (many_count - few_count) / (many - few), report


def system_calls(laterd, tmp_path, connections, depth):
    report = tmp_path / "calls"

    def read():
        table = report.read_text()
        last = [line for line in table.splitlines() if line.endswith("total")][-1]
        return int(last.split()[3]), table

    prefix = ["strace", "-c", "-f", "-q", "-o", str(report)]
    return cost(laterd, prefix, read, (connections, depth), (1, 60))


@needs_strace
def test_a_put_costs_at_most_2_3_system_calls_at_depth_1(laterd, tmp_path):
    per_put, table = system_calls(laterd, tmp_path, connections=64, depth=1)
    assert per_put <= 2.3, f"{per_put:.2f} system calls a put\n{table}"


@needs_strace
def test_a_pipelined_put_costs_at_most_3_tenths_of_a_system_call(laterd, tmp_path):
    per_put, table = system_calls(laterd, tmp_path, connections=16, depth=16)
    assert per_put <= 0.3, f"{per_put:.2f} system calls a put\n{table}"


# docs/performance.md says where they go; lower this when they are fewer.
@needs_valgrind
def test_a_put_costs_at_most_3150_user_instructions(laterd, tmp_path):
    report = tmp_path / "callgrind.out"

    def read():
        return int(re.search(r"^(?:summary|totals): (\d+)", report.read_text(), re.M).group(1)), ""

    # timeout(1) in front: the server is then a child of what was started, as under strace.
    prefix = ["timeout", "--foreground", "100", "valgrind", "--quiet", "--tool=callgrind",
              f"--callgrind-out-file={report}"]
    per_put, _ = cost(laterd, prefix, read, (16, 16), (8, 48))
    assert per_put <= 3150, f"{per_put:.0f} user instructions a put"
