"""later on a terminal: what people see who type at it."""

import os
import pty
import select
import subprocess
import time

from patience import PATIENCE_S
from process import LATER


def on_a_terminal(url, typed, *words):
    """What is left on the terminal of a later that was typed at, and its exit code. One that goes on to wait for
    what nobody types is killed."""
    master, slave = pty.openpty()
    process = subprocess.Popen([LATER, *words], stdin=slave, stdout=slave, stderr=slave,
                               env=dict(os.environ, LATER_SERVER=url))
    os.close(slave)
    os.write(master, typed)
    shown, end = b"", time.monotonic() + PATIENCE_S
    try:
        while True:
            if not select.select([master], [], [], max(0, end - time.monotonic()))[0]:
                process.kill()
                break
            shown += os.read(master, 65536)
    except OSError:
        pass  # how Linux says that the other side is closed
    finally:
        os.close(master)
    return shown.decode().replace("\r\n", "\n"), process.wait(60)
