-- The partition's clock, not held between bounds: shows it, or sets it right after Redis' own clock
-- has leapt. ARGV: 2 by so much (0: only shows it), 3 if it was set so often, 4 how often it was set
-- from now on. Answer: {it, `o`, a space, and how often it was set}.
local found = call('HMGET', hash, 's', 'o', 'n')
if not found[1] then return redis.error_reply(CLOSED) end
local ahead, count = tonumber(found[2] or 0), tonumber(found[3] or 0)
if ARGV[2] ~= '0' and ARGV[3] == string.format('%.0f', count) then
    even_if_full()
    ahead, count = ahead + tonumber(ARGV[2]), tonumber(ARGV[4])
    call('HSET', hash, 'o', string.format('%.0f', ahead), 'n', string.format('%.0f', count))
end
local time = call('TIME')
local now = time[1] * 1000000 + time[2] + ahead
return { say(OK, 0, 0, 0, now, 0, 0), string.format('%.0f %.0f', ahead, count) }
