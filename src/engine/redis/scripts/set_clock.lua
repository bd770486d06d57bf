-- The partition's clock, not held between bounds: shows it, or sets it right after Redis' own clock
-- has leapt. ARGV: 2 by so much (0: only shows it), 3 if it was set so often, 4 how often it was set
-- from now on. Answer: {it, `o` and `n`}: by how much it is ahead of Redis', how often it was set, and
-- what it showed then, at the least, as who set it believed.
local found = call('HMGET', hash, 'p', 'o', 'n')
if not found[1] then return redis.error_reply(CLOSED) end
local ahead, set = tonumber(found[2] or 0), found[3] or '0 0'
local since_1970 = call('TIME')
local redis_now = since_1970[1] * 1000000 + since_1970[2]
local least, most, queue = unpack_bytes('<I8I8I8', ARGV[1], 21)
local after = redis_now + ahead + tonumber(ARGV[2])
-- It may have leapt once more while this was on its way: then it is not set.
if ARGV[2] ~= '0' and ARGV[3] == string.match(set, '^%d+') and after >= queue and
    after <= queue + (most - least) then
    even_if_full()
    ahead, set = after - redis_now, ARGV[4] .. string.format(' %.0f', queue)
    call('HSET', hash, 'o', string.format('%.0f', ahead), 'n', set)
end
return { say(OK, 0, 0, 0, redis_now + ahead, 0, 0), string.format('%.0f ', ahead) .. set }
