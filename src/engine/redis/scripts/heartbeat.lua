-- A daemon's heartbeat, sent once a second to partition 0, for all partitions. It stores the
-- daemon's state and the time, and publishes them: a change of state to all daemons; else only to
-- the next daemon, in order of arrival, that is not silent and has a subscriber. If that daemon
-- misses such notices, it requests the list ('l'), which publishes silent daemons to all.
--
-- Fields of the hash: 'r' the names of all daemons, in order of arrival; 'h' and a name: state (1
-- byte: 'y' it serves, 'n' it lives but cannot serve now, 's' it is silent), time of its last
-- heartbeat (8 bytes).
--
-- ARGV:
--   2  state: 'y', 'n', or 'x' it leaves
--   3  a daemon whose last heartbeat is older than this is removed from the list
--   4  'l' return the list, and look for silent daemons; 'm' return the policy by which this server
--      evicts keys
--   5  a daemon whose last heartbeat is older than this is silent
-- Returns {header, list, policy}. list: 17 bytes for each daemon: name, state, time; '' without
-- 'l'. policy: '' if no key may be evicted; missing without 'm', or if it could not be read. state:
-- 1 pushes are refused, because the journal is too far behind, in this partition or in another, as
-- the journal's writer has reported (journal.lua). count: daemons in the list. seq: how often the
-- clock was set (set_clock.lua). next_us: number of the last change of settings (settings.lua);
-- FOREVER if the settings cannot be read now.
-- Cost: O(1) without 'l', at most TRIES publications; with 'l' O(daemons).
local TRIES = 16 -- daemons to which it tries to publish
local AT_ONCE = 500 -- records read by one command
local daemon, how, kept_us, now = sub(slot, 2, 9), ARGV[2], tonumber(ARGV[3]), clock()
local found = call('HMGET', hash, 'p', 'r', 'n', 'c', 'h' .. daemon, 'j', 'jb')
if not found[1] then return redis.error_reply(CLOSED) end
local names, channel, before = found[2] or '', found[4], found[5]

local function place_of_name(name)
    local at = string.find(names, name, 1, true)
    while at and at % 8 ~= 1 do at = string.find(names, name, at + 1, true) end
    return at
end

local function drop_name(name)
    local at = place_of_name(name)
    if at then names = sub(names, 1, at - 1) .. sub(names, at + 8) end
    call('HDEL', hash, 'h' .. name)
end

-- Publishes to the next daemon. False: none of the next TRIES daemons has a subscriber.
local function notify_next()
    local ours = place_of_name(daemon)
    for step = 1, math.min(#names / 8, TRIES) do
        local at = (ours + 8 * step - 1) % #names + 1
        local name = sub(names, at, at + 7)
        local record = name == daemon and before or call('HGET', hash, 'h' .. name)
        if record and sub(record, 1, 1) ~= 's' and
            redis.pcall(PUBLISH, channel .. ':' .. name, 'b' .. how .. daemon) ~= 0 then
            return true
        end
    end
    return false
end

local function list_daemons()
    local records, fresh_us, all = {}, tonumber(ARGV[5]), names
    for from = 1, #all, 8 * AT_ONCE do
        local fields = {}
        for at = from, math.min(#all, from + 8 * AT_ONCE - 1), 8 do
            fields[#fields + 1] = 'h' .. sub(all, at, at + 7)
        end
        local found = call('HMGET', hash, unpack(fields))
        for i = 1, #fields do
            local name, record = sub(fields[i], 2), found[i]
            local age_us = record and now - unpack_bytes('<I8', record, 2)
            if not record or age_us > kept_us then
                drop_name(name)
            else
                -- While Redis' clock is wrong, the time comes from each daemon's bounds, so a record
                -- may be slightly in the future. One that is further ahead is set to now.
                if age_us < -fresh_us then
                    record = sub(record, 1, 1) .. pack('<I8', now)
                    call('HSET', hash, 'h' .. name, record)
                elseif age_us > fresh_us and byte(record) ~= 115 then -- 115: s
                    record = 's' .. sub(record, 2)
                    call('HSET', hash, 'h' .. name, record)
                    publish('bs' .. name)
                end
                records[#records + 1] = name .. record
            end
        end
    end
    return table.concat(records)
end

local function is_behind()
    local journal, reported = found[6], found[7]
    if reported and unpack_bytes('<I8', reported) > now then return true end
    if not journal or byte(journal, 33) ~= 114 then return false end -- 114: r
    local bytes, taken, most = unpack_bytes('<I8I8I8', journal, 9)
    local since, span = unpack_bytes('<I8I8', journal, 34)
    return bytes - taken >= most or since > 0 and span > 0 and now - since > span
end

even_if_full()
local listed, records = names, ''
if how == 'x' then
    drop_name(daemon)
    publish('bx' .. daemon)
else
    call('HSET', hash, 'h' .. daemon, how .. pack('<I8', now))
    if not place_of_name(daemon) then names = names .. daemon end
    local same = before and sub(before, 1, 1) == how
    if not (same and notify_next()) then publish('b' .. how .. daemon) end
end
if string.find(ARGV[4], 'l', 1, true) then records = list_daemons() end
if names ~= listed then call('HSET', hash, 'r', names) end
local policy = nil
if string.find(ARGV[4], 'm', 1, true) then
    local info = redis.pcall('INFO', 'memory')
    info = type(info) == 'string' and info or info.verbatim_string or ''
    policy = string.match(info, 'maxmemory_policy:([%w-]+)') -- nil: it could not be read now
    if policy == 'noeviction' or policy and string.find(info, 'maxmemory:0\r', 1, true) then
        policy = ''
    end
end
local set_count = tonumber(string.match(found[3] or '0', '^%d+'))
local settings, changes = redis.pcall('HGET', sub(hash, 1, -2) .. 's', '!'), FOREVER
if type(settings) == 'string' then changes = unpack_bytes('<I8', settings) end
if not settings and not importing then changes = 0 end -- no settings were ever made
local behind = is_behind() and 1 or 0
return { header(OK, behind, 0, #records / 17, now, changes, set_count), records, policy }
