-- The journal's entries. While the hash has the field 'j', each change of a job leaves one in `order`:
-- 'j', its number (8, big-endian: each is one more than the one before), how many bytes all
-- entries have up to its end (8), when it was (7), what it is, and what that says: p a job as it is
-- now (as answers have it), m one that changed (name, state, failures, priority, due, id), f and d
-- one that was finished, deleted (name, id), o the journal begins; of a resync (resync.lua) c a job as
-- it is, which has not changed, and g that no job of this id is there (a name, id). The field: the last
-- number, the bytes of all entries, those that were taken (8 each), how many may wait to be taken (8),
-- what becomes of a push then: r it is refused, d the journal is given up, x it was; when the oldest
-- change was that was not taken (8, 0: all were), and how old it may become (8, 0: as old as it likes):
-- then the same becomes of a push. journal.lua takes them.
-- Other changes are never refused: with r the journal is given up when twice as many wait.
-- A reservation that is a connection's ends with that, and leaves none.
-- While jobs are restored from the journal (restore.lua) each that ends leaves a member as well.
local journal = nil -- the field; false: there is none
local restore = nil -- the field 'jr'; false: no restore goes on

local function journaled()
    if journal == nil then
        local found = call('HMGET', hash, 'j', 'jr')
        journal, restore = found[1], found[2]
        if journal and byte(journal, 33) == 120 then journal = false end -- 120: x
    end
    return journal
end

local function is_late(since, span, now)
    return since > 0 and span > 0 and now - since > span
end

local function give_up()
    call('HSET', hash, 'j', sub(journal, 1, 32) .. 'x')
    call('HDEL', hash, 'jr') -- what ends from now on leaves nothing
    journal, restore = false, false
end

-- Not of one that refuses pushes (114: r): what is late stays late until it is taken.
local function add_entry(what, text, now)
    local last, bytes, taken, most = unpack_bytes('<I8I8I8I8', journal)
    local since, span = unpack_bytes('<I8I8', journal, 34)
    local refuses = byte(journal, 33) == 114
    if refuses then most = 2 * most end
    if bytes - taken >= most or not refuses and is_late(since, span, now) then return give_up() end
    bytes = bytes + 25 + #text
    call('ZADD', order, 0, 'j' .. pack('>I8', last + 1) .. pack('<I8I7', bytes, now) .. what .. text)
    if since == 0 and what ~= 'o' then since = now end
    journal = pack('<I8I8', last + 1, bytes) .. sub(journal, 17, 33) .. pack('<I8I8', since, span)
    call('HSET', hash, 'j', journal)
end

local function enter_job(job, now)
    if journaled() then add_entry('p', whole_job(job), now) end
end

local function enter_move(job, state, flags, now)
    if not journaled() or (state == RESERVED and flags % 2 == BOUND) then return end
    add_entry('m', job.name .. pack('<BHI4I7', state, job.failures, job.priority, job.due) ..
        id_of(job), now)
end

-- For a restore, which must not bring it back. One whose time is up ends here, and nowhere else: so
-- it has missed no end before.
local function leave_end(job, now)
    local run, till, room = unpack_bytes('<c8I8I8', restore)
    if room == 0 then return end -- it has ended: there were too many
    if till <= now then
        call('HDEL', hash, 'jr')
        restore = false
        return
    end
    local member = job.id_len > 0 and 'ei' .. id_of(job) or 'en' .. job.name
    if call('ZADD', order, 0, member) == 0 then return end
    restore = pack('<c8I8I8', run, till, room - 1)
    call('HSET', hash, 'jr', restore)
end

local function enter_end(job, finished, now)
    if journaled() and restore then leave_end(job, now) end
    if journaled() then add_entry(finished and 'f' or 'd', job.name .. id_of(job), now) end
end

-- So many wait to be taken, or one for so long, that no more may come by pushes. 'd': then there is no
-- journal from here on.
local function too_many_entries(now)
    if not journaled() then return false end
    local _, bytes, taken, most = unpack_bytes('<I8I8I8I8', journal)
    local since, span = unpack_bytes('<I8I8', journal, 34)
    if bytes - taken < most and not is_late(since, span, now) then return false end
    if byte(journal, 33) == 114 then return true end
    give_up()
    return false
end
