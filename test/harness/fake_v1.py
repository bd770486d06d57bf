"""A server of /v1 that answers what a test says: an older laterd, a newer one, one that refuses."""

import http.server
import json
import threading

NO_SUCH_PATH = (404, {"status": 404, "code": "no_such_path", "detail": "there is no such call"})


class Fake:
    """`routes` are {"GET /v1/stats": answer}: (status, JSON), or what makes it of the request's
    query and body. Other paths are those that an older server does not know."""

    def __init__(self, routes):
        self.routes = routes
        self.requests = []  # ("POST /v1/finish", query, body)
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                path, _, query = self.path.partition("?")
                text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                name = f"{self.command} {path}"
                fake.requests.append((name, query, text.decode()))
                answer = fake.routes.get(name, NO_SUCH_PATH)
                status, value = answer(query, text.decode()) if callable(answer) else answer
                body = b"" if value is None else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = do_PATCH = answer

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that went away: its test knows

        self.server = Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def asked(self, name):
        """The bodies of the requests of that name."""
        return [body for asked, _, body in self.requests if asked == name]

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)
