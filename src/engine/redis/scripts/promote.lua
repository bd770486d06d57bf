-- Makes due jobs ready, and ends leases that have run out. Called by the daemon that owns the
-- partition, its promoter.
--
-- ARGV:
--   2  the most jobs to make ready
--   3  'a': check whether all buckets exist (0.25 ms); else one of them, another in each call
-- Returns {header, topic, ...}: the topics with new ready jobs for which this daemon waits as the
-- first: it gets no other notice. count: jobs that became ready and leases that ended. next_us:
-- when something is due next. seq: how often the clock was set (set_clock.lua). MORE: something is due now, call again. LOST: a sorted set was lost
-- (open.lua). MISSED: a bucket was lost, and was created again, empty. The jobs are shared among
-- the topics that have due jobs, so that no topic waits for a burst of another one. If more than
-- TOPICS topics have due jobs, half of those served have waited longest, and the other half are in
-- rotation.
-- Cost: O(k log n) for k jobs and leases; at most TOPICS topics and LEASES leases in one call.
local TOPICS = 50 -- served by one call
local LEASES, LEASES_LEAST = 10, 3 -- ended by one call: each takes as long as ten jobs or more
local PLACES_MOVED, PLACES_READ = 60, 300 -- places of layout 2, in one call
local COUNTED = 1500 -- reserved jobs: counts.lua
local PAUSE_US = 2000 -- until the next call, while such places are left
local most, now = tonumber(ARGV[2]), clock()
local found = call('HMGET', hash, 'p', 'k', 'q', 'n', 'z')
if not found[1] then return redis.error_reply(CLOSED) end
even_if_full()

-- Layout 2 had the places of delayed jobs in `delayed`, by due time. They are moved from the latest
-- to the earliest: until all are, the field `k` has the time down to which they are. Of members
-- with the same score the topics ('\0') come after the places in this direction.
local function is_old(member)
    return string.byte(member) > 0
end

local bucket_missing = false -- some are being moved with their slot: their jobs are handled later

-- A bucket that has moved is no error here: the script would end with half of its writes done.
local function move_old(places)
    local moved = {}
    for i = 1, #places do
        local job = try_fetch(sub(places[i], -8))
        if job then
            if job.state == WAITING then link_delayed(job) end
            moved[#moved + 1] = places[i]
        elseif job == nil then
            drop_lost_job(sub(places[i], 2, 1 + byte(places[i])), delayed, places[i])
        end
        bucket_missing = bucket_missing or job == false
    end
    if #moved > 0 then call('ZREM', delayed, unpack(moved)) end
end

local function move_last_old(upto)
    local members = call('ZREVRANGEBYSCORE', delayed, upto, '0', 'WITHSCORES', 'LIMIT', 0, PLACES_READ)
    local places, at = {}, 1
    while at < #members and #places < PLACES_MOVED do
        local old = is_old(members[at])
        if old and members[at + 1] ~= 'inf' then places[#places + 1] = members[at] end
        upto, at = (old and '' or '(') .. members[at + 1], at + 2
    end
    move_old(places)
    if bucket_missing then return true end -- the next call begins with the same places
    local done = at > #members and #members < 2 * PLACES_READ
    if done then
        call('HDEL', hash, 'k')
    else
        call('HSET', hash, 'k', upto)
    end
    return not done
end

-- Returns topics with due jobs, by due time, and the rank of the first one in the rotation (nil:
-- none).
local function due_topics()
    local topics = call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, TOPICS + 1)
    if #topics <= TOPICS then return topics end
    local count, half = call('ZCOUNT', delayed, '-inf', now), TOPICS / 2
    local from = math.max(half, math.min(tonumber(found[3] or 0), count - half))
    local rotation = call('ZRANGE', delayed, from, from + half - 1)
    for i = 1, half do topics[half + i] = rotation[i] end
    topics[TOPICS + 1] = nil
    return topics, from + half < count and from or 0
end

local adds, entries, idle, topics, counts, left = {}, {}, {}, {}, {}, most

local function is_due(job, due_at)
    return unpack_bytes('>I8', job, due_at) <= now
end

-- Makes up to `share` of the topic's due jobs ready; they are side by side, by due time. Returns
-- true if the topic has no more.
local function promote_topic(topic, share)
    local key, due_at = char(#topic) .. topic, #topic + 3
    local first, past = '[w' .. key, '(w' .. key .. '\255'
    local behind = 'w' .. key .. pack('>I8', now + 1)
    local jobs, count = call('ZRANGEBYLEX', order, first, past, 'LIMIT', 0, 2), 0
    if share > 1 and jobs[2] and is_due(jobs[2], due_at) then -- more than one is due
        jobs = call('ZRANGEBYLEX', order, first, '(' .. behind, 'LIMIT', 0, share + 1)
        count = math.min(#jobs, share)
    elseif jobs[1] and is_due(jobs[1], due_at) then
        count = 1
    end
    local following = jobs[count + 1]
    for i = 1, count do -- see delayed_place() and place_of()
        local job = jobs[i]
        local rank = #job > due_at + 19 and sub(job, -8) or sub(job, due_at, due_at + 7)
        adds[#adds + 1] = 0
        adds[#adds + 1] = 'r' .. key .. sub(job, due_at + 8, due_at + 11) .. rank ..
            sub(job, due_at + 12, due_at + 19)
    end
    if count > 0 then
        call('ZREMRANGEBYLEX', order, first, '[' .. jobs[count])
        topics[#topics + 1], counts[#counts + 1], left = topic, count, left - count
    end
    if not following and count > 1 then
        following = call('ZRANGEBYLEX', order, '[' .. behind, past, 'LIMIT', 0, 1)[1]
    end
    if not following then
        idle[#idle + 1] = '\0' .. topic
        return true
    end
    local due = unpack_bytes('>I8', following, due_at)
    entries[#entries + 1], entries[#entries + 2] = due, '\0' .. topic
    return due > now
end

local has_old = found[2] and move_last_old(found[2])
local due, from = due_topics()
local places, done = {}, 0
for i = #due, 1, -1 do -- unused steps pass to the next topic; the longest due come last
    if is_old(due[i]) then
        places[#places + 1] = due[i]
    elseif promote_topic(sub(due[i], 2), math.ceil(left / i)) then
        done = done + 1
    end
end
move_old(places)
if #entries > 0 then call('ZADD', delayed, unpack(entries)) end
if #idle > 0 then call('ZREM', delayed, unpack(idle)) end
for i = 1, #adds, 1000 do call('ZADD', order, unpack(adds, i, math.min(#adds, i + 999))) end
if from then call('HSET', hash, 'q', from > 0 and from + TOPICS / 2 - done or 0) end

local ours = {}
for i = #topics, 1, -1 do -- the longest due first
    if notify_promoted(topics[i], counts[i]) then ours[#ours + 1] = topics[i] end
end

local leases = math.max(LEASES_LEAST, math.min(LEASES, math.floor(left / 10)))
local ended = call('ZRANGEBYSCORE', reserved, '-inf', now, 'LIMIT', 0, leases)
for i = 1, #ended do
    local job = try_fetch(sub(ended[i], -8))
    if job == false then
        bucket_missing = true
    elseif job and job.state == RESERVED then
        job.timeouts = increment(job.timeouts)
        call('HINCRBY', hash, '#t' .. job.topic, 1)
        fail(job, now)
        journal_change(job, job.state, job.flags, now)
    elseif not job then
        drop_lost_job(sub(ended[i], 2, 1 + byte(ended[i])), reserved, ended[i])
    else
        call('ZREM', reserved, ended[i])
    end
end

if found[5] and select(2, uncounted()) >= BUCKETS then count_reserved(COUNTED) end

local next_delayed = call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
local next_reserved = call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2]
local next_us = math.min(tonumber(next_delayed or FOREVER), tonumber(next_reserved or FOREVER),
    FOREVER)
if bucket_missing then next_us = math.max(next_us, now + 20000) end
if has_old then next_us = math.min(next_us, now + PAUSE_US) end
local last, pushed, partitions = state_of_all()
call('HSET', hash, 'p', pack('<I8I8I8I7', last, pushed, partitions, next_us))
local filler, flags = string.rep('\255', 65), next_us <= now and MORE or 0
for i = 2, 4 do
    if not call('ZSCORE', KEYS[i], filler) then flags = flags % LOST + LOST end
end
-- Without a: checks another bucket each time. A lost one lacks this field, even if jobs were pushed
-- into it since. While a slot is being moved the answer is an error, not 0.
local missed, first, last_bucket = 0, 0, BUCKETS - 1
if ARGV[3] ~= 'a' then first = math.floor(now / 1000) % BUCKETS last_bucket = first end
for i = first, importing and -1 or last_bucket do
    if redis.pcall('HEXISTS', buckets .. i, '!') == 0 then
        call('HSET', buckets .. i, '!', '')
        missed = MISSED
    end
end
flags = flags + missed
local set_count = tonumber(string.match(found[4] or '0', '^%d+'))
return { header(OK, 0, flags, most - left + #ended, now, next_us, set_count), unpack(ours) }
