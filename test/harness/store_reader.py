"""Reads the directory of a store by docs/disk-format.md alone: it shares nothing with laterd's code, and who changes
one of the three changes all. Believes nothing: what that page says is zero is, sums are right, counts agree, and what
two places tell of one thing is the same in both. Of damage it knows nothing, and the image of far jobs is not read."""

import os
import re
import struct

from store_format import (BATCH, BLOCK, DELAYED, READY, Cursor, check, header, padded, read_entry, read_history_file,
                          read_slice, tag_of, up, walk, xxh3, zeros)

COPY, SKIP = 64, 128
KINDS = {1: "job", 2: "move", 3: "gone", 4: "topic", 5: "epoch", 6: "note", 7: "setting", 8: "slice", 10: "far_move",
         11 | SKIP: "happened"}
MOVED = ("state", "failures", "due", "until", "lease", "priority")


class Store:
    """Of what lives: `jobs` and `notes` by number, `topics` with their pauses, `settings`; and `happened`."""

    def __init__(self, folder):
        self.folder, self.names = folder, sorted(os.listdir(folder))
        self.jobs, self.by_id, self.topics, self.settings, self.notes = {}, {}, {}, {}, {}
        self.slices, self.lives, self.ends, self.entries = {}, {}, {}, []
        self.clocks, self.epoch_seen, self.kinds = [], 0, set()
        self.read_manifest()
        self.read_log()
        self.read_history()
        self.check_ends()

    def files(self, prefix):
        for name in self.names:
            if re.fullmatch(prefix + "-[0-9a-f]{8}", name):
                with open(os.path.join(self.folder, name), "rb") as file:
                    yield name, int(name[-8:], 16), file.read()

    # The root

    def read_manifest(self):
        with open(os.path.join(self.folder, "MANIFEST"), "rb") as file:
            data = file.read()
        check(len(data) == 2 * BLOCK, "length of the manifest")
        slots = [slot for slot in (data[:BLOCK], data[BLOCK:]) if any(slot) and header(slot, b"MANF", "MANIFEST")]
        slot = max(slots, key=lambda slot: struct.unpack_from("<Q", slot, 32)[0])
        (version, flags, self.id, generation, _, self.first_batch, self.durable, _, _, zero, self.leases, compatible,
         self.features, self.epoch, self.secret) = struct.unpack_from("<II16sQQQQQIIQIIQQ", slot, 8)
        check(slot == data[generation % 2 * BLOCK:][:BLOCK], "slot of generation", generation)
        check(version == 1 + bool(self.features) and flags < 2 and zero == compatible == 0, "the manifest's fields")
        check(bool(self.secret) == bool(self.features & 64), "the secret goes with feature 6")
        zeros(slot[112:128] + slot[1152:4088], "the manifest")
        for at in range(128, 1152, 64):
            zeros(slot[at + 41 if slot[at] else at:at + 64], "a follower")
        self.clean = flags == 1

    # The log

    def read_log(self):
        segments, self.spares, self.segments = [], 0, {}
        for name, number, data in self.files("wal"):
            if not any(data[:BLOCK]) or data[:8] == b"\1LTDSPAR":
                zeros(data if data[:1] == b"\0" else header(data, b"SPAR", name)[32:4088], name)
                self.spares += 1
                continue
            (inside, owner, first, _, size, numbers, zero,
             key) = struct.unpack_from("<I16sQQQIIQ", header(data, b"SEGM", name), 12)
            check((inside, owner, size, zero) == (number, self.id, len(data), 0) and number < numbers, name, "header")
            check(key in (0, xxh3(struct.pack("<I", number), self.secret) or 1), name, "key")
            zeros(data[72:4088], name)
            if first >= self.first_batch:
                segments.append((first, number, key, data))
                self.segments[number] = data
        segments.sort()
        batch = self.first_batch
        for index, (first, number, key, data) in enumerate(segments):
            check(first == batch, "segment", number, "begins with batch", first, "and not", batch)
            at = BLOCK
            while at < len(data) and (length := self.read_batch(data, at, number, key, batch)):
                at, batch = at + length, batch + 1
            check(index + 1 == len(segments) or batch == segments[index + 1][0], "damage in segment", number, "at", at)
            for behind in range(at, len(data), BLOCK):
                block = data[behind:behind + BLOCK]
                check(not self.is_batch(block, number) if key else not any(block), "what is behind the end of", number)
        self.last_batch = batch - 1
        check(self.last_batch == self.durable if self.clean else self.last_batch >= self.durable, "the end of the log")

    def is_batch(self, block, number):
        return block[8:12] == b"LTBH" and struct.unpack_from("<II", block, 40) == (number, tag_of(self.id))

    def read_batch(self, data, at, number, key, expected):
        """Its bytes; 0: it is no good one."""
        (total, _, _, batch, durable, self.bound, _, _, size, count, clock) = BATCH.unpack_from(data, at)
        whole = data[at:at + up(64 + size, BLOCK)]
        if not self.is_batch(whole, number) or batch != expected or xxh3(whole[8:], key) != total:
            return 0
        check(durable < batch, "durable before it was written")
        self.clocks.append(clock)
        walk(whole, size, count, number << 32 | at // 8, self.take_record)
        check(not self.epoch_seen or whole[68] & ~COPY == 5, "a batch without its epoch")
        return len(whole)

    def take_record(self, kind, record, where):
        check(not kind & COPY or self.features & 2, "a copy without feature 1")
        name = KINDS.get(kind & ~COPY)
        check(name or kind & SKIP, "unknown kind", kind)
        if name:
            self.kinds.add(name)
            getattr(self, "take_" + name)(record, where)

    def end_place(self, where, size=0, number=None, job_id=b""):
        """The record there is dead; another one that names it says how long it is, and is of the same job or id."""
        file, at = where >> 32, (where & 0xFFFFFFFF) * 8
        if file in self.segments and number is not None:
            length, kind, found = struct.unpack_from("<IB3xQ", self.segments[file], at)
            check((length, kind & ~COPY) == (size, 1) and (job_id or found == number), "what ended at", hex(where))
        if where in self.lives.get(file, ()):
            far = self.slices[file]["jobs"][where]
            check(number is None or far["size"] == size and (far["number"] == number or far["id"] == job_id != b""),
                  "what ended at", hex(where), "in a slice")
            self.lives[file].discard(where)

    def drop(self, number, keep_notes=False):
        job = self.jobs.pop(number, None)
        if not keep_notes:
            self.notes.pop(number, None)
        if job:
            self.by_id.pop(job["id"], None)
            self.end_place(job["where"])

    def put(self, job):
        self.drop(job["number"], keep_notes=True)
        if job["id"]:
            if job["id"] in self.by_id:
                self.drop(self.by_id[job["id"]])
            self.by_id[job["id"]] = job["number"]
        self.jobs[job["number"]] = dict(job, batch=len(self.clocks) - 1)

    def take_job(self, r, where):
        job = {"where": where}
        (job["state"], kind, waits, number, job["due"], job["until"], job["ttr"], job["created"], job["lease"], old,
         old_bytes, job["priority"], job["failures"], *counts, id_bytes, topic_bytes, type_bytes, job["order"],
         body_bytes, _, total) = struct.unpack_from("<BBBQqqqqQQIIHHHHHHBBBBIIQ", r, 5)
        cursor = Cursor(r, 104)
        job["type"], job["body"], job["properties"] = cursor.content(type_bytes, body_bytes, kind & 128)
        check(xxh3(r[104:cursor.at], number) == total or not body_bytes, "sum of a body")
        job |= {"number": number, "counts": counts, "json": kind & 1, "retry": cursor.waits(waits),
                "id": cursor.bytes(id_bytes), "topic": cursor.bytes(topic_bytes)}
        padded(r, cursor.at, "a job")
        check(1 <= job["state"] <= 4 and kind & 126 == 0 and waits <= 64 and job["order"] <= 1, "fields of a job")
        check(number < self.bound and (not self.leases or job["lease"] < self.leases), "marks")
        self.end_place(old, old_bytes, number, job["id"])
        self.put(job)

    def change(self, r, id_at):
        *moved, number = [struct.unpack_from(form, r, at)[0] for form, at in
                          (("B", 5), ("<H", 6), ("<q", 16), ("<q", 24), ("<Q", 32), ("<I", 40), ("<Q", 8))]
        padded(r, id_at + r[54], "a move")
        check(not r[54] or self.features & 2, "a move with an id without feature 1")
        if number in self.jobs:
            check(not r[54] or r[id_at:][:r[54]] == self.jobs[number]["id"], "the id of a move")
            self.jobs[number] |= dict(zip(MOVED, moved), counts=list(struct.unpack_from("<5H", r, 44)),
                                      batch=len(self.clocks) - 1)

    def take_move(self, r, _):
        self.change(r, 56)

    def take_far_move(self, r, _):
        number, place = struct.unpack_from("<Q", r, 8)[0], struct.unpack_from("<Q", r, 56)[0]
        far = self.slice(place >> 32)
        if far and self.jobs.get(number, {}).get("where") != place:
            check(far["jobs"][place]["number"] == number, "a move names another job's record")
            self.put(far["jobs"][place])
        self.change(r, 64)

    def take_gone(self, r, _):
        why, id_bytes, zero, number, place, size, more = struct.unpack_from("<BBBQQII", r, 5)
        check(why <= 2 and zero == more == 0 and (not id_bytes or self.features & 2), "an end")
        padded(r, 32 + id_bytes, "an end")
        self.ends[number] = why
        self.end_place(place, size, number)
        self.drop(number)

    def take_topic(self, r, _):
        padded(r, 16 + r[5], "a topic")
        self.topics[r[16:16 + r[5]]], = struct.unpack_from("<q", r, 8)

    def take_epoch(self, r, _):
        epoch, = struct.unpack_from("<Q", r, 8)
        check(len(r) == 16 and self.features & 1 and self.epoch_seen <= epoch <= self.epoch, "an epoch")
        self.epoch_seen = epoch

    def take_note(self, r, _):
        number, total, when, note, code, size = struct.unpack_from("<QQqIHH", r, 8)
        check(xxh3(r[24:40 + size], number) == total and self.features & 4 and note and size, "a note")
        padded(r, 40 + size, "a note")
        notes = self.notes.setdefault(number, {})
        notes[note] = {"time": when, "code": code, "text": r[40:40 + size]}
        self.notes[number] = {key: notes[key] for key in sorted(notes) if key > max(notes) - 5}

    def take_setting(self, r, _):
        name_bytes, size, version, zero, total = struct.unpack_from("<BHQQQ", r, 5)
        end = 32 + size + name_bytes
        check(zero == 0 and xxh3(r[32:end], version) == total and self.features & 4, "settings")
        padded(r, end, "settings")
        self.settings.pop(r[32 + size:end], None)
        if size:
            self.settings[r[32 + size:end]] = version, r[32:32 + size]

    def take_happened(self, r, _):
        cursor, (size,) = Cursor(r, 8), struct.unpack_from("<H", r, 6)
        self.entries.append((self.first_batch + len(self.clocks) - 1, read_entry(cursor)))
        check(cursor.at == 8 + size, "an entry")
        padded(r, 8 + size, "an entry")

    # Slices

    def take_slice(self, r, _):
        flags, zero, number, begin, end, count, _, more, _, size, rest = struct.unpack_from("<BHIIIIIIQII", r, 5)
        check(flags < 2 and zero == more == rest == 0 and self.features & 8, "a slice record")
        padded(r, 48 + size, "a slice record")
        far, cursor, dead, last = self.slice(number), Cursor(r, 48), set(), begin * BLOCK // 32
        while cursor.at < 48 + size:
            last += cursor.varint()
            dead.add(last)
        if not far:
            return
        check(begin == (1 if flags else far["end"]), "slice", number, "goes on at", begin, "and ended at", far["end"])
        inside = [place for place in far["jobs"] if begin * BLOCK <= (place & 0xFFFFFFFF) * 8 < end * BLOCK]
        alive = {place for place in inside if (place & 0xFFFFFFFF) // 4 not in dead}
        check((len(alive), len(dead)) == (count, len(inside) - count), "slice", number, "has not", count)
        known = self.lives.setdefault(number, set())
        check(not flags or not far["named"] or known == alive, "a whole record of slice", number, "repeats what was")
        far["named"], far["end"] = True, end
        known |= alive
        for place in alive:
            if self.jobs.get(far["jobs"][place]["number"], {}).get("where") != place:
                self.put(far["jobs"][place])

    def slice(self, number):
        if number not in self.slices:
            found = [read_slice(*one, self.id) for one in self.files("slice") if one[1] == number]
            self.slices[number] = {"jobs": found[0], "end": 1, "named": False} if found else None
        return self.slices[number]

    # History

    def read_history(self):
        self.happened, covered = [], 0
        files = [read_history_file(name, data, self.id) for name, _, data in self.files("hist")]
        for first, last, entries in sorted(files, key=lambda file: (file[0], -file[1])):
            if last > covered:  # else it was merged into the one before
                check(first > covered and last <= self.last_batch, "batches of a history file", first, last)
                self.happened, covered = self.happened + entries, last
        self.happened += [entry for batch, entry in self.entries if batch > covered]

    # What follows from all of it

    def check_ends(self):
        later = [*self.clocks]
        for at in range(len(later) - 1, 0, -1):
            later[at - 1] = max(later[at - 1], later[at])
        for job in self.jobs.values():
            if job["state"] == DELAYED and job["due"] <= later[job["batch"]]:
                job["state"] = READY
        for number, places in self.lives.items():
            for place in places:
                job = self.jobs.get(self.slices[number]["jobs"][place]["number"])
                check(job and job["where"] == place, "a record that lives, of a job that does not", hex(place))
