"""A server of /v1 that answers what a test says: an older laterd, a newer one, one that refuses."""

import json

import local_server

NO_SUCH_PATH = (404, {"status": 404, "code": "no_such_path", "detail": "there is no such call"})


class Fake(local_server.LocalServer):
    """`routes` are {"GET /v1/stats": answer}: (status, JSON), or what makes it of the request's
    query and body. Other paths are those that an older server does not know."""

    def __init__(self, routes):
        self.routes = routes
        self.requests = []  # ("POST /v1/finish", query, body)
        fake = self

        class Handler(local_server.Handler):
            def answer(self):
                path, _, query = self.path.partition("?")
                text = self.text().decode()
                name = f"{self.command} {path}"
                fake.requests.append((name, query, text))
                answer = fake.routes.get(name, NO_SUCH_PATH)
                status, value = answer(query, text) if callable(answer) else answer
                self.send(status, {"Content-Type": "application/json"},
                          b"" if value is None else json.dumps(value).encode())

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer

        self.begin(Handler)

    def asked(self, name):
        """The bodies of the requests of that name."""
        return [body for asked, _, body in self.requests if asked == name]
