"""A file system of a few megabytes, for tests of full disks. Needs root."""

import contextlib
import subprocess

import pytest


@contextlib.contextmanager
def small_disk_at(path, megabytes):
    """Mounts it there, for as long as the block runs; skips the test where that is not allowed."""
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "laterd-test", path],
                          capture_output=True, check=False)
    if done.returncode:
        pytest.skip("cannot mount here: " + done.stderr.decode())
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)
