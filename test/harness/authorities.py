"""A program whose system has no authorities but one of the test's own, wherever libraries look for them."""

import shutil
import subprocess

import pytest

SYSTEM = "/etc/ssl/certs"


def system_with(authority, folder):
    """What stands before such a program's command: in a mount namespace of its own, which needs root."""
    folder.mkdir()
    for name in ("ca-certificates.crt", "one.pem"):  # the file, and what a directory of links is made of
        shutil.copy(authority, folder / name)
    subprocess.run(["openssl", "rehash", str(folder)], check=True, capture_output=True)
    prefix = ["unshare", "--mount", "sh", "-c", f'mount --bind "{folder}" {SYSTEM} && exec "$@"', "sh"]
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode:
        pytest.skip("may not mount")
    return prefix
