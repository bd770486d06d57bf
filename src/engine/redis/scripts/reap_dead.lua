-- Daemons that are dead: what their connections held waits again, as if it had not been tried, and
-- the answers kept for them go. ARGV: 2 steps at most, 3 names of those that live, one behind the
-- other, 4 who came here less than that ago is left alone: the asker may not know yet that it
-- lives. Or 3 '' : the asker itself goes. Answer: {it}: count of daemons forgotten, more; next_us:
-- when the first of those left alone is no longer young, FOREVER if none was.
local most, living, young_us, now = tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), clock()
if call('HEXISTS', hash, 's') == 0 then return redis.error_reply(CLOSED) end

local lives, forgotten, steps, next_us = {}, 0, 0, FOREVER
for at = 1, #living, 8 do lives[sub(living, at, at + 7)] = true end

local function give_back(daemon)
    local held = call('ZRANGEBYLEX', order, '[h' .. daemon, '(h' .. daemon .. string.rep('\255', 9),
        'LIMIT', 0, most - steps)
    for i = 1, #held do
        local job = find('', sub(held[i], -8))
        if job and job.state == RESERVED then
            lift(job)
            place(job, WAITING, now)
        else
            call('ZREM', order, held[i])
        end
    end
    steps = steps + #held
    return steps < most
end

local function forget(daemon)
    for from = 0, 4095, 1024 do
        local answers = {}
        for i = from, from + 1023 do answers[#answers + 1] = 'a' .. daemon .. pack('>I2', i) end
        call('HDEL', hash, unpack(answers))
    end
    call('HDEL', hash, 'd' .. daemon)
    call('ZREM', order, 'd' .. daemon)
    forgotten = forgotten + 1
end

local function is_dead(daemon)
    local since = call('HGET', hash, 'd' .. daemon)
    if lives[daemon] then return false end
    local old_at = since and unpack_bytes('<I8', since) + young_us or now
    if old_at > now then next_us = math.min(next_us, old_at) end
    return old_at <= now
end

even_if_full()
local daemons = living == '' and { 'd' .. sub(slot, 2, 9) } or
    call('ZRANGEBYLEX', order, '[d', '(e')
for i = 1, #daemons do
    local daemon = sub(daemons[i], 2)
    if living == '' or is_dead(daemon) then
        if not give_back(daemon) then return { say(OK, 0, MORE, forgotten, now, now, 0) } end
        forget(daemon)
    end
end
return { say(OK, 0, 0, forgotten, now, next_us, 0) }
