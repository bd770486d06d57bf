-- The journal's entries (entry.lua) are taken, by one daemon at a time. ARGV: 2 what: l it is, or
-- wants to be, the one, r it reads a partition's.
-- l, in partition 0: 3 for how long (0: it is no more), 4 an identity for the queue, if it has none,
-- 5 how people know it, 6 r if it has seen that pushes are refused: heartbeat.lua tells all. Answer:
-- {it, the queue's identity, how people know the one}; state: 1 it is the one.
-- r: 3 the last entry that it has read, 0: none, 4 up to which one all before may go, 0: none, 5 how
-- many at most, 0: only the field, 6 the first HEAD bytes of the last one that it has read, '': it
-- does not know them, and nothing goes. Answer: {it, the field, entry, …}, the one that it has read first, if it is
-- there: so it knows that these are the ones that follow it; '' stands for one that begins so, as it
-- may be long, and is asked for again and again. More; count: entries, without any of them how
-- many wait, and next: when the first of these was; state: 0 there is no journal here, 1 there is, 2 it was given up: then its
-- entries go, 3 there is, and pushes are refused. Nothing that it says is believed of what MySQL
-- has: there, two that both take themselves for the one cannot write both.
local DROPPED = 1000 -- entries of a journal that was given up, in one call
local HEAD = 25
local LOOK_AT = 8 -- entries looked at together: each may have a body
local ANSWER_BYTES = 262144 -- beyond them no more entries follow
local now, what = clock(), ARGV[2]
if call('HEXISTS', hash, 'p') == 0 then return redis.error_reply(CLOSED) end
even_if_full()

if what == 'l' then
    local daemon, found = sub(slot, 2, 9), call('HMGET', hash, 'jl', 'jq')
    local span, identity, lease = tonumber(ARGV[3]), found[2], found[1]
    local ours = not lease or sub(lease, 1, 8) == daemon or unpack_bytes('<I8', lease, 9) <= now
    if span == 0 then
        if ours then call('HDEL', hash, 'jl', 'jb') end
        return { say(OK, 0, 0, 0, now, 0, 0), identity or '', '' }
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
    return { say(OK, ours and 1 or 0, 0, 0, now, 0, 0), identity, sub(lease, 17) }
end

local field = call('HGET', hash, 'j')
if not field then return { say(OK, 0, 0, 0, now, 0, 0), '' } end
local from, below, most = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local known = ARGV[6]
local last, bytes = unpack_bytes('<I8I8', field)
local function give_up()
    local first = call('ZRANGEBYLEX', order, '[j', '(k', 'LIMIT', DROPPED, 1)[1]
    call('ZREMRANGEBYLEX', order, '[j', first and '(' .. sub(first, 1, 9) or '(k')
    return { say(OK, 2, first and MORE or 0, 0, now, 0, last), field }
end
if sub(field, 33) == 'x' then return give_up() end
local function entry_at(number)
    return call('ZRANGEBYLEX', order, '[j' .. pack('>I8', number),
        '(j' .. pack('>I8', number + 1), 'LIMIT', 0, 1)[1]
end
-- Only of the history that was read: after a failover the same numbers are other changes, which
-- MySQL does not have.
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
-- As entry.lua has it: so it is given up, too, where nothing changes any more.
local taken, limit = unpack_bytes('<I8I8', field, 17)
local since, span = unpack_bytes('<I8I8', field, 34)
local late = since > 0 and span > 0 and now - since > span
if late and byte(field, 33) == 100 then -- 100: d
    field = sub(field, 1, 32) .. 'x'
    call('HSET', hash, 'j', field)
    call('HDEL', hash, 'jr') -- what ends from now on leaves nothing
    return give_up()
end
local refuses = byte(field, 33) == 114 and (late or bytes - taken >= limit) -- 114: r
local state = refuses and 3 or 1
if most == 0 then
    local firsts = call('ZRANGEBYLEX', order, '[j', '(k', 'LIMIT', 0, 2)
    local count, first = call('ZLEXCOUNT', order, '[j', '(k'), firsts[1]
    if first and unpack_bytes('<I8', first, 10) <= taken then -- MySQL has it: it is kept to compare
        count, first = count - 1, firsts[2]
    end
    return { say(OK, state, 0, count, now, first and unpack_bytes('<I7', first, 18) or 0, last), field }
end
local entries, count, size, next_one, more = {}, 0, 0, from, true
while more and count < most and size < ANSWER_BYTES do
    local some = call('ZRANGEBYLEX', order, next_one > 0 and '[j' .. pack('>I8', next_one) or '[j',
        '(k', 'LIMIT', 0, LOOK_AT)
    more = #some == LOOK_AT
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
return { say(OK, state, more and MORE or 0, count, now, 0, last), field, unpack(entries) }
