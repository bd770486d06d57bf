-- Shows the partition's clock without applying bounds, or sets it right after Redis' clock has
-- leapt (clock.lua).
--
-- ARGV: 2 by how much to move it, 0: only show it; 3 how often it must have been set, else nothing
-- is done; 4 how often it counts as set from then on.
-- Returns {header, text}. now: what the clock shows. The text has fields `o` and `n` of the hash,
-- three numbers: how far the clock is ahead of Redis', how often it was set, and the least that it
-- showed when it was set, by the bounds of the daemon that set it.
-- All daemons are notified that it was set. Cost: O(1).
local found = call('HMGET', hash, 'p', 'o', 'n')
if not found[1] then return redis.error_reply(CLOSED) end
local ahead, set = tonumber(found[2] or 0), found[3] or '0 0'
local since_1970 = call('TIME')
local redis_now = since_1970[1] * 1000000 + since_1970[2]
local least, most, queue = unpack_bytes('<I8I8I8', ARGV[1], 21)
local after = redis_now + ahead + tonumber(ARGV[2])
-- Not set if the result is outside the daemon's bounds: Redis' clock has leapt again since the
-- request was sent.
if ARGV[2] ~= '0' and ARGV[3] == string.match(set, '^%d+') and after >= queue and
    after <= queue + (most - least) then
    even_if_full()
    ahead, set = after - redis_now, ARGV[4] .. string.format(' %.0f', queue)
    call('HSET', hash, 'o', string.format('%.0f', ahead), 'n', set)
    -- A daemon that has read the clock before computes times by the old shift, and notices nothing as
    -- long as Redis' clock goes on.
    local last, _, partitions = unpack_bytes('<I8I8I8', found[1])
    publish(string.format('o%.0f ', last % partitions) .. sub(slot, 2, 9))
end
return { header(OK, 0, 0, 0, redis_now + ahead, 0, 0), string.format('%.0f ', ahead) .. set }
