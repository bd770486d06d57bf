"""Passwords of Redis that are kept in files: redis.url and redis.sentinel_password as $NAME and file:/PATH, and a
password that is replaced while laterd runs."""

import os
import signal
import subprocess
import time

import pytest
from ports import free_port
from process import LATERD, Laterd, config_text
from redis import REDIS_SERVER, Cluster, Redis, Sentinels, config, wait_until
from wire import Client, Closed

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")

OLD, NEW = "0ld-secret", "n3w-secret"
USER_RULES = ("~*", "&*", "+@all")


class Line:
    """A file with one line, replaced as the manual says: another file, then `mv`."""

    def __init__(self, path):
        self.path = str(path)
        self.reference = f"file:{path}"

    def write(self, text):
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(text + "\n")
        os.rename(self.path + ".new", self.path)

    def remove(self):
        os.remove(self.path)


@pytest.fixture(name="line")
def a_line(tmp_path):
    return Line(tmp_path / "redis.url")


def make_user(*servers):
    for server in servers:
        server.call("ACL", "SETUSER", "jobs", "reset", "on", f">{OLD}", *USER_RULES)


def with_password(url, password):
    return url.replace("://", f"://jobs:{password}@", 1)


def take_only_new(*servers):
    for server in servers:
        server.call("ACL", "SETUSER", "jobs", "resetpass", f">{NEW}")


def kill_all(*servers):
    """Connections of subscribers are of another type."""
    for server in servers:
        server.call("CLIENT", "KILL", "USER", "jobs")


def connections(server, user="jobs"):
    return server.call("CLIENT", "LIST").decode().count(f" user={user} ")


def serves(server):
    try:
        with Client(server.port) as client:
            return client.get("/readyz").status == 200 and client.push("t", body="x").status == 201
    except (Closed, OSError):
        return False


def hides(server):
    assert not any(word in said for said in server.lines for word in (OLD, NEW))


# The start


def checked(tmp_path, environment=None, **redis):
    path = tmp_path / "laterd.conf"
    path.write_text(config_text({"engine": {"engine": "redis"}, "redis": redis}), encoding="utf-8")
    ended = subprocess.run([LATERD, "-c", path, "--check-config"], capture_output=True, text=True, check=False,
                           env={**os.environ, **(environment or {})})
    return ended.returncode, ended.stdout + ended.stderr


def test_a_reference_that_is_missing_is_told_with_its_line(tmp_path, line):
    assert checked(tmp_path, url="$LATER_NONE") == \
        (1, f"laterd: {tmp_path}/laterd.conf:4: redis.url: the environment has no variable LATER_NONE\n")
    assert checked(tmp_path, {"LATER_NONE": ""}, url="$LATER_NONE")[0] == 1
    code, said = checked(tmp_path, url=line.reference)
    assert code == 1 and f":4: redis.url: {line.path}: No such file" in said
    line.write("")
    code, said = checked(tmp_path, url=line.reference)
    assert code == 1 and f":4: redis.url: {line.path}: its first line is empty" in said
    code, said = checked(tmp_path, url="redis+sentinel://h/jobs", sentinel_password="file:/none")
    assert code == 1 and ":5: redis.sentinel_password: /none: No such file" in said


def test_what_a_reference_has_that_is_no_url_is_told_without_its_password(tmp_path, line):
    line.write(f"http://jobs:{OLD}@h")
    code, said = checked(tmp_path, url=line.reference)
    assert code == 2 and ":4: redis.url must begin with redis://" in said and OLD not in said
    line.write(f"redis://jobs:{OLD}@")
    code, said = checked(tmp_path, url=line.reference)
    assert code == 2 and ":4: redis.url: no host" in said and OLD not in said
    line.write(f"redis://jobs:{OLD}@h")
    code, said = checked(tmp_path, url=line.reference, sentinel_user="x", tls_ca="/none")
    assert code == 0 and "warning" not in said  # it may have been rediss+sentinel://


def test_a_start_fails_with_the_same_words(laterd, line):
    server = laterd(config(line.reference), start=False)
    server.start(wait=False)
    assert server.wait() == 1
    assert f":4: redis.url: {line.path}: No such file" in "\n".join(server.lines)


def test_a_variable_and_a_file_are_as_good_as_the_url(laterd, line):
    with Redis() as redis:
        make_user(redis)
        url = with_password(redis.url, OLD)
        line.write(url)
        for server in (laterd(config("$QUEUE"), environment={"QUEUE": url}), laterd(config(line.reference))):
            assert serves(server)
            hides(server)


def test_what_is_replaced_while_laterd_waits_for_redis_is_taken(laterd, line):
    with Redis() as redis:
        make_user(redis)
        redis.call("ACL", "SETUSER", "jobs", f">{NEW}")
        line.write(with_password(redis.url, OLD))
        redis.freeze()
        server = laterd(config(line.reference, timeout="200ms"), start=False)
        server.start(wait=False)
        time.sleep(0.5)  # a connection has ended, and the file was read again: or that comes later
        line.write(with_password(redis.url, NEW))
        time.sleep(1)  # the same
        redis.thaw()
        assert serves(server.wait_listening())
        take_only_new(redis)
        kill_all(redis)
        wait_until(lambda: serves(server))
        hides(server)


def test_a_password_that_is_replaced_just_before_a_start_is_tried_too(laterd, line):
    with Redis() as redis:
        make_user(redis)
        take_only_new(redis)
        line.write(with_password(redis.url, OLD))
        redis.freeze()
        server = laterd(config(line.reference, timeout="10s"), start=False)
        server.start(wait=False)
        time.sleep(1)  # the file was read, and Redis is asked with the old one: or that comes later
        line.write(with_password(redis.url, NEW))
        redis.thaw()
        assert serves(server.wait_listening())
        hides(server)


def test_a_password_of_the_environment_that_is_too_long_is_refused(tmp_path, line):
    line.write("redis://h")
    code, said = checked(tmp_path, {"LATERD_REDIS_PASSWORD": "x" * 256}, url=line.reference)
    assert code == 2 and ":4: redis.url: the environment's password is longer than 255 bytes" in said


def test_the_environment_has_the_password_if_the_file_has_none(laterd, line):
    with Redis() as redis:
        make_user(redis)
        line.write(f"redis://jobs@{redis.address}")
        server = laterd(config(line.reference), environment={"LATERD_REDIS_PASSWORD": OLD})
        assert serves(server)
        kill_all(redis)
        wait_until(lambda: serves(server))
        hides(server)


# A password that is replaced


def test_a_password_that_was_replaced_is_used_without_a_restart(laterd, line):
    with Redis() as redis:
        make_user(redis)
        line.write(with_password(redis.url, OLD))
        server = laterd(config(line.reference))
        assert serves(server)
        redis.call("ACL", "SETUSER", "jobs", f">{NEW}")
        line.write(with_password(redis.url, NEW))
        redis.call("ACL", "SETUSER", "jobs", f"<{OLD}")
        assert serves(server) and not server.events("redis_away")  # over the connections that there are
        kill_all(redis)
        wait_until(lambda: serves(server))
        wait_until(lambda: connections(redis) == 2)  # that of the notices as well
        hides(server)


def test_a_password_that_is_replaced_late_is_found_when_redis_refuses_the_old_one(laterd, line):
    with Redis() as redis:
        make_user(redis)
        line.write(with_password(redis.url, OLD))
        server = laterd(config(line.reference))
        line.remove()
        take_only_new(redis)
        kill_all(redis)
        assert server.wait_log("redis_password_unread")
        wait_until(lambda: any("WRONGPASS" in said for said in server.lines))
        assert not serves(server)
        line.write(with_password(redis.url, NEW))
        wait_until(lambda: serves(server))
        [(_, told)] = server.events("redis_password_unread")
        assert f'reason="redis.url: {line.path}: No such file' in told
        hides(server)


def test_the_connections_to_a_cluster_use_it(laterd, line):
    with Cluster(replicas=0) as cluster:
        make_user(*cluster.servers)
        line.write(with_password(cluster.url, OLD))
        server = laterd(config(line.reference))
        wait_until(lambda: all(connections(one) == 2 for one in cluster.servers))
        line.write(with_password(cluster.url, NEW))
        take_only_new(*cluster.servers)
        kill_all(*cluster.servers)
        wait_until(lambda: serves(server))
        wait_until(lambda: all(connections(one) == 2 for one in cluster.servers))
        hides(server)


def test_the_connections_to_sentinels_use_theirs(laterd, line, tmp_path):
    guard = Line(tmp_path / "guard")
    with Sentinels() as trio:
        make_user(*trio.servers, *trio.sentinels)
        line.write(with_password(trio.url, OLD))
        guard.write(OLD)
        server = laterd(config(line.reference, sentinel_user="jobs", sentinel_password=guard.reference))
        wait_until(lambda: all(connections(one) == 1 for one in trio.sentinels))
        guard.write(NEW)
        take_only_new(*trio.sentinels)
        kill_all(*trio.sentinels)  # the master stays connected: nobody asks for it
        wait_until(lambda: all(connections(one) == 1 for one in trio.sentinels))
        line.write(with_password(trio.url, NEW))
        take_only_new(*trio.servers)
        kill_all(*trio.servers, *trio.sentinels)
        wait_until(lambda: serves(server))
        wait_until(lambda: all(connections(one) == 1 for one in trio.sentinels))
        hides(server)


def two_in_an_election(tmp_path, url, place):
    """One that leads, and one that waits for it."""
    made = []
    for number in range(2):
        keys = {**config(url), "member": {"url": place, "timeout": "2s"}}
        server = Laterd(tmp_path / f"laterd{number}", keys, listeners=(f"127.0.0.1:{free_port()}",))
        made.append(server.start())
        if not number:
            wait_until(lambda: serves(made[0]))
    return made


@pytest.mark.parametrize("late", [False, pytest.param(True, marks=pytest.mark.long)])
def test_who_waits_to_lead_uses_it(tmp_path, line, late):
    """If the file is late, Redis has refused the old password: that standby was given up."""
    with Redis() as redis, Redis() as place:
        make_user(redis)
        line.write(with_password(redis.url, OLD))
        servers = two_in_an_election(tmp_path, line.reference, place.url)
        try:
            leads, waits = servers
            assert waits.wait_log("standby_ready", 20)
            if late:
                take_only_new(redis)
                kill_all(redis)
                assert waits.wait_log("standby_unfit", 20)
            line.write(with_password(redis.url, NEW))
            take_only_new(redis)
            kill_all(redis)
            wait_until(lambda: serves(leads))
            if late:
                # Tried twice a minute, and as soon as there is another password.
                assert waits.wait_log("standby_ready", 15, count=2)
            leads.signal(signal.SIGKILL)
            wait_until(lambda: serves(waits), 20)
            assert not waits.events("cannot_lead")
            for server in servers:
                hides(server)
        finally:
            for server in servers:
                server.kill()
