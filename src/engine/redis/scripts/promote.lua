-- Makes due jobs ready, and ends leases that have run out. Called by the daemon that owns the
-- partition, its promoter.
--
-- ARGV:
--   2  the most jobs to make ready
--   3  'a': check whether all buckets exist (0.25 ms); else one of them, another in each call
-- Returns {header, topic, ...}: the topics with new ready jobs for which this daemon waits as the
-- first: it gets no other notice. count: jobs that became ready and leases that ended. next_us:
-- when something is due next. seq: how often the clock was set (set_clock.lua). MORE: something is due
-- now, call again. LOST: a sorted set was lost (open.lua). MISSED: a bucket was lost, and was created
-- again, empty. The jobs are shared among the topics that have due jobs, so that no topic waits for a
-- burst of another one. If more than TOPICS topics have due jobs, half of those served have waited
-- longest, and the other half are in rotation.
--
-- This file is the fast path. What is left of layout 2, and leases that have run out, are handled by
-- the functions that slow_path() returns, which is promote_slow.lua.
-- Cost: O(k log n) for k jobs and leases; at most TOPICS topics and LEASES leases in one call.
local TOPICS = 50 -- served by one call
local PAUSE_US = 2000 -- until the next call, while places of layout 2 are left
local FOREVER, BUCKETS = 9007199254740991, 256 -- these and the following as common.lua has them
local MORE, LOST, MISSED = 4, 32, 128
local call, sub, byte, char = redis.call, string.sub, string.byte, string.char
local pack, unpack_bytes = struct.pack, struct.unpack
local hash, delayed, reserved, order = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local request = ARGV[1]
local most, now = tonumber(ARGV[2]), clock_of(request)
local found = call('HMGET', hash, 'p', 'k', 'q', 'n', 'z')
if not found[1] then return redis.error_reply('LATERDCLOSED the partition is not there') end
call('HDEL', hash, '') -- as even_if_full() has it
local left, ours = most, {}
local slow = nil -- what slow_path() returns, once it is needed
local has_old = false
if found[2] then
    slow = slow_path()
    has_old = slow.move_last_old(found[2])
end

-- Topics with due jobs, by due time. If they are more than TOPICS, `from` is the rank of the first one
-- in the rotation.
local due, from = call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, TOPICS + 1), nil
local half = TOPICS / 2
if #due > TOPICS then
    local count = call('ZCOUNT', delayed, '-inf', now)
    from = math.max(half, math.min(tonumber(found[3] or 0), count - half))
    local rotation = call('ZRANGE', delayed, from, from + half - 1)
    for i = 1, half do due[half + i] = rotation[i] end
    due[TOPICS + 1] = nil
    if from + half >= count then from = 0 end
end

if #due > 0 then
    local adds, entries, idle, topics, counts = {}, {}, {}, {}, {}

    -- Makes up to `share` of the topic's due jobs ready; they are side by side, by due time. Returns
    -- true if the topic has no more.
    local function promote_topic(topic, share)
        local key, due_at = char(#topic) .. topic, #topic + 3
        local first, past = '[w' .. key, '(w' .. key .. '\255'
        local behind = 'w' .. key .. pack('>I8', now + 1)
        local jobs, count = call('ZRANGEBYLEX', order, first, past, 'LIMIT', 0, 2), 0
        if share > 1 and jobs[2] and unpack_bytes('>I8', jobs[2], due_at) <= now then
            jobs = call('ZRANGEBYLEX', order, first, '(' .. behind, 'LIMIT', 0, share + 1)
            count = math.min(#jobs, share)
        elseif jobs[1] and unpack_bytes('>I8', jobs[1], due_at) <= now then
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
        local due_next = unpack_bytes('>I8', following, due_at)
        entries[#entries + 1], entries[#entries + 2] = due_next, '\0' .. topic
        return due_next > now
    end

    -- `jobs` more are ready in the topic: one waiting daemon is notified for each. Returns true if the
    -- first one is this daemon, by a mark of an earlier request: then the answer names the topic, and
    -- no notice is published. A mark of a later request means that the daemon has given this request
    -- up.
    local function notify_promoted(topic, jobs)
        local mark, is_ours = call('HGET', hash, '#w' .. topic), false
        while mark and jobs > 0 do
            local flags = byte(mark) - 48
            if not is_ours and flags % 2 == 0 and sub(mark, 2, 9) == sub(request, 3, 10) and
                unpack_bytes('<I8', mark, 10) < unpack_bytes('<I8', request, 13) then
                is_ours, mark = true, store_mark(hash, topic, flags, sub(mark, 18))
            else
                mark = notify_marked(hash, topic, mark)
            end
            jobs = jobs - 1
        end
        return is_ours
    end

    local places, done = {}, 0
    for i = #due, 1, -1 do -- unused steps pass to the next topic; the longest due come last
        if byte(due[i]) > 0 then -- a place of layout 2
            places[#places + 1] = due[i]
        elseif promote_topic(sub(due[i], 2), math.ceil(left / i)) then
            done = done + 1
        end
    end
    if #places > 0 then
        slow = slow or slow_path()
        slow.move_old(places)
    end
    if #entries > 0 then call('ZADD', delayed, unpack(entries)) end
    if #idle > 0 then call('ZREM', delayed, unpack(idle)) end
    for i = 1, #adds, 1000 do call('ZADD', order, unpack(adds, i, math.min(#adds, i + 999))) end
    if from then call('HSET', hash, 'q', from > 0 and from + half - done or 0) end
    for i = #topics, 1, -1 do -- the longest due first
        if notify_promoted(topics[i], counts[i]) then ours[#ours + 1] = topics[i] end
    end
end

local ended = 0
local next_reserved = tonumber(call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2] or FOREVER)
if next_reserved <= now then
    slow = slow or slow_path()
    ended = slow.end_leases(left)
    next_reserved = tonumber(call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2] or FOREVER)
end
if found[5] then
    slow = slow or slow_path()
    slow.count_again()
end

local next_delayed = tonumber(call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2] or FOREVER)
local next_us = math.min(next_delayed, next_reserved, FOREVER)
if slow and slow.bucket_missing then next_us = math.max(next_us, now + 20000) end
if has_old then next_us = math.min(next_us, now + PAUSE_US) end
local last, pushed, partitions = unpack_bytes('<I8I8I8', found[1]) -- nothing here changes these
call('HSET', hash, 'p', pack('<I8I8I8I7', last, pushed, partitions, next_us))
local filler, flags = string.rep('\255', 65), next_us <= now and MORE or 0
for i = 2, 4 do
    if not call('ZSCORE', KEYS[i], filler) then flags = flags % LOST + LOST end
end
-- Without a: checks another bucket each time. A lost one lacks this field, even if jobs were pushed
-- into it since. While a slot is being moved the answer is an error, not 0.
local buckets, missed = sub(hash, 1, -2) .. 'j', 0 -- as in bucket_of()
local first, last_bucket = 0, BUCKETS - 1
if ARGV[3] ~= 'a' then first = math.floor(now / 1000) % BUCKETS last_bucket = first end
if byte(request) >= 50 then last_bucket = -1 end -- importing
for i = first, last_bucket do
    if redis.pcall('HEXISTS', buckets .. i, '!') == 0 then
        call('HSET', buckets .. i, '!', '')
        missed = MISSED
    end
end
flags = flags + missed
local set_count = tonumber(string.match(found[4] or '0', '^%d+'))
return { pack('<BBBBI4I8I8I8', 0, 0, flags, 0, most - left + ended, next_us, set_count, now), -- header()
    unpack(ours) }
