"""later on a terminal: what people see who type at it."""

import os
import pty
import subprocess

from process import LATER


def on_a_terminal(url, typed, *words):
    """What is left on the terminal of a later that was typed at, and its exit code."""
    master, slave = pty.openpty()
    process = subprocess.Popen([LATER, *words], stdin=slave, stdout=slave, stderr=slave,
                               env=dict(os.environ, LATER_SERVER=url))
    os.close(slave)
    os.write(master, typed)
    shown = b""
    try:
        while chunk := os.read(master, 65536):
            shown += chunk
    except OSError:
        pass  # how Linux says that the other side is closed
    finally:
        os.close(master)
    return shown.decode().replace("\r\n", "\n"), process.wait(60)
