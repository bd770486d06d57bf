-- Jobs in their buckets: a job as a table and back, and what answers say of it. Put before the
-- scripts that need more of jobs than their fast paths do.
local INLINE_MAX = 1024 -- bytes of content type and body: JOB_INLINE_MAX
local NOBODY = '\0\0\0\0\0\0\0\0'

local AHEAD = 1024 -- JOB_AHEAD_BASE

-- A compact record has no time of its making, but by how much the number was ahead of that.
local function created_of(record, seq)
    local form = byte(record)
    if form % 64 >= 32 then
        return seq + AHEAD - unpack_bytes(COMPACT.AHEAD_FORMAT, record, COMPACT.AHEAD)
    end
    return unpack_bytes(LONG.CREATED_FORMAT, record, form % 2 == 1 and LONG.CREATED or SHORT.CREATED)
end

-- Its beginning and its end as the daemon sends them. One that is to be compact, and whose number is
-- too far ahead, or that was made elsewhere, gets the short form instead.
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

-- Stores the job's head. A new job that waits needs none: its record has all.
local function keep_head(job)
    if job.is_new and job.state == WAITING then return end
    job.head = pack(HEAD.STATE_TO_DUE, job.state, job.flags, job.reserves, job.till, job.lease,
        job.holder, job.failures, job.timeouts, job.releases, job.buries, job.kicks, job.priority,
        job.delay_s, job.due)
    call('HSET', bucket_of(job.name), '+' .. job.name, job.head)
end

-- Notes of failed attempts: '-' and the name has the time and the code (10 bytes) of the last one,
-- '~' and the name the last NOTES, each the same, the length of its text (2), and that. Only a job
-- that was released or buried can have some. A job in an answer has them in front: see below.
local NOTES = 5

local function may_have_notes(job)
    return job.releases > 0 or job.buries > 0
end

-- In front of a job stands what it has besides: a letter, a length, and so many bytes. (No number
-- begins with a letter.) n: its last note; a: its notes; p: its properties.
local function in_front(letter, text)
    return text ~= '' and letter .. pack('<H', #text) .. text or ''
end

local function shown_note(job)
    if not may_have_notes(job) then return '' end
    return in_front('n', job.note or call('HGET', bucket_of(job.name), '-' .. job.name) or '')
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

-- As answers have it: number, head if there is one, record; without the content, a short record is
-- followed by the length of that.
local function shown_job(job)
    local text = shown_note(job) .. job.name .. job.head .. sub(job.record, 1, job.content_at - 1)
    if job.form % 2 == 1 then return text end
    return text .. pack('<H', #job.record - job.content_at + 1)
end

local function content_of(job)
    return is_apart(job) and (call('HGET', bucket_of(job.name), '*' .. job.name) or '') or
        sub(job.record, job.content_at)
end

local function shown_properties(job)
    if not has_properties(job) then return '' end
    return in_front('p',
        job.properties or call('HGET', bucket_of(job.name), '=' .. job.name) or '')
end

local function whole_job(job)
    local text = shown_note(job) .. shown_properties(job) .. job.name .. job.head .. job.record
    return is_apart(job) and text .. content_of(job) or text
end

-- A record of a job: in `job` seq, flags, id_len, retries, priority, ttr, delay_s, due and created; with
-- that content, whose length and sum `about` has (kind, length of the type, length of the body,
-- sum). `names`: topic, id and waits. Properties stay as they are. Returns what is apart, too.
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

-- Moves the job of that name from the hash, where layout 2 had it, to its bucket.
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

-- The job of that name; nil: there is none.
local function fetch(name)
    local found = call('HMGET', bucket_of(name), name, '+' .. name, '!')
    if found[1] then return read(name, found[1], found[2]) end
    if not found[3] then error(MISSING) end
    return convert(name)
end

-- The same, but false if its bucket has moved to another node.
local function try_fetch(name)
    local done, job = pcall(fetch, name)
    return done and job
end
