-- Kicks or deletes jobs of a topic in one state, step by step. Idempotent: the answer is stored.
--
-- ARGV: 2 'k' kick, 'c' delete; 3 to 5 as in walk.lua; 6 the most jobs; 0: only count them (not
-- with state reserved).
-- Returns {header, where to continue}. count: jobs done, or counted. MORE: call again. Error
-- NOT_FOUND: there is no such topic.
-- Cost: at most 600 places are read; O(log n) for each job done.
local stored = stored_answer()
if stored then return { sub(stored, 1, 32), sub(stored, 33) } end
local most, done, lost, now = tonumber(ARGV[6]), 0, 0, clock()
if most == 0 then
    local place = sub('wr-b', state, state) .. key
    local count = call('ZLEXCOUNT', order, '[' .. place, '(' .. place .. string.rep('\255', 21))
    local known = count > 0 or call('ZSCORE', order, 't' .. topic)
    return { header(known and OK or NOT_FOUND, 0, 0, count, now, 0, 0), '' }
end
even_if_full()
local more, from = walk(function(name, member)
    if done + lost == most then return false end
    local job = try_fetch(name)
    -- Its bucket is not on this node now: ends here. An error only if no job was done before.
    if job == false then
        if done == 0 then error(MISSING) end
        return false
    end
    if not job then
        lost = lost + 1
        drop_lost_job(topic, state == 3 and reserved or order, member)
        return true
    end
    done = done + 1
    if ARGV[2] == 'k' then
        kick(job, now)
        journal_change(job, job.state, job.flags, now)
    else
        unlink(job)
        drop(job)
        call('HINCRBY', hash, '#d' .. topic, 1)
        journal_end(job, false, now)
    end
    return true
end)
if done == 0 and not more and not call('ZSCORE', order, 't' .. topic) then
    return refusal(header(NOT_FOUND, 0, 0, 0, now, 0, 0), '')
end
return store_answer(from, header(OK, 0, more and MORE or 0, done, now, 0, 0))
