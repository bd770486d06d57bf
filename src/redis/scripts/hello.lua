-- Makes the partition, if need be; takes, keeps or gives up its timer; says that the daemon lives.
-- ARGV: 2 its number, 3 how many there are, 4 channel, 5 own_us, 6 alive_us, 7 version of the
-- layout. Answer: {it}: owner; next_us: when the ownership ends; count: 1 if we were unknown here.
local daemon, number, partitions = sub(slot, 2, 9), tonumber(ARGV[2]), tonumber(ARGV[3])
local own_us, alive_us, now = tonumber(ARGV[5]), tonumber(ARGV[6]), clock()
local found = call('HMGET', hash, 's', 'v', 'o')
if not found[1] then
    -- Each key gets a member that stays: none is ever empty, nor small enough to be kept as a list,
    -- which would be slower. The first number is about now: see number_after().
    local filler = string.rep('\255', 65)
    found = { pack('<I8I8I8I8', now - now % partitions + number, 0, partitions, FOREVER), ARGV[7] }
    call('HSET', hash, filler, filler, 's', found[1], 'v', found[2], 'c', ARGV[4])
    call('ZADD', delayed, '+inf', filler)
    call('ZADD', reserved, '+inf', filler)
    call('ZADD', order, 0, filler)
end
local stored = unpack_bytes('<I8', found[1], 17)
if stored ~= partitions or found[2] ~= ARGV[7] then
    return { say(INVALID, 0, 0, stored, now, 0, tonumber(found[2])) }
end

local unknown = 0
even_if_full()
if alive_us > 0 then
    unknown = call('ZADD', reserved, now + alive_us, '\0' .. daemon)
    tell_due(now + alive_us)
elseif call('ZSCORE', reserved, '\0' .. daemon) then
    call('ZADD', reserved, now, '\0' .. daemon) -- the next promote forgets it
    tell_due(now)
end

local owner, ends = nil, 0
if found[3] then
    owner, ends = sub(found[3], 1, 8), unpack_bytes('<I8', found[3], 9)
end
if own_us > 0 and (owner == daemon or ends <= now) then
    owner, ends = daemon, now + own_us
    call('HSET', hash, 'o', daemon .. pack('<I8', ends))
elseif own_us == 0 and owner == daemon then
    owner, ends = nil, now
    call('HDEL', hash, 'o')
end
return { say(OK, 0, owner == daemon and OWNER or 0, unknown, now, ends, 0) }
