-- Jobs in their buckets: reads a job into a table, writes it, and formats it for answers. Put
-- before the scripts that read jobs; the fast paths of push, reserve, end and promote do not use it.
--
-- A record has one of three forms (job_head.h): long, short, compact. Bits of its first byte: 1
-- long; 2 ready jobs are sorted by arrival, not by due time; 4 kind of content; 8 the content is
-- stored apart, in '*' and the name; 16 the job has properties; 32 compact.
local INLINE_MAX = 1024 -- bytes of content type and body: JOB_INLINE_MAX
local NOBODY = '\0\0\0\0\0\0\0\0'

local AHEAD = 1024 -- JOB_AHEAD_BASE

-- The creation time. A compact record does not store it, but the difference between the job's
-- number and the creation time.
local function created_of(record, seq)
    local form = byte(record)
    if form % 64 >= 32 then
        return seq + AHEAD - unpack_bytes(COMPACT.AHEAD_FORMAT, record, COMPACT.AHEAD)
    end
    return unpack_bytes(LONG.CREATED_FORMAT, record, form % 2 == 1 and LONG.CREATED or SHORT.CREATED)
end

-- Builds a record: `start` and `rest` are what the daemon sent, the part before and after the
-- creation time `made`. A compact record becomes a short one if the difference of number and
-- creation time does not fit into two bytes: the number is too far ahead of the clock, or the job
-- was created in another queue.
local function record_made(start, rest, seq, made)
    local form, ahead = byte(start), seq - made + AHEAD
    if form % 64 < 32 then return start .. pack('<I7', made) .. rest end
    if ahead >= 0 and ahead < 65536 then return start .. pack('<H', ahead) .. rest end
    return char(form - 32) .. sub(start, 2) .. pack('<I7', made) .. rest
end

local function read(name, record, head)
    local form, id_len, topic_len, retries, priority, ttr, delay_s, due, from
    local seq = unpack_bytes('>I8', name)
    if byte(record) % 2 == 1 then
        form, id_len, topic_len, retries, priority, ttr, delay_s, due =
            unpack_bytes(LONG.FORM_TO_DUE, record)
        from = LONG.TOPIC
    else
        form, id_len, topic_len, retries, priority, ttr, delay_s, due =
            unpack_bytes(SHORT.FORM_TO_DUE, record)
        from, ttr = form % 64 >= 32 and COMPACT.TOPIC or SHORT.TOPIC, ttr * 1000000
    end
    local job = {
        name = name, record = record, head = head or '', form = form, id_len = id_len,
        retries = retries, ttr = ttr, created = created_of(record, seq), seq = seq,
        topic = sub(record, from, from + topic_len - 1), id_at = from + topic_len,
        waits_at = from + topic_len + id_len, names_len = topic_len + id_len + 8 * retries,
        content_at = from + topic_len + id_len + 8 * retries,
    }
    if head then
        job.state, job.flags, job.reserves, job.till, job.lease, job.holder, job.failures,
            job.timeouts, job.releases, job.buries, job.kicks, job.priority, job.delay_s, job.due =
            unpack_bytes(HEAD.STATE_TO_DUE, head)
    else
        job.state, job.flags, job.reserves = WAITING, form % 4 >= 2 and ARRIVAL or 0, 0
        job.till, job.lease, job.holder, job.failures, job.timeouts = 0, 0, NOBODY, 0, 0
        job.releases, job.buries, job.kicks = 0, 0, 0
        job.priority, job.delay_s, job.due = priority, delay_s, due
    end
    return job
end

local function id_of(job)
    return sub(job.record, job.id_at, job.waits_at - 1)
end

local function is_apart(job)
    return job.form % 16 >= 8
end

local function has_properties(job)
    return job.form % 32 >= 16
end

-- Stores the job's head. A new job that waits has none: its record has all the values.
local function store_head(job)
    if job.is_new and job.state == WAITING then return end
    job.head = pack(HEAD.STATE_TO_DUE, job.state, job.flags, job.reserves, job.till, job.lease,
        job.holder, job.failures, job.timeouts, job.releases, job.buries, job.kicks, job.priority,
        job.delay_s, job.due)
    call('HSET', bucket_of(job.name), '+' .. job.name, job.head)
end

-- Notes of failed attempts. Field '-' and the name: time (8 bytes) and code (2 bytes) of the last
-- one. Field '~' and the name: the last NOTES notes, each with time, code, length of the text (2
-- bytes), and text. Only a job that was released or buried can have notes.
local NOTES = 5

local function may_have_notes(job)
    return job.releases > 0 or job.buries > 0
end

-- In an answer a job may be preceded by notes and properties: a letter, a length (2 bytes), the
-- bytes. 'n' the last note, 'a' all notes, 'p' the properties. A job begins with its number, whose
-- first byte is no letter.
local function answer_prefix(letter, text)
    return text ~= '' and letter .. pack('<H', #text) .. text or ''
end

local function note_prefix(job)
    if not may_have_notes(job) then return '' end
    return answer_prefix('n', job.note or call('HGET', bucket_of(job.name), '-' .. job.name) or '')
end

local function add_note(job, code, text, now)
    local bucket, begins, from = bucket_of(job.name), {}, 1
    local notes = call('HGET', bucket, '~' .. job.name) or ''
    while from <= #notes do
        begins[#begins + 1] = from
        from = from + 12 + unpack_bytes('<H', notes, from + 10)
    end
    if #begins >= NOTES then notes = sub(notes, begins[#begins - NOTES + 2]) end
    job.note = pack('<I8', now) .. code
    call('HSET', bucket, '-' .. job.name, job.note,
        '~' .. job.name, notes .. job.note .. pack('<H', #text) .. text)
end

-- A job in an answer, without content: last note, name, head if there is one, record up to the
-- content. A short or compact record is followed by the length of the content (2 bytes).
local function job_without_content(job)
    local text = note_prefix(job) .. job.name .. job.head .. sub(job.record, 1, job.content_at - 1)
    if job.form % 2 == 1 then return text end
    return text .. pack('<H', #job.record - job.content_at + 1)
end

local function content_of(job)
    return is_apart(job) and (call('HGET', bucket_of(job.name), '*' .. job.name) or '') or
        sub(job.record, job.content_at)
end

local function properties_prefix(job)
    if not has_properties(job) then return '' end
    return answer_prefix('p',
        job.properties or call('HGET', bucket_of(job.name), '=' .. job.name) or '')
end

local function job_with_content(job)
    local text = note_prefix(job) .. properties_prefix(job) .. job.name .. job.head .. job.record
    return is_apart(job) and text .. content_of(job) or text
end

-- Builds a record with other content. From `job`: seq, flags, id_len, retries, priority, ttr,
-- delay_s, due, created, and whether it has properties. `about`: kind, length of the content type,
-- length of the body (4 bytes), checksum (8 bytes). `names`: topic, id, and the waits of the
-- schedule. Returns the record, and the content if it must be stored apart.
local function record_of(job, topic_len, about, names, content)
    local kind, type_len, body_len, content_sum = unpack_bytes('<BBI4c8', about)
    local form = 128 + (job.flags >= ARRIVAL and 2 or 0) + 4 * kind
    if #content > INLINE_MAX then form = form + 8 end
    if job.form and has_properties(job) then form = form + 16 end
    if type_len == 0 and #content <= INLINE_MAX and job.priority < 65536 and
        job.ttr % 1000000 == 0 and job.ttr < 65536000000 and job.delay_s < 16777216 then
        return record_made(pack(SHORT.FORM_TO_DUE, form + 32, job.id_len, topic_len, job.retries,
            job.priority, job.ttr / 1000000, job.delay_s, job.due), content_sum .. names .. content,
            job.seq, job.created)
    end
    local record = pack(LONG.FORM_TO_BODY_LEN, form + 1, job.id_len, topic_len, job.retries,
        job.priority, job.ttr, job.delay_s, job.due, job.created, content_sum, type_len,
        body_len) .. names
    if #content > INLINE_MAX then return record, content end
    return record .. content
end

-- Moves the job of that name from the hash, where layout 2 stored it, to its bucket. Returns the
-- job, or nil.
local function convert(name)
    local old = call('HMGET', hash, 'j' .. name, 'b' .. name)
    local head, bucket = old[1], bucket_of(name)
    if not head then return nil end
    local state, flags, reserves, till, lease, holder, counts, retries, id_len, priority, delay_s,
        due, _, created, ttr, topic_len, kind, type_len, _, body_len, content_sum =
        unpack_bytes('<BBHI8I8c8c10BBI4I4I8I8I8I8BBBBI4c8', head)
    local job = {
        flags = flags - flags % 2, id_len = id_len, retries = retries, priority = priority,
        ttr = ttr, delay_s = delay_s, due = due, created = created, seq = unpack_bytes('>I8', name),
    }
    local record, apart = record_of(job, topic_len,
        pack('<BBI4c8', kind, type_len, body_len, content_sum), sub(head, 97), old[2] or '')
    head = pack('<BBHI8I8c8c10I4I4I8', state, flags, reserves, till, lease, holder, counts,
        priority, delay_s, due)
    even_if_full()
    if state == WAITING and reserves == 0 and counts == '\0\0\0\0\0\0\0\0\0\0' then
        head = nil
        call('HSET', bucket, name, record)
    else
        call('HSET', bucket, name, record, '+' .. name, head)
    end
    if apart then call('HSET', bucket, '*' .. name, apart) end
    call('HDEL', hash, 'j' .. name, 'b' .. name)
    return read(name, record, head)
end

-- Returns the job of that name; nil: there is none. Error MISSING: its bucket is not on this node.
-- O(1)
local function fetch(name)
    local found = call('HMGET', bucket_of(name), name, '+' .. name, '!')
    if found[1] then return read(name, found[1], found[2]) end
    if not found[3] then error(MISSING) end
    return convert(name)
end

-- As fetch(), but returns false if the bucket is not on this node.
local function try_fetch(name)
    local done, job = pcall(fetch, name)
    return done and job
end
