-- Push. ARGV: 2 head (its number, created and delay are ours to fill in), 3 content type and body,
-- 4 topic, 5 priority (4 bytes, big-endian), 6 due, 7 id or '', 8 if it exists (j reject, p
-- replace, k keep) and order (d due, a arrival, b buried), 9 and 10 most jobs and topics (0: any;
-- may be missing). Answer: {it, head}. The answer kept has no head: a request sent again brings it
-- along. job.lua is there only if p or b is asked for.
local raw, topic, due, id = ARGV[2], ARGV[4], tonumber(ARGV[6]), ARGV[7]
local exists, ranks = sub(ARGV[8], 1, 1), sub(ARGV[8], 2)

local first = answered()
if first then
    local _, _, _, _, _, now, _, seq = unpack_bytes('<BBBBI4I8I8I8', first)
    return { first, sub(raw, 1, 56) .. pack('<I8I8', seq, now) .. sub(raw, 73) }
end
local now, flags, old = clock(), 0, nil
local found = call('HMGET', hash, 's', '#p' .. topic, '#w' .. topic, 'i' .. id)
if not found[1] then return redis.error_reply(CLOSED) end
local last, pushed, partitions, wake = unpack_bytes('<I8I8I8I8', found[1])

if id ~= '' and found[4] then old = call('HGET', hash, 'j' .. found[4]) end
if old and exists == 'j' then
    return { say(EXISTS, 0, 0, 0, now, 0, 0) }
elseif old and exists == 'k' then
    return { say(OK, 0, KEPT, 1, now, 0, 0), old }
end
if ARGV[9] and ARGV[9] ~= '0' and not old and
    pushed - (call('HGET', hash, 'g') or 0) >= tonumber(ARGV[9]) then
    return { say(JOBS_LIMIT, 0, 0, 0, now, 0, 0) }
end
if not found[2] then -- the first job of its topic
    local most = tonumber(ARGV[10] or 0)
    if not call('ZSCORE', order, 't' .. topic) and not room_for_topic(most, now) then
        return { say(TOPICS_LIMIT, 0, 0, 0, now, 0, 0) }
    end
    call('ZADD', order, 0, 't' .. topic)
end
if old then
    local job = read(old)
    lift(job)
    drop(job)
    call('HINCRBY', hash, '#x' .. job.topic, 1)
    flags = REPLACED
    -- the old one may have been of this topic, and the last that its owner waited for
    last, pushed, partitions, wake = state_of_all()
end

local seq = number_after(last, partitions, now)
local name = pack('>I8', seq)
local state, rank, delay_s = 1, ranks == 'a' and now or due, 0
if due > now then delay_s = math.min(math.ceil((due - now) / 1000000), 4294967295) end
raw = sub(raw, 1, 44) .. pack('<I4I8I8I8', delay_s, due, seq, now) .. sub(raw, 73)
local place_at = char(#topic) .. topic .. ARGV[5] .. pack('>I8', rank) .. name
local notice
if ranks == 'b' then
    local job = read(raw)
    job.till, job.state, state = now, BURIED, 4
    raw = head_of(job)
    call('ZADD', order, '0', buried_place(job))
elseif due <= now then
    state = 2
    call('ZADD', order, '0', 'r' .. place_at)
    if found[3] then
        call('HDEL', hash, '#w' .. topic)
        notice = string.format('r%.0f ', seq % partitions) .. topic
    end
else
    call('ZADD', delayed, ARGV[6], place_at)
    if due < wake then
        wake = due
        notice = string.format('w%.0f %.0f', seq % partitions, due)
    end
end
local answer = say(OK, state, flags, 1, now, 0, seq)
local numbers = pack('<I8I8I8I8', seq, pushed + 1, partitions, wake)
if id ~= '' then
    call('HSET', hash, 's', numbers, '#p' .. topic, (found[2] or 0) + 1, 'j' .. name, raw,
        'b' .. name, ARGV[3], slot, request .. answer, 'i' .. id, name)
else
    call('HSET', hash, 's', numbers, '#p' .. topic, (found[2] or 0) + 1, 'j' .. name, raw,
        'b' .. name, ARGV[3], slot, request .. answer)
end
if notice then publish(notice) end
return { answer, raw }
