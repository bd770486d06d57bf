-- Push. ARGV: 2 and 3 the head, what comes before its number and what after its time of making;
-- 4 content type and body, 5 due, 6 the start of its place (topic's length, topic, priority, and
-- due unless a), 7 '#p' and the topic, 8 'i' and the id, or '', 9 its order (d due, a arrival) or b
-- buried, 10 if it exists (j reject, p replace, k keep), 11 and 12 most jobs and topics (0: any).
-- Answer: {it}, or {it, head} if a job of that id is kept: else the head is what was sent, with
-- number and time. Here is the common case, before anything is made that it does not need; the
-- others are in push_other.lua, behind job.lua.
local call, pack, sub, byte = redis.call, struct.pack, string.sub, string.byte
local hash, id, due = KEYS[1], ARGV[8], tonumber(ARGV[5])
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local ready, found = due <= now, nil
if ready then
    found = call('HMGET', hash, 's', ARGV[7], id, '#w' .. sub(ARGV[7], 3))
else
    found = call('HMGET', hash, 's', ARGV[7], id)
end
-- The topic is known, the id is not, nobody waits, and the request is not one that is sent again.
if found[1] and found[2] and not found[3] and not found[4] and ARGV[9] ~= 'b' and
    byte(ARGV[1]) == 48 then
    local last, pushed, partitions, wake = struct.unpack('<I8I8I8I8', found[1])
    if pushed < tonumber(ARGV[11]) and (ready or due >= wake) then
        local seq = now - now % partitions + last % partitions -- as number_after() has it
        if seq <= last then seq = last + partitions end
        local name, made = pack('>I8', seq), pack('<I8I8', seq, now)
        local numbers = pack('<I8I8I8I8', seq, pushed + 1, partitions, wake)
        local head, slot = ARGV[2] .. made .. ARGV[3], sub(ARGV[1], 2, 12)
        local place, answer = ARGV[6], nil -- answer as say() has it
        if ARGV[9] == 'a' then place = place .. pack('>I8', now) end
        if ready then
            answer = '\0\2\0\0\1\0\0\0\0\0\0\0\0\0\0\0' .. made
            call('ZADD', KEYS[4], '0', 'r' .. place .. name)
        else
            answer = '\0\1\0\0\1\0\0\0\0\0\0\0\0\0\0\0' .. made
            call('ZADD', KEYS[2], ARGV[5], place .. name)
        end
        local kept = sub(ARGV[1], 13) .. answer
        if id ~= '' then
            call('HSET', hash, 's', numbers, ARGV[7], found[2] + 1, 'j' .. name, head,
                'b' .. name, ARGV[4], slot, kept, id, name)
        else
            call('HSET', hash, 's', numbers, ARGV[7], found[2] + 1, 'j' .. name, head,
                'b' .. name, ARGV[4], slot, kept)
        end
        return answer
    end
end
