"""Coordination services as processes of a test's own on free ports of the loopback: ZooKeeper,
MariaDB, Redis. Each can be frozen, stopped and started again. And candidates of an election without
a queue (test/harness/member_drive.c)."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import deaths
from mariadb import INSTALL, USER_OPTION, make_data, own_tmpdir
from patience import PATIENCE_S
from ports import free_port
from process import LATERD
from redis import Redis, Started
from wire import eventually

BUILD = os.path.dirname(LATERD)
DRIVE = os.path.join(BUILD, "member_drive")
ZOOKEEPER_JAR = "/usr/share/java/zookeeper.jar"
JAVA = shutil.which("java")
MARIADBD = shutil.which("mariadbd", path=os.environ.get("PATH", "") + ":/usr/sbin")


def until(claim, seconds):
    """Waits for it to be true, which takes about so long at most where nothing else runs."""
    assert eventually(claim, seconds, every=0.005), "it did not become true in time"


class Service(Started):
    """A server process. A subclass has command(), url and is_up()."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="laterd-coord-")
        self.port = free_port()
        self.process = None

    def launch(self):
        with open(os.path.join(self.folder, "out"), "ab") as out:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        deaths.started(self)

    def start(self, seconds=2 * PATIENCE_S):
        self.launch()
        until(self.is_up, seconds)
        return self

    def is_up(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 10).close()
            return True
        except OSError:
            assert self.process.poll() is None, "the service has ended"
            return False

    def freeze(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self):
        deaths.ended(self)
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process = None


class ZooKeeper(Service):
    """One server; ticks of 100 ms, so sessions of 0.2 to 2 s and, by its own setting, more. Or, if `peers` has
    the ports of an ensemble, its server number `number`."""

    needs = "zookeeper and default-jre-headless"
    installed = bool(JAVA and os.path.exists(ZOOKEEPER_JAR))

    def __init__(self, number=0, peers=()):
        super().__init__()
        self.number, self.peers = number, peers

    def command(self):
        path, data = os.path.join(self.folder, "zoo.cfg"), os.path.join(self.folder, "data")
        os.makedirs(data, exist_ok=True)
        with open(os.path.join(data, "myid"), "w", encoding="utf-8") as file:
            file.write(str(self.number))
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"tickTime=100\nmaxSessionTimeout=60000\ndataDir={data}\n"
                       f"clientPort={self.port}\nclientPortAddress=127.0.0.1\n"
                       "admin.enableServer=false\n4lw.commands.whitelist=ruok,srvr\n")
            if self.peers:
                file.write("initLimit=50\nsyncLimit=20\n")
            for number, (follow, elect) in enumerate(self.peers):
                file.write(f"server.{number}=127.0.0.1:{follow}:{elect}\n")
        main = "quorum.QuorumPeerMain" if self.peers else "ZooKeeperServerMain"
        return [JAVA, "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"/etc/zookeeper/conf:{ZOOKEEPER_JAR}",
                f"org.apache.zookeeper.server.{main}", path]

    def says(self, word):
        """The answer to one of its words of four letters."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 10) as connection:
                connection.sendall(word)
                return connection.makefile("rb").read()
        except OSError:
            return b""

    def is_up(self):
        if not super().is_up():
            return False
        if self.peers:
            return b"Mode: " in self.says(b"srvr")  # it has found the others
        return self.says(b"ruok") == b"imok"

    def delete_node(self, folder, prefix=""):
        """Deletes, as somebody would by hand, the nodes below a folder whose names begin so; their names."""
        with ZooKeeperClient(self.port) as client:
            names = [name for name in client.children(folder) if name.startswith(prefix)]
            for name in names:
                client.delete(f"{folder}/{name}")
        return names

    @property
    def url(self):
        return f"zookeeper://127.0.0.1:{self.port}/test"


class ZooKeeperClient:
    """As much of a client as is needed to make nodes, look at them and delete them: its protocol's numbers are
    big-endian, a text has its length before it, and so has each message."""

    CREATE, CHILDREN, DELETE, CLOSE = 1, 8, 2, -11
    SEQUENTIAL = 2

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.send(struct.pack(">iqiqi16s?", 0, 0, 10000, 0, 16, b"", False))
        self.receive()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call(self.CLOSE, b"")
        self.socket.close()

    def send(self, message):
        self.socket.sendall(struct.pack(">i", len(message)) + message)

    def take(self, count):
        found = b""
        while len(found) < count:
            more = self.socket.recv(count - len(found))
            assert more, "ZooKeeper has closed the connection"
            found += more
        return found

    def receive(self):
        return self.take(struct.unpack(">i", self.take(4))[0])

    def call(self, what, payload):
        self.send(struct.pack(">ii", 1, what) + payload)
        answer = self.receive()
        error = struct.unpack_from(">i", answer, 12)[0]
        assert error == 0, f"ZooKeeper's error {error}"
        return answer[16:]

    def call_all(self, what, payloads):
        """All at once, which takes a fraction of the time."""
        for payload in payloads:
            self.send(struct.pack(">ii", 1, what) + payload)
        answers = [self.receive() for _ in payloads]
        assert all(struct.unpack_from(">i", answer, 12)[0] == 0 for answer in answers)
        return [answer[16:] for answer in answers]

    @staticmethod
    def text(text):
        return struct.pack(">i", len(text)) + text.encode()

    def children(self, path):
        answer = self.call(self.CHILDREN, self.text(path) + b"\0")
        names, at = [], 4
        for _ in range(struct.unpack_from(">i", answer)[0]):
            size = struct.unpack_from(">i", answer, at)[0]
            names.append(answer[at + 4:at + 4 + size].decode())
            at += 4 + size
        return names

    def create_all(self, path, count):
        """So many that anybody may do anything to, with a number behind the path each. Their paths."""
        rights = struct.pack(">ii", 1, 31) + self.text("world") + self.text("anyone")
        one = self.text(path) + self.text("") + rights + struct.pack(">i", self.SEQUENTIAL)
        return [answer[4:].decode() for answer in self.call_all(self.CREATE, [one] * count)]

    def delete(self, *paths):
        self.call_all(self.DELETE, [self.text(path) + struct.pack(">i", -1) for path in paths])


class Ensemble:
    """Three ZooKeeper servers."""

    def __init__(self):
        peers = [(free_port(), free_port()) for _ in range(3)]
        self.servers = [ZooKeeper(number, peers) for number in range(3)]

    def __enter__(self):
        for server in self.servers:
            server.launch()
        for server in self.servers:
            until(server.is_up, 60)
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.close()

    @property
    def url(self):
        return "zookeeper://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers) + "/test"

    def leader(self):
        """The server that leads the others, as soon as there is one."""
        found = []
        until(lambda: found or found.extend(server for server in self.servers
                                            if b"Mode: leader" in server.says(b"srvr")), 20)
        return found[0]


class MariaDb(Service):
    """Without users and passwords: everybody may do everything."""

    needs = "mariadb-server"
    installed = bool(MARIADBD and INSTALL)

    def __init__(self):
        super().__init__()
        self.data = os.path.join(self.folder, "data")
        make_data(self.data)
        os.makedirs(os.path.join(self.data, "queue"), exist_ok=True)

    def command(self):
        return [MARIADBD, "--no-defaults", f"--datadir={self.data}", "--skip-grant-tables",
                f"--socket={self.folder}/s", f"--port={self.port}", "--bind-address=127.0.0.1",
                "--innodb-buffer-pool-size=16M", own_tmpdir(self.folder), *USER_OPTION]

    @property
    def url(self):
        return f"mysql://laterd@127.0.0.1:{self.port}/queue"

    def run(self, sql):
        return subprocess.run(["mariadb", "--no-defaults", f"--socket={self.folder}/s", "-N", "-e", sql,
                               "queue"], check=True, capture_output=True, text=True).stdout


class RedisService(Redis):
    """As harness/redis.py has it, with the names of this file."""

    needs = "redis-server"
    installed = bool(shutil.which("redis-server"))

    def __init__(self):
        super().__init__(appendonly="yes")


SERVICES = {"zookeeper": ZooKeeper, "mysql": MariaDb, "redis": RedisService}


class Candidate:
    """One member_drive. `events` are its lines, split; `leads` and `holds` an epoch, or 0."""

    def __init__(self, url, advertise="http://here", name="queue", timeout_ms=2000, environment=None):
        self.events = []
        self.leads = self.holds = self.epoch = 0
        self.leader = ""
        self.process = subprocess.Popen([DRIVE, url, name, str(timeout_ms), advertise],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.PIPE, env={**os.environ, **(environment or {})})
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            words = line.split()
            self.events.append(words)
            if words[0] == "leading":
                self.leads = self.epoch = int(words[1])
            elif words[0] == "waiting":
                self.leads, self.epoch = 0, int(words[1])
                self.leader = line.split(";")[0].split()[3] if len(line.split(";")[0].split()) > 3 else ""
            elif words[0] == "holds":
                self.holds = int(words[1])
            elif words[0] == "lost":
                self.holds = 0

    def spans(self, now):
        """[(epoch, from, to)] in microseconds of CLOCK_BOOTTIME, as it saw them itself."""
        found, begun = [], None
        for words in self.events:
            if words[0] in ("holds", "lost") and begun:
                found.append((*begun, int(words[-1])))
                begun = None
            if words[0] == "holds":
                begun = (int(words[1]), int(words[2]))
        if begun:
            found.append((*begun, now))
        return found

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def freeze(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.thaw()
            try:
                self.tell("close")
                self.process.wait(PATIENCE_S)
            except (OSError, subprocess.TimeoutExpired):
                self.kill()
        self.reader.join(PATIENCE_S)
        self.process.stdout.close()
        self.process.stdin.close()
        self.process.stderr.close()


def boottime_us():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
