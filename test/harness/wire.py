"""HTTP seen from outside: raw sockets where the bytes matter, a small client where they do not."""

import json
import socket
import time
import urllib.parse

from patience import PATIENCE_S, TooLate


class Response:
    """One HTTP response, whole."""

    def __init__(self, status, headers, body, version="HTTP/1.1"):
        self.status, self.headers, self.body, self.version = status, headers, body, version

    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.body.decode("utf-8")

    def __repr__(self):
        return f"<{self.status} {self.headers.get('content-type')} {self.body[:300]!r}>"


class Closed(Exception):
    """The server closed the connection before a response was whole."""


class Stream:
    """A connection, byte by byte. `over` is what it raises when the server has closed it."""

    over = Closed
    encoding = "utf-8"

    def __init__(self, port, seconds=30, host="127.0.0.1"):
        self.socket = socket.create_connection((host, port), timeout=seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.kept = b""

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode(self.encoding))
        return self

    def end_sending(self):
        self.socket.shutdown(socket.SHUT_WR)
        return self

    def close(self, reset=False):
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def close_softly(self):
        """Ends both directions, though another thread may be reading."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the peer was quicker

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _more(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionError:  # reset, or broken by what was sent after its end
            data = b""
        if not data:
            raise self.over(self.kept)
        self.kept += data

    def _fill(self, length):
        """Until so many bytes are kept. They are read to their place: to add each part to those before it copies a long
        body a hundred times."""
        at = len(self.kept)
        if at >= length:
            return
        whole = bytearray(length)
        whole[:at] = self.kept
        try:
            with memoryview(whole) as view:
                while at < length:
                    try:
                        count = self.socket.recv_into(view[at:])
                    except ConnectionError:
                        count = 0
                    if not count:
                        raise self.over(bytes(view[:at]))
                    at += count
        finally:
            self.kept = bytes(whole) if at == length else bytes(whole[:at])

    def silent(self, seconds):
        """Does nothing come, and no end, for the time?"""
        before = self.socket.gettimeout()
        self.socket.settimeout(seconds)
        try:
            self._more()
        except socket.timeout:
            return not self.kept
        except self.over:
            pass
        finally:
            self.socket.settimeout(before)
        return False


class Wire(Stream):
    """HTTP on it."""

    def response(self, head=False):
        """The next response; `head`: it answers HEAD, so no body follows."""
        while b"\r\n\r\n" not in self.kept:
            self._more()
        top, _, self.kept = self.kept.partition(b"\r\n\r\n")
        lines = top.decode("latin-1").split("\r\n")
        version, status, _ = (lines[0] + " ").split(" ", 2)
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        if int(status) < 200 and int(status) != 101:
            return Response(int(status), headers, b"", version)
        length = 0 if head else int(headers.get("content-length", 0))
        self._fill(length)
        body, self.kept = self.kept[:length], self.kept[length:]
        return Response(int(status), headers, body, version)

    def rest(self):
        """All bytes until the server closes."""
        try:
            while True:
                self._more()
        except Closed:
            rest, self.kept = self.kept, b""
            return rest

    def closed(self, seconds=PATIENCE_S):
        """Does the server close within the time, sending nothing more?"""
        self.socket.settimeout(seconds)
        try:
            return self.rest() == b""
        except socket.timeout:
            return False


def request_bytes(method, path, body=b"", headers=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in dict(headers).items()]
    if body or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8") + body


YOUNG_LOOK_S = 0.05  # a poll whose time ends does not wait for a look at Redis that is younger
STALL_S = 0.25  # an eighth of redis.timeout: what made laterd give Redis up delayed others by as much
REMEMBERED_S = 10  # for how long laterd may be without a connection after a stall


def judge_again(response, begun, ended, watch, waits):
    """laterd says that a Redis that is always there did not answer in time. The machine was busy if the watch had to
    wait as well; otherwise it is wrong. It may have waited before the request, too, for without a connection laterd
    refuses at once: but only as long as makes laterd give Redis up."""
    took = ended - begun
    before, since = watch.longest_since(begun - REMEMBERED_S), watch.longest_since(begun)
    said = f"after {took:.3f} s, within which Redis was late by {since:.3f} s at most, {before:.3f} s before: {response}"
    if before >= STALL_S or waits and took >= YOUNG_LOOK_S and since >= YOUNG_LOOK_S / 2:
        raise TooLate(said)
    raise AssertionError(said)


class Client:
    """One keep-alive connection that speaks HTTP; connects again when the server has closed it."""

    redis_watch = None  # a Busy that asks the Redis of all laterds, which is always there; see judge_again()

    def __init__(self, port, seconds=30):
        self.port, self.seconds, self.wire = port, seconds, None

    def request(self, method, path, content=None, headers=None, /, **fields):
        """`content`: bytes or text as they are, a dict or list as JSON; or the JSON's fields."""
        headers = dict(headers or {})
        if fields:
            content = fields
        if isinstance(content, (dict, list)):
            content = json.dumps(content)
            headers.setdefault("Content-Type", "application/json")
        data = content.encode() if isinstance(content, str) else content or b""
        if self.wire is None:
            self.wire = Wire(self.port, self.seconds)
        begun = time.monotonic()
        self.wire.send(request_bytes(method, path, data, headers))
        response = self.wire.response(head=method == "HEAD")
        if response.headers.get("connection", "").lower() == "close":
            self.close()
        if self.redis_watch and b'"code":"again"' in response.body:  # of the request, or of a job in it
            judge_again(response, begun, time.monotonic(), self.redis_watch, waits=path == "/v1/reserve")
        return response

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, content=None, /, **fields):
        return self.request("POST", path, content, **fields)

    def close(self, reset=False):
        if self.wire:
            self.wire.close(reset)
            self.wire = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # /v1

    def push(self, topic, /, **fields):
        return self.post(f"/v1/topics/{urllib.parse.quote(topic, safe='')}/jobs", fields)

    def push_id(self, topic, /, **fields):
        """Pushes and returns the id."""
        answer = self.push(topic, **fields)
        assert answer.status == 201, answer
        return answer.json()["id"]

    def push_many(self, topic, jobs):
        """The results of a batch, one for each job."""
        answer = self.post(f"/v1/topics/{urllib.parse.quote(topic, safe='')}/jobs", jobs)
        assert answer.status == 200, answer
        return answer.json()["results"]

    def reserve(self, *topics, wait=0, most=1):
        """The jobs taken; [] when there are none."""
        answer = self.post("/v1/reserve", {"topics": list(topics), "wait": wait, "max": most})
        if answer.status == 204:
            return []
        assert answer.status == 200, answer
        return answer.json()["jobs"]

    def reserve_all(self, topic, count):
        """So many jobs, in as many requests as it takes: large bodies come a few at a time."""
        jobs = []
        while len(jobs) < count and (more := self.reserve(topic, most=count - len(jobs))):
            jobs += more
        return jobs

    def job(self, job_id, verb=None, method="POST", **fields):
        path = f"/v1/jobs/{urllib.parse.quote(job_id, safe='')}"
        if verb:
            return self.request(method, f"{path}/{verb}", fields)
        return self.request(method, path, **fields)

    def replay(self, topic, **fields):
        answer = self.post(f"/v1/topics/{urllib.parse.quote(topic, safe='')}/replay", fields)
        assert answer.status == 200, answer
        return answer.json()

    def state(self, job_id):
        answer = self.job(job_id, method="GET")
        return answer.json()["state"] if answer.status == 200 else None

    def counts(self, topic):
        answer = self.get(f"/v1/topics/{urllib.parse.quote(topic, safe='')}")
        assert answer.status == 200, answer
        return answer.json()

    # The delay-queue dialect

    def call(self, path, content=None, /, **fields):
        """(code, message, data)"""
        answer = self.post(path, fields if content is None else content)
        assert answer.status == 200, answer
        said = answer.json()
        return said["code"], said["message"], said["data"]


def eventually(claim, seconds=10, every=0.02):
    """Waits until claim() is true; returns its last value. `seconds` are enough where nothing else runs; it
    gives up after a minute, for a machine may be busy. How soon something comes is patience.soon()'s."""
    end = time.monotonic() + max(seconds, PATIENCE_S)
    while True:
        value = claim()
        if value or time.monotonic() > end:
            return value
        time.sleep(every)
