-- Marks: who is to be told of the next ready job of a topic. A mark is the field '#w' and the topic:
-- a digit, 1 if daemons are to know that there are jobs though nobody waits there, 2 if others wait
-- than are named, 3 both; then 16 bytes for each daemon that waits, in the order in which they
-- came: its name, and the number of the request by which it said so. One job is for one daemon, so
-- one is told; if it needs none it tells the next (reserve_other.lua, option p). Put behind clock.lua;
-- notify.lua has the rest of it.
local MARKS = 64 -- daemons that are named
local sub = string.sub

-- Redis 7 passes messages on a sharded channel on to no other node of a cluster.
local PUBLISH = redis.REDIS_VERSION_NUM and 'SPUBLISH' or 'PUBLISH'

-- Keeps what is left of a mark, and gives it; nil: nothing.
local function keep_mark(hash, topic, flags, named)
    if flags == 0 and named == '' then
        redis.call('HDEL', hash, '#w' .. topic)
        return nil
    end
    local mark = string.char(48 + flags) .. named
    redis.call('HSET', hash, '#w' .. topic, mark)
    return mark
end

-- What notices of the topic end with, in the partition whose field `p` is given.
local function which(topic, state)
    local last, _, partitions = struct.unpack('<I8I8I8', state)
    return string.format('%.0f ', last % partitions) .. topic
end

-- Tells the first daemon that waits and can be told: one that nobody hears for is gone. A zero before
-- the partition tells it that no other one waits. Gives what is left of the mark.
local function tell_marked(hash, topic, mark)
    local flags, from, told = string.byte(mark) - 48, 2, false
    local found = redis.call('HMGET', hash, 'c', 'p')
    local channel, words = found[1], which(topic, found[2])
    while from <= #mark and not told do
        local own = channel .. ':' .. sub(mark, from, from + 7)
        local alone = flags < 2 and from + 16 > #mark
        local heard_by = redis.pcall(PUBLISH, own, (alone and 'r0' or 'r') .. words)
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
    return keep_mark(hash, topic, flags, sub(mark, from))
end

-- The mark with this daemon in it, by its request with that number, and whether others wait as well.
-- Not `waits`: only to know.
local function with_mark(mark, daemon, number, waits)
    local flags = string.byte(mark or '0') - 48
    local named, at = sub(mark or '0', 2), 1
    if not waits then return string.char(48 + flags + 1 - flags % 2) .. named, false end
    while at < #named and sub(named, at, at + 7) ~= daemon do at = at + 16 end
    if at > 16 * MARKS then
        flags = flags % 2 + 2
    else
        named = sub(named, 1, at - 1) .. daemon .. number .. sub(named, at + 16)
    end
    return string.char(48 + flags) .. named, #named > 16 or flags >= 2
end
