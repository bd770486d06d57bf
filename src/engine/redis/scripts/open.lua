-- Makes the partition, if need be, and says that this daemon's answers and connections are in it.
-- ARGV: 2 its number, 3 how many there are, 4 channel, 5 version of the layout, 6 the places that
-- this daemon's ring has until it says otherwise, 7 how often a clock that is made with it was set.
-- Answer: {it, `o`}: now is not held between bounds, seq is how often the clock was set;
-- replaced: it was made; lost: a set is not as it was made, so what was in it is to be put back by
-- rebuild.lua; count: 1 if the daemon was unknown here. INVALID: count partitions are there, of
-- layout seq; or {it, key}: that key is none of ours.
local daemon, number, partitions = sub(slot, 2, 9), tonumber(ARGV[2]), tonumber(ARGV[3])
local filler, now, flags = string.rep('\255', 65), clock(), 0
-- Nothing is written before all four were looked at.
local found, stray = redis.pcall('HMGET', hash, 's', 'v', 'o', 'k'), nil
if found.err then stray = hash end
for i = 2, 4 do
    local score = redis.pcall('ZSCORE', KEYS[i], filler)
    if type(score) == 'table' then stray = stray or KEYS[i] end
    if not score then flags = LOST end
end
if stray then return { say(INVALID, 0, 0, 0, now, 0, 0), stray } end

local time = call('TIME')
local redis_now = time[1] * 1000000 + time[2]
local ahead, set_count = tonumber(found[3] or 0), tonumber(found[4] or 0)
if not found[1] then
    -- The clock goes on where the daemon's that makes the partition is: clock_of() holds it there.
    ahead, set_count = now - redis_now, tonumber(ARGV[7])
    -- Each key gets a member that stays: none is ever empty, nor small enough to be kept as a list,
    -- which would be slower. The first number is about now: see number_after().
    found = { pack('<I8I8I8I8', now - now % partitions + number, 0, partitions, FOREVER), ARGV[5] }
    call('HSET', hash, filler, filler, 's', found[1], 'v', found[2], 'c', ARGV[4],
        'o', string.format('%.0f', ahead), 'k', string.format('%.0f', set_count))
    call('ZADD', delayed, '+inf', filler)
    call('ZADD', reserved, '+inf', filler)
    call('ZADD', order, 0, filler)
    flags = REPLACED
    publish('n' .. ARGV[2] .. ' ' .. daemon) -- what others left here, if it was there, is gone
end
local stored = unpack_bytes('<I8', found[1], 17)
if stored ~= partitions or found[2] ~= ARGV[5] then
    return { say(INVALID, 0, 0, stored, now, 0, tonumber(found[2])) }
end
now = redis_now + ahead
even_if_full()
call('ZADD', order, 0, 'd' .. daemon)
-- One that is being forgotten is unknown, too: of the answers kept for it some are gone.
local since = call('HGET', hash, 'd' .. daemon)
local unknown = since and unpack_bytes('<I8', since) > 0 and 0 or 1
call('HSET', hash, 'c', ARGV[4], 'd' .. daemon, pack('<I8I2', now, tonumber(ARGV[6])))
return { say(OK, 0, flags, unknown, now, 0, set_count), string.format('%.0f', ahead) }
