-- Finish (ARGV[2] f) and delete (d), of one job, or of several, each as if it came by itself. ARGV,
-- PER_JOB for each: 1 the request, 2 which, 3 id or '', 4 number (8 bytes), 5 lease, 6 options: d
-- its work is done, f only if nobody has it reserved. KEYS: four for all of them, or four for each.
-- Answer: {it, the head as it last was}; of several: an array of such answers. Here is the common
-- case, a reserved job that ends, before anything is made that it does not need; the others are in
-- end_other.lua, behind job.lua.
local call, sub, unpack_bytes = redis.call, string.sub, struct.unpack
local PER_JOB, KEYS_EACH = 6, 4
local count, answers = #ARGV / PER_JOB, {}
local next_keys = #KEYS > KEYS_EACH and KEYS_EACH or 0

-- The fields of the heads of those that are in one partition, from `first` on.
local function heads_of(first, hash)
    local base, keys, by_id, ids = (first - 1) * PER_JOB, (first - 1) * next_keys, {}, {}
    local names = {}
    repeat
        local at = #names + 1
        names[at] = 'j' .. ARGV[base + 4]
        if ARGV[base + 3] ~= '' then by_id[#ids + 1], ids[#ids + 1] = at, 'i' .. ARGV[base + 3] end
        base, keys = base + PER_JOB, keys + next_keys
    until first + at > count or KEYS[keys + 1] ~= hash
    if #ids > 0 then
        local found = call('HMGET', hash, unpack(ids))
        for i = 1, #ids do names[by_id[i]] = 'j' .. (found[i] or '') end
    end
    return names
end

-- Ends those that are in one partition, from `first` on. Returns the first that is not done: it is
-- in another one, or not the common case.
local function end_alike(first)
    local base, keys = (first - 1) * PER_JOB, (first - 1) * next_keys
    local hash, done, seen = KEYS[keys + 1], 0, {}
    local names = heads_of(first, hash)
    local heads = call('HMGET', hash, unpack(names))
    local gone, places, held, sets, fields, change = {}, {}, {}, {}, { 'g' }, {}
    while done < #names do
        local at, field, raw = base + done * PER_JOB, names[done + 1], heads[done + 1]
        if not raw or seen[field] or string.byte(ARGV[at + 1]) ~= 48 or -- it is sent again
            (ARGV[at + 6] ~= '' and ARGV[at + 6] ~= 'd') then
            break
        end
        local state, flags, _, _, lease = unpack_bytes(HEAD.STATE_TO_LEASE, raw)
        if state ~= 3 or (ARGV[at + 5] ~= '0' and lease ~= tonumber(ARGV[at + 5])) then break end
        local id_len, priority, _, due, _, created, _, topic_len =
            unpack_bytes(HEAD.ID_LEN_TO_TOPIC_LEN, raw, HEAD.ID_LEN)
        local name, topic = sub(field, 2), sub(raw, HEAD.TOPIC, HEAD.BYTES + topic_len)
        local rank, n = flags >= 2 and created or due, #gone
        -- As say() has it, with the number as it lies in the head.
        local answer = '\0\3\0\0\1\0\0\0\0\0\0\0\0\0\0\0' .. sub(raw, HEAD.SEQ, HEAD.SEQ_END) ..
            '\0\0\0\0\0\0\0\0'
        local reserved_now, ended = '#h' .. topic, '#f' .. topic
        if ARGV[at + 2] == 'd' and ARGV[at + 6] == '' then ended = '#d' .. topic end
        done, seen[field] = done + 1, true
        places[done] = sub(raw, HEAD.TOPIC_LEN, HEAD.TOPIC_LEN) .. topic ..
            struct.pack('>I4I8', priority, rank) .. name
        if flags % 2 == 1 then
            held[#held + 1] = 'h' .. sub(raw, HEAD.HOLDER, HEAD.HOLDER_END) .. name
        end
        gone[n + 1], gone[n + 2] = field, 'b' .. name
        if id_len > 0 then
            gone[n + 3] = 'i' .. sub(raw, HEAD.TOPIC + topic_len, HEAD.BYTES + topic_len + id_len)
        end
        if not change[reserved_now] then change[reserved_now], fields[#fields + 1] = 0, reserved_now end
        if not change[ended] then change[ended], fields[#fields + 1] = 0, ended end
        change[reserved_now], change[ended] = change[reserved_now] - 1, change[ended] + 1
        sets[2 * done - 1] = sub(ARGV[at + 1], 2, 12)
        sets[2 * done] = sub(ARGV[at + 1], 13, 20) .. answer .. raw
        answers[first - 1 + done] = { answer, raw }
    end
    if done > 0 then
        call('ZREM', KEYS[keys + 3], unpack(places))
        if #held > 0 then call('ZREM', KEYS[keys + 4], unpack(held)) end
        call('HDEL', hash, unpack(gone))
        local counts = call('HMGET', hash, unpack(fields))
        change.g = done
        for i = 1, #fields do
            local field = fields[i]
            local n = #sets
            sets[n + 1], sets[n + 2] = field, (counts[i] or 0) + change[field]
        end
        call('HSET', hash, unpack(sets))
    end
    return first + done
end

local function end_common(from)
    local next_job = from <= count and end_alike(from) or from
    while next_job > from and next_job <= count do
        from, next_job = next_job, end_alike(next_job)
    end
    return next_job
end

local at_job = end_common(1)
if at_job > count then return count == 1 and answers[1] or answers end
