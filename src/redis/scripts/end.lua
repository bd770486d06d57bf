-- Finish (ARGV[2] f) and delete (d). ARGV: 3 id or '', 4 number (8 bytes), 5 lease, 6 options: d
-- its work is done, f only if nobody has it reserved. Answer: {it, the head as it last was}. Here
-- is the common case, a reserved job that is finished; the others are in end_other.lua, behind
-- job.lua.
local first = answered()
if first then return { sub(first, 1, 32), sub(first, 33) } end
local name = ARGV[4]
if ARGV[3] ~= '' then name = call('HGET', hash, 'i' .. ARGV[3]) end
local raw = name and call('HGET', hash, 'j' .. name)
if not raw then return { say(NOT_FOUND, 0, 0, 0, 0, 0, 0) } end
local state, flags, _, _, lease = unpack_bytes('<BBHI8I8', raw)
if ARGV[2] == 'f' and state == RESERVED and flags % 2 == 0 and
    (ARGV[5] == '0' or lease == tonumber(ARGV[5])) then
    local id_len, priority, _, due, seq, created, _, topic_len =
        unpack_bytes('<BI4I4I8I8I8I8B', raw, 40)
    local topic = sub(raw, 97, 96 + topic_len)
    local rank = flags >= ARRIVAL and created or due
    local answer = say(OK, RESERVED, 0, 1, 0, 0, seq)
    call('ZREM', reserved, char(topic_len) .. topic .. pack('>I4I8', priority, rank) .. name)
    if id_len > 0 then
        call('HDEL', hash, 'j' .. name, 'b' .. name,
            'i' .. sub(raw, 97 + topic_len, 96 + topic_len + id_len))
    else
        call('HDEL', hash, 'j' .. name, 'b' .. name)
    end
    call('HINCRBY', hash, 'g', 1)
    call('HINCRBY', hash, '#h' .. topic, -1)
    call('HINCRBY', hash, '#f' .. topic, 1)
    call('HSET', hash, slot, request .. answer .. raw)
    return { answer, raw }
end
