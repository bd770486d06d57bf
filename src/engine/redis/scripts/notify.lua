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
