-- Finish (ARGV[2] f) and delete (d). ARGV: 3 id or '', 4 number (8 bytes), 5 lease, 6 options: d
-- its work is done, f only if nobody has it reserved. Answer: {it, the head as it last was}. Here
-- is the common case, a reserved job that ends, before anything is made that it does not need; the
-- others are in end_other.lua, behind job.lua.
local call, sub, unpack_bytes = redis.call, string.sub, struct.unpack
local hash, name, raw = KEYS[1], ARGV[4], nil
if string.byte(ARGV[1]) == 48 then -- it is not sent again
    if ARGV[3] ~= '' then name = call('HGET', hash, 'i' .. ARGV[3]) end
    raw = name and call('HGET', hash, 'j' .. name)
end
if raw and (ARGV[6] == '' or ARGV[6] == 'd') then
    local state, flags, _, _, lease = unpack_bytes(HEAD.STATE_TO_LEASE, raw)
    if state == 3 and (ARGV[5] == '0' or lease == tonumber(ARGV[5])) then
        local id_len, priority, _, due, _, created, _, topic_len =
            unpack_bytes(HEAD.ID_LEN_TO_TOPIC_LEN, raw, HEAD.ID_LEN)
        local topic = sub(raw, HEAD.TOPIC, HEAD.BYTES + topic_len)
        local rank = flags >= 2 and created or due
        -- As say() has it, with the number as it lies in the head.
        local answer = '\0\3\0\0\1\0\0\0\0\0\0\0\0\0\0\0' .. sub(raw, HEAD.SEQ, HEAD.SEQ_END) ..
            '\0\0\0\0\0\0\0\0'
        local held, ended = '#h' .. topic, '#f' .. topic
        if ARGV[2] == 'd' and ARGV[6] == '' then ended = '#d' .. topic end
        call('ZREM', KEYS[3], sub(raw, HEAD.TOPIC_LEN, HEAD.TOPIC_LEN) .. topic ..
            struct.pack('>I4I8', priority, rank) .. name)
        if flags % 2 == 1 then
            call('ZREM', KEYS[4], 'h' .. sub(raw, HEAD.HOLDER, HEAD.HOLDER_END) .. name)
        end
        if id_len > 0 then
            call('HDEL', hash, 'j' .. name, 'b' .. name,
                'i' .. sub(raw, HEAD.TOPIC + topic_len, HEAD.BYTES + topic_len + id_len))
        else
            call('HDEL', hash, 'j' .. name, 'b' .. name)
        end
        local counts = call('HMGET', hash, 'g', held, ended)
        call('HSET', hash, 'g', (counts[1] or 0) + 1, held, (counts[2] or 1) - 1,
            ended, (counts[3] or 0) + 1, sub(ARGV[1], 2, 12), sub(ARGV[1], 13) .. answer .. raw)
        return { answer, raw }
    end
end
