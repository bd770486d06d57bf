"""The life of the process: its command line, its signals, what a service manager gives it."""

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import time
from datetime import datetime

import nobody
import pytest

from patience import PATIENCE_S, TooLate, soon
from ports import free_port
from process import LATERD, DidNotStart, Laterd
from wire import Client, Closed, Wire, eventually, request_bytes

RESERVE = b'{"topics":["t"],"wait":"30s"}'


def run(*arguments, **options):
    return subprocess.run([LATERD, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S,
                          check=False, **options)


# The command line and the configuration

def test_what_is_hardly_meant_is_taken_with_a_warning(tmp_path):
    path = tmp_path / "laterd.conf"
    path.write_text("[store]\nhistory = 30\nhorizon = 0\nburied_in_memory = 5\n")
    told = run("-c", path, "--check-config")
    assert told.returncode == 0 and told.stdout == f"laterd: the configuration in {path} is good\n"
    history, buried = told.stderr.splitlines()
    assert ":2: warning: store.history = 30 is 30 seconds" in history
    assert ":4: warning: store.buried_in_memory has no effect" in buried


def test_a_check_without_a_file_says_that_none_was_checked():
    told = run("--check-config", "--http", "127.0.0.1:9477")
    assert told.returncode == 0 and "no file was checked" in told.stdout and "-c FILE" in told.stdout


def test_help_and_version_answer_and_end():
    told = run("--help")
    assert told.returncode == 0 and "--data-dir" in told.stdout and "SIGTERM" in told.stdout
    assert re.fullmatch(r"laterd \d+\.\d+\.\d+\n", run("--version").stdout)


def test_a_configuration_that_a_full_disk_cut_is_an_error(tmp_path):
    old = tmp_path / "delay-queue.conf"
    old.write_text("bind_address = 127.0.0.1:9277\n")
    for arguments in (["--print-config"], ["--import-config", old], ["--help"], ["--version"], ["--check-config"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            ended = subprocess.run([LATERD, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True,
                                   timeout=PATIENCE_S, check=False)
        assert ended.returncode == 1 and "cannot write the output: No space left" in ended.stderr, arguments


@pytest.mark.parametrize("arguments", [["--nonsense"], ["stray"], ["--http", "nowhere"], ["--http"],
                                       ["--http", "127.0.0.1:0,klingon"], ["-c", "/nowhere.conf"],
                                       ["--http", "127.0.0.1:0"] * 17,
                                       ["--data-dir", "./" * 256 + "cut", "--check-config"]])
def test_a_bad_command_line_is_refused_in_words(tmp_path, arguments):
    ended = run("--data-dir", tmp_path / "data", *arguments)
    assert ended.returncode == 2 and ended.stderr.strip()


@pytest.mark.parametrize("arguments, says", [
    (["--http", "127.0.0.1:0"] * 17, "http: more than 16 addresses"),
    (["--http", ",none"], "http = ,none: the address must have 1 to 127 bytes, such as 127.0.0.1:9277"),
    (["--sdmq", "a" * 128], f"sdmq = {'a' * 60}: the address must have 1 to 127 bytes, such as 127.0.0.1:6355"),
    (["--data-dir", ""], "--data-dir: the name of the directory must have 1 to 511 bytes")])
def test_what_is_wrong_with_the_command_line_is_said(arguments, says):
    ended = run(*arguments, "--check-config")
    assert ended.returncode == 2 and ended.stderr == f"laterd: {says}\n"


@pytest.mark.embedded("about the store on disk")
def test_a_directory_in_use_is_refused_without_a_place_in_a_file(laterd):
    ended = run("--data-dir", laterd().data, "--http", "127.0.0.1:0", "--beanstalk", "none")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "laterd: LOCK: another laterd (or `later verify`) has this directory open: " \
        "end that one, or use another directory (store.data_dir, --data-dir)"


def checked(tmp_path, text):
    path = tmp_path / "laterd.conf"
    path.write_text(text, encoding="utf-8")
    ended = run("-c", path, "--check-config")
    return ended.returncode, ended.stdout + ended.stderr


def test_a_good_configuration_is_called_good(tmp_path):
    code, said = checked(tmp_path, "[server]\nhttp = 127.0.0.1:0\n[limits]\njobs = 5\n")
    assert code == 0, said


@pytest.mark.parametrize("off, on", [("beanstalk", "http"), ("http", "beanstalk")])
@pytest.mark.parametrize("nothing", ["none", ""])
def test_a_protocol_is_off_that_has_no_address(laterd, off, on, nothing):
    server = laterd({"server": {off: nothing, on: "127.0.0.1:0"}})
    assert len(server.ports_of(on)) == 1 and server.ports_of(off) == []


def test_the_sample_configuration_is_good(tmp_path):
    sample = run("--print-config")
    assert sample.returncode == 0
    code, said = checked(tmp_path, sample.stdout)
    assert code == 0, said


@pytest.mark.parametrize("text, line, nearest", [
    ("[limits]\njobs = 1\ntopcs = 5\n", 3, "topics"),
    ("# a comment\n\n[server]\nhtpp = 127.0.0.1:1\n", 4, "http"),
    ("[store]\nsegment_byte = 1M\n", 2, "segment_bytes"),
    ("[defaults]\nblock_time = 1s\n", 2, "block_timeout")])
def test_an_unknown_key_names_its_line_and_the_nearest_known_one(tmp_path, text, line, nearest):
    code, said = checked(tmp_path, text)
    assert code == 2
    assert f":{line}:" in said and nearest in said


@pytest.mark.parametrize("text, says", [
    ("[limits]\njobs = 3x\n", "jobs = 3x: must be a whole number from 1 to 2000000000 (to 268435455 with"),
    ("[limits]\njobs = 268435456\n", "conf:2: limits.jobs = 268435456: must not be above 268435455"),
    ("[server]\nhttp = 127.0.0.1:0\nhttp = abc\n", "conf:3: server.http = abc: this is not an address to listen on"),
    ("[server]\ntime_zone = Mars\n", "conf:2: server.time_zone = Mars: this machine's time zone"),
    ("[engine]\nengine = redis\n[redis]\nurl = x\n", "conf:4: redis.url must begin with redis://"),
    ("[store]\nsegment_bytes = 1\n", "from 256K to 1G"),
    ("[server]\nlog_level =\n", "conf:2: log_level is empty: it must be debug, info, warn or error\n"),
    ("[limits]\nidle_seconds = soon\n", "from 1ms to 7d"),
    ("[limts]\njobs = 1\n", "unknown section [limts]; the nearest is [limits]"),
    ("[Redis]\nurl = redis://h\n", "unknown section [Redis]; the nearest is [redis]"),
    ("[ENGINE]\nengine = redis\n", "unknown section [ENGINE]; the nearest is [engine]"),
    ("[webhook]\ntimeout = 1\n", "unknown section [webhook]; there are [server] [store] "),
    ("frobnicate = 1\n", 'the key "frobnicate" stands before any section, such as [server]; --print-config'),
    ("[http]\nport = 1\n", 'unknown section [http]; "http" is a key, below a line [server]'),
    ("[redis]\npassword = x\n", 'unknown key "password" in section [redis]; it is a part of "url"'),
    ("[redis]\nretry_policy = x\n", "--print-config shows them all"),
    ("[server]\nhttp 127.0.0.1:9277\n", 'unknown key "http 127.0.0.1" in section [server]; is an = missing?'),
    ("[redis]\nwait-replicas = 1\n", 'the nearest is "wait_replicas"'),
    ("[push]\nidle_seconds = 5\n", 'it goes below a line [limits]\n'),
    ("[store]\nurl = redis://h\n", 'it goes below a line [redis] or [journal] or [member] or [broker.NAME]\n'),
    ("[push]\ntime_zone = UTC\n", 'it goes below a line [server] or [journal]\n'),
    ("url = redis://h\n", '"url" goes below a line [redis] or [journal] or [member] or [broker.NAME]\n'),
    ("[ca]\nx = 1\n", '"ca" is a key, below a line [journal] or [member] or [broker.NAME]\n'),
    ("[limits]\nheaders = 4\n", "headers = 4: must be a whole number from 16 to 1000"),
    ("[sdmq]\nhostes = x\n", 'the nearest is "host"\n'),  # "hosts" is nearer, but in [server]
    ("[redis]\nidle_second = 5\n", 'which has none like it; there is "idle_seconds" in another section, [limits]'),
    ("[limits]\nidle_secs = 10y\n", 'the nearest is "idle_seconds"'),
    ("[limits]\n[servr]\n", "conf:2: unknown section [servr]; the nearest is [server]\n"),
    ("[limits]\n" + "x" * 100 + " = 1\n", 'in section [limits]; --print-config shows them all'),
    ("[brokers]\n# nothing\n", "conf:1: unknown section [brokers]; "),
    ("[store]\nmax_bytes = 10GB\n", "max_bytes = 10GB: must be bytes, such as 4096, 64K, 32M or 1GiB (units: K M G T, "),
    ("[store]\ndata_dir = \"/a\"\n", "conf:2: data_dir: write the value without quotation marks\n"),
    ("[limits]\nidle_seconds = 10y\n", "such as 250ms, 1h30m or 365d (units: us ms s m h d w)"),
    ("jobs = 1\n", 'the key "jobs" stands before any section; "jobs" goes below a line [limits]'),
    ("server:\n  http: 127.0.0.1:1\n", 'the key "server" stands before any section; a section is a line of its own: write [server]'),
    ("[defaults]\nttr = 30 m\n", "conf:2: ttr = 30 m: no space stands in a duration: write 30m\n"),
    ("[defaults]\nttr = 1 h 30 m\n", "no space stands in a duration: write 1h30m\n"),
    ("[defaults]\nttr = 1 0\n", "ttr = 1 0: must be seconds, or a duration such as"),
    ("[store]\nhistory = 30 days\n", "history = 30 days: must be seconds, or a duration such as"),
    ("[sdmq]\nclear_all = true\n", "conf:2: clear_all = true: must be 0 or 1\n"),
    ("[server]\nhttp = 127.0.0.1:1, 127.0.0.1:2\n", 'unknown dialect "127.0.0.1:2"; each further address has a line, or a --http, of its own'),
    ("[server]\nhttp = 127.0.0.1:1,v1\n", 'unknown dialect "v1"; known are delay-queue, delayqueue-java, sdmq and none')])
def test_a_bad_configuration_is_reported_with_what_would_be_good(tmp_path, text, says):
    code, said = checked(tmp_path, text)
    assert code == 2 and says in said


@pytest.mark.parametrize("text", [
    "[limits]\njobs = many\n", "[limits]\njobs = -1\n", "[limits]\njobs = 0\n", "[limits]\njobs =\n",
    "[store]\nsegment_bytes = 1\n", "[store]\ndurability = sometimes\n",
    "[server]\nlog_level = loud\n", "[server]\ndrain_seconds = 1h30\n", "[nothing]\nx = 1\n",
    "jobs = 1\n", "[limits\njobs = 1\n", "no sense at all\n"])
def test_a_bad_value_is_refused_with_its_line(tmp_path, text):
    code, said = checked(tmp_path, text)
    assert code == 2 and re.search(r"laterd\.conf:\d+:", said), said


@pytest.mark.parametrize("words, says", [
    (["--nosuch=3"], "there is no option --nosuch"),
    (["laterd.conf"], 'what is "laterd.conf"? A configuration is given with -c FILE, a directory for the jobs with --data-dir DIR'),
    (["--no-persist", "-x"], "there is no option -x"),
    (["--data-dir"], "--data-dir needs a value"),
    (["-c"], "-c needs a value"),
    (["--version=3"], "--version takes no value")])
def test_an_option_that_is_wrong_is_said_in_one_line(words, says):
    ended = run(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"laterd: {says}; see laterd --help\n"


@pytest.mark.parametrize("word, says", [
    ("--dta-dir", "there is no option --dta-dir; did you mean --data-dir?"),
    ("--htpp=127.0.0.1:0", "there is no option --htpp; did you mean --http?")])
def test_an_option_that_is_misspelt_is_told_the_one_that_was_meant(word, says):
    ended = run(word)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"laterd: {says}\n")


def test_an_address_of_another_machine_is_said_to_be_one():
    ended = run("--no-persist", "--beanstalk", "none", "--http", "192.0.2.1:9277")
    assert ended.returncode == 1
    assert ended.stderr == ("laterd: cannot listen on 192.0.2.1:9277 for HTTP clients: Cannot assign requested address; "
                            "this machine has no such address (see: ip address)\n")


def first_port_for_all():
    """Below 1024 as a rule; a container may have none."""
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding="ascii") as file:
        return int(file.read())


@nobody.ROOT_ONLY
@pytest.mark.parametrize("address, says", [
    pytest.param("127.0.0.1:80", "ports below 1024 are for root, or for a socket unit of systemd",
                 marks=pytest.mark.skipif(first_port_for_all() < 1024, reason="everybody may listen there")),
    ("unix:/root/laterd.sock", "laterd's user must be able to make a file in that directory")])
def test_an_address_that_is_not_allowed_is_reported_with_what_to_do(address, says):
    with nobody.folder_for_nobody() as folder:
        ended = nobody.run_as_nobody(folder, LATERD, "--no-persist", "--beanstalk", "none", "--http", address)
    assert ended.returncode == 1
    assert ended.stderr == f"laterd: cannot listen on {address} for HTTP clients: Permission denied; {says}\n"


def test_a_port_that_is_taken_is_said_alone(tmp_path):
    with Laterd(tmp_path) as server:
        ended = subprocess.run([LATERD, "--no-persist", "--http", f"127.0.0.1:{server.port}", "--beanstalk", "none"],
                               capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"laterd: cannot listen on 127.0.0.1:{server.port} for HTTP clients: ")
    assert " info " not in ended.stdout + ended.stderr


@pytest.mark.parametrize("option", ["--beanstalk", "--http", "--sdmq"])
def test_an_address_that_is_given_twice_is_refused(option):
    ended = run("--http", "127.0.0.1:9477", "--beanstalk", "none", option, "127.0.0.1:9477", "--check-config")
    assert ended.returncode == 2 and ended.stdout == ""
    assert ended.stderr == (f"laterd: {option} 127.0.0.1:9477: server.http has this address, too: "
                            "give one of the two another port\n")


@pytest.mark.parametrize("lines, says", [
    ("http = 127.0.0.1:1234\nhttp = 127.0.0.1:1234, sdmq\n", ":3: server.http = 127.0.0.1:1234: server.http has"),
    ("http = 127.0.0.1:1234\nsdmq = 127.0.0.1:1234\n", ":3: server.sdmq = 127.0.0.1:1234: server.http has"),
    ("http = 127.0.0.1:11300\n", ":2: server.http = 127.0.0.1:11300: server.beanstalk has"),
    ("http = unix:/run/a:0\nhttp = unix:/run/a:0\n", ":3: server.http = unix:/run/a:0: server.http has"),
    ("http = 127.0.0.1:0\nhttp = 127.0.0.1:0\nhttp = 127.0.0.1:9277\nhttp = [::1]:9277\n", " is good")])
def test_a_check_says_that_a_file_has_an_address_twice(tmp_path, lines, says):
    status, text = checked(tmp_path, "[server]\n" + lines)
    assert says in text and status == (0 if says == " is good" else 2)


def test_an_address_that_laterd_listens_on_by_another_name_is_no_other_programs():
    port = free_port()
    ended = run("--no-persist", "--http", f"localhost:{port}", "--beanstalk", f"127.0.0.1:{port}")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[1:] == ["laterd: laterd itself listens there already, for HTTP clients: "
                                             "give one of the two another port"]


def test_an_address_that_others_can_reach_is_warned_about(tmp_path):
    with Laterd(tmp_path, listeners=["127.0.0.1:0", "0.0.0.0:0"]) as server:
        assert server.wait_log("listening_open")
        (level, facts), = server.events("listening_open")
        assert level == "warn" and facts.startswith("addr=0.0.0.0:")


@pytest.mark.parametrize("short, long", [("-h", "--help"), ("-V", "--version")])
def test_short_options_ask_for_the_same_as_long_ones(short, long):
    said = [subprocess.run([LATERD, option], check=True, capture_output=True).stdout for option in (short, long)]
    assert said[0] == said[1] != b""


def test_a_redis_that_is_named_and_not_used_is_warned_of(tmp_path):
    path = tmp_path / "c"
    path.write_text("[redis]\nurl = redis://10.1.1.1:6379\n")
    ended = run("-c", path, "--check-config")
    assert ended.returncode == 0 and "engine = redis" in ended.stderr
    path.write_text("[redis]\nurl = redis://127.0.0.1:6379\n")  # the default, but somebody wrote it
    ended = run("-c", path, "--check-config")
    assert ended.returncode == 0 and "engine = redis" in ended.stderr
    path.write_text("[redis]\nurl = redis://10.1.1.1:6379\n[engine]\nengine = redis\n")
    assert run("-c", path, "--check-config").stderr == ""


def test_files_of_a_redis_that_cannot_be_read_are_named_without_a_start(tmp_path):
    path = tmp_path / "c"
    path.write_text("[engine]\nengine = redis\n[redis]\nurl = rediss://127.0.0.1:1\ntls_ca = /nowhere\n")
    ended = run("-c", path, "--check-config")
    assert ended.returncode == 1  # it may be there at the next start
    assert ended.stderr == f"laterd: {path}:5: redis.tls_ca = /nowhere: No such file or directory\n"
    path.write_text("[engine]\nengine = redis\n[redis]\nurl = rediss://127.0.0.1:1\ntls_certificate = /dev/null\n")
    ended = run("-c", path, "--check-config")
    assert ended.returncode == 1 and f"{path}:5: redis.tls_certificate = /dev/null: " in ended.stderr


def test_a_directory_that_a_redis_leaves_unused_is_warned_of(tmp_path):
    path = tmp_path / "c"
    path.write_text("[engine]\nengine = redis\n[store]\ndata_dir = /x\n")
    ended = run("-c", path, "--check-config")
    assert ended.returncode == 0
    assert ended.stderr.endswith("c:4: warning: store.data_dir is not used: engine = redis keeps nothing on this disk\n")
    path.write_text("[engine]\nengine = redis\n")
    assert run("-c", path, "--check-config").stderr == ""
    assert "warning: --data-dir is not used" in run("-c", path, "--data-dir", "/x", "--check-config").stderr


def test_a_directory_is_no_configuration(tmp_path):
    ended = run("-c", tmp_path, "--check-config")
    assert ended.returncode == 2 and f"{tmp_path}: this is a directory" in ended.stderr


def test_a_line_that_begins_with_blanks_is_a_key_of_its_own(tmp_path):
    code, said = checked(tmp_path, "[server]\nhttp = 127.0.0.1:0\n  [limits]\n\tjobs = 5\n  # x\n")
    assert code == 0, said
    code, said = checked(tmp_path, "[store]\ndata_dir = /tmp/a\n  durability = never\n")
    assert code == 2 and "laterd.conf:3: durability = never" in said
    code, said = checked(tmp_path, "[redis]\ntls_ca = /tmp/a\n  /tmp/b\n")
    assert code == 2 and "laterd.conf:3: not a [section]" in said


def test_two_servers_do_not_share_a_port(laterd, tmp_path):
    first = laterd()
    second = laterd(listeners=[f"127.0.0.1:{first.port}"], start=False)
    with pytest.raises(DidNotStart) as why:
        second.start()
    assert "listen" in str(why.value) and "--http 127.0.0.1:PORT" in str(why.value)


@pytest.mark.embedded("about the directory of the store")
def test_two_servers_do_not_share_a_directory(laterd):
    first = laterd()
    second = laterd(start=False, data=first.data)
    with pytest.raises(DidNotStart) as why:
        second.start()
    assert first.data in str(why.value) and "another process" in str(why.value)
    with Client(first.port) as client:
        assert client.push("t", body="x").status == 201


@pytest.mark.embedded("about the directory of the store")
def test_a_directory_it_may_not_use_is_named(laterd, tmp_path):
    path = tmp_path / "file"
    path.write_text("not a directory")
    with pytest.raises(DidNotStart) as why:
        laterd(data=str(path))
    assert str(path) in str(why.value)


# Ending

def has_read_it(server):
    """What was sent to it before: it answers another client after that."""
    with Client(server.port) as client:
        for _ in range(2):
            assert client.get("/healthz").status == 200


def logged_at(server, event):
    line = next(line for line in server.lines if f" {event} " in line)
    return datetime.fromisoformat(line.split()[0]).timestamp()


def test_sigterm_answers_who_waits_and_keeps_everything(laterd):
    server = laterd()
    with Client(server.port) as client, Wire(server.port) as poll, Wire(server.port) as old:
        job_id = client.push_id("kept", body="x", durability="os")
        poll.send(request_bytes("POST", "/v1/reserve", RESERVE))
        old.send(request_bytes("POST", "/pop", b'{"topic":"t"}'))
        assert eventually(lambda: client.get("/v1/stats").json()["waiting"] == 2)
        server.signal(signal.SIGTERM)
        answer = poll.response()
        assert answer.status == 503
        assert old.response().status == 200
        assert poll.closed()
    assert server.wait() == 0
    assert server.events("draining") and server.events("stopped")
    server.start()
    with Client(server.port) as client:
        assert client.state(job_id) == "ready"


def test_sigterm_turns_readiness_off_and_lets_a_request_end(laterd):
    server = laterd()
    head, body = b"POST /v1/topics/t/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\n", b'{"body":"c"}'
    with Wire(server.port) as busy:
        busy.send(head + body[:3])
        has_read_it(server)
        server.signal(signal.SIGTERM)
        assert server.wait_log("draining", 5)

        def not_ready():
            try:
                with Client(server.port) as client:
                    return client.get("/readyz").status == 503
            except (ConnectionError, Closed):
                return True
        assert eventually(not_ready)
        busy.send(body[3:])
        answer = busy.response()
        assert answer.status == 201 and answer.headers["connection"] == "close"
    assert server.wait() == 0


def test_draining_gives_up_on_clients_that_never_end(laterd):
    server = laterd({"server": {"drain_seconds": "500ms"}})
    with Wire(server.port) as stuck:
        stuck.send("POST /push HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\n{")
        has_read_it(server)
        begin = time.monotonic()
        assert server.stop() == 0
        soon(time.monotonic() - begin, 5)


def test_a_second_sigterm_ends_at_once_and_loses_nothing(laterd):
    server = laterd({"server": {"drain_seconds": "60s"}})
    with Client(server.port) as client, Wire(server.port) as stuck:
        job_id = client.push_id("t", body="x")
        stuck.send("POST /push HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\n{")
        has_read_it(server)
        server.signal(signal.SIGTERM)
        assert server.wait_log("draining", 5)
        time.sleep(0.6)  # sooner it counts as the first
        server.signal(signal.SIGTERM)
        assert server.wait(30) == 1 and server.events("stopped_at_once")
    server.start()
    with Client(server.port) as client:
        assert client.state(job_id) == "ready"


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_stop_signals_at_the_same_time_are_one(laterd, second):
    server = laterd({"server": {"drain_seconds": "2s"}})
    with Wire(server.port) as stuck:
        stuck.send("POST /push HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\n{")
        has_read_it(server)
        begun = time.monotonic()
        server.signal(signal.SIGTERM)
        time.sleep(0.1)
        server.signal(second)
        soon(time.monotonic() - begun, 0.4)
        code = server.wait()
    if server.events("stopped_at_once"):  # laterd itself may have been kept from running between the two
        soon(logged_at(server, "stopped_at_once") - logged_at(server, "draining"), 0.5)
    assert code == 0 and server.events("stopped") and not server.events("stopped_at_once")


def test_the_end_of_coreutils_timeout_is_one_stop(tmp_path):
    """It sends SIGTERM to its child and to its group."""
    command = ["timeout", "1", LATERD, "--data-dir", tmp_path, "--http", "127.0.0.1:0", "--beanstalk", "none"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
                          start_new_session=True)
    if " listening " not in done.stderr:
        raise TooLate("it was ended before it served")
    assert done.returncode == 124 and " stopped " in done.stderr and "stopped_at_once" not in done.stderr


def test_places_that_cannot_be_used_are_told_with_what_to_do(tmp_path):
    def refused(*words):
        done = subprocess.run([LATERD, "--beanstalk", "none", *words], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        assert done.returncode == 1, done
        return done.stderr
    (tmp_path / "file").write_text("")
    for place in ("file", "file/below"):
        words = refused("--http", "127.0.0.1:0", "--data-dir", tmp_path / place)
        assert words.endswith("Not a directory; it, or a folder above it, is a file\n"), words
    words = refused("--http", f"unix:{tmp_path}/none/socket", "--data-dir", tmp_path / "data")
    assert words.endswith("No such file or directory; laterd makes the socket, not the directory that it is in\n"), words
    words = refused("--http", "host.invalid:80", "--data-dir", tmp_path / "data")
    assert "no host has this name; give an address of this machine" in words, words


def test_sighup_names_the_changed_keys_that_need_a_restart(laterd):
    server = laterd({"store": {"segment_bytes": "1M"}, "broker.b": {"type": "redis", "url": "redis://127.0.0.1:1"}})
    server.config["server"] = {"log_level": "error", "drain_seconds": 3}  # these do not
    server.config["store"]["segment_bytes"] = "2M"
    server.config["limits"] = {"topics": 7}
    server.config["broker.b"]["url"] = "redis://:secret@127.0.0.1:2"
    server.command()  # writes the file again
    server.signal(signal.SIGHUP)
    assert server.wait_log("reload_needs_restart")
    (level, facts), = server.events("reload_needs_restart")
    assert level == "warn" and 'keys="store.segment_bytes limits.topics broker.b.url"' in facts, facts
    assert "secret" not in facts
    server.config.update(store={"segment_bytes": "1M"}, **{"broker.b": {"type": "redis", "url": "redis://127.0.0.1:1"}})
    del server.config["limits"]
    server.command()
    server.signal(signal.SIGHUP)
    assert server.wait_log("reloaded", count=2)
    assert server.stop() == 0
    assert len(server.events("reload_needs_restart")) == 1


def test_sighup_reads_the_log_level_again_and_ends_nothing(laterd):
    server = laterd()
    server.config["server"] = {"log_level": "error", "drain_seconds": 3, "http": "127.0.0.1:0"}
    server.command()  # writes the file again
    server.signal(signal.SIGHUP)
    assert server.wait_log("reloaded")
    (_, facts), = server.events("reloaded")
    assert "log_level=error drain_ms=3000" in facts and "restart" in facts
    server.config["server"]["log_level"] = "loud"
    server.command()
    server.signal(signal.SIGHUP)
    assert server.wait_log("reload_failed")
    assert "log_level = loud" in server.events("reload_failed")[0][1]
    server.config["server"].update(log_level="warn", http="127.0.0.1:0,delayqueue")
    server.command()
    server.signal(signal.SIGHUP)
    assert server.wait_log("reload_failed", count=2)
    assert "unknown dialect 'delayqueue'" in server.events("reload_failed")[1][1], "its quotes end no text of the log"
    server.config["server"].update(http="127.0.0.1:0", beanstalk="11300")
    server.command()
    server.signal(signal.SIGHUP)
    assert server.wait_log("reload_failed", count=3), "laterd would not start with it"
    assert eventually(lambda: any("server.beanstalk = 11300: this is not an address to listen on" in line
                                  for line in server.lines))
    with Client(server.port) as client:
        client.push_id("t", body="x")
    assert server.stop() == 0
    assert server.events("draining") == [], "info is not logged any more"


def test_sighup_refuses_what_the_next_start_would_refuse(laterd):
    """It would say that a restart applies it, and after that restart nobody serves."""
    server = laterd({"server": {"log_level": "info"}, "broker.b": {"type": "redis", "url": "redis://127.0.0.1:1"}})
    whole, failed = server.config, 0
    for section, values, why in (
            ("server", {"time_zone": "Mars/Phobos"}, "server.time_zone = Mars/Phobos: this machine's"),
            ("server", {"http": "127.0.0.1:9", "beanstalk": "127.0.0.1:9"}, "server.http has this address, too"),
            ("broker.b", {"type": "redis", "url": "10.0.0.1:6379"}, "[broker.b] url: must begin with redis://"),
            ("broker.c", {"type": "kafka", "url": "nats://127.0.0.1"}, "[broker.c] url: must begin with kafka:// or kafkas://"),
            ("journal", {"url": "postgres://u@h/d"}, "[journal] url: it must begin with mysql://"),
            ("member", {"url": "etcd://127.0.0.1"}, "member.url must begin with zookeeper://"),
            ("member", {"url": "redis://a:b:c"}, "member.url: no host, too many")):
        server.config = {**whole, section: values}
        server.command()  # writes the file again
        server.signal(signal.SIGHUP)
        failed += 1
        assert server.wait_log("reload_failed", count=failed), values
        assert eventually(lambda why=why: any(why in line for line in server.lines)), values
    for section, values in (("server", {"time_zone": "UTC", "log_level": "info"}),
                            ("member", {"url": "file:/missing"}), ("member", {"url": "alone"}),
                            ("broker.b", {"type": "redis", "url": "file:/missing"})):
        server.config = {**whole, section: values}
        server.command()
        count = len(server.events("reloaded"))
        server.signal(signal.SIGHUP)
        assert server.wait_log("reloaded", count=count + 1), values
    assert len(server.events("reload_failed")) == failed
    assert all("--check-config" in facts for _, facts in server.events("reload_needs_restart"))


def test_sighup_does_not_lose_who_waits(laterd):
    server = laterd()
    body = b'{"topics":["t"],"wait":"20s"}'
    with Wire(server.port) as wire, Client(server.port) as client:
        wire.send(request_bytes("POST", "/v1/reserve", body))
        assert eventually(lambda: client.get("/v1/stats").json()["waiting"] == 1)
        for count in range(1, 4):
            server.signal(signal.SIGHUP)
            assert server.wait_log("reloaded", count=count)
        client.push_id("t", body="x")
        assert wire.response().json()["jobs"][0]["body"] == "x"


def test_sighup_in_the_place_of_beanstalkd_is_ignored():
    with subprocess.Popen([LATERD, "--beanstalkd", "-l", "127.0.0.1", "-p", "0", "-V"],
                          stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = iter(process.stderr.readline, "")
            assert any(" listening " in line for line in lines)
            process.send_signal(signal.SIGHUP)
            assert "SIGHUP" in next(lines)
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()


def test_sigpipe_does_not_kill_it(laterd):
    server = laterd()
    server.signal(signal.SIGPIPE)
    time.sleep(0.1)
    with Client(server.port) as client:
        assert client.get("/healthz").status == 200


# A service manager

def test_it_tells_the_service_manager_when_it_is_ready_and_when_it_stops(laterd, tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(PATIENCE_S)
        server = laterd(environment={"NOTIFY_SOCKET": path})
        assert b"READY=1" in manager.recv(4096)
        server.signal(signal.SIGTERM)
        assert b"STOPPING=1" in manager.recv(4096)
    assert server.wait() == 0


def test_it_serves_a_socket_that_the_service_manager_opened(tmp_path):
    with socket.socket() as listening, open(tmp_path / "log", "w", encoding="utf-8") as log:
        listening.bind(("127.0.0.1", 0))
        listening.listen(10)
        port = listening.getsockname()[1]
        with Client(port) as early:
            early.wire = Wire(port)  # connected before laterd runs: it must be served all the same
            # The shell puts the socket where it belongs, says so, and becomes laterd.
            script = f'exec 3<&{listening.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"'
            with subprocess.Popen(["/bin/bash", "-c", script, LATERD, "--data-dir", tmp_path / "data",
                                   "--beanstalk", "none", "--http", "127.0.0.1:1", "--http",
                                   "127.0.0.1:1,sdmq"],  # not opened: only the dialects count
                                  pass_fds=[listening.fileno()], stderr=log) as process:
                try:
                    assert early.get("/healthz").status == 200
                    with Client(port) as client:
                        assert client.push("t", body="x").status == 201
                    process.send_signal(signal.SIGHUP)  # nor do they when it reads them again
                    assert eventually(lambda: " reload" in (tmp_path / "log").read_text())
                    assert " reloaded " in (tmp_path / "log").read_text()
                finally:
                    process.terminate()
                assert process.wait(PATIENCE_S) == 0


def test_what_the_service_manager_passes_and_is_no_listening_socket_is_refused_at_the_start(tmp_path):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        for passed, count, why in ((f"<&{bound.fileno()}", 1, "descriptor 3, which the service manager passes in"),
                                   ("</dev/null", 1, "no socket that listens"),
                                   ("</dev/null", 17, "passes 17 sockets in (LISTEN_FDS), and laterd takes 16")):
            script = f'exec 3{passed}; LISTEN_PID=$$ LISTEN_FDS={count} exec "$0" "$@"'
            ended = subprocess.run(["/bin/bash", "-c", script, LATERD, "--data-dir", tmp_path / "data", "--beanstalk", "none"],
                                   pass_fds=[bound.fileno()], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            assert ended.returncode == 1 and why in ended.stderr, (passed, count, ended)


# Few means

@pytest.mark.embedded("of the embedded engine's start")
def test_a_store_for_which_descriptors_are_too_few_says_what_to_raise(tmp_path):
    """There is a number of them that is enough for all that comes before the store."""
    refused = []
    for descriptors in range(6, 64):
        ended = subprocess.run(["/bin/bash", "-c", 'ulimit -n "$0"; exec timeout 2 "$@"', str(descriptors), LATERD, "--data-dir",
                                tmp_path / "data", "--http", "127.0.0.1:0", "--beanstalk", "none"],
                               capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        refused += [line for line in ended.stderr.splitlines() if "cannot open the store" in line]
        if ended.returncode == 124:
            break
    assert refused and all("ulimit -n" in line for line in refused), refused


@pytest.mark.serial
@pytest.mark.deadline
def test_out_of_file_descriptors_it_keeps_serving_and_says_so_once(laterd):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    server = laterd(preexec_fn=few)
    with Client(server.port) as client:
        assert client.get("/healthz").status == 200
        crowd = []
        for _ in range(120):
            try:
                crowd.append(Wire(server.port, seconds=2))
            except OSError:
                break
        assert len(crowd) > 60
        before = cpu_ticks(server.pid)
        for _ in range(20):
            assert client.push("t", body="x").status == 201
            time.sleep(0.02)
        assert cpu_ticks(server.pid) - before < 30, "it spins"
        assert server.wait_log("accept_paused")
        said = server.events("accept_paused")
        assert 1 <= len(said) <= 3, said
        for wire in crowd:
            wire.close()

        def room():
            with Client(server.port, 3) as late, contextlib.suppress(OSError, Closed):
                return late.get("/healthz").status == 200
            return False
        assert eventually(room)


def test_a_start_without_descriptors_says_what_cannot_be_made_and_what_to_raise():
    """Six: the standard three, the signals', the listener's, epoll's; none for the loop's mailbox."""
    ended = subprocess.run([LATERD, "--no-persist", "--http", "127.0.0.1:0", "--beanstalk", "none"],
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6)),
                           capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "laterd: cannot make the event loop: Too many open files; raise the limit of open files" in ended.stderr


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.serial
@pytest.mark.deadline
def test_it_rests_when_nothing_is_to_do(laterd, engine):
    server = laterd({"redis": {"partitions": 16}})
    polls = [Wire(server.port).send(request_bytes("POST", "/v1/reserve", RESERVE)) for _ in range(50)]
    with Client(server.port) as client:
        client.post("/v1/topics/t2/jobs", [{"body": n, "delay": "1h"} for n in range(500)])
        assert eventually(lambda: client.get("/v1/stats").json()["waiting"] == 50)

        def turns():
            return int(re.search(r"^laterd_turns_total (\d+)", client.get("/metrics").text, re.M)[1])

        def rests():
            before, ticks = turns(), cpu_ticks(server.pid)
            time.sleep(3)
            # Redis is called once a second, and its answer is a turn as well; so are those to turns(),
            # which makes laterd look at each of 16 partitions once more (test/unit/sim counts them).
            few = turns() - before <= (50 if engine == "redis" else 8)
            return few and cpu_ticks(server.pid) - ticks <= 3
        assert eventually(rests, 15), "wake-ups without need"  # at first there may be something left
    for wire in polls:
        wire.close()


@pytest.mark.embedded("--no-persist is the store's")
def test_without_persistence_nothing_is_written_and_jobs_live_in_memory(laterd):
    server = laterd(arguments=["--no-persist"])
    with Client(server.port) as client:
        assert client.post("/v1/topics/t/jobs", id="a", body={"n": 1}).status == 201
        assert client.post("/v1/topics/t/jobs", id="a", body=2, if_exists="replace").status == 201
        jobs = client.post("/v1/reserve", topics=["t"]).json()["jobs"]
        assert [(job["id"], job["body"]) for job in jobs] == [("a", 2)]
    assert server.stop() == 0
    assert not os.path.exists(server.data) or os.listdir(server.data) == []
    (level, facts), = server.events("data_dir_unused")
    assert level == "warn" and f"dir={server.data} " in facts and "--no-persist" in facts


def test_a_directory_for_jobs_that_are_not_kept_is_warned_of(tmp_path):
    path = tmp_path / "laterd.conf"
    path.write_text("[store]\ndata_dir = /srv/laterd\n")
    told = run("-c", path, "--no-persist", "--check-config")
    assert told.returncode == 0
    assert told.stderr == f"laterd: {path}:2: warning: store.data_dir is not used: --no-persist keeps nothing on this disk\n"
    assert run("--no-persist", "--check-config").stderr == ""


@pytest.mark.parametrize("address", [":9277", "*:9277", "9277"])
def test_an_address_without_a_host_is_told_how_to_listen_on_all(address):
    told = run("--http", address, "--check-config")
    assert told.returncode == 2 and "0.0.0.0:9277 for all of this machine's" in told.stderr


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "localhost", "1.2.3:80", "[::1:80", "unix:"])
def test_check_config_finds_a_bad_address(address):
    done = subprocess.run([LATERD, "--http", address, "--check-config"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 2 and address in done.stderr, done


def test_no_file_or_socket_takes_the_place_of_a_standard_stream_that_is_closed(tmp_path):
    """Else the log would be written into it."""
    port = free_port()
    command = [LATERD, "--data-dir", tmp_path / "data", "--http", f"127.0.0.1:{port}", "--beanstalk", "none"]
    with subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]) as process:
        try:
            with socket.socket() as client:
                assert eventually(lambda: client.connect_ex(("127.0.0.1", port)) == 0)
            assert [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in range(3)] == ["/"] * 3
        finally:
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
