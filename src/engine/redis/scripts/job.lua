-- A job's transitions, and its place in the sorted sets. Put before the scripts that change jobs.
-- Among equal scores, bytes decide: priority, then due time or arrival, then number.
local function place_of(job)
    local rank = job.flags >= ARRIVAL and job.created or job.due
    return char(#job.topic) .. job.topic .. pack('>I4I8I8', job.priority, rank, job.seq)
end

-- The place of a job until it is due: by topic, then due time. `delayed` has the due time of each
-- topic's first job, or an earlier time if that job has been removed; promote.lua corrects it.
local function delayed_place(job)
    local at = 'w' .. char(#job.topic) .. job.topic .. pack('>I8I4I8', job.due, job.priority, job.seq)
    if job.flags < ARRIVAL or job.created == job.due then return at end
    return at .. pack('>I8', job.created)
end

local function link_delayed(job)
    call('ZADD', order, 0, delayed_place(job))
    call('ZADD', delayed, 'LT', job.due, '\0' .. job.topic)
end

local function buried_place(job)
    return 'b' .. char(#job.topic) .. job.topic .. pack('>I8I8', job.till, job.seq)
end

local function is_bound(job)
    return job.flags % 2 == BOUND
end

local function increment(count) -- saturates
    return count < 65535 and count + 1 or count
end

local function time_after(now, span)
    return now + span < FOREVER and now + span or FOREVER
end

-- The partition's numbers: the last number given, all jobs ever pushed, the number of partitions, and
-- when the daemon that runs the timer will promote next.
local function state_of_all()
    local state = call('HGET', hash, 'p')
    return unpack_bytes('<I8I8I8I7', state)
end

-- Something is due at that time: notifies the daemon that runs the timer, if its next call is later.
local function notify_due(at)
    local last, pushed, partitions, promote_at = state_of_all()
    if at < promote_at then
        call('HSET', hash, 'p', pack('<I8I8I8I7', last, pushed, partitions, at))
        publish(string.format('w%.0f %.0f', last % partitions, at))
    end
end

-- One reserved job of the topic less. If the count was lost with the hash, it stays 0: rebuild.lua
-- counts only topics that still have reserved jobs.
local function count_unreserved(topic)
    if call('HINCRBY', hash, '#h' .. topic, -1) < 0 then call('HSET', hash, '#h' .. topic, 0) end
end

-- Removes the job from its set, so that its fields may change. link() or drop() must follow.
local function unlink(job)
    if job.unlinked then return end
    job.unlinked = true
    if job.state == RESERVED then
        call('ZREM', reserved, place_of(job))
        count_unreserved(job.topic)
        if is_bound(job) then
            call('ZREM', order, 'h' .. job.holder .. job.name)
        end
    elseif job.state == BURIED then
        call('ZREM', order, buried_place(job))
    elseif call('ZREM', order, delayed_place(job)) == 0 and
        call('ZREM', order, 'r' .. place_of(job)) == 0 then
        call('ZREM', delayed, place_of(job)) -- its place in layout 2: see promote_slow.lua
    end
    if job.state == RESERVED then
        if is_bound(job) then job.flags = job.flags - BOUND end
        job.holder = NOBODY
    end
    job.lease, job.till = 0, 0
end

-- Adds the unlinked job to the set of that state, and stores its head.
local function link(job, state, now)
    job.state, job.unlinked = state, nil
    if state == RESERVED then
        call('ZADD', reserved, job.till, place_of(job))
        call('HINCRBY', hash, '#h' .. job.topic, 1)
        if is_bound(job) then
            call('ZADD', order, 0, 'h' .. job.holder .. job.name)
        end
        notify_due(job.till)
    elseif state == BURIED then
        job.till = now -- the order among buried jobs
        call('ZADD', order, 0, buried_place(job))
    elseif job.due <= now then
        call('ZADD', order, 0, 'r' .. place_of(job))
        notify_ready(job.topic)
    else
        link_delayed(job)
        notify_due(job.due)
    end
    store_head(job)
end

-- Deletes the unlinked job.
local function drop(job)
    local fields = { job.name, '+' .. job.name, '*' .. job.name }
    if has_properties(job) then fields[4] = '=' .. job.name end
    if may_have_notes(job) then
        fields[#fields + 1], fields[#fields + 2] = '-' .. job.name, '~' .. job.name
    end
    call('HDEL', bucket_of(job.name), unpack(fields))
    -- It may name a newer job, while ids are put back: restore_id() in rebuild.lua.
    if job.id_len > 0 and call('HGET', hash, 'i' .. id_of(job)) == job.name then
        call('HDEL', hash, 'i' .. id_of(job))
    end
    call('HINCRBY', hash, 'g', 1)
end

-- A job of the topic was lost with its bucket: removes its place, and counts it as deleted.
local function drop_lost_job(topic, set, member)
    call('ZREM', set, member)
    if set == reserved then count_unreserved(topic) end
    call('HINCRBY', hash, 'g', 1)
    call('HINCRBY', hash, '#d' .. topic, 1)
end

local function bury(job, now)
    unlink(job)
    job.buries = increment(job.buries)
    call('HINCRBY', hash, '#b' .. job.topic, 1)
    link(job, BURIED, now)
end

-- A reserved job's attempt failed: it waits by its schedule, or is buried when that is used up.
local function fail(job, now)
    job.failures = increment(job.failures)
    if job.retries > 0 and job.failures > job.retries then
        return bury(job, now)
    end
    local wait = 0
    unlink(job)
    if job.retries > 0 then
        wait = unpack_bytes('<I8', job.record, job.waits_at + 8 * (job.failures - 1))
    end
    job.due = time_after(now, wait)
    link(job, WAITING, now)
end

local function make_due(job, now)
    unlink(job)
    job.due = now
    link(job, WAITING, now)
end

local function kick(job, now)
    job.kicks = increment(job.kicks)
    call('HINCRBY', hash, '#k' .. job.topic, 1)
    if job.state == BURIED then
        job.failures = 0 -- the schedule starts again, else the next failure would bury it
    end
    make_due(job, now)
end

-- The state that clients see: a waiting job is delayed (1) until its due time, then ready (2).
local function visible_state(job, now)
    return job.state == WAITING and job.due <= now and 2 or job.state
end

-- The job of that id, or (id empty) of that name; nil: there is none.
local function find(id, name)
    if id ~= '' then
        name = call('HGET', hash, 'i' .. id)
    end
    return name and fetch(name) or nil
end

-- Stores the answer, in case the request is repeated, and returns it.
local function store_answer(rest, answer)
    call('HSET', hash, slot, request .. answer .. rest)
    return { answer, rest }
end

-- Returns the answer of a request that changes nothing. It is stored only if the request is a
-- repetition: what was sent first may still come, late, and must not be executed then.
local function refusal(answer, rest)
    if not again then return { answer, rest } end
    even_if_full()
    return store_answer(rest or '', answer)
end

-- OK: a request with this lease (0: without one) may end or change the reservation.
local function check_lease(job, lease)
    if job.state ~= RESERVED then
        return lease > 0 and STALE_LEASE or WRONG_STATE
    end
    return lease > 0 and lease ~= job.lease and STALE_LEASE or OK
end
