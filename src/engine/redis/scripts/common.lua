-- Shared by all scripts, and put before each of them. The keys: `hash` holds ids ('i' and the id),
-- answers ('a'), counts ('#') and the partition's own fields; `delayed` (topics that
-- have delayed jobs) and `reserved` (jobs) are sorted by time; `order` has equal scores and is
-- sorted by bytes: 'b' buried, 'e' ended during a restore, 'h' held by a connection, 'j' the journal's entries, 'r'
-- ready, 't' topics, 'w' waiting until they are due. Jobs are in buckets, hashes beside these four: the job's name (its number, 8
-- bytes) is the field of its record, '+' and the name that of its head, '*' and the name that of a
-- body that is apart, '=' and the name that of its properties, '-' and '~' those of its notes; '!' is always in each bucket.
-- docs/redis-layout.md has every byte, and what each field with a short name is ('p', 'v', 'c', 'o',
-- '#h' and the topic, …); places and formats in heads and records, HEAD, COMPACT, SHORT and
-- LONG followed by a point and a name, are replaced from job_head.h when the text is made. Numbers are
-- doubles: exact up to FOREVER, in 2255.
-- Access to a bucket that a cluster has already moved to another node is an error. So a script reads
-- from each bucket that it needs before its first write, or between two jobs, when the writes of the
-- one before are complete.
-- Half of a script's time is spent in Lua itself: splicing strings is faster than tables, and the
-- functions that the common case of an often used script does not need are defined within one
-- function, other(). It is called for the other cases, for one request, whose KEYS and ARGV it has.
local hash, delayed, reserved, order = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local call, sub, char, byte = redis.call, string.sub, string.char, string.byte
local pack, unpack_bytes = struct.pack, struct.unpack
local MISSING = 'LATERDMISSING a bucket of jobs is not there'
local CLOSED = 'LATERDCLOSED the partition is not there'
local OVER = 'LATERDOVER the request was given up'
local FOREVER = 9007199254740991
local WAITING, RESERVED, BURIED = 1, 3, 4 -- a waiting job counts as ready from its due time on
local OK, NOT_FOUND, EXISTS, STALE_LEASE, WRONG_STATE, EMPTY = 0, 1, 2, 3, 4, 5
local INVALID, JOBS_LIMIT, TOPICS_LIMIT, VERSION, BEHIND = 6, 7, 8, 9, 10
local ENDED, LAPSED = 11, 12 -- answers to a restore: the job has ended; the restore has ended
local KEPT, REPLACED, MORE, LOOK, MARKED, LOST, SHARED, MISSED = 1, 2, 4, 8, 16, 32, 64, 128
local BOUND, ARRIVAL = 1, 2 -- a head's flags

local BUCKETS = 256

-- The request: whether it is a repetition (1, 3), whether the slot is being moved to this node (2, 3:
-- some buckets may not have arrived), the slot of its answer, its number.
local again, importing = byte(ARGV[1]) % 2 == 1, byte(ARGV[1]) >= 50
local slot, request = sub(ARGV[1], 2, 12), sub(ARGV[1], 13, 20)

-- Jobs of the same 65 milliseconds share a bucket: batches are read and written together. In 17
-- seconds each bucket is used once.
local buckets = sub(hash, 1, -2) .. 'j'
local function bucket_of(name)
    return buckets .. byte(name, 6)
end

local function clock()
    return clock_of(ARGV[1])
end

local function say(err, state, flags, count, now, next_us, seq)
    return pack('<BBBBI4I8I8I8', err, state, flags, 0, count, next_us, seq, now)
end

-- Returns the first answer to this request if it was done before: it is a repetition, or was repeated,
-- and this one is late, on a connection that was given up. A request that comes after a later one with
-- the same slot has been given up: error.
local function answered()
    if not again then clock() end
    local kept = (again or unsure) and call('HGET', hash, slot)
    if not kept then return nil end
    if unpack_bytes('<I8', kept) > unpack_bytes('<I8', request) then error(OVER) end
    return sub(kept, 1, 8) == request and sub(kept, 9) or nil
end

-- A full Redis refuses a script's first write if that could take memory, but none of the following.
-- Scripts that free memory, or must be done all the same, begin with this write, which takes none.
local function even_if_full()
    call('HDEL', hash, '')
end

-- Publishes to all daemons. A refusal is ignored, as an error would leave a transition half done.
local function publish(notice)
    redis.pcall(PUBLISH, call('HGET', hash, 'c'), notice)
end

-- The number after `last`: close to the current time, and of the same partition.
local function number_after(last, partitions, now)
    local number = now - now % partitions + last % partitions
    return number > last and number or last + partitions
end

-- The time of making for a job that is to be ready in order of arrival: not before that of the
-- previous job (number `last`), even if the clock has gone back a little, or that request was late and
-- its time was set to a later bound. A number may be ahead of the time by AHEAD_MOST at most.
local AHEAD_MOST = 50000
local function arrival_after(last, now)
    return math.max(now, math.min(last, now + AHEAD_MOST))
end
