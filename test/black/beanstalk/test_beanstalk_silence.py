"""A client that is silent may be gone with its machine: the system asks after it."""

import os

from beanstalk import Connection
from wire import eventually

KEEPALIVE_TIMER = "02"  # in the column `tr` of /proc/net/tcp
ESTABLISHED = "01"  # in the column `st`; connections of a former user of the port linger there


def timer_of(port, client_port):
    """Of the server's end of that client's connection: timer, and seconds until it ends. None: it is not in the
    table, which leaves out some while others come and go."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        for row in list(table)[1:]:
            fields = row.split()
            ports = [int(address.split(":")[1], 16) for address in fields[1:3]]
            if ports == [port, client_port] and fields[3] == ESTABLISHED:
                timer, left = fields[5].split(":")
                return timer, int(left, 16) / os.sysconf("SC_CLK_TCK")
    return None


def test_p6_a_client_that_vanished_without_a_word_is_noticed(laterd):
    server = laterd(beanstalk=["127.0.0.1:0"])
    with Connection(server.beanstalk_port) as client:
        client_port = client.socket.getsockname()[1]
        client.put()
        client.reserve()

        def keepalive():  # at first it waits for the acknowledgement of its answer
            found = timer_of(server.beanstalk_port, client_port)
            return found if found and found[0] == KEEPALIVE_TIMER else None

        _, left = eventually(keepalive)
        assert left <= 60
