-- The body of slow_path() in push.lua: pushes one job, in all cases that the fast path does not handle.
-- KEYS, ARGV and the returned value are those of push.lua for one request.
-- Cost: O(log n); up to 64 topics are checked if a new topic would exceed the limit (room.lua).
local id, exists, topic, most = ARGV[8], ARGV[10], sub(ARGV[7], 3), tonumber(ARGV[11])
local now = clock()
local stored = stored_answer()
if stored then return { sub(stored, 1, 32), #stored > 32 and sub(stored, 33) or nil } end
local found = call('HMGET', hash, 'p', ARGV[7], id)
if not found[1] then return redis.error_reply(CLOSED) end
local restore_id = #ARGV[9] % 11 > 8 and sub(ARGV[9], #ARGV[9] > 11 and 13 or 2)
local makes_entry = not restore_id or #restore_id == 8
if makes_entry and is_journal_behind(now) then return refusal(header(BEHIND, 0, 0, 0, now, 0, 0)) end

local old, flags = found[3] and fetch(found[3]), 0
if old and exists == 'j' then
    return refusal(header(EXISTS, 0, 0, 0, now, 0, 0))
elseif old and exists == 'k' then
    return refusal(header(OK, 0, KEPT, 1, now, 0, 0), job_without_content(old))
end
-- A restored job is not pushed if a job of that id has ended since the restore began: ENDED. If the
-- restore is over, or the members that record such ends were lost, that is unknown: LAPSED.
if restore_id then
    restore_id = sub(restore_id, 1, 8)
    local restore = call('HGET', hash, 'jr')
    if not restore or sub(restore, 1, 8) ~= restore_id or unpack_bytes('<I8', restore, 17) == 0 or
        not call('ZSCORE', order, 'er' .. restore_id) then
        return refusal(header(LAPSED, 0, 0, 0, now, 0, 0))
    end
    if call('ZSCORE', order, 'e' .. id) then return refusal(header(ENDED, 0, 0, 0, now, 0, 0)) end
end
local last, pushed, partitions, promote_at = state_of_all()
local seq = number_after(last, partitions, now)
local name = pack('>I8', seq)
-- A job that is moved here from another queue keeps its creation time, attempts and failures.
local made, reserves, failures
if #ARGV[9] > 11 then made, reserves, failures = unpack_bytes('<I7HH', ARGV[9], 2) end
local arrived = byte(ARGV[9]) == 97 and arrival_after(last, now) or now -- 97: a
local record, bucket = record_made(ARGV[2], ARGV[3], seq, made or arrived), bucket_of(name)
if call('HEXISTS', bucket, '!') == 0 then error(MISSING) end
if not old and pushed >= most then
    -- `pushed` counts all jobs ever pushed, field `g` those removed. Both are reduced by `g` here,
    -- so that the limit is reached, and `g` read, again only after as many more pushes.
    local gone = call('HGET', hash, 'g') or 0
    -- Jobs from before the hash was lost are counted only when they end, so this may be below 0, which
    -- would be stored as about 2^64, the end of all pushes (earlier builds did that).
    pushed = pushed - gone
    if pushed < 0 or pushed > FOREVER then pushed = 0 end
    if pushed >= most then return refusal(header(JOBS_LIMIT, 0, 0, 0, now, 0, 0)) end
    call('HSET', hash, 'g', 0, 'p', pack('<I8I8I8I7', last, pushed, partitions, promote_at))
end
if not found[2] then -- the first job of its topic
    if not call('ZSCORE', order, 't' .. topic) and not room_for_topic(tonumber(ARGV[12]), now) then
        return refusal(header(TOPICS_LIMIT, 0, 0, 0, now, 0, 0))
    end
    call('ZADD', order, 0, 't' .. topic)
    call('HDEL', hash, '#w' .. topic) -- all daemons are notified below
end
-- Before any write that needs no memory, so that a full Redis refuses the push: see even_if_full().
call('HSET', hash, 'p', pack('<I8I8I8I7', seq, pushed + 1, partitions, promote_at))
if old then
    unlink(old)
    drop(old)
    call('HINCRBY', hash, '#x' .. old.topic, 1)
    flags = REPLACED
end

local job = read(name, record)
if made then job.reserves, job.failures = reserves, failures else job.is_new = true end
if id ~= '' then call('HSET', hash, id, name) end
call('HINCRBY', hash, ARGV[7], 1)
link(job, byte(ARGV[9]) == 98 and BURIED or WAITING, now) -- 98: b
-- The record is written last: if a key of a wrong type ended the script before, the id has no job.
call('HSET', bucket, name, record)
local apart = ARGV[4]
if has_properties(job) then
    local behind = unpack_bytes('<H', apart) + 3
    call('HSET', bucket, '=' .. name, sub(apart, 3, behind - 1))
    apart = sub(apart, behind)
end
if apart ~= '' then call('HSET', bucket, '*' .. name, apart) end
if makes_entry then journal_job(job, now) end
if not found[2] then publish(string.format('r%.0f ', last % partitions) .. topic) end
local created = made or arrived
return { store_answer('', header(OK, visible_state(job, now), flags, 1, now,
    created ~= now and created or 0, seq))[1] }
