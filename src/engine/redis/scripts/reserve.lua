-- Reserves ready jobs, for one request or several. The effect is that of one request after the
-- other; several requests must name one topic each. Idempotent: answers are stored.
--
-- KEYS: four of each partition (common.lua). Several requests come by turn.lua only.
-- ARGV, for each request:
--   1     the request (common.lua)
--   2     options: 's' (the first one) see below; 'l' take topics in the order listed, not the best
--         job of all; 'b' the reservations belong to the daemon's connection and end with it; 'w'
--         leave a mark (marks.lua) in each topic that has no more ready jobs, since a consumer
--         waits; 'h' the same, but no consumer waits; 'n' count the ready jobs that are left; 'p'
--         this daemon was notified of a job and needs none: notify the next daemon that waits. Then
--         digits: the length of the leases; without digits, each job's own ttr
--   3     the most jobs; 0: reserve none, only report. With 's' preceded by priority (4) and rank
--         (8): the last place up to which more jobs are taken
--   4     stop when bodies and properties have this many bytes; of several requests, those before
--         count too
--   5 ... topics
-- Returns {header, job with content, ..., firsts}. A job may be in two parts, the second one its record
-- and content, which are not copied then; the first one begins with 'r' and two zeros. err: OK or
-- EMPTY. count: jobs. Flags: MORE a topic has more ready jobs; MARKED marks were left; SHARED other daemons wait for one of the
-- topics, too. next_us: when the first pause of these topics ends, FOREVER if none is paused. seq:
-- with 'n' and more than one job requested, how many more jobs are ready; else undefined. `firsts`:
-- 13 bytes for each requested topic: priority (4) and rank (8) of the first job that is still ready,
-- or NONE, or UNSEEN if the topic was not examined; then how many ready jobs are close to that job
-- (close.lua), including it, up to CLOSE_JOBS_MAX; 0: not counted, because several topics were
-- requested. `firsts` is empty if this request was executed before. Several requests: an array of
-- such answers.
--
-- Option 's': requests of one call that have it, and the same options and topic, are for the same
-- consumers. Together they take at most the sum of the jobs that they request. Each takes the jobs
-- that it requests, then more, up to the place that it names, until the sum is reached; so later
-- requests may get fewer. A request for which nothing is left does nothing, and returns UNSEEN.
--
-- This file is the fast path: jobs of one topic, at most JOBS, whose content is in their records
-- and that have no properties. All other requests are handled by slow_path(), which is
-- reserve_slow.lua.
-- Cost: O(log n + k) for k jobs, with one read and one write for each bucket that holds some of
-- them.
local call, sub, byte = redis.call, string.sub, string.byte
local pack, unpack_bytes, format = struct.pack, struct.unpack, string.format
-- Sorts behind every place of a topic: 21 bytes.
local PAST = '\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255'
local NONE = '\255\255\255\255\255\255\255\255\255\255\255\255\0'
local UNSEEN = '\255\255\255\255\255\255\255\255\255\255\255\254\0'
local PER_REQUEST = 5
local NOTHING = {}
local JOBS, JOBS_BYTES = 32, 65536 -- the most jobs read at once, and the limit of their bytes
local count, answers, bytes = many or 1, { '' }, 0
local shared, shared_topic, wanted_total = nil, nil, 0 -- options and topic of the requests with 's'
for at = 1, count do
    local base, answer, got = args_from + (at - 1) * PER_REQUEST, nil, 0
    local keys = routes and 4 * byte(routes, routes_from + at) or 0
    local request, options, most, topic = ARGV[base + 1], ARGV[base + 2], ARGV[base + 3], ARGV[base + 5]
    local may_share, priority_most, rank_most = byte(options) == 115, nil, nil -- 115: s
    if may_share then
        priority_most, rank_most = unpack_bytes('>I4I8', most)
        most = sub(most, 13)
    end
    most = tonumber(most)
    local limit, shares = most, false
    if may_share and count > 1 then
        if not shared then
            shared, shared_topic = options, topic
            for i = base, args_from + (count - 1) * PER_REQUEST, PER_REQUEST do
                if ARGV[i + 2] == options and ARGV[i + 5] == topic then
                    wanted_total = wanted_total + sub(ARGV[i + 3], 13)
                end
            end
        end
        shares = options == shared and topic == shared_topic
        if shares then
            limit = math.min(wanted_total, JOBS)
            most = math.min(most, limit)
        end
    end
    if shares and limit == 0 then
        answer = { pack('<BBBBI4I8I8I8', 5, 0, 0, 0, 0, 9007199254740991, 0, clock_of(request)), UNSEEN }
    elseif most <= JOBS and (many or count > 1 or not ARGV[6]) and
        ARGV[base + 4] - bytes >= JOBS_BYTES then
        local hash, order = KEYS[keys + 1], KEYS[keys + 4]
        local now, daemon = clock_of(request), sub(request, 3, 10)
        local found = call('HMGET', hash, 'p', '#u' .. topic, '#r' .. topic, '#h' .. topic, 'j',
            '#w' .. topic)
        local ready, taken, flags, mark, left = NOTHING, 0, 0, nil, 0
        -- The topic must not be paused, and the reservation must not need an entry for the journal
        -- (entry.lua).
        local fits = found[1] and tonumber(found[2] or 0) <= now and is_first(hash, request)
        local journal = found[5] and byte(found[5], 33) ~= 120 -- 120: x, it was given up
        if journal and most > 0 and not string.find(options, 'b', 1, true) then fits = false end
        if fits then
            local key = 'r' .. string.char(#topic) .. topic
            ready = call('ZRANGEBYLEX', order, '[' .. key, '(' .. key .. PAST, 'LIMIT', '0',
                limit + CLOSE_JOBS_MAX)
            taken = math.min(#ready, most)
            while taken < limit and ready[taken + 1] do
                local priority, rank = unpack_bytes('>I4I8', ready[taken + 1], 3 + #topic)
                if priority > priority_most or priority == priority_most and rank > rank_most then break end
                taken = taken + 1
            end
            if ready[taken + 1] and most > 1 and string.find(options, 'n', 1, true) then
                left = call('ZLEXCOUNT', order, '[' .. key, '(' .. key .. PAST) - taken
            end
        end
        if ready[taken + 1] then
            flags = most == 0 and string.find(options, '[wh]') and 20 or 4
            -- The daemon was notified of a job and needs none. If others wait, slow_path() notifies the
            -- next one.
            if most == 0 and found[6] and string.find(options, 'p', 1, true) then fits = false end
        elseif fits and (taken < most or most == 0) and string.find(options, '[wh]') then
            local old, others = found[6], nil
            -- A mark is left only in a topic that has had jobs: all daemons are notified of a topic's
            -- first job.
            if old or found[3] or call('HEXISTS', hash, '#p' .. topic) == 1 then
                mark, others = with_mark(old, daemon, sub(request, 13, 20),
                    string.find(options, 'w', 1, true))
            end
            flags = others and 80 or 16
        end
        if fits then
            local buckets = sub(hash, 1, -2) .. 'j' -- as in bucket_of()
            local last, pushed, partitions, promote_at = unpack_bytes('<I8I8I8I7', found[1])
            local own_ttr = (byte(options, -1) or 58) < 58 and tonumber(string.match(options, '%d+'))
            local bound = string.find(options, 'b', 1, true)
            local holder = bound and daemon or '\0\0\0\0\0\0\0\0'
            local soonest, done, reservations, held = promote_at, 0, '', { '', '' }
            local first, first_in, heads, heads_in -- by bucket
            answer, got = taken > 0 and { '', '', '', '' } or { '', '' }, taken
            while fits and done < taken do
                -- Reads records and heads, of adjacent jobs in the same bucket at once.
                local name, upto = sub(ready[done + 1], -8), done + 1
                local bucket, wanted = byte(name, 6), { name, '+' .. name }
                while upto < taken and byte(ready[upto + 1], -3) == bucket do
                    upto = upto + 1
                    name = sub(ready[upto], -8)
                    wanted[#wanted + 1], wanted[#wanted + 2] = name, '+' .. name
                end
                bucket = buckets .. bucket
                local jobs, set = call('HMGET', bucket, unpack(wanted)), { '', '' }
                if not first then
                    first, first_in = set, bucket
                else
                    heads, heads_in = heads or {}, heads_in or {}
                    heads[#heads + 1], heads_in[#heads_in + 1] = set, bucket
                end
                for n = 1, #wanted, 2 do
                    local record, old, ttr, rest, job_flags, reserves = jobs[n], jobs[n + 1]
                    if not record or byte(record) % 32 >= 8 then -- body or properties are not in the record
                        fits = false
                        break
                    end
                    local note, till = '', nil -- the note as in note_prefix()
                    name = wanted[n]
                    if old then
                        job_flags, reserves = unpack_bytes(HEAD.FLAGS_TO_RESERVES, old, HEAD.FLAGS)
                        rest = sub(old, HEAD.FAILURES)
                        if sub(old, HEAD.RELEASES, HEAD.BURIES_END) ~= '\0\0\0\0' then
                            note = call('HGET', bucket, '-' .. name) or ''
                            if note ~= '' then note = 'n' .. pack('<H', #note) .. note end
                        end
                        if byte(record) % 2 == 1 then
                            ttr = unpack_bytes(LONG.TTR_FORMAT, record, LONG.TTR)
                        else
                            ttr = unpack_bytes(SHORT.TTR_FORMAT, record, SHORT.TTR) * 1000000
                        end
                    else
                        local priority, delay_s, due
                        if byte(record) % 2 == 1 then
                            priority, ttr, delay_s, due =
                                unpack_bytes(LONG.PRIORITY_TO_DUE, record, LONG.PRIORITY)
                        else
                            priority, ttr, delay_s, due =
                                unpack_bytes(SHORT.PRIORITY_TO_DUE, record, SHORT.PRIORITY)
                            ttr = ttr * 1000000
                        end
                        job_flags, reserves = byte(record) % 4 - byte(record) % 2, 0
                        rest = '\0\0\0\0\0\0\0\0\0\0' ..
                            pack(HEAD.PRIORITY_TO_DUE, priority, delay_s, due)
                    end
                    till = now + (own_ttr or ttr)
                    if till >= 9007199254740991 then
                        fits = false
                        break
                    end
                    if till < soonest then soonest = till end
                    if bound then job_flags = job_flags + 1 end
                    if reserves < 65535 then reserves = reserves + 1 end
                    local lease = now - now % partitions + last % partitions -- as number_after() has it
                    if lease <= last then lease = last + partitions end
                    last = lease
                    local head = pack(HEAD.STATE_TO_HOLDER, 3, job_flags, reserves, till, lease,
                        holder) .. rest
                    done = done + 1
                    held[2 * done - 1], held[2 * done] = format('%d', till), sub(ready[done], 2)
                    set[n], set[n + 1] = wanted[n + 1], head
                    answer[2 * done], answer[2 * done + 1] = 'r\0\0' .. note .. name .. head, record
                    reservations = reservations .. name .. pack('<I8', lease)
                end
            end
            if not fits then
                answer = nil
            elseif taken > 0 then
                call('ZREM', order, unpack(ready, 1, taken))
                call('ZADD', KEYS[keys + 3], unpack(held))
                if bound then
                    local bounds = { '0', 'd' .. daemon }
                    for i = 1, taken do
                        bounds[2 * i + 1], bounds[2 * i + 2] = '0', 'h' .. daemon .. sub(ready[i], -8)
                    end
                    call('ZADD', order, unpack(bounds))
                end
                call('HSET', first_in, unpack(first))
                if heads then
                    for i = 1, #heads do call('HSET', heads_in[i], unpack(heads[i])) end
                end
                call('HSET', hash, '#r' .. topic, format('%d', (found[3] or 0) + taken),
                    '#h' .. topic, format('%d', (found[4] or 0) + taken),
                    'p', pack('<I8I8I8I7', last, pushed, partitions, soonest),
                    sub(request, 2, 12), sub(request, 13, 20) .. reservations,
                    unpack(mark and { '#w' .. topic, mark } or NOTHING))
                if soonest < promote_at then -- as publish() has it
                    redis.pcall(redis.REDIS_VERSION_NUM and 'SPUBLISH' or 'PUBLISH',
                        call('HGET', hash, 'c'),
                        string.format('w%.0f %.0f', last % partitions, soonest))
                end
            elseif mark then
                call('HDEL', hash, '') -- as even_if_full() has it
                call('HSET', hash, '#w' .. topic, mark)
            end
        end
        if answer then -- as header() has it
            answer[1] = pack('<BBBBI4I8I8I8', taken > 0 and 0 or 5, 0, flags, 0, taken,
                9007199254740991, left, now)
            answer[2 * taken + 2] = ready[taken + 1] and sub(ready[taken + 1], -20, -9) ..
                string.char(close_jobs(ready, taken + 1, CLOSE_JOBS_MAX)) or NONE
        end
    end
    if not answer then
        if bytes > 0 then ARGV[base + 4] = math.max(0, ARGV[base + 4] - bytes) end
        if may_share then ARGV[base + 3] = most end
        answer = slow_path(keys, base, many and PER_REQUEST or #ARGV / count)
        got = math.max(0, #answer - 2)
    end
    answers[at] = answer
    if shares then wanted_total = wanted_total - got end
    if count > 1 then
        for i = 2, #answer - 1 do bytes = bytes + #answer[i] end
    end
end
return count == 1 and answers[1] or answers
