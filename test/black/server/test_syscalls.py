"""System calls per push: a figure with little noise, so it may be a test."""

import json
import shutil

import pytest
from cost import closed_loop, system_calls
from wire import request_bytes

pytestmark = [pytest.mark.serial,
              pytest.mark.skipif(not shutil.which("strace"), reason="no strace"),
              pytest.mark.embedded("what the embedded engine costs")]


def calls(laterd, tmp_path, connections, depth, most):
    body = json.dumps({"body": "x" * 256, "delay": "1h"}).encode()
    push = request_bytes("POST", "/v1/topics/t/jobs", body)
    return system_calls(lambda prefix, data: laterd(prefix=prefix, data=data), tmp_path, lambda server, rounds:
                        closed_loop(server.port, push, b"HTTP/1.1 201", connections, depth, rounds), most)


def test_a_push_costs_at_most_2_2_system_calls_at_depth_1(laterd, tmp_path):
    per_push, table = calls(laterd, tmp_path, connections=64, depth=1, most=2.2)
    assert per_push <= 2.2, f"{per_push:.2f} system calls a push\n{table}"


def test_a_pipelined_push_costs_at_most_a_quarter_of_one(laterd, tmp_path):
    per_push, table = calls(laterd, tmp_path, connections=16, depth=16, most=0.25)
    assert per_push <= 0.25, f"{per_push:.2f} system calls a push\n{table}"
