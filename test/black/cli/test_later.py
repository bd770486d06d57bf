"""The program later as its users and their scripts meet it: words, exit codes, pipes."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from fake_v1 import Fake
from process import LATER
from terminal import on_a_terminal
from wire import Client, eventually

DONE, NOTHING, USAGE, CONFLICT, REFUSED, UNREACHABLE, WRONG = range(7)


@pytest.fixture
def later(shared):
    """Runs later against the shared server: later(word, …, input=…)."""
    def run(*words, server=None, **options):
        url = server or f"http://127.0.0.1:{shared.port}"
        environment = dict(os.environ, LATER_SERVER=url)
        return subprocess.run([LATER, *words], env=environment, capture_output=True, text=True,
                              timeout=60, check=False, **options)
    run.environment = dict(os.environ, LATER_SERVER=f"http://127.0.0.1:{shared.port}")
    return run


def test_general_options_stand_before_the_command_or_behind_it(shared, later, topic):
    url = f"http://127.0.0.1:{shared.port}"
    nowhere = "http://127.0.0.1:1"
    assert later("push", topic, "x").returncode == DONE
    for words in (["--server", url, "--json", "get", "no-such"],
                  ["get", "no-such", "--server", url, "-j"]):
        assert later(*words, server=nowhere).returncode == NOTHING
    assert later("topics", server=nowhere).returncode == UNREACHABLE
    for words in (["--version"], ["-V"], ["version"], ["get", "--version"], ["topics", "-V"]):
        assert later(*words, server=nowhere).stdout == later("--version").stdout, words
    assert later("--version").stdout.startswith("later ")
    assert "COMMAND" in later("--json", "--help").stdout


@pytest.mark.parametrize("words, says", [
    (["--nope"], "later: there is no option --nope"),
    (["nope"], "later: there is no command 'nope'"),
    (["topics", "--nope"], "later topics: there is no option --nope"),
    (["topics", "-jZ"], "later topics: there is no option -Z"),
    (["push", "t", "b", "--delay"], "later push: --delay needs a value"),
    (["push", "t", "b", "--json=1"], "later push: --json takes no value"),
    (["topic", "mail"], "later topic: set, show, unset, test or delete 'mail'?"),
    (["topic", "show"], "later topic: TOPIC is missing"),
    (["pop"], "later pop: TOPIC is missing"),
    (["push", "t"], "later push: BODY, @FILE or - is missing"),
    (["kick"], "later kick: ID or --topic is missing"),
    (["salvage", "old"], "later salvage: NEW is missing"),
    (["bench", "--jobs", "200"],
     "later bench: put, cycle, cancel, due, burst or idle is missing"),
    (["import", "redis", "-l", "sdmq"], "later import: URL is missing"),
    (["backup"], "later backup: PLACE is missing"),
    (["restore", "place"], "later restore: DIR is missing"),
    (["restore", "--journal"],
     "later restore: jobs come back from the journal in MySQL by: later journal restore"),
    (["import", "beanstalkd"], "later import: DIR is missing"),
    (["verify", "a", "b"], "later verify: one word too many: 'b'"),
    (["version", "2"], "later: version takes nothing: '2'"),
    (["push", "t", "--lines", "--id", "x"], "later push: --id is the id of one job: lines of --ndjson have their own"),
    (["push", "t", "-n", "-i", "x", "-e", "replace"],
     "later push: --id is the id of one job: lines of --ndjson have their own"),
    (["stats", "much"],
     "later stats: one word too many: 'much'; a topic's figures: later topics much"),
    (["kick", "t", "--max", "5"], "later kick: --max is for a topic's buried jobs: later kick --topic t --max 5"),
    (["topic", "set", "t", "--paused", "--resumed"], "later topic: --paused or --resumed, not both"),
    (["reschedule", "j", "--delay", "1s", "--due", "5"], "later reschedule: --delay or --due, not both"),
    (["replay", "t", "--since", "1h", "--from", "2030-01-01T00:00:00Z"], "later replay: --since or --from, not both"),
    (["list", "t", "--ids", "--json"], "later list: --ids, --labels or --json, only one of them"),
    (["pop", "t", "--forever"], "later pop: --forever belongs to --exec"),
    (["pop", "t", "--kill-after", "5s"], "later pop: --kill-after belongs to --exec"),
    (["pop", "t", "--exec", "cat", "--forever", "--max", "3"], "later pop: --forever or --max, not both"),
    (["pop", "t", "--exec", "cat", "--finish"],
     "later pop: --finish and --exec, not both: the command gets the body, and its success finishes the job"),
    (["kick", "job", "--topic", "t"], "later kick: ids or --topic, not both: 'job'"),
])
def test_bad_usage_is_a_clear_line_then_the_usage_and_exit_2(later, words, says):
    answer = later(*words)
    lines = answer.stderr.splitlines()
    assert answer.returncode == USAGE and answer.stdout == ""
    assert lines[0] == says and lines[1].startswith("usage: later ")
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("words, says", [
    (["push", "t", "b", "--delay", "30"],
     "later push: --delay 30 of what? write 30s, 30m, 30h or 30ms"),
    (["pause", "mail", "--for", "0"], "later pause: --for is at least 1ms; `later resume` ends a pause"),
    (["get", "j", "-t", "0"], "later get: --timeout 0 leaves no time for an answer: write a duration such as 10s"),
    (["push", "t", "b", "--delay", "10y"], "later push: --delay '10y' is not a duration such as 250ms, 30s, 1h30m or 3650d (us, ms, s, m, h, d, w)"),
    (["push", "t", "b", "--delay", "30 m"], "later push: --delay '30 m': no space stands in a duration: write 30m"),
    (["push", "t", "b", "--delay", " 1h  30m"], "later push: --delay ' 1h  30m': no space stands in a duration: write 1h30m"),
    (["push", "t", "b", "--delay", "30 years"],
     "later push: --delay '30 years' is not a duration such as 250ms, 30s, 1h30m or 3650d (us, ms, s, m, h, d, w)"),
    (["push", "t", "", "-J"], "later push: the body is empty, which is not JSON"),
    (["import", "redis", "-l", "sdmq", "http://h/1"],
     "later import: URL is redis://[user:password@]host[:port]/DB or unix:///path"),
    (["import", "redis", "-l", "sdmq", "unix://h"],
     "later import: URL: unix:// must be followed by the path of a socket"),
    (["due", "soon"],
     "later due: DURATION 'soon' is not a duration such as 250ms, 30s, 1h30m or 3650d (us, ms, s, m, h, d, w)"),
    (["due", "99999999999999999d"], "later due: DURATION '99999999999999999d' is too long"),
    (["finish", "j", "--lease", "\udcff"], "later finish: --lease is not UTF-8"),
    (["finish", "j", "\udcff"], "later finish: ID is not UTF-8"),
    (["release", "j", "--lease", "\udced\udca0\udc80"], "later release: --lease is not UTF-8"),
    (["replay", "t", "--code", "\udcff"], "later replay: --code is not UTF-8"),
    (["replay", "t", "--from", "\udcff"], "later replay: --from is not UTF-8"),
    (["journal", "restore", "\udcff"], "later journal: ID is not UTF-8"),
    (["pop", "t", "\udcff"], "later pop: TOPIC is not UTF-8"),
    (["push", "t", "b", "--due", "\udcff"], "later push: --due is not UTF-8"),
    (["push", "t", "b", "--biz-key", "\udcff"], "later push: --biz-key is not UTF-8"),
    (["push", "t", "b", "--header", "A: \udcff"], "later push: --header is not UTF-8"),
    (["topic", "set", "t", "--sign", "\udcff"], "later topic: --sign is not UTF-8"),
    (["topic", "set", "t", "--jitter", "0,2"], "later topic: --jitter '0,2' is not a number such as 0.2"),
    (["topic", "set", "t", "--jitter", "nan"], "later topic: --jitter 'nan' is not a number such as 0.2"),
    (["kick", "--topic", "t", "--max", "0"], "later kick: --max is at least 1"),
    (["stats", "--token-file", "/"], "later stats: --token-file: cannot read /: Is a directory"),
    (["topic", "set", "t", "--jitter", ""], "later topic: --jitter '' is not a number such as 0.2"),
    (["due", "1h", "1m"], "later due: 1m is shorter than 1h before it: write them from short to long"),
    (["due", *["1s"] * 65], "later due: 65 durations are too many: 64 at most"),
    (["list", "t", "--state", "late"], "later list: --state is delayed, ready, reserved or buried, not 'late'"),
    (["list", "t", "--order", "up"], "later list: --order is asc or desc, not 'up'"),
    (["get", ""], "later get: an ID is empty"),
    (["finish", ""], "later finish: an ID is empty"),
    (["pop", "t", "--exec", "cat", "--kill-after", "0"],
     "later pop: --kill-after must be more than 0; without it a command may take any time"),
    (["pop", "t", "--exec", " "], "later pop: --exec: the command is empty"),
    (["push", "t", "@/no/such"], "later push: cannot read /no/such: No such file or directory"),
    (["push", "t", "@-"], "later push: cannot read -: No such file or directory; standard input is - without the @"),
    (["push", "t", "@"], "later push: @: the name of a file is missing behind it"),
    (["topic", "set", "t", "--file", "/no/such"], "later topic: cannot read /no/such: No such file or directory"),
    (["push", "t", "b", "--level", "99"], "later push: --level '99' is not a number up to 18"),
    (["-s", "foo://x", "topics"],
     "later topics: 'foo://x' is not a server: give http://HOST:PORT, https://HOST or unix:PATH"),
    (["bench", "put", "--server-pid", "999999999"], "later bench: --server-pid 999999999: no such process"),
    (["-s", "https://h", "--cacert", "/no/such", "topics"],
     "later topics: --cacert (LATER_CACERT): cannot read /no/such: No such file or directory"),
])
def test_a_bad_value_is_one_clear_line_without_the_usage_and_exit_2(later, words, says):
    """How the command is written was right: its usage would say nothing about the value."""
    answer = later(*words, stdin=subprocess.DEVNULL)
    assert (answer.returncode, answer.stdout, answer.stderr) == (USAGE, "", says + "\n")


def test_a_clear_that_cannot_ask_says_in_one_line_what_to_give(later, topic):
    assert later("push", topic, "x").returncode == DONE
    answer = later("clear", topic, stdin=subprocess.DEVNULL)
    assert (answer.returncode, answer.stderr) == (USAGE, "later clear: there is no terminal to ask on: use --yes\n")


def test_what_is_printed_without_a_standard_output_gets_into_no_file(later, topic, tmp_path):
    """Else the map would get its number, and a line for each job."""
    ids = [f"{topic}-{number}" for number in range(100)]
    jobs = [{"job": {"id": one, "topic": topic, "state": "delayed", "due": "2200-01-01T00:00:00Z"}} for one in ids]
    lines = [{"later": {"format": 1}}, *jobs, {"end": {"jobs": 100}}]
    path = tmp_path / "ids.tsv"
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", LATER, "import", "--json", "--map", str(path)],
                          env=later.environment, input="".join(json.dumps(line) + "\n" for line in lines),
                          stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert path.read_text() == "".join(f"{one}\t{one}\n" for one in ids)
    assert done.returncode == REFUSED and "cannot write the output" in done.stderr, done
    assert later("get", *ids).returncode == DONE


@pytest.mark.parametrize("words", [
    ["push", "t", "x", "--delay", "soon"], ["push", "t", "x", "--due", "soon"],       # later's, the server's
    ["push", "t", "x", "--priority", "-1"], ["push", "t", "x", "--if-exists", "maybe"],
    ["push", "t", "x", "--id", "@1"], ["push", "t" * 201, "x"], ["pop", ""],
    ["list", "t", "--state", "late"], ["topics", "t" * 201],
    ["topic", "set", "t", "--jitter", "x"], ["topic", "set", "t", "--jitter", "7"],
    ["topic", "set", "t", "--rate", "x"], ["topic", "set", "t", "--retry", "10x"], ["topic", "set", "t", "--retry", "x"],
    ["replay", "t", "--code", "x"], ["finish", ""]])
def test_a_bad_value_is_exit_2_whoever_finds_it(later, words):
    assert later(*words).returncode == USAGE


@pytest.mark.parametrize("words", [
    ["push", "t", "x", "--ttr", "9999d"], ["pop", "t", "--wait", "9999d"]])
def test_a_good_value_above_a_limit_of_the_server_is_exit_4(later, words):
    refused = later(*words)
    assert refused.returncode == REFUSED and "limits." in refused.stderr, refused


def test_an_empty_topic_is_named_once(later):
    answer = later("clear", "", "--yes")
    assert (answer.returncode, answer.stderr) == (USAGE, "later clear: topic: the topic is empty (bad_path)\n")


def test_a_list_of_ids_goes_into_other_commands(later, topic):
    ids = [f"{topic} {n}" for n in range(3)] + [f"--{topic}", f"{topic}'\"\\é"]
    for job_id in ids:
        assert later("push", topic, "x", f"--id={job_id}", "--delay", "1h").returncode == DONE
    listed = later("list", topic, "--ids")
    assert listed.returncode == DONE and sorted(listed.stdout.splitlines()) == sorted(ids)
    assert len(later("list", topic, "--ids", "--limit", "2").stdout.splitlines()) == 2
    done = subprocess.run(["xargs", "-rd", "\\n", LATER, "run", "--"], input=listed.stdout, text=True, check=False,
                          capture_output=True, timeout=60, env=later.environment)
    assert done.returncode == 0, done
    none = later("list", topic, "--ids")
    assert none.returncode == NOTHING and none.stdout == "" and "no job is delayed; 5 ready" in none.stderr


@pytest.mark.parametrize("words", [["help"], ["--help"], ["--version"], ["push", "--help"], ["help", "pop"], ["stats"]])
def test_what_a_full_disk_did_not_take_is_an_error(later, words):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([LATER, *words], env=later.environment, stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=60, check=False)
    assert done.returncode == REFUSED and done.stderr.endswith(": cannot write the output\n"), done


def test_only_commands_that_ask_a_server_tell_how_to_reach_it(later):
    for command in ("verify", "salvage"):
        told = later(command, "--help").stdout
        assert "--json" in told and "--help" in told
        for option in ("--server", "--timeout", "--cacert", "--insecure", "--token-file"):
            assert option not in told, command
    told = later("stats", "--help").stdout
    assert "Also: -s, --server URL" in told and "--timeout" in told and "--token-file" in told


def test_the_help_of_stats_says_how_exact_percentiles_are(later):
    assert "up to 43 % more than the\njobs' own, and above 26 seconds up to twice" in later("stats", "--help").stdout


def test_a_body_that_is_too_large_is_reported_by_the_limit_of_bodies(later, topic):
    answer = later("push", topic, "-", input="\0" * 2_000_000)
    assert answer.returncode == REFUSED
    assert "the body has 2000000 bytes; limits.body_bytes is 1048576" in answer.stderr


def test_a_port_for_clients_of_beanstalkd_says_what_it_is(later, laterd):
    port = laterd({"server": {"beanstalk": "127.0.0.1:0", "http": "none"}}).ports_of("beanstalk")[0]
    answer = later("topics", server=f"http://127.0.0.1:{port}")
    assert answer.returncode == REFUSED
    assert answer.stderr == (
        f"later topics: http://127.0.0.1:{port} speaks another protocol: This is laterd's port for clients of beanstalkd "
        "(server.beanstalk). HTTP is spoken on another one (server.http), 9277 by default.\n")


def test_a_bench_of_the_port_of_another_protocol_says_what_may_be_wrong(later, laterd):
    server = laterd(beanstalk=("127.0.0.1:0",))
    for words, port in [((), server.beanstalk_port), (("--beanstalk", f"127.0.0.1:{server.port}"), server.port)]:
        answer = later("bench", "put", "--jobs", "10", *words, server=f"http://127.0.0.1:{port}")
        assert answer.returncode in (REFUSED, UNREACHABLE)
        assert ("is it a port for HTTP, or with --beanstalk one for clients of beanstalkd?" in answer.stderr
                or "This is laterd's port for clients of beanstalkd" in answer.stderr), answer


def state_of(pid):
    """T: it is stopped."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_a_bench_of_a_server_that_refuses_every_push_says_why_and_of_no_jobs_that_are_left(later, laterd):
    server = laterd()
    server.process.send_signal(signal.SIGUSR1)
    assert server.wait_log("refusing_pushes")
    done = later("bench", "put", "--jobs", "10", "--connections", "2", server=f"http://127.0.0.1:{server.port}")
    assert (done.returncode, done.stderr) == (REFUSED, "")
    assert "  refused    10, the first with HTTP/1.1 503 Service Unavailable (draining)\n" in done.stdout


def test_a_bench_that_is_interrupted_leaves_no_server_stopped(laterd):
    server = laterd(beanstalk=("127.0.0.1:0",))
    words = ("bench", "burst", "--beanstalk", f"127.0.0.1:{server.beanstalk_port}", "--stop", "--jobs", "100",
             "--connections", "2", "--lead", "4s", "--server-pid", str(server.pid))
    with subprocess.Popen([LATER, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as bench:
        assert eventually(lambda: state_of(server.pid) == "T", 30)
        bench.send_signal(signal.SIGINT)
        assert bench.wait(30) == -signal.SIGINT
    assert eventually(lambda: state_of(server.pid) != "T", 5)


@pytest.mark.embedded("it is the command's own")
@pytest.mark.parametrize("scenario", ["put", "cycle", "cancel", "due", "burst", "idle"])
def test_a_bench_leaves_no_topic_of_its_own(later, client, scenario):
    done = later("bench", scenario, "--jobs", "20", "--connections", "2", "--seconds", "1", "--lead", "1s")
    assert done.returncode == DONE, done
    assert not [topic for topic in later("topics").stdout.splitlines() if "later-bench" in topic], scenario


@pytest.mark.embedded("it is the command's own")
@pytest.mark.parametrize("scenario, figures", [("put", True), ("due", False)])
def test_a_bench_that_is_interrupted_deletes_its_jobs_and_its_topic(laterd, scenario, figures):
    server = laterd()
    words = ("bench", scenario, "--jobs", "100000000", "--connections", "2")
    with Client(server.port) as client, \
            subprocess.Popen([LATER, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=dict(os.environ, LATER_SERVER=f"http://127.0.0.1:{server.port}")) as bench:
        assert eventually(lambda: "laterd_jobs{state=\"delayed\"} 0\n" not in client.get("/metrics").text)
        bench.send_signal(signal.SIGINT)
        said, complaint = bench.communicate(timeout=60)
        assert bench.returncode == -signal.SIGINT
        assert ("a second" in said) == figures and "its jobs are being deleted" in complaint, (said, complaint)
        assert client.get("/v1/topics").json()["topics"] == []


@pytest.mark.embedded("it is the command's own")
def test_a_bench_that_keeps_its_jobs_ends_by_the_signal_as_well(laterd):
    server = laterd()
    with Client(server.port) as client, \
            subprocess.Popen([LATER, "bench", "put", "--keep", "--jobs", "100000000", "--connections", "2"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=dict(os.environ, LATER_SERVER=f"http://127.0.0.1:{server.port}")) as bench:
        assert eventually(lambda: "laterd_jobs{state=\"delayed\"} 0\n" not in client.get("/metrics").text)
        bench.send_signal(signal.SIGTERM)
        bench.send_signal(signal.SIGTERM)  # as timeout(1) does: one signal
        said, complaint = bench.communicate(timeout=60)
        assert bench.returncode == -signal.SIGTERM and "a second" in said, (said, complaint)
        assert "are being deleted" not in complaint
        assert client.get("/v1/topics").json()["topics"] != []


@pytest.mark.parametrize("options, answer", [
    ((), b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"),
    ((), b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}"),
    (("--beanstalk",), b"OUT_OF_MEMORY\r\n"),
])
def test_a_bench_of_a_server_that_refuses_and_hangs_up_does_not_doubt_the_port(later, options, answer):
    def refuse(listener):
        while True:
            try:
                one = listener.accept()[0]
            except OSError:
                return
            with one, contextlib.suppress(OSError):  # it may have gone, or sent more than is read
                if one.recv(65536):
                    one.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse, args=(listener,))
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        words = (*options, address) if options else ()
        done = later("bench", "put", "--jobs", "10", "--connections", "1", *words, server=f"http://{address}")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)
    assert done.returncode in (REFUSED, UNREACHABLE) and "is it a port" not in done.stderr, done
    assert "closed a connection" in done.stderr or "broke" in done.stderr, done


def test_refusals_name_options_and_topics(later, topic):
    assert later("push", topic, "x", "--id", f"{topic}-id").returncode == DONE
    answer = later("push", topic, "x", "--id", f"{topic}-id")
    assert answer.returncode == CONFLICT and "--if-exists replace" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
    assert later("push", topic, "x", "--id", f"{topic}-id", "--if-exists", "reject").returncode == CONFLICT
    answer = later("reschedule", f"{topic}-id", "--delay", "5s")
    assert answer.returncode == CONFLICT and "--if-exists replace" in answer.stderr
    assert "if_exists" not in answer.stderr and f"{topic}-id: " in answer.stderr
    answer = later("topics", f"no-{topic}")
    assert answer.returncode == NOTHING and f"no-{topic}: no such topic" in answer.stderr


def test_a_new_body_is_given_as_that_of_a_push(later, topic, tmp_path):
    def body(*words, **options):
        done = later("reschedule", f"{topic}-id", *words, **options)
        assert done.returncode == DONE, done
        return json.loads(later("get", f"{topic}-id", "--json").stdout)

    file = tmp_path / "body"
    file.write_bytes(b"\xff\n")
    assert later("push", topic, '{"n":1}', "-J", "--id", f"{topic}-id", "--delay", "1h").returncode == DONE
    assert body("--body", '{"n": [1.10]}', "--json-body")["body"] == {"n": [1.10]}
    assert body("--body", '{"n": 2}')["body"] == '{"n": 2}'
    assert body("--body", f"@{file}", "--priority", "7")["body_base64"] == "/wo="
    assert body("--body", "-", input="from a pipe\n")["body"] == "from a pipe\n"
    changed = body("--priority", "8", "-b", "")
    assert changed["body"] == "" and changed["priority"] == 8
    for words, says in ((["-b", "{", "-J"], "the body is not JSON"), (["-b", "@/nowhere"], "cannot read /nowhere"),
                        (["-p", "1", "-J"], "--json-body belongs to --body")):
        refused = later("reschedule", f"{topic}-id", *words)
        assert refused.returncode == USAGE and says in refused.stderr, refused


def test_bad_lines_are_reported_by_their_place_and_stop_nothing(later, topic):
    text = "".join(["{\"body\":1}\n", "\n", "{broken\n", "{\"body\":2}\n"])
    answer = later("push", topic, "--ndjson", input=text)
    assert answer.returncode == REFUSED
    assert answer.stdout == "2 pushed, 1 refused\n"
    assert answer.stderr.startswith("later push: line 3: ") and answer.stderr.count("line") == 1
    answer = later("push", topic, "--lines", "--json-body", input="1\n\nnot JSON\n2\n")
    assert answer.returncode == REFUSED
    assert answer.stdout == "2 pushed, 1 refused\n"
    assert answer.stderr.startswith("later push: line 3: ")


@pytest.mark.parametrize("mark", ["\ufeff", "\ufeff\n"], ids=["before the line", "alone on its line"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(client, later, topic, mark):
    """Editors and shells of Windows put one at the start of a file. Inside a file it is text like any other."""
    for option, text in (("--lines", "a"), ("--ndjson", '{"body":"a"}')):
        pushed = later("push", topic, option, input=f"{mark}{text}\n")
        assert (pushed.returncode, pushed.stdout) == (DONE, "1 pushed, 0 refused\n"), pushed
    assert [job["body"] for job in client.reserve(topic, most=5)] == ["a", "a"]
    assert later("push", topic, "--lines", input="\ufeffb\n\ufeffc\n").returncode == DONE
    assert [job["body"] for job in client.reserve(topic, most=5)] == ["b", "\ufeffc"]


def test_a_lease_that_is_not_utf8_does_not_finish_a_job_without_one(later, topic):
    later("push", topic, "a", "--id", f"{topic}-1")
    later("push", topic, "b", "--id", f"{topic}-2")
    assert later("pop", topic, "--max", "2").returncode == DONE
    assert later("finish", f"{topic}-1", "--lease", "\udcff").returncode == USAGE
    assert later("finish", f"{topic}-1", f"{topic}-2", "-L", "\udcff", "-L", "\udcff").returncode == USAGE
    assert later("get", f"{topic}-1", f"{topic}-2").returncode == DONE


@pytest.mark.parametrize("words, name, key, sent", [
    (["push", "t", "b", "--delay", "1500us"], "POST /v1/topics/t/jobs", "delay", "1500us"),
    (["push", "t", "b", "--delay", "1500ms"], "POST /v1/topics/t/jobs", "delay", 1500),
    (["push", "t", "b", "--retry", "0,999us"], "POST /v1/topics/t/jobs", "retry", [0, "999us"]),
    (["release", "j", "--delay", "250us"], "POST /v1/jobs/j/release", "delay", "250us"),
    (["pop", "t", "--wait", "1us"], "POST /v1/reserve", "wait", "1us")])
def test_a_duration_is_sent_to_the_microsecond(later, words, name, key, sent):
    """Cut to milliseconds, a delay would end early."""
    with Fake({name: (200, {})}) as fake:
        later(*words, server=fake.url)
        body, = fake.asked(name)
    assert json.loads(body)[key] == sent


def test_the_longest_durations_are_waited_for(later, topic):
    assert later("push", topic, "a").returncode == DONE
    longest = "9223372036854775807us"
    assert later("stats", "--timeout", longest).returncode == DONE
    refused = later("pop", topic, "--timeout", longest, "--wait", longest)
    assert refused.returncode == REFUSED and "limits.wait_seconds" in refused.stderr, refused


def test_a_long_value_is_shown_cut(later, topic):
    refused = later("push", topic, "x", "--id", "i" * 300)
    assert refused.returncode == USAGE and f"--id '{'i' * 59}…': " in refused.stderr, refused


@pytest.mark.parametrize("command", ["clear", "delete-topic"])
def test_a_topic_that_is_not_there_is_named(later, command):
    refused = later(command, "no-such", "--yes")
    assert refused.returncode == NOTHING and refused.stderr == f"later {command}: no-such: no such topic (not_found)\n"


@pytest.mark.parametrize("body", [
    '{"id":18446744073709551616,"n":1.10,"n":2}',  # jansson reads no such number, and keeps one n
    '"a\\u0000b"', '[1e400,-0]', '{"s":" x  \\" y\\\\"}'])
def test_a_body_of_json_comes_and_goes_as_it_is(client, later, topic, body):
    pushed = later("push", topic, "-J", body, "--id", topic)
    assert pushed.returncode == DONE, pushed
    assert f'"body":{body}' in client.get(f"/v1/jobs/{topic}").text
    assert f'"body":{body}' in later("get", topic, "--json").stdout
    text = body if body[0] != '"' else "a\0b"
    assert later("pop", topic, "--body", "--finish").stdout == text + "\n"
    assert later("get", topic).returncode == NOTHING


def test_options_count_for_each_line_whatever_its_body_is(client, later, topic):
    lines = ['{"body":18446744073709551616}', '{"body":"a\\u0000b"}', '{"body":1,"priority":3}']
    pushed = later("push", topic, "--ndjson", "--delay", "1h", "--priority", "7", input="\n".join(lines))
    assert pushed.returncode == DONE, pushed
    listed = client.get(f"/v1/topics/{topic}/jobs?state=delayed").json()["jobs"]
    assert sorted(job["priority"] for job in listed) == [3, 7, 7]


def test_pop_shows_why_a_job_failed_last(later, topic):
    assert later("push", topic, "x", "--id", topic).returncode == DONE
    assert "\nfailed " not in later("pop", topic).stdout
    assert later("release", topic, "--reason", "no connection", "--code", "7").returncode == DONE
    popped = later("pop", topic)
    assert re.search(r"^failed .* code 7: no connection$", popped.stdout, re.MULTILINE), popped
    assert later("release", topic).returncode == DONE
    assert '"reason"' not in later("pop", topic, "--json").stdout  # as the server sent it


def test_one_end_of_input_ends_a_body_that_is_typed(shared, later, topic):
    url = f"http://127.0.0.1:{shared.port}"
    shown, code = on_a_terminal(url, b"hello\n\x04", "push", topic, "-", "--id", f"typed-{topic}")
    assert code == DONE and shown.endswith(f"typed-{topic}\n"), shown
    assert later("pop", topic, "--body").stdout == "hello\n\n"


def test_a_body_that_is_too_long_for_any_server_is_named(later, tmp_path):
    long = tmp_path / "long"
    with open(long, "wb") as file:
        file.truncate(65 << 20)
    refused = later("push", "t", f"@{long}")
    assert refused.returncode == USAGE and refused.stderr == \
        f"later push: {long} is too long for a body: a server takes 64 MiB at most\n", refused
    with open(long, "rb") as file:
        assert "later push: standard input is too long for a body" in later("push", "t", "-", stdin=file).stderr


def test_later_alone_says_how_to_begin_and_names_all_commands_on_a_small_terminal(later):
    told = later()
    commands = re.findall(r"^  ([a-z-]+) +[A-Z]", later("--help").stdout, re.MULTILINE)
    assert told.returncode == USAGE and told.stdout == ""
    assert len(told.stderr.splitlines()) < 24 and all(len(line) <= 90 for line in told.stderr.splitlines())
    listed = told.stderr.partition("Commands:")[2].split()
    assert "First steps:" in told.stderr and set(commands) <= set(listed) and len(commands) > 25


def test_due_shows_times_as_other_commands_do(later, topic):
    assert later("push", topic, "x", "--delay", "1h").returncode == DONE
    listed = later("list", topic, "--state", "delayed").stdout
    told = later("due", "2h").stdout
    assert re.search(r"^ +2h  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [+-]\d{4} +\d", told, re.MULTILINE), told
    assert re.search(r" [+-]\d{4} ", listed).group() in told


def test_a_pop_that_takes_nothing_says_why(client, shared, later, topic):
    def pop(*words):
        return on_a_terminal(f"http://127.0.0.1:{shared.port}", b"", "pop", *words)

    assert pop(f"no-{topic}") == (f"later pop: no-{topic}: no such topic\n", NOTHING)
    assert later("push", topic, "x", "--delay", "1h").returncode == DONE
    assert later("push", topic, "y", "--id", topic).returncode == DONE
    client.post(f"/v1/topics/{topic}/pause", {})
    none, code = pop(topic, "--wait", "20ms")
    assert code == NOTHING
    assert re.fullmatch(rf"later pop: {topic}: no job came within 20 ms; it has 1 delayed, 1 ready; the next is due "
                        rf"\d.* \(in 59m .*\); it is paused: later resume {topic}\n", none), none
    assert later("rm", topic).returncode == DONE
    assert later("clear", topic, "--yes").returncode == DONE
    assert ": no job is ready; it has no jobs" in pop(topic)[0]
    assert pop(topic, "other") == ("later pop: no job is ready\n", NOTHING)
    assert later("pop", topic).stderr == later("pop", topic, "--json").stderr == ""


def test_a_kick_of_a_topic_shows_how_it_is_done(later, topic):
    assert later("push", topic, "x").returncode == DONE
    missing = [f"later kick: {topic}: no such job (not_found)",
               f"later kick: '{topic}' is a topic: later kick --topic {topic} makes its buried jobs ready"]
    number = ["later kick: 10: no such job (not_found)", "later kick: ids that laterd makes begin with @: was @10 meant?"]
    for words, says in [((topic, "10"), [*missing, *number]), (("10", topic), [*number, *missing])]:
        answer = later("kick", *words)
        assert answer.returncode == NOTHING and answer.stderr.splitlines() == says
    assert later("push", topic, "x", "--id", f"{topic}-id", "--delay", "1h").returncode == DONE
    answer = later("kick", f"{topic}-id", topic)
    assert (answer.stdout, answer.stderr.splitlines()) == (f"kicked {topic}-id\n", missing)
    assert later("kick", f"no-{topic}").stderr == f"later kick: no-{topic}: no such job (not_found)\n"
    assert later("kick", "--topic", f"no-{topic}").returncode == NOTHING


def test_pop_asks_why_of_the_first_ten_that_have_failed(client, later, topic):
    client.push_many(topic, [{"body": "x"}] * 12)
    for job in client.reserve(topic, most=12):
        client.job(job["id"], "release", lease=job["lease"], reason="no connection", code=7)
    lines = later("pop", topic, "--max", "12").stdout.splitlines()
    failed = [line for line in lines if line.startswith("failed ")]
    assert [line.endswith("code 7: no connection") for line in failed] == [True] * 10 + [False] * 2, lines


def test_a_listing_of_nothing_says_which_state_has_jobs(later, topic):
    assert later("push", topic, "x", "--id", topic).returncode == DONE
    assert later("pop", topic).returncode == DONE
    assert later("bury", topic).returncode == DONE
    answer = later("list", topic)
    assert (answer.returncode, answer.stdout) == (NOTHING, "")
    assert answer.stderr == (f"later list: {topic}: no job is delayed; 1 buried: "
                             f"later list --state buried {topic}\n")
    assert later("list", topic, "--json").stderr == ""
    assert later("list", topic, "--state", "buried").returncode == DONE
    assert later("rm", topic).returncode == DONE
    assert later("list", topic, "--state", "ready").stderr == f"later list: {topic}: no job is ready\n"


def test_a_job_in_the_wrong_state_is_explained_in_words_of_the_command_line(later, topic):
    for number in "12":
        assert later("push", topic, "x", "--delay", "1h", "--id", f"{topic}-{number}").returncode == DONE
    said = ("the job is delayed: only a job that is reserved can be finished: after its ttr it is the next "
            "consumer's; `later rm` deletes it in whatever state (wrong_state)\n")
    one, both = later("finish", f"{topic}-1"), later("finish", f"{topic}-1", f"{topic}-2")
    assert one.returncode == both.returncode == CONFLICT
    assert one.stderr == f"later finish: {topic}-1: {said}"
    assert both.stderr == "".join(f"later finish: {topic}-{number}: {said}" for number in "12")
    for command, done in (("release", "released"), ("touch", "touched"), ("bury", "buried")):
        assert f"only a job that is reserved can be {done}: after its ttr" in later(command, f"{topic}-1").stderr
    assert later("run", f"{topic}-1").returncode == DONE
    assert "the job is ready: only a delayed job can be rescheduled" in \
        later("reschedule", f"{topic}-1", "--delay", "1h").stderr


def test_a_replay_that_finds_none_says_where_codes_are_seen(later, topic):
    """9xx: consumers have codes of their own."""
    assert later("push", topic, "x", "--id", topic).returncode == DONE
    assert later("pop", topic).returncode == DONE
    assert later("bury", topic, "--code", "950").returncode == DONE
    answer = later("replay", topic, "--code", "5xx")
    assert answer.returncode == NOTHING and f"`later list {topic} --state buried`" in answer.stderr
    assert later("replay", topic, "--code", "0xx").returncode == USAGE
    assert later("replay", topic, "--code", "9xx").stdout == "kicked 1 of 1 buried job\n"


@pytest.mark.embedded("it is the command's own rule, and the server has two protocols")
def test_a_bench_touches_no_jobs_of_somebody_else(later, laterd):
    server = laterd(beanstalk=("127.0.0.1:0",))
    url, tubes = f"http://127.0.0.1:{server.port}", ("--beanstalk", f"127.0.0.1:{server.beanstalk_port}")
    few = ("--jobs", "10", "--connections", "1", "--seconds", "5", "--topic", "orders")
    with Client(server.port) as client:
        client.push("orders", id="mine", body="x")
        client.push("orders", id="later", body="x", delay="1h")
        for words in (["put"], ["cycle"], ["cycle", "--keep"], ["idle"], ["put", *tubes], ["cycle", *tubes]):
            refused = later("bench", *words, *few, server=url)
            assert refused.returncode == CONFLICT and refused.stdout == "", (words, refused)
            assert " orders has 2 jobs, and a bench " in refused.stderr, (words, refused)
            assert ("--keep" in refused.stderr) == (words[0] == "put"), (words, refused)
        assert later("bench", "put", "--keep", *few, server=url).returncode == DONE  # it adds to them
        assert client.counts("orders")["delayed"] == 11 and client.state("mine") == "ready"
        for words in ((), tubes):
            done = later("bench", "cycle", *words, *few[:-1], f"empty{len(words)}", server=url)
            assert done.returncode == DONE, done


def test_a_bench_of_no_jobs_is_refused(later):
    refused = later("bench", "put", "--jobs", "0")
    assert refused.returncode == USAGE and "--jobs is at least 1" in refused.stderr, refused


def test_of_several_ids_the_failing_one_is_named(later, topic):
    assert later("push", topic, "x", "--id", f"{topic}-1").returncode == DONE
    answer = later("rm", "no-such", f"{topic}-1")
    assert answer.returncode == NOTHING
    assert answer.stdout == f"deleted {topic}-1\n"
    assert answer.stderr.startswith("later rm: no-such: ")


def test_a_topic_is_shown_with_its_rates_and_next_due_time(later, topic):
    assert later("push", topic, "x", "--delay", "1h").returncode == DONE
    lines = later("topics", topic).stdout.splitlines()
    assert any(line.startswith("next due") and "(in 59m" in line for line in lines)
    assert any(line.startswith("a second") and "finished" in line for line in lines)
    for line in later("topics").stdout.splitlines():
        assert line == line.rstrip()


def test_top_shows_what_falls_due_and_the_rates_of_topics(later, laterd, topic):
    """Two looks a moment apart, of which the second is shown. A server of its own: only the busiest topics are shown,
    and what other tests left behind changes what is due."""
    url = f"http://127.0.0.1:{laterd().port}"
    assert later("push", topic, "x", "--delay", "50s", server=url).returncode == DONE
    looks = [later("top", "--once", "--every", "100ms", server=url).stdout.splitlines()]
    assert later("push", topic, "--lines", "--delay", "50s", input="x\n" * 400, server=url).returncode == DONE
    looks.append(later("top", "--once", "--every", "100ms", server=url).stdout.splitlines())
    due = [int(line.split()[2]) for lines in looks for line in lines if line.startswith("due within")]
    assert due == [1, 401]
    row, = [line.split() for line in looks[1] if line.split()[:1] == [topic]]
    assert row[3] == "401"
    assert not any("kind" in line or "shared" in line for line in looks[1])


@pytest.mark.embedded("there is no store to verify")
def test_verify_tells_no_store_from_a_locked_and_a_sound_one(later, laterd, tmp_path):
    assert later("verify", str(tmp_path / "none")).returncode == NOTHING
    answer = later("verify", str(tmp_path))
    assert answer.returncode == NOTHING and answer.stdout == ""
    assert "no store" in answer.stderr
    assert not list(tmp_path.iterdir()), "looking leaves nothing behind"
    server = laterd()
    answer = later("verify", server.data)
    assert answer.returncode == CONFLICT and "stop it" in answer.stderr
    server.stop()
    assert later("verify", server.data).returncode == DONE


@pytest.mark.embedded("there is no store to verify")
@pytest.mark.parametrize("number, says, hit", [
    (1, "; no job that lives is hit\n", 0), (4, "; jobs that live, or may, and are hit: up to 1\n", 1)])
def test_verify_says_whether_a_job_that_lives_is_hit(later, laterd, number, says, hit):
    server = laterd()
    url = f"http://127.0.0.1:{server.port}"
    for n in range(1, 6):
        assert later("push", "t", f"body-{n}" * 100, "--id", f"j{n}", "--delay", "1h", server=url).returncode == DONE
    assert later("rm", "j1", "j2", server=url).returncode == DONE
    server.stop()
    path = os.path.join(server.data, "wal-00000001")
    with open(path, "r+b") as file:
        place = file.read().index(f"body-{number}".encode())
        file.seek(place)
        file.write(b"B")
    answer = later("verify", server.data)
    assert answer.returncode == WRONG and f": 1 damaged place{says}" in answer.stderr, answer
    assert ("nothing that lives was there" in answer.stderr) == (hit == 0)
    assert (f'(id "j{number}", topic "t"' in answer.stderr) == (hit == 1)
    told = json.loads(later("verify", server.data, "--json").stdout)
    assert (told["ok"], told["bad"], told["hit_jobs"], told["unknown_places"]) == (False, 1, hit, 0)
    assert told["hit_topics"] == 0


@pytest.mark.embedded("there is no store to verify")
def test_verify_names_a_job_without_a_clients_id_by_the_servers(later, laterd):
    server = laterd()
    job = later("push", "t", "body" * 100, "--delay", "1h", server=f"http://127.0.0.1:{server.port}").stdout.strip()
    server.stop()
    with open(os.path.join(server.data, "wal-00000001"), "r+b") as file:
        place = file.read().index(b"bodybody")
        file.seek(place)
        file.write(b"B")
    answer = later("verify", server.data)
    assert answer.returncode == WRONG and f'job {job} (topic "t", due ' in answer.stderr, answer


@pytest.mark.embedded("there is no store to verify")
def test_verify_says_that_settings_of_a_topic_are_hit(later, laterd):
    server = laterd()
    url = f"http://127.0.0.1:{server.port}"
    assert later("topic", "set", "t", "--url", "http://receiver.example/", server=url).returncode == DONE
    server.stop()
    path = os.path.join(server.data, "wal-00000001")
    with open(path, "r+b") as file:
        file.seek(file.read().index(b"receiver.example"))
        file.write(b"R")
    answer = later("verify", server.data)
    says = "; no job that lives is hit; settings or a pause of a topic are hit: up to 1\n"
    assert answer.returncode == WRONG and says in answer.stderr, answer
    told = json.loads(later("verify", server.data, "--json").stdout)
    assert (told["hit_jobs"], told["hit_topics"], told["unknown_places"]) == (0, 1, 0)
