"""Many clients and many tubes: they cost memory, and nobody time.

CONNECTIONS says how many clients; by default 15,000, or as many as the limit of open files lets one
process hold. `make connections` runs this alone.
"""

import contextlib
import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import time

import pytest

from beanstalk import Connection, Gone, command
from patience import PATIENCE_S, soon
from process import Laterd
from wire import eventually

SPARE_FILES = 200
TAKEN_AT_ONCE = 100  # fewer than a listener keeps


def connections_wanted():
    """How many this machine lets both sides hold; the soft limit is raised to the hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    wanted = int(os.environ.get("CONNECTIONS", "15000"))
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard - SPARE_FILES)


def address(at):
    """10,000 clients from each address of this machine's, so that no one runs out of ports."""
    return f"127.0.0.{1 + at // 10000}"


def rss_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def leave(held):
    """Those that have no job end with a reset: else 15,000 ports would be in TIME_WAIT for a minute, and who wants
    a free one then, as the next run of this test does, would search for long: 20 s of processor, not 1."""
    for at, client in enumerate(held):
        if at % 100:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()


@pytest.mark.serial
@pytest.mark.deadline
def test_thousands_of_clients_are_held_and_one_more_is_served(tmp_path):
    count = connections_wanted()
    limits = {"limits": {"connections": count + 100, "waiters": count + 100}}
    held = []
    with Laterd(tmp_path, limits, beanstalk=["127.0.0.1:0"]) as server:
        ids, empty = [], rss_bytes(server.pid)
        try:
            with Connection(server.beanstalk_port) as one:
                def all_are_taken():
                    return int(one.stats()["current-connections"]) == len(held) + 1

                for at in range(count):
                    held.append(socket.create_connection(("127.0.0.1", server.beanstalk_port), 30,
                                                         source_address=(address(at), 0)))
                    if at % TAKEN_AT_ONCE == 0:  # else the system drops some that laterd has not taken yet
                        assert eventually(all_are_taken)
                assert eventually(all_are_taken)
                each = (rss_bytes(server.pid) - empty) / count
                print(f"{count} clients, {each:.0f} bytes each")
                assert each < 4096, f"{each:.0f} bytes a client"
                for client in held[::100]:
                    client.sendall(b"reserve\r\n")
                waiting = len(held[::100])
                assert eventually(lambda: int(one.stats()["current-waiting"]) == waiting, 30)
                begin = time.monotonic()
                ids = [one.put(str(at)) for at in range(waiting)]
                soon(time.monotonic() - begin, 10)  # puts go on beside them
                got = set()
                for client in held[::100]:
                    client.settimeout(PATIENCE_S)
                    answer = client.recv(100)
                    assert answer.startswith(b"RESERVED "), answer
                    got.add(int(answer.split()[1]))
                assert got == set(ids), "each waiting client has got one"
        finally:
            leave(held)
        with Connection(server.beanstalk_port) as one:
            assert eventually(lambda: int(one.stats()["current-connections"]) == 1, 30)
            assert int(one.stats()["current-jobs-ready"]) == len(ids), "what they held is back"


def test_out_of_connections_is_said(tmp_path):
    with Laterd(tmp_path, {"limits": {"connections": 3}}, beanstalk=["127.0.0.1:0"]) as server:
        held = [Connection(server.beanstalk_port) for _ in range(3)]
        for one in held:
            assert one.ask("list-tube-used") == "USING default"
        with Connection(server.beanstalk_port) as extra:
            assert extra.answer() == "OUT_OF_MEMORY" and extra.closed()
        held.pop().close()

        def served():
            with Connection(server.beanstalk_port) as again, contextlib.suppress(Gone, ConnectionError):
                return again.send("list-tube-used\r\n").answer() == "USING default"
            return False

        assert eventually(served)
        for one in held:
            one.close()


TUBES = 100_000
PUTS = 500


def counting(server, on):
    subprocess.run(["callgrind_control", "-i", "on" if on else "off", str(server.pid)], check=True,
                   timeout=60, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def instructions_per_put(folder, prepare):
    """What a put into one tube costs, one at a time, after prepare(server)."""
    report = folder / "callgrind.out"
    # timeout(1) in front: the server is then a child of what was started, as `prefix` wants it.
    prefix = ["timeout", "--foreground", "600", "valgrind", "--quiet", "--tool=callgrind",
              "--instr-atstart=no", f"--callgrind-out-file={report}"]
    with Laterd(folder, {"limits": {"topics": TUBES + 1000}}, beanstalk=["127.0.0.1:0"],
                arguments=["--no-persist"], prefix=prefix) as server:
        with Connection(server.beanstalk_port, 60) as one:
            one.ask("use busy")
            prepare(one)
            one.put(b"x" * 256, delay=3600)  # the first of a tube makes its topic
            counting(server, True)
            for _ in range(PUTS):
                one.put(b"x" * 256, delay=3600)
            counting(server, False)
        server.stop(60)
    total = re.search(r"^totals: (\d+)", report.read_text(), re.M)
    return int(total.group(1)) / PUTS


def fill(one, tubes):
    """TUBES jobs, spread over so many tubes; then the tube of before."""
    for first in range(0, TUBES, 100):
        one.send(b"".join(command(f"use tube-{at % tubes}") + command("put 0 3600 60 1", b"x")
                          for at in range(first, first + 100)))
        for _ in range(100):
            one.answer()
            assert one.answer().word == "INSERTED"
    one.ask("use busy")
    assert int(one.stats()["current-tubes"]) == tubes + 2, "default and busy are there too"


@pytest.mark.long
@pytest.mark.embedded("what the embedded engine costs")
@pytest.mark.skipif(not shutil.which("callgrind_control"), reason="valgrind is not installed")
def test_a_put_costs_the_same_beside_a_hundred_thousand_tubes(tmp_path):
    """As many jobs wait in both: only the tubes differ."""
    few = instructions_per_put(tmp_path / "few", lambda one: fill(one, 1))
    many = instructions_per_put(tmp_path / "many", lambda one: fill(one, TUBES))
    print(f"{few:.0f} instructions a put beside one tube, {many:.0f} beside {TUBES}")
    assert many < few * 1.1
