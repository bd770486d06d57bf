"""later backup and later restore: a store beside the server that works on it."""

import glob
import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import threading
import time

import nobody
import pytest
from golden import listing, text_of
from patience import PATIENCE_S, TooLate
from process import LATER, LATERD, Laterd
from redis import Redis
from small_disk import small_disk_at
from wire import Client, eventually

DONE, NOTHING, USAGE, CONFLICT, REFUSED, UNREACHABLE, WRONG = range(7)
FAR = "2300-01-01T00:00:00Z"
SMALL = {"store": {"segment_bytes": "256K"}}
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")

pytestmark = pytest.mark.embedded("about the store on disk")


def later(*words, server=None, seconds=60):
    where = ["-s", f"127.0.0.1:{server.port}"] if server else []
    return subprocess.run([LATER, *where, *map(str, words)], capture_output=True, text=True,
                          timeout=seconds, check=False)


def backup(server, place, *options):
    """What it says of itself."""
    done = later("backup", "--json", *options, place, server=server)
    assert done.returncode == DONE, done.stderr
    return json.loads(done.stdout)


def restored(laterd, tmp_path, what, name="restored"):
    """A server on what was made of a backup."""
    folder = tmp_path / name
    done = later("restore", what, folder)
    assert done.returncode == DONE, done.stderr
    assert "every byte checked" in done.stdout
    return laterd(SMALL, data=str(folder))


def fill(client, count, size=2000):
    return [client.push_id("t", due=FAR, body=f"{number} " + "x" * size) for number in range(count)]


def far_jobs(client, name):
    text = client.get("/metrics").text
    return int(next(line for line in text.splitlines() if line.startswith(f"laterd_{name} ")).split()[1])


class Load:
    """Pushes with ids of its own, and deletes some, until it is told to end."""

    def __init__(self, server, name):
        self.server, self.name = server, name
        self.pushed, self.deleted, self.tried = set(), set(), set()
        self.ended = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        number = 0
        with Client(self.server.port) as client:
            while not self.ended:
                number += 1
                job = f"{self.name}-{number}"
                assert client.push("load", id=job, due=FAR, body=job * 200).status == 201
                self.pushed.add(job)
                if number % 3:
                    self.tried.add(job)
                    assert client.job(job, method="DELETE").status in (200, 204)
                    self.deleted.add(job)

    def end(self):
        self.ended = True
        self.thread.join(PATIENCE_S)


def test_p2_a_backup_under_load_is_the_store_at_one_instant(laterd, tmp_path):
    server = laterd(SMALL)
    with Client(server.port) as client:
        client.request("PUT", "/v1/topics/t", retry=["1m"])
        keep = fill(client, 50)
    loads = [Load(server, name) for name in "abc"]
    time.sleep(0.5)
    for number in range(4):
        before = [(set(load.pushed), set(load.tried), set(load.deleted)) for load in loads]
        made = backup(server, tmp_path / "place")
        after = [(set(load.pushed), set(load.tried)) for load in loads]
        copy = restored(laterd, tmp_path, tmp_path / "place" / made["backup"], f"copy{number}")
        with Client(copy.port) as client:
            jobs = {job["id"] for job in listing(client) if "state" in job}
            assert set(keep) <= jobs
            assert client.get("/v1/topics/t").json()["settings"] == {"retry": ["60s"]}
            for name, (pushed, _, deleted), (pushed_after, tried) in zip("abc", before, after):
                assert pushed - tried <= jobs
                assert not deleted & jobs
                mine = {job for job in jobs if job.startswith(f"{name}-")}
                assert len(mine - pushed_after) <= 1  # one may be under way
            assert client.job(keep[7], method="GET").json()["body"] == "7 " + "x" * 2000
        copy.kill()
    for load in loads:
        load.end()


def test_a_backup_has_all_that_a_listing_shows(laterd, tmp_path):
    server = laterd(SMALL)
    with Client(server.port) as client:
        fill(client, 30)
        for number in range(4):
            client.push_id("dead", id=f"d{number}", state="buried", body={"n": number})
        client.push_id("url", id="u", due=FAR, key="k", headers={"X-A": "1"}, retry=["1h", "2h"])
        client.post("/v1/topics/p/pause", create=True)
        before = text_of(listing(client))
    backup(server, tmp_path / "place", "--verify")
    copy = restored(laterd, tmp_path, tmp_path / "place")
    with Client(copy.port) as client:
        assert text_of(listing(client)) == before
        fresh = client.push_id("t", due=FAR)
    with Client(server.port) as client:
        since = client.push_id("t", due=FAR)
    assert int(fresh[1:]) > int(since[1:]) + 1_000_000, "no number is given by both"


def test_a_backup_has_the_jobs_that_are_in_slices(laterd, tmp_path):
    """Delayed ones and buried ones, some of them ended since: and what is restored of them works."""
    server = laterd({"store": {"segment_bytes": "256K", "checkpoint_bytes": "256K", "buried_in_memory": 10}})
    with Client(server.port) as client:
        for kind in ({"due": FAR}, {"state": "buried"}):
            client.push_many("far", [{"id": f"{number} {next(iter(kind))}", "body": "x" * 700, **kind}
                                     for number in range(500)])
        assert eventually(lambda: client.job(client.push_id("large", due=FAR, body="z" * 50000), method="DELETE")
                          and far_jobs(client, "far_jobs") > 400 and far_jobs(client, "far_buried_jobs") > 400)
        for number in range(0, 500, 50):
            client.job(f"{number} state", method="DELETE")
            client.job(f"{number} due", method="DELETE")
        before = text_of(listing(client))
    assert backup(server, tmp_path / "place", "--verify")
    copy = restored(laterd, tmp_path, tmp_path / "place")
    with Client(copy.port) as client:
        assert far_jobs(client, "far_jobs") > 350 and far_jobs(client, "far_buried_jobs") > 350
        assert text_of(listing(client)) == before
        while (topic := client.get("/v1/topics/far").json())["buried"]:
            assert client.post("/v1/topics/far/kick", {"max": min(100, topic["buried"])}).status == 200
        assert (topic["buried"], topic["ready"], topic["delayed"]) == (0, 490, 490)


def test_a_second_backup_copies_only_what_is_new(laterd, tmp_path):
    server = laterd(SMALL)
    place = tmp_path / "place"
    with Client(server.port) as client:
        fill(client, 600)
        first = backup(server, place, "--copy")
        assert first["linked_bytes"] == first["kept_bytes"] == 0
        assert first["copied_bytes"] > 1_000_000
        fill(client, 100)
        second = backup(server, place, "--copy")
    assert second["kept_bytes"] > 1_000_000
    assert second["copied_bytes"] < 700_000  # the last segment, and one or two that are new
    linked = backup(server, place)
    assert linked["linked_bytes"] >= second["kept_bytes"] and linked["kept_bytes"] == 0
    oldest = sorted(glob.glob(str(place / "2*")))
    assert len(oldest) == 3
    backup(server, place, "--keep", 2)
    assert len(glob.glob(str(place / "2*"))) == 2 and not os.path.exists(oldest[0])
    for one in glob.glob(str(place / "2*")):
        assert later("verify", one).returncode == DONE
    done = later("verify", place)
    assert done.returncode == DONE and "the newest backup" in done.stderr


def test_the_backup_that_was_made_is_kept_whatever_the_clock_said_before(laterd, tmp_path):
    server = laterd(SMALL)
    place = tmp_path / "place"
    with Client(server.port) as client:
        fill(client, 5)
    backup(server, place)
    (ahead,) = glob.glob(str(place / "2*"))
    os.rename(ahead, place / "29991231T235959Z")
    made = backup(server, place, "--keep", 1)["backup"]
    assert os.listdir(place / made)
    assert [os.path.basename(path) for path in glob.glob(str(place / "2*"))] == [made]


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
def test_what_is_made_is_made_durably(laterd, tmp_path):
    server = laterd(SMALL)
    with Client(server.port) as client:
        fill(client, 5)
    place, store = tmp_path / "place", tmp_path / "store"
    for words in (["backup", "-s", f"127.0.0.1:{server.port}", str(place)], ["restore", str(place), str(store)]):
        done = subprocess.run(["strace", "-y", "-e", "trace=fsync", LATER, *words], capture_output=True, text=True,
                              timeout=60, check=False)
        assert done.returncode == DONE, done.stderr
        assert f"<{tmp_path}>) = 0" in done.stderr, "the name of the directory is synced"


def test_the_newest_backup_is_the_last_by_name_whatever_the_clock_said(laterd, tmp_path):
    """Else `later restore PLACE` takes an older one: jobs that were acknowledged would be missing."""
    server, place = laterd(SMALL), tmp_path / "backups"
    with Client(server.port) as client:
        client.push_id("t", id="old", due=FAR, body="x")
        backup(server, place)
        first, = [name for name in os.listdir(place) if name != "LOCK"]
        os.rename(place / first, place / "29991231T235959Z")  # the clock was ahead
        for number in range(3):  # in one second, and one is removed each time
            client.push_id("t", id=f"new-{number}", due=FAR, body="x")
            backup(server, place, "--keep", "2")
    names = sorted(name for name in os.listdir(place) if name != "LOCK")
    assert names == ["29991231T235959Z-002", "29991231T235959Z-003"]
    with Client(restored(laterd, tmp_path, place).port) as client:
        assert client.job("new-2", method="GET").status == 200



def test_a_backup_that_was_renamed_is_the_operators(laterd, tmp_path):
    """It is neither counted nor removed, nor taken for the newest."""
    server, place = laterd(SMALL), tmp_path / "place"
    with Client(server.port) as client:
        fill(client, 3)
    kept = backup(server, place)["backup"] + "-before-move"
    os.rename(place / kept.removesuffix("-before-move"), place / kept)
    names = [backup(server, place, "--keep", 1)["backup"] for _ in range(3)]
    assert sorted(name for name in os.listdir(place) if name != "LOCK") == sorted([kept, names[-1]])
    assert later("verify", place).stderr.startswith(f"later verify: the newest backup there is {place}/{names[-1]}")
    restored(laterd, tmp_path, place / kept)


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


def test_a_damaged_copy_of_the_last_backup_does_not_spoil_all_later_ones(laterd, tmp_path):
    server = laterd(SMALL)
    place = tmp_path / "place"
    # as on another file system, where nothing links to the store
    with Client(server.port) as client:
        fill(client, 600)
        first = place / backup(server, place, "--copy")["backup"]
        segment = sorted(glob.glob(str(first / "wal-*")))[0]
        status = os.stat(segment)
        flip(segment, 20_000)
        os.utime(segment, ns=(status.st_atime_ns, status.st_mtime_ns))  # as if its disk had lost it
        fill(client, 10)
    done = later("backup", "--json", "--copy", "--verify", place, server=server)
    assert done.returncode == DONE, done
    assert f"perhaps in files of {first.name}" in done.stderr, done
    made = json.loads(done.stdout)
    assert made["kept_bytes"] == 0 and made["verified"]
    assert len(glob.glob(str(place / "2*"))) == 3
    assert later("verify", place / made["backup"]).returncode == DONE
    assert backup(server, place, "--copy", "--verify")["kept_bytes"] > 0  # of the good one


def test_a_damaged_store_does_not_fill_the_place_with_second_backups(laterd, tmp_path):
    server = laterd(SMALL)
    place = tmp_path / "place"
    with Client(server.port) as client:
        fill(client, 600)
        flip(sorted(glob.glob(os.path.join(server.data, "wal-*")))[0], 20_000)
        backup(server, place, "--copy")
        for made in (2, 3):
            done = later("backup", "--copy", "--verify", place, server=server)
            assert done.returncode == WRONG and "is damaged as much" in done.stderr, done
            assert len(glob.glob(str(place / "2*"))) == made


def test_the_better_one_of_two_damaged_backups_stays(laterd, tmp_path):
    server = laterd(SMALL)
    place = tmp_path / "place"
    with Client(server.port) as client:
        fill(client, 1200)
        flip(sorted(glob.glob(os.path.join(server.data, "wal-*")))[0], 20_000)
        segment = sorted(glob.glob(str(place / backup(server, place, "--copy")["backup"] / "wal-*")))[1]
        status = os.stat(segment)
        flip(segment, 20_000)
        os.utime(segment, ns=(status.st_atime_ns, status.st_mtime_ns))  # as if its disk had lost it
        done = later("backup", "--copy", "--verify", place, server=server)
        assert done.returncode == WRONG and "is removed again" not in done.stderr, done
        assert len(glob.glob(str(place / "2*"))) == 3


def test_a_backup_of_a_stopped_store_asks_no_server(laterd, tmp_path):
    server = laterd(SMALL)
    with Client(server.port) as client:
        fill(client, 20)
        before = text_of(listing(client))
    assert server.stop() == 0
    done = later("backup", tmp_path / "place", "-s", "127.0.0.1:1")
    assert done.returncode == UNREACHABLE and "--data-dir" in done.stderr
    assert later("backup", "--data-dir", server.data, tmp_path / "place").returncode == DONE
    copy = restored(laterd, tmp_path, tmp_path / "place")
    with Client(copy.port) as client:
        assert text_of(listing(client)) == before


def test_a_relative_data_directory_is_found_from_another_folder(laterd, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    server = laterd(SMALL, data="jobs", cwd=here)
    with Client(server.port) as client:
        fill(client, 20)
        before = text_of(listing(client))
        assert client.get("/v1/stats").json()["store"]["data_dir"] == str(here / "jobs")
    assert f"dir={here}/jobs " in server.events("store_opened")[0][1] + " "
    backup(server, tmp_path / "place")  # of a `later` that is somewhere else
    copy = restored(laterd, tmp_path, tmp_path / "place")
    with Client(copy.port) as client:
        assert text_of(listing(client)) == before


def test_another_store_under_the_servers_path_is_not_backed_up_for_it(laterd, tmp_path):
    """As in another folder, if the path is relative, in a container, or on another machine."""
    other, server = laterd(), laterd()
    other.stop()
    away = f"{server.data}.away"
    os.rename(server.data, away)
    try:
        shutil.copytree(other.data, server.data)
        refused = later("backup", tmp_path / "place", server=server)
    finally:
        shutil.rmtree(server.data)
        os.rename(away, server.data)
    assert refused.returncode == CONFLICT
    assert refused.stderr.startswith(f"later backup: the store in {server.data} is not the server's: run this on ")
    assert not glob.glob(f"{tmp_path}/place/2*")
    assert later("backup", tmp_path / "place", server=server).returncode == DONE


def test_a_backup_that_is_killed_leaves_none_that_looks_whole(laterd, tmp_path):
    server = laterd(SMALL)
    place = tmp_path / "place"
    with Client(server.port) as client:
        fill(client, 300)
    process = subprocess.Popen([LATER, "backup", "--copy", "--rate", "10K", "--data-dir", server.data,
                                place])  # it would take a minute
    assert eventually(lambda: glob.glob(str(place / "incomplete" / "wal-*")))
    done = later("backup", place, server=server)
    assert done.returncode == CONFLICT and "another backup" in done.stderr
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert os.listdir(place / "incomplete") and not glob.glob(str(place / "2*"))
    done = later("restore", place, tmp_path / "no")
    assert done.returncode == NOTHING and "no whole backup" in done.stderr
    done = later("restore", place / "incomplete", tmp_path / "no")
    assert done.returncode == NOTHING and not os.path.exists(tmp_path / "no")
    backup(server, place)
    assert not os.path.exists(place / "incomplete")
    restored(laterd, tmp_path, place)


def test_a_server_that_is_killed_under_a_backup_does_not_spoil_it(laterd, tmp_path):
    server = laterd(SMALL)
    with Client(server.port) as client:
        keep = fill(client, 300)
    process = subprocess.Popen([LATER, "backup", "--copy", "--rate", "500K", "--data-dir", server.data,
                                tmp_path / "place"], stdout=subprocess.PIPE)
    assert eventually(lambda: process.poll() is not None or
                      glob.glob(str(tmp_path / "place" / "incomplete" / "wal-*")))
    if process.poll() is not None:
        raise TooLate("it was done before anybody looked")
    server.kill()
    server.start()
    with Client(server.port) as client:
        for job in keep:
            client.job(job, method="DELETE")
        fill(client, 200)
    assert process.wait(PATIENCE_S) == DONE
    process.stdout.close()
    copy = restored(laterd, tmp_path, tmp_path / "place")
    with Client(copy.port) as client:
        assert {job["id"] for job in listing(client) if "state" in job} == set(keep)


@pytest.fixture
def small_disk(tmp_path):
    with small_disk_at(tmp_path / "small", 2) as path:
        yield path


@ROOT_ONLY
def test_a_full_disk_leaves_the_backups_that_are_there(laterd, tmp_path, small_disk):
    server = laterd(SMALL)
    place = small_disk / "place"
    with Client(server.port) as client:
        fill(client, 50)
        first = backup(server, place)
        assert first["linked_bytes"] == 0  # another file system
        keep = text_of(listing(client))
        fill(client, 2000)
        done = later("backup", place, server=server)
        assert done.returncode == REFUSED and "No space left" in done.stderr
    assert [name for name in os.listdir(place) if name != "LOCK"] == [first["backup"]]
    copy = restored(laterd, tmp_path, place)
    with Client(copy.port) as client:
        assert text_of(listing(client)) == keep


def test_a_directory_that_cannot_be_used_is_named_with_the_reason(laterd, tmp_path):
    server = laterd(SMALL)
    place = tmp_path / "place"
    with Client(server.port) as client:
        fill(client, 3)
    backup(server, place)
    (tmp_path / "file").write_text("mine")
    for words, code, said in (
            (("restore", place, tmp_path / "no" / "new"), REFUSED, "no/new: cannot be made: No such file or directory"),
            (("restore", tmp_path / "nowhere", tmp_path / "new"), NOTHING, "nowhere: No such file or directory"),
            (("restore", tmp_path / "file", tmp_path / "new"), NOTHING, "file: Not a directory"),
            (("restore", tmp_path, tmp_path / ".." / "new"), NOTHING, "no whole backup in"),
            (("verify", tmp_path), NOTHING, f"there is no store in {tmp_path}"),
            (("salvage", tmp_path / "nowhere", tmp_path / "new"), NOTHING, "nowhere: No such file or directory"),
            (("salvage", place, tmp_path / "new"), NOTHING, f"one is made by: later restore {place} NEW"),
            (("salvage", server.data, tmp_path / "new"), CONFLICT, "a server has"),
            (("backup", "-d", tmp_path / "nowhere", place), NOTHING, "nowhere: No such file or directory"),
            (("backup", "-d", tmp_path, place), NOTHING, f"there is no store in {tmp_path}")):
        done = later(*words)
        assert done.returncode == code and said in done.stderr, (words, done)
        assert "not whole" not in done.stderr and not os.path.exists(tmp_path / "new"), words


@nobody.ROOT_ONLY
def test_a_directory_that_belongs_to_somebody_else_is_reported_with_what_to_do():
    """It may have a store: this is not exit 1. So it is with systemd's /var/lib/private, above the directory."""
    with nobody.folder_for_nobody() as folder:
        closed, new = os.path.join(folder, "private"), os.path.join(folder, "new")
        os.makedirs(os.path.join(closed, "store"), 0o700)
        os.chmod(closed, 0o700)
        for store, command in itertools.product((closed, os.path.join(closed, "store")), ("verify", "restore", "salvage", "backup")):
            words = {"verify": ["verify", store], "backup": ["backup", "-d", store, new]}.get(command, [command, store, new])
            done = nobody.run_as_nobody(folder, LATER, *words)
            assert (done.returncode, done.stdout, done.stderr) == (
                REFUSED, "", f"later {words[0]}: cannot open {store}: Permission denied; run it as laterd's user, "
                "or as root\n"), words


@nobody.ROOT_ONLY
def test_backups_that_may_not_be_read_are_reported_as_such_and_no_older_one_is_taken(laterd, tmp_path):
    """As root makes them: the place is anybody's to list, the backups in it are not. And a store of which nothing may
    be read."""
    server = laterd()
    with nobody.folder_for_nobody() as folder:
        place, new = os.path.join(folder, "place"), os.path.join(folder, "new")
        for _ in range(2):
            backup(server, place)
        server.stop()
        os.chmod(place, 0o755)
        older, newer = (os.path.join(place, name) for name in sorted(os.listdir(place)) if name != "LOCK")
        for root, _, files in os.walk(older):
            for name in ("", *files):
                os.chown(os.path.join(root, name), nobody.NOBODY, nobody.NOBODY)
        denied = "cannot open %s: Permission denied; run it as laterd's user, or as root\n" % newer
        for words in (("restore", place, new), ("verify", place)):
            done = nobody.run_as_nobody(folder, LATER, *words)
            assert (done.returncode, done.stdout, done.stderr) == (REFUSED, "", f"later {words[0]}: {denied}"), words
        assert not os.path.exists(new)
        store = shutil.copytree(server.data, os.path.join(folder, "store"))
        os.chmod(store, 0o755)
        done = nobody.run_as_nobody(folder, LATER, "verify", store)
        assert (done.returncode, done.stdout) == (REFUSED, "")
        assert done.stderr.count("\n") == 1 and f"cannot read {store}/" in done.stderr


def test_a_file_that_may_not_grow_so_large_is_an_error_and_kills_nobody(laterd, tmp_path):
    """As `ulimit -f` and LimitFSIZE= have it."""
    server = laterd(SMALL)
    with Client(server.port) as client:
        fill(client, 300)
    backup(server, tmp_path / "place")
    assert server.stop() == 0

    def small(*words):
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)))
    for words in (("restore", tmp_path / "place", tmp_path / "a"), ("salvage", server.data, tmp_path / "b")):
        done = small(LATER, *words)
        assert done.returncode == REFUSED and f"{words[2]} is not whole: remove it" in done.stderr, done
    done = small(LATER, "backup", "--copy", "-d", server.data, tmp_path / "other")
    assert done.returncode == REFUSED and "File too large" in done.stderr
    assert os.listdir(tmp_path / "other") == ["LOCK"]
    done = small(LATERD, "--data-dir", tmp_path / "new", "--http", "127.0.0.1:0", "--beanstalk", "none")
    assert done.returncode == 1 and "above the limit of a file's size: raise LimitFSIZE=" in done.stderr, done


def test_restore_refuses_what_it_would_spoil_and_says_what_is_damaged(laterd, tmp_path):
    server = laterd(SMALL)
    place = tmp_path / "place"
    with Client(server.port) as client:
        fill(client, 300)
    made = place / backup(server, place, "--copy")["backup"]
    busy = tmp_path / "busy"
    busy.mkdir()
    (busy / "file").write_text("mine")
    done = later("restore", made, busy)
    assert done.returncode == CONFLICT and "not an empty directory" in done.stderr
    assert later("restore", place, made / "in").returncode == CONFLICT
    assert later("restore", tmp_path / "nowhere", tmp_path / "to").returncode == NOTHING
    segment = sorted(glob.glob(str(made / "wal-*")))[0]
    flip(segment, 20_000)
    done = later("restore", made, tmp_path / "to")
    assert done.returncode == WRONG, done.stderr
    assert os.path.basename(segment) in done.stderr and "later salvage" in done.stderr
    os.truncate(segment, 4096)
    done = later("restore", made, tmp_path / "other")
    assert done.returncode == REFUSED and "not whole" in done.stderr
    os.unlink(segment)
    assert later("restore", made, tmp_path / "third").returncode == REFUSED


def test_a_half_restored_store_does_not_open(laterd, tmp_path):
    server = laterd(SMALL)
    with Client(server.port) as client:
        fill(client, 20)
    made = tmp_path / "place" / backup(server, tmp_path / "place")["backup"]
    os.unlink(made / "MANIFEST")
    assert later("restore", made, tmp_path / "half").returncode == WRONG
    half = Laterd(tmp_path / "server", SMALL, data=str(tmp_path / "half"))
    with pytest.raises(Exception, match="no manifest"):
        half.start()


def test_a_backup_says_what_it_cannot_back_up(laterd, tmp_path):
    server = laterd(SMALL)
    done = later("backup", os.path.join(server.data, "in"), server=server)
    assert done.returncode == CONFLICT and "in the other" in done.stderr
    done = later("backup", "--data-dir", tmp_path, tmp_path / "place")
    assert done.returncode == NOTHING
    assert later("backup", "--keep", 0, tmp_path / "place").returncode == USAGE
    assert later("backup", "--rate", "fast", tmp_path / "place").returncode == USAGE
    slow = later("backup", "--rate", "10", tmp_path / "place")
    assert slow.returncode == USAGE and "--rate 10 is 10 bytes a second: write 10K or 10M" in slow.stderr
    with Redis() as redis:
        shared = laterd({"engine": {"engine": "redis"}, "redis": {"url": redis.url}})
        done = later("backup", tmp_path / "place", server=shared)
    assert done.returncode == CONFLICT and "in Redis" in done.stderr and "export" in done.stderr
    assert not os.path.exists(tmp_path / "place")


def test_a_new_file_system_is_an_empty_directory(laterd, tmp_path):
    server, place = laterd(SMALL), tmp_path / "place"
    with Client(server.port) as client:
        fill(client, 3)
    backup(server, place)
    server.stop()
    for command, source in (("restore", place), ("salvage", server.data)):
        new = tmp_path / command
        (new / "lost+found").mkdir(parents=True)
        done = later(command, source, new)
        assert done.returncode == DONE, done
        (new / "mine").touch()
        assert later(command, source, new).returncode == CONFLICT
