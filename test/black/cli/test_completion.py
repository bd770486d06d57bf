"""conf/later.bash: what bash offers for a word of a later command that is being typed."""

import os
import subprocess

import pytest

from process import LATER, ROOT


def offered(*words, server=""):
    """For the last word, which may be empty."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _later; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    told = subprocess.run(["bash", "-c", script, "bash", os.path.join(ROOT, "conf", "later.bash"), LATER, *words],
                          env={**os.environ, "LATER_SERVER": server}, capture_output=True, text=True, timeout=60, check=True)
    assert told.stderr == ""
    return told.stdout.split()


@pytest.mark.parametrize("words, expected", [
    (["pus"], ["push"]),
    (["re"], ["release", "reschedule", "replay", "resume", "restore"]),
    (["-s", "127.0.0.1:1", "pus"], ["push"]),
    (["-s", "http", ":", "//127.0.0.1", ":", "1", "pus"], ["push"]),  # bash divides it so
    (["push", "--del"], ["--delay"]),
    (["pop", "--server"], ["--server"]),
    (["pop", "--ex"], ["--exec"]),
    (["pop", "--for"], ["--forever"]),
    (["topic", "s"], ["set", "show"]),
    (["topic", "--json", ""], ["set", "show", "unset", "test", "delete"]),
    (["journal", ""], ["restore", "resync", "status"]),
    (["journal", "resync", ""], []),
    (["import", ""], ["beanstalkd", "redis"]),
    (["import", "--layout", "sdmq", "r"], ["redis"]),
    (["import", "--map", "r"], []),
    (["import", "queue.ndjson", "r"], []),
    (["bench", ""], ["put", "cycle", "cancel", "due", "burst", "idle"]),
    (["bench", "--jobs", "10", "--keep", "c"], ["cycle", "cancel"]),
    (["bench", "--jobs=10", "-k", "c"], ["cycle", "cancel"]),
    (["bench", "put", "--ra"], ["--rate", "--random"]),
    (["kick", "r"], []),
    (["verify", "x"], [])])
def test_commands_and_options_are_those_of_the_help(words, expected):
    assert offered(*words) == expected


def test_commands_that_take_a_word_have_it_in_their_help():
    """From which the completion has it."""
    told = {command: subprocess.run([LATER, command, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
            for command in offered("")}
    assert {command for command in told if offered(command, "", server="127.0.0.1:1")} == {"topic", "journal", "import", "bench"}, told


def test_every_command_is_offered():
    told = subprocess.run([LATER, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    commands = offered("")
    assert len(commands) > 25 and all(f"\n  {command} " in told for command in commands)


def test_topics_are_those_of_the_server(laterd):
    server = laterd()
    url = f"http://127.0.0.1:{server.port}"
    for topic in ("mail", "mails/a b", "orders"):
        subprocess.run([LATER, "-s", url, "push", topic, "x"], check=True, capture_output=True, timeout=60)
    assert offered("push", "ord", server=url) == ["orders"]
    assert offered("-s", url, "topic", "show", "o", server="127.0.0.1:1") == ["orders"]
    assert offered("-s", "127.0.0.1", ":", str(server.port), "list", "o", server="127.0.0.1:1") == ["orders"]
    assert offered("push", "o", server="127.0.0.1:1") == []
    assert offered("kick", "--topic", "o", server=url) == offered("kick", "-o", "o", server=url) == ["orders"]
    assert offered("push", "--id", "o", server=url) == offered("list", "-S", "o", server=url) == [], "values of options"
    assert offered("push", "--id", "o", "o", server=url) == ["orders"]
    subprocess.run([LATER, "-s", url, "push", "shop:eu", "x"], check=True, capture_output=True, timeout=60)
    assert offered("push", "shop", ":", "e", server=url) == ["eu"], "what is behind the colon"


def test_a_topic_that_looks_like_a_command_is_not_run(laterd, tmp_path):
    server = laterd()
    url = f"http://127.0.0.1:{server.port}"
    for topic in (f"x$(touch {tmp_path}/ran)", f"x`touch {tmp_path}/ran`", "x*"):
        subprocess.run([LATER, "-s", url, "push", topic, "x"], check=True, capture_output=True, timeout=60)
    assert len(offered("push", "x", server=url)) >= 3
    assert not (tmp_path / "ran").exists()
