"""Stores that released versions wrote open in every later version, which goes on as if nothing had happened."""

import ctypes
import glob
import json
import os
import struct
import subprocess
import tarfile

import pytest

from golden import histories, listing, text_of, wait_until_it_leads
from process import LATER, ROOT, DidNotStart
from wire import Client, eventually

pytestmark = pytest.mark.embedded("about the store on disk")
GOLDEN = sorted(glob.glob(os.path.join(ROOT, "test", "golden", "*", "*.tar.xz")))


def golden_text(archive):
    with open(archive.replace(".tar.xz", ".jsonl"), encoding="utf-8") as file:
        return file.read()


def history_text(archive):
    """What happened to jobs, as that version told of it; empty: it kept none."""
    name = archive.replace(".tar.xz", ".history.jsonl")
    if not os.path.exists(name):
        return ""
    with open(name, encoding="utf-8") as file:
        return file.read()


def far_jobs(client, state=""):
    text = client.get("/metrics").text
    return int(next(line for line in text.splitlines() if line.startswith(f"laterd_far_{state}jobs ")).split()[1])


@pytest.fixture(params=GOLDEN, ids=lambda path: os.path.basename(path)[:-len(".tar.xz")])
def golden(request, tmp_path):
    """(folder of the store, its listing, what happened to jobs)"""
    folder = str(tmp_path / "data")
    with tarfile.open(request.param) as archive:
        archive.extractall(folder)
    return folder, golden_text(request.param), history_text(request.param)


def was_led(folder):
    """Was it opened in an epoch? Its manifest has feature 0, and who opens it must lead."""
    with open(os.path.join(folder, "MANIFEST"), "rb") as file:
        slot = max(file.read(4096), file.read(4096), key=lambda slot: int.from_bytes(slot[32:40], "little"))
    return bool(slot[92] & 1)


def has_slices(folder):
    return any(name.startswith("slice-") for name in os.listdir(folder))


def slice_states(folder):
    """Byte 60 of a slice's header is the state of its jobs: 0 delayed, 2 ready, 4 buried."""
    slices = [name for name in os.listdir(folder) if name.startswith("slice-")]
    states = set()
    for name in slices:
        with open(os.path.join(folder, name), "rb") as file:
            states.add(file.read(64)[60])
    return states


def test_there_are_golden_directories():
    assert len(GOLDEN) >= 20 and sum(bool(history_text(one)) for one in GOLDEN) >= 3


def check_history(client, history):
    told = [json.loads(line) for line in history.splitlines()]
    assert histories(client, [one["id"] for one in told]) == told


def test_p2_a_store_of_a_released_version_opens_and_goes_on(laterd, golden):
    folder, expected, history = golden
    keep = {"history": "36600d"} if history else {}
    slices, states = has_slices(folder), slice_states(folder)
    member = {"member": {"url": "alone"}} if was_led(folder) else {}
    server = laterd({"store": {"segment_bytes": "256K", **keep}, **member}, data=folder)
    wait_until_it_leads(server)
    with Client(server.port) as client:
        assert (far_jobs(client) > 400) == slices
        assert (far_jobs(client, "buried_") > 300) == (4 in states)
        assert (far_jobs(client, "ready_") > 300) == (2 in states)
        check_history(client, history)
        assert text_of(listing(client)) == expected
        ready, = client.reserve("ready")
        assert client.job(ready["id"], "finish", lease=ready["lease"]).status in (200, 204)
        held = [job for job in listing(client) if job.get("state") == "reserved"]
        assert len(held) == 3
        for job in held:
            assert client.job(job["id"], "finish", lease=job["lease"]).status in (200, 204)
        fresh = [client.push_id("fresh", due="2300-01-01T00:00:00Z", body=f"{number} " * 5000)
                 for number in range(60)]
        assert not any(f'"id": "{job_id}"' in expected for job_id in fresh)
        oldest = min(os.listdir(folder), key=lambda name: (not name.startswith("wal-"), name))
        for job_id in fresh[:55]:
            assert client.job(job_id, method="DELETE").status in (200, 204)
        assert eventually(lambda: oldest not in os.listdir(folder)), "it is cleaned"
        after = text_of(listing(client))
    for end in (server.kill, server.stop):
        end()
        server.start()
        wait_until_it_leads(server)
        with Client(server.port) as client:
            assert text_of(listing(client)) == after
            check_history(client, history)


def test_a_store_of_a_released_version_verifies(golden):
    folder, _, _ = golden
    assert subprocess.run([LATER, "verify", folder], check=False, capture_output=True,
                          timeout=60).returncode == 0


UNKNOWN = 27  # no version has this feature yet


def sum_of(text):
    xxhash = ctypes.CDLL("libxxhash.so.0")
    xxhash.XXH3_64bits.restype = ctypes.c_uint64
    return xxhash.XXH3_64bits(text, ctypes.c_size_t(len(text)))


def add_feature(folder, feature):
    """To both slots of the manifest, as a later version would: docs/disk-format.md."""
    with open(os.path.join(folder, "MANIFEST"), "r+b") as file:
        for at in (0, 4096):
            file.seek(at)
            slot = bytearray(file.read(4096))
            if not any(slot):
                continue
            assert struct.unpack_from("<Q", slot, 4088)[0] == sum_of(bytes(slot[:4088]))
            struct.pack_into("<I", slot, 8, 2)
            struct.pack_into("<I", slot, 92, struct.unpack_from("<I", slot, 92)[0] | 1 << feature)
            struct.pack_into("<Q", slot, 4088, sum_of(bytes(slot[:4088])))
            file.seek(at)
            file.write(slot)


def bytes_of(folder):
    """Of all files but the lock."""
    found = {}
    for name in os.listdir(folder):
        if name != "LOCK":
            with open(os.path.join(folder, name), "rb") as file:
                found[name] = file.read()
    return found


def test_a_store_of_a_later_version_is_refused_and_not_touched(laterd, golden):
    """So is one that has ready jobs in slices (feature 5) by a version from before that."""
    folder, *_ = golden
    add_feature(folder, UNKNOWN)
    before = bytes_of(folder)
    with pytest.raises(DidNotStart) as why:
        laterd(data=folder)
    for part in (f"feature {UNKNOWN}", "nothing was changed", "run the laterd that wrote it, or a newer one"):
        assert part in str(why.value)
    verify = subprocess.run([LATER, "verify", folder], capture_output=True, text=True, timeout=60, check=False)
    assert verify.returncode == 4, "it is not damaged"
    assert f"feature {UNKNOWN}" in verify.stderr and verify.stdout == ""
    assert bytes_of(folder) == before
