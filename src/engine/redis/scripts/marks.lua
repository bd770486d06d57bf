-- Marks: who is to be told of the next ready job of a topic. A mark is the field '#w' and the topic:
-- a digit, 1 if daemons are to know that there are jobs though nobody waits there, 2 if others wait
-- than are named, 3 both; then 16 bytes for each daemon that waits, in the order in which they
-- came: its name, and the number of the request by which it said so. One job is for one daemon, so
-- one is told; if it needs none it tells the next (reserve_other.lua, option p).
local MARKS = 64 -- daemons that are named

-- Keeps what is left of a mark, and gives it; nil: nothing.
local function keep_mark(topic, flags, named)
    if flags == 0 and named == '' then
        call('HDEL', hash, '#w' .. topic)
        return nil
    end
    local mark = char(48 + flags) .. named
    call('HSET', hash, '#w' .. topic, mark)
    return mark
end

-- What notices of the topic end with.
local function which(topic)
    local last, _, partitions = unpack_bytes('<I8I8I8', call('HGET', hash, 'p'))
    return string.format('%.0f ', last % partitions) .. topic
end

-- Tells the first daemon that waits and can be told: one that nobody hears for is gone. Gives what
-- is left of the mark.
local function tell_marked(topic, mark)
    local flags, from, told = string.byte(mark) - 48, 2, false
    local channel, words = call('HGET', hash, 'c'), which(topic)
    while from <= #mark and not told do
        local own = channel .. ':' .. sub(mark, from, from + 7)
        local heard_by = redis.pcall(PUBLISH, own, 'r' .. words)
        -- An error: we may not tell, for now. Who waits stays in the mark, for the next job.
        if type(heard_by) ~= 'number' then return mark end
        told, from = heard_by > 0, from + 16
    end
    if not told and flags >= 2 then
        redis.pcall(PUBLISH, channel, 'r' .. words)
        flags = 0
    elseif flags % 2 == 1 then
        redis.pcall(PUBLISH, channel, 'h' .. words)
        flags = flags - 1
    end
    return keep_mark(topic, flags, sub(mark, from))
end

-- The topic has one more ready job.
local function notify_ready(topic)
    local mark = call('HGET', hash, '#w' .. topic)
    if mark then tell_marked(topic, mark) end
end

-- Whoever waits for the topic, or knows something of it, has to look again.
local function notify_all(topic)
    if call('HDEL', hash, '#w' .. topic) == 1 then publish('r' .. which(topic)) end
end

-- The mark with this daemon in it, and whether others wait as well. Not `waits`: only to know.
local function with_mark(mark, daemon, waits)
    local flags = string.byte(mark or '0') - 48
    local named, at = sub(mark or '0', 2), 1
    if not waits then return char(48 + flags + 1 - flags % 2) .. named, false end
    while at < #named and sub(named, at, at + 7) ~= daemon do at = at + 16 end
    if at > 16 * MARKS then
        flags = flags % 2 + 2
    else
        named = sub(named, 1, at - 1) .. daemon .. request .. sub(named, at + 16)
    end
    return char(48 + flags) .. named, #named > 16 or flags >= 2
end

-- This daemon was told of a ready job, and needs none.
local function pass_on(topic, mark)
    local at = 2
    while mark and at < #mark do
        if sub(mark, at, at + 7) == sub(slot, 2, 9) then
            mark = sub(mark, 1, at - 1) .. sub(mark, at + 16)
        else
            at = at + 16
        end
    end
    if mark then tell_marked(topic, mark) end
end

-- `jobs` more are ready in the topic, and one who waits is told for each. Is the first of them this
-- daemon, by a request before this one? Then it knows already. A mark that is younger is none of
-- the caller's: that has given it up meanwhile.
local function tell_promoted(topic, jobs)
    local mark, ours = call('HGET', hash, '#w' .. topic), false
    while mark and jobs > 0 do
        local flags = string.byte(mark) - 48
        if not ours and flags % 2 == 0 and sub(mark, 2, 9) == sub(slot, 2, 9) and
            unpack_bytes('<I8', mark, 10) < unpack_bytes('<I8', request) then
            ours, mark = true, keep_mark(topic, flags, sub(mark, 18))
        else
            mark = tell_marked(topic, mark)
        end
        jobs = jobs - 1
    end
    return ours
end
