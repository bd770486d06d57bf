"""[member] in MySQL (MariaDB): a password that was replaced in its file is used by the next connection."""

import os
import time

import pytest
from mariadb import NEEDED, a_maria  # noqa: F401  (a fixture)
from process import LATERD, Laterd
from wire import Client, Closed, eventually

MEMBER_PLUGIN = os.path.join(os.path.dirname(LATERD), "laterd-member-mysql.so")
TIMEOUT_S = 2

pytestmark = [NEEDED, pytest.mark.embedded("connections to MySQL are the same whatever the engine"),
              pytest.mark.skipif(not os.path.exists(MEMBER_PLUGIN), reason="libmariadb was not there when it was built")]


def serves(laterd):
    try:
        with Client(laterd.port) as client:
            return client.get("/readyz").status == 200
    except (Closed, OSError):
        return False


def test_who_leads_reads_a_password_that_was_replaced(maria, tmp_path):
    """A renewal over a new connection needs it: without it the term ends."""
    def write(password):
        (tmp_path / "new").write_text(f"mysql://elects:{password}@127.0.0.1:{maria.port}/elects\n", encoding="utf-8")
        os.rename(tmp_path / "new", tmp_path / "url")
    maria.run("CREATE DATABASE IF NOT EXISTS elects", "CREATE OR REPLACE USER 'elects'@'%' IDENTIFIED BY '0ld'",
              "GRANT ALL ON elects.* TO 'elects'@'%'")
    write("0ld")
    laterd = Laterd(tmp_path / "laterd", {"member": {"url": f"file:{tmp_path}/url", "timeout": f"{TIMEOUT_S}s"}})
    try:
        laterd.start()
        assert eventually(lambda: serves(laterd), 3 * TIMEOUT_S)
        write("n3w")
        maria.run("ALTER USER 'elects'@'%' IDENTIFIED BY 'n3w'")
        for (thread,) in maria.run("SELECT id FROM information_schema.processlist WHERE user='elects'"):
            maria.run(f"KILL {thread}")
        time.sleep(2 * TIMEOUT_S)  # a term that is not renewed is over then
        assert serves(laterd) and not laterd.events("leads_no_longer")
    finally:
        laterd.kill()
