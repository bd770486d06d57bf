-- Shows one job. ARGV: 3 id or '', 4 number (8 bytes). Answer: {it, job with its content}.
local now, job = clock(), find(ARGV[3], ARGV[4])
if not job then return { say(NOT_FOUND, 0, 0, 0, now, 0, 0) } end
return { say(OK, shown(job, now), 0, 1, now, 0, job.seq), whole_job(job) }
