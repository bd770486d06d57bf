"""Redis as processes of the test's own on free ports of the loopback: one server, a master with a
replica under three sentinels, a cluster of six. Stopped by their own pids."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from busy import Busy
from patience import PATIENCE_S
from ports import cluster_ports, free_port  # noqa: F401  (tests take them from here, too)
from process import remove

# The server of all tests: the installed one, or any other that speaks as Redis does. Its command line
# client lies beside it and is named alike: valkey-cli beside valkey-server. A sentinel is the same
# program, told so.
REDIS_SERVER = os.environ.get("LATERD_TEST_REDIS") or shutil.which("redis-server")
REDIS_CLI = REDIS_SERVER and shutil.which("cli".join(REDIS_SERVER.rsplit("server", 1)))


class RedisError(Exception):
    """An error reply."""


class Connection:
    """One connection that asks and is answered: call("SET", "a", 1)."""

    def __init__(self, port, seconds=PATIENCE_S):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self.file = self.socket.makefile("rb")

    def send(self, *words):
        parts = [f"*{len(words)}\r\n".encode()]
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
        self.socket.sendall(b"".join(parts))

    def call(self, *words):
        self.send(*words)
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("Redis closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise RedisError(rest.decode())
        if kind == b":":
            return int(rest)
        length = int(rest)
        if length < 0:
            return None
        if kind == b"$":
            return self.file.read(length + 2)[:-2]
        return [self.reply() for _ in range(length)]

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Redis:
    """One redis-server. `settings` as its configuration has them: appendonly="yes"."""

    def __init__(self, folder=None, port=None, sentinel=False, **settings):
        self.own_folder = folder is None  # then close() removes it: kill() alone does not
        self.folder = folder or tempfile.mkdtemp(prefix="laterd-redis-")
        self.port = port or free_port()
        self.sentinel = sentinel
        self.settings = {"save": '""', **settings}
        self.extra = []  # further lines of the configuration
        self.environment = {}  # beside that of the tests
        self.password = None  # what they ask for, if they ask
        self.process = None
        self.watch = None

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"redis://{self.address}"

    def start(self, seconds=PATIENCE_S):
        os.makedirs(self.folder, exist_ok=True)
        path = os.path.join(self.folder, f"redis-{self.port}.conf")
        if not (self.sentinel and os.path.exists(path)):  # a sentinel writes into its own
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"bind 127.0.0.1\nport {self.port}\ndir {self.folder}\n")
                if not self.sentinel:
                    for key, value in self.settings.items():
                        file.write(f"{key.replace('_', '-')} {value}\n")
                file.write("".join(line + "\n" for line in self.extra))
        command = [REDIS_SERVER, path] + (["--sentinel"] if self.sentinel else [])
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, **self.environment})
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if self.call("PING") == "PONG":
                    return self
            except (OSError, RedisError):
                if self.process.poll() is not None:
                    break
                time.sleep(0.01)
        self.kill()
        raise RuntimeError(f"{REDIS_SERVER} did not start on port {self.port}")

    def connect(self, seconds=PATIENCE_S):
        connection = Connection(self.port, seconds)
        if self.password:
            connection.call("AUTH", self.password)
        return connection

    def call(self, *words):
        with self.connect() as connection:
            return connection.call(*words)

    def info(self, section="all"):
        text = self.call("INFO", section).decode()
        return dict(re.findall(r"^([^#:\r\n]+):([^\r\n]*)", text, re.MULTILINE))

    def signal(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        """kill -9; its files stay."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process = None

    def close(self):
        self.kill()
        if self.own_folder:
            remove(self.folder)  # a child that saves ends a little later than its parent

    @contextlib.contextmanager
    def watched(self):
        """Meanwhile it is asked again and again: `watch` tells how long that took, or how late it was asked."""
        with self.connect() as connection, Busy(lambda: connection.call("PING")) as self.watch:
            yield self

    def freeze(self):
        self.signal(signal.SIGSTOP)

    def thaw(self):
        self.signal(signal.SIGCONT)

    def __enter__(self):
        return self if self.process else self.start()

    def __exit__(self, *_):
        self.close()


class Started:
    """Runs for as long as a `with` block does. A subclass has start(), kill() and folder."""

    def close(self):
        self.kill()
        remove(self.folder)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()


class Group(Started):
    """Processes that start and end together, in a folder of their own."""

    def kill(self):
        for server in self.processes():
            server.kill()


# A sentinel that was stopped for two seconds, as on a busy machine, looks at nothing for this long (TILT).
# Redis has 30 s. A master that dies meanwhile is down, for that sentinel, only after that; and it makes no
# replica the master whose link was broken for ten times down-after-milliseconds before that: never, with
# 30 s, where the test has 8 s.
TILT_MS = 3000


class Sentinels(Group):
    """A master and a replica, watched by three sentinels who fail over within a second or two."""

    name = "jobs"

    def __init__(self, down_ms=800, password=None, **settings):
        self.folder = tempfile.mkdtemp(prefix="laterd-sentinels-")
        self.password = password  # the sentinels' own
        self.down_ms = down_ms
        self.servers = [Redis(os.path.join(self.folder, f"server{i}"),
                              repl_diskless_sync_delay=0, **settings) for i in range(2)]
        self.sentinels = []

    def start(self):
        master, replica = self.servers
        master.start()
        replica.extra = [f"replicaof 127.0.0.1 {master.port}"]
        replica.start()
        wait_until(lambda: replica.info("replication").get("master_link_status") == "up", 20)
        for i in range(3):
            sentinel = Redis(os.path.join(self.folder, f"sentinel{i}"), sentinel=True)
            sentinel.extra = [f"sentinel monitor {self.name} 127.0.0.1 {master.port} 2",
                              f"sentinel down-after-milliseconds {self.name} {self.down_ms}",
                              f"sentinel failover-timeout {self.name} 4000"]
            if self.password:
                sentinel.password = self.password
                sentinel.extra += [f"requirepass {self.password}",
                                   f"sentinel sentinel-pass {self.password}"]
            self.sentinels.append(sentinel.start())
            succeeds(sentinel, "SENTINEL", "DEBUG", "tilt-period", TILT_MS)  # since Redis 7.0
        wait_until(lambda: self.slaves_known() == 3, 20)
        return self

    def slaves_known(self):
        """How many sentinels know the replica and each other."""
        good = 0
        for sentinel in self.sentinels:
            facts = sentinel.call("SENTINEL", "master", self.name)
            table = dict(zip(facts[::2], facts[1::2]))
            good += table[b"num-slaves"] == b"1" and table[b"num-other-sentinels"] == b"2"
        return good

    def calm(self):
        """Is none of them in TILT?"""
        return all(sentinel.info("sentinel")["sentinel_tilt"] == "0" for sentinel in self.sentinels)

    def describe(self):
        """What each sentinel says, for whom it made nobody master."""
        lines = []
        for sentinel in self.sentinels:
            tilt = sentinel.info("sentinel")["sentinel_tilt"]
            known = [sentinel.call("SENTINEL", "master", self.name),
                     *sentinel.call("SENTINEL", "replicas", self.name)]
            tables = [dict(zip(facts[::2], facts[1::2])) for facts in known]
            lines.append(f"{sentinel.address}: tilt {tilt}, " + ", ".join(
                f"{table[b'port'].decode()} {table[b'flags'].decode()} link down "
                f"{table.get(b'master-link-down-time', b'-').decode()} ms" for table in tables))
        return "; ".join(lines)

    @property
    def url(self):
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{self.name}"

    def master(self):
        """The server that the sentinels name."""
        _, port = self.sentinels[0].call("SENTINEL", "get-master-addr-by-name", self.name)
        return next(server for server in self.servers if server.port == int(port))

    def processes(self):
        return [*self.sentinels, *self.servers]


HASTY_MS = 1500
PATIENT_MS = 15000  # as Redis has it; on a busy machine a server that lives was dead after 6 s


class Cluster(Group):
    """Three masters, each with a replica: server 3 is that of server 0, and so on.

    On a busy machine a server may be silent for seconds. The others must not take it for dead then:
    its replica would take over, without the last changes. A test that kills a master says
    `with cluster.hasty()`."""

    def __init__(self, masters=3, replicas=1, **settings):
        self.folder = tempfile.mkdtemp(prefix="laterd-cluster-")
        self.masters = masters
        self.settings = settings
        self.servers = []
        self.watch = None
        for port in cluster_ports(masters * (1 + replicas)):
            self._add_server(port)

    def _add_server(self, port):
        self.servers.append(Redis(os.path.join(self.folder, f"node-{port}"), port=port,
                                  cluster_enabled="yes", cluster_node_timeout=HASTY_MS,
                                  cluster_config_file="nodes.conf",
                                  repl_diskless_sync_delay=0, **self.settings))
        return self.servers[-1]

    def start(self):
        for server in self.servers:
            server.start()
        first = self.servers[0]
        for i, server in enumerate(self.servers[:self.masters]):
            begin, end = 16384 * i // self.masters, 16384 * (i + 1) // self.masters
            server.call("CLUSTER", "ADDSLOTS", *range(begin, end))  # ranges came with Redis 7.0
            server.call("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for server in self.servers[1:]:
            server.call("CLUSTER", "MEET", "127.0.0.1", first.port)
        wait_until(lambda: all(self.known(server) == len(self.servers)
                               for server in self.servers), 20)
        for i, server in enumerate(self.servers[self.masters:]):
            master = self.servers[i % self.masters].call("CLUSTER", "MYID")
            self.replicate(server, master)
        wait_until(lambda: all(self.state(server) == "ok" for server in self.servers), 20)
        self.wait_for_dead(PATIENT_MS)
        return self

    @contextlib.contextmanager
    def watched(self):
        """Redis.watched() of all that run, asked at once: `watch` tells of the slowest."""
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(server.connect()) for server in self.servers if server.process]

            def ask_all():
                for connection in connections:
                    connection.send("PING")
                for connection in connections:
                    connection.reply()
            self.watch = stack.enter_context(Busy(ask_all))
            yield self

    def wait_for_dead(self, silent_ms):
        """Who is silent for so long is dead to the others from now on."""
        for server in self.servers:
            if server.process:
                server.call("CONFIG", "SET", "cluster-node-timeout", silent_ms)

    @contextlib.contextmanager
    def hasty(self):
        """Who is silent for 1.5 s is dead."""
        self.wait_for_dead(HASTY_MS)
        yield
        self.wait_for_dead(PATIENT_MS)

    @staticmethod
    def replicate(server, master):
        wait_until(lambda: succeeds(server, "CLUSTER", "REPLICATE", master), 20)

    @staticmethod
    def known(server):
        text = server.call("CLUSTER", "INFO").decode()
        return int(re.search(r"cluster_known_nodes:(\d+)", text).group(1))

    @staticmethod
    def state(server):
        text = server.call("CLUSTER", "INFO").decode()
        return re.search(r"cluster_state:(\w+)", text).group(1)

    @property
    def url(self):
        return "redis+cluster://" + ",".join(f"127.0.0.1:{s.port}" for s in self.servers[:3])

    # What is done to a cluster that serves

    def cli(self, verb, *words):
        """redis-cli --cluster VERB, once all servers are of one mind: it refuses otherwise. A master
        that has no slots any more copies another's data, and does not answer meanwhile. valkey-cli takes a
        third of a second for each slot on a busy machine."""
        for _ in range(5):
            wait_until(self.agreed, 30)
            done = subprocess.run([REDIS_CLI, "--cluster", verb, *map(str, words)], timeout=400,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False)
            if "Unable to load info" not in done.stdout + done.stderr:
                break
        assert done.returncode == 0, f"{verb}: {done.stdout[-2000:]}{done.stderr}"
        wait_until(self.agreed, 30)

    def reshard(self, source, target, slots):
        """Moves so many slots from one master to another."""
        self.cli("reshard", source.address, "--cluster-from", identity(source), "--cluster-to",
                 identity(target), "--cluster-slots", slots, "--cluster-yes")

    def begin_to_move(self, name, most=1000):
        """Keys of this one's slot go to another server, but the slot is still the first one's: that
        says ASK, or, if some of the keys are still there, TRYAGAIN. Returns what ends it."""
        slot = self.servers[0].call("CLUSTER", "KEYSLOT", name)
        source = next(one for one in self.servers if one.call("CLUSTER", "COUNTKEYSINSLOT", slot))
        target = next(one for one in self.servers if one is not source and role(one) == "master")
        target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", identity(source))
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", identity(target))
        move_keys(source, target, slot, most)

        def end():
            move_keys(source, target, slot, 1000)
            for one in (target, source):
                one.call("CLUSTER", "SETSLOT", slot, "NODE", identity(target))
        return end

    def add_master(self):
        """One more server, which has no slots yet."""
        server = self._add_server(*cluster_ports(1)).start()
        self.servers.remove(server)  # it is not yet of their mind
        self.cli("add-node", server.address, self.servers[0].address)
        self.servers.append(server)
        self.wait_for_dead(PATIENT_MS)
        return server

    def remove_master(self, server):
        """Its slots go to another. The process goes on, and knows of no cluster any more."""
        other = next(one for one in self.servers if one is not server and role(one) == "master")
        name = identity(server)
        ends = [[int(end) for end in word.split("-")] for word in owners(server)[name]]
        self.reshard(server, other, sum(end[-1] - end[0] + 1 for end in ends))
        self.servers.remove(server)
        # Without slots it copies another's data, and refuses to be told anything while it reads it.
        wait_until(lambda: role(server) == "master" or
                   server.info("replication").get("master_link_status") == "up", 30)
        self.cli("del-node", other.address, name)

    def fail_over(self, replica):
        """Makes a replica the master, by hand: with its master's help, which becomes its replica."""
        wait_until(lambda: replica.info("replication").get("master_link_status") == "up", 30)
        asked_at = -60
        while role(replica) != "master":
            if time.monotonic() - asked_at > 6:  # it is given up after five, and not tried again
                asked_at = time.monotonic()
                replica.call("CLUSTER", "FAILOVER")
            time.sleep(0.02)
        wait_until(self.agreed, 30)

    def agreed(self):
        """Do all servers that run say that all is well, and name the same master of each slot?"""
        alive = [server for server in self.servers if server.process]
        try:
            return (all(self.state(server) == "ok" for server in alive)
                    and len({self.known(server) for server in alive}) == 1
                    and all(owners(server) == owners(alive[0]) for server in alive))
        except RedisError:  # one is loading: a master without slots becomes a replica
            return False

    def processes(self):
        return self.servers


def role(server):
    """"master" or "slave"."""
    return server.info("replication")["role"]


def identity(server):
    """Its name in the cluster."""
    return server.call("CLUSTER", "MYID").decode()


def owners(server):
    """{a master's name: its slots}, as this server sees them."""
    rows = [line.split() for line in server.call("CLUSTER", "NODES").decode().splitlines()]
    return {row[0]: [word for word in row[8:] if word[0] != "["] for row in rows
            if "master" in row[2] and row[8:]}


def move_keys(source, target, slot, most):
    keys = source.call("CLUSTER", "GETKEYSINSLOT", slot, most)
    if keys:
        source.call("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)


def succeeds(server, *words):
    try:
        server.call(*words)
        return True
    except RedisError:
        return False


def replicated(master, replica):
    """Waits until the replica has all that its master has by now."""
    behind = int(master.info("replication")["master_repl_offset"])
    wait_until(lambda: int(replica.info("replication").get("slave_repl_offset", -1)) >= behind)


def runs_a_script(server):
    """Waits until it says so to others."""
    wait_until(lambda: not succeeds(server, "PING"))


def fail_over(trio, sentinel=1):
    """A sentinel makes the replica the master, as soon as it can."""
    wait_until(lambda: succeeds(trio.sentinels[sentinel], "SENTINEL", "FAILOVER", trio.name))


def config(url, **keys):
    """Of a laterd whose queue lies there. partitions=0: as many as it has, or as laterd gives a new one."""
    return {"engine": {"engine": "redis"}, "redis": {"url": url, "timeout": "1s", "partitions": 16, **keys}}


def wait_until(claim, seconds=10):
    """Until it holds; fails when it does not in time, of which there is plenty."""
    end = time.monotonic() + max(seconds, PATIENCE_S)
    while not claim():
        assert time.monotonic() < end, "it did not become true in time"
        time.sleep(0.02)
