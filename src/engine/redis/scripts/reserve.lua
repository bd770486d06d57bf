-- Reserve, one, or several, each as if it came by itself: then each is for one topic. KEYS: four for
-- each. ARGV, for each: 1 the request, 2 options: l listed order, b bound, w leave marks where there
-- is no more, or h the same, but nobody waits, p who asks needs no job: tell the next who waits where
-- there are some; 3 how many at most (0: only look what there is), 4 bytes of bodies after which to
-- stop (of several, those of all before count, too), 5 … topics.
-- Answer: {it, job with its content, …, firsts}; its next_us: when the first pause among the topics ends.
-- `firsts` has 12 bytes for each topic asked for: priority and rank of the first job that is still
-- ready there, NONE, or UNSEEN if nobody looked; it is empty if the request was sent again.
-- Of several: an array of such answers. Here is the common case, one job of one topic that has some;
-- the others are in reserve_other.lua, which is other().
local call, sub, byte = redis.call, string.sub, string.byte
local pack, unpack_bytes = struct.pack, struct.unpack
-- Behind every place in a topic: 21 bytes.
local PAST = '\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255\255'
local NONE = '\255\255\255\255\255\255\255\255\255\255\255\255'
local PER_ASK = 5
local count, answers, bytes = #KEYS / 4, { '' }, 0
for at = 1, count do
    local base, keys, answer = (at - 1) * PER_ASK, (at - 1) * 4, nil
    if ARGV[base + 3] == '1' and (count > 1 or not ARGV[6]) and bytes < 65536 and
        byte(ARGV[base + 1]) == 48 then -- it is not sent again
        local hash, order, topic = KEYS[keys + 1], KEYS[keys + 4], ARGV[base + 5]
        local now = clock_of(ARGV[base + 1])
        local found = call('HMGET', hash, 's', '#u' .. topic, '#r' .. topic, '#h' .. topic)
        local ready, name, bucket, job = {}, nil, nil, {}
        -- It is not paused, and was not sent again meanwhile: see answered().
        if found[1] and tonumber(found[2] or 0) <= now and not unsure then
            local key = 'r' .. string.char(#topic) .. topic
            ready = call('ZRANGEBYLEX', order, '[' .. key, '(' .. key .. PAST, 'LIMIT', '0', '2')
        end
        local candidate, second = ready[1], ready[2]
        if candidate then
            name = sub(candidate, -8)
            bucket = sub(hash, 1, -2) .. 'b' .. byte(name, 6) -- as bucket_of() has it
            job = call('HMGET', bucket, name, '+' .. name)
        end
        local record, old = job[1], job[2]
        if record and byte(record) % 16 < 8 then -- its body is not apart
            local priority, ttr, delay_s, due, flags, reserves, rest
            if byte(record) % 2 == 1 then
                priority, ttr, delay_s, due =
                    unpack_bytes(LONG.PRIORITY_TO_DUE, record, LONG.PRIORITY)
            else
                priority, ttr, delay_s, due =
                    unpack_bytes(SHORT.PRIORITY_TO_DUE, record, SHORT.PRIORITY)
                ttr = ttr * 1000000
            end
            if old then
                flags, reserves = unpack_bytes(HEAD.FLAGS_TO_RESERVES, old, HEAD.FLAGS)
                rest = sub(old, HEAD.FAILURES)
            else
                flags, reserves = byte(record) % 4 - byte(record) % 2, 0
                rest = '\0\0\0\0\0\0\0\0\0\0' ..
                    pack(HEAD.PRIORITY_TO_DUE, priority, delay_s, due)
            end
            local last, pushed, partitions, wake = unpack_bytes('<I8I8I8I7', found[1])
            local till = now + ttr
            if till < 9007199254740991 then
                local holder, daemon = '\0\0\0\0\0\0\0\0', sub(ARGV[base + 1], 3, 10)
                local lease = now - now % partitions + last % partitions -- as number_after() has it
                if lease <= last then lease = last + partitions end
                local sooner = till < wake
                if sooner then wake = till end
                call('ZREM', order, candidate)
                call('ZADD', KEYS[keys + 3], till, sub(candidate, 2))
                if string.find(ARGV[base + 2], 'b', 1, true) then
                    flags, holder = flags + 1, daemon
                    call('ZADD', order, '0', 'h' .. daemon .. name, '0', 'd' .. daemon)
                end
                if reserves < 65535 then reserves = reserves + 1 end
                local head = pack(HEAD.STATE_TO_HOLDER, 3, flags, reserves, till, lease, holder) ..
                    rest
                call('HSET', bucket, '+' .. name, head)
                call('HSET', hash, '#r' .. topic, (found[3] or 0) + 1,
                    '#h' .. topic, (found[4] or 0) + 1,
                    's', pack('<I8I8I8I7', lease, pushed, partitions, wake),
                    sub(ARGV[base + 1], 2, 12), sub(ARGV[base + 1], 13, 20) .. name .. pack('<I8', lease))
                if sooner then -- as publish() has it
                    redis.pcall(redis.REDIS_VERSION_NUM and 'SPUBLISH' or 'PUBLISH',
                        call('HGET', hash, 'c'), string.format('w%.0f %.0f',
                            last % partitions, wake))
                end
                answer = { -- the first as say() has it
                    pack('<BBBBI4I8I8I8', 0, 0, second and 4 or 0, 0, 1, 9007199254740991, 0, now),
                    name .. head .. record, second and sub(second, -20, -9) or NONE }
            end
        end
    end
    if not answer then
        if bytes > 0 then ARGV[base + 4] = math.max(0, ARGV[base + 4] - bytes) end
        answer = other(keys, base, #ARGV / count)
    end
    answers[at] = answer
    if count > 1 then
        for i = 2, #answer - 1 do bytes = bytes + #answer[i] end
    end
end
return count == 1 and answers[1] or answers
