"""What the webhook sink sends, what it makes of answers, and how it meets bad days.

Addresses that must be refused are of the loopback's own network (127/8), so that nothing leaves the
machine even if they were not; others are asked of the deciding function alone (address_rule_test).
"""

import base64
import hashlib
import hmac
import json
import os
import resource
import shutil
import socket
import subprocess
import time

import pytest

from authorities import system_with
from patience import soon
from push import ROOT, Sink, preloaded_names
from receiver import Receiver, make_certificates, server_context
from wire import eventually

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLDER = "whsec_" + base64.b64encode(b"an older secret of a hook!").decode()
JUDGE = os.path.join(ROOT, "test", "clients", "webhooks")
MIB = 1 << 20
pytestmark = pytest.mark.embedded("the sink alone, without a laterd")


@pytest.fixture(scope="module")
def receiver():
    with Receiver() as made:
        yield made


@pytest.fixture(scope="module")
def sink():
    with Sink(environment={"HOOK": SECRET, "HOOK_OLD": OLDER, "http_proxy": "http://127.0.0.1:9",
                           "HTTPS_PROXY": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"},
              timeout_ms=30000) as made:
        yield made


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates(str(tmp_path_factory.mktemp("certificates")))


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What is preloaded to look up names of the test's own."""
    return preloaded_names(str(tmp_path_factory.mktemp("names")))


def last_request(receiver, sink, **delivery):
    before = len(receiver.requests)
    outcome = sink.ask(receiver.url(), **delivery)
    assert outcome["kind"] == "delivered", outcome
    return receiver.wait(before + 1)[-1]


# ---- what is sent ----

def test_the_body_is_sent_byte_for_byte(receiver, sink):
    for body in ("", "x", '{ "a" : 1 }\n', "\0\r\n\0", "日本 \U0001f600", "y" * (3 * MIB)):
        request = last_request(receiver, sink, body=body)
        assert request.method == "POST" and request.version == "HTTP/1.1"
        assert request.body == body.encode()
        assert request.header("expect") is None
        assert request.header("transfer-encoding") is None


def test_a_body_over_a_megabyte_does_not_wait_for_100_continue(receiver, sink):
    before = time.monotonic()
    last_request(receiver, sink, body="y" * (2 * MIB))
    soon(time.monotonic() - before, 0.9)  # libcurl would wait 1 s


def test_connections_are_used_again(receiver, sink):
    last_request(receiver, sink)
    before = receiver.connections
    for _ in range(20):
        last_request(receiver, sink)
    assert receiver.connections == before


def test_the_proxy_of_the_environment_is_not_used(receiver, sink):
    assert last_request(receiver, sink).target == "/ok"  # its proxy is a port where nobody listens


def test_headers_cannot_be_split(receiver, sink):
    request = last_request(receiver, sink, headers={"X-Good": "1", "X-Evil": "1\r\nX-Split: 1"},
                           content_type="text/plain\r\nX-Split: 1", topic="a\r\nX-Split: 1")
    assert request.header("x-good") == "1"
    assert request.header("x-split") is None and request.header("x-evil") is None
    assert request.header("laterd-topic") == "a%0D%0AX-Split:%201"


def verify(secret, request):
    """As a receiver does."""
    key = base64.b64decode(secret[len("whsec_"):])
    signed = b".".join([request.header("webhook-id").encode(),
                        request.header("webhook-timestamp").encode(), request.body])
    wanted = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(wanted, given)
               for given in request.header("webhook-signature").split(" "))


def test_each_secret_signs_so_that_secrets_can_be_replaced(receiver, sink):
    request = last_request(receiver, sink, body="hello", sign=["$HOOK", "$HOOK_OLD"])
    assert verify(SECRET, request) and verify(OLDER, request)
    assert not verify("whsec_" + "A" * 32, request)
    assert abs(int(request.header("webhook-timestamp")) - time.time()) < 10


def test_the_official_verifier_accepts_each_request_and_no_other(receiver, sink, tmp_path):
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    folder = os.path.join(ROOT, "build", "npm-webhooks")
    os.makedirs(folder, exist_ok=True)
    for name in ("package.json", "package-lock.json", "judge.js"):
        shutil.copy(os.path.join(JUDGE, name), folder)
    if not os.path.exists(os.path.join(folder, "node_modules", "standardwebhooks")):
        made = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
                              cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        if made.returncode and any(word in made.stderr for word in
                                   ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "network")):
            pytest.skip("the registry of npm cannot be reached")
        assert made.returncode == 0, made.stderr
    cases = []
    for number, body in enumerate(("", "{}", "plain", "日本", '{"test": 2432232314}', "z" * 70000)):
        request = last_request(receiver, sink, body=body, sign=["$HOOK_OLD", "$HOOK"][number % 2:],
                               message_id=f"msg_{number}")
        cases.append({"headers": dict((name.lower(), value) for name, value in request.headers),
                      "body": request.body.hex()})
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"secret": SECRET, "cases": cases}))
    told = subprocess.run(["node", "judge.js", str(path)], cwd=folder, capture_output=True,
                          text=True, check=False, timeout=120)
    assert told.returncode == 0, told.stdout + told.stderr
    accepted, refused = told.stdout.split()
    assert int(accepted) == len(cases) and int(refused) > 1000


AROUND = {
    "python": ("verify.py", "{code}\nimport json, sys\n"
               "for case in json.load(open(sys.argv[1])):\n"
               "    print(int(verify(case['secret'], case['headers'], bytes.fromhex(case['body']))))\n",
               ["/usr/bin/python3"]),
    "js": ("verify.js", "{code}\nfor (const c of JSON.parse(require('fs').readFileSync(process.argv[2])))\n"
           "    console.log(Number(verify(c.secret, c.headers, Buffer.from(c.body, 'hex'))));\n", ["node"]),
    "php": ("verify.php", "<?php\n{code}\nforeach (json_decode(file_get_contents($argv[1]), true) as $c)\n"
            "    echo (int)verify($c['secret'], $c['headers'], hex2bin($c['body'])), \"\\n\";\n", ["php"]),
    "java": ("Verify.java", "public class Verify {{\n{code}\npublic static void main(String[] a) throws Exception {{\n"
             "for (String line : java.nio.file.Files.readAllLines(java.nio.file.Path.of(a[0] + \".lines\"))) {{\n"
             "String[] w = line.split(\"\\t\", -1);\n"
             "System.out.println(verify(w[0], java.util.Map.of(\"webhook-id\", w[1], \"webhook-timestamp\", w[2],"
             " \"webhook-signature\", w[3]), java.util.HexFormat.of().parseHex(w[4])) ? 1 : 0); }} }} }}\n",
             ["java"]),
    "go": ("verify.go", "package main\nimport (\"crypto/hmac\"; \"crypto/sha256\"; \"encoding/base64\"; \"encoding/hex\";"
           " \"fmt\"; \"net/http\"; \"os\"; \"strconv\"; \"strings\"; \"time\")\n{code}\nfunc main() {\n"
           "data, _ := os.ReadFile(os.Args[1] + \".lines\")\n"
           "for _, line := range strings.Split(strings.TrimSpace(string(data)), \"\\n\") {\n"
           "w := strings.Split(line, \"\\t\")\nh := http.Header{}\n"
           "h.Set(\"webhook-id\", w[1]); h.Set(\"webhook-timestamp\", w[2]); h.Set(\"webhook-signature\", w[3])\n"
           "body, _ := hex.DecodeString(w[4])\n"
           "if verify(w[0], h, body) { fmt.Println(1) } else { fmt.Println(0) } } }\n",
           ["go", "run"]),
}


@pytest.mark.parametrize("language", sorted(AROUND))
def test_the_receivers_code_of_the_page_verifies(receiver, sink, tmp_path, language):
    name, program, command = AROUND[language]
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    with open(os.path.join(ROOT, "docs", "webhooks.md"), encoding="utf-8") as page:
        code = page.read().split(f"```{language}\n")[1].split("```")[0]
    request = last_request(receiver, sink, body="日本\n", sign=["$HOOK_OLD", "$HOOK"],
                           message_id="msg_1")
    headers = {name.lower(): value for name, value in request.headers}
    good = {"secret": SECRET, "headers": headers, "body": request.body.hex()}
    old = dict(headers, **{"webhook-timestamp": str(int(headers["webhook-timestamp"]) - 1000)})
    cases = [good, {**good, "secret": OLDER}, {**good, "secret": "whsec_" + "A" * 32},
             {**good, "body": good["body"] + "00"}, {**good, "headers": old},
             {**good, "headers": dict(headers, **{"webhook-id": "msg_2"})}]
    (tmp_path / "cases").write_text(json.dumps(cases))
    (tmp_path / "cases.lines").write_text("".join("\t".join(
        (case["secret"], case["headers"]["webhook-id"], case["headers"]["webhook-timestamp"],
         case["headers"]["webhook-signature"], case["body"])) + "\n" for case in cases))
    (tmp_path / name).write_text(program.format(code=code) if language == "java"
                                 else program.replace("{code}", code))
    told = subprocess.run([*command, str(tmp_path / name), str(tmp_path / "cases")], check=False,
                          env={**os.environ, "GOCACHE": str(tmp_path / "go"), "GO111MODULE": "off"},
                          capture_output=True, text=True, timeout=300)
    assert told.stdout.split() == ["1", "1", "0", "0", "0", "0"], told.stdout + told.stderr


def test_a_missing_secret_fails_the_delivery_and_is_named_but_not_shown(receiver, sink, tmp_path):
    path = tmp_path / "hook"
    path.write_text("not a secret: hunter2")
    before = len(receiver.requests)
    for sign, why in ((["$HOOK", "$NONE"], "the secret $NONE is not in the environment of laterd"),
                      ([f"file:{path}"], f"the secret file:{path} is malformed: it must be whsec_ "
                                         "and 24 to 64 bytes as base64")):
        outcome = sink.ask(receiver.url(), sign=sign)
        assert outcome["kind"] == "failed" and outcome["reason"] == why
        assert not outcome["unhealthy"]
    assert len(receiver.requests) == before  # nothing unsigned was sent
    assert "hunter2" not in "".join(sink.log) and SECRET[8:] not in "".join(sink.log)


def test_a_secret_in_a_file_is_read_again_when_it_is_replaced(receiver, sink, tmp_path):
    path = tmp_path / "hook"
    for secret in (SECRET, OLDER):
        (tmp_path / "next").write_text(secret + "\n")
        os.replace(tmp_path / "next", path)
        assert verify(secret, last_request(receiver, sink, body="x", sign=[f"file:{path}"]))


# ---- what answers mean ----

def test_each_answer_has_its_meaning(receiver, sink):
    for path, options, kind, reason in (
            ("/status/200", {}, "delivered", ""),
            ("/status/204", {}, "delivered", ""),
            ("/status/404", {}, "failed", "answered 404"),
            ("/status/500", {}, "failed", "answered 500"),
            ("/status/422", {"bury_on": [400, 422]}, "refused", "answered 422"),
            ("/status/410", {}, "gone", "answered 410 (Gone): the receiver wants no more webhooks"),
            ("/say/%20SUCCESS%0A", {"success_body": "success"}, "delivered", ""),
            ("/say/fail", {"success_body": "success"}, "failed",
             "answered 200 with another body than that of a success")):
        outcome = sink.ask(receiver.url(path), **options)
        assert (outcome["kind"], outcome["reason"]) == (kind, reason)
        assert outcome["address"] == f"127.0.0.1:{receiver.port}"


def test_retry_after_is_passed_on(receiver, sink):
    assert sink.ask(receiver.url("/status/503?Retry-After=7"))["retry_after_us"] == 7_000_000
    begin = time.time()
    date = time.strftime("%a,+%d+%b+%Y+%H:%M:%S+GMT", time.gmtime(begin + 100))
    after = sink.ask(receiver.url(f"/status/429?Retry-After={date}"))["retry_after_us"]
    assert 99_000_000 - (time.time() - begin) * 1_000_000 <= after <= 100_000_000
    assert sink.ask(receiver.url("/status/500?Retry-After=7"))["retry_after_us"] == -1


def test_the_first_4_kib_of_the_answer_are_kept(receiver, sink):
    assert sink.ask(receiver.url("/say/no%20money"))["response"] == b"no money"
    assert sink.ask(receiver.url("/huge/500"))["response"] == b"x" * 4096


# ---- bad days ----

def test_a_body_behind_204_is_not_taken_for_the_answer_to_the_next_request(receiver, sink):
    for _ in range(3):
        outcome = sink.ask(receiver.url("/stray"))
        assert (outcome["kind"], outcome["code"]) == ("delivered", 204), outcome
        time.sleep(0.1)
        assert sink.ask(receiver.url())["kind"] == "delivered"


def test_a_redirect_is_not_followed(receiver, sink):
    before = receiver.connections, len(receiver.requests)
    outcome = sink.ask(receiver.url("/status/302?Location=http://169.254.169.254/latest/meta-data"))
    assert outcome["kind"] == "failed" and outcome["code"] == 302
    assert outcome["reason"] == "answered 302; redirects are not followed"
    assert len(receiver.requests) == before[1] + 1


def test_a_receiver_that_hangs_fails_at_the_timeout(receiver, sink):
    outcome = sink.ask(receiver.url("/hang"), timeout_us=1_000_000)
    assert outcome["kind"] == "failed" and outcome["unhealthy"]
    assert outcome["reason"] == "no answer within 1s"
    assert 0.9 < soon(outcome["took_us"] / 1e6, 10)


def test_a_drip_fails_at_the_timeout(receiver, sink):
    outcome = sink.ask(receiver.url("/drip"), timeout_us=700_000)
    assert outcome["kind"] == "failed" and outcome["code"] == 200 and outcome["unhealthy"]
    assert outcome["reason"] == "answered 200, but not completely within 700ms"
    assert outcome["response"].startswith(b"x")


def test_an_answer_without_end_is_cut_and_takes_no_memory(receiver, sink):
    sink.ask(receiver.url("/ok"))
    before = sink.resident_bytes()
    for _ in range(20):
        sent = receiver.sent
        outcome = sink.ask(receiver.url("/huge"))
        assert outcome["kind"] == "delivered"  # its status says so; see docs/webhooks.md
        outcome = sink.ask(receiver.url("/huge"), success_body="success")
        assert outcome["kind"] == "failed"
        assert outcome["reason"] == ("answered 200 with more than 65536 bytes, which is not the "
                                     "body of a success")
        assert sink.ask(receiver.url("/huge/500"))["reason"] == "answered 500"
        assert receiver.sent - sent < 60 * MIB  # what buffers of sockets hold
    assert sink.resident_bytes() - before < 8 * MIB


def test_headers_without_end_are_cut(receiver, sink):
    outcome = sink.ask(receiver.url("/headers"))
    assert outcome["kind"] == "failed"
    assert outcome["reason"] == "the answer has more than 64 KiB of headers"


def test_a_connection_that_is_closed_early_fails(receiver, sink):
    assert sink.ask(receiver.url("/half"))["reason"] == \
        "the connection was closed in the middle of the answer"
    assert sink.ask(receiver.url("/none"))["reason"] == \
        "the connection was closed without an answer"


def test_another_protocol_on_the_port_is_named(receiver, sink):
    for path in ("/junk", "/chunks", "/http09"):
        outcome = sink.ask(receiver.url(path))
        assert (outcome["kind"], outcome["reason"]) == ("failed", "the answer is not HTTP")


def test_https_to_a_port_of_http_fails(receiver):
    with Sink(connect_timeout_ms=500) as sink:
        outcome = sink.ask(receiver.url().replace("http:", "https:"))
    assert outcome["kind"] == "failed" and outcome["unhealthy"]
    # The receiver may wait for the end of what is no line for it.
    assert outcome["reason"].startswith(("TLS failed: ", "no connection within 500ms"))


def test_nobody_listening_is_said(sink):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and nobody else gets the port
        outcome = sink.ask(f"http://127.0.0.1:{bound.getsockname()[1]}/ok")
    assert outcome["reason"] == "no connection: Connection refused" and outcome["unhealthy"]


def test_a_url_that_can_never_be_sent_to_is_refused_for_good(sink):
    for url, why in (("ftp://127.0.0.1/", "the URL must begin with http:// or https://"),
                     ("file:///etc/passwd", "the URL must begin with http:// or https://"),
                     ("http://u:p@127.0.0.1/", "the URL must not have a user or password; set a "
                                               "header instead"),
                     ("127.0.0.1/x", "the URL is malformed"),
                     ("http://127.0.0.1:99999/", "the URL is malformed"),
                     ("", "there is no URL: neither the job nor its topic has one")):
        outcome = sink.ask(url)
        assert (outcome["kind"], outcome["reason"]) == ("refused", why), url


# ---- which addresses ----

NOT_ALLOWED = "not allowed: the address is not public, and push.allow does not list it"


def test_addresses_that_are_not_allowed_are_refused_in_any_form(receiver, sink):
    before = receiver.connections
    for host in ("127.0.0.2", "127.2", "0x7f000002", "2130706434", "0177.0.0.2",
                 "[::ffff:127.0.0.2]", "[::1]"):
        outcome = sink.ask(f"http://{host}:{receiver.port}/ok")
        assert (outcome["kind"], outcome["reason"]) == ("failed", NOT_ALLOWED), host
        assert not outcome["unhealthy"]
    assert receiver.connections == before


def test_a_port_that_is_not_allowed_is_refused_for_good(receiver):
    with Sink(ports="80,443") as narrow:
        outcome = narrow.ask(receiver.url())
        assert outcome["kind"] == "refused"
        assert outcome["reason"] == "not allowed: push.ports does not have the port of this URL"


def test_a_name_that_resolves_to_another_address_the_second_time_is_refused(receiver, names):
    url = receiver.url("/ok?Connection=close", host="rebind.test")
    with Sink(environment=names) as sink:
        assert sink.ask(url)["kind"] == "delivered"
        before = receiver.connections
        outcome = sink.ask(url)
        assert (outcome["kind"], outcome["reason"]) == ("failed", NOT_ALLOWED)
        assert "127.0.0.66" not in json.dumps(outcome, default=str)
        assert receiver.connections == before


def test_of_several_addresses_only_those_that_are_allowed_are_tried(receiver, names):
    with Sink(environment=names) as sink:
        assert sink.ask(receiver.url(host="both.test"))["kind"] == "delivered"


def test_a_name_that_does_not_resolve_is_said():
    with Sink(connect_timeout_ms=500) as sink:
        outcome = sink.ask("http://nowhere.invalid/", timeout_us=20_000_000)
    assert outcome["kind"] == "failed" and outcome["unhealthy"]
    assert outcome["reason"] in ("the name nowhere.invalid does not resolve",
                                 "the name was not looked up within 500ms")


def test_while_no_descriptor_is_left_nothing_is_sent_and_no_attempt_counts(receiver, names):
    with Sink(environment=names, grace_ms=0) as sink, Receiver() as other:
        assert sink.ask(receiver.url(), id="first")["kind"] == "delivered"
        pid = sink.process.pid
        limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), limit[1]))
        for url in (other.url(), "http://gone.test/hook"):
            outcome = sink.ask(url)
            assert (outcome["kind"], outcome["unhealthy"]) == ("unsent", False), outcome
            assert outcome["reason"] == "the system has no descriptor left"
        outcome = sink.ask(receiver.url(), sign=["file:/etc/hostname"])
        assert outcome["kind"] == "unsent"
        assert not other.requests
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
        assert sink.ask(other.url())["kind"] == "delivered"
        assert eventually(lambda: any("webhooks_short" in line for line in sink.log))
        assert len([line for line in sink.log if "webhooks_short" in line]) == 1


def test_a_name_server_that_hangs_holds_nobody_up(receiver, names):
    with Sink(environment=names, connect_timeout_ms=1000, grace_ms=100) as sink:
        for _ in range(3):
            sink.send(f"http://slow.test:{receiver.port}/")
        begun = time.monotonic()
        for _ in range(3):
            assert sink.outcome()["reason"] == "the name was not looked up within 1s"
        assert sink.ask(receiver.url())["kind"] == "delivered"
        soon(time.monotonic() - begun, 8)
        assert sink.close() == 0
        soon(time.monotonic() - begun, 16)  # the look-up takes 20 s


# ---- TLS ----

def test_a_certificate_of_an_authority_of_the_target_is_accepted(sink, certificates):
    with Receiver(tls=server_context(certificates)) as safe:
        ca = certificates["ca.pem"]
        assert sink.ask(safe.url(), ca=ca)["kind"] == "delivered"
        assert sink.ask(safe.url(), ca=ca)["kind"] == "delivered"
        # The authority is that target's alone, connections included.
        outcome = sink.ask(safe.url())
        assert outcome["kind"] == "failed" and outcome["unhealthy"]
        assert outcome["reason"].startswith("its certificate is not accepted: ")


def test_the_authorities_of_a_target_are_in_place_of_the_systems(certificates, tmp_path):
    (tmp_path / "others").mkdir()
    # Of another name: of two authorities of one name, OpenSSL tries the file's alone.
    others = make_certificates(str(tmp_path / "others"), authority="another authority")
    prefix = system_with(certificates["ca.pem"], tmp_path / "system")
    replaced = tmp_path / "replaced.pem"
    with Receiver(tls=server_context(certificates)) as safe, Sink(prefix=prefix) as sink:
        outcome = sink.ask(safe.url(), ca=others["ca.pem"])
        assert outcome["kind"] == "failed"
        assert outcome["reason"].startswith("its certificate is not accepted: ")
        shutil.copy(others["ca.pem"], replaced)
        assert sink.ask(safe.url(), ca=str(replaced))["kind"] == "failed"
        shutil.copy(certificates["ca.pem"], replaced)  # and is read again
        assert sink.ask(safe.url(), ca=str(replaced))["kind"] == "delivered"
        assert sink.ask(safe.url())["kind"] == "delivered"  # the system's


@pytest.mark.parametrize("certificate", ["other", "old"])
def test_a_bad_certificate_fails_and_says_why(sink, certificates, certificate):
    with Receiver(tls=server_context(certificates, certificate)) as bad:
        outcome = sink.ask(bad.url(), ca=certificates["ca.pem"])
        assert outcome["kind"] == "failed"
        assert outcome["reason"].startswith("its certificate is not accepted: ")
        assert not bad.requests


def test_a_receiver_may_ask_for_our_certificate(sink, certificates, tmp_path):
    context = server_context(certificates, ca_of_clients=certificates["ca.pem"])
    with Receiver(tls=context) as strict:
        options = {"ca": certificates["ca.pem"]}
        assert sink.ask(strict.url(), **options)["kind"] == "failed"
        options |= {"certificate": certificates["client.pem"],
                    "key_file": certificates["client.key"]}
        assert sink.ask(strict.url(), **options)["kind"] == "delivered"
    with Receiver(tls=context) as strict:
        # Connections are one target's: another one of the same host is sent with its own certificate.
        other = {"ca": certificates["ca.pem"], "certificate": certificates["other.pem"],
                 "key_file": certificates["other.key"]}
        for target, name in ((options, "client"), (other, "other"), (options, "client"), (other, "other")):
            assert last_request(strict, sink, **target).client == name
        assert sink.ask(strict.url(), ca=certificates["ca.pem"])["kind"] == "failed"
    with Receiver(tls=context) as strict:  # the files are others, under the same name or another
        mine = {"ca": certificates["ca.pem"], "certificate": str(tmp_path / "mine.pem")}
        for name, key in (("client", "1.key"), ("other", "1.key"), ("client", "2.key")):
            shutil.copy(certificates[f"{name}.pem"], mine["certificate"])
            mine["key_file"] = shutil.copy(certificates[f"{name}.key"], str(tmp_path / key))
            assert last_request(strict, sink, **mine).client == name
        before = strict.connections
        assert last_request(strict, sink, **mine).client == "client"
        assert strict.connections == before  # nothing has changed
        mine["key_file"] = certificates["other.key"]
        assert sink.ask(strict.url(), **mine)["kind"] == "failed"  # this key does not fit
    with Receiver(tls=context) as strict:  # a key that does not fit is noticed when a connection is made
        options["key_file"] = certificates["server.key"]
        outcome = sink.ask(strict.url(), **options)
        assert outcome["reason"].startswith("ca, certificate or key of the target cannot be used: ")


# ---- Unix sockets, proxies, the end ----

def test_unix_sockets_are_those_that_are_listed(tmp_path):
    path = str(tmp_path / "hook.sock")
    with Receiver(unix=path) as local, Sink(unix_sockets=path) as sink:
        assert sink.ask("http://hook/ok", unix_socket=path)["kind"] == "delivered"
        assert local.requests[0].header("host") == "hook"
        outcome = sink.ask("http://hook/ok", unix_socket=str(tmp_path / "other.sock"))
        assert outcome["kind"] == "refused"
        assert outcome["reason"] == "not allowed: push.unix_sockets does not list this socket"


def test_a_proxy_is_used_when_it_is_configured(receiver):
    with Sink(proxy=f"http://127.0.0.1:{receiver.port}", allow="") as sink:
        # The name is the proxy's to look up; nothing leaves the machine.
        assert sink.ask("http://hook.example:8080/ok")["kind"] == "delivered"
        assert receiver.requests[-1].target == "http://hook.example:8080/ok"


@pytest.mark.parametrize("name", ["no_proxy", "NO_PROXY"])
def test_the_environment_leads_nobody_past_the_proxy(receiver, name):
    """Past it no address is asked about: no_proxy would be a way to all that is not allowed."""
    url = f"http://127.0.0.1:{receiver.port}/ok"
    with Sink(proxy=f"http://127.0.0.1:{receiver.port}", allow="", ports=str(receiver.port),
              environment={name: "127.0.0.1,*"}) as sink:
        assert sink.ask(url)["kind"] == "delivered"
        assert receiver.requests[-1].target == url


def test_what_is_on_the_wire_at_the_end_may_end(receiver):
    for grace, kind in ((20000, "failed"), (0, "unsent")):
        sink = Sink(timeout_ms=1500, grace_ms=grace)
        before = len(receiver.requests)
        sink.send(receiver.url("/hang"))
        receiver.wait(before + 1)
        assert sink.close() == 0
        outcome = sink.outcome()
        assert outcome["kind"] == kind
        assert grace or outcome["reason"] == "laterd is stopping"


def test_nothing_waits_for_a_receiver_that_hangs(receiver, sink):
    begun = time.monotonic()
    hanging = Receiver()
    for number in range(100):
        sink.send(hanging.url("/hang"), id=f"hang{number}", timeout_us=20_000_000)
    for number in range(100):
        sink.send(receiver.url("/ok"), id=f"ok{number}")
    for _ in range(100):
        assert sink.outcome()["id"].startswith("ok")
    soon(time.monotonic() - begun, 15)
    assert sink.threads() < 8
    hanging.close()
    for _ in range(100):
        assert sink.outcome()["kind"] == "failed"


def test_without_libcurl_nothing_is_sent_and_the_package_is_named(tmp_path):
    # A library of that name that is none.
    (tmp_path / "libcurl.so.4").write_text("no library")
    with Sink(environment={"LD_LIBRARY_PATH": str(tmp_path)}) as sink:
        outcome = sink.ask("http://127.0.0.1:1/")
        assert outcome["kind"] == "unsent"
        assert "install libcurl4" in outcome["reason"]
    assert any("ready=0 libcurl cannot be loaded" in line for line in sink.log)
