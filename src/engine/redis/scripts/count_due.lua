-- How many delayed jobs are due by some times. ARGV: 2 topics after this name, 3 how many of them at
-- most; 4 the times, each plus one, 8 bytes big-endian, none before the one in front of it. Answer:
-- {it, the last topic looked at, counts of 8 bytes}: more.
local most, times, now = tonumber(ARGV[3]), {}, clock()
local counts = {}
for i = 1, #ARGV[4] / 8 do times[i], counts[i] = sub(ARGV[4], 8 * i - 7, 8 * i), 0 end
local names = call('ZRANGEBYLEX', order, ARGV[2] == '' and '[t' or '(t' .. ARGV[2], '(u', 'LIMIT', 0,
    most + 1)
local looked = math.min(#names, most)
for n = 1, looked do
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
    say(OK, 0, #names > most and MORE or 0, 0, now, 0, 0),
    looked > 0 and sub(names[looked], 2) or '',
    table.concat(counts),
}
