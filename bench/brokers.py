#!/usr/bin/python3
"""The sinks for RabbitMQ, Kafka and NATS beside bare publishers of the same libraries: make bench-brokers."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "harness"))

from nats import INSTALLED, Nats  # noqa: E402

BARS = {"amqp": 0.8, "kafka": 0.5, "nats": 0.5}  # of what a bare publisher of the same messages does


def measured(build, kind, *where):
    """Is it good enough? The broker there has what it needs."""
    program = os.path.join(build, "bench", "brokers_bench")
    said = subprocess.run([program, kind, os.path.join(build, f"laterd-{kind}.so"), *where], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()
    print(said, flush=True)
    return float(said.split()[-1]) >= BARS[kind]


def rabbit(build):
    try:
        from rabbit import SERVER, Rabbit  # needs python3-pika
    except ImportError:
        SERVER = ""
    if not os.path.exists(SERVER):
        print("amqp: rabbitmq-server or python3-pika is not installed")
        return True
    folder = tempfile.mkdtemp(prefix="laterd-rabbit-")
    server = Rabbit(pathlib.Path(folder))
    try:
        connection = server.start().wait().connect()
        connection.channel().queue_declare("bench", durable=True, arguments={"x-max-length": 10000})
        connection.close()
        return measured(build, "amqp", server.url, server.erlang_pid())
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def nats(build):
    if not INSTALLED:
        print("nats: nats-server is not installed")
        return True
    with Nats() as server:
        server.make_stream("BENCH", "bench.>", max_msgs=100000)
        return measured(build, "nats", server.url)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    build = parser.parse_args().build
    good = [rabbit(build), measured(build, "kafka"), nats(build)]
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
