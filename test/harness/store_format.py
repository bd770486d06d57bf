"""The files of a store, each for itself, by docs/disk-format.md: see store_reader.py."""

import ctypes
import struct

BLOCK = 4096
DELAYED, READY, RESERVED, BURIED = 1, 2, 3, 4
BATCH = struct.Struct("<Q4sIQQQIIIIQ")
_xxhash = ctypes.CDLL("libxxhash.so.0")
_xxhash.XXH3_64bits_withSeed.restype = ctypes.c_uint64


def xxh3(data, seed=0):
    return _xxhash.XXH3_64bits_withSeed(bytes(data), ctypes.c_size_t(len(data)), ctypes.c_uint64(seed))


def check(truth, *what):
    if not truth:
        raise AssertionError(" ".join(str(one) for one in what))


def zeros(data, *what):
    check(not any(data), *what, "is not zeros")


def up(number, to):
    return -(-number // to) * to


def signed(number):
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def header(data, magic, what):
    """The first block of a file."""
    check(data[:8] == b"\1LTD" + magic, what, "magic")
    check(struct.unpack_from("<Q", data, 4088)[0] == xxh3(data[:4088]), what, "sum of the header")
    return data


def padded(record, end, what):
    """What follows the record's end up to a multiple of eight is zeros."""
    zeros(record[end:], what, "padding")
    check(len(record) == max(up(end, 8), 16), what, "length", len(record), end)


class Cursor:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def bytes(self, count):
        self.at += count
        check(self.at <= len(self.data), "more bytes than there are")
        return self.data[self.at - count:self.at]

    def varint(self):
        value = shift = 0
        while (byte := self.bytes(1)[0]) >= 128:
            value |= (byte & 127) << shift
            shift += 7
        value |= byte << shift
        check(value < 1 << 64, "a varint of more than 64 bits")
        return value

    def folded(self):
        value = self.varint()
        return -(value + 1) // 2 if value & 1 else value // 2

    def text(self):
        return self.bytes(self.varint())

    def content(self, type_bytes, body_bytes, has_properties):
        content_type, body = self.bytes(type_bytes), self.bytes(body_bytes)
        return content_type, body, self.bytes(struct.unpack("<H", self.bytes(2))[0]) if has_properties else b""

    def waits(self, count):
        return list(struct.unpack(f"<{count}q", self.bytes(8 * count)))


def tag_of(store_id):
    return xxh3(store_id) & 0xFFFFFFFF


def seed_of(store_id):
    return struct.unpack_from("<Q", store_id)[0] or 1


def walk(batch, size, count, place, take):
    at = 64
    for _ in range(count):
        length, kind = struct.unpack_from("<IB", batch, at)
        check(length % 8 == 0 and 8 <= length <= 64 + size - at, "length of a record", length)
        take(kind, batch[at:at + length], place + at // 8)
        at += length
    check(at == 64 + size, "bytes of the records")
    zeros(batch[at:], "padding of a batch")


def read_slice(name, number, data, store_id):
    """Its jobs by place."""
    (inside, owner, size, end, count, blocks, topic_count, state, first, last, topic_bytes, index_bytes,
     *sums) = struct.unpack_from("<I16sQQIIIIqqQQQQQ", header(data, b"SLIC", name), 12)
    check((inside, owner, size, state in (0, READY, BURIED)) == (number, store_id, len(data), True), name, "header")
    zeros(data[120:4088], name)
    at, jobs, fences = BLOCK, {}, b""
    while at < end:
        total, magic, _, *told, length, records, clock = BATCH.unpack_from(data, at)
        check((magic, told[1:], clock) == (b"LTBH", [0, 1, number, tag_of(store_id)], 0), name, "block", told)
        check(told[0] == len(fences) // 16 + 1, name, "number of a block", told[0])
        block, before = data[at:at + up(64 + length, BLOCK)], len(jobs)
        check(xxh3(block[8:]) == total, name, "sum of the block at", at)
        walk(block, length, records, number << 32 | at // 8,
             lambda kind, record, where: jobs.update({where: read_far(kind, record, where, state)}))
        fences += struct.pack("<qII", list(jobs.values())[before]["due"], at // BLOCK, records)
        at += len(block)
    order = [(job["due"], job["number"]) for job in jobs.values()]
    check(order == sorted(order) and (order[0][0], order[-1][0]) == (first, last), name, "order")
    check((len(jobs), len(fences) // 16) == (count, blocks) and (at - BLOCK <= 16 << 20 or count == 1), name, "counts")
    ends = [end, end + len(fences), end + len(fences) + topic_bytes, end + len(fences) + topic_bytes + index_bytes]
    sections = [data[a:b] for a, b in zip(ends, ends[1:])]
    check(sections[0] == fences and sums == [xxh3(one) for one in sections], name, "fences and sums")
    zeros(data[ends[3]:], name)
    check(len(data) == up(ends[3] + 104, BLOCK), name, "length")
    cursor, topics, index = Cursor(sections[1]), [], Cursor(sections[2])
    while cursor.at < topic_bytes:
        topics.append(cursor.bytes(cursor.bytes(1)[0]))
    check(len(topics) == topic_count, name, "topics")
    offset, seq, when = 512, 0, 0
    for place, job in jobs.items():
        step = index.varint()
        offset, seq = offset + (step >> 1), signed(seq + index.folded())
        check((offset, seq, step & 1) == (place & 0xFFFFFFFF, job["number"], bool(job["id"])), name, "index")
        if step & 1:
            check(index.bytes(8) == struct.pack("<Q", xxh3(job["id"], seed_of(store_id))), name, "hash of an id")
        check(topics[index.varint()] == job["topic"], name, "topic")
        if state == READY:
            priority, when = index.varint(), signed(when + index.folded())
            check((priority, when) == (job["priority"], job["created" if job["order"] else "due"]), name, "order")
    check(index.at == index_bytes, name, "index")
    return jobs


def read_far(kind, r, where, state):
    flags, content_at, id_bytes, total, content_sum = struct.unpack_from("<BBBIQ", r, 5)
    cursor = Cursor(r, 20)
    job = {"number": cursor.varint(), "due": cursor.folded()}
    job |= {"created": signed(job["due"] - cursor.folded()), "ttr": cursor.folded(), "priority": cursor.varint()}
    body_bytes, type_bytes, topic_bytes = cursor.varint(), cursor.varint(), cursor.varint()
    if flags & 32:
        cursor.varint()
    waits = cursor.varint() if flags & 16 else 0
    job["failures"], *job["counts"] = [cursor.varint() if flags & 8 else 0 for _ in range(6)]
    check(kind == 9 and content_at == cursor.at <= 104, "a far job's content")
    job["type"], job["body"], job["properties"] = cursor.content(type_bytes, body_bytes, flags & 4)
    content_end = cursor.at
    job |= {"retry": cursor.waits(waits), "id": cursor.bytes(id_bytes), "topic": cursor.bytes(topic_bytes), "lease": 0,
            "until": 0, "json": flags & 1, "order": flags >> 1 & 1, "state": state or DELAYED, "where": where,
            "size": len(r)}
    own = xxh3(r[content_end:cursor.at], xxh3(r[12:content_at], xxh3(r[:8])))
    check(own & 0xFFFFFFFF == total, "sum of a far job")
    check(xxh3(r[content_at:content_end], job["number"]) == content_sum, "sum of a far job's content")
    check(flags & 192 == {0: 0, READY: 128, BURIED: 64}[state], "state of a far job")
    zeros(r[cursor.at:], "padding of a far job")
    check(len(r) == max(32, up(cursor.at, 8)), "length of a far job")
    return job


def read_entry(cursor):
    """Of the history."""
    (what, state), number, when = cursor.bytes(2), cursor.varint(), cursor.folded()
    check(1 <= what <= 13 and state <= 4, "an entry", what, state)
    entry = {"what": what, "state": state, "number": number, "time": when}
    if state in (DELAYED, READY, RESERVED):
        entry["until" if state == RESERVED else "due"] = signed(when + cursor.folded())
    if state == RESERVED:
        entry["lease"] = cursor.varint()
    return entry | {"id": cursor.text(), "topic": cursor.text(), "code": cursor.varint(), "note": cursor.text()}


def read_history_file(name, data, store_id):
    """First and last batch, and its entries."""
    (version, blocks, owner, size, end, count, first, last, *times,
     fence_sum) = struct.unpack_from("<II16sQQQQQqqQ", header(data, b"HIST", name), 8)
    check((version, owner, size) == (1, store_id, len(data)), name, "header")
    zeros(data[96:4088], name)
    at, fences, entries, keys = BLOCK, b"", [], []
    for _ in range(blocks):
        total, length, zero = struct.unpack_from("<QII", data, at)
        check(zero == 0 and xxh3(data[at + 8:at + length]) == total and length <= 32768, name, "block at", at)
        cursor, before = Cursor(data[:at + length], at + 16), len(entries)
        while cursor.at < at + length:
            entries.append(read_entry(cursor))
            keys.append(xxh3(entries[-1]["id"] or struct.pack("<Q", entries[-1]["number"]), seed_of(store_id)))
        fences += struct.pack("<QQ", keys[before], at)
        at += length
    check((at, len(entries), keys) == (end, count, sorted(keys)), name, "counts and order")
    check(data[end:] == fences and xxh3(fences) == fence_sum, name, "fences")
    check([min(e["time"] for e in entries), max(e["time"] for e in entries)] == times, name, "times")
    return first, last, entries
