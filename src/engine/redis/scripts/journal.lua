-- Takes entries of the journal (entry.lua). One daemon at a time does so, the writer. This script
-- does not decide what MySQL has: if two daemons believe that they are the writer, MySQL lets only
-- one of them write.
--
-- ARGV:
--   2  'l' get or renew the writer's lease, in partition 0; 'r' read entries of this partition
-- 'l': 3 length of the lease, 0: end it; 4 an identity for the queue, used if it has none; 5 the
--   daemon's label, for people; 6 'r' if the daemon has seen that pushes are refused: heartbeat.lua
--   reports that to all daemons while the lease lasts. Returns {header, the queue's identity, the
--   writer's label}. state: 1 this daemon is the writer.
-- 'r': 3 number of the last entry that it has read, 0: none; 4 entries before this number may be
--   removed, 0: none; 5 the most entries, 0: only the field; 6 the first HEAD bytes of the last
--   entry that it has read, '': unknown, then nothing is removed. Returns {header, the field 'j',
--   entry, ...}. The first entry is the last one that the daemon has read, if it still exists: so
--   the daemon knows that the others follow it. It is returned as '' if it begins with ARGV[6].
--   state: 0 this partition has no journal, 1 it has, 2 the journal was given up and its entries
--   are being removed, 3 it has, and pushes are refused. count: entries that are returned; if none
--   were asked for, how many are not taken, and next_us: the time of the first of these. seq: the
--   last entry. MORE: there are more.
-- Cost: O(log n + entries); entries of ANSWER_BYTES and one more; at most DROPPED entries of a
-- journal that was given up.
local DROPPED = 1000 -- entries of a given up journal removed in one call
local HEAD = 25
local READ_AT_ONCE = 8 -- entries read at once: each may have a body
local ANSWER_BYTES = 262144 -- when the entries have so many, no more are added
local now, what = clock(), ARGV[2]
if call('HEXISTS', hash, 'p') == 0 then return redis.error_reply(CLOSED) end
even_if_full()

if what == 'l' then
    local daemon, found = sub(slot, 2, 9), call('HMGET', hash, 'jl', 'jq')
    local span, identity, lease = tonumber(ARGV[3]), found[2], found[1]
    local ours = not lease or sub(lease, 1, 8) == daemon or unpack_bytes('<I8', lease, 9) <= now
    if span == 0 then
        if ours then call('HDEL', hash, 'jl', 'jb') end
        return { header(OK, 0, 0, 0, now, 0, 0), identity or '', '' }
    end
    if not identity then
        identity = ARGV[4]
        call('HSET', hash, 'jq', identity)
    end
    if ours then
        lease = daemon .. pack('<I8', now + span) .. ARGV[5]
        call('HSET', hash, 'jl', lease)
        if ARGV[6] == 'r' then
            call('HSET', hash, 'jb', pack('<I8', now + span))
        else
            call('HDEL', hash, 'jb')
        end
    end
    return { header(OK, ours and 1 or 0, 0, 0, now, 0, 0), identity, sub(lease, 17) }
end

local field = call('HGET', hash, 'j')
if not field then return { header(OK, 0, 0, 0, now, 0, 0), '' } end
local from, below, most = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local known = ARGV[6]
local last, bytes = unpack_bytes('<I8I8', field)
local function remove_entries()
    local first = call('ZRANGEBYLEX', order, '[j', '(k', 'LIMIT', DROPPED, 1)[1]
    call('ZREMRANGEBYLEX', order, '[j', first and '(' .. sub(first, 1, 9) or '(k')
    return { header(OK, 2, first and MORE or 0, 0, now, 0, last), field }
end
if sub(field, 33) == 'x' then return remove_entries() end
local function entry_at(number)
    return call('ZRANGEBYLEX', order, '[j' .. pack('>I8', number),
        '(j' .. pack('>I8', number + 1), 'LIMIT', 0, 1)[1]
end
-- Entries are removed only if the reader has read this very history: after a failover the same
-- numbers may be other changes, which MySQL does not have.
if below > 0 and known ~= '' then
    local anchor = entry_at(from)
    local kept = anchor and sub(anchor, 1, HEAD) == known and entry_at(below)
    if kept then
        call('ZREMRANGEBYLEX', order, '[j', '(j' .. pack('>I8', below))
        local oldest = entry_at(below + 1)
        field = pack('<I8I8', last, bytes) .. sub(kept, 10, 17) .. sub(field, 25, 33) ..
            pack('<I8', oldest and unpack_bytes('<I7', oldest, 18) or 0) .. sub(field, 42)
        call('HSET', hash, 'j', field)
    end
end
-- The same check as in entry.lua: without it the journal would not be given up while nothing
-- changes.
local taken, limit = unpack_bytes('<I8I8', field, 17)
local since, span = unpack_bytes('<I8I8', field, 34)
local late = since > 0 and span > 0 and now - since > span
if late and byte(field, 33) == 100 then -- 100: d
    field = sub(field, 1, 32) .. 'x'
    call('HSET', hash, 'j', field)
    call('HDEL', hash, 'jr') -- jobs that end from now on leave no members
    return remove_entries()
end
local refuses = byte(field, 33) == 114 and (late or bytes - taken >= limit) -- 114: r
local state = refuses and 3 or 1
if most == 0 then
    local firsts = call('ZRANGEBYLEX', order, '[j', '(k', 'LIMIT', 0, 2)
    local count, first = call('ZLEXCOUNT', order, '[j', '(k'), firsts[1]
    if first and unpack_bytes('<I8', first, 10) <= taken then -- taken: it is kept for comparison
        count, first = count - 1, firsts[2]
    end
    return { header(OK, state, 0, count, now, first and unpack_bytes('<I7', first, 18) or 0, last), field }
end
local entries, count, size, next_one, more = {}, 0, 0, from, true
while more and count < most and size < ANSWER_BYTES do
    local some = call('ZRANGEBYLEX', order, next_one > 0 and '[j' .. pack('>I8', next_one) or '[j',
        '(k', 'LIMIT', 0, READ_AT_ONCE)
    more = #some == READ_AT_ONCE
    for i = 1, #some do
        if count == most or size >= ANSWER_BYTES then
            more = true
            break
        end
        local entry = some[i]
        next_one = unpack_bytes('>I8', entry, 2) + 1
        if count > 0 or from == 0 then
            size = size + #entry
        elseif sub(entry, 1, HEAD) == known then
            entry = ''
        end
        count = count + 1
        entries[count] = entry
    end
end
return { header(OK, state, more and MORE or 0, count, now, 0, last), field, unpack(entries) }
