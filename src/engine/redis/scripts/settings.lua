-- Settings of topics, in partition 0 only, in a hash of their own beside the buckets: 't' and the
-- topic: version (8 bytes), settings; '!': how many changes there were, and the last version (8
-- bytes each); 'c' and a place (2): the last CHANGES changes, one each: its count (8), topic. The
-- hash is there from the first settings on. Both counts begin by the clock and only grow, so where
-- the hash was lost or restored they go on above what daemons have seen.
-- ARGV: 2 what: c change a topic's settings, f what has changed, l go through all.
-- c: 3 topic, 4 the version that there must be ('' any, 0 none), 5 settings ('' none), 6 most topics
-- (0: any), 7 x the topic goes, too, if it holds nothing here. Answer: {it}: seq the version now, 0
-- none; next_us the last version. VERSION: seq is another.
-- f: 3 the changes that the caller knows. Answer: {it, topic, version and settings or '', …}: seq up
-- to which change; more. INVALID: go through all.
-- l: 3 where to go on ('0' from the start). Answer: {it, where to go on, topic, version and
-- settings, …}: seq the changes there were; more. Of both: next_us the last version.
local CHANGES, AT_ONCE = 512, 20
local key, what = sub(hash, 1, -2) .. 's', ARGV[2]
local first = what == 'c' and answered()
if first then return { first } end
local now, state = clock(), call('HGET', key, '!')
-- It may be on its way here, or the partition is not opened yet.
if importing and not state then error(MISSING) end
if call('HEXISTS', hash, 'p') == 0 then return redis.error_reply(CLOSED) end
local index, version = 0, 0
if state then index, version = unpack_bytes('<I8I8', state) end

local function change_of(number)
    return 'c' .. pack('>I2', number % CHANGES)
end

if what == 'f' then
    local from, fields, topics, seen = tonumber(ARGV[3]), {}, {}, {}
    local upto = math.min(index, from + AT_ONCE)
    if from > index or index - from > CHANGES then
        return { say(INVALID, 0, 0, 0, now, version, index) }
    end
    for number = from + 1, upto do fields[#fields + 1] = change_of(number) end
    local found = #fields > 0 and call('HMGET', key, unpack(fields)) or {}
    for i = 1, #fields do
        if not found[i] or unpack_bytes('<I8', found[i]) ~= from + i then
            return { say(INVALID, 0, 0, 0, now, version, index) }
        end
        local field = 't' .. sub(found[i], 9)
        if not seen[field] then topics[#topics + 1], seen[field] = field, true end
    end
    found = #topics > 0 and call('HMGET', key, unpack(topics)) or {}
    local parts = { say(OK, 0, upto < index and MORE or 0, #topics, now, version, upto) }
    for i = 1, #topics do
        parts[2 * i], parts[2 * i + 1] = sub(topics[i], 2), found[i] or ''
    end
    return parts
elseif what == 'l' then
    local scanned = call('HSCAN', key, ARGV[3], 'COUNT', AT_ONCE)
    local parts = { '', scanned[1] }
    for i = 1, #scanned[2], 2 do
        if sub(scanned[2][i], 1, 1) == 't' then
            parts[#parts + 1], parts[#parts + 2] = sub(scanned[2][i], 2), scanned[2][i + 1]
        end
    end
    parts[1] = say(OK, 0, scanned[1] ~= '0' and MORE or 0, #parts / 2 - 1, now, version, index)
    return parts
end

local topic, wanted, new, field = ARGV[3], ARGV[4], ARGV[5], 't' .. ARGV[3]
local old = call('HGET', key, field)
local is = old and unpack_bytes('<I8', old) or 0
if wanted ~= '' and tonumber(wanted) ~= is then
    return { say(VERSION, 0, 0, 0, now, version, is) }
end
if new ~= '' and not call('ZSCORE', order, 't' .. topic) then
    if not room_for_topic(tonumber(ARGV[6]), now) then
        return { say(TOPICS_LIMIT, 0, 0, 0, now, version, is) }
    end
    call('ZADD', order, 0, 't' .. topic)
end
if new == '' then even_if_full() end
if old or new ~= '' then
    index = math.max(index, state and 0 or math.floor(now / 1000)) + 1
    version = math.max(version + 1, now)
    local counts = pack('<I8I8', index, version)
    local change = pack('<I8', index) .. topic
    if new ~= '' then
        call('HSET', key, '!', counts, change_of(index), change, field, pack('<I8', version) .. new)
        call('HSET', hash, '#c' .. topic, 1)
        is = version
    else
        call('HSET', key, '!', counts, change_of(index), change)
        call('HDEL', key, field)
        call('HDEL', hash, '#c' .. topic)
        is = 0
    end
end
if ARGV[7] == 'x' and call('ZSCORE', order, 't' .. topic) then
    local jobs, pause = jobs_in(topic)
    if jobs <= 0 and pause <= now then forget_topic(topic) end
end
return { keep('', say(OK, 0, 0, 0, now, version, is))[1] }
