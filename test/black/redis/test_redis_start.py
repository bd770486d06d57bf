"""laterd looks before it serves: what is plainly wrong ends the start at once and with its reason,
what may get better by itself is waited for, and said."""

import glob
import os
import re
import signal
import subprocess
import time

import pytest
from patience import TooLate, soon
from process import LATERD, ROOT, DidNotStart
from redis import (REDIS_SERVER, Cluster, Redis, Sentinels, cluster_ports, config, free_port,
                   runs_a_script, wait_until)
from wire import Client

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")

AT_ONCE = 3.0  # seconds, on a machine that is busy; waiting takes five
URL_FORMS = ("redis://{}", "redis+cluster://{}")


@pytest.fixture(scope="module")
def redis():
    with Redis() as server:
        yield server


def refusal(laterd, url, at_once=True, **redis):
    """The reason with which a laterd ends that does not start."""
    since = time.monotonic()
    with pytest.raises(DidNotStart) as why:
        laterd(config(url, **redis))
    took = time.monotonic() - since
    if at_once:
        soon(took, AT_ONCE)
    else:
        assert took > 4.5, f"it took only {took:.1f} s"
    reasons = [line for line in str(why.value).splitlines() if "cannot use Redis: " in line]
    assert len(reasons) == 1, str(why.value)
    return reasons[0]


def make_user(redis, *rules):
    redis.call("ACL", "SETUSER", "jobs", "reset", "on", ">pass", "~*", "&*", "+@all", *rules)
    return f"redis://jobs:pass@127.0.0.1:{redis.port}"


def cluster_node():
    return Redis(port=cluster_ports(1)[0], cluster_enabled="yes")


# Plainly wrong: at once


def test_a_wrong_password_or_user_is_refused_at_once(laterd, redis):
    make_user(redis)
    for user in ("jobs:wrong", "nobody:pass"):
        assert "WRONGPASS" in refusal(laterd, f"redis://{user}@127.0.0.1:{redis.port}")
    assert "without any password" in refusal(laterd, f"redis://:pass@127.0.0.1:{redis.port}")


def test_a_password_that_is_not_given_is_refused_at_once(laterd):
    with Redis() as locked:
        locked.call("CONFIG", "SET", "requirepass", "secret")
        assert "NOAUTH" in refusal(laterd, locked.url)
        laterd(config(locked.url), environment={"LATERD_REDIS_PASSWORD": "secret"})


def test_a_password_is_not_logged_even_if_redis_repeats_it(laterd):
    with Redis(rename_command='AUTH ""') as redis:  # it then quotes what it does not know
        with pytest.raises(DidNotStart) as why:
            laterd(config(f"redis://:very-secret@{redis.address}"))
        assert "unknown command" in str(why.value) and "secret" not in str(why.value)


def test_a_database_that_is_not_there_is_refused_at_once(laterd, redis):
    assert "DB index" in refusal(laterd, redis.url + "/99")


def test_a_key_that_is_none_of_ours_is_named(laterd):
    with Redis() as own:
        own.call("SET", "{laterd:3}:d", "somebody's")
        assert "{laterd:3}:d is not of the type" in refusal(laterd, own.url)
        own.call("DEL", "{laterd:3}:d")
        own.call("SET", "{laterd:0}:h", "somebody's")
        assert "{laterd:0}:h is not of the type" in refusal(laterd, own.url)


def test_a_replica_is_refused_at_once(laterd, redis):
    with Redis() as replica:
        replica.call("REPLICAOF", "127.0.0.1", redis.port)
        assert "it is a replica: redis.url must name the master" in refusal(laterd, replica.url)


def test_the_last_line_tells_what_to_do(laterd, redis):
    make_user(redis)
    wrong = refusal(laterd, f"redis://jobs:wrong@127.0.0.1:{redis.port}")
    assert "look at user and password in redis.url" in wrong and "..:" not in wrong
    with Redis() as locked:
        locked.call("CONFIG", "SET", "requirepass", "secret")
        assert "put user:password@ into redis.url" in refusal(laterd, locked.url)
    nobody = refusal(laterd, f"redis://127.0.0.1:{free_port()}", at_once=False)
    assert "Connection refused: nobody listens there" in nobody


def test_a_sentinel_is_no_server_and_a_server_no_sentinel(laterd, redis):
    with Redis(sentinel=True) as sentinel:
        assert "it is a sentinel: redis.url for sentinels is redis+sentinel://" in \
            refusal(laterd, sentinel.url)
    server = laterd(config(f"redis+sentinel://127.0.0.1:{redis.port}/jobs"), start=False)
    with pytest.raises(DidNotStart) as why:
        server.start()
    assert "it is not a sentinel: redis+sentinel:// names sentinels" in str(why.value)
    assert len(server.events("sentinel_away")) == 1 and not server.events("sentinel_back")


def test_a_server_that_is_not_fit_yet_is_reported_once(laterd):
    """It is connected to, asked and left, some twenty times a second."""
    with cluster_node() as node:
        server = laterd(config(f"redis+cluster://127.0.0.1:{node.port}"), start=False)
        with pytest.raises(DidNotStart) as why:
            server.start()
        assert "it knows of no slots: redis-cli --cluster create" in str(why.value)
        assert len(server.events("redis_away")) == 1 and not server.events("redis_back")


@pytest.mark.parametrize("settings, says", [
    ({"url": "http://127.0.0.1:6379"}, "laterd.conf:4: redis.url must begin with redis://"),
    ({"url": "redis://127.0.0.1/none"}, "redis.url"),
    ({"url": "redis+sentinel://127.0.0.1"}, "needs the master's name"),
    ({"url": "redis://127.0.0.1", "prefix": "{jobs}"}, "laterd.conf:5: prefix = {jobs}: must be 1 to 64 bytes without { and }")])
def test_check_config_reads_what_says_where_redis_is(tmp_path, settings, says):
    lines = "\n".join(f"{key} = {value}" for key, value in settings.items())
    path = tmp_path / "laterd.conf"
    path.write_text(f"[engine]\nengine = redis\n[redis]\n{lines}\n")
    done = subprocess.run([LATERD, "-c", str(path), "--check-config"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 2 and says in done.stderr, done


def test_a_server_of_another_kind_is_refused_at_once(laterd, redis):
    assert "use redis://" in refusal(laterd, f"redis+cluster://127.0.0.1:{redis.port}")
    with cluster_node() as node:
        node.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        assert "use redis+cluster://" in refusal(laterd, node.url)
        wait_until(lambda: Cluster.state(node) == "ok")
        laterd(config(f"redis+cluster://127.0.0.1:{node.port}"))


def test_what_lacks_slots_may_evict_or_has_other_partitions_is_refused_at_once(laterd):
    with cluster_node() as node:
        node.call("CLUSTER", "ADDSLOTSRANGE", 0, 16382)
        assert "not all slots" in refusal(laterd, f"redis+cluster://127.0.0.1:{node.port}")
    with Redis() as small:
        laterd(config(small.url, partitions=2)).stop()
        assert "redis.partitions = 2" in refusal(laterd, small.url)
        small.call("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
        assert "noeviction" in refusal(laterd, small.url, partitions=2)


@pytest.mark.parametrize("command", ["EVALSHA", "HSCAN", "INFO"])
def test_a_command_that_was_renamed_is_named_at_once(laterd, command):
    server = Redis()
    server.extra = [f'rename-command {command} ""']
    with server:
        said = refusal(laterd, server.url)
    assert f"unknown command '{command}': laterd needs it: see rename-command" in said


def test_a_redis_that_is_full_or_has_too_many_clients_is_told_as_such(laterd):
    with Redis() as small, small.connect() as connection:
        connection.call("CONFIG", "SET", "maxmemory", 1)
        assert "raise its maxmemory" in refusal(laterd, small.url, at_once=False)
        connection.call("CONFIG", "SET", "maxmemory", 0, "maxclients", 1)
        assert "raise its maxclients" in refusal(laterd, small.url, at_once=False)


def test_a_node_that_lacks_the_name_it_is_to_be_called_by_is_found(laterd):
    with cluster_node() as node:
        node.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        node.call("CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname")
        wait_until(lambda: Cluster.state(node) == "ok")
        assert node.call("CLUSTER", "SLOTS")[0][2][0] == b"?"
        laterd(config(f"redis+cluster://127.0.0.1:{node.port}"))


# How many partitions


def partitions_of(server):
    [(_, line)] = server.events("redis_opened")
    return int(re.search(r"partitions=(\d+)", line)[1])


def test_a_new_queue_has_one_partition_and_sixteen_in_a_cluster(laterd, redis):
    assert partitions_of(laterd(config(redis.url, prefix="new", partitions=0))) == 1
    with cluster_node() as node:
        node.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: Cluster.state(node) == "ok")
        assert partitions_of(laterd(config(f"redis+cluster://127.0.0.1:{node.port}", partitions=0))) == 16


@pytest.mark.parametrize("lost", [False, True])
def test_a_queue_that_exists_keeps_its_partitions(laterd, redis, lost):
    """Also if the one that is looked for first has lost its keys: a new queue would hide the others' jobs."""
    prefix = f"kept-{lost}"
    first = laterd(config(redis.url, prefix=prefix, partitions=8))
    with Client(first.port) as client:
        ids = {client.push_id("t", body="x", id=f"job-{i}") for i in range(40)}
    first.kill()
    if lost:
        redis.call("DEL", *redis.call("KEYS", f"{{{prefix}:0}}:*"))
    server = laterd(config(redis.url, prefix=prefix, partitions=0))
    assert partitions_of(server) == 8
    with Client(server.port) as client:
        got = {job["id"] for job in client.reserve_all("t", 40)}
    assert got == ids if not lost else 20 < len(got) < 40 and got < ids


def test_nobody_makes_partitions_beside_a_queue_of_another_number(laterd, redis):
    first = laterd(config(redis.url, prefix="beside", partitions=8, timeout="200ms"))
    first.signal(signal.SIGSTOP)
    redis.call("DEL", *redis.call("KEYS", "{beside:*"))
    laterd(config(redis.url, prefix="beside", partitions=0))
    first.signal(signal.SIGCONT)
    assert first.wait_log("redis_unfit", 10)
    with Client(first.port) as client:
        for i in range(20):
            assert client.push("t", body="x", id=f"job-{i}").status == 503
    assert not redis.call("KEYS", "{beside:[1-7]}:h")


# Rights


def commands_of_scripts():
    found = set()
    for path in glob.glob(os.path.join(ROOT, "src/engine/redis/scripts/*.lua")):
        with open(path, encoding="utf-8") as file:
            found |= set(re.findall(r"\bp?call\(\s*'([A-Z]+)'", file.read()))
    assert {"TIME", "HSET", "ZADD"} <= found
    return sorted(found | {"SPUBLISH"})


@pytest.mark.parametrize("command", [*commands_of_scripts(), "PING", "ROLE", "INFO", "EVALSHA",
                                     "SCRIPT|LOAD", "SSUBSCRIBE"])
def test_a_right_that_is_missing_is_named_at_once(laterd, redis, command):
    said = refusal(laterd, make_user(redis, f"-{command.lower()}"))
    assert said.endswith(f"ACL SETUSER jobs +{command.lower()}"), said


@pytest.mark.parametrize("rules, missing", [
    (("resetchannels", "&other"), "&{laterd:*"), (("resetkeys", "~other"), "~{laterd:*"),
    (("resetkeys", "%R~*"), "~{laterd:*"), (("-hset", "-zadd"), "+hset +zadd"),
])
def test_keys_channels_and_several_rights_are_named_at_once(laterd, redis, rules, missing):
    said = refusal(laterd, make_user(redis, *rules))
    assert said.endswith(f"ACL SETUSER jobs {missing}"), said


def test_rights_for_replicas_and_clusters_are_looked_at_where_they_are_needed(laterd, redis):
    url = make_user(redis, "-wait", "-asking", "-cluster")
    laterd(config(url)).stop()
    assert refusal(laterd, url, wait_replicas=1).endswith("+wait")
    with cluster_node() as node:
        node.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: Cluster.state(node) == "ok")
        url = make_user(node, "-asking", "-cluster|slots").replace("redis:", "redis+cluster:")
        assert refusal(laterd, url).endswith("+cluster|slots +asking")


def test_the_documented_rights_are_enough(laterd, redis):
    """As docs/redis-recipes.md tells them, for each set-up."""
    with open(os.path.join(ROOT, "docs/redis-recipes.md"), encoding="utf-8") as file:
        rules = re.search(r"ACL SETUSER jobs on >PASSWORD (.*)", file.read()).group(1).split()
    with cluster_node() as node:
        node.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: Cluster.state(node) == "ok")
        for server, kind in ((redis, "redis"), (node, "redis+cluster")):
            server.call("ACL", "SETUSER", "jobs", "reset", "on", ">pass", *rules)
            daemon = laterd(config(f"{kind}://jobs:pass@127.0.0.1:{server.port}"))
            with Client(daemon.port) as client:
                job_id = client.push_id("rights", body="x")
                job, = client.reserve("rights", wait="5s")
                assert client.job(job_id, "finish", lease=job["lease"]).status in (200, 204)


# What may get better by itself: waited for, and said


@pytest.mark.parametrize("form", [*URL_FORMS, "redis+sentinel://{}/jobs"])
def test_what_does_not_answer_is_waited_for_and_said(laterd, form):
    address = f"127.0.0.1:{free_port()}"
    server = laterd(config(form.format(address)), start=False)
    with pytest.raises(DidNotStart):
        server.start()
    waiting = server.events("redis_waiting")
    assert len(waiting) == 1 and "at_most_s=5" in str(waiting[0])
    assert f'for="{address}: Connection refused"' in str(waiting[0]) or \
        f"{address}: Connection refused" in str(waiting[0])
    assert f"cannot use Redis: {address}: Connection refused" in "\n".join(server.lines)


def test_a_server_that_comes_late_is_waited_for(laterd):
    with Redis() as redis:
        redis.kill()
        server = laterd(config(redis.url), start=False).start(wait=False)
        assert server.wait_log("redis_waiting")
        redis.start()
        server.wait_listening()


def test_a_script_that_runs_while_laterd_starts_is_waited_for(laterd):
    with Redis(lua_time_limit=50) as redis:
        with redis.connect() as other:
            other.socket.sendall(b"*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n")
            runs_a_script(redis)
            server = laterd(config(redis.url), start=False).start(wait=False)
            assert server.wait_log("redis_waiting")
            redis.call("SCRIPT", "KILL")
            server.wait_listening()
    assert "BUSY" in str(server.events("redis_waiting"))


def test_a_cluster_that_is_not_up_yet_is_waited_for(laterd):
    with Cluster(masters=3, replicas=0) as three:
        for node in three.servers:
            node.kill()
        three.servers[0].start()
        wait_until(lambda: Cluster.state(three.servers[0]) == "fail")
        server = laterd(config(three.url), start=False).start(wait=False)
        assert server.wait_log("redis_waiting")
        for node in three.servers[1:]:
            node.start()
        try:
            server.wait_listening()
        except DidNotStart as error:  # it waits for five seconds, of which the servers take two to agree
            raise TooLate(str(error)) from error


# Names


def test_a_name_that_nobody_has_beside_good_ones_does_no_harm(laterd):
    with Cluster(masters=3, replicas=0) as three:
        url = f"redis+cluster://nobody.invalid:1,127.0.0.1:{three.servers[1].port}"
        with Client(laterd(config(url)).port) as client:
            client.push_id("t", body="x")
    with Sentinels() as trio:
        url = f"redis+sentinel://nobody.invalid,127.0.0.1:{trio.sentinels[0].port}/{trio.name}"
        server = laterd(config(url))
        with Client(server.port) as client:
            client.push_id("t", body="x")
        assert "nobody.invalid" in str(server.events("sentinel_away"))


def test_a_server_may_have_a_name(laterd, redis):
    with Client(laterd(config(f"redis://localhost:{redis.port}")).port) as client:
        client.push_id("named", body="x")
