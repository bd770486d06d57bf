"""What may stand between `later` and laterd: a reverse proxy with TLS, a prefix and a check of the
Authorization header, or a proxy that the environment names."""

import http.client
import socket
import ssl
import subprocess
import threading

import local_server


def certificates(folder):
    """In the folder: an authority (ca), another (other), and, signed by ca, a server's certificate
    for 127.0.0.1 (server), one for another name (elsewhere) and a client's (client)."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("ca", "other"):
        openssl("req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.crt", "-subj",
                f"/CN={name}", "-days", "2")
    for name, names in (("server", "IP:127.0.0.1,DNS:localhost"), ("elsewhere", "DNS:elsewhere"),
                        ("client", "DNS:client")):
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / "names").write_text(f"subjectAltName = {names}\n")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                "-CAcreateserial", "-out", f"{name}.crt", "-days", "2", "-extfile", "names")
    return folder


class Front(local_server.LocalServer):
    """Passes requests below `prefix` on to laterd's port. `accept`: the only Authorization that it
    lets through; `certificate`: (certificate, key) for TLS; `client_ca`: whose certificate a client
    must have; `status`: (status, headers) of every answer, without asking laterd."""

    def __init__(self, port, prefix="", accept=None, certificate=None, client_ca=None, status=None):
        self.requests = []  # (method, path, Authorization)
        self.connections = 0
        front = self

        class Handler(local_server.Handler):
            def setup(self):
                front.connections += 1
                super().setup()

            def answer(self):
                text = self.text()
                given = self.headers.get("Authorization")
                front.requests.append((self.command, self.path, given))
                if status:
                    self.send(*status, b"<html>")
                elif accept and given != accept:
                    self.send(401, {"WWW-Authenticate": "Basic", "Content-Type": "text/html"}, b"<p>")
                elif not self.path.startswith(prefix + "/"):
                    self.send(404, {"Content-Type": "text/html"}, b"<p>nothing here</p>")
                else:
                    self.pass_on(text)

            def pass_on(self, text):
                to_laterd = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                headers = {name: value for name, value in self.headers.items()
                           if name in ("Content-Type", "Content-Length")}
                to_laterd.request(self.command, self.path[len(prefix):], text, headers)
                got = to_laterd.getresponse()
                body = got.read()
                self.send(got.status, {"Content-Type": got.headers.get("Content-Type", "")}, body)
                to_laterd.close()

            do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = answer

        self.begin(Handler)
        if certificate:
            self.scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            if client_ca:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(client_ca)
            # The handshake is done by the connection's own thread, when it first reads.
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                     do_handshake_on_connect=False)


class Proxy:
    """A proxy for any host: it connects to laterd's (or a Front's) port, whatever is asked for, and
    keeps the first line of each connection."""

    def __init__(self, port):
        self.port = port
        self.lines = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def _accept(self):
        while True:
            try:
                one = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one):
        with one, socket.create_connection(("127.0.0.1", self.port)) as other:
            head = b""
            while b"\r\n\r\n" not in head:
                more = one.recv(65536)
                if not more:
                    return
                head += more
            line = head.split(b"\r\n")[0].decode()
            self.lines.append(line)
            if line.startswith("CONNECT "):
                one.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:  # "GET http://host:port/path": laterd is no proxy, it wants the path alone
                method, url, version = line.split(" ")
                path = "/" + url.split("/", 3)[3]
                rest = head.split(b"\r\n", 1)[1].replace(b"Host: ", b"X-Host: ")
                other.sendall(f"{method} {path} {version}\r\nHost: localhost\r\n".encode() + rest)
            back = threading.Thread(target=self._copy, args=(other, one), daemon=True)
            back.start()
            self._copy(one, other)
            back.join(30)

    @staticmethod
    def _copy(source, to):
        try:
            while data := source.recv(65536):
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one of the two has gone

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(5)
