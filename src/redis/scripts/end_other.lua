-- Finish and delete, whatever the job's state: see end.lua, which comes before this.
local job, err, done = read(raw), OK, ARGV[2] == 'f' or string.find(ARGV[6], 'd', 1, true)
local now, given = job.state == WAITING and clock() or 0, tonumber(ARGV[5])
if ARGV[2] == 'd' and job.state == RESERVED and string.find(ARGV[6], 'f', 1, true) then
    err = WRONG_STATE
elseif ARGV[2] == 'f' or given > 0 then
    err = check_lease(job, given)
end
local seen = shown(job, now)
if err ~= OK then return { say(err, seen, 0, 0, now, 0, job.seq) } end
lift(job)
drop(job)
call('HINCRBY', hash, (done and '#f' or '#d') .. job.topic, 1)
return keep(raw, say(OK, seen, 0, 1, now, 0, job.seq))
