-- Entries for the journal. While the hash has the field 'j', each change of a job adds a member to
-- `order`: 'j', the entry's number (8 bytes, big-endian; numbers have no gaps), the bytes of all
-- entries up to its end (8), the time of the change (7), its kind (1), and its content:
--   p     a new job, or one with a new body, as in answers
--   m     a changed job: name, state, failures, priority, due time, id
--   f, d  a finished, deleted job: name, id
--   o     the journal begins
--   c     of a resync (resync.lua): a job that has not changed, as in answers
--   g     of a resync: no job has this id: a name without meaning, id
-- The field: number of the last entry, bytes of all entries, bytes of entries that were taken (8
-- each); limit of the bytes that are not taken (8); what a push beyond it causes (1): r it is
-- refused, d the journal is given up, x the journal was given up; time of the oldest change that is
-- not taken (8; 0: all are taken); limit of its age (8; 0: none), which has the same effect.
-- journal.lua takes entries.
-- Other changes are never refused: with r the journal is given up at twice the limit.
-- A reservation that belongs to a connection ends with the connection, and adds no entry.
-- While jobs are restored from the journal (restore.lua), each job that ends adds a member as well.
local journal = nil -- the field; false: there is none
local restore = nil -- the field 'jr'; false: no restore is under way

local function has_journal()
    if journal == nil then
        local found = call('HMGET', hash, 'j', 'jr')
        journal, restore = found[1], found[2]
        if journal and byte(journal, 33) == 120 then journal = false end -- 120: x
    end
    return journal
end

local function is_too_old(since, span, now)
    return since > 0 and span > 0 and now - since > span
end

local function abandon_journal()
    call('HSET', hash, 'j', sub(journal, 1, 32) .. 'x')
    call('HDEL', hash, 'jr') -- jobs that end from now on leave no members
    journal, restore = false, false
end

-- With r (114) the age has no effect here: it refuses pushes, and old entries wait to be taken.
local function add_entry(what, text, now)
    local last, bytes, taken, most = unpack_bytes('<I8I8I8I8', journal)
    local since, span = unpack_bytes('<I8I8', journal, 34)
    local refuses = byte(journal, 33) == 114
    if refuses then most = 2 * most end
    if bytes - taken >= most or not refuses and is_too_old(since, span, now) then
        return abandon_journal()
    end
    bytes = bytes + 25 + #text
    call('ZADD', order, 0, 'j' .. pack('>I8', last + 1) .. pack('<I8I7', bytes, now) .. what .. text)
    if since == 0 and what ~= 'o' then since = now end
    journal = pack('<I8I8', last + 1, bytes) .. sub(journal, 17, 33) .. pack('<I8I8', since, span)
    call('HSET', hash, 'j', journal)
end

local function journal_job(job, now)
    if has_journal() then add_entry('p', job_with_content(job), now) end
end

local function journal_change(job, state, flags, now)
    if not has_journal() or (state == RESERVED and flags % 2 == BOUND) then return end
    add_entry('m', job.name .. pack('<BHI4I7', state, job.failures, job.priority, job.due) ..
        id_of(job), now)
end

-- Adds a member for a job that ends, so that the restore does not push it again. A restore that was
-- not renewed in time is ended here, and nowhere else: so no member is missing while it exists.
local function record_end_for_restore(job, now)
    local restore_id, till, room = unpack_bytes('<c8I8I8', restore)
    if room == 0 then return end -- the restore has ended: too many jobs did
    if till <= now then
        call('HDEL', hash, 'jr')
        restore = false
        return
    end
    local member = job.id_len > 0 and 'ei' .. id_of(job) or 'en' .. job.name
    if call('ZADD', order, 0, member) == 0 then return end
    restore = pack('<c8I8I8', restore_id, till, room - 1)
    call('HSET', hash, 'jr', restore)
end

local function journal_end(job, finished, now)
    if has_journal() and restore then record_end_for_restore(job, now) end
    if has_journal() then add_entry(finished and 'f' or 'd', job.name .. id_of(job), now) end
end

-- True: the push is refused, because too many entries are not taken, or one is too old. With 'd' no
-- push is refused: the journal is given up instead.
local function is_journal_behind(now)
    if not has_journal() then return false end
    local _, bytes, taken, most = unpack_bytes('<I8I8I8I8', journal)
    local since, span = unpack_bytes('<I8I8', journal, 34)
    if bytes - taken < most and not is_too_old(since, span, now) then return false end
    if byte(journal, 33) == 114 then return true end
    abandon_journal()
    return false
end
