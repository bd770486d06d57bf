"""later pop --exec: a command for each job, its body on standard input, the lease held while it runs."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import threading
import time
import urllib.parse

import pytest
from fake_v1 import Fake
from ports import free_port
from process import LATER
from wire import Client, eventually

DONE, NOTHING, USAGE, CONFLICT, REFUSED, UNREACHABLE, WRONG = range(7)


def environment(port):
    return dict(os.environ, LATER_SERVER=f"http://127.0.0.1:{port}")


@pytest.fixture
def pop(shared):
    """pop(TOPIC, COMMAND, more options …) runs to its end."""
    def run(topic, command, *words, port=None):
        return subprocess.run([LATER, "pop", topic, "--exec", command, *words], env=environment(port or shared.port),
                              capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    return run


def until_told(folder):
    """A command that says that it runs (folder/runs), and ends when it may (folder/go)."""
    return f"touch {folder}/runs; while ! [ -e {folder}/go ]; do sleep 0.1; done"


@pytest.fixture
def consumer(starter):
    """Starts one that goes on: consumer(PORT, TOPIC, COMMAND, more options …)."""
    @starter
    def start(port, topic, command, *words):
        return subprocess.Popen([LATER, "pop", topic, "--exec", command, *words], env=environment(port),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return start


def push(client, topic, job_id, **fields):
    assert client.post(f"/v1/topics/{topic}/jobs", {"id": job_id, **fields}).status in (200, 201)


def state(client, job_id):
    answer = client.get(f"/v1/jobs/{job_id}")
    return answer.json()["state"] if answer.status == 200 else "gone"


def test_a_command_gets_the_body_as_it_is_and_its_success_finishes_the_job(client, pop, topic):
    push(client, topic, f"{topic}-1", body="no line end")
    done = pop(topic, "cat")
    assert (done.returncode, done.stdout, done.stderr) == (DONE, "no line end", "")
    assert state(client, f"{topic}-1") == "gone"
    push(client, topic, f"{topic}-2", body={"price": 1.10})
    assert json.loads(pop(topic, "cat", "--json").stdout)["id"] == f"{topic}-2"
    assert pop(topic, "cat").returncode == NOTHING


def test_a_command_knows_its_job_and_has_no_descriptor_of_later(client, pop, topic):
    push(client, topic, f"{topic}-1", body="x")
    told = pop(topic, 'echo "$LATER_JOB_ID $LATER_JOB_TOPIC $LATER_JOB_ATTEMPT $LATER_JOB_FAILURES $LATER_SERVER"; '
                      'ls /proc/self/fd').stdout.split()
    assert told[:4] == [f"{topic}-1", topic, "1", "0"] and told[4].startswith("http://127.0.0.1:")
    assert len(told[5:]) == 4, "three, and the one of ls itself"


def test_a_command_is_told_an_id_as_it_is(client, pop, topic):
    """A terminal would be shown ? for U+0085, and `later` would know no such job."""
    odd = f"{topic}\u0085"
    push(client, urllib.parse.quote(odd), odd, body="x")
    assert pop(odd, 'printf "%s %s" "$LATER_JOB_ID" "$LATER_JOB_TOPIC"').stdout == f"{odd} {odd}"


def test_a_reader_of_its_messages_that_has_gone_costs_no_other_job(client, consumer, topic):
    """The job would be left to its ttr, were `later` ended. The next ones would fail, since their commands' messages go
    to the same pipe. The command has the usual SIGPIPE."""
    for number in "12":
        push(client, topic, f"{topic}-{number}", body="x", retry=["1h"])
    command = 'grep -q "^SigBlk:.*0000000000000000" /proc/self/status && exit 3; exit 4'
    process = consumer(client.port, topic, command, "--forever")
    process.stderr.close()
    assert process.wait(60) == WRONG
    job = client.get(f"/v1/jobs/{topic}-1").json()
    assert (job["state"], job["last_failure"]["code"]) == ("delayed", 3)
    assert state(client, f"{topic}-2") == "ready"


def test_a_failed_command_releases_its_job_with_its_exit_status(client, pop, topic):
    push(client, topic, f"{topic}-1", body="x", retry=["1h"])
    done = pop(topic, "cat >&2; exit 3")
    assert done.returncode == WRONG and done.stdout == ""
    assert f"later pop: {topic}-1: exit status 3; it comes again " in done.stderr and "(in 59m" in done.stderr
    attempt, = client.get(f"/v1/jobs/{topic}-1/attempts").json()["attempts"]
    assert (attempt["code"], attempt["reason"]) == (3, "exit status 3")
    push(client, topic, f"{topic}-2", body="x")
    assert "(in 29." in pop(topic, "kill -9 $$").stderr, "without a schedule it does not come at once"
    attempt, = client.get(f"/v1/jobs/{topic}-2/attempts").json()["attempts"]
    assert (attempt["code"], attempt["reason"]) == (137, "ended by signal 9 (Killed)")
    push(client, topic, f"{topic}-3", body="x")
    assert "(in 1" in pop(topic, "false", "--delay", "2m").stderr
    push(client, topic, f"{topic}-4", body="x", retry=["1ms"])
    assert pop(topic, "false").returncode == WRONG
    assert "is buried: later kick" in pop(topic, "false", "--wait", "5s").stderr and state(client, f"{topic}-4") == "buried"


def test_several_jobs_are_taken_one_after_another_and_one_failure_is_reported(client, pop, topic):
    for n in range(3):
        push(client, topic, f"{topic}-{n}", body=f"{n}\n")
    done = pop(topic, "read n; echo $n; [ $n != 1 ]", "--max", "9")
    assert done.returncode == WRONG and done.stdout == "0\n1\n2\n"
    assert [state(client, f"{topic}-{n}") for n in range(3)] == ["gone", "delayed", "gone"]


def test_a_command_that_cannot_be_run_costs_one_job_an_attempt(client, pop, topic):
    for n in range(2):
        push(client, topic, f"{topic}-{n}", body="x")
    done = pop(topic, "/no/such/program", "--max", "9")
    assert done.returncode == WRONG and "exit status 127" in done.stderr
    assert [state(client, f"{topic}-{n}") for n in range(2)] == ["delayed", "ready"]


def test_a_job_is_held_while_its_command_runs(client, pop, topic):
    push(client, topic, f"{topic}-1", body="x", ttr="600ms")
    done = pop(topic, "sleep 2.5", "--max", "5")
    assert done.returncode == DONE and done.stderr == ""
    totals = client.get(f"/v1/topics/{topic}").json()["totals"]
    assert (totals["reserved"], totals["timeouts"], totals["finished"]) == (1, 0, 1)


def test_a_command_of_a_job_that_is_deleted_meanwhile_is_ended(client, pop, topic):
    push(client, topic, f"{topic}-1", body="x", ttr="900ms")
    began = time.monotonic()
    done = pop(topic, f"{LATER} rm {topic}-1; sleep 50; echo survived")
    assert time.monotonic() - began < 40 and done.stdout == f"deleted {topic}-1\n"
    assert done.returncode == WRONG and "its lease was lost" in done.stderr


def test_what_a_command_started_is_ended_though_it_does_not_listen(client, pop, topic, tmp_path):
    """Its shell ends at once, and then the job is given back: nothing of it may go on."""
    push(client, topic, f"{topic}-1", body="x")
    pid_file = tmp_path / "pid"
    deaf = f"sh -c 'trap \"\" TERM; echo $$ > {pid_file}; exec sleep 600' 2>/dev/null | cat"
    assert pop(topic, deaf, "--kill-after", "2s").returncode == WRONG
    pid = int(pid_file.read_text())
    try:
        assert eventually(lambda: not os.path.exists(f"/proc/{pid}"))
    finally:
        if os.path.exists(f"/proc/{pid}"):
            os.kill(pid, signal.SIGKILL)


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(client, pop, topic):
    push(client, topic, f"{topic}-1", body="x")
    done = pop(topic, "sleep 50 | cat; echo survived", "--kill-after", "300ms")
    assert done.returncode == WRONG and "it ran for more than 300 ms and was ended" in done.stderr
    assert done.stdout == "", "its end is noticed here, since all of it has closed the pipe"
    attempt, = client.get(f"/v1/jobs/{topic}-1/attempts").json()["attempts"]
    assert "code" not in attempt and attempt["reason"].startswith("it ran for more than")


def test_a_consumer_goes_on_until_a_signal_which_ends_its_wait_at_once(client, shared, consumer, topic):
    works = consumer(shared.port, topic, "cat", "--forever")
    for n in range(3):
        push(client, topic, f"{topic}-{n}", body=f"{n}\n", delay="100ms")
        assert eventually(lambda n=n: state(client, f"{topic}-{n}") == "gone")
    assert eventually(lambda: client.get(f"/v1/topics/{topic}").json()["waiters"] == 1)
    works.send_signal(signal.SIGTERM)
    out, errors = works.communicate(timeout=15)
    assert (works.returncode, out, errors) == (DONE, "0\n1\n2\n", "")


def test_a_signal_waits_for_the_command_and_a_second_one_ends_it(client, shared, consumer, topic, tmp_path):
    for n in range(2):
        push(client, topic, f"{topic}-{n}", body="x")
    command = f"touch {tmp_path}/$LATER_JOB_ID; while ! [ -e {tmp_path}/go ]; do sleep 0.1; done"
    first = consumer(shared.port, topic, command, "--forever")
    assert eventually((tmp_path / f"{topic}-0").exists)
    first.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert first.poll() is None and state(client, f"{topic}-0") == "reserved"
    (tmp_path / "go").touch()
    assert first.wait(30) == DONE
    assert [state(client, f"{topic}-{n}") for n in range(2)] == ["gone", "ready"]
    (tmp_path / "go").unlink()
    second = consumer(shared.port, topic, command, "--forever")
    assert eventually((tmp_path / f"{topic}-1").exists)
    second.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    second.send_signal(signal.SIGTERM)
    assert "ended by signal 15" in second.communicate(timeout=30)[1]
    assert second.returncode == DONE and state(client, f"{topic}-1") == "delayed"


def test_a_server_that_is_away_for_a_while_costs_no_job(laterd, consumer, topic, tmp_path):
    server = laterd(listeners=(f"127.0.0.1:{free_port()}",))
    with Client(server.port) as client:
        push(client, topic, "held", body="held\n")
    works = consumer(server.port, topic, f"cat; {until_told(tmp_path)}", "--forever")
    assert eventually((tmp_path / "runs").exists)
    server.stop()
    (tmp_path / "go").touch()
    time.sleep(0.5)
    server.start()
    with Client(server.port) as client:
        assert eventually(lambda: state(client, "held") == "gone"), "finished when it is back"
        server.kill()
        time.sleep(0.5)
        server.start()
    with Client(server.port) as client:
        push(client, topic, "later", body="later\n")
        assert eventually(lambda: state(client, "later") == "gone")
        assert client.get(f"/v1/topics/{topic}").json()["totals"]["finished"] >= 1
    works.send_signal(signal.SIGTERM)
    out, errors = works.communicate(timeout=30)
    assert works.returncode == DONE and out == "held\nlater\n"
    assert errors.count("trying again until it answers") <= 2 and "held" in errors, errors


def test_a_job_whose_lease_a_killed_server_has_not_kept_is_reported(laterd, consumer, topic, tmp_path):
    """It comes again: a finish that is refused then is no success."""
    server = laterd(listeners=(f"127.0.0.1:{free_port()}",))
    with Client(server.port) as client:
        push(client, topic, "held", body="x")
    works = consumer(server.port, topic, until_told(tmp_path))
    assert eventually((tmp_path / "runs").exists)
    server.kill()
    (tmp_path / "go").touch()
    time.sleep(0.5)
    server.start()
    with Client(server.port) as client:
        client.post("/v1/reserve", {"topics": [topic]})  # if the lease was kept, this gets nothing
        errors = works.communicate(timeout=60)[1]
        if state(client, "held") == "gone":
            assert works.returncode == DONE
        else:
            assert works.returncode == CONFLICT and "held: the server no longer knows its lease" in errors, errors


class Server(Fake):
    """One job, and what becomes of it: `renewals` and `finishes` are the answers, the last one again and again."""

    def __init__(self, ttr_ms, renewals=(), finishes=()):
        self.job = {"id": "held", "topic": "t", "lease": "l", "ttr_ms": ttr_ms, "attempt": 1, "failures": 0,
                    "body": "x", "state": "reserved"}
        self.left = [self.job]
        super().__init__({
            "POST /v1/reserve": lambda *_: (200, {"jobs": [self.left.pop()]}) if self.left else (204, None),
            "POST /v1/jobs/held/touch": self.one_of(renewals or [(200, self.job)]),
            "POST /v1/jobs/held/finish": self.one_of(finishes or [(204, None)])})

    @staticmethod
    def one_of(answers):
        left = list(answers)

        def answer(*_):
            one = left.pop(0) if len(left) > 1 else left[0]
            return one() if callable(one) else one
        return answer


FORBIDDEN = (403, {"status": 403, "code": "forbidden", "detail": "not with this token"})
FULL = (503, {"status": 503, "code": "store_full", "detail": "the disk is full"})


@pytest.mark.embedded("it asks a server of its own")
def test_a_renewal_that_is_refused_is_tried_again_while_the_lease_is_good(consumer, tmp_path):
    """The command is nearly done, perhaps; and somebody may put the right in order again."""
    with Server(3000, renewals=[FORBIDDEN, (200, {"id": "held"})]) as server:
        done = consumer(server.address.split(":")[1], "t", "sleep 3.5; echo done")
        assert done.communicate(timeout=60)[0] == "done\n" and done.returncode == DONE
        assert len(server.asked("POST /v1/jobs/held/finish")) == 1
    with Server(1500, renewals=[FORBIDDEN]) as server:
        began = time.monotonic()
        ended = consumer(server.address.split(":")[1], "t", "sleep 50; echo survived")
        out, errors = ended.communicate(timeout=60)
        assert out == "" and ended.returncode == WRONG and 1.4 < time.monotonic() - began < 40
        assert "held: its lease could not be renewed, and has ended: the command was ended" in errors
        assert errors.count("not with this token") == 1 and not server.asked("POST /v1/jobs/held/finish")


@pytest.mark.embedded("it asks a server of its own")
def test_a_signal_while_a_job_is_finished_lets_the_finish_end(consumer):
    may_answer = threading.Event()

    def slow():
        assert may_answer.wait(60)
        return 204, None
    with Server(60000, finishes=[slow]) as server:
        works = consumer(server.address.split(":")[1], "t", "true", "--forever")
        assert eventually(lambda: server.asked("POST /v1/jobs/held/finish"))
        works.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert works.poll() is None
        may_answer.set()
        assert works.communicate(timeout=30) == ("", "") and works.returncode == DONE
        assert len(server.asked("POST /v1/jobs/held/finish")) == len(server.asked("POST /v1/reserve")) == 1


@pytest.mark.embedded("it asks a server of its own")
def test_a_finish_that_waits_for_its_next_try_goes_on_after_one_signal_and_is_tried_once_more_after_two(consumer):
    for stops, finishes in ((1, [FULL, FULL, (204, None)]), (2, [FULL])):
        with Server(60000, finishes=finishes) as server:
            works = consumer(server.address.split(":")[1], "t", "true", "--forever")
            assert eventually(lambda: server.asked("POST /v1/jobs/held/finish"))
            time.sleep(0.2)  # it has the answer, and waits for a second
            for _ in range(stops):
                works.send_signal(signal.SIGTERM)
                time.sleep(0.1)
            errors = works.communicate(timeout=30)[1]
            assert works.returncode == DONE, errors
            assert len(server.asked("POST /v1/jobs/held/finish")) == (3 if stops == 1 else 2), errors
            assert ("it comes again when its ttr ends" in errors) == (stops == 2), errors


def test_a_command_that_asks_its_terminal_gets_an_error_and_does_not_wait(client, shared, topic):
    """In later's session it would be stopped, for it is in the background there, and its job held for good."""
    push(client, topic, f"{topic}-1", body="x")
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["LATER_SERVER"] = f"http://127.0.0.1:{shared.port}"
        os.execv(LATER, [LATER, "pop", topic, "--exec", "read line < /dev/tty"])
    try:
        shown = b""
        with contextlib.suppress(OSError):  # how Linux says that the other side is closed
            while select.select([terminal], [], [], 30)[0] and (more := os.read(terminal, 65536)):
                shown += more
        assert b"it comes again " in shown, shown
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        assert os.waitpid(pid, 0)[1] == WRONG << 8
        os.close(terminal)
    assert state(client, f"{topic}-1") == "delayed"
