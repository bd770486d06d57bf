"""What a put of a beanstalkd client costs, in figures without noise: so they may be tests."""

import re
import shutil

import pytest
from cost import closed_loop, per_request, system_calls

pytestmark = [pytest.mark.serial,
              pytest.mark.embedded("what the embedded engine costs")]

BODY = b"x" * 256
PUT = b"put 0 86400 60 %d\r\n%s\r\n" % (len(BODY), BODY)

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
needs_valgrind = pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind")


@pytest.fixture
def start(laterd):
    return lambda prefix, data=None: laterd(beanstalk=("127.0.0.1:0",), prefix=prefix, **({"data": data} if data else {}))


def puts(connections, depth):
    return lambda server, rounds: closed_loop(server.beanstalk_port, PUT, b"INSERTED ",
                                              connections, depth, rounds)


@needs_strace
def test_a_put_costs_at_most_2_3_system_calls_at_depth_1(start, tmp_path):
    per_put, table = system_calls(start, tmp_path, puts(connections=64, depth=1), most=2.3)
    assert per_put <= 2.3, f"{per_put:.2f} system calls a put\n{table}"


@needs_strace
def test_a_pipelined_put_costs_at_most_3_tenths_of_a_system_call(start, tmp_path):
    per_put, table = system_calls(start, tmp_path, puts(connections=16, depth=16), most=0.3)
    assert per_put <= 0.3, f"{per_put:.2f} system calls a put\n{table}"


# docs/performance-history.md says where they go; lower this when they are fewer. The client is slower
# than `later bench`, so fewer puts share a turn, and each costs some more than in the bench.
# Under valgrind work takes fifty times its estimate, so turns end sooner (base/budget.h): that costs
# 100 to 200 instructions a put that it does not cost elsewhere.
@needs_valgrind
def test_a_put_costs_at_most_3400_user_instructions(start, tmp_path):
    report = tmp_path / "callgrind.out"

    def read():
        return int(re.search(r"^(?:summary|totals): (\d+)", report.read_text(), re.M).group(1))

    # timeout(1) in front: the server is then a child of what was started, as under strace.
    prefix = ["timeout", "--foreground", "100", "valgrind", "--quiet", "--tool=callgrind",
              f"--callgrind-out-file={report}"]
    per_put = per_request(lambda: start(prefix), puts(16, 16), read, (8, 48))
    assert per_put <= 3400, f"{per_put:.0f} user instructions a put"
