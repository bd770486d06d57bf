-- What is due becomes ready; leases whose ttr ran out end.
-- ARGV: 2 steps at most. Answer: {it}: count, more, next_us.
local most, now = tonumber(ARGV[2]), clock()
if call('HEXISTS', hash, 's') == 0 then return redis.error_reply(CLOSED) end

even_if_full()
local ripe = call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, most)
local topics, marks = {}, {}
for from = 1, #ripe, 500 do
    local upto, adds = math.min(#ripe, from + 499), {}
    for i = from, upto do
        adds[#adds + 1], adds[#adds + 2] = 0, 'r' .. ripe[i]
        local topic = sub(ripe[i], 2, 1 + string.byte(ripe[i]))
        if not marks[topic] then marks[topic], topics[#topics + 1] = true, topic end
    end
    call('ZREM', delayed, unpack(ripe, from, upto))
    call('ZADD', order, unpack(adds))
end
for i = 1, #topics do tell_ready(topics[i]) end

local half = math.floor(most / 2) + 1
local over = call('ZRANGEBYSCORE', reserved, '-inf', now, 'LIMIT', 0, half)
for i = 1, #over do
    local job = find('', sub(over[i], -8))
    if job and job.state == RESERVED then
        job.timeouts = up(job.timeouts)
        call('HINCRBY', hash, '#t' .. job.topic, 1)
        fail(job, now)
    else
        call('ZREM', reserved, over[i])
    end
end

local next_delayed = call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
local next_reserved = call('ZRANGE', reserved, 0, 0, 'WITHSCORES')[2]
local next_us = math.min(tonumber(next_delayed), tonumber(next_reserved), FOREVER)
local last, pushed, partitions = state_of_all()
call('HSET', hash, 's', pack('<I8I8I8I8', last, pushed, partitions, next_us))
local more = next_us <= now and MORE or 0
return { say(OK, 0, more, #ripe + #over, now, next_us, 0) }
