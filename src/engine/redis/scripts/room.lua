-- Makes room for one more topic. Put before the scripts that make topics.
local TOPICS_CHECKED = 64 -- in a search for an idle one; the next call continues after them

-- Deletes all that is stored of a topic without jobs.
local function delete_topic(topic)
    notify_all(topic) -- daemons with a mark request jobs again, and leave a new mark
    local fields = {}
    for letter in string.gmatch('prfdxtlbkzhuswc', '.') do
        fields[#fields + 1] = '#' .. letter .. topic
    end
    call('HDEL', hash, unpack(fields))
    call('ZREM', order, 't' .. topic)
    call('ZREM', delayed, '\0' .. topic) -- its last delayed job may have been deleted
end

local function has_places(topic)
    local key = char(#topic) .. topic
    for kind in string.gmatch('wrb', '.') do
        local first, past = '[' .. kind .. key, '(' .. kind .. key .. string.rep('\255', 21)
        if call('ZRANGEBYLEX', order, first, past, 'LIMIT', 0, 1)[1] then return true end
    end
    return false
end

-- Returns how many jobs the topic has here (at least one, if the counts were lost: rebuild.lua), until
-- when it is paused, and its settings, if any.
local function jobs_in(topic)
    local count = call('HMGET', hash, '#p' .. topic, '#f' .. topic, '#d' .. topic, '#x' .. topic,
        '#u' .. topic, '#c' .. topic, '#h' .. topic)
    local gone = (count[2] or 0) + (count[3] or 0) + (count[4] or 0)
    local jobs = (count[1] or 0) - gone
    if jobs <= 0 then jobs = (tonumber(count[7] or 0) > 0 or has_places(topic)) and 1 or 0 end
    return jobs, tonumber(count[5] or 0), count[6]
end

-- True: there is room. If there was none, a topic without jobs, pause and settings was removed.
local function room_for_topic(most, now)
    if most == 0 or call('ZLEXCOUNT', order, '[t', '(u') < most then return true end
    local from = call('HGET', hash, 'e') or ''
    local names = call('ZRANGEBYLEX', order, '(t' .. from, '(u', 'LIMIT', 0, TOPICS_CHECKED)
    local before = call('ZRANGEBYLEX', order, '[t', '[t' .. from, 'LIMIT', 0, TOPICS_CHECKED - #names)
    for i = 1, #before do names[#names + 1] = before[i] end
    for i = 1, #names do
        local topic = sub(names[i], 2)
        local jobs, pause, configured = jobs_in(topic)
        if jobs == 0 and pause <= now and not configured then
            call('HSET', hash, 'e', topic) -- first: a full Redis refuses it (even_if_full())
            delete_topic(topic)
            return true
        end
    end
    call('HSET', hash, 'e', sub(names[#names], 2))
    return false
end
