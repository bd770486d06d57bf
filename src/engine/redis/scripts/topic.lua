-- Pauses, resumes, removes or shows a topic, or lists topics. Idempotent: answers to changes are
-- stored.
--
-- ARGV:
--   2  'p' pause, 'u' resume, 'x' remove, 't' show one, 'l' list
--   3  the topic; of 'l': topics after this name
--   4  of 'p': the end of the pause; of 'l': the most topics
--   5  of 'p': the most topics in this partition; 0 no limit
--   6  of 'l', 'd': also when jobs become due; of 'p' and 'u', 'u': only if the topic has jobs or is
--      paused; of 'p', 'e': only if the topic exists
-- Returns {header} for changes; of 'x', MORE: the topic still has jobs. Else {header, topic,
-- numbers, ...}. `numbers`: 18 of 8 bytes: ready jobs, those with priority below 1024, buried jobs,
-- due time of the first ready job (0: none), the fields of LETTERS (reserved now; totals of pushed,
-- reserved, finished, deleted, replaced, timed out, released, buried, kicked; pauses; end and
-- length of the pause), when the first delayed job is due (0: none, or 'l' without 'd'). Of 'l',
-- MORE: there are more topics; with 'd', one more string at the end: how many jobs of these topics
-- fall due within each of SPANS (8 bytes each). Errors: NOT_FOUND, TOPICS_LIMIT.
-- Cost: O(log n) for each topic shown; a pause that makes a topic checks up to 64 others
-- (room.lua).
local what, topic, now = ARGV[2], ARGV[3], clock()
local SPANS = { 60, 300, 3600, 86400 } -- seconds; engine_stats::due_within has these
local LETTERS = { 'h', 'p', 'r', 'f', 'd', 'x', 't', 'l', 'b', 'k', 'z', 'u', 's' }

local due_within = { 0, 0, 0, 0 }

-- When the topic's first delayed job is due; 0: it has none, or that was not asked for.
local function first_due(key)
    if what == 'l' and ARGV[6] ~= 'd' then return 0 end
    local first = call('ZRANGEBYLEX', order, '[w' .. key, '(w' .. key .. '\255', 'LIMIT', 0, 1)[1]
    if not first then return 0 end
    local due = unpack_bytes('>I8', first, #key + 2)
    for i = 1, ARGV[6] == 'd' and #SPANS or 0 do
        local till = now + SPANS[i] * 1000000
        if due <= till then
            due_within[i] = due_within[i] + call('ZLEXCOUNT', order, '[w' .. key,
                '(w' .. key .. pack('>I8', till + 1))
        end
    end
    return due
end

local function show(name)
    local key, fields = char(#name) .. name, {}
    local below, last = '(r' .. key .. pack('>I4', 1024), '(r' .. key .. string.rep('\255', 21)
    local ready = call('ZLEXCOUNT', order, '[r' .. key, last)
    local urgent = ready > 0 and call('ZLEXCOUNT', order, '[r' .. key, below) or 0
    local buried = call('ZLEXCOUNT', order, '[b' .. key, '(b' .. key .. string.rep('\255', 17))
    for i = 1, #LETTERS do fields[i] = '#' .. LETTERS[i] .. name end
    local found = call('HMGET', hash, unpack(fields))
    for i = 1, #LETTERS do found[i] = pack('<I8', tonumber(found[i] or 0)) end
    local oldest = 0
    if ready > 0 then
        local head = call('ZRANGEBYLEX', order, '[r' .. key, last, 'LIMIT', 0, 1)[1]
        local job = try_fetch(sub(head, -8))
        oldest = job and job.due or 0
    end
    return pack('<I8I8I8I8', ready, urgent, buried, oldest) .. table.concat(found) ..
        pack('<I8', first_due(key))
end

if what == 'l' then
    local parts, most = { '' }, tonumber(ARGV[4])
    local from = topic == '' and '[t' or '(t' .. topic
    local names = call('ZRANGEBYLEX', order, from, '(u', 'LIMIT', 0, most + 1)
    for i = 1, math.min(#names, most) do
        local name = sub(names[i], 2)
        parts[2 * i], parts[2 * i + 1] = name, show(name)
    end
    local count = math.min(#names, most)
    parts[1] = header(OK, 0, #names > most and MORE or 0, count, now, 0, 0)
    if ARGV[6] == 'd' then
        parts[#parts + 1] = pack('<I8I8I8I8', unpack(due_within))
    end
    return parts
end

local stored = stored_answer()
if stored then return { stored } end
local there = call('ZSCORE', order, 't' .. topic)
if what == 't' then
    if not there then return { header(NOT_FOUND, 0, 0, 0, now, 0, 0) } end
    return { header(OK, 0, 0, 1, now, 0, 0), topic, show(topic) }
end

local jobs, pause, configured = jobs_in(topic)
local in_use = jobs > 0 or pause > now

if (not there and (what ~= 'p' or ARGV[6] == 'e')) or (ARGV[6] == 'u' and not in_use) then
    return { refusal(header(NOT_FOUND, 0, 0, 0, now, 0, 0))[1] }
end
even_if_full() -- a pause or its end must reach all partitions, and needs a few bytes
if what == 'x' and jobs <= 0 and not configured then -- with settings, settings.lua removes it
    delete_topic(topic)
    return { store_answer('', header(OK, 0, 0, 0, now, 0, 0))[1] }
end
if not there then
    if not room_for_topic(tonumber(ARGV[5]), now) then
        return { refusal(header(TOPICS_LIMIT, 0, 0, 0, now, 0, 0))[1] }
    end
    call('ZADD', order, 0, 't' .. topic)
end
local till = what == 'p' and tonumber(ARGV[4]) or 0
if till <= now then till = 0 end -- over already
-- The length of the pause is rounded to seconds, to hide how long the request was on its way.
local seconds = math.floor((till - now) / 1000000 + 0.5)
call('HSET', hash, '#u' .. topic, till, '#s' .. topic, till > 0 and seconds * 1000000 or 0)
if what == 'p' then call('HINCRBY', hash, '#z' .. topic, 1) end
notify_all(topic) -- waiting daemons request jobs again, and receive the new end of the pause
return { store_answer('', header(OK, 0, what == 'x' and jobs > 0 and MORE or 0, 0, now, 0, 0))[1] }
