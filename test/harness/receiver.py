"""A receiver of webhooks on the loopback that behaves as badly as its paths say.

Written on bare sockets, so that it can say what no HTTP server would. Each request is kept, with all
its bytes; what it answers depends on the first word of its path:

    /ok /status/503 /say/TEXT      an answer, after which the connection goes on
    /hang                          no answer
    /late/SECONDS                  200 after so long
    /drip                          a byte of the body a second, without an end
    /huge                          200, and chunks without an end
    /headers                       200, and headers without an end
    /stray                         204, and a body all the same, a moment later
    /half /none                    closed in the middle of the answer, or before it
    /junk /chunks                  says something that is not HTTP, at once or in a chunk
    /http09                        a body without headers
"""

import os
import socket
import ssl
import threading
import time
from urllib.parse import unquote, urlsplit, parse_qs

from patience import PATIENCE_S


class Request:
    def __init__(self, line, headers, body, number):
        self.method, self.target, self.version = line.split(" ")
        self.headers = headers  # [(name, value)], as they came
        self.body = body
        self.connection = number
        self.at = time.time()

    def header(self, name):
        """The one header of that name; None: there is none."""
        values = [value for other, value in self.headers if other.lower() == name.lower()]
        assert len(values) <= 1, f"{name} is there {len(values)} times"
        return values[0] if values else None

    @property
    def words(self):
        return [unquote(word) for word in urlsplit(self.target).path.split("/")[1:]]

    @property
    def query(self):
        return parse_qs(urlsplit(self.target).query)


def read_request(stream, number):
    """None: the other side has closed."""
    line = stream.readline().decode("latin-1").rstrip("\r\n")
    if not line:
        return None
    headers = []
    while True:
        header = stream.readline().decode("latin-1").rstrip("\r\n")
        if not header:
            break
        name, _, value = header.partition(":")
        headers.append((name, value.strip()))
    length = int(dict((n.lower(), v) for n, v in headers).get("content-length", 0))
    return Request(line, headers, stream.read(length), number)


class Receiver:
    """`tls`: an ssl.SSLContext, or None. `unix`: the path of a socket, or None."""

    def __init__(self, tls=None, unix=None, host="127.0.0.1"):
        self.tls = tls
        self.requests = []
        self.sent = 0  # bytes of /huge that were taken
        self.connections = 0
        self.news = threading.Condition()
        self.open = set()
        self.closing = False
        if unix:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(unix)
            self.port = None
        else:
            self.listener = socket.socket()
            self.listener.bind((host, 0))
            self.port = self.listener.getsockname()[1]
        self.listener.listen(1024)
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, path="/ok", host="127.0.0.1"):
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{path}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.closing:
            return
        self.closing = True
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in list(self.open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def wait(self, count, seconds=PATIENCE_S):
        """The requests, once there are so many."""
        with self.news:
            assert self.news.wait_for(lambda: len(self.requests) >= count, seconds), \
                f"{len(self.requests)} of {count} requests came"
            return list(self.requests)

    def _accept(self):
        while not self.closing:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection, self.connections),
                             daemon=True).start()

    def _serve(self, connection, number):
        try:
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            self.open.add(connection)
            stream = connection.makefile("rb")
            while not self.closing:
                request = read_request(stream, number)
                if not request:
                    break
                if self.tls and (peer := connection.getpeercert()):
                    request.client = dict(name for names in peer["subject"] for name in names)["commonName"]
                with self.news:
                    self.requests.append(request)
                    self.news.notify_all()
                if not self._answer(connection, request):
                    break
        except (OSError, ValueError, ssl.SSLError):
            pass
        finally:
            self.open.discard(connection)
            connection.close()

    def _answer(self, connection, request):
        """Does the connection go on?"""
        word, *more = request.words
        if word in ("ok", "status", "say"):
            status = int(more[0]) if word == "status" else 200
            body = more[0].encode() if word == "say" else b"" if status == 204 else b"fine"
            lines = [f"HTTP/1.1 {status} Word", f"Content-Length: {len(body)}"]
            lines += [f"{name}: {value}" for name, values in request.query.items()
                      for value in values]
            connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            return True
        if word == "late":
            time.sleep(float(more[0]))
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return True
        if word == "stray":
            body = b"HTTP/1.1 500 Not of this request\r\nContent-Length: 0\r\n\r\n"
            connection.sendall(b"HTTP/1.1 204 No Content\r\nContent-Length: %d\r\n\r\n" % len(body))
            time.sleep(0.05)
            connection.sendall(body)
            return True
        if word == "hang":
            time.sleep(3600)
        if word == "drip":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while not self.closing:
                connection.sendall(b"x")
                time.sleep(0.2)
        if word == "huge":
            connection.sendall(b"HTTP/1.1 %s OK\r\nTransfer-Encoding: chunked\r\n\r\n" %
                               (more[0] if more else "200").encode())
            chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
            while not self.closing:
                connection.sendall(chunk)
                self.sent += 65536
        if word == "headers":
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not self.closing:
                connection.sendall(b"X-More: " + b"x" * 1000 + b"\r\n")
                self.sent += 1000
        if word == "half":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")
        if word == "junk":
            connection.sendall(b"220 mail.example ESMTP ready\r\n")
        if word == "chunks":
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nlong\r\n")
        if word == "http09":
            connection.sendall(b"<html>it works</html>")
        return False


def make_certificates(folder, names=("localhost",), addresses=("127.0.0.1",), authority="test authority"):
    """An authority, a certificate by it for the server, one for a client, and one that has expired:
    paths by name. Made by openssl, in the test."""
    import subprocess

    def run(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    alternative = ",".join([f"DNS:{name}" for name in names] + [f"IP:{a}" for a in addresses])
    run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
        "2", "-subj", f"/CN={authority}", "-keyout", "ca.key", "-out", "ca.pem")
    for name, san, days in (("server", alternative, "2"), ("client", "DNS:client", "2"),
                            ("other", "DNS:elsewhere.example", "2"), ("old", alternative, "-1")):
        with open(os.path.join(folder, f"{name}.ext"), "w", encoding="ascii") as file:
            file.write(f"subjectAltName={san}\n")
        run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
            f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", days, "-extfile", f"{name}.ext", "-out", f"{name}.pem")
    return {name: os.path.join(folder, name) for name in sorted(os.listdir(folder))}


def server_context(paths, certificate="server", ca_of_clients=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(paths[f"{certificate}.pem"], paths[f"{certificate}.key"])
    if ca_of_clients:
        context.load_verify_locations(ca_of_clients)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
