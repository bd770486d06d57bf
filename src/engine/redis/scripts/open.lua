-- Makes the partition, if need be, and says that this daemon's answers and connections are in it.
-- ARGV: 2 its number, 3 how many there are, 4 channel, 5 version of the layout, 6 the places that
-- this daemon's ring has until it says otherwise. Answer: {it}:
-- replaced: it was made; count: 1 if the daemon was unknown here. INVALID: count partitions are
-- there, of layout seq.
local daemon, number, partitions = sub(slot, 2, 9), tonumber(ARGV[2]), tonumber(ARGV[3])
local found, now, flags = call('HMGET', hash, 's', 'v'), clock(), 0
if not found[1] then
    -- Each key gets a member that stays: none is ever empty, nor small enough to be kept as a list,
    -- which would be slower. The first number is about now: see number_after().
    local filler = string.rep('\255', 65)
    found = { pack('<I8I8I8I8', now - now % partitions + number, 0, partitions, FOREVER), ARGV[5] }
    call('HSET', hash, filler, filler, 's', found[1], 'v', found[2], 'c', ARGV[4])
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
even_if_full()
call('ZADD', order, 0, 'd' .. daemon)
local here = pack('<I8I2', now, tonumber(ARGV[6]))
local unknown = call('HSET', hash, 'c', ARGV[4], 'd' .. daemon, here)
return { say(OK, 0, flags, unknown, now, 0, 0) }
