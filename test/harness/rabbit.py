"""A RabbitMQ of the tests' own: Debian's, on ports of its own, in a folder of its own. It takes 10 seconds
and more to start, so one serves all tests that have the fixture, on one worker (test/black/conftest.py); queues and
exchanges need names of the test's own. It has a port with TLS, too, where it asks for a certificate (front.py)."""

import os
import shutil
import signal
import subprocess
import time

import pika
import pika.exceptions
import pytest

from front import certificates
from ports import free_port
from process import LATERD

SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
PLUGIN = os.path.join(os.path.dirname(LATERD), "laterd-amqp.so")
START_SECONDS = 180

# Marks a file of tests.
NEEDED = pytest.mark.skipif(not os.path.exists(SERVER) or not os.path.exists(PLUGIN),
                            reason="needs rabbitmq-server, and librabbitmq when it was built")


class Rabbit:
    def __init__(self, folder):
        self.folder = folder
        self.port, self.tls_port, self.dist, self.epmd, self.admin = (free_port() for _ in range(5))
        folder.mkdir(parents=True, exist_ok=True)
        self.certificates = certs = folder / "certificates"
        certs.mkdir(exist_ok=True)
        certificates(certs)
        self.process = self.names = None
        (folder / "enabled_plugins").write_text("[].\n")
        (folder / "rabbit.conf").write_text("\n".join([
            f"listeners.tcp.1 = 127.0.0.1:{self.port}", "log.console = false", "handshake_timeout = 60000",
            "disk_free_limit.absolute = 1MB", "vm_memory_high_watermark.absolute = 4GB",
            f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}", f"ssl_options.cacertfile = {certs}/ca.crt",
            f"ssl_options.certfile = {certs}/server.crt", f"ssl_options.keyfile = {certs}/server.key",
            "ssl_options.verify = verify_peer", "ssl_options.fail_if_no_peer_cert = true"]) + "\n")
        # Of a plugin that is not enabled rabbit.conf must not speak.
        (folder / "advanced.config").write_text(
            f'[{{rabbitmq_management, [{{tcp_config, [{{port, {self.admin}}}, {{ip, "127.0.0.1"}}]}}]}}].\n')
        self.env = {
            **os.environ, "HOME": str(folder), "RABBITMQ_NODENAME": f"t{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self.dist), "ERL_EPMD_PORT": str(self.epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1", "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"), "RABBITMQ_CONFIG_FILE": str(folder / "rabbit.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
        }

    @property
    def url(self):
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2f"

    def erlang_pid(self):
        """Of the server itself, behind its script."""
        found = subprocess.run(["pgrep", "-s", str(self.process.pid), "-x", "beam.smp"], check=True,
                               stdout=subprocess.PIPE, text=True)
        return found.stdout.strip()

    def start(self):
        if self.names is None:  # in the server's place, so that it is ours to end
            self.names = subprocess.Popen([shutil.which("epmd"), "-port", str(self.epmd), "-address",
                                           "127.0.0.1"], stdin=subprocess.DEVNULL)
        with open(self.folder / "out", "ab") as out:
            self.process = subprocess.Popen([SERVER], env=self.env, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=out, start_new_session=True)
        return self

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def wait(self):
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            try:
                self.connect().close()
                return self
            except (pika.exceptions.AMQPError, OSError):
                if self.process.poll() is not None:
                    break
                time.sleep(0.2)
        raise RuntimeError("RabbitMQ did not start: " + (self.folder / "out").read_text()[-2000:])

    def connect(self):
        return pika.BlockingConnection(pika.ConnectionParameters(
            "127.0.0.1", self.port, heartbeat=0, socket_timeout=60, stack_timeout=90, blocked_connection_timeout=120))

    def eval(self, expression):
        """Runs Erlang in the server, as `rabbitmqctl eval` does, which takes seconds of processor to begin. erl_call
        comes with Debian's Erlang."""
        done = subprocess.run(["erl_call", "-R", "-sname", f"t{self.port}@localhost", "-e"], input=expression + "\n",
                              env=self.env, capture_output=True, text=True, timeout=180, check=True)
        assert done.stdout.startswith("{ok, "), done.stdout + done.stderr

    def _end(self, number):
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass
        self.process.wait(timeout=60)
        self.process = None

    def kill(self):
        """As a machine that fails: what was not on disk is gone."""
        self._end(signal.SIGKILL)

    def stop(self):
        self.kill()
        if self.names:
            self.names.kill()
            self.names.wait(timeout=20)
            self.names = None


# ---- fixtures; import them by these names ----


_one = None  # for all tests


@pytest.fixture(scope="module", name="rabbit")
def a_rabbit(tmp_path_factory, request):
    global _one
    if _one is None:
        _one = Rabbit(tmp_path_factory.mktemp("rabbit"))
        request.config.add_cleanup(_one.stop)
    return _one if _one.runs() else _one.start().wait()


@pytest.fixture(name="channel")
def a_channel(rabbit):
    connection = rabbit.connect()
    yield connection.channel()
    connection.close()
