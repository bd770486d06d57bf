"""An HTTP server of a test's own, on a thread, for as long as a `with` block."""

import http.server
import threading


class LocalServer:
    """A subclass gives begin() its handler, whose requests are answered on a thread each."""

    scheme = "http"

    def begin(self, handler):
        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that went away, or does not trust us: its test knows

        self.server = Server(("127.0.0.1", 0), handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)

    @property
    def address(self):
        return f"127.0.0.1:{self.server.server_address[1]}"

    @property
    def url(self):
        return f"{self.scheme}://{self.address}"

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)


class Handler(http.server.BaseHTTPRequestHandler):
    """Keeps connections, and says nothing on stderr. A subclass has do_GET and so on."""

    protocol_version = "HTTP/1.1"

    def text(self):
        """The body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def send(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
