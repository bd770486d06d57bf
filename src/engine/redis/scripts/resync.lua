-- Adds entries for the journal that show jobs as they are now, or that no job of an id exists
-- (entry.lua). Changes nothing else. With 'j', each job that exists from the first call to the last
-- is entered, if one server answers all calls: a cursor of HSCAN is valid only on its server.
--
-- ARGV:
--   2      'j' all jobs, 'r' ids
--   3      'j': where to continue, '0' at the start; 'r': not used
--   4      'j': budget of this call, in fields: a field that is read costs 1, and 1 more for each
--          BYTES of its value; an HSCAN 5; a job that is entered COUNTS
--   5      stop when entries that are not taken have this many bytes
--   6 ...  'r': ids
-- Returns {header, where to continue}. state: 0 this partition has no journal, 1 it has. count:
-- entries that were added. next_us: with 'r', how many of the ids were looked at. seq: the last
-- entry. MORE: call again; with 'r', with the ids that were not looked at. Error MISSING, with 'j':
-- while the slot is being moved to this node buckets may be missing, of which HSCAN would say that
-- they are empty.
-- Cost: O(budget); 400 fields are about 35 jobs, and about a millisecond.
local COUNTS = 10 -- cost of a job that is entered, in fields
local BYTES = 512 -- so many bytes of a value cost one field more
-- Fields asked for by one HSCAN; 1 if those of a bucket have more than MOST bytes, because the
-- entries of one HSCAN could be more than the journal may hold.
local AT_ONCE = 20
local MOST = 131072
local NOBODY_SEQ = '\0\0\0\0\0\0\0\1' -- each entry has a number; here only the id matters
local now, what, left, room = clock(), ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
if call('HEXISTS', hash, 'p') == 0 then return redis.error_reply(CLOSED) end
even_if_full()
if not has_journal() then return { header(OK, 0, 0, 0, now, 0, 0), '0' } end

local function is_full()
    if not has_journal() then return true end
    local _, bytes, taken = unpack_bytes('<I8I8I8', journal)
    return bytes - taken >= room
end

local function answer(flags, count, checked, from)
    if not has_journal() then return { header(OK, 0, 0, 0, now, 0, 0), '0' } end
    return { header(OK, 1, flags, count, now, checked, (unpack_bytes('<I8', journal))), from }
end

if what == 'r' then
    local checked, absent = 0, 0
    for i = 6, #ARGV do
        if is_full() then break end
        if not find(ARGV[i], nil) then
            add_entry('g', NOBODY_SEQ .. ARGV[i], now)
            absent = absent + 1
        end
        checked = checked + 1
    end
    return answer(checked < #ARGV - 5 and MORE or 0, absent, checked, '0')
end

if importing then error(MISSING) end
local bucket, cursor = string.match(ARGV[3], '^(%d+) (%d+)$')
bucket, cursor = tonumber(bucket or 0) - 1, cursor or '0' -- -1: the hash, where layout 2 stored jobs
local entered, at_once = 0, AT_ONCE

local function bytes_of(fields)
    local bytes = 0
    for i = 2, #fields, 2 do bytes = bytes + #fields[i] end
    return bytes
end

local function handle_field(field)
    if bucket < 0 then
        if sub(field, 1, 1) ~= 'j' or #field ~= 9 then return end
        field = sub(field, 2)
    elseif #field ~= 8 then
        return
    end
    local job = fetch(field)
    if job and has_journal() then
        add_entry('c', job_with_content(job), now)
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
        handle_field(scanned[2][i])
    end
    if cursor == '0' then bucket = bucket + 1 end
end
return answer(bucket < BUCKETS and MORE or 0, entered, 0, bucket + 1 .. ' ' .. cursor)
