"""`later import` against a laterd of the test's own."""

import subprocess

from process import LATER


def importer_of(laterd, *what):
    """A function that runs `later import WHAT WORDS` into a new laterd, which is its .server: another may be put there."""
    def run(*words):
        return subprocess.run([LATER, "import", *what, *map(str, words),
                               "--server", f"http://127.0.0.1:{run.server.port}"],
                              capture_output=True, text=True, timeout=100, check=False)
    run.server = laterd()
    return run
