-- Goes through a topic's jobs in one state, at most SLICE places in one call. Put before list.lua and
-- sweep.lua.
-- ARGV: 3 state (1 delayed, 2 ready, 3 reserved, 4 buried), 4 topic, 5 where to continue ('' = at
-- the start; backwards: at the end).
local SLICE = 600 -- places read in one call
local state, topic = tonumber(ARGV[3]), ARGV[4]
local key = char(#topic) .. topic

-- Compares bytes, as sorted sets do; Lua's comparison depends on the server's locale.
local function comes_after(member, other)
    for i = 1, math.min(#member, #other) do
        local ours, theirs = string.byte(member, i), string.byte(other, i)
        if ours ~= theirs then return ours > theirs end
    end
    return #member > #other
end

-- The rank of the first member after this place. A place is a time, as Redis formats it (some versions:
-- 1.8e+15), and the last visited member of that time, or ''. That member may have been removed, so its
-- rank is searched among the members of that time; a stored count would skip members then.
local function rank_behind(from)
    local at, seen = string.match(from, '^(%S+) (.*)$')
    if not at then return 0 end
    local low = call('ZCOUNT', reserved, '-inf', '(' .. at)
    local high = seen == '' and low or call('ZCOUNT', reserved, '-inf', at)
    while low < high do
        local middle = math.floor((low + high) / 2)
        if comes_after(call('ZRANGE', reserved, middle, middle)[1], seen) then
            high = middle
        else
            low = middle + 1
        end
    end
    return low
end

-- The number of members before this place. A time without a member is after all members of that time.
local function rank_before(from)
    local at, seen = string.match(from, '^(%S+) (.*)$')
    if not at then return call('ZCOUNT', reserved, '-inf', '+inf') end
    local high = call('ZCOUNT', reserved, '-inf', at)
    local low = seen == '' and high or call('ZCOUNT', reserved, '-inf', '(' .. at)
    while low < high do
        local middle = math.floor((low + high) / 2)
        if comes_after(seen, call('ZRANGE', reserved, middle, middle)[1]) then
            low = middle + 1
        else
            high = middle
        end
    end
    return low
end

local function by_time_backwards(from, visit)
    local rank = rank_before(from)
    if rank == 0 then return false, from end
    local found = call('ZRANGE', reserved, math.max(rank - SLICE, 0), rank - 1, 'WITHSCORES')
    for i = #found - 1, 1, -2 do
        if sub(found[i], 1, #key) == key and not visit(sub(found[i], -8), found[i], found[i + 1]) then
            return true, from
        end
        from = found[i + 1] .. ' ' .. found[i]
    end
    return rank > SLICE, from
end

-- Reserved jobs are in order of time, those of all topics mixed.
local function by_time(from, visit)
    local rank = rank_behind(from)
    local found = call('ZRANGE', reserved, rank, rank + SLICE - 1, 'WITHSCORES')
    local function behind(last)
        return last > 0 and found[last] .. ' ' .. found[last - 1] or from
    end
    for i = 1, #found, 2 do
        if sub(found[i], 1, #key) == key and not visit(sub(found[i], -8), found[i], found[i + 1]) then
            return true, behind(i - 1)
        end
    end
    return #found == 2 * SLICE and found[#found] ~= 'inf', behind(#found) -- inf: the filler
end

-- A topic's jobs in another state are adjacent members; the walk continues behind the last one visited.
local function by_place(letter, from, visit, backwards)
    local first, past = '[' .. letter .. key, '(' .. letter .. key .. string.rep('\255', 21)
    local found = backwards
        and call('ZREVRANGEBYLEX', order, from == '' and past or '(' .. from, first, 'LIMIT', 0, SLICE)
        or call('ZRANGEBYLEX', order, from == '' and first or '(' .. from, past, 'LIMIT', 0, SLICE)
    for i = 1, #found do
        local name = letter == 'w' and sub(found[i], #key + 14, #key + 21) or sub(found[i], -8)
        if not visit(name, found[i]) then return true, from end
        from = found[i]
    end
    return #found == SLICE, from
end

-- visit(name, member, score) returns true if it took the job; if not, the walk ends before that job. It
-- may move the job. walk() returns whether there may be more, and where to continue.
local function walk(visit, backwards)
    if state == 3 then return (backwards and by_time_backwards or by_time)(ARGV[5], visit) end
    return by_place(sub('wr-b', state, state), ARGV[5], visit, backwards)
end
