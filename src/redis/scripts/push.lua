-- Push. ARGV: 2 head (its number, created and delay are ours to fill in), 3 content type and body, 4 topic,
-- 5 priority (4 bytes, big-endian), 6 due, 7 id or '', 8 if it exists (j reject, p replace, k keep)
-- and order (d due, a arrival, b buried), 9 and 10 most jobs and topics (0: any; may be missing).
-- Answer: {it, head}. The answer kept is without the head: a request sent again brings it along.
local raw, content, topic, due, id = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[6]), ARGV[7]
local exists, ranks = sub(ARGV[8], 1, 1), sub(ARGV[8], 2)

local first = answered()
if first then
    local _, _, flags, _, _, now, _, seq = unpack_bytes('<BBBBI4I8I8I8', first)
    return { first, sub(raw, 1, 56) .. pack('<I8I8', seq, now) .. sub(raw, 73) }
end
local now = clock()
local fields = { 'n', 'P', 'w', 'N', '#p' .. topic, '#w' .. topic }
if id ~= '' then fields[7] = 'i' .. id end
local found = call('HMGET', hash, unpack(fields))
local last, partitions, pushed, flags = tonumber(found[1]), found[2], found[5], 0
if not last then return redis.error_reply(closed) end

local old = id ~= '' and found[7] and call('HGET', hash, 'j' .. found[7])
if old and exists == 'j' then
    return { say(EXISTS, 0, 0, 0, now, 0, 0) }
elseif old and exists == 'k' then
    local job = read(old)
    return { say(OK, shown(job, now), KEPT, 1, now, 0, job.seq), old }
end
if not old and ARGV[9] and ARGV[9] ~= '0' and tonumber(found[4]) >= tonumber(ARGV[9]) then
    return { say(JOBS_LIMIT, 0, 0, 0, now, 0, 0) }
end
if not pushed then
    if ARGV[10] and ARGV[10] ~= '0' and not call('ZSCORE', order, 't' .. topic) and
        call('ZLEXCOUNT', order, '[t', '(u') >= tonumber(ARGV[10]) then
        return { say(TOPICS_LIMIT, 0, 0, 0, now, 0, 0) }
    end
    call('ZADD', order, 0, 't' .. topic)
end
local live = found[4] + 1
if old then
    local job = read(old)
    lift(job)
    drop(job)
    call('HINCRBY', hash, '#x' .. job.topic, 1)
    flags, live = REPLACED, live - 1
end

local seq = number_after(last, partitions, now)
local name = pack('>I8', seq)
local delay_s = due > now and math.min(math.ceil((due - now) / 1000000), 4294967295) or 0
raw = sub(raw, 1, 20) .. pack('<I4', delay_s) .. sub(raw, 25, 56) .. pack('<I8I8', seq, now) ..
    sub(raw, 73)
local answer, rank = nil, due
if ranks == 'a' then rank = now end
local spot = char(#topic) .. topic .. ARGV[5] .. pack('>I8', rank) .. name
if ranks == 'b' then
    local job = read(raw)
    job.till, job.state = now, BURIED
    raw = head_of(job)
    call('ZADD', order, 0, buried_place(job))
    answer = say(OK, 4, flags, 1, now, 0, seq)
elseif due <= now then
    call('ZADD', order, 0, 'r' .. spot)
    answer = say(OK, 2, flags, 1, now, 0, seq)
    if found[6] then tell_ready(topic) end
else
    call('ZADD', delayed, due, spot)
    answer = say(OK, 1, flags, 1, now, 0, seq)
    if due < tonumber(found[3]) then tell_due(due) end
end
if id ~= '' then
    call('HSET', hash, 'n', seq, 'N', live, '#p' .. topic, (pushed or 0) + 1, 'j' .. name, raw,
        'b' .. name, content, slot, request .. answer, 'i' .. id, name)
else
    call('HSET', hash, 'n', seq, 'N', live, '#p' .. topic, (pushed or 0) + 1, 'j' .. name, raw,
        'b' .. name, content, slot, request .. answer)
end
return { answer, raw }
