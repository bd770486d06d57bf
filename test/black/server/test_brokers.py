"""[broker.NAME] and [amqp_in.NAME] in the configuration, and the plugins that they need."""

import os
import shutil
import subprocess

import pytest

from process import LATERD

RABBIT = "[broker.rabbit]\ntype = amqp\nurl = amqp://me:secret@127.0.0.1:1/\n"


def checked(tmp_path, text, laterd=LATERD):
    path = tmp_path / "laterd.conf"
    path.write_text(text, encoding="utf-8")
    ended = subprocess.run([laterd, "-c", path, "--check-config"], capture_output=True, text=True,
                           timeout=60, check=False)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("text, says", [
    ("[broker.a]\nurl = amqp://x\n", "conf:1: [broker.a] lacks type = amqp, kafka, nats or redis"),
    ("[broker.a]\n[server]\n", "conf:1: [broker.a] lacks type"),
    ("[broker.a]\ntype = amqp\n", "conf:1: [broker.a] lacks url"),
    ("[broker.a]\ntype = mqtt\n", "conf:2: type = mqtt: must be amqp, kafka, nats or redis"),
    ("[broker.a]\ntype = amqp\ntype = amqp\n", "conf:3: type is set in this section already"),
    ("[broker.a]\nlurl = x\n", 'conf:2: unknown key "lurl" in section [broker.NAME]; its keys are'),
    ("[broker.a]\nwindow = 0\n", "conf:2: window = 0: must be a whole number from 1 to 65535"),
    ("[broker.a]\ntype = amqp\nurl = x\n[broker.a]\n", "conf:4: [broker.a] is there already, in line 1"),
    ("[broker]\ntype = amqp\n", "conf:1: [broker.NAME]: the name must be 1 to 32 letters"),
    ("[broker.a b]\ntype = amqp\n", "conf:1: [broker.NAME]: the name must be 1 to 32 letters"),
    ("".join(f"[broker.b{i}]\ntype = amqp\nurl = x\n" for i in range(17)), "more than 16 sections"),
    ("[broker.a]\ntype = redis\n\nurl = kafka://x\n", "conf:4: [broker.a] url: "),
    ("[defaults]\nretry = foo\n", "conf:2: retry = foo: a retry schedule is a list"),
    ("[journal]\nmax_lag = 1K\n", "from 1M up, and at least twice store.segment_bytes"),
    ("[amqp_in.x]\nqueue = q\n", "conf:1: [amqp_in.x] lacks broker"),
    ("[amqp_in.x]\nbroker = y\nqueue = q\n", "there is no section [broker.NAME] for"),
    ("[broker.y]\ntype = nats\nurl = x\n[amqp_in.x]\nbroker = y\nqueue = q\n", "type is not amqp"),
    ("[broker.y]\ntype = amqp\nurl = x\n[amqp_in.x]\nbroker = y\n", "conf:4: [amqp_in.x] lacks queue"),
])
def test_a_named_section_that_is_wrong_is_refused_with_its_line(tmp_path, text, says):
    code, said = checked(tmp_path, text)
    assert code == 2 and says in said, said


def test_no_error_shows_the_url_of_a_broker(tmp_path):
    code, said = checked(tmp_path, "[broker.a]\ntype = amqp\nurl = " + "secret" * 20 + "\nurl = x\n")
    assert code == 2 and "secret" not in said


@pytest.mark.parametrize("url, code, says", [
    ("$NOT_THERE", 1, "conf:4: [broker.a] url: the environment has no variable NOT_THERE\n"),
    ("$WRONG", 2, "conf:4: [broker.a] url: must begin with redis://"),
    ("file:/not/there", 1, "conf:4: [broker.a] url: /not/there: No such file or directory\n"),
    ("rediss://h\nca = /not/there", 1, "[broker.a] ca = /not/there: No such file or directory\n"),
    ("redis://:port", 2, "conf:4: [broker.a] url: no host, too many of them, or a port that is none\n")])
@pytest.mark.parametrize("check", [["--check-config"], []])
def test_a_redis_broker_whose_url_is_wrong_ends_laterd_with_2_and_one_that_is_missing_with_1(
        tmp_path, url, code, says, check):
    path = tmp_path / "laterd.conf"
    path.write_text(f"[broker.a]\ntype = redis\n\nurl = {url}\n", encoding="utf-8")
    ended = subprocess.run([LATERD, "-c", path, "--no-persist", "--http", "127.0.0.1:0", "--beanstalk", "none", *check],
                           env=dict(os.environ, WRONG="kafka://x"), capture_output=True, text=True, timeout=60,
                           check=False)
    assert ended.returncode == code and says in ended.stderr, ended


def test_one_that_may_lead_later_is_told_of_the_files_that_it_lacks(tmp_path):
    code, said = checked(tmp_path, "[member]\nurl = alone\n[broker.a]\ntype = redis\nurl = $NOT_THERE\n")
    assert code == 0 and "warning: [broker.a] url: the environment has no variable NOT_THERE: laterd cannot lead without it" in said


@pytest.mark.parametrize("kind", ["amqp", "kafka", "nats"])
def test_a_plugins_broker_whose_url_cannot_be_read_is_warned_of(tmp_path, kind):
    """It is away until then."""
    code, said = checked(tmp_path, f"[broker.a]\ntype = {kind}\nurl = file:/not/there\n")
    assert code == 0 and "warning: [broker.a] url: /not/there: No such file or directory: it is looked for again" in said


def test_a_plugins_broker_whose_variable_is_not_set_waits_for_another_start(tmp_path):
    code, said = checked(tmp_path, "[broker.a]\ntype = amqp\nurl = $NOT_THERE\n")
    assert code == 0 and said.endswith("no variable NOT_THERE: its jobs wait until laterd is started with it\n")


@pytest.mark.parametrize("kind", ["amqp", "kafka", "nats", "redis"])
def test_a_url_in_a_pipe_is_left_to_who_connects(tmp_path, kind):
    """It can be read once only, and its writer may not be there yet."""
    os.mkfifo(tmp_path / "url")
    code, said = checked(tmp_path, f"[broker.a]\ntype = {kind}\nurl = file:{tmp_path}/url\n")
    assert code == 0 and ("is a pipe, which can be read once" in said) == (kind != "redis"), said


# Plugins

def alone(tmp_path):
    """A laterd with nothing beside it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    return shutil.copy(LATERD, folder / "laterd")


def compiled(laterd, source, *options):
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", *options, "-o",
                    os.path.join(os.path.dirname(laterd), "laterd-amqp.so")],
                   input=source, text=True, check=True, timeout=60)


def test_without_a_broker_no_plugin_is_wanted(tmp_path):
    assert checked(tmp_path, "[limits]\njobs = 5\n", alone(tmp_path))[0] == 0


def test_a_missing_plugin_refuses_the_start_and_names_the_package(tmp_path):
    code, said = checked(tmp_path, RABBIT, alone(tmp_path))
    assert code == 1
    assert "laterd.conf:1: [broker.rabbit] needs the plugin " in said and "laterd-amqp.so" in said
    assert "apt-get install librabbitmq4" in said and "secret" not in said


def test_a_missing_library_refuses_the_start_and_names_the_package(tmp_path):
    laterd = alone(tmp_path)
    library = tmp_path / "libnobody.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", library],
                   input="int nobody(void) { return 1; }", text=True, check=True, timeout=60)
    compiled(laterd, "int nobody(void); int laterd_plugin(void) { return nobody(); }", library)
    library.unlink()
    code, said = checked(tmp_path, RABBIT, laterd)
    assert code == 1 and "libnobody.so" in said and "apt-get install librabbitmq4" in said


@pytest.mark.parametrize("source", ["int x;", "unsigned laterd_plugin[16] = {99};"])
def test_a_plugin_of_another_build_is_refused(tmp_path, source):
    laterd = alone(tmp_path)
    compiled(laterd, source)
    code, said = checked(tmp_path, RABBIT, laterd)
    assert code == 1 and "does not match this laterd" in said
