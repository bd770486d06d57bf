-- A sorted set was lost (deleted, evicted): what was in it is put back from the heads, a slice of
-- the hash a call. ARGV: 2 where to go on ('0' from the start), 3 about how many fields. Answer:
-- {it, where to go on}: more. It changes nothing that is where it belongs, so others go on
-- meanwhile; a ready job that was lost becomes ready by promote, since it is due.
local filler, now = string.rep('\255', 65), clock()
local scanned = call('HSCAN', hash, ARGV[2], 'COUNT', ARGV[3])
local fields, from = scanned[2], scanned[1]

local function put_back(job)
    local at = place_of(job)
    call('ZADD', order, 0, 't' .. job.topic)
    if job.state == RESERVED then
        call('ZADD', reserved, job.till, at)
        tell_due(job.till)
        if is_bound(job) then
            call('ZADD', order, 0, 'h' .. job.holder .. job.name, 0, 'd' .. job.holder)
        end
    elseif job.state == BURIED then
        call('ZADD', order, 0, buried_place(job))
    elseif not call('ZSCORE', order, 'r' .. at) then
        link_delayed(job)
        tell_due(job.due)
    end
end

even_if_full()
for i = 1, #fields, 2 do
    local field = fields[i]
    local kind = sub(field, 1, 1)
    if kind == 'j' and #field == 9 then
        put_back(read(fields[i + 1]))
    elseif kind == 'd' and #field == 9 then
        call('ZADD', order, 0, field)
    elseif sub(field, 1, 2) == '#p' then
        call('ZADD', order, 0, 't' .. sub(field, 3))
    end
end
if from == '0' then
    call('ZADD', delayed, '+inf', filler)
    call('ZADD', reserved, '+inf', filler)
    call('ZADD', order, 0, filler)
end
return { say(OK, 0, from ~= '0' and MORE or 0, 0, now, 0, 0), from }
