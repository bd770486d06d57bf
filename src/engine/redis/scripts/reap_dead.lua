-- Removes dead daemons from the partition, step by step: jobs that were reserved for their
-- connections become ready or delayed again, without a failed attempt, and the daemons' stored
-- answers are deleted.
-- Idempotent.
--
-- ARGV:
--   2  the most jobs to give back
--   3  names of the living daemons, concatenated (8 bytes each); '': remove the caller itself
--   4  a daemon that was registered less than this ago is skipped: the caller may not know yet that
--      it lives
--   5  continue after this name, '' at the start
-- Returns {header}. count: daemons that were removed. next_us: when the first daemon that was
-- skipped by this call may be removed, FOREVER if none was. MORE: call again, with the name in the
-- bytes of seq.
-- Cost: O(NAMES + PLACES + jobs log n).
local NAMES, PLACES = 64, 512 -- daemons checked, and answers deleted from rings, in one call
local most, living, young_us, now = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), clock()
local from, places, removed, next_us = ARGV[5], PLACES, 0, FOREVER
if call('HEXISTS', hash, 'p') == 0 then return redis.error_reply(CLOSED) end

-- False: there is more.
local function release_jobs(daemon)
    local held = call('ZRANGEBYLEX', order, '[h' .. daemon, '(h' .. daemon .. string.rep('\255', 9),
        'LIMIT', 0, most + 1)
    local count = math.min(#held, most)
    for i = 1, count do
        local job = find('', sub(held[i], -8))
        if job and job.state == RESERVED then
            unlink(job)
            link(job, WAITING, now)
            journal_change(job, job.state, job.flags, now)
        else
            call('ZREM', order, held[i])
        end
    end
    most = most - count
    return #held == count
end

-- Deletes the answers in the daemon's ring, then the daemon. Its field (`since`) has the time of its
-- registration, and how many places the ring may have. While the ring is being emptied the time is 0
-- (see open.lua). No field: another call has removed the daemon already, and there are at most a few
-- later answers, at the lowest places. They are deleted in this call without a new field, because
-- nobody would find it if the daemon removes itself (ARGV 3 is ''). False: call again.
local function remove_daemon(daemon, since)
    local left = not since and PLACES or #since > 8 and unpack_bytes('<I2', since, 9) or 4096
    local answers = {}
    while left > 0 and places > 0 do
        left, places = left - 1, places - 1
        answers[#answers + 1] = 'a' .. daemon .. pack('>I2', left)
    end
    if #answers > 0 then call('HDEL', hash, unpack(answers)) end
    if left > 0 then
        call('HSET', hash, 'd' .. daemon, pack('<I8I2', 0, left))
        return false
    end
    call('HDEL', hash, 'd' .. daemon)
    call('ZREM', order, 'd' .. daemon)
    removed = removed + 1
    return true
end

local function is_young(since)
    local old_at = (since and unpack_bytes('<I8', since) or 0) + young_us
    if old_at > now then next_us = math.min(next_us, old_at) end
    return old_at > now
end

local function answer(more)
    local first = header(OK, 0, more and MORE or 0, removed, now, next_us, 0)
    if not more or from == '' then return { first } end
    return { sub(first, 1, 16) .. from .. sub(first, 25) }
end

even_if_full()
local names = { 'd' .. sub(slot, 2, 9) }
if living ~= '' then
    names = call('ZRANGEBYLEX', order, from == '' and '[d' or '(d' .. from, '(e', 'LIMIT', 0, NAMES)
end
local found = #names > 0 and call('HMGET', hash, unpack(names)) or {}
local is_living = { [''] = true } -- the member that keeps out older daemons: open.lua
for at = 1, #living, 8 do is_living[sub(living, at, at + 7)] = true end
for i = 1, #names do
    local daemon, since = sub(names[i], 2), found[i]
    if living == '' or not (is_living[daemon] or is_young(since)) then
        if not (release_jobs(daemon) and remove_daemon(daemon, since)) then return answer(true) end
    end
    from = daemon
end
return answer(living ~= '' and #names == NAMES)
