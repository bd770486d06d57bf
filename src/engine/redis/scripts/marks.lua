-- Marks: which daemons are notified of the next ready job of a topic. A mark is the value of the field
-- '#w' and the topic: a digit, 1 if daemons without a waiting consumer must be notified of jobs, too,
-- 2 if more daemons wait than are named, 3 both; then 16 bytes for each waiting daemon, in order of
-- arrival: its name, and the number of the request that left the mark. Only one daemon can get a job,
-- so one is notified; if it needs no job, it requests that the next one is notified
-- (reserve_slow.lua, option p). Follows clock.lua in the script's text; notify.lua and promote.lua have
-- the other functions for marks.
local MARKS = 64 -- daemons named in a mark, at most
local sub = string.sub

-- With Redis 7 on a sharded channel: its messages are not sent to all nodes of a cluster.
local PUBLISH = redis.REDIS_VERSION_NUM and 'SPUBLISH' or 'PUBLISH'

-- Stores what is left of a mark, and returns it; nil: nothing is left.
local function store_mark(hash, topic, flags, named)
    if flags == 0 and named == '' then
        redis.call('HDEL', hash, '#w' .. topic)
        return nil
    end
    local mark = string.char(48 + flags) .. named
    redis.call('HSET', hash, '#w' .. topic, mark)
    return mark
end

-- The end of the topic's notices: partition and topic. `state`: the partition's field `p`.
local function notice_suffix(topic, state)
    local last, _, partitions = struct.unpack('<I8I8I8', state)
    return string.format('%.0f ', last % partitions) .. topic
end

-- Notifies the first waiting daemon whose channel has a subscriber; daemons without one have ended. A
-- zero before the partition means that no other daemon waits. Returns what is left of the mark.
local function notify_marked(hash, topic, mark)
    local flags, from, notified = string.byte(mark) - 48, 2, false
    local found = redis.call('HMGET', hash, 'c', 'p')
    local channel, words = found[1], notice_suffix(topic, found[2])
    while from <= #mark and not notified do
        local own = channel .. ':' .. sub(mark, from, from + 7)
        local alone = flags < 2 and from + 16 > #mark
        local receivers = redis.pcall(PUBLISH, own, (alone and 'r0' or 'r') .. words)
        -- An error: publishing is not allowed now. The waiting daemons stay in the mark.
        if type(receivers) ~= 'number' then return mark end
        notified, from = receivers > 0, from + 16
    end
    if not notified and flags >= 2 then
        redis.pcall(PUBLISH, channel, 'r' .. words)
        flags = 0
    elseif flags % 2 == 1 then
        redis.pcall(PUBLISH, channel, 'h' .. words)
        flags = flags - 1
    end
    return store_mark(hash, topic, flags, sub(mark, from))
end

-- Returns the mark with this daemon added (`number`: of its request), and whether others wait as well.
-- `waits` false: the daemon has no waiting consumer, but must be notified of jobs.
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
