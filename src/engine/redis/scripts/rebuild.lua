-- Repairs a partition step by step, while it is in use. Moves jobs that layout 2 left in the hash
-- to their buckets. With 'r' it also restores the members of a sorted set that was lost (deleted or
-- evicted), from the jobs and from the settings of topics. Idempotent: it does not change existing
-- members.
--
-- ARGV:
--   2  where to continue, '0' at the start
--   3  about how many fields to read
--   4  'r' all of this; 'l' the same, by one daemon at a time and only while a set is lost; 'c' only
--      jobs of layout 2 (the hash)
-- Returns {header, where to continue}. MORE: call again; with '0': another daemon is at it, call again
-- later.
-- A ready job whose member was lost is added as a delayed one that is due: promote.lua makes it
-- ready.
-- Error MISSING: while the slot is being moved to this node buckets may be missing, of which HSCAN
-- would say that they are empty.
-- Cost: O(fields log n); the last call also counts the reserved jobs, half a microsecond each.
local filler, now, left = string.rep('\255', 65), clock(), tonumber(ARGV[3])
local bucket, cursor = string.match(ARGV[2], '^(%d+) (%d+)$')
bucket, cursor = tonumber(bucket or 0) - 1, cursor or '0' -- -1: the hash; BUCKETS: the settings

local BESIDE = '=-~' -- first bytes of fields that belong to a job

-- The topic's counts were lost with the hash. Where a topic has no '#p', consumers leave no mark
-- (reserve.lua): all that have looked meanwhile are notified, as of its first job.
local function restore_counts(topic)
    if call('HEXISTS', hash, '#p' .. topic) == 1 then return end
    call('HSET', hash, '#p' .. topic, 0)
    publish('r' .. notice_suffix(topic, call('HGET', hash, 'p')))
end

-- How many are reserved is not known either, until all are counted: one at least, so that the topic
-- is kept (room.lua).
local function restore_reserved_count(topic)
    if tonumber(call('HGET', hash, '#h' .. topic) or 0) <= 0 then call('HSET', hash, '#h' .. topic, 1) end
end

-- All reserved jobs are in their set now: counts those of each topic, in one step, as they change
-- between calls. A topic that has none counts 0 already: until now a count was too low at most, but
-- never below 0 (job.lua). More than COUNTED are not counted: a script may take 2 ms.
local COUNTED, VALUES = 4000, 4000
local function count_reserved()
    if call('ZCOUNT', reserved, '-inf', '+inf') > COUNTED then return end
    local members, counts, fields = call('ZRANGE', reserved, 0, -1), {}, {}
    for i = 1, #members do
        local topic = sub(members[i], 2, 1 + byte(members[i]))
        if members[i] ~= filler then counts[topic] = (counts[topic] or 0) + 1 end
    end
    for topic, count in pairs(counts) do
        fields[#fields + 1], fields[#fields + 2] = '#h' .. topic, count
        if #fields == VALUES then -- unpack() takes no more than some thousands
            call('HSET', hash, unpack(fields))
            fields = {}
        end
    end
    if #fields > 0 then call('HSET', hash, unpack(fields)) end
end

local function restore_members(job)
    local at = place_of(job)
    call('ZADD', order, 0, 't' .. job.topic)
    restore_counts(job.topic)
    if job.id_len > 0 and not call('HGET', hash, 'i' .. id_of(job)) then
        call('HSET', hash, 'i' .. id_of(job), job.name)
    end
    if job.state == RESERVED then
        call('ZADD', reserved, job.till, at)
        restore_reserved_count(job.topic)
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

-- All sets are there: nobody needs to restore members.
local function is_whole()
    return call('ZSCORE', delayed, filler) and call('ZSCORE', reserved, filler) and call('ZSCORE', order, filler)
end

-- Which daemon restores what was lost: the field 'f' names it, and until when if it does not renew
-- that. Whoever takes over starts from the beginning; so does the same daemon if the field was lost, since
-- the hash was lost again. Returns who does it now: this daemon, 'another', or nil: all is restored.
local LEASE = 2000000
local function take_turn()
    local daemon, lease = sub(slot, 2, 9), call('HGET', hash, 'f') or ''
    local holder, till = sub(lease, 1, 8), #lease == 16 and unpack_bytes('<I8', lease, 9) or 0
    if holder ~= daemon and till > now and till <= now + LEASE then return 'another' end
    if holder ~= daemon then bucket, cursor = -1, '0' end
    if bucket < 0 and cursor == '0' and is_whole() then
        call('HDEL', hash, 'f')
        return nil
    end
    call('HSET', hash, 'f', daemon .. pack('<I8', now + LEASE))
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
    elseif sub(field, 1, 2) == '#p' then
        call('ZADD', order, 0, 't' .. sub(field, 3))
    end
end

if importing then error(MISSING) end
even_if_full()
if ARGV[4] == 'l' then
    local who = take_turn()
    if who == 'another' then return { header(OK, 0, MORE, 0, now, 0, 0), '0' } end
    if not who then return { header(OK, 0, 0, 0, now, 0, 0), '0' } end
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
if not done then
    return { header(OK, 0, MORE, 0, now, 0, 0), bucket + 1 .. ' ' .. cursor }
end
if ARGV[4] ~= 'c' then
    count_reserved()
    call('ZADD', delayed, '+inf', filler)
    call('ZADD', reserved, '+inf', filler)
    call('ZADD', order, 0, filler)
end
if ARGV[4] == 'l' then call('HDEL', hash, 'f') end
return { header(OK, 0, 0, 0, now, 0, 0), '0' }
