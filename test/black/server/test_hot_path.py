"""What is needed often lies side by side in laterd: mk/hot-path.ld names it, and the linker has obeyed."""

import os
import re
import shutil
import subprocess

import pytest
from process import LATERD, ROOT

pytestmark = [pytest.mark.embedded("it starts no laterd"),
              pytest.mark.skipif(not shutil.which("nm"), reason="no nm")]

PAGE = 4096


@pytest.fixture(scope="module", name="functions")
def functions_of_laterd():
    """[(name, address, size)], names without what GCC adds to those of parts and copies."""
    said = subprocess.run(["nm", "-S", LATERD], capture_output=True, text=True, check=True).stdout
    if "__asan_init" in said:
        pytest.skip("a sanitized laterd is linked as it comes")
    found = re.findall(r"^(\w+) (\w+) [tT] ([^.\s]+)(?!\S*\.cold)\S*$", said, re.M)
    return [(name, int(address, 16), int(size, 16)) for address, size, name in found]


@pytest.fixture(scope="module", name="named")
def functions_that_are_named():
    with open(os.path.join(ROOT, "mk", "hot-path.ld"), encoding="ascii") as script:
        return set(re.findall(r"\*\(\.text\.(\w+) ", script.read()))


def test_nine_tenths_of_the_names_are_still_functions(functions, named):
    gone = named - {name for name, *_ in functions}
    assert len(gone) <= len(named) / 10, f"run `make hot-path`; gone are {sorted(gone)}"


def test_what_is_named_lies_side_by_side(functions, named):
    there = [(address, address + size) for name, address, size in functions if name in named]
    pages = {place // PAGE for begin, end in there for place in range(begin, end)}
    least = sum(end - begin for begin, end in there) / PAGE
    assert len(pages) <= 1.1 * least + 1, f"{len(pages)} pages, at best {least:.0f}"
