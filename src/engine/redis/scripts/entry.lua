-- The journal's entries. While the hash has the field 'j', each change of a job leaves one in `order`:
-- 'j', its number (8, big-endian: each is one more than the one before), the bytes of all
-- entries up to its end (8), the time of the change (7), a letter for its kind, and its content: p the
-- whole job (as in answers), m a changed job (name, state, failures, priority, due, id), f and d a
-- finished, deleted job (name, id), o the beginning of the journal; from a resync (resync.lua): c the
-- whole job, unchanged, and g that no job has this id (a name, id). The field: the last number, the
-- bytes of all entries, the bytes of entries that were taken (8 each), the limit of the bytes that are
-- not taken (8), the effect of a push beyond it: r the push is refused, d the journal is given up, x it
-- was given up; the time of the oldest change that is not taken (8, 0: all are taken), and its highest
-- age (8, 0: no limit), beyond which pushes are handled in the same way. journal.lua takes entries.
-- Other changes are never refused: with r the journal is given up at twice the limit.
-- A reservation that belongs to a connection ends with the connection, and leaves no entry.
-- While jobs are restored from the journal (restore.lua) each job that ends leaves a member as well.
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

-- With r (114) the age has no effect here: pushes are refused, and old entries stay until they are taken.
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

-- Adds a member for the job that ends, so that the restore does not push it again. A restore that was
-- not renewed in time ends only here, so until then no end of a job is missing.
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
