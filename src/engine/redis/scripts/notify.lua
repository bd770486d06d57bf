-- Who is told of ready jobs, for scripts that are about one job or topic: see marks.lua.

-- The topic has one more ready job.
local function notify_ready(topic)
    local mark = call('HGET', hash, '#w' .. topic)
    if mark then tell_marked(hash, topic, mark) end
end

-- Whoever waits for the topic, or knows something of it, has to look again.
local function notify_all(topic)
    if call('HDEL', hash, '#w' .. topic) == 1 then publish('r' .. which(topic, call('HGET', hash, 'p'))) end
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
    if mark then tell_marked(hash, topic, mark) end
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
            ours, mark = true, keep_mark(hash, topic, flags, sub(mark, 18))
        else
            mark = tell_marked(hash, topic, mark)
        end
        jobs = jobs - 1
    end
    return ours
end
