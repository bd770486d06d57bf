-- The body of job_functions() in reserve_slow.lua: what it needs only if there are jobs. Returns functions.
local AT_ONCE = 32 -- jobs read together
local reserves = {}

-- `stored`: the answer of the first execution, which is repeated. Returns those of its jobs that still
-- have the lease of then.
function reserves.still_held(stored)
    local jobs = {}
    for from = 1, #stored, 16 do
        local job = fetch(sub(stored, from, from + 7))
        if job and job.lease == unpack_bytes('<I8', stored, from + 8) then
            jobs[#jobs + 1] = job_with_content(job)
        end
    end
    return jobs
end

-- Reads the jobs at these places; adjacent ones of the same bucket by one command. Returns them by
-- place.
local function read_some(candidates, from, upto)
    local found_at = {}
    while from <= upto do
        local bucket, wanted, first_of_all = byte(candidates[from], -3), {}, from
        while from <= upto and byte(candidates[from], -3) == bucket do
            local name = sub(candidates[from], -8)
            wanted[#wanted + 1], wanted[#wanted + 2] = name, '+' .. name
            from = from + 1
        end
        local known = call('HMGET', buckets .. bucket, unpack(wanted))
        local more, found_in = {}, {} -- fields with properties and notes, and their jobs
        for i = first_of_all, from - 1 do
            local place = 2 * (i - first_of_all)
            local job = known[place + 1] and
                read(wanted[place + 1], known[place + 1], known[place + 2]) or
                fetch(wanted[place + 1]) -- it is in an older layout, or lost
            found_at[i] = job
            if job and has_properties(job) then
                more[#more + 1], found_in[#found_in + 1] = '=' .. job.name, job
            end
            if job and may_have_notes(job) then
                more[#more + 1], found_in[#found_in + 1] = '-' .. job.name, job
            end
        end
        known = #more > 0 and call('HMGET', buckets .. bucket, unpack(more))
        for i = 1, #more do
            local field = byte(more[i]) == 61 and 'properties' or 'note' -- 61: =
            found_in[i][field] = known[i] or ''
        end
    end
    return found_at
end

-- Reserves the first of `candidates`, places of ready jobs: at most `most` jobs, until they have
-- `most_bytes`. `last`: the last lease given. Returns the jobs for the answer, the first candidate that
-- is left, the bytes, the last lease, when the first lease ends, how many were taken by topic, and what
-- is stored in case the request is repeated.
function reserves.take(candidates, most, most_bytes, now, last, partitions, call_in_chunks)
    local bound, own_ttr = string.find(ARGV[2], 'b', 1, true), tonumber(string.match(ARGV[2], '%d+'))
    local jobs, gone, held, reservations, taken, bodies, lost = {}, {}, {}, {}, {}, {}, {}
    local heads, heads_in = {}, {} -- by bucket; the buckets
    local count, bytes, at, soonest, daemon = 0, 0, 1, FOREVER, sub(slot, 2, 9)
    while at <= #candidates and count < most and bytes < most_bytes do
        local upto = math.min(#candidates, at + math.min(AT_ONCE, most - count) - 1)
        local found_at = read_some(candidates, at, upto)
        for i = at, upto do
            if bytes >= most_bytes then break end
            local candidate, job = candidates[i], found_at[i]
            at = i + 1
            gone[#gone + 1] = candidate
            if not job then -- its bucket was lost
                lost[#lost + 1] = sub(candidate, 3, 2 + byte(candidate, 2))
            else
                local bucket = byte(candidate, -3)
                job.till = now + (own_ttr or job.ttr)
                if job.till > FOREVER then job.till = FOREVER end
                if job.reserves < 65535 then job.reserves = job.reserves + 1 end
                last = number_after(last, partitions, now)
                job.head = pack(HEAD.STATE_TO_DUE, RESERVED, bound and job.flags + BOUND or job.flags,
                    job.reserves, job.till, last, bound and daemon or NOBODY, job.failures,
                    job.timeouts, job.releases, job.buries, job.kicks, job.priority, job.delay_s,
                    job.due)
                count = count + 1
                if is_apart(job) then
                    bytes = bytes + unpack_bytes(LONG.BODY_LEN_FORMAT, job.record, LONG.BODY_LEN)
                else
                    bytes = bytes + #job.record - job.content_at + 1
                end
                bytes = bytes + #(job.properties or '')
                jobs[count], reservations[count] = job, job.name .. pack('<I8', last)
                if not heads[bucket] then
                    heads[bucket], heads_in[#heads_in + 1] = {}, bucket
                end
                local set = heads[bucket]
                set[#set + 1], set[#set + 2] = '+' .. job.name, job.head
                held[2 * count - 1], held[2 * count] = job.till, sub(candidate, 2)
                taken[job.topic] = (taken[job.topic] or 0) + 1
                if job.till < soonest then soonest = job.till end
            end
        end
    end
    for i = 1, count do bodies[i] = job_with_content(jobs[i]) end

    -- The first write is a ZREM, which needs no memory.
    call_in_chunks('ZREM', order, gone)
    call_in_chunks('ZADD', reserved, held)
    for i = 1, #heads_in do call_in_chunks('HSET', buckets .. heads_in[i], heads[heads_in[i]]) end
    for i = 1, #lost do
        call('HINCRBY', hash, 'g', 1)
        call('HINCRBY', hash, '#d' .. lost[i], 1)
    end
    for i = 1, bound and 0 or count do journal_change(jobs[i], RESERVED, 0, now) end
    if bound then
        for i = 1, count do call('ZADD', order, '0', 'h' .. daemon .. sub(reservations[i], 1, 8)) end
    end
    return bodies, at, bytes, last, soonest, taken, table.concat(reservations)
end

return reserves
