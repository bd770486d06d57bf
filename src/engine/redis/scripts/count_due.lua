-- Counts delayed jobs that are due by given times, for a page of topics. Changes nothing.
--
-- ARGV: 2 topics after this name, '' from the first; 3 the most topics; 4 the times in ascending
-- order, each plus one microsecond, as 8 bytes big-endian.
-- Returns {header, name of the last topic looked at, counts}. counts: for each time, 8 bytes: the
-- jobs of these topics that are due by then. MORE: there are more topics.
-- Cost: O(log n) for each topic and time.
local most, times, now = tonumber(ARGV[3]), {}, clock()
local counts = {}
for i = 1, #ARGV[4] / 8 do times[i], counts[i] = sub(ARGV[4], 8 * i - 7, 8 * i), 0 end
local names = call('ZRANGEBYLEX', order, ARGV[2] == '' and '[t' or '(t' .. ARGV[2], '(u', 'LIMIT', 0,
    most + 1)
local checked = math.min(#names, most)
for n = 1, checked do
    local name = sub(names[n], 2)
    local key = 'w' .. char(#name) .. name
    -- The last time first: a topic with nothing due by then has nothing due before.
    for i = #times, 1, -1 do
        local due = call('ZLEXCOUNT', order, '[' .. key, '(' .. key .. times[i])
        if due == 0 then break end
        counts[i] = counts[i] + due
    end
end
for i = 1, #counts do counts[i] = pack('<I8', counts[i]) end
return {
    header(OK, 0, #names > most and MORE or 0, 0, now, 0, 0),
    checked > 0 and sub(names[checked], 2) or '',
    table.concat(counts),
}
