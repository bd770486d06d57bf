"""A MariaDB of the tests' own: Debian's, on a port and socket of its own, in a folder of its own. One serves a
whole file; each test has a database of its own.

TEST_MYSQLD=/path/to/mysqld plays the same tests with Oracle's MySQL, which Debian 12 does not have."""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time

import pymysql
import pytest

import deaths
from ports import free_port
from patience import PATIENCE_S
from process import LATERD, remove

MYSQLD = os.environ.get("TEST_MYSQLD")
SERVER = MYSQLD or shutil.which("mariadbd") or "/usr/sbin/mariadbd"
INSTALL = MYSQLD or shutil.which("mariadb-install-db")
PLUGIN = os.path.join(os.path.dirname(LATERD), "laterd-journal-mysql.so")

# Marks a file of tests.
NEEDED = pytest.mark.skipif(not os.path.exists(SERVER) or not INSTALL or not os.path.exists(PLUGIN),
                            reason="needs mariadb-server, and libmariadb when it was built")

DEADLOCK = 1213  # ER_LOCK_DEADLOCK
USER, PASSWORD = "laterd", "a pass:word@%"


USER_OPTION = ["--user=root"] if os.geteuid() == 0 else []


# What makes a data directory in which root needs no password.
MAKE_OPTIONS = ["--initialize-insecure"] if MYSQLD else \
    ["--skip-test-db", "--auth-root-authentication-method=normal"]


def own_tmpdir(folder):
    """The option for temporary files in `folder`, where no other server has its own: a server that starts deletes
    all "#sql*" in its tmpdir, and MariaDB 10.11 crashes if that happens to a temporary table that it is about to
    open, as it makes for a query of information_schema."""
    path = os.path.join(folder, "tmp")
    os.makedirs(path, exist_ok=True)
    return f"--tmpdir={path}"


def install(folder):
    with tempfile.TemporaryDirectory(prefix="laterd-maria-") as temporary:
        done = subprocess.run([INSTALL, "--no-defaults", f"--datadir={folder}", *MAKE_OPTIONS, *USER_OPTION],
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                              env={**os.environ, "TMPDIR": temporary})
    if done.returncode != 0:
        raise RuntimeError(f"{INSTALL} ended with {done.returncode}: {done.stdout.decode(errors='replace')}")


def installed():
    """A data directory that nobody has used, beside what was built: made once for each version of the server and
    each user, as that takes seconds of processor."""
    about = os.stat(SERVER)
    name = f"{about.st_size}-{about.st_mtime_ns}-{os.geteuid()}"
    path = os.path.join(os.path.dirname(LATERD), "mariadb", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers may want it
        if not os.path.exists(path):
            shutil.rmtree(path + ".new", ignore_errors=True)
            install(path + ".new")
            os.rename(path + ".new", path)
    return path


def make_data(folder):
    """Makes a data directory."""
    subprocess.run(["cp", "-a", "--sparse=always", installed(), folder], check=True, timeout=120)


class MariaDb:
    """`options` as its command line has them: "--max-allowed-packet=1M"."""

    def __init__(self, options=()):
        self.folder = tempfile.mkdtemp(prefix="laterd-maria-")  # short: a socket's path has 107 bytes
        self.data = os.path.join(self.folder, "data")
        self.socket = os.path.join(self.folder, "s")
        self.port = free_port()
        self.options = list(options)
        self.process = None

    def make(self):
        make_data(self.data)
        return self

    def start(self, seconds=2 * PATIENCE_S, wait=True):
        with open(os.path.join(self.folder, "out"), "ab") as out:
            self.process = subprocess.Popen(
                [SERVER, "--no-defaults", f"--datadir={self.data}", f"--socket={self.socket}",
                 f"--port={self.port}", "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=64M",
                 "--pid-file=" + os.path.join(self.folder, "pid"), "--skip-name-resolve",
                 own_tmpdir(self.folder), *USER_OPTION, *self.options], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        deaths.started(self)
        return self.wait(seconds) if wait else self

    def wait(self, seconds=2 * PATIENCE_S):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                self.connect().close()
                return self
            except pymysql.err.OperationalError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.02)
        with open(os.path.join(self.folder, "out"), encoding="utf-8", errors="replace") as out:
            raise RuntimeError("MariaDB did not start: " + out.read()[-2000:])

    def connect(self, database=None):
        return pymysql.connect(unix_socket=self.socket, user="root", database=database,
                               charset="utf8mb4", autocommit=True)

    def run(self, *statements, database=None):
        """Runs statements as root; the rows of the last one. One that meets a deadlock with laterd is run again."""
        connection = self.connect(database)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    for attempt in range(20):
                        try:
                            cursor.execute(statement)
                            break
                        except pymysql.err.OperationalError as error:
                            if error.args[0] != DEADLOCK or attempt == 19:
                                raise
                return cursor.fetchall()
        finally:
            connection.close()

    def database(self, name, grants="ALL"):
        """A new database, whatever a try before this one has left, and a user for it; the URL for [journal]."""
        self.run(f"DROP DATABASE IF EXISTS `{name}`",
                 f"CREATE DATABASE `{name}`",
                 f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'",
                 f"GRANT {grants} ON `{name}`.* TO '{USER}'@'%'")
        return self.url(name)

    def url(self, name, password="a%20pass:word%40%25"):
        return f"mysql://{USER}:{password}@127.0.0.1:{self.port}/{name}"

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, number):
        deaths.ended(self)
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
        if self.process:
            self.process.wait(timeout=60)
        self.process = None

    def kill(self):
        """As a machine that fails."""
        self.end(signal.SIGKILL)

    def stop(self):
        self.kill()
        remove(self.folder)


# ---- fixtures; import them by these names ----


@pytest.fixture(scope="module", name="maria")
def a_maria():
    maria = MariaDb()
    try:
        yield maria.make().start()
    finally:
        maria.stop()
