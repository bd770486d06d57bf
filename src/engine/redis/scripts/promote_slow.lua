-- The body of slow_path() in promote.lua: what a promote rarely has to do. Returns functions for it, and
-- bucket_missing: some bucket is being moved with its slot; what needs it is done by a later call.
-- KEYS and ARGV are those of promote.lua.
local LEASES, LEASES_LEAST = 10, 3 -- ended by one call: each takes as long as ten jobs or more
local PLACES_MOVED, PLACES_READ = 60, 300 -- places of layout 2, in one call
local COUNTED = 1500 -- reserved jobs: counts.lua
local slow, now = { bucket_missing = false }, clock()

-- Layout 2 had the places of delayed jobs in `delayed`, by due time. They are moved from the latest
-- to the earliest: until all are, the field `k` has the time down to which they are. Of members
-- with the same score the topics ('\0') come after the places in this direction.
--
-- A bucket that has moved is no error here: the script would end with half of its writes done.
function slow.move_old(places)
    local moved = {}
    for i = 1, #places do
        local job = try_fetch(sub(places[i], -8))
        if job then
            if job.state == WAITING then link_delayed(job) end
            moved[#moved + 1] = places[i]
        elseif job == nil then
            drop_lost_job(sub(places[i], 2, 1 + byte(places[i])), delayed, places[i])
        end
        slow.bucket_missing = slow.bucket_missing or job == false
    end
    if #moved > 0 then call('ZREM', delayed, unpack(moved)) end
end

-- Moves the last ones, from the time `upto` (field `k`) on. Returns true if some are left.
function slow.move_last_old(upto)
    local members = call('ZREVRANGEBYSCORE', delayed, upto, '0', 'WITHSCORES', 'LIMIT', 0, PLACES_READ)
    local places, at = {}, 1
    while at < #members and #places < PLACES_MOVED do
        local old = byte(members[at]) > 0
        if old and members[at + 1] ~= 'inf' then places[#places + 1] = members[at] end
        upto, at = (old and '' or '(') .. members[at + 1], at + 2
    end
    slow.move_old(places)
    if slow.bucket_missing then return true end -- the next call begins with the same places
    local done = at > #members and #members < 2 * PLACES_READ
    if done then
        call('HDEL', hash, 'k')
    else
        call('HSET', hash, 'k', upto)
    end
    return not done
end

-- Ends leases that have run out: fewer, if the call has made many jobs ready (`left`: how many more it
-- may). Returns how many it has looked at.
function slow.end_leases(left)
    local leases = math.max(LEASES_LEAST, math.min(LEASES, math.floor(left / 10)))
    local ended = call('ZRANGEBYSCORE', reserved, '-inf', now, 'LIMIT', 0, leases)
    for i = 1, #ended do
        local job = try_fetch(sub(ended[i], -8))
        if job == false then
            slow.bucket_missing = true
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
    return #ended
end

-- Counts of reserved jobs were lost: counts them, once rebuild.lua has gone through all buckets.
function slow.count_again()
    if select(2, uncounted()) >= BUCKETS then count_reserved(COUNTED) end
end

return slow
