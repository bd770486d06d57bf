"""A benchmark whose bar is missed fails: what its exit code is, by figures that are made up here."""

import importlib
import os
import sys

import pytest

from process import ROOT

pytestmark = pytest.mark.embedded("it starts no laterd")


class Nothing:
    """A receiver and a laterd of which nothing is asked; what is late is `p99_us`."""

    url, p99_us = "", 0

    def __init__(self, *_, **__):
        pass

    def wait(self, _):
        return {"p50_us": 100, "p99_us": self.p99_us}

    def __getattr__(self, name):
        return lambda *_, **__: None


@pytest.fixture(name="module_of")
def a_module_of_bench(monkeypatch):
    """module_of(NAME): bench/NAME.py, with stand-ins for what it measures."""
    monkeypatch.syspath_prepend(os.path.join(ROOT, "bench"))

    def make(name):
        names = {"push", name}  # the harness has a module push, too
        for each in names:
            monkeypatch.delitem(sys.modules, each, raising=False)
        module = importlib.import_module(name)
        for each in names & set(sys.modules):
            monkeypatch.setitem(sys.modules, each, sys.modules.pop(each))  # gone after the test
        monkeypatch.setattr(module, "Receiver", Nothing)
        monkeypatch.setattr(module, "Laterd", Nothing)
        monkeypatch.setattr(sys, "argv", [name])
        return module
    return make


@pytest.mark.parametrize("webhooks, p99_ms, code", [(800, 5, 0), (600, 5, 1), (800, 11, 1)])
def test_webhooks_below_their_bar_fail_the_run(module_of, monkeypatch, webhooks, p99_ms, code):
    push = module_of("push")
    monkeypatch.setattr(push, "floor", lambda *_: (1000, 10))
    monkeypatch.setattr(push, "drain", lambda *_: (webhooks, 12))
    monkeypatch.setattr(push, "fall_due", lambda *_: 1)
    monkeypatch.setattr(push, "consume", lambda *_: [100])
    monkeypatch.setattr(Nothing, "p99_us", p99_ms * 1000)
    with pytest.raises(SystemExit) as end:
        push.main()
    assert end.value.code == code


@pytest.mark.parametrize("beside_ms, others, code", [(1.0, True, 0), (1.2, True, 1), (1.0, False, 1)])
def test_a_receiver_that_feels_another_fails_the_run(module_of, monkeypatch, beside_ms, others, code):
    fairness = module_of("push_fairness")
    counts = {"hangs": 1, "fails": 1}
    monkeypatch.setattr(fairness, "beside_bad_ones", lambda *_, **__: ([0.5, 1.0], [0.5, beside_ms], counts))
    monkeypatch.setattr(fairness, "all_at_once", lambda *_: others)
    with pytest.raises(SystemExit) as end:
        fairness.main()
    assert end.value.code == code
