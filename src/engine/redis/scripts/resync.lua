-- A resync of the journal: jobs are entered as they are, and so is that no job of an id is there (entry.lua).
-- Nothing else changes. A job that is there from the first call to the last one is entered, if all of them are
-- answered by one server: HSCAN's way is the server's own.
-- ARGV: 2 j: jobs, 3 where to go on ('0' from the start), 4 about how many fields, see COUNTS; r: 3 nothing; both: 5 how many
-- bytes of entries may wait to be taken before no more are made; r: 6 … ids.
-- Answer: {it, where to go on}: state 0 there is no journal here, 1 there is; count: what was entered; of r
-- next: ids that were looked at; more: of j, call again, of r, with the ids that are left; seq: the last entry.
local COUNTS = 10 -- fields that a job counts as which is entered: 400 are some 35 jobs, a millisecond
local BYTES = 512 -- of a value: they count as one field more
local AT_ONCE = 20 -- fields of a look, but one if these have more than MOST bytes: else their entries
local MOST = 131072 -- alone could be more than the journal may have
local NOBODY_SEQ = '\0\0\0\0\0\0\0\1' -- an entry has a number always; the id counts
local now, what, left, room = clock(), ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
if call('HEXISTS', hash, 'p') == 0 then return redis.error_reply(CLOSED) end
even_if_full()
if not journaled() then return { say(OK, 0, 0, 0, now, 0, 0), '0' } end

local function is_full()
    if not journaled() then return true end
    local _, bytes, taken = unpack_bytes('<I8I8I8', journal)
    return bytes - taken >= room
end

local function answer(flags, count, looked, from)
    if not journaled() then return { say(OK, 0, 0, 0, now, 0, 0), '0' } end
    return { say(OK, 1, flags, count, now, looked, (unpack_bytes('<I8', journal))), from }
end

if what == 'r' then
    local looked, absent = 0, 0
    for i = 6, #ARGV do
        if is_full() then break end
        if not find(ARGV[i], nil) then
            add_entry('g', NOBODY_SEQ .. ARGV[i], now)
            absent = absent + 1
        end
        looked = looked + 1
    end
    return answer(looked < #ARGV - 5 and MORE or 0, absent, looked, '0')
end

local bucket, cursor = string.match(ARGV[3], '^(%d+) (%d+)$')
bucket, cursor = tonumber(bucket or 0) - 1, cursor or '0' -- -1: the hash, where layout 2 had the jobs
local entered, at_once = 0, AT_ONCE

local function bytes_of(fields)
    local bytes = 0
    for i = 2, #fields, 2 do bytes = bytes + #fields[i] end
    return bytes
end

local function look_at(field)
    if bucket < 0 then
        if sub(field, 1, 1) ~= 'j' or #field ~= 9 then return end
        field = sub(field, 2)
    elseif #field ~= 8 then
        return
    end
    local job = fetch(field)
    if job and journaled() then
        add_entry('c', whole_job(job), now)
        entered, left = entered + 1, left - COUNTS
    end
end

while left > 0 and bucket < BUCKETS and not is_full() do
    local key = bucket < 0 and hash or buckets .. bucket
    local scanned = call('HSCAN', key, cursor, 'COUNT', at_once)
    if at_once > 1 and bytes_of(scanned[2]) > MOST then
        at_once = 1
        scanned = call('HSCAN', key, cursor, 'COUNT', at_once)
    end
    left, cursor = left - 5, scanned[1]
    for i = 1, #scanned[2], 2 do
        left = left - 1 - math.floor(#scanned[2][i + 1] / BYTES)
        look_at(scanned[2][i])
    end
    if cursor == '0' then bucket = bucket + 1 end
end
return answer(bucket < BUCKETS and MORE or 0, entered, 0, bucket + 1 .. ' ' .. cursor)
