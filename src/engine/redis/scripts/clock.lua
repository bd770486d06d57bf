-- The queue's time in a partition: Redis' clock plus the partition's field `o`, within two bounds,
-- because Redis' clock may leap, and the daemon's does not. The daemon has read `o`, and sends the
-- bounds. All times that scripts write or compare are of this clock. First part of every script's
-- text. A request has, after its number: the least and the most that Redis' clock can show, and the
-- queue's time that belongs to the least. queue_clock.h describes how these are computed.
local redis_time = nil -- Redis' clock, read once in a call: seconds, microseconds
local unsure = false -- Redis' clock is outside a request's bounds: it has leapt, or the request is late
local function clock_of(request)
    redis_time = redis_time or redis.call('TIME')
    local least, most, queue = struct.unpack('<I8I8I8', request, 21)
    local now = redis_time[1] * 1000000 + redis_time[2]
    if now < least then
        now, unsure = least, true
    elseif now > most then
        now, unsure = most, true
    end
    return now - least + queue
end

-- True: the request is executed for the first time, and was not given up. False if it is marked as a
-- repetition, or is late and was executed or given up: stored_answer() handles these.
local function is_first(hash, request)
    if string.byte(request) ~= 48 then return false end
    local stored = unsure and redis.call('HGET', hash, string.sub(request, 2, 12))
    return not stored or struct.unpack('<I8', stored) < struct.unpack('<I8', request, 13)
end
