-- Settings of topics: changes them, returns what has changed, or lists them. They are stored in
-- partition 0 only, in a hash of its own, which exists from the first change on. Its fields: 't'
-- and a topic -> version (8 bytes), settings; '!' -> number of the last change, last version (8
-- bytes each); 'c' and a place (2 bytes) -> the last CHANGES changes, one each: its number (8
-- bytes), topic. A version is never below the clock, so versions grow even if the hash was lost or
-- restored from a backup. Numbers of changes start at the clock (milliseconds) when the hash is
-- created. After a restore from a backup they may be below what a daemon knows: it gets INVALID.
--
-- ARGV:
--   2  'c' change a topic's settings, 'f' return changes, 'l' list all settings
-- 'c': 3 topic; 4 the version that the settings must have, '' any, 0 none; 5 new settings, ''
--   remove them; 6 the most topics in this partition, 0 no limit; 7 'x' also remove the topic if it
--   has no jobs here and is not paused. Returns {header}. seq: the version now, 0 without settings;
--   next_us: the last version. Errors: VERSION (seq: the version that it has), TOPICS_LIMIT.
--   Idempotent: the answer is stored.
-- 'f': 3 number of the last change that the caller knows. Returns {header, topic, version and
--   settings or '', ...}. seq: up to which change; next_us: the last version; MORE: call again from
--   seq on. Error INVALID: these changes are not stored any more, list all settings.
-- 'l': 3 where to continue, '0' at the start. Returns {header, where to continue, topic, version
--   and settings, ...}. seq: number of the last change; next_us: the last version; MORE: call
--   again.
-- Cost: 'c' O(log n), and up to 64 topics are checked if a new one would exceed the limit; 'f' and
-- 'l' about AT_ONCE topics.
local CHANGES, AT_ONCE = 512, 20
local key, what = sub(hash, 1, -2) .. 's', ARGV[2]
local stored = what == 'c' and stored_answer()
if stored then return { stored } end
local now, state = clock(), call('HGET', key, '!')
-- The hash may not have arrived yet, while the slot is being moved here. Otherwise the partition may
-- not be open yet.
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
        return { header(INVALID, 0, 0, 0, now, version, index) }
    end
    for number = from + 1, upto do fields[#fields + 1] = change_of(number) end
    local found = #fields > 0 and call('HMGET', key, unpack(fields)) or {}
    for i = 1, #fields do
        if not found[i] or unpack_bytes('<I8', found[i]) ~= from + i then
            return { header(INVALID, 0, 0, 0, now, version, index) }
        end
        local field = 't' .. sub(found[i], 9)
        if not seen[field] then topics[#topics + 1], seen[field] = field, true end
    end
    found = #topics > 0 and call('HMGET', key, unpack(topics)) or {}
    local parts = { header(OK, 0, upto < index and MORE or 0, #topics, now, version, upto) }
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
    parts[1] = header(OK, 0, scanned[1] ~= '0' and MORE or 0, #parts / 2 - 1, now, version, index)
    return parts
end

local topic, wanted, new, field = ARGV[3], ARGV[4], ARGV[5], 't' .. ARGV[3]
local old = call('HGET', key, field)
local is = old and unpack_bytes('<I8', old) or 0
if wanted ~= '' and tonumber(wanted) ~= is then
    return { refusal(header(VERSION, 0, 0, 0, now, version, is))[1] }
end
if new ~= '' and not call('ZSCORE', order, 't' .. topic) then
    if not room_for_topic(tonumber(ARGV[6]), now) then
        return { refusal(header(TOPICS_LIMIT, 0, 0, 0, now, version, is))[1] }
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
    if jobs <= 0 and pause <= now then delete_topic(topic) end
end
return { store_answer('', header(OK, 0, 0, 0, now, version, is))[1] }
