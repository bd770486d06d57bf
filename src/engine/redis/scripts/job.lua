-- A job's head as a table and back, and its place in the sorted sets. Put before the scripts that
-- change jobs.
local function read(raw)
    local state, flags, reserves, till, lease, holder, failures, timeouts, releases, buries, kicks,
        retries, id_len, priority, delay_s, due, seq, created, ttr, topic_len =
        unpack_bytes(HEAD.STATE_TO_TOPIC_LEN, raw)
    return {
        raw = raw, state = state, flags = flags, failures = failures, reserves = reserves,
        timeouts = timeouts, releases = releases, buries = buries, kicks = kicks,
        retries = retries, id_len = id_len, priority = priority, delay_s = delay_s, due = due,
        till = till, lease = lease, holder = holder, seq = seq, created = created, ttr = ttr,
        topic = sub(raw, HEAD.TOPIC, HEAD.BYTES + topic_len), name = pack('>I8', seq),
    }
end

local function head_of(job)
    return pack(HEAD.STATE_TO_DUE, job.state, job.flags, job.reserves, job.till, job.lease,
        job.holder, job.failures, job.timeouts, job.releases, job.buries, job.kicks, job.retries,
        job.id_len, job.priority, job.delay_s, job.due) .. sub(job.raw, HEAD.SEQ)
end

local function id_of(job)
    local from = HEAD.TOPIC + #job.topic
    return sub(job.raw, from, from + job.id_len - 1)
end

-- Among equal scores, bytes decide: priority, then due time or arrival, then number.
local function place_of(job)
    local rank = job.flags >= ARRIVAL and job.created or job.due
    return char(#job.topic) .. job.topic .. pack('>I4I8I8', job.priority, rank, job.seq)
end

-- Where a job waits until it is due: behind its topic, in the order of due times. `delayed` has when
-- the first one of each topic is due, or sooner, for that one may have gone: promote.lua looks.
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

local function up(count) -- stops at its largest value
    return count < 65535 and count + 1 or count
end

local function after(now, span)
    return now + span < FOREVER and now + span or FOREVER
end

-- The partition's numbers: the last one given, jobs pushed ever, partitions, and when the timer's
-- owner means to look next.
local function state_of_all()
    local state = call('HGET', hash, 's')
    return unpack_bytes('<I8I8I8I8', state)
end

-- Something is due at that time: tell the timer's owner if that is sooner than it knows.
local function tell_due(at)
    local last, pushed, partitions, wake = state_of_all()
    if at < wake then
        call('HSET', hash, 's', pack('<I8I8I8I8', last, pushed, partitions, at))
        publish(string.format('w%.0f %.0f', last % partitions, at))
    end
end

-- Takes the job off where it hangs, so that its fields may change. place() or drop() must follow.
local function lift(job)
    if job.lifted then return end
    job.lifted = true
    if job.state == RESERVED then
        call('ZREM', reserved, place_of(job))
        call('HINCRBY', hash, '#h' .. job.topic, -1)
        if is_bound(job) then
            call('ZREM', order, 'h' .. job.holder .. job.name)
        end
    elseif job.state == BURIED then
        call('ZREM', order, buried_place(job))
    elseif call('ZREM', order, delayed_place(job)) == 0 and
        call('ZREM', order, 'r' .. place_of(job)) == 0 then
        call('ZREM', delayed, place_of(job)) -- layout 2 had it there: see promote.lua
    end
    if job.state == RESERVED then
        if is_bound(job) then job.flags = job.flags - BOUND end
        job.holder = '\0\0\0\0\0\0\0\0'
    end
    job.lease, job.till = 0, 0
end

-- Hangs the lifted job where the state says, and keeps its head.
local function place(job, state, now)
    job.state, job.lifted = state, nil
    if state == RESERVED then
        call('ZADD', reserved, job.till, place_of(job))
        call('HINCRBY', hash, '#h' .. job.topic, 1)
        if is_bound(job) then
            call('ZADD', order, 0, 'h' .. job.holder .. job.name)
        end
        tell_due(job.till)
    elseif state == BURIED then
        job.till = now -- the order among buried jobs
        call('ZADD', order, 0, buried_place(job))
    elseif job.due <= now then
        call('ZADD', order, 0, 'r' .. place_of(job))
        tell_ready(job.topic)
    else
        link_delayed(job)
        tell_due(job.due)
    end
    job.raw = head_of(job)
    call('HSET', hash, 'j' .. job.name, job.raw)
end

-- Forgets the lifted job.
local function drop(job)
    call('HDEL', hash, 'j' .. job.name, 'b' .. job.name)
    if job.id_len > 0 then
        call('HDEL', hash, 'i' .. id_of(job))
    end
    call('HINCRBY', hash, 'g', 1)
end

local function bury(job, now)
    lift(job)
    job.buries = up(job.buries)
    call('HINCRBY', hash, '#b' .. job.topic, 1)
    place(job, BURIED, now)
end

-- A reserved job's attempt failed: again by its schedule, or buried when that is used up.
local function fail(job, now)
    job.failures = up(job.failures)
    if job.retries > 0 and job.failures > job.retries then
        return bury(job, now)
    end
    local wait = 0
    lift(job)
    if job.retries > 0 then
        local from = HEAD.TOPIC + #job.topic + job.id_len + 8 * (job.failures - 1)
        wait = unpack_bytes('<I8', job.raw, from)
    end
    job.due = after(now, wait)
    place(job, WAITING, now)
end

local function run(job, now)
    lift(job)
    job.due = now
    place(job, WAITING, now)
end

local function kick(job, now)
    job.kicks = up(job.kicks)
    call('HINCRBY', hash, '#k' .. job.topic, 1)
    if job.state == BURIED then
        job.failures = 0 -- the schedule starts over: else the next failure would bury it again
    end
    run(job, now)
end

-- What clients see: waiting is delayed (1) until the due time, ready (2) from then on.
local function shown(job, now)
    return job.state == WAITING and job.due <= now and 2 or job.state
end

-- The job of that id, or (id empty) of that name; nil: there is none.
local function find(id, name)
    if id ~= '' then
        name = call('HGET', hash, 'i' .. id)
    end
    local raw = name and call('HGET', hash, 'j' .. name)
    return raw and read(raw) or nil
end

-- Keeps the answer for a request that is sent again, and gives it.
local function keep(head, answer)
    call('HSET', hash, slot, request .. answer .. head)
    return { answer, head }
end

-- May somebody with this lease (0: none given) end or change the reservation? 0 = yes.
local function check_lease(job, lease)
    if job.state ~= RESERVED then
        return lease > 0 and STALE_LEASE or WRONG_STATE
    end
    return lease > 0 and lease ~= job.lease and STALE_LEASE or OK
end
