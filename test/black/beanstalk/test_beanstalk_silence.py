"""A client that is silent may be gone with its machine: the system asks after it."""

import os

from beanstalk import Connection
from wire import eventually

KEEPALIVE_TIMER = "02"  # in the column `tr` of /proc/net/tcp
ESTABLISHED = "01"  # in the column `st`; connections of a former user of the port linger there


def timers_of(port):
    """Of the server's end of each connection to this port: timer, and jiffies until it ends."""
    timers = []
    with open("/proc/net/tcp", encoding="ascii") as table:
        for row in list(table)[1:]:
            fields = row.split()
            if int(fields[1].split(":")[1], 16) == port and fields[3] == ESTABLISHED:
                timer, left = fields[5].split(":")
                timers.append((timer, int(left, 16) / os.sysconf("SC_CLK_TCK")))
    return timers


def test_p6_a_client_that_vanished_without_a_word_is_noticed(laterd):
    server = laterd(beanstalk=["127.0.0.1:0"])
    with Connection(server.beanstalk_port) as client:
        client.put()
        client.reserve()
        # At first it waits for the acknowledgement of its answer.
        assert eventually(lambda: timers_of(server.beanstalk_port)[0][0] == KEEPALIVE_TIMER)
        [(_, left_s)] = timers_of(server.beanstalk_port)
        assert left_s <= 60
