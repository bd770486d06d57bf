-- Push of one job, whatever has to be done for it: see push.lua.
local id, exists, topic, most = ARGV[8], ARGV[10], sub(ARGV[7], 3), tonumber(ARGV[11])
local now = clock()
local first = answered()
if first then return { first } end
local found = call('HMGET', hash, 's', ARGV[7], id)
if not found[1] then return redis.error_reply(CLOSED) end

local old, flags = found[3] and call('HGET', hash, 'j' .. found[3]), 0
if old and exists == 'j' then
    return { say(EXISTS, 0, 0, 0, now, 0, 0) }
elseif old and exists == 'k' then
    return { say(OK, 0, KEPT, 1, now, 0, 0), old }
end
local last, pushed, partitions, wake = state_of_all()
if not old and pushed >= most then
    -- Some of these have gone. They are taken off both numbers, so that it is long until the next
    -- push has to look here.
    local gone = call('HGET', hash, 'g') or 0
    pushed = pushed - gone
    if pushed >= most then return { say(JOBS_LIMIT, 0, 0, 0, now, 0, 0) } end
    call('HSET', hash, 'g', 0, 's', pack('<I8I8I8I8', last, pushed, partitions, wake))
end
if not found[2] then -- the first job of its topic
    if not call('ZSCORE', order, 't' .. topic) and not room_for_topic(tonumber(ARGV[12]), now) then
        return { say(TOPICS_LIMIT, 0, 0, 0, now, 0, 0) }
    end
    call('ZADD', order, 0, 't' .. topic)
    call('HDEL', hash, '#w' .. topic) -- who waits for it is told below
end
if old then
    local job = read(old)
    lift(job)
    drop(job)
    call('HINCRBY', hash, '#x' .. job.topic, 1)
    flags = REPLACED
end

local seq = number_after(last, partitions, now)
local job = read(ARGV[2] .. pack('<I8I8', seq, now) .. ARGV[3])
call('HSET', hash, 's', pack('<I8I8I8I8', seq, pushed + 1, partitions, wake),
    'b' .. job.name, ARGV[4])
if id ~= '' then call('HSET', hash, id, job.name) end
call('HINCRBY', hash, ARGV[7], 1)
place(job, ARGV[9] == 'b' and BURIED or WAITING, now)
if not found[2] then publish(string.format('r%.0f ', last % partitions) .. topic) end
return { keep('', say(OK, shown(job, now), flags, 1, now, 0, seq))[1] }
