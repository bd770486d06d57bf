"""Jobs of topics with a target of type http, through laterd itself: sent when they are due, and the
answer decides. What a single webhook carries is in test_webhooks.py."""

import json
import os
import signal
import time

import pytest

from patience import soon
from push import preloaded_names
from receiver import Receiver, make_certificates, server_context
from wire import Client, eventually

HOOK = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
# Receivers answer at once; who wants no answer in time says so in the target.
PUSH = {"push": {"allow": "127.0.0.1", "job_targets": "any", "timeout": "30s"}}
SOON = {"timeout": "2s"}


@pytest.fixture(scope="module")
def receiver():
    with Receiver() as made:
        yield made


@pytest.fixture
def pushing(laterd):
    """A server that may send to the loopback, and a client of it."""
    server = laterd(PUSH, environment={"HOOK": HOOK, "SHORT": "whsec_c2hvcnQ="})
    with Client(server.port) as client:
        client.server = server
        yield client


def set_target(client, topic, url, /, retry=("100ms",), unchecked=False, **target):
    """`retry`: None is one attempt."""
    settings = {"target": {"type": "http", "url": url, **target}, "jitter": 0,
                **({"retry": list(retry)} if retry else {"attempts": 1})}
    query = "?check_secrets=false" if unchecked else ""
    answer = client.request("PUT", f"/v1/topics/{topic}{query}", settings)
    assert answer.status == 200, answer


def held_by(client, topic, why):
    """Who holds it back, of the answer that says why; it may be another by the next one."""
    def asked():
        shown = client.get(f"/v1/topics/{topic}").json()
        return shown["held_by"] if shown.get("held") == why else None
    return eventually(asked)


def attempts(client, job_id):
    return client.get(f"/v1/jobs/{job_id}/attempts").json()["attempts"]


def test_p3_p5_a_job_is_sent_when_it_is_due_and_finished_by_the_answer(pushing, receiver):
    before = len(receiver.requests)
    set_target(pushing, "orders", receiver.url(), sign=["$HOOK"], headers={"X-Shop": "7"})
    begun = time.time()
    pushing.push_id("orders", id="order-1", delay="300ms", body={"order": 1})
    request = receiver.wait(before + 1)[-1]
    assert request.at >= begun + 0.29
    assert json.loads(request.body) == {"order": 1}
    assert request.header("laterd-job-id") == "order-1"
    assert request.header("laterd-topic") == "orders"
    assert request.header("laterd-attempt") == "1"
    assert request.header("x-shop") == "7"
    assert request.header("content-type") == "application/json"
    assert request.header("webhook-signature").startswith("v1,")
    assert "." not in request.header("webhook-id")
    assert eventually(lambda: pushing.get("/v1/jobs/order-1").status == 404)


def test_a_failed_attempt_is_sent_again_with_the_same_id_and_then_buried(pushing, receiver):
    before = len(receiver.requests)
    set_target(pushing, "bad", receiver.url("/status/500"), retry=["100ms", "200ms"])
    pushing.push_id("bad", id="b1", body="x")
    sent = receiver.wait(before + 3)[before:]
    assert [request.header("laterd-attempt") for request in sent] == ["1", "2", "3"]
    assert len({request.header("webhook-id") for request in sent}) == 1
    assert eventually(lambda: pushing.state("b1") == "buried")
    notes = attempts(pushing, "b1")
    assert [note["code"] for note in notes] == [500, 500, 500]
    assert notes[0]["reason"] == "answered 500" and notes[0]["response"] == "fine"
    assert notes[0]["address"] == f"127.0.0.1:{receiver.port}"


def check_days(client, days):
    """`days`: by name the URL, how the reason begins, and more of the target."""
    for name, (url, _, *more) in days.items():
        set_target(client, name, url, retry=None, **(more[0] if more else {}))
        client.push_id(name, id=name, body="x")
    for name, (_, reason, *_) in days.items():
        assert eventually(lambda name=name: client.state(name) == "buried", seconds=30)
        said = attempts(client, name)[-1]["reason"]
        assert said.startswith(reason) if reason.endswith(": ") else said == reason, (name, said)


def test_each_bad_day_is_a_clear_reason_on_the_job(pushing, receiver):
    days = {
        "http": (f"https://127.0.0.1:{pushing.server.port}/", "TLS failed: "),  # laterd's own, which answers at once
        "endless": (receiver.url("/huge"), "answered 200 with more than 65536 bytes, which is not the "
                    "body of a success", {"success": {"body": "success"}}),
        "endless-500": (receiver.url("/huge/500"), "answered 500"),
        "headers": (receiver.url("/headers"), "the answer has more than 64 KiB of headers"),
        "redirect": (receiver.url("/status/302?Location=http://169.254.169.254/"),
                     "answered 302; redirects are not followed"),
        "half": (receiver.url("/half"), "the connection was closed in the middle of the answer"),
        "junk": (receiver.url("/junk"), "the answer is not HTTP"),
        "hang": (receiver.url("/hang"), "no answer within 2s", SOON),
        "drip": (receiver.url("/drip"), "answered 200, but not completely within 2s", SOON),
        "inside": (f"http://127.0.0.2:{receiver.port}/ok",
                   "not allowed: the address is not public, and push.allow does not list it", {"unchecked": True}),
        "hex": (f"http://0x7f000002:{receiver.port}/ok",
                "not allowed: the address is not public, and push.allow does not list it"),
        "port": ("http://127.0.0.1:22/ok",
                 "not allowed: push.ports does not have the port of this URL", {"unchecked": True}),
    }
    check_days(pushing, days)


def test_a_target_that_can_never_be_allowed_is_refused_when_it_is_set(pushing):
    for url, says in (("http://127.0.0.2/", "the address 127.0.0.2 is not public, and push.allow does not list it"),
                      ("https://[::1]:8443/x?y", "the address ::1 is not public, and push.allow does not list it"),
                      ("http://[::ffff:10.1.2.3]", "the address ::ffff:10.1.2.3 is not public, "),
                      ("http://127.0.0.1:22/", "push.ports does not have port 22"),
                      ("http://shop.example:22/", "push.ports does not have port 22")):
        settings = {"target": {"type": "http", "url": url}}
        answer = pushing.request("PUT", "/v1/topics/inside", settings)
        said = answer.json()
        assert (answer.status, said["code"], said["field"]) == (400, "bad_field", "target.url"), answer
        assert said["detail"].startswith(says), answer
        assert pushing.get("/v1/topics/inside").status == 404
        assert pushing.request("PUT", "/v1/topics/inside", {**settings, "paused": True}).status == 200
        assert pushing.request("DELETE", "/v1/topics/inside").status == 200
    answer = pushing.request("PUT", "/v1/topics/inside",
                             {"target": {"type": "http", "url": "http://h/", "unix_socket": "/run/other.sock"}})
    assert answer.status == 400 and answer.json()["field"] == "target.unix_socket", answer
    assert answer.json()["detail"] == "push.unix_sockets does not list this socket"
    # Names are not looked up: each delivery does it.
    for url in ("http://127.0.0.1:9277/", "http://127.0.0.1", "https://9.9.9.9/", "http://localhost/", "http://h:443/"):
        assert pushing.request("PUT", "/v1/topics/inside", {"target": {"type": "http", "url": url}}).status == 200, url


def test_behind_a_proxy_the_proxy_decides_which_address_is_allowed(laterd):
    server = laterd({"push": {"proxy": "http://127.0.0.1:1"}})
    with Client(server.port) as client:
        for url, status in (("http://10.1.2.3/", 200), ("http://10.1.2.3:22/", 400)):
            assert client.request("PUT", "/v1/topics/t", {"target": {"type": "http", "url": url}}).status == status


def test_a_certificate_that_has_expired_or_is_anothers_is_a_clear_reason_on_the_job(pushing, tmp_path):
    paths = make_certificates(str(tmp_path))
    with Receiver(tls=server_context(paths, "old")) as old, \
            Receiver(tls=server_context(paths, "other")) as other:
        ca = {"ca": paths["ca.pem"]}
        check_days(pushing, {"old": (old.url(), "its certificate is not accepted: ", ca),
                             "other": (other.url(), "its certificate is not accepted: ", ca)})
        assert "expired" in attempts(pushing, "old")[-1]["reason"]
        assert not old.requests and not other.requests


def test_names_that_lead_nowhere_or_inside_are_a_clear_reason_on_the_job(laterd, receiver, tmp_path):
    server = laterd({"push": {**PUSH["push"], "connect_timeout": "2s"}},
                    environment=preloaded_names(str(tmp_path)))
    with Client(server.port) as client:
        rebind = receiver.url("/ok?Connection=close", host="rebind.test")
        set_target(client, "rebind", rebind)
        client.push_id("rebind", id="first", body="x")
        assert eventually(lambda: client.get("/v1/jobs/first").status == 404)
        before = receiver.connections
        check_days(client, {
            "rebind": (rebind, "not allowed: the address is not public, and push.allow does not list it"),
            "gone": (receiver.url(host="gone.test"), "the name gone.test does not resolve"),
            "slow": (receiver.url(host="slow.test"), "the name was not looked up within 2s")})
        assert "127.0.0.66" not in client.get("/v1/jobs/rebind/attempts").text
        assert receiver.connections == before


def test_the_configuration_bounds_a_receivers_wait_and_pauses_a_target_that_only_fails(laterd, receiver):
    server = laterd({"push": {**PUSH["push"], "retry_after_max": "500ms", "disable_after": "3s", "breaker_failures": "1000"}})
    with Client(server.port) as client:
        before = len(receiver.requests)
        set_target(client, "busy", receiver.url("/status/429?Retry-After=3600"), retry=["100ms"] * 60)
        client.push_id("busy", id="busy-1", body="x")
        first, second, third = receiver.wait(before + 3)[before:before + 3]
        assert second.at - first.at >= 0.45 and third.at - second.at >= 0.45  # it asks for an hour, its schedule for 100 ms
        assert server.wait_log("target_paused")
        settings = client.get("/v1/topics/busy").json()["settings"]
        assert settings["paused"] is True and settings["paused_why"] == "failing"
        assert eventually(lambda: client.get("/v1/topics/busy").json().get("held") == "paused")
        assert client.get("/v1/topics/busy").json()["buried"] == 0


def test_hundreds_of_bad_deliveries_leave_neither_threads_nor_memory_behind(laterd, receiver, tmp_path):
    server = laterd({"push": {**PUSH["push"], "timeout": "400ms", "connect_timeout": "200ms",
                              "host_concurrency": "50", "breaker_failures": "1000"}},
                    environment=preloaded_names(str(tmp_path)))
    urls = [receiver.url("/drip"), receiver.url("/half"), receiver.url("/junk"), receiver.url(host="late.test")]

    def threads():
        return len(os.listdir(f"/proc/{server.pid}/task"))

    def resident():
        with open(f"/proc/{server.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) * 1024

    with Client(server.port) as client:
        # Whose jobs bring their URLs, for a topic's own begins with one at a time.
        assert client.request("PUT", "/v1/topics/bad", {"target": {"type": "http"}, "attempts": 1}).status == 200

        def fail(rounds, in_all):
            for _ in range(rounds):
                for url in urls:
                    client.push("bad", body="x", url=url)
            assert eventually(lambda: client.get("/v1/topics/bad").json()["buried"] == in_all, seconds=60)

        fail(10, 40)
        # What looks up a name cannot be stopped: it ends by itself.
        before = threads(), resident()
        fail(50, 240)
        assert eventually(lambda: threads() <= before[0], seconds=30), (threads(), before)
        assert resident() - before[1] < 16 << 20, (resident(), before)


def test_settings_whose_secrets_cannot_be_used_are_refused_with_the_field(pushing, receiver, tmp_path):
    good, bad, gone = tmp_path / "good", tmp_path / "bad", tmp_path / "gone"
    good.write_text(HOOK + "\n")
    bad.write_text("hunter2 is no key")
    for target, field, says in (
            ({"sign": ["$NO_SUCH_HOOK"]}, "target.sign[0]", "$NO_SUCH_HOOK is not in the environment"),
            ({"sign": ["$HOOK", f"file:{gone}"]}, "target.sign[1]", f"file:{gone} cannot be read: No such"),
            ({"sign": ["$SHORT"]}, "target.sign[0]", "$SHORT is malformed"),
            ({"sign": [f"file:{good}", f"file:{bad}"]}, "target.sign[1]", f"file:{bad} is malformed"),
            ({"ca": str(gone)}, "target.ca", f"the file {gone} cannot be read: No such"),
            ({"ca": "/dev/null"}, "target.ca", "is a pipe or a device, not a file"),
            ({"certificate": str(good), "key": str(tmp_path)}, "target.key", "is a directory")):
        settings = {"target": {"type": "http", "url": receiver.url(), **target}}
        answer = pushing.request("PUT", "/v1/topics/tried", settings)
        said = answer.json()
        assert (answer.status, said["code"], said["field"]) == (400, "bad_field", field), answer
        assert says in said["detail"] and "hunter2" not in answer.text, answer
        assert pushing.get("/v1/topics/tried").status == 404
    # What sends nothing yet, and what is known to come later, is taken as it is.
    path = "/v1/topics/tried"
    assert pushing.request("PUT", path, {**settings, "paused": True}).status == 200
    assert pushing.request("PUT", path, {**settings, "paused": False}).status == 400
    assert pushing.request("PUT", path + "?check_secrets=false", settings).status == 200
    assert pushing.request("PUT", path + "?check_secrets=perhaps", settings).status == 400
    assert pushing.request("PUT", path + "?chek_secrets=false", settings).status == 400
    settings["target"].update(key=str(good), sign=["$HOOK", f"file:{good}"])
    assert pushing.request("PUT", path, settings).status == 200


def test_a_missing_secret_fails_the_job_by_the_name_of_its_reference(pushing, receiver, tmp_path):
    path = tmp_path / "hook"
    path.write_text(HOOK)
    set_target(pushing, "signed", receiver.url(), retry=None, sign=[f"file:{path}"])
    path.unlink()
    pushing.push_id("signed", id="s1", body="x")
    assert eventually(lambda: pushing.state("s1") == "buried")
    assert attempts(pushing, "s1")[-1]["reason"] == \
        f"the secret file:{path} cannot be read: No such file or directory"


def test_a_topic_that_is_held_back_names_the_receiver_whose_breaker_is_open(pushing, receiver):
    begun = time.monotonic()
    set_target(pushing, "sick", receiver.url("/status/500"))
    pushing.push_many("sick", [{"body": "x"}] * 12)
    address = receiver.url("/status/500").removesuffix("/status/500")
    assert held_by(pushing, "sick", "breaker") == address
    assert pushing.server.wait_log("breaker_opened")
    warnings = pushing.server.events("breaker_opened")
    assert len(warnings) <= 1 + (time.monotonic() - begun) // 10, warnings  # one each ten seconds
    assert f'receiver="{address}"' in warnings[0][1], warnings


def test_a_receiver_gets_no_more_than_push_host_rate_whatever_the_topics(laterd):
    server = laterd({"push": {**PUSH["push"], "host_rate": "4/s"}})
    with Client(server.port) as client, Receiver() as rated:
        begun = time.time()  # a receiver that is late notes the first later than it was sent
        for topic in ("a", "b"):
            set_target(client, topic, rated.url())
            client.push_many(topic, [{"body": "x"}] * 100)  # so that some wait for as long as anybody looks
        assert held_by(client, "a", "rate") == rated.url("")
        sent = rated.wait(8)
        assert sent[7].at - begun >= 0.9


def test_410_pauses_the_target_and_keeps_what_waits(pushing, receiver):
    set_target(pushing, "gone", receiver.url("/status/410"))
    pushing.push_id("gone", id="g1", body="x")
    assert eventually(lambda: pushing.state("g1") == "buried")
    assert eventually(lambda: pushing.get("/v1/topics/gone").json()["settings"].get("paused") is True)
    pushing.push_id("gone", id="g2", body="x")
    time.sleep(0.5)
    assert pushing.state("g2") == "ready"


def test_a_job_may_bring_its_own_url(pushing, receiver):
    before = len(receiver.requests)
    pushing.push_id("free", id="f1", body="x", url=receiver.url("/say/own"),
                    headers={"X-Own": "1"})
    request = receiver.wait(before + 1)[-1]
    assert request.words == ["say", "own"] and request.header("x-own") == "1"


def test_one_that_hangs_does_not_delay_others(pushing, receiver):
    with Receiver() as slow:
        set_target(pushing, "slow", slow.url("/hang"), retry=["1h"], **SOON)
        set_target(pushing, "fast", receiver.url())
        for number in range(100):
            pushing.push_id("slow", body=str(number))
        slow.wait(10)
        before = len(receiver.requests)
        begun = time.monotonic()
        for number in range(100):
            pushing.push_id("fast", body=str(number))
        receiver.wait(before + 100)
        soon(time.monotonic() - begun, 10)


def test_p6_sigterm_lets_what_is_on_the_wire_end(laterd, receiver, tmp_path):
    """What was not answered by then comes again after the restart: nothing is lost."""
    server = laterd({"push": dict(PUSH["push"]), "server": {"drain_seconds": "1"}})
    with Client(server.port) as client, Receiver() as slow:
        set_target(client, "t", slow.url("/hang"))
        client.push_id("t", id="j1", body="x")
        slow.wait(1)
        server.signal(signal.SIGTERM)
        assert server.wait(30) == 0
        server.start()
        slow.wait(2)


def test_p6_what_is_answered_while_a_server_stops_is_finished(laterd):
    server = laterd({"push": dict(PUSH["push"]), "server": {"drain_seconds": "20"}})
    with Client(server.port) as client, Receiver() as late:
        set_target(client, "t", late.url("/late/0.5"))
        client.push_id("t", id="j1", body="x")
        late.wait(1)
        server.signal(signal.SIGTERM)
        assert server.wait(30) == 0
        server.start()
        with Client(server.port) as again:
            assert again.get("/v1/jobs/j1").status == 404
        assert len(late.requests) == 1


def test_a_test_delivery_shows_what_came_back(pushing, receiver):
    set_target(pushing, "try", receiver.url("/say/hello"), sign=["$HOOK"])
    answer = pushing.post("/v1/topics/try/test", body="ping")
    assert answer.status == 200, answer
    told = answer.json()
    assert (told["outcome"], told["code"], told["response"]) == ("delivered", 200, "hello")
    assert receiver.requests[-1].body == b"ping"


@pytest.mark.parametrize("ordered", ["auto", "on", "off"])
def test_push_ordered_says_whether_topics_with_order_by_key_are_sent_here(laterd, receiver, ordered):
    server = laterd({"push": {**PUSH["push"], "ordered": ordered}})
    with Client(server.port) as client:
        before = len(receiver.requests)
        for topic, order in (("keyed", "key"), ("plain", "none")):
            target = {"type": "http", "url": receiver.url()}
            assert client.request("PUT", f"/v1/topics/{topic}", {"target": target, "order": order}).status == 200
            client.push_id(topic, id=f"{topic}-1", body="x", key="k")
        if ordered == "off":
            assert eventually(lambda: client.get("/v1/topics/keyed").json().get("held") == "others")
            assert receiver.wait(before + 1)[before].header("laterd-topic") == "plain"
            assert client.state("keyed-1") == "ready"
        else:
            receiver.wait(before + 2)


def test_a_client_that_releases_a_job_of_an_ordered_topic_while_it_is_sent_has_it_sent_again(pushing, receiver):
    before = len(receiver.requests)
    target = {"type": "http", "url": receiver.url("/late/1")}
    assert pushing.request("PUT", "/v1/topics/keyed", {"target": target, "order": "key"}).status == 200
    pushing.push_id("keyed", id="first", body="x", key="k")  # with each healthy answer more are reserved
    eventually(lambda: pushing.get("/v1/jobs/first").status == 404)
    pushing.push_id("keyed", id="again", body="x", key="k")
    receiver.wait(before + 2)
    assert pushing.job("again", "release", delay="0s").status == 200
    sent = receiver.wait(before + 3)[before:]
    assert [request.header("laterd-job-id") for request in sent] == ["first", "again", "again"]
    eventually(lambda: pushing.get("/v1/jobs/again").status == 404)


def test_push_job_targets_off_stops_urls_that_were_stored_before(laterd, receiver):
    server = laterd(PUSH)
    before = len(receiver.requests)
    with Client(server.port) as client:
        set_target(client, "own", receiver.url())
        client.push_id("own", id="own-1", body="x", delay="1h", url=receiver.url("/status/200"))
        client.push_id("own", id="own-2", body="y", delay="1h")
    server.stop()
    server.config["push"]["job_targets"] = "off"
    server.start()
    with Client(server.port) as client:
        assert client.job("own-1", "run").status == client.job("own-2", "run").status == 200
        assert eventually(lambda: client.state("own-1") == "buried")
        note, = attempts(client, "own-1")
        assert note["reason"] == "the job has a URL of its own, and push.job_targets is off"
        assert receiver.wait(before + 1)[before].body == b"y"
        assert len(receiver.requests) == before + 1


@pytest.mark.parametrize("field", ["ca", "certificate", "key"])
def test_a_pipe_in_place_of_a_file_does_not_stop_all_webhooks(pushing, receiver, tmp_path, field):
    """It would be opened when something is sent, which waits until somebody writes to the pipe."""
    pipe, paths = str(tmp_path / "pipe"), make_certificates(str(tmp_path))
    os.mkfifo(pipe)
    with Receiver(tls=server_context(paths)) as safe:
        files = {"ca": paths["ca.pem"], "certificate": paths["client.pem"], "key": paths["client.key"], field: pipe}
        settings = {"target": {"type": "http", "url": safe.url(), **files}, "attempts": 1}
        assert pushing.request("PUT", "/v1/topics/pipe?check_secrets=false", settings).status == 200
        pushing.push_id("pipe", id="stuck")
        failed = eventually(lambda: attempts(pushing, "stuck"))
        assert "it is not a regular file" in failed[0]["reason"], failed
        set_target(pushing, "others", receiver.url())
        before = len(receiver.requests)
        pushing.push_id("others", id="goes")
        receiver.wait(before + 1)
