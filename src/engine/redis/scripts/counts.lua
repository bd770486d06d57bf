-- Counts of reserved jobs (#h), where they were lost with the partition's hash. Put before rebuild.lua
-- and promote_slow.lua.
--
-- The field 'z' is there until they are known again: the last number of before, and the first bucket
-- that rebuild.lua has not counted. It counts the jobs that it finds, with leases up to that number:
-- those who reserve add later ones. A job that is given back before it is found is taken off although it
-- was not counted yet, and HSCAN may return a job twice, so a count may be too low or too high, by few. When the reserved jobs are no more than one
-- call can go through, they are counted in one step.
local function uncounted()
    local last_lease, first = string.match(call('HGET', hash, 'z') or '', '^(%d+) (%d+)$')
    return tonumber(last_lease or -1), tonumber(first or BUCKETS)
end

-- Counts all reserved jobs, if there are no more than `most`; half a microsecond each.
local VALUES = 4000
local function count_reserved(most)
    if call('ZCOUNT', reserved, '-inf', '+inf') > most then return end
    local members, counts, fields = call('ZRANGE', reserved, 0, -1), {}, {}
    for i = 1, #members do
        if byte(members[i]) < 255 then -- else it is the filler
            local topic = sub(members[i], 2, 1 + byte(members[i]))
            counts[topic] = (counts[topic] or 0) + 1
        end
    end
    call('HDEL', hash, 'z')
    for topic, count in pairs(counts) do
        fields[#fields + 1], fields[#fields + 2] = '#h' .. topic, count
        if #fields == VALUES then -- unpack() takes no more than some thousands
            call('HSET', hash, unpack(fields))
            fields = {}
        end
    end
    if #fields > 0 then call('HSET', hash, unpack(fields)) end
end
