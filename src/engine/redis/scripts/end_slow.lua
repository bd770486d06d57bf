-- The body of slow_path() in end.lua: finishes or deletes one job in any state. KEYS, ARGV and the
-- returned value are those of end.lua for one request. Cost: O(log n).
local stored = stored_answer()
if stored then return { sub(stored, 1, 32), sub(stored, 33) } end
local job, err, done = find(ARGV[3], ARGV[4]), OK, ARGV[2] == 'f'
if not job then return refusal(header(NOT_FOUND, 0, 0, 0, 0, 0, 0)) end
done = done or string.find(ARGV[6], 'd', 1, true)
local now, given = job.state == WAITING and clock() or 0, tonumber(ARGV[5])
if ARGV[2] == 'd' and job.state == RESERVED and string.find(ARGV[6], 'f', 1, true) then
    err = WRONG_STATE
elseif ARGV[2] == 'f' or given > 0 then
    err = check_lease(job, given)
end
local seen = visible_state(job, now)
local was = byte(ARGV[6], -1) == 98 and '' or job_without_content(job) -- 98: b, brief
if err ~= OK then return refusal(header(err, seen, 0, 0, now, 0, job.seq)) end
unlink(job)
drop(job)
call('HINCRBY', hash, (done and '#f' or '#d') .. job.topic, 1)
if has_journal() then journal_end(job, done, clock()) end
return store_answer(was, header(OK, seen, 0, 1, now, 0, job.seq))
