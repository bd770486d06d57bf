"""Sinks end in time though their brokers take connections and say nothing. Without a queue behind them
(test/harness/sink_drive.c). That of AMQP is in test_member.py."""

import os
import subprocess
import time

import pytest

from nats import INSTALLED, Nats
from patience import soon
from process import LATERD
from push import preloaded_names
from silent import SilentBroker
from wire import eventually

BUILD = os.path.dirname(LATERD)

pytestmark = pytest.mark.embedded("there is no engine")


@pytest.mark.parametrize("wait", [0.2, 2.5])
@pytest.mark.parametrize("plugin,scheme", [("nats", "nats"), ("nats", "nats+tls"), ("kafka", "kafka"), ("kafka", "kafkas")])
def test_a_sink_of_four_silent_addresses_ends_in_time(plugin, scheme, wait):
    """While it connects for the first time, and when it does so again."""
    path = os.path.join(BUILD, f"laterd-{plugin}.so")
    if not os.path.exists(path):
        pytest.skip("its library was not there when laterd was built")
    brokers = [SilentBroker() for _ in range(4)]
    hosts = ",".join(f"127.0.0.1:{broker.port}" for broker in brokers)
    drive = subprocess.Popen([os.path.join(BUILD, "sink_drive"), path, f"{scheme}://{hosts}"],
                             stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert eventually(lambda: any(broker.connections for broker in brokers))
        time.sleep(wait)
        assert drive.poll() is None
        begun = time.monotonic()
        drive.stdin.write(b"close 0\n")
        drive.stdin.flush()
        assert drive.wait(60) == 0
        soon(time.monotonic() - begun, 5)
    finally:
        drive.kill()
        drive.wait()
        for broker in brokers:
            broker.close()


def drive_nats(tmp_path, url):
    """The sink, and what it says of being ready, with names of the test's own."""
    path = os.path.join(BUILD, "laterd-nats.so")
    if not os.path.exists(path):
        pytest.skip("its library was not there when laterd was built")
    return subprocess.Popen([os.path.join(BUILD, "sink_drive"), path, url], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            env=dict(os.environ, **preloaded_names(str(tmp_path))))


def close(drive):
    begun = time.monotonic()
    drive.stdin.write("close 0\n")
    drive.stdin.flush()
    assert drive.wait(60) == 0
    return time.monotonic() - begun


def test_a_name_server_that_is_silent_is_waited_for_two_seconds(tmp_path):
    """slow.test is not answered for 20 s."""
    begun = time.monotonic()
    with drive_nats(tmp_path, "nats://slow.test:4222") as drive:
        said = drive.stdout.readline()
        assert said.startswith("ready 0 NATS is away (slow.test:4222): the name server does not answer in time")
        assert time.monotonic() - begun > 1.5
        soon(time.monotonic() - begun, 5)
        soon(close(drive), 2)  # during the next attempt


@pytest.mark.skipif(not INSTALLED, reason="nats-server is not installed")
def test_a_server_whose_name_is_not_answered_does_not_keep_the_others_away(tmp_path):
    with Nats() as nats:
        hosts = f"slow.test:4222,127.0.0.1:{nats.port},localhost:{nats.port}"
        with drive_nats(tmp_path, f"nats://{hosts}") as drive:
            begun = time.monotonic()
            said = drive.stdout.readline()
            soon(time.monotonic() - begun, 6)
            assert said == "ready 1\n"
            nats.kill()
            assert drive.stdout.readline().startswith("ready 0 ")
            nats.start()
            assert "ready 1\n" in iter(drive.stdout.readline, "")  # it may say more than once that it is away
            soon(close(drive), 3)
