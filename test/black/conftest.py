"""Fixtures: a laterd of the test's own, or one that a whole file shares."""

import os
import sys

import pytest
from _pytest.runner import runtestprotocol

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "harness"))

import deaths  # noqa: E402
from patience import TooLate  # noqa: E402
from process import LATERD, Laterd  # noqa: E402
from redis import Redis  # noqa: E402
from redis_scripts import queue, script_port  # noqa: E402, F401  (fixtures)
from wire import Client  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--engine", choices=("embedded", "redis"), default="embedded",
                     help="where laterd keeps its queue; redis: in a server of the test's own")


def pytest_configure(config):
    config.addinivalue_line("markers",
                            "embedded(why): about the embedded engine; not for --engine redis")
    config.addinivalue_line("markers",
                            "serial: measures time, processor or memory: with nothing beside it")
    config.addinivalue_line("markers",
                            "deadline: wants something within seconds: beside others of its kind only")
    config.addinivalue_line("markers",
                            "long: takes many seconds: begins first, without the rest of its file")


def has_its_own(item):
    """Is it of a file that starts a Redis by itself, whatever the engine is?"""
    return item.path.name.startswith(("test_redis", "test_contract", "test_delivery_contract"))


def share_out(items):
    """For several workers (--dist loadgroup): the tests of a file go to one, which shares its servers; so do those of
    all files that ask for RabbitMQ, which takes long to start. Those that are marked `long` or `deadline` go alone;
    the long ones begin first, so that none is left over."""
    for item in items:
        if not item.get_closest_marker("long") and not item.get_closest_marker("deadline"):
            file = item.location[0].replace("/", ".")
            item.add_marker(pytest.mark.xdist_group("rabbit" if "rabbit" in item.fixturenames else file))
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    share_out(items)
    if config.getoption("--engine") == "embedded":
        return
    config.hook.pytest_deselected(items=[item for item in items if has_its_own(item)])
    items[:] = [item for item in items if not has_its_own(item)]
    for item in items:
        embedded = item.get_closest_marker("embedded")
        if embedded:
            item.add_marker(pytest.mark.skip(reason=embedded.args[0]))


TRIES = 4


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    del item
    report = (yield).get_result()
    report.too_late = bool(call.excinfo and call.excinfo.errisinstance(TooLate))


def goes_again(item, failed, died):
    """Is it tried again? What came too late (harness/patience.py), and, once, what met the death of a server
    (harness/deaths.py); any other failure is one at once."""
    first, item.met_death = not item.met_death, item.met_death or bool(died)
    if item.late == TRIES - 1 or not failed:
        return False
    return bool(died and first) or all(one.too_late for one in failed)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    item.met_death = False
    for item.late in range(TRIES):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        died, failed = deaths.take(), [report for report in reports if report.failed]
        for report in failed:
            report.sections.extend(("a server that died by itself", one) for one in died)
        item.user_properties.extend(("died", f"{item.nodeid}: {one}") for one in died)
        if not goes_again(item, failed, died):
            break
        first = "".join(f"\n{report.longreprtext[-2000:]}" for report in failed) if died else ""
        item.user_properties.append(("again" if died else "late", item.nodeid + first))
        item._initrequest()  # as pytest-rerunfailures does
    reports[-1].user_properties = list(item.user_properties)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


TELLS = {"late": "too late at first", "died": "died by itself", "again": "tried again as a server had died"}


def pytest_terminal_summary(terminalreporter):
    told = {}  # in the order of the tests, each once
    for reports in terminalreporter.stats.values():
        for report in reports:
            told.update((tuple(one), None) for one in getattr(report, "user_properties", ()))
    for name, value in told:
        if name in TELLS:
            terminalreporter.write_line(f"{TELLS[name]}: {value}")


@pytest.fixture(scope="session", autouse=True)
def engine(request):
    """The name of the engine that every laterd of this session runs on."""
    name = request.config.getoption("--engine")
    if name == "embedded":
        yield name
        return
    with Redis() as server, server.watched():
        Laterd.redis_url, Laterd.redis_watch, Client.redis_watch = server.url, server.watch, server.watch
        yield name
        Laterd.redis_url, Laterd.redis_watch, Client.redis_watch = None, None, None


def pytest_sessionstart(session):
    del session
    if not os.access(LATERD, os.X_OK):
        pytest.exit(f"{LATERD} is not built: run make", returncode=3)


@pytest.fixture
def laterd(tmp_path):
    """Makes servers: laterd(config, …). All are killed when the test ends."""
    started = []

    def make(config=None, start=True, **options):
        folder = options.pop("folder", tmp_path / f"laterd{len(started)}")
        server = Laterd(folder, config, **options)
        started.append(server)
        return server.start() if start else server

    yield make
    for server in started:
        server.kill()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One server with the default settings for all tests of a file; use topics of your own."""
    server = Laterd(tmp_path_factory.mktemp("laterd"),
                    {"defaults": {"block_timeout": "1s"}},
                    listeners=("127.0.0.1:0", "127.0.0.1:0,delayqueue-java"))
    with server:
        yield server


@pytest.fixture
def client(shared):
    with Client(shared.port) as one:
        yield one


@pytest.fixture
def redis_is_there(monkeypatch, request):
    """For files that run on each engine, on a `redis` of their own that is always there and watched(): it was busy
    if it did not answer in time."""
    engines = getattr(getattr(request.node, "callspec", None), "params", {}).values()
    if any(str(engine).startswith("redis") for engine in engines):
        for one in (Client, Laterd):
            monkeypatch.setattr(one, "redis_watch", request.getfixturevalue("redis").watch)


@pytest.fixture
def topic(request):
    """A name no other test uses, and no other try of this one."""
    again = "-again" * getattr(request.node, "late", 0)
    return "".join(c if c.isalnum() else "-" for c in request.node.name)[:130] + again


@pytest.fixture
def starter():
    """Makes a function that starts something into one that also kills it when the test ends."""
    started = []

    def make(start):
        def keep(*arguments):
            started.append(start(*arguments))
            return started[-1]
        return keep

    yield make
    for one in started:
        one.kill()
