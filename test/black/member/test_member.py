"""[member]: one laterd of several leads and serves, the others wait. On a Redis that elects; what the
services differ in is in test_election.py. The embedded engine unless a test says otherwise."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
from coordination import RedisService, until
from front import certificates
from patience import PATIENCE_S, TooLate, soon
from ports import free_port
from process import LATER, LATERD, ROOT, DidNotStart, Laterd
from push import preloaded
from redis import Redis
from silent import SilentBroker
from wire import Client, Closed, Wire, request_bytes

TIMEOUT_S = 2

pytestmark = [pytest.mark.skipif(not RedisService.installed, reason="redis-server is not installed"),
              pytest.mark.embedded("starts its own Redis, and chooses the engine itself")]


@pytest.fixture(scope="module", name="service")
def a_service():
    with RedisService() as running:
        yield running


@pytest.fixture(name="member")
def a_member(service, tmp_path, request):
    """Makes laterds of this test's own election, with one data directory."""
    made = []

    def make(config=None, beanstalk=(), **options):
        number = len(made)
        name = re.sub(r"\W", "-", request.node.name)[:60]
        whole = {"member": {"url": service.url, "name": name, "timeout": f"{TIMEOUT_S}s"},
                 **(config or {})}
        laterd = Laterd(tmp_path / f"laterd{number}", whole,
                        listeners=(f"127.0.0.1:{free_port()}",), data=str(tmp_path / "data"),
                        beanstalk=beanstalk, **options)
        made.append(laterd)
        return laterd

    yield make
    for laterd in made:
        if laterd.process and laterd.process.poll() is None:
            laterd.signal(signal.SIGCONT)
            laterd.kill()


def ask(laterd, path):
    try:
        with Client(laterd.port, seconds=PATIENCE_S) as client:
            return client.get(path)
    except (Closed, OSError):
        return None


def serves(laterd):
    answer = ask(laterd, "/readyz")
    return answer is not None and answer.status == 200


def facts(laterd, event, number=0):
    """What the log said with that event, the first time or another."""
    return laterd.events(event)[number][1]


def cluster(laterd):
    answer = ask(laterd, "/v1/cluster")
    return answer.json() if answer else {}


def two(member, **options):
    """(leader, the one that waits and knows it)"""
    first, second = member(**options), member(**options)
    first.start()
    until(lambda: serves(first), 3 * TIMEOUT_S)
    second.start()
    until(lambda: cluster(second).get("leader") == f"http://127.0.0.1:{first.port}", 5)
    return first, second


def test_one_serves_and_the_other_says_who(member):
    leader, waits = two(member)
    assert ask(waits, "/healthz").status == 200
    ready = ask(waits, "/readyz")
    assert ready.status == 503 and f"127.0.0.1:{leader.port}" in ready.text
    metrics = ask(waits, "/metrics").text
    assert "laterd_member_leads 0\n" in metrics and "laterd_ready 0\n" in metrics
    assert "laterd_member_leads 1\n" in ask(leader, "/metrics").text
    said = cluster(waits)
    assert (said["role"], said["serving"], said["election"]) == ("waiting", False, True)
    assert said["epoch"] == cluster(leader)["epoch"] > 0
    assert f"leader=http://127.0.0.1:{leader.port} epoch={said['epoch']}" in facts(waits, "waits", -1)
    assert cluster(leader)["serving"] and cluster(leader)["role"] == "leading"


def test_who_waits_refuses_everything_else_in_every_dialect(member):
    leader, waits = two(member, beanstalk=["127.0.0.1:0"])
    with Client(waits.port) as client:
        for answer in (client.push("t", body="x"), client.post("/v1/reserve", {"topics": ["t"]}),
                       client.get("/v1/stats"), client.get("/v1/limits"), client.get("/")):
            assert answer.status == 503, answer
            assert answer.json()["code"] == "not_leader"
            assert f"127.0.0.1:{leader.port}" in answer.json()["detail"]
        answer = client.post("/pop", {"topic": "t"})
        assert answer.status == 503 and answer.json()["code"] == 1
    from beanstalk import Connection
    with Connection(waits.beanstalk_port) as connection:
        assert connection.ask("put 0 0 60 1", b"x").text == "DRAINING"
        assert connection.ask("reserve-with-timeout 0").text == "INTERNAL_ERROR"


def test_kill_9_is_taken_over_within_the_timeout_and_a_second_and_nothing_is_lost(member):
    leader, waits = two(member)
    with Client(leader.port) as client:
        for i in range(50):
            assert client.push("t", body="x", id=f"j{i}").status == 201
    begun = time.monotonic()
    leader.kill()
    until(lambda: serves(waits), TIMEOUT_S + 1)
    soon(time.monotonic() - begun, TIMEOUT_S + 1)
    with Client(waits.port) as client:
        assert len(client.reserve("t", most=100)) == 50


@pytest.mark.deadline
def test_a_clean_stop_is_taken_over_at_once(member):
    leader, waits = two(member)
    begun = time.monotonic()
    leader.signal(signal.SIGTERM)
    until(lambda: serves(waits), 5)
    soon(time.monotonic() - begun, 0.2)
    assert leader.wait() == 0


def test_a_stopped_leader_hands_out_and_acknowledges_nothing_when_it_wakes(member):
    """The session expired while it was paused; on this machine its store stays locked."""
    leader, waits = two(member)
    answers = []

    def consume():
        try:
            with Client(leader.port, seconds=30) as client:
                answers.append(client.post("/v1/reserve", {"topics": ["t"], "wait": "60s"}))
        except (Closed, OSError):
            answers.append(None)

    pushing = time.monotonic()
    with Client(leader.port) as client:
        assert client.push("t", body="x", delay="2s").status == 201
    consumer = threading.Thread(target=consume)
    consumer.start()
    until(lambda: "laterd_waiting 1\n" in ask(leader, "/metrics").text, 5)
    leader.signal(signal.SIGSTOP)
    soon(time.monotonic() - pushing, 2)  # else the job was due before
    until(lambda: waits.events("store_locked"), 3 * TIMEOUT_S)
    assert not serves(waits)  # the job is due by now; whoever is stopped is not to hand it out
    leader.signal(signal.SIGCONT)
    consumer.join(PATIENCE_S)
    assert answers == [None]
    until(lambda: leader.events("leads_no_longer"), 5)
    assert "this process did not run" in facts(leader, "leads_no_longer")
    until(lambda: serves(waits), 5)
    until(lambda: cluster(leader).get("role") == "waiting", 5)
    with Client(waits.port) as client:
        assert len(client.reserve("t", wait=5000)) == 1


@pytest.mark.parametrize("engine", ["redis"])
def test_on_redis_a_stopped_leader_is_replaced_while_it_is_stopped(member, service, engine):
    leader, waits = two(member, config={"engine": {"engine": engine},
                                        "redis": {"url": service.url, "prefix": "stopped"}})
    with Client(leader.port) as client:
        assert client.push("t", body="x").status == 201
    begun = time.monotonic()
    leader.signal(signal.SIGSTOP)
    until(lambda: serves(waits), TIMEOUT_S + 1)
    soon(time.monotonic() - begun, TIMEOUT_S + 1)
    with Client(waits.port) as client:
        assert len(client.reserve("t")) == 1
    leader.signal(signal.SIGCONT)
    until(lambda: leader.events("leads_no_longer"), 5)
    until(lambda: cluster(leader).get("role") == "waiting", 5)
    assert serves(waits)


def opened_ms(laterd):
    return int(re.search(r"opened_ms=(\d+)", facts(laterd, "leads", -1)).group(1))


@pytest.mark.deadline
def test_on_redis_who_waits_has_all_ready_to_serve(member, service):
    """Connections, scripts and partitions; a takeover then takes a round trip."""
    leader, waits = two(member, config={"engine": {"engine": "redis"},
                                        "redis": {"url": service.url, "prefix": "warm"}})
    assert waits.wait_log("standby_ready", 10)
    with Client(leader.port) as client:
        assert client.request("PUT", "/v1/topics/t", {"ttr": "9s"}).status == 200
        assert client.push("t", body="x", delay="1s").status == 201
    begun = time.monotonic()
    leader.signal(signal.SIGTERM)
    until(lambda: serves(waits), 5)
    soon(time.monotonic() - begun, 0.2)
    assert waits.wait_log("leads", 5)
    soon(opened_ms(waits) / 1000, 0.010)
    with Client(waits.port) as client:
        assert client.get("/v1/topics/t").json()["settings"]["ttr"] == "9s"
        assert len(client.reserve("t", wait=5000)) == 1
    assert leader.wait() == 0
    leader.start()
    assert leader.wait_log("standby_ready", 10)


def test_on_redis_who_waits_says_what_would_keep_it_from_serving(member, service):
    leader = member(config={"engine": {"engine": "redis"}, "redis": {"url": service.url, "prefix": "unfit"}})
    leader.start()
    until(lambda: serves(leader), 5)
    other = member(config={"engine": {"engine": "redis"},
                           "redis": {"url": service.url, "prefix": "unfit", "partitions": 3}})
    other.start()
    assert other.wait_log("standby_unfit", 10)
    assert "redis.partitions" in facts(other, "standby_unfit")
    away = member(config={"engine": {"engine": "redis"},
                          "redis": {"url": f"redis://127.0.0.1:{free_port()}", "prefix": "unfit"}})
    away.start()
    assert away.wait_log("standby_waiting", 10)
    assert ask(away, "/healthz").status == 200 and serves(leader)


def test_on_redis_who_waits_takes_the_partitions_that_the_queue_has(member, service):
    queue = {"url": service.url, "prefix": "eight"}
    leader = member(config={"engine": {"engine": "redis"}, "redis": {**queue, "partitions": 8}})
    leader.start()
    until(lambda: serves(leader), 5)
    other = member(config={"engine": {"engine": "redis"}, "redis": queue})
    other.start()
    assert other.wait_log("standby_ready", 10)
    assert "partitions=8" in facts(other, "standby_ready") and not other.events("standby_unfit")
    leader.kill()
    until(lambda: serves(other), 20)


def test_on_redis_who_leads_before_it_knows_the_partitions_takes_them(laterd, member, service, request):
    """The queue's Redis hangs until the election is won."""
    with Redis() as queues:
        laterd({"engine": {"engine": "redis"}, "redis": {"url": queues.url, "partitions": 8}}).stop()
        queues.process.send_signal(signal.SIGSTOP)
        leader = member(config={"engine": {"engine": "redis"}, "redis": {"url": queues.url}})
        leader.start()
        until(lambda: service.call("HGET", "laterd:member:" + re.sub(r"\W", "-", request.node.name)[:60], "holder"), 10)
        queues.process.send_signal(signal.SIGCONT)
        until(lambda: serves(leader), 5)
        assert not leader.events("cannot_lead")


def test_an_earlier_life_that_leads_still_is_named(member):
    laterd = member().start()
    until(lambda: serves(laterd), 5)
    laterd.listeners = [f"127.0.0.1:{laterd.port}"]
    laterd.kill()
    laterd.start()
    until(lambda: laterd.events("waits") or laterd.events("leads"), 10)
    if not laterd.events("waits"):
        raise TooLate("the earlier life's time was over when this one began")
    assert "an earlier life of this laterd" in facts(laterd, "waits")
    ready = ask(laterd, "/readyz")
    if laterd.events("leads"):
        raise TooLate("it led before it was asked")
    assert ready.status == 503 and "an earlier life of this laterd" in ready.text
    until(lambda: serves(laterd), 3 * TIMEOUT_S)


def test_without_the_service_nobody_leads_and_it_says_why(tmp_path):
    with RedisService() as service:
        laterd = Laterd(tmp_path, {"member": {"url": service.url, "timeout": "1s"}},
                        listeners=(f"127.0.0.1:{free_port()}",))
        try:
            laterd.start()
            until(lambda: serves(laterd), 5)
            service.kill()
            until(lambda: laterd.events("leads_no_longer"), 5)
            until(lambda: cluster(laterd).get("connected") is False, 5)
            assert "serves until two thirds" in facts(laterd, "member_away")
            assert 'why="Redis is away' in facts(laterd, "leads_no_longer")
            ready = ask(laterd, "/readyz")
            assert ready.status == 503 and "Redis is away" in ready.text
            service.start()
            until(lambda: len(laterd.events("leads")) >= 2, 10)
            assert laterd.events("member_back")
            until(lambda: serves(laterd), 10)
            assert cluster(laterd)["epoch"] > 1
        finally:
            laterd.kill()


def test_it_starts_while_the_service_is_away_and_leads_when_it_is_there(tmp_path):
    service = RedisService()
    laterd = Laterd(tmp_path, {"member": {"url": service.url, "timeout": "1s"}},
                    listeners=(f"127.0.0.1:{free_port()}",))
    try:
        laterd.start()
        until(lambda: "Redis is away" in (cluster(laterd).get("why") or ""), 5)
        until(lambda: laterd.events("member_away"), 5)
        assert "service=redis" in facts(laterd, "member_away")
        assert "without it nobody begins to lead" in facts(laterd, "member_away")
        service.start()
        until(lambda: serves(laterd), 10)
    finally:
        laterd.kill()
        service.close()


def test_a_row_that_was_deleted_or_written_by_hand_is_named_as_the_reason(member, service, request):
    name = re.sub(r"\W", "-", request.node.name)[:60]
    laterd = member(config={"member": {"url": service.url, "name": name, "timeout": "1s"}}).start()
    until(lambda: serves(laterd), 5)
    service.call("DEL", f"laterd:member:{name}")
    until(lambda: laterd.events("leads_no_longer"), 5)
    assert "was deleted by hand" in facts(laterd, "leads_no_longer")
    until(lambda: len(laterd.events("leads")) >= 2, 5)  # by itself: nobody connects meanwhile
    service.call("HSET", f"laterd:member:{name}", "holder", "another", "epoch", "40")
    until(lambda: len(laterd.events("leads_no_longer")) == 2, 5)
    assert "newest_epoch=40" in facts(laterd, "leads_no_longer", 1)
    assert "was written by another" in facts(laterd, "leads_no_longer", 1)


def test_a_service_that_forgot_the_epoch_is_given_a_higher_one(member, service, request):
    laterd = member()
    laterd.start()
    until(lambda: serves(laterd), 5)
    laterd.stop()
    laterd.start()
    until(lambda: serves(laterd), 5)
    assert cluster(laterd)["epoch"] == 2
    laterd.kill()
    service.call("DEL", "laterd:member:" + re.sub(r"\W", "-", request.node.name)[:60])
    laterd.start()
    until(lambda: serves(laterd), 3 * TIMEOUT_S)
    assert laterd.events("epoch_raised")
    assert cluster(laterd)["epoch"] == 3


def test_a_store_that_was_led_needs_an_election_or_the_word_alone(member):
    laterd = member()
    laterd.start()
    until(lambda: serves(laterd), 5)
    with Client(laterd.port) as client:
        assert client.push("t", body="x").status == 201
    laterd.stop()
    laterd.config = {}
    with pytest.raises(DidNotStart, match="in epoch 1 of an election, and .member. is not set"):
        laterd.start()
    laterd.config = {"member": {"url": "alone"}}
    laterd.start()
    until(lambda: serves(laterd), 5)
    with Client(laterd.port) as client:
        assert len(client.reserve("t")) == 1


def test_who_cannot_open_its_store_lets_others_try(member, tmp_path):
    broken, good = member(), member()
    broken.data = str(tmp_path / "not" / "there")
    broken.start()
    until(lambda: broken.events("cannot_lead"), 3 * TIMEOUT_S)
    good.start()
    until(lambda: serves(good), 3 * TIMEOUT_S)
    assert not serves(broken)


@pytest.mark.parametrize("url, words", [
    ("consul://h", "must begin with zookeeper://"),
    ("mysql://h/db", "user is missing"),
    ("mysql://u@h", "database is missing"),
    ("mysql://u@h/db?tls=maybe", "tls=on or tls=verify"),
    ("zookeeper://h:99999", "its port is not a number from 1 to 65535"),
    ("zookeeper://u:secret@h/ns", "not supported"),
    ("redis://h:x", "url"),
    ("alone!", "nothing comes behind"),
])
def test_a_wrong_url_is_refused_by_its_line_and_without_the_password(tmp_path, url, words):
    path = tmp_path / "laterd.conf"
    path.write_text(f"[member]\nurl = {url}\n", encoding="utf-8")
    done = subprocess.run([LATERD, "-c", str(path), "--check-config"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 2 and words in done.stderr and "laterd.conf:2" in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize("url, words", [
    ("$NO_SUCH_VARIABLE", "NO_SUCH_VARIABLE"), ("file:/no/such/file", "/no/such/file: No such file")])
def test_a_url_that_cannot_be_read_may_be_there_at_the_next_start(tmp_path, url, words):
    path = tmp_path / "laterd.conf"
    path.write_text(f"[member]\nurl = {url}\n", encoding="utf-8")
    done = subprocess.run([LATERD, "-c", str(path), "--check-config"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1 and words in done.stderr and "laterd.conf:2" in done.stderr, done.stderr


def test_a_url_in_a_file_that_is_too_long_is_not_cut(tmp_path):
    secret = tmp_path / "url"
    secret.write_text("zookeeper://" + "h1:2181," * 70 + "h2:2181/ns\n", encoding="utf-8")
    path = tmp_path / "laterd.conf"
    path.write_text(f"[member]\nurl = file:{secret}\n", encoding="utf-8")
    done = subprocess.run([LATERD, "-c", str(path), "--check-config"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 2 and "member.url: longer than 511 bytes" in done.stderr, done.stderr


@pytest.mark.parametrize("key, value, words", [
    ("name", "a b", "letters"), ("advertise", "queue1:9277", "must be a URL"),
    ("advertise", "http://", "must be a URL"), ("advertise", "https://:9277", "must be a URL"),
    ("timeout", "100ms", "1s")])
def test_a_wrong_value_is_refused(tmp_path, key, value, words):
    path = tmp_path / "laterd.conf"
    path.write_text(f"[member]\nurl = alone\n{key} = {value}\n", encoding="utf-8")
    done = subprocess.run([LATERD, "-c", str(path), "--check-config"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 2 and words in done.stderr, done.stderr


def test_a_member_ca_of_mysql_that_cannot_be_read_is_reported(tmp_path):
    path = tmp_path / "laterd.conf"
    for query, refused in (("?tls=verify", True), ("?tls=on", False)):
        path.write_text(f"[member]\nurl = mysql://u@h/db{query}\nca = /nowhere\n", encoding="utf-8")
        done = subprocess.run([LATERD, "-c", str(path), "--check-config"], capture_output=True, text=True,
                              check=False)
        assert done.returncode == (1 if refused else 0), done.stderr
        assert ("member.ca: it cannot be read" in done.stderr) == refused
        assert ("member.ca has no effect" in done.stderr) != refused


@pytest.mark.parametrize("url, plugin, package", [
    ("zookeeper://h", "laterd-zookeeper.so", "libzookeeper-mt2"),
    ("mysql://u@h/db", "laterd-member-mysql.so", "libmariadb3")])
def test_a_missing_plugin_is_named_with_its_package(tmp_path, url, plugin, package):
    alone = tmp_path / "laterd"
    shutil.copy(LATERD, alone)
    path = tmp_path / "laterd.conf"
    path.write_text(f"[member]\nurl = {url}\n", encoding="utf-8")
    done = subprocess.run([alone, "-c", str(path), "--check-config"], capture_output=True, text=True,
                          check=False)
    assert done.returncode != 0
    assert plugin in done.stderr and f"apt-get install {package}" in done.stderr


def test_later_cluster_shows_it_and_exits_by_it(member):
    leader, waits = two(member)
    for laterd, code, role in ((leader, 0, "leading"), (waits, 1, "waiting")):
        done = subprocess.run([LATER, "-s", f"http://127.0.0.1:{laterd.port}", "cluster"],
                              capture_output=True, text=True, check=False)
        assert done.returncode == code, done
        assert role in done.stdout and f"http://127.0.0.1:{leader.port}" in done.stdout
        done = subprocess.run([LATER, "-s", f"http://127.0.0.1:{laterd.port}", "--json", "cluster"],
                              capture_output=True, text=True, check=False)
        assert json.loads(done.stdout)["role"] == role


def test_without_an_election_it_serves_and_says_so(laterd):
    with laterd() as server:
        said = cluster(server)
        assert (said["election"], said["role"], said["serving"]) == (False, "leading", True)
        assert "laterd_member" not in ask(server, "/metrics").text


def test_without_an_election_all_on_a_redis_are_active(laterd):
    with RedisService() as redis:
        keys = {"engine": {"engine": "redis"}, "redis": {"url": redis.url}}
        for server in (laterd(keys), laterd(keys)):
            with server:
                until(lambda server=server: cluster(server).get("serving"), 20)
                said = cluster(server)
                assert (said["election"], said["role"], said["leader"], said["why"]) == (False, "active", None, None)
                done = subprocess.run([LATER, "-s", f"http://127.0.0.1:{server.port}", "cluster"],
                                      capture_output=True, text=True, check=False)
                assert done.returncode == 0, done
                assert "active for " in done.stdout and "all daemons on this Redis serve" in done.stdout


def test_who_leads_reads_a_password_that_was_replaced(member, tmp_path):
    """A renewal over a new connection needs it: without it the term ends."""
    with RedisService() as redis:
        def write(password):
            (tmp_path / "new").write_text(f"redis://:{password}@127.0.0.1:{redis.port}\n", encoding="utf-8")
            os.rename(tmp_path / "new", tmp_path / "url")
        redis.call("CONFIG", "SET", "requirepass", "0ld")
        redis.password = "0ld"
        write("0ld")
        laterd = member({"member": {"url": f"file:{tmp_path}/url", "timeout": f"{TIMEOUT_S}s"}})
        laterd.start()
        until(lambda: serves(laterd), 3 * TIMEOUT_S)
        write("n3w")
        redis.call("CONFIG", "SET", "requirepass", "n3w")
        redis.password = "n3w"
        redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(2 * TIMEOUT_S)  # a term that is not renewed is over then
        assert serves(laterd) and not laterd.events("leads_no_longer")


# ---- behind a balancer ----


def program(name):
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")


def recipe(kind, leader, waits, port):
    """The page's configuration of that kind, with our addresses; who waits is the first."""
    with open(os.path.join(ROOT, "docs", "high-availability.md"), encoding="utf-8") as page:
        found = re.search(rf"```{kind}\n(.*?)```", page.read(), re.DOTALL).group(1)
    return (found.replace("10.0.0.1:9277", f"127.0.0.1:{waits.port}")
            .replace("10.0.0.2:9277", f"127.0.0.1:{leader.port}")
            .replace("listen 80;", f"listen 127.0.0.1:{port};").replace("bind :80", f"bind 127.0.0.1:{port}"))


def finds_who_leads(command, port, leader):
    """Jobs that are pushed through the balancer all reach the one that serves, before and after a takeover."""
    balancer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def push(number):
            try:
                with Client(port) as client:
                    return client.push("t", body="x", id=f"n{number}", if_exists="keep").status
            except (Closed, OSError):
                return 0
        until(lambda: all(push(0) in (200, 201) for _ in range(4)), 5)
        forgets_a_poll_whose_client_goes(port, leader)
        for number in range(1, 21):
            assert push(number) == 201
        leader.signal(signal.SIGTERM)
        leader.wait()
        until(lambda: push(21) in (200, 201), 5)
        with Client(port) as client:
            assert len(client.reserve("t", most=100)) == 22
    finally:
        balancer.terminate()
        balancer.wait()


def forgets_a_poll_whose_client_goes(port, leader):
    """Else the next job would be given to nobody, and wait for the end of its ttr."""
    with Client(leader.port) as client:
        def waiters():
            return client.get("/v1/topics/polled").json().get("waiters", 0)
        wire = Wire(port)
        wire.send(request_bytes("POST", "/v1/reserve", b'{"topics":["polled"],"wait":"600s"}',
                                {"Content-Type": "application/json"}))
        until(lambda: waiters() == 1, 5)
        wire.close()
        until(lambda: waiters() == 0, 5)


@pytest.mark.skipif(not program("nginx"), reason="nginx is not installed")
def test_the_nginx_of_the_documentation_finds_the_leader(member, tmp_path):
    leader, waits = two(member)
    port = free_port()
    path = tmp_path / "nginx.conf"
    path.write_text(f"pid {tmp_path}/nginx.pid;\nerror_log {tmp_path}/error.log;\ndaemon off;\n"
                    "events {}\nhttp {\naccess_log off;\n"
                    + "".join(f"{kind}_temp_path {tmp_path}/{kind};\n" for kind in
                              ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
                    + recipe("nginx", leader, waits, port) + "}\n", encoding="utf-8")
    finds_who_leads([program("nginx"), "-c", str(path)], port, leader)


@pytest.mark.skipif(not program("haproxy"), reason="haproxy is not installed")
def test_the_haproxy_of_the_documentation_finds_the_leader(member, tmp_path):
    leader, waits = two(member)
    port = free_port()
    path = tmp_path / "haproxy.cfg"
    path.write_text(recipe("haproxy", leader, waits, port), encoding="utf-8")
    done = subprocess.run([program("haproxy"), "-c", "-f", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "[WARNING]" not in done.stderr, done.stderr
    finds_who_leads([program("haproxy"), "-db", "-f", str(path)], port, leader)


@pytest.mark.skipif(not os.path.exists(os.path.join(os.path.dirname(LATERD), "laterd-amqp.so")),
                    reason="librabbitmq was not there when it was built")
def test_who_no_longer_leads_answers_while_a_broker_hangs(service, member):
    broker = SilentBroker()
    url = f"amqp://127.0.0.1:{broker.port}/%2f"
    laterd = member({"broker.rabbit": {"type": "amqp", "url": url, "timeout": "10s"},
                     "amqp_in.in": {"broker": "rabbit", "queue": "q", "target": "e", "topic": "in"}})
    laterd.start()
    until(lambda: serves(laterd), 3 * TIMEOUT_S)
    until(lambda: len(broker.connections) >= 2, 10)  # both wait for its first word
    service.freeze()
    try:
        assert laterd.wait_log("leads_no_longer")
        slowest, begun = 0.0, time.monotonic()
        while not laterd.events("leader_closed") and time.monotonic() < begun + PATIENCE_S:
            asked = time.monotonic()
            answer = ask(laterd, "/healthz")
            slowest = max(slowest, time.monotonic() - asked)
            assert answer is not None and answer.status == 200
    finally:
        service.thaw()
    assert int(re.search(r"closed_ms=(\d+)", facts(laterd, "leader_closed")).group(1)) >= 900  # it was waited for
    soon(slowest, 0.3)
    until(lambda: serves(laterd), 5 * TIMEOUT_S)  # and leads again
    broker.close()


@pytest.mark.skipif(not all(os.path.exists(os.path.join(os.path.dirname(LATERD), f"laterd-{name}.so"))
                            for name in ("amqp", "nats")),
                    reason="librabbitmq or libnats was not there when it was built")
def test_who_cannot_open_all_answers_while_a_broker_hangs(member, tmp_path):
    """The first broker is connected to when the second one's options are not taken any more."""
    broker = SilentBroker()
    ca = certificates(tmp_path) / "ca.crt"
    good = ca.read_text(encoding="ascii")
    brokers = {"broker.rabbit": {"type": "amqp", "url": f"amqp://127.0.0.1:{broker.port}/%2f", "timeout": "10s"},
               "broker.nats": {"type": "nats", "url": "nats+tls://127.0.0.1:1", "ca": str(ca)}}
    leader, waits = member(), member(brokers)
    leader.start()
    until(lambda: serves(leader), 3 * TIMEOUT_S)
    waits.start()
    until(lambda: cluster(waits).get("role") == "waiting", 5)
    ca.write_text("this is no certificate", encoding="ascii")
    leader.kill()
    slowest, begun = 0.0, time.monotonic()
    while not waits.events("cannot_lead") and time.monotonic() < begun + PATIENCE_S:
        asked = time.monotonic()
        assert ask(waits, "/healthz").status == 200
        slowest = max(slowest, time.monotonic() - asked)
    assert waits.events("cannot_lead")
    soon(slowest, 0.3)
    ca.write_text(good, encoding="ascii")
    until(lambda: serves(waits), 15)  # its rest is over, and the thread has ended
    broker.close()


@pytest.mark.skipif(not os.path.exists(os.path.join(os.path.dirname(LATERD), "laterd-amqp.so")),
                    reason="librabbitmq was not there when it was built")
def test_many_intakes_of_a_broker_that_hangs_are_waited_for_together(member):
    broker = SilentBroker()
    intakes = {f"amqp_in.in{i}": {"broker": "rabbit", "queue": "q", "target": "e", "topic": "in"} for i in range(4)}
    url = f"amqp://127.0.0.1:{broker.port}/%2f"
    laterd = member({"broker.rabbit": {"type": "amqp", "url": url, "timeout": "30s"}, **intakes})
    laterd.start()
    until(lambda: serves(laterd), 3 * TIMEOUT_S)
    until(lambda: len(broker.connections) >= 5, 10)  # all wait for its first word
    begun = time.monotonic()
    laterd.signal(signal.SIGTERM)
    assert laterd.wait() == 0
    soon(time.monotonic() - begun, 3)  # each alone takes 2 s
    broker.close()


def test_who_cannot_end_its_webhooks_says_so_and_gives_the_lead_back(service, member, tmp_path):
    """No other laterd is there: it is elected again while the thread still hangs."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        laterd = member({"push": {"allow": "127.0.0.1"}}, environment=preloaded("slow_join", str(tmp_path)))
        laterd.start()
        until(lambda: serves(laterd), 3 * TIMEOUT_S)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with Client(laterd.port) as client:
            assert client.request("PUT", "/v1/topics/t", {"target": {"type": "http", "url": url}}).status < 300
            assert client.push("t", body="x").status == 201
            until(lambda: client.get("/v1/topics/t").json()["reserved"] == 1, 5)
        begun = time.monotonic()
        service.freeze()
        try:
            assert laterd.wait_log("leads_no_longer")
        finally:
            service.thaw()
        until(lambda: laterd.events("leaving_long"), 8)
        assert 'waits_for="webhooks"' in facts(laterd, "leaving_long")
        until(lambda: cluster(laterd).get("role") == "waiting", 2)  # resigned: it does not lead without a store
        closed = laterd.events("leader_closed")
        soon(time.monotonic() - begun, 9)  # the thread ends by itself after that
        assert not closed
        assert ask(laterd, "/healthz").status == 200
        until(lambda: laterd.events("leader_closed"), 10)
        until(lambda: serves(laterd), 15)  # and takes part again
        assert len(laterd.events("leaving_long")) == 1


def test_p6_the_end_waits_five_seconds_for_a_thread_and_gives_all_back(laterd, tmp_path):
    """As with a name server that is silent: nothing breaks the thread's call."""
    from beanstalk import Connection
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = {"push": {"allow": "127.0.0.1"}, "server": {"drain_seconds": "0s"}}
        server = laterd(config, beanstalk=["127.0.0.1:0"], environment=preloaded("slow_join", str(tmp_path)))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with Client(server.port) as client, Connection(server.beanstalk_port) as worker:
            assert client.request("PUT", "/v1/topics/t", {"target": {"type": "http", "url": url}}).status < 300
            assert client.push("t", id="sent", body="x", ttr="300s").status == 201
            assert client.push("other", id="kept", body="x").status == 201
            held = worker.put(ttr=300)
            assert worker.reserve()[0] == held
            until(lambda: client.get("/v1/topics/t").json()["reserved"] == 1, 5)
            assert client.request("POST", "/v1/topics/t/pause").status == 204  # the next start sends nothing
            begun = time.monotonic()
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
        assert time.monotonic() - begun >= 5
        soon(time.monotonic() - begun, 8.5)  # the thread says for 9 s that it has not ended
        assert 'waits_for="webhooks"' in facts(server, "ended_beside_thread") and server.events("stopped")
        server.environment.pop("LD_PRELOAD")
        server.start()
        with Client(server.port) as client, Connection(server.beanstalk_port) as worker:
            assert client.get("/v1/jobs/kept").json()["state"] == "ready"
            sent = client.get("/v1/jobs/sent").json()
            assert sent["state"] == "ready" and sent["failures"] == 0, sent
            assert worker.state(held) == "ready"
        assert "dropped_tail_bytes=0" in facts(server, "store_opened")


def test_later_cluster_asks_again_when_a_takeover_drops_its_connection():
    """The first connection is closed before the answer, as by one that begins to lead."""
    said = {"role": "leading", "serving": True, "election": True, "role_ms": 1, "epoch": 7}
    body = json.dumps(said).encode()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer(drops):
            for drop in drops:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    if not drop:
                        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                           b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

        for drops, code in (((True, False), 0), ((True, True), 5)):
            thread = threading.Thread(target=answer, args=(drops,))
            thread.start()
            server = f"http://127.0.0.1:{listener.getsockname()[1]}"
            ended = subprocess.run([LATER, "cluster", "-s", server], capture_output=True, text=True,
                                   timeout=PATIENCE_S, check=False)
            thread.join()
            assert ended.returncode == code, ended
