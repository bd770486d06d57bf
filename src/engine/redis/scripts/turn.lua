-- Ends, pushes and reserves of one topic that go in one call: each as if it came by itself, in this
-- order. ARGV: 1 how many of each kind (three bytes), and how many arguments one of each has (three
-- bytes); then the arguments of each, as end.lua, push.lua and reserve.lua have them, which are ends(),
-- pushes() and reserves() here: each is passed where its keys and arguments begin, and how many it has.
-- KEYS: four for all of them, or four for each. Answer: an array of their answers.
local counts, answers, n, key, at = { string.byte(ARGV[1], 1, 6) }, {}, 0, 0, 1
local one = #KEYS == 4
-- A full Redis refuses only a script's first write. So that pushes after an end are refused as well,
-- calls with pushes begin with this write: it changes nothing, but is refused if pushes would be.
local full = counts[2] > 0 and redis.pcall('ZADD', KEYS[4], 'XX', '0', '')
full = type(full) == 'table' and string.find(full.err, 'OOM', 1, true) and
    redis.error_reply('OOM command not allowed when used memory > maxmemory')
for kind = 1, 3 do
    local count = counts[kind]
    if count > 0 then
        local keys, some = one and 0 or key, nil
        if kind == 1 then
            some = ends(KEYS, ARGV, keys, at, count)
        elseif kind == 3 then
            some = reserves(KEYS, ARGV, keys, at, count)
        elseif not full then
            some = pushes(KEYS, ARGV, keys, at, count)
        end
        for i = 1, count do answers[n + i] = not some and full or count == 1 and some or some[i] end
        n, key, at = n + count, key + 4 * count, at + count * counts[3 + kind]
    end
end
return answers
