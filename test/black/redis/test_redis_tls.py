"""Redis that speaks TLS: laterd does, too, and trusts only a server that proves to be the one that it
asked for; or it goes through stunnel as docs/redis-recipes.md tells."""

import contextlib
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import time

import pytest
from patience import PATIENCE_S, soon
from poll import Poll
from process import ROOT, DidNotStart, Laterd
from redis import REDIS_SERVER, Cluster, Redis, cluster_ports, free_port, wait_until
from wire import Client, eventually

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")

STUNNEL = shutil.which("stunnel4") or shutil.which("stunnel")


def config(url, **redis):
    return {"engine": {"engine": "redis"}, "redis": {"url": url, **redis}}


def refusal(laterd, url, **redis):
    with pytest.raises(DidNotStart) as why:
        laterd(config(url, **redis))
    return next(line for line in str(why.value).splitlines() if "cannot use Redis: " in line)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority, another, and a server's certificate of the first."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)

    for name in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out",
                f"{name}.crt", "-subj", f"/CN={name}", "-days", "2")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "redis.key", "-out", "redis.csr",
            "-subj", "/CN=redis")
    for name, names in (("redis", "DNS:localhost,IP:127.0.0.1"), ("elsewhere", "DNS:elsewhere")):
        (folder / "names").write_text(f"subjectAltName = {names}\n")
        openssl("x509", "-req", "-in", "redis.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                "-CAcreateserial", "-out", f"{name}.crt", "-days", "2", "-extfile", "names")
    return folder


class Tunnel:
    """stunnel with the configuration that docs/redis-recipes.md has."""

    def __init__(self, folder, redis_port, authority, name="localhost"):
        self.port = free_port()
        with open(os.path.join(ROOT, "docs/redis-recipes.md"), encoding="utf-8") as file:
            text = re.search(r"\n(    \[redis\]\n    client = yes\n(?:    .*\n)+)", file.read()).group(1)
        for pattern, value in ((r"(?m)^ +", ""), (r"accept = .*", f"accept = 127.0.0.1:{self.port}"),
                               (r"connect = .*", f"connect = 127.0.0.1:{redis_port}"),
                               (r"CAfile = .*", f"CAfile = {authority}"),
                               (r"checkHost = .*", f"checkHost = {name}")):
            text, count = re.subn(pattern, value, text)
            assert count, f"docs/redis-recipes.md has no {pattern}"
        path = folder / f"stunnel-{self.port}.conf"
        path.write_text("foreground = yes\npid =\n" + text)
        self.process = subprocess.Popen([STUNNEL, str(path)], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

    def __enter__(self):
        assert eventually(self.listens), "stunnel did not start"
        return self

    def listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 10).close()
            return True
        except OSError:
            assert self.process.poll() is None, "stunnel has ended"
            return False

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def serve_tls(folder, certificate="redis.crt", **more):
    """A redis-server that speaks TLS at .tls_port."""
    port, = cluster_ports(1)
    settings = {"tls_port": port, "tls_cert_file": folder / certificate,
                "tls_key_file": folder / "redis.key", "tls_ca_cert_file": folder / "ca.crt",
                "tls_auth_clients": "no", **more}
    server = Redis(port=cluster_ports(1)[0], **settings)
    server.tls_port = port
    try:
        return server.start()
    except RuntimeError:
        server.close()
        pytest.skip("this redis-server was built without TLS")


@pytest.fixture(scope="module")
def tls_redis(certificates):
    with serve_tls(certificates) as server:
        yield server


# By itself


def elects(certificates, tls_redis, folder, name, authority):
    """A laterd that takes part in an election in that Redis."""
    folder.mkdir()
    member = {"url": f"rediss://localhost:{tls_redis.tls_port}", "name": name, "timeout": "2s"}
    if authority:
        member["ca"] = authority if authority.startswith("/") else certificates / authority
    return Laterd(folder, {"member": member}, listeners=(f"127.0.0.1:{free_port()}",))


def test_an_election_over_tls_trusts_the_authority_of_member_ca(certificates, tls_redis, tmp_path):
    for authority, event in (("ca.crt", "leads"), ("other.crt", "member_away"), ("", "member_away")):
        laterd = elects(certificates, tls_redis, tmp_path / f"of-{authority}", f"q{authority}", authority)
        laterd.start()
        try:
            assert eventually(lambda: laterd.events(event), 10), (authority, laterd.events())
            assert bool(laterd.events("leads")) == (event == "leads")
        finally:
            laterd.kill()


def test_a_member_ca_that_is_no_file_is_reported(certificates, tls_redis, tmp_path):
    laterd = elects(certificates, tls_redis, tmp_path / "wrong", "q", "/nowhere")
    with pytest.raises(DidNotStart, match="member.ca"):
        laterd.start()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_laterd_speaks_tls(laterd, certificates, tls_redis, host):
    server = laterd(config(f"rediss://{host}:{tls_redis.tls_port}", prefix=host,
                           tls_ca=certificates / "ca.crt"))
    with Client(server.port) as client:
        waiter = Poll(server.port, "t")  # by a subscription, over TLS as well
        job_id = client.push_id("t", body="x" * 300000, delay="200ms")  # of many records
        job = waiter.job()
        assert (job["id"], job["body"]) == (job_id, "x" * 300000)
        for number in range(200):
            assert client.push("u", body="y" * 20000, id=f"u-{number}").status == 201
        assert len(client.reserve_all("u", 200)) == 200


def test_a_connection_that_is_cut_is_made_again(laterd, certificates):
    with serve_tls(certificates, appendonly="yes", appendfsync="always") as redis:
        server = laterd(config(f"rediss://localhost:{redis.tls_port}",
                               tls_ca=certificates / "ca.crt"))
        with Client(server.port) as client:
            job_id = client.push_id("t", body="x")
            redis.kill()
            redis.start()
            assert eventually(lambda: client.push("t", body="y").status == 201, 10)
            assert client.reserve("t")[0]["id"] == job_id


def test_a_strange_authority_or_name_is_refused(laterd, certificates, tls_redis):
    url = f"rediss://localhost:{tls_redis.tls_port}"
    since = time.monotonic()
    assert "certificate" in refusal(laterd, url, tls_ca=certificates / "other.crt")
    assert "certificate" in refusal(laterd, url), "the system knows no such authority"
    with serve_tls(certificates, "elsewhere.crt") as stranger:
        for host in ("localhost", "127.0.0.1"):
            said = refusal(laterd, f"rediss://{host}:{stranger.tls_port}",
                           tls_ca=certificates / "ca.crt")
            assert "mismatch" in said, said
    soon(time.monotonic() - since, 5)  # four times at once


def test_laterd_proves_who_it_is_where_redis_asks(laterd, certificates):
    own = {"tls_ca": certificates / "ca.crt"}
    with serve_tls(certificates, tls_auth_clients="yes") as redis:
        url = f"rediss://localhost:{redis.tls_port}"
        refusal(laterd, url, **own)
        own |= {"tls_certificate": certificates / "redis.crt", "tls_key": certificates / "redis.key"}
        with Client(laterd(config(url, **own)).port) as client:
            client.push_id("t", body="x")


def test_a_server_without_tls_and_files_that_are_none_are_reported(laterd, certificates, tls_redis):
    said = refusal(laterd, f"rediss://localhost:{tls_redis.port}")  # it waits for a command's end
    assert "does not answer a TLS hello: most likely it speaks no TLS on this port: write redis://" in said
    url = f"rediss://localhost:{tls_redis.tls_port}"
    with pytest.raises(DidNotStart, match="redis.tls_ca = /nowhere: No such file or directory"):
        laterd(config(url, tls_ca="/nowhere"))
    with pytest.raises(DidNotStart, match="redis.tls_certificate = /nowhere: No such file or directory"):
        laterd(config(url, tls_certificate="/nowhere"))
    with pytest.raises(DidNotStart, match="redis.tls_key = "):
        laterd(config(url, tls_certificate=certificates / "redis.crt", tls_key=certificates / "ca.key"))


def test_a_key_that_asks_for_a_password_is_an_error_and_no_question(certificates, tmp_path):
    key = certificates / "encrypted.key"
    subprocess.run(["openssl", "rsa", "-in", certificates / "redis.key", "-aes256", "-passout",
                    "pass:secret", "-out", key], check=True, capture_output=True, timeout=60)
    server = Laterd(tmp_path, config("rediss://localhost:1", tls_key=key,
                                     tls_certificate=certificates / "redis.crt"))
    command = server.command()
    pid, terminal = pty.fork()  # whoever starts laterd by hand has one that can be asked
    if pid == 0:
        os.execv(command[0], command)
    said = b""
    with contextlib.suppress(OSError):  # its last words were read
        while select.select([terminal], [], [], PATIENCE_S)[0]:
            said += os.read(terminal, 1000)
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] != signal.SIGKILL, "it had ended by itself"
    os.close(terminal)
    assert b"redis.tls_key" in said and b"pass phrase" not in said


def test_a_cluster_is_spoken_to_over_tls(laterd, certificates):
    with serve_tls(certificates, cluster_enabled="yes", tls_cluster="yes") as node:
        node.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: Cluster.state(node) == "ok")
        url = f"rediss+cluster://127.0.0.1:{node.tls_port}"
        with Client(laterd(config(url, tls_ca=certificates / "ca.crt")).port) as client:
            client.push_id("t", body="x")


@pytest.fixture
def serve_sentinel(certificates):
    """A sentinel that speaks TLS, to be named jobs' master; returns its port."""
    sentinels = []

    def serve(certificate, master_port):
        port, = cluster_ports(1)
        sentinel = Redis(port=cluster_ports(1)[0], sentinel=True)
        sentinel.extra = [f"tls-port {port}", f"tls-cert-file {certificates / certificate}",
                          f"tls-key-file {certificates / 'redis.key'}", "tls-auth-clients no",
                          f"tls-ca-cert-file {certificates / 'ca.crt'}", "tls-replication yes",
                          f"sentinel monitor jobs 127.0.0.1 {master_port} 1"]
        sentinels.append(sentinel.start())
        return port

    yield serve
    for sentinel in sentinels:
        sentinel.close()


def test_sentinels_and_the_master_they_name_must_prove_who_they_are(laterd, certificates, tls_redis,
                                                                    serve_sentinel):
    own = {"tls_ca": certificates / "ca.crt"}
    good = serve_sentinel("redis.crt", tls_redis.tls_port)
    with Client(laterd(config(f"rediss+sentinel://localhost:{good}/jobs", prefix="guarded",
                              **own)).port) as client:
        client.push_id("t", body="x")
    stranger = serve_sentinel("elsewhere.crt", tls_redis.tls_port)
    assert "mismatch" in refusal(laterd, f"rediss+sentinel://localhost:{stranger}/jobs", **own)
    with serve_tls(certificates, "elsewhere.crt") as master:
        leads_astray = serve_sentinel("redis.crt", master.tls_port)
        said = refusal(laterd, f"rediss+sentinel://localhost:{leads_astray}/jobs", **own)
        assert "mismatch" in said and str(master.tls_port) in said


def test_the_other_nodes_of_a_cluster_must_prove_who_they_are(laterd, certificates):
    own = {"cluster_enabled": "yes", "tls_cluster": "yes"}
    with serve_tls(certificates, **own) as node, serve_tls(certificates, "elsewhere.crt", **own) as other:
        node.call("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        other.call("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
        node.call("CLUSTER", "MEET", "127.0.0.1", other.tls_port, other.tls_port + 10000)
        wait_until(lambda: Cluster.state(node) == Cluster.state(other) == "ok", 20)
        said = refusal(laterd, f"rediss+cluster://127.0.0.1:{node.tls_port}",
                       tls_ca=certificates / "ca.crt")
        assert "mismatch" in said and str(other.tls_port) in said


# Through stunnel


@pytest.mark.skipif(not STUNNEL, reason="there is no stunnel")
def test_stunnel_as_documented_leads_to_a_redis_that_speaks_tls(laterd, certificates, tls_redis):
    with Tunnel(certificates, tls_redis.tls_port, certificates / "ca.crt") as tunnel:
        with Client(laterd(config(f"redis://127.0.0.1:{tunnel.port}")).port) as client:
            job_id = client.push_id("t", body="x")
            assert client.reserve("t", wait="5s")[0]["id"] == job_id


@pytest.mark.skipif(not STUNNEL, reason="there is no stunnel")
@pytest.mark.parametrize("authority, name", [("other.crt", "localhost"), ("ca.crt", "elsewhere")])
def test_stunnel_as_documented_refuses_a_stranger(laterd, certificates, tls_redis, authority, name):
    with Tunnel(certificates, tls_redis.tls_port, certificates / authority, name) as tunnel:
        with pytest.raises(DidNotStart) as why:
            laterd(config(f"redis://127.0.0.1:{tunnel.port}"))
        assert tunnel.process.poll() is None
    assert "cannot use Redis" in str(why.value)
