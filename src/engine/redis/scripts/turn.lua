-- Executes finishes and deletes, then pushes, then reserves of one topic each, in this order, as
-- one call. The effect is that of one request after the other.
--
-- KEYS: four of each partition.
-- ARGV[1]: six bytes: how many requests of each kind, then how many arguments one request of each
-- kind has; then, if there are several partitions, a byte for each request: which of these it is for,
-- from 0 on. Then the arguments of each request, as described in end.lua, push.lua and reserve.lua.
-- These scripts are the functions ends(), pushes() and reserves() here. Each gets that string (nil:
-- there is one partition), the positions before its first byte of it and its first argument, and how
-- many requests it has.
-- Returns an array with the answer of each request, or an error in its place.
-- Cost: the sum of the requests' costs.
local counts, answers, n, at = { string.byte(ARGV[1], 1, 6) }, {}, 0, 1
local routes = #KEYS > 4 and ARGV[1] or nil
-- A Redis that has reached maxmemory checks only the first write of a script. A call with pushes and
-- others begins with this write, which changes nothing and is refused if pushes must be: so pushes
-- behind an end are refused as well.
local full = counts[2] > 0 and counts[1] + counts[3] > 0 and redis.pcall('ZADD', KEYS[4], 'XX', '0', '')
full = type(full) == 'table' and string.find(full.err, 'OOM', 1, true) and
    redis.error_reply('OOM command not allowed when used memory > maxmemory')
for kind = 1, 3 do
    local count = counts[kind]
    if count > 0 then
        local some = nil
        if kind == 1 then
            -- Most queues have few topics that are in use at a time.
            local push = at + count * counts[4]
            local reserve = push + counts[2] * counts[5]
            local topic = counts[3] > 0 and ARGV[reserve + 5] or
                counts[2] > 0 and string.sub(ARGV[push + 7], 3)
            some = ends(KEYS, ARGV, routes, 6 + n, at, count, topic)
        elseif kind == 3 then
            some = reserves(KEYS, ARGV, routes, 6 + n, at, count)
        elseif not full then
            some = pushes(KEYS, ARGV, routes, 6 + n, at, count)
        end
        for i = 1, count do answers[n + i] = not some and full or count == 1 and some or some[i] end
        n, at = n + count, at + count * counts[3 + kind]
    end
end
return answers
