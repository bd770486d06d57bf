"""Turns of the event loop that take too long, by laterd's own histogram, which must be of processor time
(server.turn_cpu). A play has three tries: a machine with other work makes caches cold. One in which a hypervisor took
much (harness/steal.py) is not counted; six of them are not."""

import re

import pytest
from steal import tried
from wire import Client

LONGEST = "0.005000"
BUCKET = re.compile(r'laterd_turn_seconds_bucket\{le="([^"]+)"\} (\d+)')


def long_turns(client):
    """How many turns have been longer than they may be, so far."""
    buckets = dict(BUCKET.findall(client.get("/metrics").text))
    return int(buckets["+Inf"]) - int(buckets[LONGEST])


def turns(client):
    return {le: int(count) for le, count in BUCKET.findall(client.get("/metrics").text)}


def turns_stay_short(server, play):
    def too_long():
        with Client(server.port, seconds=60) as client:
            before = long_turns(client)
            play()
            after = long_turns(client)
            return None if before == after else f"{after - before} turns took more than {LONGEST} s: {turns(client)}"
    wrong = tried(too_long)
    if wrong:
        pytest.fail(wrong)
