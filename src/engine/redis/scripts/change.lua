-- Changes one job. Idempotent: the answer is stored.
--
-- ARGV:
--   2   'v' reserve, 'l' release, 't' touch (renew the lease), 'b' bury, 'k' kick, 'r' run (make it
--       due now), 's' reschedule
--   3   the client's id, or ''
--   4   the job's number (8 bytes); used if there is no id
--   5   the lease; 0 without one
--   6   options. Release: 'u' the attempt does not count: it was not delivered; 'x' the consumer is
--       gone: counts as a failure, not as a release. Reserve: 'b' the reservation belongs to the
--       daemon's connection
--   7   release, reschedule: new due time; run: the due time that the job must have (within 10 ms),
--       else nothing is done; ''
--   8   release, bury, reschedule: new priority, or ''
--   9   touch: length of the new lease; '' the job's ttr
--   10  reschedule: description of a new body (14 bytes, `about` of record_of()), or ''; release,
--       bury: code of the note that this attempt leaves (2 bytes), or ''
--   11  reschedule: the new content; release, bury: text of the note
-- Returns {header, job without content}; for 'v' {header, job with content}. seq: its number;
-- state: the state now. Errors: NOT_FOUND, STALE_LEASE, WRONG_STATE (state: the state that it has).
-- Cost: O(log n).
local what, options = ARGV[2], ARGV[6]
local lease, due = tonumber(ARGV[5]), tonumber(ARGV[7])
local priority, ttr = tonumber(ARGV[8]), tonumber(ARGV[9])

local stored = stored_answer()
if stored then
    local was = sub(stored, 33)
    if what == 'v' and was ~= '' then
        -- With its content, if it still has the lease of the first execution; as reserve_slow.lua.
        if sub(was, 1, 1) == 'n' then was = sub(was, 4 + unpack_bytes('<H', was, 2)) end
        local job, now = fetch(sub(was, 1, 8)), clock()
        if not job then return { header(NOT_FOUND, 0, 0, 0, now, 0, 0) } end
        if job.lease ~= unpack_bytes('<I8', was, 8 + HEAD.LEASE) then
            return { header(WRONG_STATE, visible_state(job, now), 0, 0, now, 0, job.seq) }
        end
        was = job_with_content(job)
    end
    return { sub(stored, 1, 32), was }
end
local job, now = find(ARGV[3], ARGV[4]), clock()
if not job then return refusal(header(NOT_FOUND, 0, 0, 0, now, 0, 0)) end
local state, err = visible_state(job, now), OK
if what == 'l' or what == 't' or what == 'b' then
    err = check_lease(job, lease)
elseif (what == 'v' and state == RESERVED) or (what == 'k' and state ~= 1 and state ~= BURIED) or
    ((what == 'r' or what == 's') and state ~= 1) or
    (what == 'r' and due and math.abs(job.due - due) > 10000) then
    err = WRONG_STATE
end
if err ~= OK then return refusal(header(err, state, 0, 0, now, 0, job.seq)) end

-- The hash was lost, but not its buckets: what needs the field would end halfway.
if call('HEXISTS', hash, 'p') == 0 then return redis.error_reply(CLOSED) end
if what ~= 's' then even_if_full() end -- it begins with a write of its own

local function count(letter)
    call('HINCRBY', hash, letter .. job.topic, 1)
end

local function seconds_until(at)
    return at > now and math.min(math.ceil((at - now) / 1000000), 4294967295) or 0
end

local function note()
    if ARGV[10] ~= '' then add_note(job, ARGV[10], ARGV[11], now) end
end

local function reserve()
    local last, pushed, partitions, promote_at = state_of_all()
    unlink(job)
    if state == BURIED then job.failures = 0 end -- as after a kick
    job.lease = number_after(last, partitions, now)
    call('HSET', hash, 'p', pack('<I8I8I8I7', job.lease, pushed, partitions, promote_at))
    job.till, job.reserves = time_after(now, job.ttr), increment(job.reserves)
    if options == 'b' then
        job.flags, job.holder = job.flags + BOUND, sub(slot, 2, 9)
        call('ZADD', order, 0, 'd' .. job.holder) -- reap_dead.lua may have removed it meanwhile
    end
    count('#r')
    link(job, RESERVED, now)
end

local function release()
    unlink(job) -- the priority must not change while the job is in a set
    job.priority = priority or job.priority
    if options == 'u' then -- as if it had not been tried
        if job.reserves > 0 and job.reserves < 65535 then job.reserves = job.reserves - 1 end
        if not due then return link(job, WAITING, now) end
    end
    if options ~= 'x' then
        job.releases = increment(job.releases)
        count('#l')
        if due then
            if options ~= 'u' then job.failures = increment(job.failures) end
            due = math.max(due, now)
            -- One that was reserved by its name, and never tried, keeps its due time.
            if options ~= 'u' or job.due < due then job.due = due end
            job.delay_s = seconds_until(job.due)
            return link(job, WAITING, now)
        end
        job.delay_s = 0
    end
    return fail(job, now)
end

-- The first write of its script, since it needs memory: see even_if_full().
local function replace_content(new_due, new_priority)
    local changed = setmetatable({ due = new_due, priority = new_priority }, { __index = job })
    local record, apart = record_of(changed, #job.topic, ARGV[10],
        sub(job.record, job.content_at - job.names_len, job.content_at - 1), ARGV[11])
    call('HSET', bucket_of(job.name), job.name, record)
    if apart then
        call('HSET', bucket_of(job.name), '*' .. job.name, apart)
    elseif is_apart(job) then
        call('HDEL', bucket_of(job.name), '*' .. job.name)
    end
    local new = read(job.name, record)
    job.record, job.form, job.id_at = record, new.form, new.id_at
    job.waits_at, job.content_at = new.waits_at, new.content_at
end

local function reschedule()
    local new_due, new_priority = due or job.due, priority or job.priority
    if ARGV[10] ~= '' then replace_content(new_due, new_priority) end
    unlink(job) -- by its old due time and priority
    job.due, job.priority = new_due, new_priority
    link(job, WAITING, now)
end

if what == 'v' then
    reserve()
elseif what == 'l' then
    note()
    release()
elseif what == 't' then
    job.till = time_after(now, ttr or job.ttr) -- in its set, only the score changes
    call('ZADD', reserved, job.till, place_of(job))
    store_head(job)
    notify_due(job.till)
elseif what == 'b' then
    note()
    unlink(job)
    job.priority = priority or job.priority
    bury(job, now)
elseif what == 'k' then
    kick(job, now)
elseif what == 'r' then
    make_due(job, now)
else
    reschedule()
end
if what == 's' and ARGV[10] ~= '' then
    journal_job(job, now)
else
    journal_change(job, job.state, job.flags, now)
end
local parts = store_answer(job_without_content(job),
    header(OK, visible_state(job, now), 0, 1, now, 0, job.seq))
if what == 'v' then parts[2] = job_with_content(job) end
return parts
