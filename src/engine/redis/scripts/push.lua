-- Push, of one job, or of several, each as if it came by itself. ARGV, PER_JOB for each: 1 the
-- request; 2 and 3 the head, what comes before its number and what after its time of making;
-- 4 content type and body, 5 due, 6 the start of its place (topic's length, topic, priority, and
-- due unless a), 7 '#p' and the topic, 8 'i' and the id, or '', 9 its order (d due, a arrival) or b
-- buried, 10 if it exists (j reject, p replace, k keep), 11 and 12 most jobs and topics (0: any).
-- KEYS: four for all of them, or four for each.
-- Answer: {it}, or {it, head} if a job of that id is kept: else the head is what was sent, with
-- number and time. Of several: an array of such answers. Here is the common case, before anything
-- is made that it does not need; the others are in push_other.lua, behind job.lua.
local call, pack, sub, byte = redis.call, struct.pack, string.sub, string.byte
local PER_JOB, KEYS_EACH = 12, 4
local count, answers = #ARGV / PER_JOB, {}
local next_keys = #KEYS > KEYS_EACH and KEYS_EACH or 0

-- Pushes, from `first` on, those that go to one partition and topic and are all ready, or all
-- delayed. Returns the first that is not done: it is none of these, or not the common case.
local function push_alike(first)
    local base, keys = (first - 1) * PER_JOB, (first - 1) * next_keys
    local hash, topic, now = KEYS[keys + 1], ARGV[base + 7], clock_of(ARGV[base + 1])
    local ready = tonumber(ARGV[base + 5]) <= now
    local fields, alike, at = { 's', topic, ready and '#w' .. sub(topic, 3) or '' }, 0, base
    repeat
        alike = alike + 1
        fields[3 + alike] = ARGV[at + 8]
        at, keys = at + PER_JOB, keys + next_keys
    until first + alike > count or ARGV[at + 7] ~= topic or KEYS[keys + 1] ~= hash or
        (tonumber(ARGV[at + 5]) <= now) ~= ready
    local found = call('HMGET', hash, unpack(fields))
    -- The topic is known, and nobody waits.
    if not found[1] or not found[2] or found[3] then return first end
    local last, pushed, partitions, wake = struct.unpack('<I8I8I8I8', found[1])
    local sets, places, seen, done, n = { 's', '', topic, '' }, {}, {}, 0, 4
    at = base
    while done < alike do
        local id, due = ARGV[at + 8], ARGV[at + 5]
        -- Not the common case: the id is known, or the request is one that is sent again.
        if found[4 + done] or seen[id] or ARGV[at + 9] == 'b' or byte(ARGV[at + 1]) ~= 48 or
            pushed >= tonumber(ARGV[at + 11]) or not (ready or tonumber(due) >= wake) then
            break
        end
        local seq = now - now % partitions + last % partitions -- as number_after() has it
        if seq <= last then seq = last + partitions end
        local name, made = pack('>I8', seq), pack('<I8I8', seq, now)
        local place = ARGV[at + 6]
        if ARGV[at + 9] == 'a' then place = place .. pack('>I8', now) end
        done, last, pushed = done + 1, seq, pushed + 1
        local answer = nil -- as say() has it
        if ready then
            answer = '\0\2\0\0\1\0\0\0\0\0\0\0\0\0\0\0' .. made
            places[2 * done - 1], places[2 * done] = '0', 'r' .. place .. name
        else
            answer = '\0\1\0\0\1\0\0\0\0\0\0\0\0\0\0\0' .. made
            places[2 * done - 1], places[2 * done] = due, place .. name
        end
        answers[first - 1 + done] = answer
        sets[n + 1], sets[n + 2] = 'j' .. name, ARGV[at + 2] .. made .. ARGV[at + 3]
        sets[n + 3], sets[n + 4] = 'b' .. name, ARGV[at + 4]
        sets[n + 5], sets[n + 6] = sub(ARGV[at + 1], 2, 12), sub(ARGV[at + 1], 13, 20) .. answer
        n = n + 6
        if id ~= '' then
            sets[n + 1], sets[n + 2], seen[id], n = id, name, true, n + 2
        end
        at = at + PER_JOB
    end
    if done > 0 then
        sets[2], sets[4] = pack('<I8I8I8I8', last, pushed, partitions, wake), found[2] + done
        keys = (first - 1) * next_keys
        call('ZADD', KEYS[keys + (ready and 4 or 2)], unpack(places))
        call('HSET', hash, unpack(sets))
    end
    return first + done
end

local function push_common(from)
    local next_job = from <= count and push_alike(from) or from
    while next_job > from and next_job <= count do
        from, next_job = next_job, push_alike(next_job)
    end
    return next_job
end

local at_job = push_common(1)
if at_job > count then return count == 1 and answers[1] or answers end
