"""A stop of a laterd whose election is a row in MySQL, while MySQL does not answer."""

import os
import signal
import time

import pytest
from mariadb import NEEDED, MariaDb
from patience import soon
from process import LATERD
from silent import unanswered_port
from wire import Client, eventually

MEMBER_PLUGIN = os.path.join(os.path.dirname(LATERD), "laterd-member-mysql.so")

pytestmark = [pytest.mark.embedded("an election by MySQL is the same whatever the engine"),
              pytest.mark.skipif(not os.path.exists(MEMBER_PLUGIN), reason="libmariadb was not there when it was built")]

SECTION = {"name": "stop", "timeout": "60s"}  # libmariadb waits a third of it


def seconds_to_stop(server):
    begun = time.monotonic()
    assert server.stop() == 0
    return time.monotonic() - begun


@pytest.mark.deadline
@pytest.mark.parametrize("accepts", [True, False], ids=["silent", "full"])
def test_a_stop_ends_connects_to_mysql_of_an_election(laterd, accepts):
    """To a server that says nothing, and to one that does not even take them."""
    with unanswered_port(accepts) as port:
        server = laterd({"member": {"url": f"mysql://u:p@127.0.0.1:{port}/d", **SECTION}})
        time.sleep(0.5)
        soon(seconds_to_stop(server), 2.5)


@NEEDED
@pytest.mark.deadline
def test_a_stop_ends_a_statement_that_mysql_does_not_answer(laterd):
    maria = MariaDb()
    try:
        maria.make().start()
        server = laterd({"member": {"url": maria.database("first"), **SECTION}})
        with Client(server.port) as client:
            assert eventually(lambda: client.get("/v1/cluster").json()["connected"], 20)
        maria.signal(signal.SIGSTOP)
        soon(seconds_to_stop(server), 2.5)
    finally:
        maria.signal(signal.SIGCONT)
        maria.stop()
