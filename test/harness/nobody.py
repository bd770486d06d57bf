"""Programs that run as a user who owns nothing: only root can have them do so."""

import contextlib
import os
import shutil
import subprocess
import tempfile

import pytest

NOBODY = 65534
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="root alone can become another user")


@contextlib.contextmanager
def folder_for_nobody():
    """One that everybody can enter: those of pytest are for root alone."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield folder


def run_as_nobody(folder, program, *words):
    """From a copy in that folder: the program itself may be where nobody can go."""
    return subprocess.run([shutil.copy(program, folder), *words], user=NOBODY, group=NOBODY, extra_groups=[],
                          check=False, timeout=30, capture_output=True, text=True)
