"""What the documents say of the program is so: keys, metrics, options, manual pages."""

import os
import re
import shutil
import subprocess

import pytest

from process import LATER, LATERD, ROOT


def text_of(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def said_by(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def keys_of(sample):
    """{(section, key)} of a sample configuration, commented-out keys too."""
    section, keys = None, set()
    for line in sample.splitlines():
        match = re.match(r"\[(\w+)\]", line)
        if match:
            section = match.group(1)
        match = re.match(r"[#;]?\s?(\w+) = ", line)
        if match:
            keys.add((section, match.group(1)))
    return keys


def test_the_sample_configuration_is_the_one_that_is_installed():
    assert text_of("conf", "laterd.conf") == said_by(LATERD, "--print-config"), \
        "run: build/laterd --print-config > conf/laterd.conf"


def test_every_key_is_documented_and_every_documented_key_is():
    keys = keys_of(said_by(LATERD, "--print-config"))
    assert len(keys) > 20
    document = text_of("docs", "config.md")
    for section, key in keys:
        assert re.search(rf"`(\[?{section}\]?[ .]+)?{key}`", document), \
            f"[{section}] {key} is not in docs/config.md"


def test_every_metric_is_documented(client):
    document = text_of("docs", "metrics.md")
    families = re.findall(r"^# TYPE (\w+)", client.get("/metrics").text, re.M)
    assert len(families) > 20
    missing = [name for name in families
               if name not in document and name.removeprefix("laterd_") not in document]
    assert not missing


def test_every_option_is_in_the_manual():
    manual = text_of("man", "laterd.8.scd")
    for option in re.findall(r"--[a-z][a-z-]+", said_by(LATERD, "--help")):
        assert option in manual, option


@pytest.mark.skipif(not shutil.which("scdoc"), reason="no scdoc")
def test_the_manual_pages_are_well_formed():
    for name in os.listdir(os.path.join(ROOT, "man")):
        done = subprocess.run(["scdoc"], input=text_of("man", name), capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}"


def test_make_help_lists_every_target_meant_for_people():
    told = said_by("make", "-s", "-C", ROOT, "help")
    for target in ("all", "run", "test", "check", "lint", "fmt", "sim", "crash", "fuzz", "bench",
                   "cover", "install", "mutate", "sanitize", "clean"):
        assert re.search(rf"^{target}\s", told, re.M), f"make help does not know {target}"


def test_later_names_every_command_in_its_help():
    told = said_by(LATER, "--help")
    for command in ("push", "pop", "get", "rm", "finish", "release", "touch", "bury", "kick", "topics",
                    "list", "stats", "verify", "bench", "top"):
        assert re.search(rf"\b{command}\b", told), command


def test_links_between_documents_lead_somewhere():
    folders = [ROOT, os.path.join(ROOT, "docs"), os.path.join(ROOT, "docs", "decisions")]
    for folder in folders:
        for name in os.listdir(folder):
            if not name.endswith(".md"):
                continue
            for link in re.findall(r"\]\(([^)#\s]+)", text_of(folder, name)):
                if "://" not in link and not link.startswith("mailto:"):
                    assert os.path.exists(os.path.join(folder, link)), f"{name} links to {link}"
