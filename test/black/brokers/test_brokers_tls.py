"""TLS and credentials of brokers, each with an authority of its own: RabbitMQ, nats-server and Redis as they are,
and for Kafka, of which Debian has no server, and NATS' files of credentials, which need an operator's keys, as
much of their protocol as shows the log-in."""

import base64
import json
import os
import socket
import ssl
import struct
import subprocess
import threading

import pytest

from front import certificates
from nats import Nats
from process import LATERD, ROOT
try:
    from rabbit import NEEDED as RABBIT_NEEDED, a_rabbit  # noqa: F401
except ImportError:
    RABBIT_NEEDED = pytest.mark.skip(reason="needs python3-pika")
from test_targets import laterd_to, needs_nats, push, set_target  # noqa: F401
from wire import eventually

pytestmark = pytest.mark.embedded("connections to brokers are the same whatever the engine")

# A pair from NATS' documentation.
NKEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"


@pytest.fixture(scope="module", name="certs")
def a_folder_of_certificates(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("certificates"))


def held(client, topic):
    return client.get(f"/v1/topics/{topic}").json().get("held")


def log_of(server):
    return "\n".join(server.lines)


def expect_refused(client, server, topic, *reasons):
    """Nothing is sent, no attempt counts, and the log says why."""
    assert eventually(lambda: held(client, topic) == "sink", 20)
    assert eventually(lambda: any(reason in log_of(server) for reason in reasons), 20), log_of(server)[-2000:]
    job = client.get(f"/v1/topics/{topic}/jobs?state=ready").json()["jobs"][0]
    assert job["failures"] == 0


# ---- RabbitMQ: it asks for a certificate where it has TLS ----


def rabbit_target(client):
    set_target(client, "orders", type="amqp", broker="it", exchange="", routing_key="jobs")
    push(client, "orders", 0, 3)


def messages_of(rabbit, queue):
    connection = rabbit.connect()
    try:
        return connection.channel().queue_declare(queue, durable=True).method.message_count
    finally:
        connection.close()


@RABBIT_NEEDED
def test_amqps_with_an_authority_and_a_client_certificate(rabbit, laterd_to, tmp_path):
    certs = rabbit.certificates
    (tmp_path / "url").write_text(f"amqps://guest:guest@localhost:{rabbit.tls_port}/%2f\n")
    before = messages_of(rabbit, "jobs")
    _, client = laterd_to("it", "amqp", f"file:{tmp_path}/url", ca=certs / "ca.crt",
                          certificate=certs / "client.crt", key=certs / "client.key")
    rabbit_target(client)
    assert eventually(lambda: messages_of(rabbit, "jobs") == before + 3, 20)


@RABBIT_NEEDED
@pytest.mark.parametrize("wrong", ["authority", "certificate"])
def test_amqps_is_refused_with_the_wrong(rabbit, laterd_to, wrong):
    certs = rabbit.certificates
    keys = {"certificate": certs / "client.crt", "key": certs / "client.key"}
    server, client = laterd_to("it", "amqp", f"amqps://guest:guest@localhost:{rabbit.tls_port}/%2f",
                               ca=certs / ("other.crt" if wrong == "authority" else "ca.crt"),
                               **(keys if wrong != "certificate" else {}))
    rabbit_target(client)
    expect_refused(client, server, "orders", "broker_away")


# ---- NATS ----


class SecureNats(Nats):
    """`options`: what nats-server is started with besides; the test cannot ask it then."""

    def __init__(self, folder, *options):
        super().__init__(folder)
        self.options = options

    def start(self, seconds=10):
        self.process = subprocess.Popen(
            [nats_server(), "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", self.folder, *self.options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert eventually(self.listens, seconds)
        return self

    def listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False


def nats_server():
    from nats import INSTALLED
    return INSTALLED


@pytest.fixture(name="nats_with_stream")
def a_nats_with_a_stream():
    """nats_with_stream(*options): started once without them to make the stream."""
    servers = []

    def make(*options):
        plain = Nats()
        servers.append(plain)
        plain.start().make_stream("ORDERS", "orders")
        plain.kill()
        secure = SecureNats(plain.folder, *options)
        servers.append(secure)
        return secure.start()
    yield make
    for server in servers:
        server.kill()
    for server in servers:
        server.__exit__()


def nats_target(client):
    set_target(client, "orders", type="nats", broker="it", subject="orders")
    push(client, "orders", 0, 3)


def all_gone(client):
    return eventually(lambda: all(client.get("/v1/topics/orders").json()[state] == 0
                                  for state in ("ready", "reserved", "delayed", "buried")), 20)


@needs_nats
def test_nats_over_tls_with_a_client_certificate_and_a_token(nats_with_stream, laterd_to, certs):
    server = nats_with_stream("--tls", "--tlscert", certs / "server.crt", "--tlskey", certs / "server.key",
                              "--tlsverify", "--tlscacert", certs / "ca.crt", "--auth", "s3cret")
    _, client = laterd_to("it", "nats", f"nats+tls://s3cret@127.0.0.1:{server.port}", ca=certs / "ca.crt",
                          certificate=certs / "client.crt", key=certs / "client.key")
    nats_target(client)
    assert all_gone(client)


@needs_nats
@pytest.mark.parametrize("wrong", ["authority", "name", "token", "no tls"])
def test_nats_is_refused_with_the_wrong(nats_with_stream, laterd_to, certs, wrong):
    name = "elsewhere" if wrong == "name" else "server"
    server = nats_with_stream("--tls", "--tlscert", certs / f"{name}.crt", "--tlskey", certs / f"{name}.key",
                              "--auth", "s3cret")
    word = "wrong" if wrong == "token" else "s3cret"
    scheme = "nats" if wrong == "no tls" else "nats+tls"
    laterd, client = laterd_to("it", "nats", f"{scheme}://{word}@127.0.0.1:{server.port}",
                               ca=certs / ("other.crt" if wrong == "authority" else "ca.crt"))
    nats_target(client)
    expect_refused(client, laterd, "orders", "broker_away", "nats_away")
    assert "s3cret" not in log_of(laterd)


@needs_nats
def test_nats_with_an_nkey(nats_with_stream, laterd_to, tmp_path):
    (tmp_path / "nats.conf").write_text("authorization { users = [ { nkey: %s } ] }\n" % NKEY)
    (tmp_path / "seed").write_text(SEED + "\n")
    server = nats_with_stream("-c", tmp_path / "nats.conf")
    _, client = laterd_to("it", "nats", f"nats://{NKEY}@127.0.0.1:{server.port}?nkey={tmp_path}/seed")
    nats_target(client)
    assert all_gone(client)


@needs_nats
@pytest.mark.parametrize("password", ["s3cret", "wrong"])
def test_nats_with_user_and_password(nats_with_stream, laterd_to, password):
    server = nats_with_stream("--user", "me", "--pass", "s3cret")
    laterd, client = laterd_to("it", "nats", f"nats://me:{password}@127.0.0.1:{server.port}")
    nats_target(client)
    if password == "s3cret":
        assert all_gone(client)
    else:
        expect_refused(client, laterd, "orders", "broker_away")
        assert "wrong" not in log_of(laterd)


@needs_nats
def test_nats_is_logged_in_to_with_a_password_that_was_replaced(nats_with_stream, laterd_to, tmp_path):
    def write(password):
        (tmp_path / "new").write_text(f"nats://me:{password}@127.0.0.1:{server.port}\n")
        os.rename(tmp_path / "new", tmp_path / "url")
    server = nats_with_stream("--user", "me", "--pass", "0ld")
    write("0ld")
    laterd, client = laterd_to("it", "nats", f"file:{tmp_path}/url")
    nats_target(client)
    assert all_gone(client)
    server.kill()
    server.options = ("--user", "me", "--pass", "n3w")
    server.start()
    push(client, "orders", 3, 3)
    assert eventually(lambda: held(client, "orders") == "sink", 20)  # nothing is sent, and no attempt counts
    write("n3w")
    assert all_gone(client)
    assert "n3w" not in log_of(laterd) and "0ld" not in log_of(laterd)


class NatsUpToTheLogIn:
    """It says INFO with a nonce to each connection, keeps what the answer to it is, and ends."""

    NONCE = "n0nce-0f-the-test"

    def __init__(self):
        self.logins = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        info = {"server_id": "test", "version": "2.9.10", "proto": 1, "headers": True, "max_payload": 1 << 20,
                "jetstream": True, "auth_required": True, "nonce": self.NONCE}
        try:
            while True:
                connection, _ = self.listener.accept()
                with connection, connection.makefile("rb") as lines:
                    connection.sendall(b"INFO %s\r\n" % json.dumps(info).encode())
                    line = lines.readline()
                    if line.startswith(b"CONNECT "):
                        self.logins.append(json.loads(line[len("CONNECT "):]))
        except OSError:
            pass  # the test has ended

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def public_key_of(nkey):
    """What is in its 32 bytes: behind the kind's byte, before the checksum."""
    return base64.b32decode(nkey)[1:33]


@needs_nats
def test_nats_with_a_file_of_credentials_sends_its_token_and_signs_the_nonce(laterd_to, tmp_path):
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    token = "eyJ0eXAiOiJKV1QifQ.e30.c2lnbmF0dXJl"  # nobody but nats-server reads what is in it
    (tmp_path / "user.creds").write_text(
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n")
    server = NatsUpToTheLogIn()
    try:
        laterd, client = laterd_to("it", "nats", f"nats://127.0.0.1:{server.port}?credentials={tmp_path}/user.creds")
        nats_target(client)
        assert eventually(lambda: server.logins, 20)
        login = server.logins[0]
        assert login["jwt"] == token
        signature = base64.urlsafe_b64decode(login["sig"] + "=" * (-len(login["sig"]) % 4))
        key = ed25519.Ed25519PublicKey.from_public_bytes(public_key_of(NKEY))
        key.verify(signature, server.NONCE.encode())  # raises if it is another's
        assert eventually(lambda: held(client, "orders") == "sink")
        assert SEED not in log_of(laterd) and token not in log_of(laterd)
    finally:
        server.close()


# ---- Redis ----


@pytest.fixture(scope="module", name="secure_redis")
def a_redis_with_tls_and_a_user(tmp_path_factory, certs):
    """It asks clients for a certificate; its user `it` may do what docs/brokers.md says that laterd needs, no more."""
    from redis import Redis, cluster_ports
    port, plain = cluster_ports(2)
    server = Redis(tmp_path_factory.mktemp("redis"), plain, tls_port=port, tls_cert_file=certs / "server.crt",
                   tls_key_file=certs / "server.key", tls_ca_cert_file=certs / "ca.crt", tls_auth_clients="yes")
    server.tls_port = port
    try:
        server.start()
    except RuntimeError:
        server.close()
        pytest.skip("this redis-server was built without TLS")
    server.call("ACL", "SETUSER", "it", "on", ">s3cret", "~orders", "+xadd", "+ping", "+role")
    yield server
    server.close()


def redis_target(client):
    set_target(client, "orders", type="redis", broker="it", kind="stream", key="orders")
    push(client, "orders", 0, 3)


def test_redis_over_tls_with_a_client_certificate_and_a_user(secure_redis, laterd_to, certs, tmp_path):
    (tmp_path / "url").write_text(f"rediss://it:s3cret@localhost:{secure_redis.tls_port}\n")
    _, client = laterd_to("it", "redis", f"file:{tmp_path}/url", ca=certs / "ca.crt",
                          certificate=certs / "client.crt", key=certs / "client.key")
    redis_target(client)
    assert eventually(lambda: secure_redis.call("XLEN", "orders") == 3, 20)


@pytest.mark.parametrize("wrong", ["authority", "certificate", "password"])
def test_redis_is_refused_with_the_wrong(secure_redis, laterd_to, certs, wrong):
    keys = {"certificate": certs / "client.crt", "key": certs / "client.key"}
    word = "nonsense" if wrong == "password" else "s3cret"
    server, client = laterd_to("it", "redis", f"rediss://it:{word}@localhost:{secure_redis.tls_port}",
                               ca=certs / ("other.crt" if wrong == "authority" else "ca.crt"),
                               **(keys if wrong != "certificate" else {}))
    redis_target(client)
    expect_refused(client, server, "orders", "redis_away", "broker_away")
    assert word not in log_of(server)


# ---- Kafka ----


class Kafka:
    """A broker up to the log-in: it answers ApiVersions, SaslHandshake and SaslAuthenticate, and no more."""

    def __init__(self, context):
        self.context, self.logins, self.failures, self.connections = context, [], [], 0
        self.requests = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()
        except OSError:
            pass  # the test has ended

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def serve(self, connection):
        self.connections += 1
        try:
            with self.context.wrap_socket(connection, server_side=True) as wrapped:
                while self.answer(wrapped):
                    pass
        except (OSError, ssl.SSLError, struct.error) as error:
            self.failures.append(str(error))

    def answer(self, connection):
        size = read(connection, 4)
        if not size:
            return False
        self.requests += 1
        request = read(connection, struct.unpack(">i", size)[0])
        key, version, number, name = struct.unpack(">hhih", request[:10])
        rest = request[10 + max(name, 0):]
        body = self.body_of(key, version, rest)
        connection.sendall(struct.pack(">ii", 4 + len(body), number) + body)
        return True

    def body_of(self, key, version, rest):
        if key == 18 and version > 0:
            return struct.pack(">hi", 35, 0)  # only version 0 is known here
        if key == 18:
            known = [(0, 0, 3), (3, 0, 1), (17, 0, 1), (18, 0, 0), (36, 0, 0)]
            return struct.pack(">hi", 0, len(known)) + b"".join(struct.pack(">hhh", *api) for api in known)
        if key == 17:
            return struct.pack(">hih", 0, 1, 5) + b"PLAIN"
        if key == 36:
            self.logins.append(rest[4:])
        return struct.pack(">hhi", 58, -1, 0)  # the log-in is refused: there is no more to see


def read(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            return b""
        data += more
    return data


@pytest.fixture(name="kafka")
def a_kafka_up_to_the_log_in(certs):
    if not os.path.exists(os.path.join(ROOT, "build", "laterd-kafka.so")):
        pytest.skip("librdkafka is not installed")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certs / "server.crt", certs / "server.key")
    context.load_verify_locations(certs / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    server = Kafka(context)
    yield server
    server.close()


def away(server):
    return "".join(line for line in log_of(server).splitlines() if " broker_away " in line)


def kafka_target(client):
    set_target(client, "orders", type="kafka", broker="it", topic="orders")
    push(client, "orders", 0, 1)


def test_kafka_logs_in_by_sasl_over_tls_with_a_client_certificate(kafka, laterd_to, certs):
    server, client = laterd_to("it", "kafka", f"kafkas://me:s3cret@127.0.0.1:{kafka.port}", ca=certs / "ca.crt",
                               certificate=certs / "client.crt", key=certs / "client.key")
    kafka_target(client)
    assert eventually(lambda: kafka.logins, 20), kafka.failures
    assert kafka.logins[0] == b"\0me\0s3cret"
    assert eventually(lambda: held(client, "orders") == "sink")
    assert eventually(lambda: "SASL" in away(server), 20), log_of(server)
    assert "s3cret" not in log_of(server)


def test_kafka_is_logged_in_to_with_a_password_that_was_replaced(kafka, laterd_to, certs, tmp_path):
    def write(password):
        (tmp_path / "new").write_text(f"kafkas://me:{password}@127.0.0.1:{kafka.port}\n")
        os.rename(tmp_path / "new", tmp_path / "url")
    write("0ld")
    server, client = laterd_to("it", "kafka", f"file:{tmp_path}/url", ca=certs / "ca.crt",
                               certificate=certs / "client.crt", key=certs / "client.key")
    kafka_target(client)
    assert eventually(lambda: kafka.logins, 20), kafka.failures
    assert kafka.logins[0] == b"\0me\x000ld"
    write("n3w")
    assert eventually(lambda: kafka.logins[-1] == b"\0me\0n3w", 20), kafka.logins
    assert "n3w" not in log_of(server) and "0ld" not in log_of(server)


def test_kafka_with_another_authority_is_not_spoken_to(kafka, laterd_to, certs):
    server, client = laterd_to("it", "kafka", f"kafkas://me:s3cret@127.0.0.1:{kafka.port}", ca=certs / "other.crt")
    kafka_target(client)
    assert eventually(lambda: kafka.failures, 20)
    assert eventually(lambda: "certificate verify failed" in away(server), 20), log_of(server)
    assert log_of(server).count(" broker_away ") <= 3  # each reason once
    assert eventually(lambda: held(client, "orders") == "sink")
    assert not kafka.logins


@pytest.mark.parametrize("kind, url", [("amqp", "amqps://guest:guest@localhost:{}/%2f"),
                                       ("kafka", "kafkas://me:s3cret@localhost:{}")])
def test_a_server_whose_certificate_is_anothers_is_sent_nothing(laterd_to, certs, kind, url):
    if not os.path.exists(os.path.join(ROOT, "build", f"laterd-{kind}.so")):
        pytest.skip("its library is not installed")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certs / "elsewhere.crt", certs / "elsewhere.key")
    impostor = Kafka(context)
    try:
        laterd_to("it", kind, url.format(impostor.port), ca=certs / "ca.crt")
        assert eventually(lambda: impostor.connections > 1, 20)
        assert impostor.requests == 0
    finally:
        impostor.close()


@pytest.mark.parametrize("kind, url", [("amqp", "amqps://127.0.0.1"), ("nats", "nats+tls://127.0.0.1")])
def test_a_file_of_authorities_that_is_not_there_yet_is_no_reason_not_to_start(tmp_path, kind, url):
    if not os.path.exists(os.path.join(ROOT, "build", f"laterd-{kind}.so")):
        pytest.skip("its library is not installed")
    path = tmp_path / "laterd.conf"
    path.write_text(f"[broker.it]\ntype = {kind}\nurl = {url}\nca = /nowhere/ca.crt\n", encoding="utf-8")
    done = subprocess.run([LATERD, "-c", str(path), "--check-config"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "laterd.conf:1: warning: [broker.it] " in done.stderr, done.stderr
