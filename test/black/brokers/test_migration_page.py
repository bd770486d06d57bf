"""The steps of docs/migrate-delayed-message-plugin.md, run as they stand there: its command lines by a shell, its
configuration by laterd, its lines of Python by pika. They are found on the page, so what is changed there is tried.

Only what names this machine differs: ports, the folder of RabbitMQ's programs, the place of the URL's file."""

import configparser
import os
import re
import subprocess
import textwrap
import time

import pytest

from process import ROOT
from wire import Client, eventually

pika = pytest.importorskip("pika")
from rabbit import NEEDED, a_channel, a_rabbit  # noqa: E402,F401

ADMIN = "/usr/bin/rabbitmqadmin"
CONTROL = "/usr/lib/rabbitmq/bin"

pytestmark = [
    pytest.mark.embedded("it is about RabbitMQ; the engine is that of the other tests"),
    NEEDED,
    pytest.mark.skipif(not os.path.exists(ADMIN), reason="needs rabbitmqadmin")]


def blocks_of(page):
    """Its blocks of code, which are indented by four blanks or more, in their order."""
    with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as file:
        found = re.findall(r"(?:^\n)((?:^ {4,}\S.*\n|^\n(?= {4,}\S))+)", file.read(), re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


class Shell:
    """A shell whose RabbitMQ is that of the tests."""

    def __init__(self, rabbit, folder):
        self.env = {**rabbit.env, "PATH": f"{folder}:{os.environ['PATH']}"}
        node = f"-n {rabbit.env['RABBITMQ_NODENAME']}"
        for name, command in (("rabbitmqadmin", f"{ADMIN} --port={rabbit.admin}"),
                              ("rabbitmqctl", f"{CONTROL}/rabbitmqctl {node}"),
                              ("rabbitmq-plugins", f"{CONTROL}/rabbitmq-plugins {node}")):
            (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (folder / name).chmod(0o755)

    def run(self, block):
        done = subprocess.run(["/bin/sh", "-e", "-c", block], env=self.env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"


def config_of(block, rabbit, url_file):
    """The configuration of the page, with the URL's file of this test."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(block)
    assert parser["broker.rabbit"]["url"] == "file:/etc/laterd/rabbit.url"
    url_file.write_text(f"amqp://laterd:a-password@127.0.0.1:{rabbit.port}/%2f\n")
    parser["broker.rabbit"]["url"] = f"file:{url_file}"
    return {name: dict(parser[name]) for name in parser.sections()}


def publish_as_the_page_says(block, channel, body, delay_ms):
    assert block.count("60000") == 1
    exec(block.replace("60000", str(delay_ms)), {"channel": channel, "pika": pika, "body": body})  # pylint: disable=exec-used


def test_the_steps_of_the_page_lead_from_the_plugin_to_laterd(rabbit, channel, laterd, tmp_path):
    plugins, due, queue, user, config, fanout, publishing = blocks_of("migrate-delayed-message-plugin.md")
    channel.exchange_declare("X", "direct", durable=True)  # in the plugin's place
    channel.queue_declare("work", durable=True)
    channel.queue_bind("work", "X", "paid")
    shell = Shell(rabbit, tmp_path)
    for block in (plugins, due, queue, user):
        shell.run(block)
    server = laterd(config_of(config, rabbit, tmp_path / "rabbit.url"))
    assert server.wait_log("amqp_in_consuming")
    shell.run(fanout)
    channel.confirm_delivery()
    begun = time.monotonic()
    publish_as_the_page_says(publishing, channel, b"a body", 300)
    assert eventually(lambda: channel.queue_declare("work", passive=True).method.message_count == 1)
    assert time.monotonic() - begun >= 0.29, "not before its time"
    method, properties, body = channel.basic_get("work", auto_ack=True)
    assert (method.exchange, method.routing_key, body) == ("X.due", "paid", b"a body")
    assert properties.headers == {"x-delay": -300} and properties.delivery_mode == 2
    with Client(server.port) as client:
        assert eventually(lambda: client.get("/v1/topics/amqp").json()["totals"]["finished"] == 1)


def test_who_still_declares_the_plugins_type_loses_its_connection_as_the_page_says(rabbit):
    connection = rabbit.connect()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.channel().exchange_declare("late", "x-delayed-message", arguments={"x-delayed-type": "direct"})
    assert closed.value.reply_code == 503 and "COMMAND_INVALID" in closed.value.reply_text
