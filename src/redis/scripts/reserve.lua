-- Reserve. ARGV: 2 options: l listed order, b bound, w leave marks where there is no more; 3 how
-- many at most, 4 bytes of bodies after which to stop, 5 … topics. Answer: {it, head, content, …};
-- its next_us: when the first pause among the topics ends.
local AT_ONCE = 32 -- jobs read together, so that large bodies do not pile up
local listed = string.find(ARGV[2], 'l', 1, true)
local bound = string.find(ARGV[2], 'b', 1, true)
local wait = string.find(ARGV[2], 'w', 1, true)
local most, most_bytes = tonumber(ARGV[3]), tonumber(ARGV[4])
local now = clock()

local function reply(parts, heads, contents, err, flags, next_us)
    parts[1] = say(err, 0, flags, #heads, now, next_us, 0)
    for i = 1, #heads do
        parts[#parts + 1] = heads[i]
        parts[#parts + 1] = contents[i] or ''
    end
    return parts
end

-- Sent again: those of the jobs that still have the lease of the first time.
local first = answered()
if first then
    local heads, contents = {}, {}
    for from = 1, #first, 16 do
        local name, lease = sub(first, from, from + 7), unpack_bytes('<I8', first, from + 8)
        local found = call('HMGET', hash, 'j' .. name, 'b' .. name)
        if found[1] and read(found[1]).lease == lease then
            heads[#heads + 1], contents[#heads + 1] = found[1], found[2] or ''
        end
    end
    return reply({}, heads, contents, #heads > 0 and OK or EMPTY, MORE, FOREVER)
end

local fields, topics, seen = { 'n', 'P', 'w' }, {}, {}
for i = 5, #ARGV do
    local topic = ARGV[i]
    if not seen[topic] then
        seen[topic], topics[#topics + 1] = true, topic
        fields[#fields + 1], fields[#fields + 2], fields[#fields + 3] =
            '#u' .. topic, '#r' .. topic, '#h' .. topic
    end
end
local found = call('HMGET', hash, unpack(fields))
local last, partitions, next_us = tonumber(found[1]), found[2], FOREVER
if not last then return redis.error_reply(closed) end

-- The first ready ones of each topic that is not paused, in the order in which to take them.
local spots = {}
for i = 1, #topics do
    local pause = tonumber(found[3 * i + 1] or 0)
    if pause > now then
        next_us = pause < next_us and pause or next_us
    elseif not listed or #spots < most then
        local key = 'r' .. char(#topics[i]) .. topics[i]
        local ready = call('ZRANGEBYLEX', order, '[' .. key, '(' .. key .. string.rep('\255', 21),
            'LIMIT', 0, listed and most - #spots or most)
        for at = 1, #ready do spots[#spots + 1] = ready[at] end
    end
end
if not listed and #topics > 1 then
    local keys = {}
    for i = 1, #spots do
        keys[i] = { spots[i], unpack_bytes('>I4I8I8', spots[i], #spots[i] - 19) }
    end
    table.sort(keys, function(a, b)
        if a[2] ~= b[2] then return a[2] < b[2] end
        if a[3] ~= b[3] then return a[3] < b[3] end
        return a[4] < b[4]
    end)
    for i = 1, #spots do spots[i] = keys[i][1] end
end

local heads, contents, gone, held, sets, taken = {}, {}, {}, {}, {}, {}
local count, bytes, at, kept, soonest = 0, 0, 1, {}, FOREVER
while at <= #spots and count < most and bytes < most_bytes do
    local asked, upto = {}, math.min(#spots, at + math.min(AT_ONCE, most - count) - 1)
    for i = at, upto do
        local name = sub(spots[i], -8)
        asked[#asked + 1], asked[#asked + 2] = 'j' .. name, 'b' .. name
    end
    local read_in = call('HMGET', hash, unpack(asked))
    for i = 1, #read_in, 2 do
        if bytes >= most_bytes then break end
        gone[#gone + 1] = spots[at] -- taken, or a place whose job is not there
        at = at + 1
        if read_in[i] then
            local job, content = read(read_in[i]), read_in[i + 1] or ''
            last = number_after(last, partitions, now)
            job.lease, job.state, job.till = last, RESERVED, after(now, job.ttr)
            job.reserves = up(job.reserves)
            if bound then
                job.flags, job.holder = job.flags + BOUND, sub(slot, 2, 9)
                call('ZADD', order, 0, 'h' .. job.holder .. job.name)
            end
            count, bytes = count + 1, bytes + #content
            heads[count], contents[count] = head_of(job), content
            sets[#sets + 1], sets[#sets + 2] = 'j' .. job.name, heads[count]
            held[#held + 1], held[#held + 2] = job.till, place_of(job)
            kept[count] = job.name .. pack('<I8', last)
            taken[job.topic] = (taken[job.topic] or 0) + 1
            soonest = job.till < soonest and job.till or soonest
        end
    end
end

-- In pieces, because a call takes no more than some thousand arguments.
local function in_pieces(name, key, list)
    for from = 1, #list, 1000 do
        call(name, key, unpack(list, from, math.min(#list, from + 999)))
    end
end
in_pieces('ZREM', order, gone)
in_pieces('ZADD', reserved, held)
if wait and count < most and bytes < most_bytes then
    for i = 1, #topics do sets[#sets + 1], sets[#sets + 2] = '#w' .. topics[i], '1' end
end
if count > 0 then
    for i = 1, #topics do
        local of = taken[topics[i]]
        if of then
            sets[#sets + 1], sets[#sets + 2] = '#r' .. topics[i], (found[3 * i + 2] or 0) + of
            sets[#sets + 1], sets[#sets + 2] = '#h' .. topics[i], (found[3 * i + 3] or 0) + of
        end
    end
    sets[#sets + 1], sets[#sets + 2] = 'n', last
    sets[#sets + 1], sets[#sets + 2] = slot, request .. table.concat(kept)
end
in_pieces('HSET', hash, sets)
if count > 0 and bound then
    call('ZADD', reserved, 'NX', now + 5000000, '\0' .. sub(slot, 2, 9))
    soonest = math.min(soonest, now + 5000000)
end
if soonest < tonumber(found[3]) then tell_due(soonest) end
local more = (count >= most or bytes >= most_bytes) and MORE or 0
return reply({}, heads, contents, count > 0 and OK or EMPTY, more, next_us)
