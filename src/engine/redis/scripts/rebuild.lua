-- Repairs a partition step by step, while it is in use. Moves jobs that layout 2 left in the hash
-- to their buckets. With 'r' it also restores the members of a sorted set that was lost (deleted or
-- evicted), from the jobs and from the settings of topics. Idempotent: it does not change existing
-- members.
--
-- ARGV:
--   2  where to continue, '0' at the start; 'l': not used, Redis knows it (the field 'f')
--   3  about how many fields to read
--   4  'r' all of this; 'l' the same, by one daemon at a time and only while a set is lost; 'c' only
--      jobs of layout 2 (the hash)
-- Returns {header, where to continue}. MORE: call again; with '0': another daemon is at it, call again
-- later. LOST, at the end: a set is lost; only 'l' makes it whole.
-- A ready job whose member was lost is added as a delayed one that is due: promote.lua makes it
-- ready.
-- Error MISSING: while the slot is being moved to this node buckets may be missing, of which HSCAN
-- would say that they are empty.
-- Cost: O(fields log n); the last call also counts the reserved jobs, half a microsecond each, if they
-- are no more than COUNTED.
local filler, now, left = string.rep('\255', 65), clock(), tonumber(ARGV[3])
local mark = filler .. 'f' -- in a set that is being restored: it has not been lost again
local bucket, cursor = string.match(ARGV[2], '^(%d+) (%d+)$')
bucket, cursor = tonumber(bucket or 0) - 1, cursor or '0' -- -1: the hash; BUCKETS: the settings

local COUNTED = 4000 -- reserved jobs in one call, which may take 2 ms
local BESIDE = '=-~' -- first bytes of fields that belong to a job

-- The topic's counts were lost with the hash. Where a topic has no '#p', consumers leave no mark
-- (reserve.lua): all that have looked meanwhile are notified, as of its first job.
local function restore_counts(topic)
    if call('HEXISTS', hash, '#p' .. topic) == 1 then return end
    call('HSET', hash, '#p' .. topic, 0)
    publish('r' .. notice_suffix(topic, call('HGET', hash, 'p')))
end

-- So was how many are reserved: one at least, so that the topic is kept (room.lua).
local last_lease, first_uncounted = uncounted()
local count_from = first_uncounted
local function restore_reserved_count(job)
    local field = '#h' .. job.topic
    if bucket >= count_from and job.lease <= last_lease then
        call('HINCRBY', hash, field, 1)
    elseif tonumber(call('HGET', hash, field) or 0) <= 0 then
        call('HSET', hash, field, 1)
    end
end

-- While ids are missing, because the hash was lost, a job of the same id may be pushed. If both had
-- it, the end of one would take it from the other, which nobody could end by its id then, and which
-- would come again and again. So the older job continues without an id: its number is its name.
local function restore_id(job)
    local field = 'i' .. id_of(job)
    local named = call('HGET', hash, field)
    if named == job.name then return end
    if named and call('HEXISTS', bucket_of(named), named) == 1 then
        call('HSET', bucket_of(job.name), job.name, sub(job.record, 1, 1) .. '\0' ..
            sub(job.record, 3, job.id_at - 1) .. sub(job.record, job.waits_at))
    else
        call('HSET', hash, field, job.name)
    end
end

local newest = 0 -- of the numbers and leases of the jobs that were looked at
local function restore_members(job)
    local at = place_of(job)
    newest = math.max(newest, job.seq, job.lease)
    call('ZADD', order, 0, 't' .. job.topic)
    restore_counts(job.topic)
    if job.id_len > 0 then restore_id(job) end
    if job.state == RESERVED then
        call('ZADD', reserved, job.till, at)
        restore_reserved_count(job)
        notify_due(job.till)
        if is_bound(job) then
            call('ZADD', order, 0, 'h' .. job.holder .. job.name, 0, 'd' .. job.holder)
        end
    elseif job.state == BURIED then
        call('ZADD', order, 0, buried_place(job))
    elseif not call('ZSCORE', order, 'r' .. at) then
        link_delayed(job)
        notify_due(job.due)
    end
end

local function has_all_sets(kept)
    for i = 2, 4 do
        if not call('ZSCORE', KEYS[i], filler) and not (kept and call('ZSCORE', KEYS[i], kept)) then
            return false
        end
    end
    return true
end

local function add_to_sets(member)
    call('ZADD', delayed, '+inf', member)
    call('ZADD', reserved, '+inf', member)
    call('ZADD', order, 0, member)
end

-- Which daemon restores what was lost: the field 'f' names it, and until when if it does not renew that,
-- then where to continue, and the Redis that gave the cursor (open.lua). Whoever takes over continues
-- there; at another Redis with the whole bucket, since a cursor is valid at its own only. If a set has
-- neither filler nor mark, or the field is not there, what was restored is lost again: everything is
-- done once more. Returns who does it now: this daemon, 'another', or nil: all is restored.
local LEASE = 2000000
local run = nil
local function take_turn()
    local daemon, found = sub(slot, 2, 9), call('HMGET', hash, 'f', 'y')
    local turn = found[1] or ''
    local holder, till = sub(turn, 1, 8), #turn >= 16 and unpack_bytes('<I8', turn, 9) or 0
    run = found[2] or ''
    if holder ~= daemon and till > now and till <= now + LEASE then return 'another' end
    if has_all_sets() then
        call('HDEL', hash, 'f')
        return nil
    end
    local at, from, given_by = string.match(sub(turn, 17), '^(%d+) (%d+) (.*)$')
    if at and has_all_sets(mark) then
        bucket, cursor = tonumber(at) - 1, given_by == run and from or '0'
    else
        add_to_sets(mark)
        bucket, cursor = -1, '0'
    end
    return daemon
end

local function handle_field(field)
    local kind = sub(field, 1, 1)
    if bucket == BUCKETS then -- settings
        if kind == 't' then
            call('ZADD', order, 0, field)
            call('HSET', hash, '#c' .. sub(field, 2), 1)
        end
    elseif bucket >= 0 then
        if #field == 8 then
            local job = fetch(field)
            if job then restore_members(job) end
        elseif #field == 9 and string.find(BESIDE, kind, 1, true) and
            call('HEXISTS', buckets .. bucket, sub(field, 2)) == 0 then
            -- The job was ended by a daemon of an older version that does not know this field.
            call('HDEL', buckets .. bucket, field)
        end
    elseif kind == 'j' and #field == 9 then
        fetch(sub(field, 2))
    elseif kind == 'd' and #field % 8 == 1 then -- of a daemon, or of block_older_daemons() in open.lua
        call('ZADD', order, 0, field)
    elseif sub(field, 1, 2) == '#p' or sub(field, 1, 2) == '#u' then -- it had jobs, or was paused
        call('ZADD', order, 0, 't' .. sub(field, 3))
    end
end

if importing then error(MISSING) end
if call('HEXISTS', hash, 'p') == 0 then return redis.error_reply(CLOSED) end
even_if_full()
local who = nil
if ARGV[4] == 'l' then
    who = take_turn()
    if who == 'another' then return { header(OK, 0, MORE, 0, now, 0, 0), '0' } end
    if not who then return { header(OK, 0, 0, 0, now, 0, 0), '0' } end
end
-- A call that began before the hash was lost counts nothing: it would leave out what is in front of it.
local gap = bucket > first_uncounted or bucket == first_uncounted and cursor ~= '0'
if gap then
    count_from = BUCKETS + 1
elseif cursor ~= '0' and bucket == first_uncounted - 1 then
    count_from = bucket -- the rest of it
end
local done = false
while left > 0 and not done do
    local key = bucket < 0 and hash or buckets .. bucket
    if bucket == BUCKETS then key = sub(hash, 1, -2) .. 's' end
    local scanned = call('HSCAN', key, cursor, 'COUNT', left)
    for i = 1, #scanned[2], 2 do handle_field(scanned[2][i]) end
    left, cursor = left - #scanned[2] / 2 - 5, scanned[1]
    if cursor == '0' then
        bucket = bucket + 1
        if bucket == 0 then call('HDEL', hash, 'x') end
        done = bucket > BUCKETS or ARGV[4] == 'c'
    end
end
-- The last number was lost with the hash, and numbers may be ahead of the clock: none is given twice.
local last, pushed, partitions, promote_at = state_of_all()
if newest > last then
    call('HSET', hash, 'p', pack('<I8I8I8I7', newest, pushed, partitions, promote_at))
end
if last_lease >= 0 and not gap and ARGV[4] ~= 'c' then
    local begun = cursor == '0' and bucket or bucket + 1
    call('HSET', hash, 'z', string.format('%.0f %d', last_lease, math.max(first_uncounted, begun)))
end
if not done then
    local place = bucket + 1 .. ' ' .. cursor
    if who then call('HSET', hash, 'f', who .. pack('<I8', now + LEASE) .. place .. ' ' .. run) end
    return { header(OK, 0, MORE, 0, now, 0, 0), place }
end
if ARGV[4] ~= 'c' then count_reserved(COUNTED) end
if who then
    add_to_sets(filler)
    for i = 2, 4 do call('ZREM', KEYS[i], mark) end
    call('HDEL', hash, 'f')
end
return { header(OK, 0, has_all_sets() and 0 or LOST, 0, now, 0, 0), '0' }
