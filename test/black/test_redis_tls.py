"""Redis that speaks TLS: laterd does not, says so, and reaches it through stunnel as docs/redis.md
tells."""

import os
import re
import shutil
import subprocess

import pytest
from process import ROOT, DidNotStart
from redis import REDIS_SERVER, Redis, free_port
from wire import Client

pytestmark = pytest.mark.skipif(not REDIS_SERVER, reason="there is no redis-server")

STUNNEL = shutil.which("stunnel4") or shutil.which("stunnel")


def config(url):
    return {"engine": {"engine": "redis"}, "redis": {"url": url}}


@pytest.mark.parametrize("url", [
    "rediss://127.0.0.1", "rediss://jobs:secret@127.0.0.1:6380/3", "rediss+cluster://h1,h2",
    "rediss+sentinel://jobs:secret@h1,h2/name",
])
def test_a_url_that_asks_for_tls_is_refused_with_what_to_do(laterd, url):
    with pytest.raises(DidNotStart) as why:
        laterd(config(url))
    assert "asks for TLS" in str(why.value) and "tunnel" in str(why.value)
    assert "secret" not in str(why.value)


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
    (folder / "names").write_text("subjectAltName = DNS:localhost\n")
    openssl("x509", "-req", "-in", "redis.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
            "-CAcreateserial", "-out", "redis.crt", "-days", "2", "-extfile", "names")
    return folder


class Tunnel:
    """stunnel with the configuration that docs/redis.md has."""

    def __init__(self, folder, redis_port, authority, name="localhost"):
        self.port = free_port()
        with open(os.path.join(ROOT, "docs/redis.md"), encoding="utf-8") as file:
            text = re.search(r"\n(    \[redis\]\n    client = yes\n(?:    .*\n)+)", file.read()).group(1)
        for pattern, value in ((r"(?m)^ +", ""), (r"accept = .*", f"accept = 127.0.0.1:{self.port}"),
                               (r"connect = .*", f"connect = 127.0.0.1:{redis_port}"),
                               (r"CAfile = .*", f"CAfile = {authority}"),
                               (r"checkHost = .*", f"checkHost = {name}")):
            text, count = re.subn(pattern, value, text)
            assert count, f"docs/redis.md has no {pattern}"
        path = folder / f"stunnel-{self.port}.conf"
        path.write_text("foreground = yes\npid =\n" + text)
        self.process = subprocess.Popen([STUNNEL, str(path)], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def tls_redis(certificates):
    port = free_port()
    settings = {"tls_port": port, "tls_cert_file": certificates / "redis.crt",
                "tls_key_file": certificates / "redis.key",
                "tls_ca_cert_file": certificates / "ca.crt", "tls_auth_clients": "no"}
    server = Redis(**settings)
    try:
        server.start()
    except RuntimeError:
        server.close()
        pytest.skip("this redis-server was built without TLS")
    yield port
    server.close()


@pytest.mark.skipif(not STUNNEL, reason="there is no stunnel")
def test_stunnel_as_documented_leads_to_a_redis_that_speaks_tls(laterd, certificates, tls_redis):
    with Tunnel(certificates, tls_redis, certificates / "ca.crt") as tunnel:
        with Client(laterd(config(f"redis://127.0.0.1:{tunnel.port}")).port) as client:
            job_id = client.push_id("t", body="x")
            assert client.reserve("t", wait="5s")[0]["id"] == job_id


@pytest.mark.skipif(not STUNNEL, reason="there is no stunnel")
@pytest.mark.parametrize("authority, name", [("other.crt", "localhost"), ("ca.crt", "elsewhere")])
def test_stunnel_as_documented_refuses_a_stranger(laterd, certificates, tls_redis, authority, name):
    with Tunnel(certificates, tls_redis, certificates / authority, name) as tunnel:
        with pytest.raises(DidNotStart) as why:
            laterd(config(f"redis://127.0.0.1:{tunnel.port}"))
        assert tunnel.process.poll() is None
    assert "cannot use Redis" in str(why.value)
