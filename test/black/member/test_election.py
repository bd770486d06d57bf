"""The contract of port/member.h on the real services: ZooKeeper, a row in MySQL (MariaDB), a key in
Redis. One list of tests for all three; what a simulated service can show is in
test/unit/member/election_test.c."""

import signal
import time

import pytest
from busy import Busy
from coordination import SERVICES, Candidate, Ensemble, ZooKeeper, ZooKeeperClient, boottime_us, until
from patience import soon
from ports import free_port
from process import Laterd
from push import preloaded_names
from wire import Client, Closed, eventually

TIMEOUT_MS = 2000
ELECTION = pytest.mark.embedded("candidates alone, without a laterd")


@pytest.fixture(scope="module", params=list(SERVICES))
def service(request):
    kind = SERVICES[request.param]
    if not kind.installed:
        pytest.skip(f"{kind.needs} is not installed")
    with kind() as running:
        running.kind = request.param
        yield running


@pytest.fixture
def join(service, request):
    """Starts a candidate of this test's own election."""
    candidates = []

    def start(number, timeout_ms=TIMEOUT_MS):
        candidate = Candidate(service.url, f"http://node{number}", name_of(request), timeout_ms)
        candidates.append(candidate)
        return candidate

    start.overlap_us = 0  # that is allowed
    yield start
    for candidate in candidates:
        candidate.close()
    spans = sorted((begun, end, epoch) for candidate in candidates
                   for epoch, begun, end in candidate.spans(boottime_us()))
    for (_, end, epoch), (begun, _, later) in zip(spans, spans[1:]):
        assert begun >= end - start.overlap_us, f"two held at the same time: {spans}"
        assert later > epoch


def name_of(request):
    """Of the test's own election."""
    return request.node.name.replace("[", "-").replace("]", "")[:60]


def leader_of(candidates):
    held = [candidate for candidate in candidates if candidate.holds]
    return held[0] if held else None


def wait_leader(candidates, seconds=10):
    leader = eventually(lambda: leader_of(candidates), seconds, every=0.005)
    assert leader, "nobody leads"
    return leader


def seconds_until_leader(candidates, most):
    begun = boottime_us()
    wait_leader(candidates, most)
    return (boottime_us() - begun) / 1e6


@ELECTION
def test_one_leads_and_the_others_know_where_it_is(join):
    candidates = [join(i) for i in range(3)]
    leader = wait_leader(candidates)
    others = [candidate for candidate in candidates if candidate is not leader]
    until(lambda: all(other.leader == f"http://node{candidates.index(leader)}" for other in others), 10)
    until(lambda: all(other.epoch == leader.epoch for other in others), 5)


@ELECTION
def test_kill_9_of_the_leader_is_taken_over_within_the_timeout_and_a_second(join):
    candidates = [join(i) for i in range(3)]
    leader = wait_leader(candidates)
    until(lambda: all(candidate.epoch for candidate in candidates), 5)
    leader.kill()
    others = [candidate for candidate in candidates if candidate is not leader]
    took = seconds_until_leader(others, 10)
    leader.holds = 0
    leader.events.append(["lost", str(boottime_us() - int(took * 1e6))])
    soon(took, TIMEOUT_MS / 1000 + 1)


@ELECTION
@pytest.mark.deadline
def test_a_leader_that_ends_in_order_is_taken_over_at_once(join):
    candidates = [join(i) for i in range(2)]
    leader = wait_leader(candidates)
    other = candidates[1 - candidates.index(leader)]
    until(lambda: other.epoch, 5)
    begun = boottime_us()
    leader.tell("close")
    until(lambda: other.holds, 5)
    soon((boottime_us() - begun) / 1e6, 0.2)  # of it up to 0.025 s of polling, on a row and on a key


@ELECTION
def test_who_resigns_rests(join):
    candidates = [join(i) for i in range(2)]
    leader = wait_leader(candidates)
    other = candidates[1 - candidates.index(leader)]
    until(lambda: other.epoch, 5)
    leader.tell("resign 60000")
    until(lambda: other.holds, 1)
    until(lambda: not leader.holds, 1)  # it may be heard after the other


@ELECTION
def test_a_paused_leader_holds_nothing_when_it_wakes(join):
    candidates = [join(i) for i in range(2)]
    leader = wait_leader(candidates)
    other = candidates[1 - candidates.index(leader)]
    until(lambda: other.epoch, 5)
    leader.freeze()
    frozen = boottime_us()
    until(lambda: other.holds, TIMEOUT_MS / 1000 + 2)
    leader.thaw()
    until(lambda: not leader.leads, 5)
    until(lambda: not leader.holds, 5)
    assert other.holds
    # From the deadline on it did not hold; that it could not say so before it woke is no claim.
    for words in leader.events:
        if words[0] == "lost" and int(words[1]) > frozen:
            words[1] = str(frozen)


@ELECTION
def test_a_service_that_is_away_longer_than_the_session_stops_the_leader(service, join):
    candidates = [join(i) for i in range(2)]
    wait_leader(candidates)
    service.freeze()
    try:
        begun = boottime_us()
        until(lambda: not leader_of(candidates), 5)
        soon((boottime_us() - begun) / 1e6, TIMEOUT_MS / 1000)
        until(lambda: all(not candidate.leads for candidate in candidates), 5)
    finally:
        service.thaw()
    wait_leader(candidates, 15)


@ELECTION
def test_the_service_is_killed_and_started_again(service, join):
    if service.kind == "zookeeper":
        pytest.skip("one server without its peers: as frozen, above")
    candidates = [join(i) for i in range(2)]
    epoch = wait_leader(candidates).holds
    service.kill()
    until(lambda: not leader_of(candidates), 5)
    service.start()
    assert wait_leader(candidates, 15).holds > epoch


@ELECTION
def test_a_shorter_absence_ends_nothing(service, join):
    candidates = [join(i) for i in range(2)]
    leader = wait_leader(candidates)
    epoch = leader.holds
    with Busy() as busy:
        service.freeze()
        frozen = boottime_us()
        signal.sigtimedwait([], 0.4)
        service.thaw()
        begun = boottime_us()
        soon((begun - frozen) / 1e6, 0.8)
        until(lambda: boottime_us() - begun > 2 * TIMEOUT_MS * 1000, 10)
    if leader.holds != epoch:
        soon(busy.longest_s, 0.4)  # then the candidate may have had no processor either
    assert leader.holds == epoch


@ELECTION
def test_the_epoch_is_raised_above_what_a_store_has_seen(join):
    leader = join(0)
    until(lambda: leader.holds, 10)
    leader.tell("raise 4711")
    until(lambda: leader.holds == 4712, 5)


def delete_by_hand(service, name):
    """The row, the key, or the nodes of all who take part: the leader's is one of them."""
    if service.kind == "mysql":
        service.run("DELETE FROM laterd_member")
    elif service.kind == "redis":
        service.call("DEL", f"laterd:member:{name}")
    else:
        assert len(service.delete_node(f"/test/laterd/{name}/elect")) == 2


@ELECTION
def test_the_row_or_node_is_deleted_by_hand(service, join, request):
    """ZooKeeper tells both at once, and who waits may hear it first."""
    join.overlap_us = 500_000 if service.kind == "zookeeper" else 0
    candidates = [join(i) for i in range(2)]
    epoch = wait_leader(candidates).holds
    until(lambda: all(candidate.epoch for candidate in candidates), 5)
    delete_by_hand(service, name_of(request))
    until(lambda: any(candidate.holds > epoch for candidate in candidates), 10)


@ELECTION
def test_who_joins_behind_more_than_a_thousand_nodes_finds_its_own_and_the_one_before(service, join, request):
    """ZooKeeper lists them in any order, and laterd takes them all: without its own it would join again and again."""
    if service.kind != "zookeeper":
        pytest.skip("it has no list")
    first = join(0)
    wait_leader([first])
    first.close()
    folder = f"/test/laterd/{name_of(request)}/elect"
    with ZooKeeperClient(service.port) as client:
        others = client.create_all(f"{folder}/other-", 3000)
        until(lambda: len(client.children(folder)) == 3000, 10)  # the first one's has gone
        candidates = [join(i) for i in range(1, 5)]
        until(lambda: len(client.children(folder)) >= 3004, 10)
        time.sleep(1)
        assert len(client.children(folder)) == 3004 and not leader_of(candidates)
        client.delete(*others)
    wait_leader(candidates)


@ELECTION
def test_of_two_who_start_at_the_same_moment_one_leads_and_the_other_knows_it(join):
    """Again and again, as each time another comes first. join() sees that never two held."""
    for _ in range(3):
        candidates = [join(i, timeout_ms=1000) for i in range(2)]
        leader = wait_leader(candidates)
        (other,) = [candidate for candidate in candidates if candidate is not leader]
        until(lambda: other.leader == f"http://node{candidates.index(leader)}", 10)
        assert not other.holds
        for candidate in candidates:
            candidate.close()
            candidate.holds = 0


def is_ready(laterd):
    try:
        with Client(laterd.port) as client:
            return client.get("/readyz").status
    except (Closed, OSError):
        return 0


def test_a_laterd_serves_again_after_its_service_was_away_longer_than_the_session(service, tmp_path):
    """Meanwhile it hands out and takes nothing, and says why."""
    if service.kind == "redis":
        pytest.skip("in test_member.py")
    laterd = Laterd(tmp_path, {"member": {"url": service.url, "name": f"away-{service.kind}", "timeout": "1s"}},
                    listeners=(f"127.0.0.1:{free_port()}",))
    try:
        laterd.start()
        until(lambda: laterd.events("leads"), 10)
        with Client(laterd.port) as client:
            assert client.push("t", body="x", id="before").status == 201
        service.freeze()
        begun = boottime_us()
        until(lambda: is_ready(laterd) == 503 and laterd.events("leads_no_longer"), 10)
        assert not laterd.events("epoch_raised"), "it has opened the store with a term that had ended"
        until(lambda: laterd.events("member_away"), 10)
        assert f"service={service.kind}" in laterd.events("member_away")[0][1]
        with Client(laterd.port) as client:
            assert client.push("t", body="x", id="meanwhile").status == 503
        until(lambda: boottime_us() - begun > 1_500_000, 10)
        service.thaw()
        until(lambda: len(laterd.events("leads")) >= 2, 20)
        assert laterd.events("member_back")
        with Client(laterd.port) as client:
            assert [job["id"] for job in client.reserve("t", most=10)] == ["before"]
    finally:
        service.thaw()
        laterd.kill()


@ELECTION
@pytest.mark.skipif(not ZooKeeper.installed, reason=f"{ZooKeeper.needs} is not installed")
def test_an_ensemble_goes_on_without_one_server_and_stops_without_two():
    with Ensemble() as service:
        candidates = [Candidate(service.url, f"http://node{i}", "queue", TIMEOUT_MS) for i in range(2)]
        try:
            leader = wait_leader(candidates)
            epoch = leader.holds
            until(lambda: all(candidate.epoch for candidate in candidates), 5)
            service.leader().kill()
            second = service.leader()  # the two that are left have elected another
            leader = wait_leader(candidates)
            assert leader.holds >= epoch
            second.kill()
            until(lambda: not leader_of(candidates), 10)
        finally:
            for candidate in candidates:
                candidate.close()


@ELECTION
@pytest.mark.skipif(not ZooKeeper.installed, reason=f"{ZooKeeper.needs} is not installed")
def test_a_name_server_that_hangs_takes_no_lead_from_who_is_connected(tmp_path):
    """By itself libzookeeper looks its servers up again and again, on the thread that keeps the session alive."""
    hang = tmp_path / "hang"
    with ZooKeeper() as service:
        url = service.url.replace("127.0.0.1", "hangs.test")
        candidate = Candidate(url, "http://here", "queue", TIMEOUT_MS,
                              {**preloaded_names(str(tmp_path)), "NAMES_HANG": str(hang)})
        try:
            epoch = wait_leader([candidate]).holds
            hang.touch()
            time.sleep(2.5 * TIMEOUT_MS / 1000)
            assert candidate.holds == candidate.leads == epoch
        finally:
            candidate.kill()
