-- Finishes or deletes one job, or several. The effect is that of one request after the other.
-- Idempotent: answers are stored.
--
-- KEYS: four of each partition (common.lua); see turn.lua.
-- ARGV, PER_JOB for each request:
--   1  the request (common.lua)
--   2  'f' finish, 'd' delete
--   3  the client's id, or ''
--   4  the job's number (8 bytes); used if there is no id
--   5  the lease; 0 without one
--   6  options of a delete: 'd' count it as finished: its work is done; 'f' only if the job is not
--      reserved. Of both, behind these: 'b' the answer is brief
-- Returns {header, job without content, as it was before}; brief: the header. seq: its number; state:
-- the state before. Errors: NOT_FOUND, STALE_LEASE, WRONG_STATE. Several requests: an array of such
-- answers.
--
-- This file is the fast path: reserved jobs, without entries for the journal. It takes adjacent
-- requests for one partition together. All other requests are handled one by one by slow_path(), which
-- is end_slow.lua.
-- Cost: for k jobs that go together O(k log n), with one read and one write for each bucket that
-- holds some of them.
local call, sub, byte, unpack_bytes = redis.call, string.sub, string.byte, struct.unpack
local PER_JOB = 6
local count = many or #ARGV / PER_JOB
local answers, answered, journal = { '' }, 0, nil
-- The counts that the last requests changed; at first those of a topic that turn.lua guesses. They are
-- read together with the other fields, since most requests change the same counts.
local last = likely_topic and { 'g', '#h' .. likely_topic, '#f' .. likely_topic }
while answered < count do
    local base, partition = args_from + answered * PER_JOB, routes and byte(routes, routes_from + answered + 1)
    local keys = routes and 4 * partition or 0
    local hash, batch_size, at, names, ids, by_id, seen = KEYS[keys + 1], 0, base, { '' }, nil, nil, nil
    local without_lease = false
    repeat
        local id = ARGV[at + 3]
        batch_size, without_lease = batch_size + 1, without_lease or ARGV[at + 5] == '0'
        names[batch_size] = ARGV[at + 4]
        if id ~= '' then
            ids, by_id = ids or {}, by_id or {}
            by_id[#ids + 1], ids[#ids + 1] = batch_size, 'i' .. id
        end
        at = at + PER_JOB
    until journal or answered + batch_size >= count or
        (routes and byte(routes, routes_from + answered + batch_size + 1) ~= partition)
    local n, found = ids and #ids or 0, nil
    if ids or last then
        ids = ids or {}
        ids[n + 1] = 'j'
        if last then ids[n + 2], ids[n + 3], ids[n + 4] = 'g', last[2], last[3] end
        found = call('HMGET', hash, unpack(ids))
        journal = found[n + 1]
    else
        journal = call('HGET', hash, 'j')
    end
    if n > 0 then
        for i = 1, n do names[by_id[i]] = found[i] or '' end
    end
    -- A late request must not end the next job of that id, or a later reservation.
    if n > 0 or without_lease then clock_of(ARGV[base + 1]) end
    if journal and byte(journal, 33) == 120 then journal = nil end -- 120: x, the journal was given up
    if journal then batch_size = 1 end -- its entries are written in end_slow.lua
    if batch_size > 1 then seen = {} end
    -- Reads records and heads, of adjacent jobs in the same bucket at once.
    local buckets = sub(hash, 1, -2) .. 'j' -- as in bucket_of()
    local jobs, from = nil, 1
    while from <= batch_size do
        local bucket, wanted, upto = byte(names[from], 6), { names[from], '+' .. names[from] }, from
        while upto < batch_size and byte(names[upto + 1], 6) == bucket do
            upto = upto + 1
            wanted[#wanted + 1], wanted[#wanted + 2] = names[upto], '+' .. names[upto]
        end
        local some = bucket and call('HMGET', buckets .. bucket, unpack(wanted)) or { false, false }
        if not jobs then
            jobs = some
        else
            for i = 1, #wanted do jobs[2 * from - 2 + i] = some[i] or false end
        end
        from = upto + 1
    end
    local done, places, held, gone, gone_ids = 0, { '' }, nil, {}, nil
    local fields, sums, sets = { 'g', '', '' }, { 0, 0, 0 }, { '', '', '', '', '', '', '', '' }
    local index_of = nil -- field -> its index in `fields`, if there are several jobs
    at = base
    while done < batch_size do
        local name, record, head = names[done + 1], jobs[2 * done + 1], jobs[2 * done + 2]
        local options = ARGV[at + 6]
        if not record or not head or journal or seen and seen[name] or
            not is_first(hash, ARGV[at + 1]) or byte(options) == 102 or byte(options, 2) == 102 then -- 102: f
            break
        end
        local state, flags, _, _, lease = unpack_bytes(HEAD.STATE_TO_LEASE, head)
        if state ~= 3 or (ARGV[at + 5] ~= '0' and lease ~= tonumber(ARGV[at + 5])) then break end
        local form, id_len, topic_len, retries = unpack_bytes(SHORT.FORM_TO_RETRIES, record)
        local long = form % 2 == 1
        local topic_at = long and LONG.TOPIC or form % 64 >= 32 and COMPACT.TOPIC or SHORT.TOPIC
        local topic = sub(record, topic_at, topic_at + topic_len - 1)
        local priority, _, rank = unpack_bytes(HEAD.PRIORITY_TO_DUE, head, HEAD.PRIORITY)
        if flags >= 2 and form % 64 >= 32 then -- by arrival; as in created_of()
            rank = unpack_bytes('>I8', name) + 1024 -
                unpack_bytes(COMPACT.AHEAD_FORMAT, record, COMPACT.AHEAD)
        elseif flags >= 2 then
            rank = unpack_bytes(LONG.CREATED_FORMAT, record, long and LONG.CREATED or SHORT.CREATED)
        end
        -- As in header().
        local answer = '\0\3\0\0\1\0\0\0\0\0\0\0\0\0\0\0' .. string.reverse(name) ..
            '\0\0\0\0\0\0\0\0'
        local reserved_now, ended = '#h' .. topic, '#f' .. topic
        if ARGV[at + 2] == 'd' and byte(options) ~= 100 then ended = '#d' .. topic end -- 100: d
        done = done + 1
        places[done] = sub(record, 3, 3) .. topic ..
            struct.pack('>I4I8', priority, rank) .. name
        if flags % 2 == 1 then
            held = held or {}
            held[#held + 1] = 'h' .. sub(head, HEAD.HOLDER, HEAD.HOLDER_END) .. name
        end
        local bucket = byte(name, 6)
        local of = gone[bucket] or {}
        gone[bucket] = of
        of[#of + 1], of[#of + 2] = name, '+' .. name
        if form % 16 >= 8 then of[#of + 1] = '*' .. name end
        if form % 32 >= 16 then of[#of + 1] = '=' .. name end
        if sub(head, HEAD.RELEASES, HEAD.BURIES_END) ~= '\0\0\0\0' then -- as in may_have_notes()
            of[#of + 1], of[#of + 2] = '-' .. name, '~' .. name
        end
        if id_len > 0 then
            local id = 'i' .. sub(record, topic_at + topic_len, topic_at + topic_len + id_len - 1)
            gone_ids = gone_ids or {}
            -- It may name a newer job, while ids are put back: restore_id() in rebuild.lua.
            if ARGV[at + 3] ~= '' or call('HGET', hash, id) == name then gone_ids[#gone_ids + 1] = id end
        end
        if done == 1 then
            fields[2], fields[3], sums[2], sums[3] = reserved_now, ended, -1, 1
        else
            index_of = index_of or { [fields[2]] = 2, [fields[3]] = 3 }
            local h, e = index_of[reserved_now] or #fields + 1, nil
            fields[h], sums[h], index_of[reserved_now] = reserved_now, (sums[h] or 0) - 1, h
            e = index_of[ended] or #fields + 1
            fields[e], sums[e], index_of[ended] = ended, (sums[e] or 0) + 1, e
        end
        if seen then seen[name] = true end
        sets[2 * done - 1] = sub(ARGV[at + 1], 2, 12)
        if byte(options, -1) == 98 then -- 98: b
            sets[2 * done] = sub(ARGV[at + 1], 13, 20) .. answer
            answers[answered + done] = answer
        else -- as in job_without_content()
            local behind = topic_at + topic_len + id_len + 8 * retries
            local job = name .. head .. sub(record, 1, behind - 1)
            if not long then job = job .. struct.pack('<H', #record - behind + 1) end
            sets[2 * done] = sub(ARGV[at + 1], 13, 20) .. answer .. job
            answers[answered + done] = { answer, job }
        end
        at = at + PER_JOB
    end
    if done > 0 then
        call('ZREM', KEYS[keys + 3], unpack(places))
        if held then call('ZREM', KEYS[keys + 4], unpack(held)) end
        for bucket, of in pairs(gone) do call('HDEL', buckets .. bucket, unpack(of)) end
        if gone_ids and gone_ids[1] then call('HDEL', hash, unpack(gone_ids)) end
        local counts, at_count = found, n + 1
        if not last or fields[4] or fields[2] ~= last[2] or fields[3] ~= last[3] then
            counts, at_count = call('HMGET', hash, unpack(fields)), 0
        end
        last = not fields[4] and fields
        n, sums[1] = 2 * done, done
        for i = 1, #fields do
            local sum = (counts[at_count + i] or 0) + sums[i]
            sets[n + 1] = fields[i]
            sets[n + 2] = string.format('%d', sum > 0 and sum or 0) -- as count_unreserved() has it
            n = n + 2
        end
        call('HSET', hash, unpack(sets, 1, n))
    else
        done = 1
        answers[answered + 1] = slow_path(keys, base, PER_JOB)
    end
    answered = answered + done
end
return count == 1 and answers[1] or answers
