-- What is due becomes ready; leases whose ttr ran out end.
-- ARGV: 2 steps at most. Answer: {it, topic, …}: count, more, next_us; the topics that have ready
-- jobs now where the asker alone had left a mark: nobody else needs a notice.
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
-- A mark that is younger than this request is none of its asker's: that has given it up meanwhile.
local daemon, number, ours = sub(slot, 2, 9), unpack_bytes('<I8', request), {}
for i = 1, #topics do
    local mark = call('HGET', hash, '#w' .. topics[i])
    if mark and sub(mark, 1, 8) == daemon and unpack_bytes('<I8', mark, 9) < number then
        call('HDEL', hash, '#w' .. topics[i])
        ours[#ours + 1] = topics[i]
    elseif mark then
        tell_ready(topics[i])
    end
end

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
return { say(OK, 0, more, #ripe + #over, now, next_us, 0), unpack(ours) }
