-- The body of slow_path() in reserve.lua: one reserve, in all cases that the fast path does not handle.
-- KEYS, ARGV and the returned value are those of reserve.lua for one request.
-- Cost: for t topics and up to k jobs O(t log n + t k log(t k)).
local PAST = '\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255'
local NONE = '\255\255\255\255\255\255\255\255\255\255\255\255\0'
local AT_ONCE = 32 -- jobs read together
local UNSEEN = '\255\255\255\255\255\255\255\255\255\255\255\254\0'
local listed = string.find(ARGV[2], 'l', 1, true)
local bound = string.find(ARGV[2], 'b', 1, true)
local waits = string.find(ARGV[2], 'w', 1, true)
local wait = waits or string.find(ARGV[2], 'h', 1, true)
local own_ttr = tonumber(string.match(ARGV[2], '%d+'))
local most, most_bytes = tonumber(ARGV[3]), tonumber(ARGV[4])
local now = clock()

local function reply(jobs, flags, next_us, firsts, left)
    local parts = { header(#jobs > 0 and OK or EMPTY, 0, flags, #jobs, now, next_us, left), unpack(jobs) }
    parts[#parts + 1] = firsts
    return parts
end

-- A repetition: returns those of the jobs that still have the lease of the first execution.
local stored = stored_answer()
if stored then
    local jobs = {}
    for from = 1, #stored, 16 do
        local job = fetch(sub(stored, from, from + 7))
        if job and job.lease == unpack_bytes('<I8', stored, from + 8) then
            jobs[#jobs + 1] = job_with_content(job)
        end
    end
    return reply(jobs, MORE, FOREVER, '', 0)
end

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
local candidates, first_of, extra = {}, {}, #topics == 1 and CLOSE_JOBS_MAX or 1
for i = 1, #topics do
    local pause = tonumber(found[4 * i - 2] or 0)
    if pause > now then
        next_us = pause < next_us and pause or next_us
    elseif listed and most > 0 and #candidates >= most then
        first_of[topics[i]] = UNSEEN
    else
        local key = 'r' .. char(#topics[i]) .. topics[i]
        local ready = call('ZRANGEBYLEX', order, '[' .. key, '(' .. key .. PAST,
            'LIMIT', 0, (listed and most > 0 and most - #candidates or most) + extra)
        for at = 1, #ready do candidates[#candidates + 1] = ready[at] end
    end
end
if not listed and #topics > 1 then
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

local jobs, gone, held, sets, reservations, taken, bodies, lost = {}, {}, {}, {}, {}, {}, {}, {}
local heads, heads_in, found_at = {}, {}, {} -- by bucket; the buckets; what was found, by place
local count, bytes, at, soonest, daemon = 0, 0, 1, FOREVER, sub(slot, 2, 9)

-- Reads the jobs at these places; adjacent ones of the same bucket by one command.
local function read_some(from, upto)
    while from <= upto do
        local bucket, wanted, first_of_all = byte(candidates[from], -3), {}, from
        while from <= upto and byte(candidates[from], -3) == bucket do
            local name = sub(candidates[from], -8)
            wanted[#wanted + 1], wanted[#wanted + 2] = name, '+' .. name
            from = from + 1
        end
        local known = call('HMGET', buckets .. bucket, unpack(wanted))
        local more, found_in = {}, {} -- fields with properties and notes, and their jobs
        for i = first_of_all, from - 1 do
            local place = 2 * (i - first_of_all)
            local job = known[place + 1] and
                read(wanted[place + 1], known[place + 1], known[place + 2]) or
                fetch(wanted[place + 1]) -- it is in an older layout, or lost
            found_at[i] = job
            if job and has_properties(job) then
                more[#more + 1], found_in[#found_in + 1] = '=' .. job.name, job
            end
            if job and may_have_notes(job) then
                more[#more + 1], found_in[#found_in + 1] = '-' .. job.name, job
            end
        end
        known = #more > 0 and call('HMGET', buckets .. bucket, unpack(more))
        for i = 1, #more do
            local field = byte(more[i]) == 61 and 'properties' or 'note' -- 61: =
            found_in[i][field] = known[i] or ''
        end
    end
end

while at <= #candidates and count < most and bytes < most_bytes do
    local upto = math.min(#candidates, at + math.min(AT_ONCE, most - count) - 1)
    read_some(at, upto)
    for i = at, upto do
        if bytes >= most_bytes then break end
        local candidate, job = candidates[i], found_at[i]
        at = i + 1
        gone[#gone + 1] = candidate
        if not job then -- its bucket was lost
            lost[#lost + 1] = sub(candidate, 3, 2 + byte(candidate, 2))
        else
            local bucket = byte(candidate, -3)
            job.till = now + (own_ttr or job.ttr)
            if job.till > FOREVER then job.till = FOREVER end
            if job.reserves < 65535 then job.reserves = job.reserves + 1 end
            last = number_after(last, partitions, now)
            job.head = pack(HEAD.STATE_TO_DUE, RESERVED, bound and job.flags + BOUND or job.flags,
                job.reserves, job.till, last, bound and daemon or NOBODY, job.failures,
                job.timeouts, job.releases, job.buries, job.kicks, job.priority, job.delay_s,
                job.due)
            count = count + 1
            if is_apart(job) then
                bytes = bytes + unpack_bytes(LONG.BODY_LEN_FORMAT, job.record, LONG.BODY_LEN)
            else
                bytes = bytes + #job.record - job.content_at + 1
            end
            bytes = bytes + #(job.properties or '')
            jobs[count], reservations[count] = job, job.name .. pack('<I8', last)
            if not heads[bucket] then
                heads[bucket], heads_in[#heads_in + 1] = {}, bucket
            end
            local set = heads[bucket]
            set[#set + 1], set[#set + 2] = '+' .. job.name, job.head
            held[2 * count - 1], held[2 * count] = job.till, sub(candidate, 2)
            taken[job.topic] = (taken[job.topic] or 0) + 1
            if job.till < soonest then soonest = job.till end
        end
    end
end
for i = 1, count do bodies[i] = job_with_content(jobs[i]) end

-- Calls with at most 1000 arguments: see above.
local function call_in_chunks(name, key, list)
    for from = 1, #list, 1000 do
        call(name, key, unpack(list, from, math.min(#list, from + 999)))
    end
end
-- As refusal() in job.lua: what was sent first may come late, when there are jobs that nobody awaits.
local keeps_nothing = again and most > 0 and count == 0
-- Else the first write is a ZREM, which needs no memory.
if #gone == 0 and (wait or keeps_nothing) then even_if_full() end
call_in_chunks('ZREM', order, gone)
call_in_chunks('ZADD', reserved, held)
for i = 1, #heads_in do call_in_chunks('HSET', buckets .. heads_in[i], heads[heads_in[i]]) end
for i = 1, #lost do
    call('HINCRBY', hash, 'g', 1)
    call('HINCRBY', hash, '#d' .. lost[i], 1)
end
for i = 1, bound and 0 or count do journal_change(jobs[i], RESERVED, 0, now) end
if bound then
    for i = 1, count do call('ZADD', order, '0', 'h' .. daemon .. sub(reservations[i], 1, 8)) end
end
for i = at, #candidates do
    local topic = sub(candidates[i], 3, 2 + byte(candidates[i], 2))
    first_of[topic] = first_of[topic] or sub(candidates[i], -20, -9) ..
        char(#topics == 1 and close_jobs(candidates, at, CLOSE_JOBS_MAX) or 0)
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
if string.find(ARGV[2], 'p', 1, true) then
    even_if_full()
    for i = 1, #topics do
        if first_of[topics[i]] then pass_on(topics[i], found[4 * i + 1]) end
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
    sets[n + 3], sets[n + 4] = slot, request .. table.concat(reservations)
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
