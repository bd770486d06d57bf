"""Servers beside laterd that end although nobody ended them: what they said last, and that they are started again.
The test during which it happens is tried again, once (test/black/conftest.py). What laterd does to a server that
crashes of it happens to the second try, too, and is a failure."""

import os
import signal

SAID = 6000  # bytes
running = {}  # server: its process
noticed = []


def started(server):
    """Has `process`, `folder`, where its output is in `out`, and start()."""
    running[server] = server.process


def ended(server):
    """The caller ends it now; if it has ended before, that is noticed."""
    process = running.pop(server, None)
    if process and process.poll() is not None:
        noticed.append(f"{type(server).__name__} {how(process.returncode)}\n{last_words(server)}")


def how(code):
    return f"exited with {code}" if code >= 0 else f"got {signal.Signals(-code).name}"


def last_words(server):
    """From what it says of a signal on, if that is near the end of its output."""
    with open(os.path.join(server.folder, "out"), "rb") as out:
        out.seek(max(0, out.seek(0, os.SEEK_END) - SAID))
        said = out.read().decode(errors="replace")
    return said[said.rfind("\n", 0, max(0, said.find(" got signal "))) + 1:]


def take(restart=True):
    """A text for each that has ended since this was last asked. Those that nobody has ended meanwhile are started
    again, on the data that they have."""
    for server in [server for server, process in running.items() if process.poll() is not None]:
        ended(server)
        if restart:
            try:
                server.start()
            except (RuntimeError, AssertionError) as error:
                noticed.append(f"{type(server).__name__} did not start again: {error}\n")
    taken = noticed[:]
    noticed.clear()
    return taken
