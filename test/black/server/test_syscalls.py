"""System calls per push: a figure without noise, so it may be a test."""

import json
import os
import select
import shutil
import signal
import socket

import pytest

from wire import request_bytes

pytestmark = [pytest.mark.serial,
              pytest.mark.skipif(not shutil.which("strace"), reason="no strace"),
              pytest.mark.embedded("what the embedded engine costs")]


def load(port, connections, depth, seconds_max, rounds):
    """Closed loop: each connection keeps `depth` pushes under way. Returns how many were answered."""
    body = json.dumps({"body": "x" * 256, "delay": "1h"}).encode()
    push = request_bytes("POST", "/v1/topics/t/jobs", body)
    poll = select.epoll()
    sockets, left = {}, {}
    for _ in range(connections):
        one = socket.create_connection(("127.0.0.1", port))
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[one.fileno()], left[one.fileno()] = one, depth
        poll.register(one.fileno(), select.EPOLLIN)
    answered = goal = 0
    goal = connections * depth * rounds
    sent = dict.fromkeys(sockets, 1)
    for one in sockets.values():
        one.sendall(push * depth)
    while answered < goal:
        ready = poll.poll(seconds_max)
        assert ready, "no answer came"
        for number, _ in ready:
            data = sockets[number].recv(1 << 20)
            count = data.count(b"HTTP/1.1 201")
            assert count and data.count(b"HTTP/1.1 ") == count, data[:200]
            answered += count
            left[number] -= count
            if left[number] == 0 and sent[number] < rounds:
                left[number] = depth
                sent[number] += 1
                sockets[number].sendall(push * depth)
    for one in sockets.values():
        one.close()
    return answered


def counted(laterd, tmp_path, connections, depth, rounds):
    """System calls of the whole server per push, start and stop not counted (a run of none)."""
    totals = []
    for turns in (1, rounds):
        report = tmp_path / f"calls{turns}"
        server = laterd(prefix=["strace", "-c", "-f", "-q", "-o", str(report)])
        answered = load(server.port, connections, depth, 30, turns)
        os.kill(server.pid, signal.SIGTERM)
        server.wait(60)
        last = [line for line in report.read_text().splitlines() if line.endswith("total")][-1]
        totals.append((answered, int(last.split()[3]), report.read_text()))
    (few, few_calls, _), (many, many_calls, table) = totals
    return (many_calls - few_calls) / (many - few), table


def test_a_push_costs_at_most_two_and_a_half_system_calls_at_depth_1(laterd, tmp_path):
    per_push, table = counted(laterd, tmp_path, connections=64, depth=1, rounds=60)
    assert per_push <= 2.5, f"{per_push:.2f} system calls a push\n{table}"


def test_a_pipelined_push_costs_at_most_four_tenths_of_one(laterd, tmp_path):
    per_push, table = counted(laterd, tmp_path, connections=16, depth=16, rounds=60)
    assert per_push <= 0.4, f"{per_push:.2f} system calls a push\n{table}"
