"""Sinks end in time though their brokers take connections and say nothing. Without a queue behind them
(test/harness/sink_drive.c). That of AMQP is in test_member.py."""

import os
import subprocess
import time

import pytest

from patience import soon
from process import LATERD
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
