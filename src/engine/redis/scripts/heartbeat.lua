-- A daemon lives: said once a second, in partition 0, for all partitions. ARGV: 2 how: y it serves,
-- n it lives but cannot serve now, x it leaves; 3 records older than that are dropped, and those
-- from the future, which a master with a slower clock has taken over: who lives writes another; 4 m
-- the answer has a third part: the policy by which this server may evict keys, '' if it may not.
-- Answer: {it, a record of 17 bytes for each daemon: its name, how, and when it said so}; seq: see
-- set_clock.lua.
local daemon, how, most_us, now = sub(slot, 2, 9), ARGV[2], tonumber(ARGV[3]), clock()
local found = call('HMGET', hash, 's', 'm', 'n')
if not found[1] then return redis.error_reply(CLOSED) end

local records, others = {}, found[2] or ''
for at = 1, #others, 17 do
    local age_us = now - unpack_bytes('<I8', others, at + 9)
    if age_us >= 0 and age_us <= most_us and sub(others, at, at + 7) ~= daemon then
        records[#records + 1] = sub(others, at, at + 16)
    end
end
if how ~= 'x' then records[#records + 1] = daemon .. how .. pack('<I8', now) end
others = table.concat(records)
even_if_full()
call('HSET', hash, 'm', others)
publish('b' .. how .. daemon)
local policy = nil
if ARGV[4] == 'm' then
    local info = redis.pcall('INFO', 'memory')
    info = type(info) == 'string' and info or info.verbatim_string or ''
    policy = string.match(info, 'maxmemory_policy:([%w-]+)') or ''
    if policy == 'noeviction' or string.find(info, 'maxmemory:0\r', 1, true) then policy = '' end
end
return { say(OK, 0, 0, #records, now, 0, tonumber(found[3] or 0)), others, policy }
