-- Notices of ready jobs, for scripts that handle one job or topic: see marks.lua.

-- The topic has one more ready job.
local function notify_ready(topic)
    local mark = call('HGET', hash, '#w' .. topic)
    if mark then notify_marked(hash, topic, mark) end
end

-- Notifies all daemons that wait for the topic, or cache its state: they must query it again.
local function notify_all(topic)
    if call('HDEL', hash, '#w' .. topic) == 1 then
        publish('r' .. notice_suffix(topic, call('HGET', hash, 'p')))
    end
end

-- This daemon was notified of a ready job, and needs none: notifies the next one.
local function pass_on(topic, mark)
    local at = 2
    while mark and at < #mark do
        if sub(mark, at, at + 7) == sub(slot, 2, 9) then
            mark = sub(mark, 1, at - 1) .. sub(mark, at + 16)
        else
            at = at + 16
        end
    end
    if mark then notify_marked(hash, topic, mark) end
end

-- `jobs` more are ready in the topic: one waiting daemon is notified for each. Returns true if the
-- first one is this daemon, by a mark of an earlier request: then the answer names the topic, and no
-- notice is published. A mark of a later request means that the daemon has given this request up.
local function notify_promoted(topic, jobs)
    local mark, ours = call('HGET', hash, '#w' .. topic), false
    while mark and jobs > 0 do
        local flags = string.byte(mark) - 48
        if not ours and flags % 2 == 0 and sub(mark, 2, 9) == sub(slot, 2, 9) and
            unpack_bytes('<I8', mark, 10) < unpack_bytes('<I8', request) then
            ours, mark = true, store_mark(hash, topic, flags, sub(mark, 18))
        else
            mark = notify_marked(hash, topic, mark)
        end
        jobs = jobs - 1
    end
    return ours
end
