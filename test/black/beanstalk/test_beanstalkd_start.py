"""Starting laterd for beanstalkd's clients: its own options, and beanstalkd's command line."""

import contextlib
import grp
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time

import pytest

from beanstalk import Connection
from patience import PATIENCE_S
from ports import free_port
from process import LATERD, DidNotStart, Laterd
from wire import Client

DEBIANS = shutil.which("beanstalkd", path="/usr/bin:/usr/local/bin:/bin")
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")


class AsBeanstalkd(Laterd):
    """laterd with beanstalkd's command line, told to say where it listens."""

    def command(self):
        return [*self.prefix, LATERD, "--beanstalkd", "-V", *map(str, self.arguments)]


class Local(Connection):
    """A connection over a unix socket."""

    def __init__(self, path):  # pylint: disable=super-init-not-called
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(path)
        self.kept = b""


@pytest.fixture
def beanstalkd(tmp_path):
    """Makes servers: beanstalkd("-b", DIR, …), on a free port of the loopback unless told."""
    started = []

    def make(*arguments, **options):
        arguments = list(arguments)
        if "-l" not in arguments:
            arguments += ["-l", "127.0.0.1"]
        server = AsBeanstalkd(tmp_path / f"as{len(started)}", listeners=(), beanstalk=("one",),
                              arguments=["-p", "0", *arguments], **options)
        started.append(server)
        return server.start()

    yield make
    for server in started:
        server.kill()


def run(*arguments, **options):
    return subprocess.run([LATERD, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S,
                          check=False, **options)


def files_below(path):
    return [os.path.join(at, name) for at, _, names in os.walk(path) for name in names]


def stats_below(path):
    """Of all files; one may have got its final name meanwhile."""
    found = []
    for name in files_below(path):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.stat(name))
    return found


# Listening for beanstalkd's clients, beside HTTP

def test_http_and_beanstalk_are_served_side_by_side(laterd):
    server = laterd(beanstalk=("127.0.0.1:0", "127.0.0.1:0"))
    assert len(server.ports) == 1 and len(server.beanstalk_ports) == 2
    for port in server.beanstalk_ports:
        with Connection(port) as one:
            assert one.ask("list-tube-used") == "USING default"
    with Client(server.port) as client:
        assert client.get("/healthz").status == 200


def test_the_command_line_replaces_the_configured_addresses(laterd, tmp_path):
    path = tmp_path / "a socket"
    server = laterd(beanstalk=("127.0.0.1:0",), start=False,
                    arguments=["--beanstalk", f"unix:{path}", "--beanstalk", "127.0.0.1:0"])
    server.beanstalk = [None] * 2  # so many lines are waited for
    server.start()
    assert len(server.beanstalk_ports) == 1
    with Local(str(path)) as one:
        assert one.ask("list-tube-used") == "USING default"


@pytest.mark.parametrize("option, protocol", [("--beanstalk", "beanstalk"), ("--http", "http")])
def test_none_turns_a_protocol_off(laterd, option, protocol):
    server = laterd(beanstalk=("127.0.0.1:0",), start=False, arguments=[option, "none"])
    server.listeners, server.beanstalk = [None], []  # one line in all is waited for
    server.config = {"server": {"http": "127.0.0.1:0", "beanstalk": "127.0.0.1:0"}}
    server.start()
    assert len(server.events("listening")) == 1
    assert server.ports_of(protocol) == []


def test_without_any_listener_it_does_not_start():
    ended = run("--http", "none", "--beanstalk", "none", "--check-config")
    assert ended.returncode == 2 and "must be a listener" in ended.stderr


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "localhost", "1.2.3:80", "unix:"])
def test_a_bad_beanstalk_address_is_refused(address):
    ended = run("--beanstalk", address, "--check-config")
    assert ended.returncode == 2 and address in ended.stderr


def test_too_many_beanstalk_addresses_are_refused():
    ended = run(*["--beanstalk", "127.0.0.1:0"] * 17, "--check-config")
    assert ended.returncode == 2 and "more than 16" in ended.stderr


def test_a_taken_port_is_reported_with_what_to_do(laterd, beanstalkd):
    first = laterd(beanstalk=("127.0.0.1:0",))
    taken = first.beanstalk_port
    with pytest.raises(DidNotStart) as why:
        laterd(beanstalk=(f"127.0.0.1:{taken}",))
    assert f"127.0.0.1:{taken}" in str(why.value) and "--beanstalk none" in str(why.value)
    with pytest.raises(DidNotStart) as why:
        beanstalkd("-p", taken)
    assert f"127.0.0.1:{taken}" in str(why.value) and "-p" in str(why.value)


def test_a_host_may_be_named(laterd):
    server = laterd(listeners=("localhost:0",), beanstalk=("localhost:0",))
    with Connection(server.beanstalk_port) as one:
        assert one.ask("list-tube-used") == "USING default"
    ended = run("--http", "none", "--beanstalk", "nowhere.invalid:0", "--no-persist")
    assert ended.returncode == 1 and "no host has this name" in ended.stderr


def test_job_bytes_bounds_what_clients_put_and_may_be_above_body_bytes(laterd):
    server = laterd({"limits": {"body_bytes": "64K"}, "beanstalk": {"job_bytes": "2M"}},
                    beanstalk=("127.0.0.1:0",))
    large = bytes(range(256)) * 8192
    with Connection(server.beanstalk_port) as one:
        assert one.ask(f"put 0 0 60 {len(large) + 1}", large + b"x") == "JOB_TOO_BIG"
        job_id = one.put(large)
        assert one.stats()["max-job-size"] == str(len(large))
    server.kill()
    server.start()
    with Connection(server.beanstalk_port) as one:
        assert one.reserve() == (job_id, large)


def test_sockets_of_a_service_manager_speak_what_their_names_say(tmp_path):
    with socket.socket() as http, socket.socket() as beanstalk:
        for one in (http, beanstalk):
            one.bind(("127.0.0.1", 0))
            one.listen(10)
        script = (f'exec 8<&{beanstalk.fileno()} 9<&{http.fileno()} 3<&8 4<&9; '
                  'LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=beanstalk:http exec "$0" "$@"')
        with subprocess.Popen(["/bin/bash", "-c", script, LATERD, "--data-dir", tmp_path / "data"],
                              pass_fds=[http.fileno(), beanstalk.fileno()]) as process:
            try:
                with Connection(beanstalk.getsockname()[1]) as one:
                    assert one.ask("list-tube-used") == "USING default"
                with Client(http.getsockname()[1]) as client:
                    assert client.get("/healthz").status == 200
            finally:
                process.terminate()
            assert process.wait(PATIENCE_S) == 0


# beanstalkd's command line

def test_it_is_beanstalkd_by_option_and_by_name(tmp_path):
    told = run("--beanstalkd", "-v")
    assert re.fullmatch(r"beanstalkd 1\.13 \(laterd \d+\.\d+\.\d+\)\n", told.stdout), told
    named = tmp_path / "beanstalkd"
    named.symlink_to(LATERD)
    assert subprocess.run([named, "-v"], capture_output=True, text=True, check=True).stdout \
        == told.stdout


def test_the_version_of_stats_is_that_of_the_command_line(beanstalkd):
    version = run("--beanstalkd", "-v").stdout.split()[1]
    with Connection(beanstalkd().beanstalk_port) as one:
        assert one.stats()["version"].strip('"') == version


def test_help_has_every_flag():
    told = run("--beanstalkd", "-h")
    assert told.returncode == 0
    for flag in "bfFlpuzsvVhcn":
        assert re.search(rf"-{flag}\b", told.stdout), flag


BAD = [["-Q"], ["stray"], ["-p"], ["-z", "abc"], ["-s", "1x"], ["-fabc"], ["--nonsense"]]


@pytest.mark.parametrize("arguments", BAD, ids=" ".join)
def test_a_bad_command_line_ends_as_beanstalkds_does(arguments):
    ended = run("--beanstalkd", *arguments)
    assert ended.returncode == 5
    said = ended.stderr.split("\n")[0].partition(": ")[2]
    if not DEBIANS:
        pytest.skip("no beanstalkd to compare with")
    theirs = subprocess.run([DEBIANS, *arguments], capture_output=True, text=True, timeout=60,
                            check=False)
    assert (theirs.returncode, theirs.stderr.split("\n")[0].partition(": ")[2]) == (5, said)


@pytest.mark.parametrize("arguments, code", [
    (["-l", "nowhere.invalid"], 111), (["-u", "no-such-user"], 33), (["-b", "/no/such/place"], 10)],
    ids=["-l", "-u", "-b"])
def test_it_fails_with_beanstalkds_exit_codes(arguments, code):
    ended = run("--beanstalkd", "-l", "127.0.0.1", "-p", 0, *arguments)
    assert ended.returncode == code and arguments[-1] in ended.stderr
    if not DEBIANS:
        pytest.skip("no beanstalkd to compare with")
    theirs = subprocess.run([DEBIANS, "-l", "127.0.0.1", "-p", "0", *arguments], timeout=60,
                            capture_output=True, check=False)
    assert theirs.returncode == code


def test_beanstalkd_is_the_first_argument_or_nothing():
    ended = run("--data-dir", "/nowhere", "--beanstalkd")
    assert ended.returncode == 2 and "first argument" in ended.stderr


def test_without_b_nothing_is_kept(beanstalkd, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    server = beanstalkd(cwd=here)
    with Connection(server.beanstalk_port) as one:
        one.put(b"x" * 65535)
        assert one.ask("put 0 0 60 65536", b"x" * 65536) == "JOB_TOO_BIG"
        assert one.stats()["binlog-current-index"] == "0"
    assert files_below(here) == [] and "dir=none" in server.events("store_opened")[0][1]
    server.kill()
    server.start()
    with Connection(server.beanstalk_port) as one:
        assert one.reserve() is None


@pytest.mark.parametrize("flags", [["-f0"], ["-f", "0"], ["-f", "10"], ["-F"], []], ids=" ".join)
def test_with_b_jobs_outlive_the_process(beanstalkd, tmp_path, flags):
    server = beanstalkd("-b", tmp_path / "kept", *flags)
    with Connection(server.beanstalk_port) as one:
        job_id = one.put(b"kept", priority=7)
    server.kill()
    server.start()
    with Connection(server.beanstalk_port) as one:
        assert one.reserve() == (job_id, b"kept")


def test_l_takes_a_unix_socket(beanstalkd, tmp_path):
    path = str(tmp_path / "socket")
    beanstalkd("-l", f"unix:{path}")
    assert stat.S_ISSOCK(os.stat(path).st_mode)
    with Local(path) as one:
        assert one.put() == 1


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "0.0.0.0"])
def test_l_takes_hosts_and_addresses(beanstalkd, host):
    with Connection(beanstalkd("-l", host).beanstalk_port) as one:
        assert one.put() == 1


def test_l_takes_a_bare_ipv6_address(beanstalkd):
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    with Connection(beanstalkd("-l", "::1").beanstalk_port, host="::1") as one:
        assert one.put() == 1


def test_p_is_the_port(beanstalkd):
    port = free_port()
    server = beanstalkd("-p", port)
    assert server.beanstalk_ports == [port]


def test_z_is_the_largest_job(beanstalkd):
    with Connection(beanstalkd("-z", 10).beanstalk_port) as one:
        assert one.ask("put 0 0 60 11", b"x" * 11) == "JOB_TOO_BIG"
        assert one.put(b"x" * 10) == 1
        assert one.stats()["max-job-size"] == "10"


def test_z_above_our_largest_is_cut_and_said(beanstalkd):
    server = beanstalkd("-z", 1 << 30)
    assert any("maximum job size was set to 67108864" in line for line in server.lines)
    with Connection(server.beanstalk_port) as one:
        assert one.stats()["max-job-size"] == "67108864"


@pytest.mark.parametrize("asked, made", [(300000, 303104), (1, 262144)])
def test_s_is_the_size_of_a_log_file(beanstalkd, tmp_path, asked, made):
    kept = tmp_path / "kept"
    server = beanstalkd("-b", kept, "-s", asked)
    with Connection(server.beanstalk_port) as one:
        one.put()
        assert one.stats()["binlog-max-size"] == str(made)
    assert made in [file.st_size for file in stats_below(kept)]


@pytest.mark.parametrize("flags", [["-c", "-n"], ["-VV"], ["-Vn"]], ids=" ".join)
def test_flags_without_meaning_and_verbosity_are_taken(beanstalkd, flags):
    assert beanstalkd(*flags).stop() == 0


def test_without_V_it_is_quiet(tmp_path):
    path = str(tmp_path / "socket")
    with subprocess.Popen([LATERD, "--beanstalkd", "-l", f"unix:{path}"], stderr=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        time_to_connect(path, time.monotonic())
        process.terminate()
        assert process.communicate(timeout=PATIENCE_S) == (b"", b"") and process.returncode == 0


def test_http_is_off_unless_asked_for(beanstalkd):
    assert beanstalkd().ports == []
    server = beanstalkd("--http", "127.0.0.1:0")
    assert server.wait_log("listening", count=2)
    with Connection(server.beanstalk_port) as one, Client(server.port) as client:
        job_id = one.put(b"both")
        job = client.reserve("default")[0]
        assert job["body"] == "both"
        assert one.state(job_id) == "reserved"


@pytest.mark.parametrize("as_beanstalkd", [True, False])
def test_a_log_of_beanstalkd_is_refused_and_the_way_to_bring_it_over_is_named(tmp_path, as_beanstalkd):
    (tmp_path / "binlog.3").write_bytes(b"")
    ended = run("--beanstalkd", "-b", tmp_path, "-l", "127.0.0.1", "-p", 0) if as_beanstalkd else \
        run("--data-dir", tmp_path, "--http", "127.0.0.1:0", "--beanstalk", "none")
    assert ended.returncode == (10 if as_beanstalkd else 1)
    assert f"later import beanstalkd {tmp_path}" in ended.stderr and "binlog.3" in ended.stderr
    assert os.listdir(tmp_path) == ["binlog.3"]


@ROOT_ONLY
def test_u_gives_up_root_before_the_store_is_opened(beanstalkd):
    nobody = pwd.getpwnam("nobody")
    home = tempfile.mkdtemp(prefix="laterd-")  # below /tmp: others cannot enter pytest's own
    try:
        os.chown(home, nobody.pw_uid, nobody.pw_gid)
        server = beanstalkd("-b", os.path.join(home, "kept"), "-u", "nobody")
        with open(f"/proc/{server.pid}/status", encoding="ascii") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        assert status["Uid"].split() == [str(nobody.pw_uid)] * 4
        assert status["Gid"].split() == [str(nobody.pw_gid)] * 4
        assert status["Groups"].split() == []
        with Connection(server.beanstalk_port) as one:
            one.put()
        assert {file.st_uid for file in stats_below(home)} == {nobody.pw_uid}
        server.kill()  # it would make the next segment while the folder goes
    finally:
        shutil.rmtree(home)


@ROOT_ONLY
def test_u_needs_root():
    shared = tempfile.mkdtemp(prefix="laterd-")
    try:
        os.chmod(shared, 0o755)
        copy = shutil.copy(LATERD, shared)  # a home or a build may be closed to others
        ended = subprocess.run([copy, "--beanstalkd", "-l", "127.0.0.1", "-p", "0", "-u", "root"],
                               user="nobody", group=grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name,
                               extra_groups=[], capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 34 and "root" in ended.stderr
    finally:
        shutil.rmtree(shared)


# Signals

def test_sigusr1_refuses_new_jobs_and_serves_the_old(beanstalkd):
    server = beanstalkd()
    with Connection(server.beanstalk_port) as one:
        job_id = one.put(b"before")
        assert one.stats()["draining"] == "false"
        server.signal(signal.SIGUSR1)
        assert server.wait_log("refusing_pushes")
        assert one.ask("put 0 0 60 1", b"x") == "DRAINING"
        assert one.stats()["draining"] == "true"
        assert one.reserve() == (job_id, b"before")
        assert one.ask(f"delete {job_id}") == "DELETED"
    with Connection(server.beanstalk_port) as late:
        assert late.ask("list-tube-used") == "USING default"
    assert server.stop() == 0


def test_sigusr1_refuses_new_jobs_over_http_too(laterd):
    server = laterd()
    with Client(server.port) as client:
        job_id = client.push_id("t", body="before")
        server.signal(signal.SIGUSR1)
        assert server.wait_log("refusing_pushes")
        refused = client.push("t", body="x")
        assert (refused.status, refused.json()["code"]) == (503, "draining")
        assert client.get("/readyz").status == 503
        assert [job["id"] for job in client.reserve("t")] == [job_id]
        server.signal(signal.SIGUSR1)  # asked twice is said once
        assert client.job(job_id, "finish").status in (200, 204)
    assert len(server.events("refusing_pushes")) == 1
    assert server.stop() == 0


def test_sigterm_ends_in_order(beanstalkd, tmp_path):
    server = beanstalkd("-b", tmp_path / "kept")
    with Connection(server.beanstalk_port) as one:
        one.put()
        server.signal(signal.SIGTERM)
        assert one.closed()
    assert server.wait() == 0


# How soon

@pytest.mark.serial
@pytest.mark.embedded("it starts laterd by itself, on a store")
def test_it_listens_within_100_ms_of_its_start_on_an_empty_store(tmp_path):
    """The best of five, so that what else the machine does is not counted; mostly about 3 ms, and
    15 ms until the first answer."""
    took = []
    for number in range(5):
        path = str(tmp_path / f"socket{number}")
        begin = time.monotonic()
        with subprocess.Popen([LATERD, "--beanstalkd", "-l", f"unix:{path}", "-b",
                               tmp_path / f"store{number}"]) as process:
            try:
                took.append(time_to_connect(path, begin))
                with Local(path) as one:
                    assert one.put() == 1
            finally:
                process.kill()
    assert min(took) < 0.1, took


def time_to_connect(path, begin):
    while time.monotonic() < begin + PATIENCE_S:
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(path)
                return time.monotonic() - begin
        except OSError:
            time.sleep(0.001)
    raise AssertionError("it never listened")
