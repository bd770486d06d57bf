"""How later reaches its server: TLS, users and tokens, unix sockets, prefixes, proxies; and what it
says when it does not."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time

import pytest
from authorities import system_with
from fake_v1 import Fake
from front import Front, Proxy, certificates
from patience import soon
from process import LATER
from silent import SilentBroker
from wire import Client, eventually

DONE, NOTHING, USAGE, CONFLICT, REFUSED, UNREACHABLE, WRONG = range(7)


def environment(url, more):
    plain = {name: value for name, value in os.environ.items()
             if not name.lower().endswith("_proxy") and not name.startswith("LATER")}
    return dict(plain, LATER_SERVER=url, **more)


def later(url, *words, env=(), **options):
    return subprocess.run([LATER, *words], env=environment(url, dict(env)), capture_output=True,
                          text=True, timeout=60, check=False, **options)


def one_line(answer, code):
    """The message of a call that failed so."""
    assert answer.returncode == code and answer.stdout == ""
    line, = answer.stderr.splitlines()
    return line


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("certificates"))


def pair(papers, name="server"):
    return papers / f"{name}.crt", papers / f"{name}.key"


# TLS

def test_https_is_served_below_an_authority_that_is_trusted(shared, topic, papers):
    with Front(shared.port, certificate=pair(papers)) as front:
        authority = ("--cacert", str(papers / "ca.crt"))
        assert later(front.url, "push", topic, "over TLS", *authority).returncode == DONE
        answer = later(front.url, "pop", topic, "--body", env={"LATER_CACERT": papers / "ca.crt"})
        assert answer.stdout == "over TLS\n" and answer.stderr == ""


def test_a_certificate_that_is_not_trusted_is_refused_with_what_to_do(shared, papers):
    with Front(shared.port, certificate=pair(papers)) as front:
        for words in ((), ("--cacert", str(papers / "other.crt"))):
            line = one_line(later(front.url, "stats", *words), UNREACHABLE)
            assert "does not trust the certificate of" in line and "--cacert FILE" in line
        assert front.requests == []
        answer = later(front.url, "stats", "--insecure")
        assert answer.returncode == DONE and "--insecure: the server's certificate" in answer.stderr
        line = one_line(later(front.url, "stats", "--cacert", "/nowhere.crt"), USAGE)
        assert "/nowhere.crt" in line


def test_a_restore_that_is_watched_warns_of_an_insecure_server_once(papers):
    """Its progress is asked for over a connection of its own, every two seconds."""
    def slow(*_):
        assert eventually(lambda: fake.asked("GET /v1/journal"), 30)
        return 200, {"rows": 1, "created": 1, "kept": 0, "refused": 0, "ms": 1}
    with Fake({"POST /v1/restore": slow, "GET /v1/journal": (200, {"restore": {"state": "none"}})}) as fake, \
            Front(fake.server.server_address[1], certificate=pair(papers)) as front:
        done = later(front.url, "journal", "restore", "--insecure")
        assert done.returncode == DONE and len(done.stderr.splitlines()) == 1, done
        assert "--insecure: the server's certificate" in done.stderr


def test_authorities_that_are_given_are_in_place_of_the_systems(shared, papers, tmp_path):
    prefix = system_with(papers / "ca.crt", tmp_path / "system")
    with Front(shared.port, certificate=pair(papers)) as front:
        def asked(*words):
            return subprocess.run([*prefix, LATER, "-s", front.url, "stats", *words], capture_output=True, text=True,
                                  check=False, timeout=60)
        assert asked().returncode == DONE  # the system's
        answer = asked("--cacert", str(papers / "other.crt"))
        assert answer.returncode == UNREACHABLE and "does not trust the certificate of" in answer.stderr
        assert asked("--cacert", str(papers / "ca.crt")).returncode == DONE


def test_a_certificate_for_another_name_is_refused(shared, papers):
    with Front(shared.port, certificate=pair(papers, "elsewhere")) as front:
        line = one_line(later(front.url, "stats", "--cacert", str(papers / "ca.crt")), UNREACHABLE)
        assert "does not trust the certificate of" in line


def test_a_client_certificate_is_shown_to_a_server_that_asks_for_it(shared, papers):
    with Front(shared.port, certificate=pair(papers), client_ca=papers / "ca.crt") as front:
        certificate, key = pair(papers, "client")
        words = ("stats", "--cacert", str(papers / "ca.crt"))
        assert later(front.url, *words).returncode == UNREACHABLE
        assert later(front.url, *words, "--cert", certificate, "--key", key).returncode == DONE
        both = papers / "both.pem"
        both.write_text(certificate.read_text() + key.read_text())
        assert later(front.url, *words, env={"LATER_CERT": both}).returncode == DONE


def test_https_to_a_server_without_tls_says_so(shared):
    line = one_line(later(f"https://127.0.0.1:{shared.port}", "stats"), UNREACHABLE)
    assert "is it an http:// server?" in line


# Users and tokens

def test_a_user_comes_from_a_file_the_environment_or_the_url(shared, tmp_path):
    secret = tmp_path / "user"
    secret.write_text("jo:p@ss word\n")
    with Front(shared.port, accept="Basic am86cEBzcyB3b3Jk") as front:
        line = one_line(later(front.url, "stats"), REFUSED)
        assert "asks for a user or a token (401)" in line and "--token-file" in line
        assert later(front.url, "stats", "--user-file", secret).returncode == DONE
        assert later(front.url, "stats", env={"LATER_USER": "jo:p@ss word"}).returncode == DONE
        url = f"http://jo:p%40ss%20word@{front.address}"
        assert later(url, "stats").returncode == DONE
        assert later(url, "stats", env={"LATER_USER": "jo:old"}).returncode == DONE
        wrong = one_line(later(f"http://jo:secret@{front.address}", "stats"), REFUSED)
        assert "does not accept the user or token (401)" in wrong and "secret" not in wrong


def test_a_token_comes_from_a_file_or_the_environment(shared, tmp_path):
    secret = tmp_path / "token"
    secret.write_text("abc.DEF-123\n")
    with Front(shared.port, accept="Bearer abc.DEF-123") as front:
        assert later(front.url, "stats", "--token-file", secret).returncode == DONE
        assert later(front.url, "stats", env={"LATER_TOKEN": "abc.DEF-123"}).returncode == DONE
        both = {"LATER_TOKEN": "old", "LATER_USER": "jo:x"}
        assert later(front.url, "stats", "--token-file", secret, env=both).returncode == DONE
        answer = later(front.url, "stats", env={"LATER_TOKEN": "stale"})
        assert "does not accept" in one_line(answer, REFUSED)


@pytest.mark.parametrize("text", ["", "\n", "two\nlines\n", "a\tb\n"])
def test_a_file_that_is_no_secret_is_bad_usage(shared, tmp_path, text):
    secret = tmp_path / "token"
    secret.write_text(text)
    answer = later(f"http://127.0.0.1:{shared.port}", "stats", "--token-file", secret)
    assert answer.returncode == USAGE and "is not one line of text" in answer.stderr


@pytest.mark.parametrize("name", ["LATER_TOKEN", "LATER_USER"])
def test_a_secret_of_the_environment_is_one_line_as_well(shared, name):
    accept = "Basic am86eA==" if name == "LATER_USER" else "Bearer jo:x"
    with Front(shared.port, accept=accept) as front:
        assert later(front.url, "stats", env={name: "jo:x\n"}).returncode == DONE
        asked = len(front.requests)
        for text in ("jo:x\r\nX-Other: 1", "jo:x\n\nGET / HTTP/1.1", "jo:x\x01", "\n"):
            answer = later(front.url, "stats", env={name: text})
            assert answer.returncode == USAGE and "jo:" not in answer.stderr
            assert f"{name} is not one line of text" in answer.stderr
        assert len(front.requests) == asked


def test_a_user_of_the_url_that_is_no_text_is_bad_usage(shared):
    with Front(shared.port) as front:
        for user in ("jo%0a:secret", "jo:sec%0dret", "jo:%00secret"):
            answer = later(f"http://{user}@{front.address}", "stats")
            assert answer.returncode == USAGE and "sec" not in answer.stderr
            assert "the user or the password is no text" in answer.stderr
        assert front.requests == []


def test_no_message_shows_a_password():
    for url in ("http://jo:secret@127.0.0.1:1", "http://jo:secret@127.0.0.1:99999",
                "http://jo:secret@nowhere.invalid", "ftp://jo:secret@127.0.0.1"):
        for words in (["stats"], ["bench", "put"]):
            answer = later(url, *words)
            assert answer.returncode in (USAGE, UNREACHABLE)
            assert "secret" not in answer.stderr


# Unix sockets and prefixes

@pytest.mark.parametrize("words, shown", [
    (["stats", "--server", "http://jo:s3cret@{}"], "http://jo:*@{}"),
    (["--server=http://jo:s3cret@{}", "stats"], "--server=http://jo:*@{}"),
    (["import", "-n", "redis", "--layout", "sdmq", "redis://:s3cret@{}/0"], "redis://:*@{}/0"),
    (["push", "-s", "http://{}", "t", "x", "--header", "Authorization: Bearer s3cret"],
     "Authorization: *")])
def test_a_secret_of_the_command_line_is_covered_while_the_command_runs(words, shown):
    with contextlib.closing(SilentBroker()) as server:
        address = f"127.0.0.1:{server.port}"
        words = [LATER, *(word.format(address) for word in words)]
        with subprocess.Popen(words, env=environment("", {}), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as command:
            try:
                assert eventually(lambda: server.connections)
                with open(f"/proc/{command.pid}/cmdline", "rb") as file:
                    line = file.read().decode().split("\0")
                assert shown.format(address) in line
                assert "s3cret" not in "".join(line)
            finally:
                command.kill()


def test_a_unix_socket_is_an_address(laterd, tmp_path):
    path = tmp_path / "laterd.sock"
    laterd(listeners=(f"unix:{path}",))
    proxies = {"http_proxy": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1"}
    assert later(f"unix:{path}", "push", "t", "local", env=proxies).returncode == DONE
    assert later(f"unix:{path}", "pop", "t", "--body").stdout == "local\n"
    line = one_line(later(f"unix:{path}.not", "stats"), UNREACHABLE)
    assert f"cannot connect to unix:{path}.not: No such file" in line


def test_a_url_may_have_a_prefix(shared, topic):
    with Front(shared.port, prefix="/queues/laterd") as front:
        for url in (f"{front.url}/queues/laterd", f"{front.url}/queues/laterd/"):
            assert later(url, "push", topic, "x").returncode == DONE
        assert {path for _, path, _ in front.requests} == {f"/queues/laterd/v1/topics/{topic}/jobs"}
        line = one_line(later(f"{front.url}/queue", "topics", topic), REFUSED)
        assert "the server answered 404" in line and f"(at {front.url}/queue is another server, or a proxy)" in line


def test_topics_that_look_like_paths_reach_the_server_as_they_are(shared):
    url = f"http://127.0.0.1:{shared.port}"
    for name in ("..", ".", "../.."):
        code = later(url, "push", name, "x").returncode
        assert code in (DONE, REFUSED)
        if code == DONE:
            assert later(url, "topics", name).stdout.split()[:2] == ["topic", name]
            assert later(url, "delete-topic", "--yes", name).returncode == DONE


def test_a_redirection_is_reported_and_not_followed(shared):
    status = (301, {"Location": "https://queues.example/laterd/v1/topics?limit=1000"})
    with Front(shared.port, status=status) as front:
        line = one_line(later(front.url, "get", "x"), REFUSED)
        assert "sends us to another address (301)" in line and "https://queues.example/" in line


# Proxies

def test_the_environments_proxy_is_asked_for_other_hosts_only(shared, topic):
    with Proxy(shared.port) as proxy:
        proxies = {"http_proxy": proxy.url}
        assert later("http://queues.example:80", "push", topic, "x", env=proxies).returncode == DONE
        assert proxy.lines == [f"POST http://queues.example:80/v1/topics/{topic}/jobs HTTP/1.1"] or \
            proxy.lines == [f"POST http://queues.example/v1/topics/{topic}/jobs HTTP/1.1"]
        for host in ("127.0.0.1", "localhost", "[::1]", "127.1.2.3"):
            later(f"http://{host}:{shared.port}", "stats", env=proxies)
        none = dict(proxies, no_proxy="queues.example")
        later("http://queues.example", "stats", "--timeout", "1s", env=none)
        assert len(proxy.lines) == 1


def test_https_goes_through_a_proxy_as_a_tunnel(shared, papers):
    with Front(shared.port, certificate=pair(papers, "elsewhere")) as front, \
            Proxy(front.server.server_address[1]) as proxy:
        words = ("stats", "--cacert", str(papers / "ca.crt"))
        answer = later("https://elsewhere/", *words, env={"HTTPS_PROXY": proxy.url})
        assert answer.returncode == DONE and proxy.lines == ["CONNECT elsewhere:443 HTTP/1.1"]


def test_a_proxy_that_does_not_serve_is_named(shared):
    for url in ("http://queues.example", "https://queues.example"):
        env = {"ALL_PROXY": "http://127.0.0.1:1"}
        assert "the environment's proxy" in one_line(later(url, "stats", env=env), UNREACHABLE)
        env = {"ALL_PROXY": "http://proxy.invalid:1"}
        assert "the proxy to" in one_line(later(url, "stats", env=env), UNREACHABLE)
    env = {"ALL_PROXY": f"http://127.0.0.1:{shared.port}"}  # laterd is none
    line = one_line(later("https://queues.example", "stats", env=env), UNREACHABLE)
    assert "CONNECT tunnel failed" in line and "the environment's proxy" in line


# What else goes wrong

@pytest.mark.parametrize("url, says", [
    ("http://127.0.0.1:1", "cannot connect to http://127.0.0.1:1: Connection refused; "),
    ("http://nowhere.invalid", "cannot find http://nowhere.invalid:9277: "),
])
def test_a_server_that_is_not_there_is_said_with_its_address(url, says):
    line = one_line(later(url, "stats"), UNREACHABLE)
    assert line.startswith(f"later stats: {says}") and "LATER_SERVER" in line


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "http://", "http://h:0x1", "http://h/?q", "unix:",
                                 "http://a b", "http://h/\n"])
def test_what_is_no_server_is_bad_usage(url):
    answer = later(url, "stats")
    assert answer.returncode == USAGE and "is not a server" in answer.stderr


def test_a_port_alone_is_reported_as_a_whole_url():
    answer = later("9277", "stats")
    assert answer.returncode == USAGE
    assert answer.stderr.splitlines()[0] == "later stats: '9277' is not a server: give http://127.0.0.1:9277"


@pytest.mark.parametrize("end", ["/v1", "/v1/"])
@pytest.mark.parametrize("words", [["stats"], ["push", "t", "--lines"], ["finish", "a", "b"]])
def test_a_url_that_ends_with_the_path_of_the_api_is_reported_without_it(shared, end, words):
    answer = later(f"http://127.0.0.1:{shared.port}{end}", *words, input="a\n")
    assert answer.returncode == USAGE, answer
    assert answer.stderr.splitlines()[0] == (
        f"later {words[0]}: 'http://127.0.0.1:{shared.port}/v1' is not a server: give it without /v1 at its end, "
        f"http://127.0.0.1:{shared.port}")


def test_a_proxys_prefix_may_end_like_the_path_of_the_api(shared, topic):
    with Front(shared.port, prefix="/queues/v1") as front:
        assert later(f"{front.url}/queues/v1", "push", topic, "x").returncode == DONE
        assert later(f"{front.url}/queues/v1", "get", "no-such").returncode == NOTHING
        line = one_line(later(f"{front.url}/v1", "topics", topic), REFUSED)
        assert "the server answered 404" in line and "is not a server" not in line  # the proxy's own words


def test_a_404_that_is_not_of_a_wrong_path_is_reported_in_the_servers_words_behind_any_prefix():
    off = {"status": 404, "code": "history_off", "detail": "no history is kept"}
    with Fake({"GET /queues/v1/v1/jobs/a/history": (404, off)}) as fake:
        line = one_line(later(f"{fake.url}/queues/v1", "history", "a"), NOTHING)
        assert line == "later history: a: no history is kept (history_off)"


def test_a_call_that_an_older_server_lacks_is_reported_in_its_words_behind_any_prefix():
    with Fake({"GET /queues/v1/v1/stats": (200, {})}) as fake:
        line = one_line(later(f"{fake.url}/queues/v1", "due"), NOTHING)
        assert line == "later due: there is no such call (no_such_path)"


def test_a_host_that_laterd_does_not_know_is_reported_with_the_way_out(shared):
    """libcurl takes every name below localhost for this machine; laterd only those it was told."""
    line = one_line(later(f"http://any.localhost:{shared.port}", "stats"), REFUSED)
    assert "server.hosts" in line and "(unknown_host)" in line


class Listener:
    """Answers requests by what `serve(connection)` does, a connection after the other."""

    def __init__(self, serve):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.serve = serve
        self.requests = []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def _run(self):
        while True:
            try:
                one = self.listener.accept()[0]
            except OSError:
                return
            with one:
                self.serve(self, one)

    def request(self, one):
        """The next request of a connection; False at its end."""
        data = b""
        while b"\r\n\r\n" not in data:
            more = one.recv(65536)
            if not more:
                return False
            data += more
        head, body = data.split(b"\r\n\r\n", 1)
        length = int(next((line.split(b":")[1] for line in head.split(b"\r\n")
                           if line.lower().startswith(b"content-length")), 0))
        while len(body) < length:
            body += one.recv(65536)
        self.requests.append(head.split(b"\r\n")[0].decode())
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(5)


def test_a_request_whose_answer_is_lost_is_not_sent_again():
    def serve(listener, one):
        """Answers the first request and leaves the second without an answer."""
        if listener.request(one):
            body = b'{"limits":{}}'
            one.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                        b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            listener.request(one)

    with Listener(serve) as listener:
        answer = later(listener.url, "push", "t", "--lines", input="one\ntwo\n")
        assert answer.returncode == UNREACHABLE
        assert "it closed the connection without an answer" in answer.stderr
        pushes = [line for line in listener.requests if line.startswith("POST")]
        assert len(pushes) == 1 and len(listener.requests) == 2


@pytest.mark.parametrize("answer, says", [
    (b"", "closed the connection without an answer"),
    (b"SSH-2.0-OpenSSH\r\n", "is it a laterd?"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "does not speak /v1: is it a laterd?"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{", "closed the connection"),
    (b"HTTP/1.1 403 No\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\nnot today",
     "the server answered 403: not today ("),
    (b"HTTP/1.1 502 Bad\r\nContent-Length: 0\r\n\r\n", "the server answered 502 ("),
])
def test_answers_that_are_not_of_laterd_are_reported_as_such(answer, says):
    def serve(listener, one):
        if listener.request(one):
            one.sendall(answer)

    with Listener(serve) as listener:
        got = later(listener.url, "get", "x")
        assert says in one_line(got, UNREACHABLE if got.returncode == UNREACHABLE else REFUSED)


def test_a_server_that_is_silent_is_given_up_after_the_timeout():
    def serve(listener, one):
        if listener.request(one):
            listener.request(one)  # until the client goes

    with Listener(serve) as listener:
        line = one_line(later(listener.url, "stats", "--timeout", "300ms"), UNREACHABLE)
        assert "no answer from" in line and "the time is up (--timeout)" in line


@pytest.mark.parametrize("command", ["get", "rm", "kick", "release"])
def test_a_server_that_is_silent_is_waited_for_once_and_not_for_each_id(command):
    with contextlib.closing(SilentBroker()) as server:
        answer = later(f"http://127.0.0.1:{server.port}", command, "a", "b", "c", "--timeout", "300ms")
        assert answer.returncode == UNREACHABLE and len(server.connections) == 1, answer
        first, last = answer.stderr.splitlines()
        assert first.startswith(f"later {command}: a: no answer from ")
        assert last == f"later {command}: stopped: nothing was asked about the 2 ids behind it"


def test_an_id_that_was_not_there_does_not_hide_that_others_were_not_asked():
    """As `xargs later rm` sees it: by the exit status alone."""
    def lose(*_):
        raise ConnectionResetError

    gone = {"status": 404, "code": "not_found", "detail": "no such job"}
    with Fake({"DELETE /v1/jobs/a": (404, gone), "DELETE /v1/jobs/b": lose}) as fake:
        assert later(fake.url, "rm", "a", "b", "c").returncode == UNREACHABLE
        assert not fake.asked("DELETE /v1/jobs/c")


def test_a_long_poll_outlives_the_timeout_and_ends_at_once_at_ctrl_c(shared, topic):
    url = f"http://127.0.0.1:{shared.port}"
    words = [LATER, "pop", topic, "--wait", "60s", "--timeout", "1s", "--body"]
    with subprocess.Popen(words, env=environment(url, {}), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as poll:
        wait_for_waiter(shared.port, topic)
        time.sleep(1.3)  # real time, as the client's own clock is what is tested
        assert poll.poll() is None
        assert later(url, "push", topic, "x").returncode == DONE
        assert poll.communicate(timeout=60)[0] == b"x\n" and poll.returncode == DONE
    with subprocess.Popen(words, env=environment(url, {}), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, preexec_fn=hear_interrupts) as poll:
        wait_for_waiter(shared.port, topic)
        begun = time.monotonic()
        poll.send_signal(signal.SIGINT)
        assert poll.wait(60) == -signal.SIGINT
        soon(time.monotonic() - begun, 2)


def hear_interrupts():
    """What a shell starts behind an & ignores SIGINT, and so would this."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_for_waiter(port, topic):
    """Asks for this topic: a list of all leaves out, on Redis, one that has nothing but waiters."""
    with Client(port) as client:
        assert eventually(lambda: client.get(f"/v1/topics/{topic}").json().get("waiters") == 1)


def test_many_pushes_go_over_one_connection(shared, topic):
    with Front(shared.port) as front:
        text = "".join(f"job {i}\n" for i in range(2000))
        answer = later(front.url, "push", topic, "--lines", "--delay", "1h", input=text)
        assert answer.stdout == "2000 pushed, 0 refused\n"
        assert front.connections == 1 and len(front.requests) >= 4


def test_a_file_of_a_secret_that_cannot_be_read_is_named(tmp_path):
    for path, why in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        answer = later("http://127.0.0.1:1", "stats", "--user-file", path)
        assert answer.returncode == USAGE and f"{path}: " in answer.stderr
        assert why in answer.stderr or "Input/output error" in answer.stderr


def test_an_export_goes_on_when_its_connection_was_closed(tmp_path):
    """Its reader may be slow: the server closes connections that ask nothing."""
    tries = []

    def closed_at_first(*_):
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionAbortedError
        return 200, {"topics": []}

    with Fake({"GET /v1/limits": (200, {"list_limit": 1000}), "GET /v1/topics": closed_at_first}) as fake:
        done = later(fake.url, "export")
    assert done.returncode == DONE and '"end":{"topics":0,' in done.stdout, done
    assert len(tries) == 2
