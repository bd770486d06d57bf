-- Finish (ARGV[2] f) and delete (d), of one job, or of several, each as if it came by itself. ARGV,
-- PER_JOB for each: 1 the request, 2 which, 3 id or '', 4 number (8 bytes), 5 lease, 6 options: d
-- its work is done, f only if nobody has it reserved. KEYS: four for all of them, or four for each.
-- Answer: {it, the head as it last was}; of several: an array of such answers. Here is the common
-- case, reserved jobs that end, for all that follow each other and are in one partition; the others
-- are in end_other.lua, which is other().
local call, sub, unpack_bytes = redis.call, string.sub, struct.unpack
local PER_JOB = 6
local count, keys_each = #ARGV / PER_JOB, #KEYS > 4 and 4 or 0
local answers, answered = { '' }, 0
while answered < count do
    local base, keys = answered * PER_JOB, answered * keys_each
    local hash, alike, at, names, ids, by_id, seen = KEYS[keys + 1], 0, base, { '' }, nil, nil, nil
    repeat
        local id = ARGV[at + 3]
        alike = alike + 1
        names[alike] = 'j' .. ARGV[at + 4]
        if id ~= '' then
            ids, by_id = ids or {}, by_id or {}
            by_id[#ids + 1], ids[#ids + 1] = alike, 'i' .. id
        end
        at = at + PER_JOB
    until answered + alike >= count or KEYS[keys + alike * keys_each + 1] ~= hash
    if ids then
        local found = call('HMGET', hash, unpack(ids))
        for i = 1, #ids do names[by_id[i]] = 'j' .. (found[i] or '') end
    end
    if alike > 1 then seen = {} end
    local heads, done, n = call('HMGET', hash, unpack(names)), 0, 0
    local places, held, gone = { '' }, nil, { '', '', '' }
    local fields, sums, sets = { 'g', '', '' }, { 0, 0, 0 }, { '', '', '', '', '', '', '', '' }
    local sum_of = nil -- where a field stands in `fields`, if there are several jobs
    at = base
    while done < alike do
        local field, raw = names[done + 1], heads[done + 1]
        if not raw or seen and seen[field] or string.byte(ARGV[at + 1]) ~= 48 or -- it is sent again
            (ARGV[at + 6] ~= '' and ARGV[at + 6] ~= 'd') then
            break
        end
        local state, flags, _, _, lease = unpack_bytes(HEAD.STATE_TO_LEASE, raw)
        if state ~= 3 or (ARGV[at + 5] ~= '0' and lease ~= tonumber(ARGV[at + 5])) then break end
        local id_len, priority, _, due, _, created, _, topic_len =
            unpack_bytes(HEAD.ID_LEN_TO_TOPIC_LEN, raw, HEAD.ID_LEN)
        local name, topic = sub(field, 2), sub(raw, HEAD.TOPIC, HEAD.BYTES + topic_len)
        local rank = flags >= 2 and created or due
        -- As say() has it, with the number as it lies in the head.
        local answer = '\0\3\0\0\1\0\0\0\0\0\0\0\0\0\0\0' .. sub(raw, HEAD.SEQ, HEAD.SEQ_END) ..
            '\0\0\0\0\0\0\0\0'
        local reserved_now, ended = '#h' .. topic, '#f' .. topic
        if ARGV[at + 2] == 'd' and ARGV[at + 6] == '' then ended = '#d' .. topic end
        done = done + 1
        places[done] = sub(raw, HEAD.TOPIC_LEN, HEAD.TOPIC_LEN) .. topic ..
            struct.pack('>I4I8', priority, rank) .. name
        if flags % 2 == 1 then
            held = held or {}
            held[#held + 1] = 'h' .. sub(raw, HEAD.HOLDER, HEAD.HOLDER_END) .. name
        end
        gone[n + 1], gone[n + 2], n = field, 'b' .. name, n + 2
        if id_len > 0 then
            n = n + 1
            gone[n] = 'i' .. sub(raw, HEAD.TOPIC + topic_len, HEAD.BYTES + topic_len + id_len)
        end
        if done == 1 then
            fields[2], fields[3], sums[2], sums[3] = reserved_now, ended, -1, 1
        else
            sum_of = sum_of or { [fields[2]] = 2, [fields[3]] = 3 }
            local h, e = sum_of[reserved_now] or #fields + 1, nil
            fields[h], sums[h], sum_of[reserved_now] = reserved_now, (sums[h] or 0) - 1, h
            e = sum_of[ended] or #fields + 1
            fields[e], sums[e], sum_of[ended] = ended, (sums[e] or 0) + 1, e
        end
        if seen then seen[field] = true end
        sets[2 * done - 1] = sub(ARGV[at + 1], 2, 12)
        sets[2 * done] = sub(ARGV[at + 1], 13, 20) .. answer .. raw
        answers[answered + done] = { answer, raw }
        at = at + PER_JOB
    end
    if done > 0 then
        call('ZREM', KEYS[keys + 3], unpack(places))
        if held then call('ZREM', KEYS[keys + 4], unpack(held)) end
        call('HDEL', hash, unpack(gone, 1, n))
        local counts = call('HMGET', hash, unpack(fields))
        n, sums[1] = 2 * done, done
        for i = 1, #fields do
            sets[n + 1], sets[n + 2], n = fields[i], (counts[i] or 0) + sums[i], n + 2
        end
        call('HSET', hash, unpack(sets, 1, n))
    else
        done = 1
        answers[answered + 1] = other({ unpack(KEYS, keys + 1, keys + 4) },
            { unpack(ARGV, base + 1, base + PER_JOB) })
    end
    answered = answered + done
end
return count == 1 and answers[1] or answers
