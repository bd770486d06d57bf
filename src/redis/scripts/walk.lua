-- Goes through a topic's jobs in one state, a bounded slice a call. Put before list and sweep.
-- ARGV: 3 state (1 delayed, 2 ready, 3 reserved, 4 buried), 4 topic, 5 where to go on ('' = from
-- the start).
local SLICE = 1000 -- places looked at in one call
local state, topic = tonumber(ARGV[3]), ARGV[4]
local key = char(#topic) .. topic

-- The delayed and the reserved are in order of time, other topics' between them. The place to go on
-- at is a time, spelled as Redis does (some versions write 1.8e+15), and how many with that very
-- time lie behind.
local function by_time(set, from, visit)
    local at, skip = string.match(from, '^(%S+) (%d+)$')
    at, skip = at or '0', tonumber(skip or 0)
    local found = call('ZRANGEBYSCORE', set, at, FOREVER, 'WITHSCORES', 'LIMIT', skip, SLICE)
    for i = 1, #found, 2 do
        local behind = found[i + 1] == at and skip or 0
        local taken, left = true, false
        if sub(found[i], 1, #key) == key then taken, left = visit(sub(found[i], -8)) end
        if not taken then return true, at .. ' ' .. skip end
        at, skip = found[i + 1], left and behind or behind + 1
    end
    return #found == 2 * SLICE, at .. ' ' .. skip
end

-- The ready and the buried of a topic lie together; the place to go on at is the last one.
local function by_place(letter, from, visit)
    local found = call('ZRANGEBYLEX', order, from == '' and '[' .. letter .. key or '(' .. from,
        '(' .. letter .. key .. string.rep('\255', 21), 'LIMIT', 0, SLICE)
    for i = 1, #found do
        if not visit(sub(found[i], -8)) then return true, from end
        from = found[i]
    end
    return #found == SLICE, from
end

-- visit(name) says whether it took the job (else the walk ends before it), and whether the job left
-- its place. Returns whether there may be more, and where to go on.
local function walk(visit)
    if state == 1 then return by_time(delayed, ARGV[5], visit) end
    if state == 3 then return by_time(reserved, ARGV[5], visit) end
    return by_place(state == 2 and 'r' or 'b', ARGV[5], visit)
end
