"""The commands of "Try it on one machine" in docs/high-availability.md, run by a shell as they stand there. Only
ports differ, and the two sleeps end when what they are for has happened."""

import os
import re
import shutil
import subprocess

import pytest

from coordination import BUILD, ZooKeeper
from patience import PATIENCE_S
from ports import free_port
from process import ROOT

pytestmark = [
    pytest.mark.embedded("a store in a directory of its own"),
    pytest.mark.skipif(not ZooKeeper.installed, reason=f"{ZooKeeper.needs} is not installed"),
    pytest.mark.skipif(not shutil.which("curl"), reason="no curl")]


def commands():
    with open(os.path.join(ROOT, "docs", "high-availability.md"), encoding="utf-8") as file:
        section = file.read().split("\n## Try it on one machine\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```sh\n(.*?)^```", section, re.M | re.S)
    return block


def test_the_commands_of_the_page_lead_to_a_takeover(tmp_path):
    first, second = free_port(), free_port()
    ready = "until curl -s -f -m 5 127.0.0.1:{}/readyz; do sleep 0.1; done"
    with ZooKeeper() as service:
        block = commands()
        for written, real in (("sleep 3", ready.format(first)), ("sleep 10", ready.format(second)),
                              (":2181/", f":{service.port}/"), (":9277", f":{first}"), (":9278", f":{second}")):
            assert written in block
            block = block.replace(written, real)
        block = "trap 'kill -9 $(jobs -p)' EXIT\n" + block
        done = subprocess.run(["bash", "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False,
                              timeout=8 * PATIENCE_S, stdin=subprocess.DEVNULL,
                              env=dict(os.environ, PATH=f"{BUILD}:{os.environ['PATH']}",
                                       LATER_SERVER=f"http://127.0.0.1:{first}"))
    said = done.stdout + done.stderr
    assert re.search(r"^orders +1 ", done.stdout, re.M), said
    for event in ("leads epoch=1 ", "waits leader=", "leads epoch=2 "):
        assert said.count(event) == 1, said
