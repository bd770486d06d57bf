-- Shows one job. Changes nothing.
--
-- ARGV: 3 the client's id, or ''; 4 the job's number (8 bytes); used if there is no id.
-- Returns {header, job with its content, properties and all notes}. seq: its number; state: its
-- state. Error NOT_FOUND.
-- Cost: O(1): up to six reads.
local now, job = clock(), find(ARGV[3], ARGV[4])
if not job then return { header(NOT_FOUND, 0, 0, 0, now, 0, 0) } end
local notes = may_have_notes(job) and call('HGET', bucket_of(job.name), '~' .. job.name)
return {
    header(OK, visible_state(job, now), 0, 1, now, 0, job.seq),
    answer_prefix('a', notes or '') .. job_with_content(job),
}
