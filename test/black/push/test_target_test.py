"""POST /v1/topics/{t}/test, against a receiver."""

from receiver import Receiver
from wire import Client, eventually


def test_a_broker_that_is_not_there_is_named(laterd, topic):
    server = laterd({"broker.bus": {"type": "nats", "url": "nats://127.0.0.1:1"}})
    with Client(server.port) as client:
        for broker, wanted in (("nosuch", "there is no [broker.nosuch] in the configuration here"),
                               ("bus", "[broker.bus] has the type nats here, and the target has the type kafka")):
            settings = {"target": {"type": "kafka", "broker": broker, "topic": "t"}}
            version = client.request("PUT", f"/v1/topics/{topic}", settings).json()["version"]
            assert eventually(lambda: client.get(f"/v1/topics/{topic}").json().get("version") == version)
            answer = client.post(f"/v1/topics/{topic}/test", {"body": "hello"})
            assert (answer.status, answer.json()["detail"]) == (501, wanted)


def test_a_test_sends_one_delivery_and_shows_what_came_back(laterd, topic):
    server = laterd({"push": {"allow": "127.0.0.1", "ports": "1024+"}})
    with Receiver() as receiver, Client(server.port) as client:
        for path, outcome, code in (("/ok", "delivered", 200), ("/status/503", "failed", 503),
                                    ("/status/410", "gone", 410), ("/junk", "failed", None)):
            settings = {"target": {"type": "http", "url": receiver.url(path)}, "paused": True}
            version = client.request("PUT", f"/v1/topics/{topic}", settings).json()["version"]
            assert eventually(lambda: client.get(f"/v1/topics/{topic}").json().get("version") == version)
            answer = client.post(f"/v1/topics/{topic}/test", {"body": "hello"})
            assert answer.status == 200, answer
            shown = answer.json()
            assert shown["outcome"] == outcome and shown.get("code") == code, shown
            assert "127.0.0.1" in shown.get("address", "127.0.0.1")
        assert [one.body for one in receiver.requests[:1]] == [b"hello"]
        assert client.get(f"/v1/topics/{topic}").json()["delayed"] == 0
