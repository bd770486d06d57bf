-- Pushes one job, or several. The effect is that of one request after the other. Idempotent:
-- answers are stored.
--
-- KEYS: four of each partition (common.lua); see turn.lua.
-- ARGV, PER_JOB for each request:
--   1   the request (common.lua)
--   2   the part of the record before the creation time; of a compact record, before AHEAD
--       (record.lua)
--   3   the part of the record after it
--   4   what is not in the record: if the job has properties, their length (2 bytes) and the
--       properties; then content type and body, if they are stored apart
--   5   when the job is due
--   6   the beginning of its place among ready jobs: length of the topic (1 byte), topic, priority
--       (4 bytes), and the due time (8 bytes) unless it is sorted by arrival
--   7   '#p' and the topic
--   8   'i' and the client's id; '' without an id
--   9   'd' sorted by due time, 'a' by arrival, 'b' buried. If the job is moved here from another
--       queue, then: creation time (7 bytes), attempts (2), failures (2). If it is of a restore
--       (restore.lua), then: the restore's number (8), and '=' if the journal has the same row
--       already, so that no entry is added for it
--   10  if a job of that id exists: 'j' reject, 'p' replace it, 'k' keep it (all jobs of a restore)
--   11  the most jobs in this partition
--   12  the most topics in this partition; 0 no limit
--   13  the beginning of its place while it is delayed: 'w', length of the topic, topic, due time,
--       priority
-- Returns {header}. seq: the job's number; now: the time; next_us: the creation time if that is
-- another, else 0; state: 1 delayed, 2 ready, 4 buried; REPLACED: another job had this id. With
-- KEPT {header, job}: the job that has this id (of a restore, the job may be missing). Errors:
-- EXISTS, JOBS_LIMIT, TOPICS_LIMIT, BEHIND (the journal is too far behind), ENDED and LAPSED
-- (restore). Several requests: an array of such answers.
--
-- This file is the fast path. It takes adjacent requests together if they are for the same
-- partition and topic, all ready or all delayed, their ids are new, and all or none belong to one
-- restore. All other requests are handled one by one by slow_path(), which is push_slow.lua.
-- Cost: for k jobs that go together 4 to 6 commands, O(k log n) with n jobs in the partition.
local call, pack, sub, byte = redis.call, struct.pack, string.sub, string.byte
local PER_JOB, AHEAD_MAX = 13, 50000 -- the latter as common.lua has it
local count = many or #ARGV / PER_JOB
local answers, answered = { '' }, 0
while answered < count do
    local base, partition = args_from + answered * PER_JOB, routes and byte(routes, routes_from + answered + 1)
    local keys = routes and 4 * partition or 0
    local hash, topic, now = KEYS[keys + 1], ARGV[base + 7], clock_of(ARGV[base + 1])
    local ready = tonumber(ARGV[base + 5]) <= now
    local fields = { 'p', topic, ready and '#w' .. sub(topic, 3) or '', ARGV[base + 8] }
    local batch_size, at, done, seen, width = 1, base + PER_JOB, 0, nil, #ARGV[base + 9]
    while width ~= 12 and answered + batch_size < count and ARGV[at + 7] == topic and
        #ARGV[at + 9] == width and (not routes or byte(routes, routes_from + answered + batch_size + 1) == partition) and
        (tonumber(ARGV[at + 5]) <= now) == ready do
        batch_size, seen = batch_size + 1, seen or {}
        fields[3 + batch_size], at = ARGV[at + 8], at + PER_JOB
    end
    fields[4 + batch_size] = 'j'
    -- Jobs of a restore: is it still under way, and which of these jobs ended since it began? As in
    -- push_slow.lua.
    local by_due, by_arrival, restore_id, ended = 'd', 'a', nil, nil
    if width % 11 > 8 then
        restore_id = sub(ARGV[base + 9], width > 11 and 13 or 2)
        by_due, by_arrival, fields[5 + batch_size] = 'd' .. restore_id, 'a' .. restore_id, 'jr'
    end
    -- 12: moved here from another queue, not of a restore: for slow_path().
    local found = width ~= 12 and call('HMGET', hash, unpack(fields)) or {}
    if restore_id then
        local restore, members = found[5 + batch_size], { 'er' .. sub(restore_id, 1, 8) }
        for i = 1, batch_size do members[1 + i] = 'e' .. fields[3 + i] end
        if restore and sub(restore, 1, 8) == sub(restore_id, 1, 8) and
            struct.unpack('<I8', restore, 17) > 0 then
            ended = call('ZMSCORE', KEYS[keys + 4], unpack(members))
        end
        -- Jobs whose ids exist are kept: the answer has no job.
        at = base
        while done < batch_size and found[4 + done] and is_first(hash, ARGV[at + 1]) and
            call('HEXISTS', sub(hash, 1, -2) .. 'j' .. byte(found[4 + done], 6), found[4 + done]) == 1 do
            done, at = done + 1, at + PER_JOB
            answers[answered + done] = '\0\0\1\0' .. string.rep('\0', 20) .. pack('<I8', now)
        end
    end
    -- Entries for the journal, as in entry.lua. If too many are not taken, or the oldest is too
    -- old, slow_path() handles the request.
    local journal, entry, bytes, taken, most = found[4 + batch_size], 0, 0, 0, 1
    local since, span = 0, 0
    -- No entry if the journal was given up (120: x), or has the row of a restored job already.
    if journal and byte(journal, 33) == 120 or restore_id and #restore_id > 8 then journal = nil end
    if journal then
        entry, bytes, taken, most = struct.unpack('<I8I8I8I8', journal)
        since, span = struct.unpack('<I8I8', journal, 34)
        if since > 0 and span > 0 and now - since > span then most = 0 end
    end
    if restore_id and (done > 0 or not ended or not ended[1]) then most = 0 end
    -- If daemons wait for the topic, one is notified for each job. This daemon is not notified if its
    -- mark is of an earlier request than this one: it receives the answer (marks.lua).
    local mark, request = found[3], ARGV[base + 1]
    local notifies = mark and not (#mark == 17 and byte(mark) == 48 and
        sub(mark, 2, 9) == sub(request, 3, 10) and
        struct.unpack('<I8', mark, 10) < struct.unpack('<I8', request, 13))
    if found[1] and found[2] and bytes - taken < most then
        local last, pushed, partitions, promote_at = struct.unpack('<I8I8I8I7', found[1])
        local sets = { 'p', '', topic, '', '', '', '', '' }
        local places, n, soonest = { '', '' }, 4, math.huge
        local records, m, p, bucket = { '', '' }, 0, 0, nil
        at = base
        while done < batch_size do
            local id, due, order, made_at, head = ARGV[at + 8], tonumber(ARGV[at + 5]), ARGV[at + 9], now, nil
            if width > 11 then
                order, made_at = sub(order, 1, 1) .. sub(order, 13), struct.unpack('<I7', order, 2)
                if made_at > now then break end
            elseif order == by_arrival and last > now then -- as arrival_after() has it
                made_at = last - now < AHEAD_MAX and last or now + AHEAD_MAX
            end
            -- Cases for slow_path(): the id exists, the job is buried, the request may have been
            -- executed before, the limit is reached, or the job is due before the promoter's next
            -- call.
            if found[4 + done] or seen and seen[id] or ended and ended[2 + done] or
                order ~= by_due and order ~= by_arrival or
                not is_first(hash, ARGV[at + 1]) or pushed >= tonumber(ARGV[at + 11]) or
                not (ready or due >= promote_at) then
                break
            end
            local seq = now - now % partitions + last % partitions -- as number_after() has it
            if seq <= last then seq = last + partitions end
            local name, made = pack('>I8', seq), pack('<I8I8', seq, now)
            -- All jobs that are written together are in one bucket, which is written first: if it
            -- has moved to another node, nothing was changed.
            if done > 0 and (notifies or byte(name, 6) ~= bucket) then break end
            bucket = byte(name, 6)
            local rank, place, answer = '', nil, nil -- answer as header() has it
            if order == by_arrival then rank = pack('>I8', made_at) end
            if ready then
                answer = '\0\2\0\0\1\0\0\0\0\0\0\0\0\0\0\0' .. made
                place = 'r' .. ARGV[at + 6] .. rank .. name
            else
                answer = '\0\1\0\0\1\0\0\0\0\0\0\0\0\0\0\0' .. made
                place = ARGV[at + 13] .. name .. rank
                if due < soonest then soonest = due end
            end
            done, last, pushed = done + 1, seq, pushed + 1
            places[p + 1], places[p + 2], p = '0', place, p + 2
            answers[answered + done] = answer
            -- As in record_made(): 1024 is AHEAD. The number is at most 1023 below made_at.
            local start, form, ahead = ARGV[at + 2], byte(ARGV[at + 2]), seq - made_at + 1024
            if width > 11 then -- it has attempts, so it needs a head
                local reserves, failures = struct.unpack('<HH', ARGV[at + 9], 9)
                local _, _, _, _, priority, _, delay_s =
                    struct.unpack(form % 2 == 1 and LONG.FORM_TO_DUE or SHORT.FORM_TO_DUE, start)
                head = pack(HEAD.STATE_TO_DUE, 1, rank == '' and 0 or 2, reserves, 0, 0, '\0\0\0\0\0\0\0\0',
                    failures, 0, 0, 0, 0, priority, delay_s, due)
                records[m + 1], records[m + 2], m = '+' .. name, head, m + 2
            end
            if made_at ~= now then
                made = sub(made, 1, 8) .. pack('<I8', made_at)
                answer = sub(answer, 1, 8) .. pack('<I8', made_at) .. sub(answer, 17)
                answers[answered + done] = answer
            end
            if form % 64 < 32 then
                start = start .. sub(made, 9, 15)
            elseif ahead < 65536 then
                start = start .. pack('<H', ahead)
            else
                start = string.char(form - 32) .. sub(start, 2) .. sub(made, 9, 15)
            end
            local apart, record, front = ARGV[at + 4], start .. ARGV[at + 3], ''
            records[m + 1], records[m + 2], m = name, record, m + 2
            if form % 32 >= 16 then
                local behind = struct.unpack('<H', apart) + 3
                records[m + 1], records[m + 2], m = '=' .. name, sub(apart, 3, behind - 1), m + 2
                if journal then front = 'p' .. sub(apart, 1, behind - 1) end -- as answer_prefix()
                apart = sub(apart, behind)
            end
            if apart ~= '' then
                records[m + 1], records[m + 2], m = '*' .. name, apart, m + 2
            end
            if journal then -- as journal_job() has it
                local text = front .. name .. (head or '') .. record .. apart
                entry, bytes = entry + 1, bytes + 25 + #text
                places[p + 1], p = '0', p + 2
                places[p] = 'j' .. pack('>I8', entry) .. pack('<I8I7', bytes, now) .. 'p' .. text
            end
            sets[n + 1], sets[n + 2] = sub(ARGV[at + 1], 2, 12), sub(ARGV[at + 1], 13, 20) .. answer
            n, at = n + 2, at + PER_JOB
            if id ~= '' then
                sets[n + 1], sets[n + 2], n = id, name, n + 2
                if seen then seen[id] = true end
            end
        end
        if done > 0 then
            if journal then
                sets[n + 1], n = 'j', n + 2
                sets[n] = pack('<I8I8', entry, bytes) .. sub(journal, 17, 33) ..
                    pack('<I8I8', since > 0 and since or now, span)
            end
            sets[2] = pack('<I8I8I8I7', last, pushed, partitions, promote_at)
            sets[4] = string.format('%d', found[2] + done)
            -- As in bucket_of().
            call('HSET', sub(hash, 1, -2) .. 'j' .. bucket, unpack(records, 1, m))
            call('ZADD', KEYS[keys + 4], unpack(places))
            if not ready then
                call('ZADD', KEYS[keys + 2], 'LT', soonest, '\0' .. sub(topic, 3))
            end
            call('HSET', hash, unpack(sets, 1, n))
            if notifies then
                notify_marked(hash, sub(topic, 3), mark)
            elseif mark then
                call('HDEL', hash, '#w' .. sub(topic, 3))
            end
        end
    end
    if done == 0 then
        done = 1
        answers[answered + 1] = slow_path(keys, base, PER_JOB)
    end
    answered = answered + done
end
return count == 1 and answers[1] or answers
