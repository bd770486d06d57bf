-- Shows one job. ARGV: 3 id or '', 4 number (8 bytes). Answer: {it, job with its content and notes}.
local now, job = clock(), find(ARGV[3], ARGV[4])
if not job then return { say(NOT_FOUND, 0, 0, 0, now, 0, 0) } end
local notes = may_have_notes(job) and call('HGET', bucket_of(job.name), '~' .. job.name)
return { say(OK, shown(job, now), 0, 1, now, 0, job.seq), in_front('a', notes or '') .. whole_job(job) }
