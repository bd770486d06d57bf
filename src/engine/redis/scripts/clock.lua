-- The queue's time, of a partition: Redis' own, moved by the partition's field `o`, which the daemon
-- that asks knows, and held between two bounds, which it knows, too: its clock does not leap, Redis'
-- may. Everything that is written or compared here is by this time. Put before everything else.
-- A request has, behind its number: the least and the most that Redis' clock can show, and the
-- queue's time at the least. queue_clock.h says where these come from.
local redis_time = nil -- its own clock's, for the whole call: seconds, microseconds
local unsure = false -- Redis' clock is beyond a request's bounds: it has leapt, or that comes late
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

-- Is the request done for the first time, and not given up? It may have been done before if it says
-- so, or comes late; for what to do then see answered().
local function is_first(hash, request)
    if string.byte(request) ~= 48 then return false end
    local kept = unsure and redis.call('HGET', hash, string.sub(request, 2, 12))
    return not kept or struct.unpack('<I8', kept) < struct.unpack('<I8', request, 13)
end
