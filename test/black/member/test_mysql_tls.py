"""MySQL (MariaDB) over TLS, with a certificate of an authority of its own: the election of [member] and the
[journal] accept the server that the configuration means, and no other."""

import os
import shutil
import subprocess

import pytest
from front import certificates
from mariadb import NEEDED, USER, MariaDb
from process import LATERD, Laterd
from wire import Client, Closed, eventually

MEMBER_PLUGIN = os.path.join(os.path.dirname(LATERD), "laterd-member-mysql.so")

pytestmark = [NEEDED, pytest.mark.embedded("connections to MySQL are the same whatever the engine"),
              pytest.mark.skipif(not os.path.exists(MEMBER_PLUGIN), reason="libmariadb was not there when it was built")]

KINDS = ("member", "journal")


@pytest.fixture(scope="module", name="certs")
def a_folder_of_certificates(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("certificates"))


class SecureMaria(MariaDb):
    """It admits the user over TLS alone."""

    def __init__(self, certs):
        super().__init__()
        self.certs = certs
        self.options = [f"--ssl-cert={self.folder}/cert", f"--ssl-key={self.folder}/key"]

    def present(self, name):
        """Shows new connections that certificate, from now on."""
        for what, ending in (("cert", "crt"), ("key", "key")):
            shutil.copy(self.certs / f"{name}.{ending}", os.path.join(self.folder, what))
        if self.process:
            self.run("FLUSH SSL")


@pytest.fixture(scope="module", name="secure")
def a_maria_with_tls(certs):
    maria = SecureMaria(certs)
    maria.present("server")
    try:
        maria.make().start()
        maria.database("first")
        maria.run(f"ALTER USER '{USER}'@'%' REQUIRE SSL")
        yield maria
    finally:
        maria.stop()


@pytest.fixture(name="laterd_on")
def a_laterd_on(secure, tmp_path):
    made = []
    secure.present("server")

    def start(kind, query, ca="", system_ca=None):
        section = {"url": secure.database("queue") + query, "ca": str(ca)}
        if kind == "member":
            section.update(name=f"tls{len(made)}", timeout="2s")
        environment = {"SSL_CERT_FILE": str(system_ca)} if system_ca else {}
        laterd = Laterd(tmp_path / f"laterd{len(made)}", {kind: section}, environment=environment)
        made.append(laterd)
        return laterd.start()

    yield start
    for laterd in made:
        laterd.kill()


def in_order(laterd, kind):
    """It leads; its journal writes."""
    if kind == "journal":
        return bool(laterd.events("journal_writes"))
    try:
        with Client(laterd.port) as client:
            return client.get("/readyz").status == 200
    except Closed:  # it has begun to lead: those that waited are let go
        return False


def complaints(laterd, kind):
    return "\n".join(facts for _, facts in laterd.events(f"{kind}_away"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_with_the_right_authority_and_name_is_trusted(laterd_on, secure, certs, kind):
    laterd = laterd_on(kind, "?tls=verify", certs / "ca.crt")
    assert eventually(lambda: in_order(laterd, kind), 20), laterd.lines
    assert not complaints(laterd, kind)
    if kind == "member":
        assert secure.run("SELECT COUNT(*) FROM laterd_member WHERE name = 'tls0'", database="queue")[0][0] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_authority_may_be_one_of_the_systems(laterd_on, certs, kind):
    laterd = laterd_on(kind, "?tls=verify", system_ca=certs / "ca.crt")
    assert eventually(lambda: in_order(laterd, kind), 20), laterd.lines


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_of_another_authority_is_refused(laterd_on, certs, kind):
    laterd = laterd_on(kind, "?tls=verify", certs / "other.crt")
    assert eventually(lambda: complaints(laterd, kind), 20), laterd.lines
    assert "certificate" in complaints(laterd, kind) and f"{kind}.ca" in complaints(laterd, kind)
    assert not in_order(laterd, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_of_another_name_is_refused(laterd_on, secure, certs, kind):
    secure.present("elsewhere")
    laterd = laterd_on(kind, "?tls=verify", certs / "ca.crt")
    assert eventually(lambda: complaints(laterd, kind), 20), laterd.lines
    assert "certificate" in complaints(laterd, kind).lower()
    assert not in_order(laterd, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_who_does_not_verify_is_encrypted_all_the_same(laterd_on, secure, kind):
    secure.present("elsewhere")
    laterd = laterd_on(kind, "?tls=on")
    assert eventually(lambda: in_order(laterd, kind), 20), laterd.lines


@pytest.mark.parametrize("section, key", [
    ("[member]\nurl = mysql://u@127.0.0.1/d?tls=verify\n", "member.ca"),
    ("[journal]\nurl = mysql://u@127.0.0.1/d?tls=verify\n", "[journal] ca"),
    ("[broker.rabbit]\ntype = amqp\nurl = amqps://127.0.0.1\n", "warning: [broker.rabbit] ca")])
def test_a_system_without_a_file_of_authorities_is_reported_at_the_start(tmp_path, section, key):
    path = tmp_path / "laterd.conf"
    path.write_text(section, encoding="utf-8")
    for file, refused in (("/nowhere", True), (path, False)):
        done = subprocess.run([LATERD, "-c", str(path), "--check-config"], capture_output=True, text=True, check=False,
                              env={**os.environ, "SSL_CERT_FILE": str(file)})
        ends = 1 if refused and "warning" not in key else 0  # a broker is away until it has one
        assert done.returncode == ends, done.stderr
        assert (f"{key}: the file that SSL_CERT_FILE names cannot be read" in done.stderr) == refused, done.stderr
