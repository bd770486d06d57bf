-- Finish and delete, whatever the job's state: see end.lua, which comes before this and has looked.
local function end_any(at)
    local base = (at - 1) * PER_JOB
    local what, options, given = ARGV[base + 2], ARGV[base + 6], tonumber(ARGV[base + 5])
    take_request(ARGV[base + 1], (at - 1) * next_keys)
    local first = answered()
    if first then return { sub(first, 1, 32), sub(first, 33) } end
    local job, err, done = find(ARGV[base + 3], ARGV[base + 4]), OK, what == 'f'
    if not job then return { say(NOT_FOUND, 0, 0, 0, 0, 0, 0) } end
    done = done or string.find(options, 'd', 1, true)
    local now = job.state == WAITING and clock() or 0
    if what == 'd' and job.state == RESERVED and string.find(options, 'f', 1, true) then
        err = WRONG_STATE
    elseif what == 'f' or given > 0 then
        err = check_lease(job, given)
    end
    local seen, head = shown(job, now), job.raw
    if err ~= OK then return { say(err, seen, 0, 0, now, 0, job.seq) } end
    lift(job)
    drop(job)
    call('HINCRBY', hash, (done and '#f' or '#d') .. job.topic, 1)
    return keep(head, say(OK, seen, 0, 1, now, 0, job.seq))
end

repeat
    answers[at_job] = end_any(at_job)
    at_job = end_common(at_job + 1)
until at_job > count
return count == 1 and answers[1] or answers
