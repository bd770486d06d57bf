-- What is due becomes ready; leases whose ttr ran out end.
-- ARGV: 2 steps at most. Answer: {it, topic, …}: count, more, next_us; lost: see open.lua; the
-- topics that have ready jobs now where the caller's mark was the first: it needs no notice.
-- If more is due than that, a topic gets no more than its share while others have something due:
-- what is due first is looked through, over the rest of what one topic has at one instant at a
-- leap, and what is due last, which other topics may have behind a burst.
local LOOK_AT, BLOCK, LEAPS, LAST = 600, 100, 6, 100 -- jobs; jobs; leaps; jobs
local LEASES = 10 -- that end in one call: each costs as much as ten or twenty jobs that are due
local most, now = tonumber(ARGV[2]), clock()
if call('HEXISTS', hash, 's') == 0 then return redis.error_reply(CLOSED) end

even_if_full()
local due, share = call('ZCOUNT', delayed, '-inf', now), math.ceil(most / 4)
local topics, marks, taken, promoted, over = {}, {}, {}, {}, {}

local function topic_of(place)
    return sub(place, 2, 1 + string.byte(place))
end

local function take(place, topic)
    taken[topic] = (taken[topic] or 0) + 1
    promoted[#promoted + 1] = place
end

-- Behind the last of the jobs that this one's topic has at its instant; the next one is at `low`.
local function behind_its_instant(place, low)
    local key, high = sub(place, 1, 1 + string.byte(place)), nil
    local function is_of_key(at)
        return sub(call('ZRANGE', delayed, at, at)[1], 1, #key) == key
    end
    high = call('ZCOUNT', delayed, '-inf', call('ZSCORE', delayed, place))
    if low >= high or not is_of_key(low) then return low end
    while low < high do
        local middle = math.floor((low + high) / 2)
        if is_of_key(middle) then low = middle + 1 else high = middle end
    end
    return low
end

local at, looked, leaps = 0, 0, 0
while at < due and looked < LOOK_AT and #promoted < most do
    local wanted = at == 0 and most or BLOCK -- the first are enough if nobody else has any
    local block = call('ZRANGE', delayed, at, math.min(at + wanted, due) - 1)
    for i = 1, #block do
        local topic = topic_of(block[i])
        if (taken[topic] or 0) < share and #promoted < most then
            take(block[i], topic)
        else
            over[#over + 1] = block[i]
        end
    end
    at, looked = at + #block, looked + #block
    local last = block[#block]
    if at < due and leaps < LEAPS and taken[topic_of(last)] == share then
        at, leaps = behind_its_instant(last, at), leaps + 1
    end
end
if at < due then
    local seen, block = {}, call('ZRANGE', delayed, math.max(at, due - LAST), due - 1)
    for topic in pairs(taken) do seen[topic] = true end -- of these, what is due sooner goes first
    for i = 1, #block do
        local topic = topic_of(block[i])
        if not seen[topic] and (taken[topic] or 0) < share then take(block[i], topic) end
    end
end
for i = 1, math.min(#over, most - #promoted) do promoted[#promoted + 1] = over[i] end
for from = 1, #promoted, 500 do
    local upto, adds = math.min(#promoted, from + 499), {}
    for i = from, upto do
        adds[#adds + 1], adds[#adds + 2] = 0, 'r' .. promoted[i]
        local topic = topic_of(promoted[i])
        if not marks[topic] then marks[topic], topics[#topics + 1] = 0, topic end
        marks[topic] = marks[topic] + 1
    end
    call('ZREM', delayed, unpack(promoted, from, upto))
    call('ZADD', order, unpack(adds))
end
local ours = {}
for i = 1, #topics do
    if tell_promoted(topics[i], marks[topics[i]]) then ours[#ours + 1] = topics[i] end
end

local ended = call('ZRANGEBYSCORE', reserved, '-inf', now, 'LIMIT', 0, math.min(most, LEASES))
for i = 1, #ended do
    local job = find('', sub(ended[i], -8))
    if job and job.state == RESERVED then
        job.timeouts = up(job.timeouts)
        call('HINCRBY', hash, '#t' .. job.topic, 1)
        fail(job, now)
    else
        call('ZREM', reserved, ended[i])
    end
end

local next_delayed = call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
local next_reserved = call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2]
local next_us = math.min(tonumber(next_delayed or FOREVER), tonumber(next_reserved or FOREVER),
    FOREVER)
local last, pushed, partitions = state_of_all()
call('HSET', hash, 's', pack('<I8I8I8I8', last, pushed, partitions, next_us))
local filler, flags = string.rep('\255', 65), next_us <= now and MORE or 0
for i = 2, 4 do
    if not call('ZSCORE', KEYS[i], filler) then flags = flags % LOST + LOST end
end
return { say(OK, 0, flags, #promoted + #ended, now, next_us, 0), unpack(ours) }
