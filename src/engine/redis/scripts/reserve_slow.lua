-- The body of slow_path() in reserve.lua: one reserve, in all cases that the fast path does not handle.
-- KEYS, ARGV and the returned value are those of reserve.lua for one request. Jobs are read and written
-- by functions that job_functions() returns, which is reserve_jobs.lua: an idle poll needs none.
-- Cost: for t topics and up to k jobs O(t log n + t k log(t k)).
local PAST = '\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255'
local NONE = '\255\255\255\255\255\255\255\255\255\255\255\255\0'
local UNSEEN = '\255\255\255\255\255\255\255\255\255\255\255\254\0'
local listed = string.find(ARGV[2], 'l', 1, true)
local bound = string.find(ARGV[2], 'b', 1, true)
local waits = string.find(ARGV[2], 'w', 1, true)
local wait = waits or string.find(ARGV[2], 'h', 1, true)
local most, most_bytes = tonumber(ARGV[3]), tonumber(ARGV[4])
local now = clock()

local function reply(jobs, flags, next_us, firsts, left)
    local parts = { header(#jobs > 0 and OK or EMPTY, 0, flags, #jobs, now, next_us, left), unpack(jobs) }
    parts[#parts + 1] = firsts
    return parts
end

-- A repetition.
local stored = stored_answer()
if stored then return reply(job_functions().still_held(stored), MORE, FOREVER, '', 0) end

local fields, topics, seen = { 'p' }, {}, {}
for i = 5, #ARGV do
    local topic = ARGV[i]
    if not seen[topic] then
        local at = #fields
        seen[topic], topics[#topics + 1] = true, topic
        fields[at + 1], fields[at + 2] = '#u' .. topic, '#r' .. topic
        fields[at + 3], fields[at + 4] = '#h' .. topic, '#w' .. topic
    end
end
local found = {}
for from = 1, #fields, 1000 do -- a call takes no more than some thousand arguments
    local some = call('HMGET', hash, unpack(fields, from, math.min(#fields, from + 999)))
    for i = 1, #some do found[from - 1 + i] = some[i] end
end
if not found[1] then return redis.error_reply(CLOSED) end
local last, pushed, partitions, promote_at = unpack_bytes('<I8I8I8I7', found[1])
local next_us = FOREVER

-- Candidates: the first ready jobs of each topic that is not paused, in the order in which they are
-- taken, and one more of each topic (of a single topic CLOSE_JOBS_MAX more): the first that are left.
local candidates, first_of, may_have_more = {}, {}, {}
local extra = #topics == 1 and CLOSE_JOBS_MAX or 1
for i = 1, #topics do
    local pause = tonumber(found[4 * i - 2] or 0)
    if pause > now then
        next_us = pause < next_us and pause or next_us
    elseif listed and most > 0 and #candidates >= most then
        first_of[topics[i]] = UNSEEN
    else
        local key = 'r' .. char(#topics[i]) .. topics[i]
        local limit = (listed and most > 0 and most - #candidates or most) + extra
        local ready = call('ZRANGEBYLEX', order, '[' .. key, '(' .. key .. PAST, 'LIMIT', 0, limit)
        for at = 1, #ready do candidates[#candidates + 1] = ready[at] end
        may_have_more[topics[i]] = #ready == limit
    end
end
if not listed and #topics > 1 and #candidates > 1 then
    local keys = {}
    for i = 1, #candidates do
        keys[i] = { candidates[i], unpack_bytes('>I4I8I8', candidates[i], #candidates[i] - 19) }
    end
    table.sort(keys, function(a, b)
        if a[2] ~= b[2] then return a[2] < b[2] end
        if a[3] ~= b[3] then return a[3] < b[3] end
        return a[4] < b[4]
    end)
    for i = 1, #candidates do candidates[i] = keys[i][1] end
end

-- Calls with at most 1000 arguments: see above.
local function call_in_chunks(name, key, list)
    for from = 1, #list, 1000 do
        call(name, key, unpack(list, from, math.min(#list, from + 999)))
    end
end
local bodies, at, bytes, soonest, taken, reservations = {}, 1, 0, FOREVER, {}, ''
if #candidates > 0 and most > 0 and most_bytes > 0 then
    bodies, at, bytes, last, soonest, taken, reservations =
        job_functions().take(candidates, most, most_bytes, now, last, partitions, call_in_chunks)
elseif wait or again and most > 0 then
    even_if_full()
end
local count, sets, daemon = #bodies, {}, sub(slot, 2, 9)
-- As refusal() in job.lua: what was sent first may come late, when there are jobs that nobody awaits.
local keeps_nothing = again and most > 0 and count == 0
for i = at, #candidates do
    local topic = sub(candidates[i], 3, 2 + byte(candidates[i], 2))
    first_of[topic] = first_of[topic] or sub(candidates[i], -20, -9) ..
        char(#topics == 1 and close_jobs(candidates, at, CLOSE_JOBS_MAX) or 0)
end
-- Nothing is left of what was read of a topic, though that was more than are taken: some were lost
-- with their buckets, and behind them may be others.
for i = 1, #topics do
    if may_have_more[topics[i]] and not first_of[topics[i]] then
        local key = 'r' .. char(#topics[i]) .. topics[i]
        local left = call('ZRANGEBYLEX', order, '[' .. key, '(' .. key .. PAST, 'LIMIT', 0, extra)
        first_of[topics[i]] = left[1] and sub(left[1], -20, -9) ..
            char(#topics == 1 and close_jobs(left, 1, CLOSE_JOBS_MAX) or 0)
    end
end
local flags = next(first_of) and MORE or 0
-- A topic that never had a job gets no mark: all daemons are notified of its first job. So
-- there are at most as many marks as topics, and a mark is deleted with its topic.
if wait and (most == 0 or count < most and bytes < most_bytes) then
    local shared = false
    for i = 1, #topics do
        local n, mark = #sets, found[4 * i + 1]
        if not first_of[topics[i]] and (mark or call('HEXISTS', hash, '#p' .. topics[i]) == 1) then
            local others
            sets[n + 1] = '#w' .. topics[i]
            sets[n + 2], others = with_mark(mark, daemon, request, waits)
            shared = shared or others
        end
    end
    flags = flags + (shared and MARKED + SHARED or MARKED)
end
if string.find(ARGV[2], 'p', 1, true) then -- notifies the next daemon that waits
    even_if_full()
    for i = 1, #topics do
        local mark, from = first_of[topics[i]] and found[4 * i + 1], 2
        while mark and from < #mark do
            if sub(mark, from, from + 7) == daemon then
                mark = sub(mark, 1, from - 1) .. sub(mark, from + 16)
            else
                from = from + 16
            end
        end
        if mark then notify_marked(hash, topics[i], mark) end
    end
end
if count > 0 and bound then
    call('ZADD', order, 0, 'd' .. daemon) -- another daemon may have removed this one as dead
end
if count > 0 then
    for i = 1, #topics do
        local of, n = taken[topics[i]], #sets
        if of then
            sets[n + 1], sets[n + 2] = '#r' .. topics[i], (found[4 * i - 1] or 0) + of
            sets[n + 3], sets[n + 4] = '#h' .. topics[i], (found[4 * i] or 0) + of
        end
    end
    local n, sooner = #sets, soonest < promote_at
    if sooner then promote_at = soonest end
    sets[n + 1], sets[n + 2] = 'p', pack('<I8I8I8I7', last, pushed, partitions, promote_at)
    sets[n + 3], sets[n + 4] = slot, request .. reservations
    if sooner then publish(string.format('w%.0f %.0f', last % partitions, promote_at)) end
end
if keeps_nothing then sets[#sets + 1], sets[#sets + 2] = slot, request end
call_in_chunks('HSET', hash, sets)
local left = 0
for i = 1, string.find(ARGV[2], 'n', 1, true) and #topics or 0 do
    if first_of[topics[i]] then
        local key = 'r' .. char(#topics[i]) .. topics[i]
        left = left + call('ZLEXCOUNT', order, '[' .. key, '(' .. key .. PAST)
    end
end
local firsts = {}
for i = 5, #ARGV do firsts[i - 4] = first_of[ARGV[i]] or NONE end
return reply(bodies, flags, next_us, table.concat(firsts), left)
