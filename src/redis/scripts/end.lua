-- Finish (ARGV[2] f) and delete (d). ARGV: 3 id or '', 4 number (8 bytes), 5 lease, 6 options: d its
-- work is done, f only if nobody has it reserved. Answer: {it, the head as it last was}.
local first = answered()
if first then return { sub(first, 1, 32), sub(first, 33) } end
local kind, lease = ARGV[2], tonumber(ARGV[5])
local job = find(ARGV[3], ARGV[4])
if not job then return { say(NOT_FOUND, 0, 0, 0, 0, 0, 0) } end
local now = job.state == WAITING and clock() or 0
local err = OK
if kind == 'f' or lease > 0 then
    err = check_lease(job, lease)
elseif job.state == RESERVED and string.find(ARGV[6], 'f', 1, true) then
    err = WRONG_STATE
end
if err ~= OK then return { say(err, shown(job, now), 0, 0, now, 0, job.seq) } end
local head, state = job.raw, shown(job, now)
local done = kind == 'f' or string.find(ARGV[6], 'd', 1, true)
lift(job)
drop(job)
call('HINCRBY', hash, (done and '#f' or '#d') .. job.topic, 1)
return keep(head, say(OK, state, 0, 1, now, 0, job.seq))
