-- Shared by all scripts. Its text is put before each of them. KEYS and ARGV[1] of each script are as
-- described here, unless its header says otherwise.
--
-- KEYS, of one partition, all in one slot of a cluster:
--   1 hash      hash: 'i' and a client's id -> the job's name; 'a', daemon (8), place (2) -> a
--               stored answer; '#', a letter and a topic -> a count of the topic; the partition's
--               own fields ('p', 'v', 'c', 'o', ...)
--   2 delayed   sorted set: each topic that has delayed jobs; score: when the first of them is due,
--               or earlier
--   3 reserved  sorted set: reserved jobs; score: when the lease ends
--   4 order     sorted set in which all scores are 0, so it is sorted by bytes. The first byte is
--               the kind of member: 'b' a buried job, 'd' a daemon, 'e' a job that ended during a
--               restore, 'h' a job reserved for a connection, 'j' an entry for the journal, 'r' a
--               ready job, 't' a topic, 'w' a delayed job
-- Jobs are stored in 256 more hashes, the buckets. A job's name is its number (8 bytes,
-- big-endian). Fields of a bucket: the name -> the record (what does not change); '+' and the name
-- -> the head (what changes); '*' -> a body that is not in the record; '=' -> properties; '-' and
-- '~' -> notes of failed attempts; '!' is in each bucket, so that an existing bucket is never
-- empty. docs/redis-layout.md describes all fields byte by byte. HEAD, COMPACT, SHORT and LONG
-- followed by '.' and a name are positions and formats in heads and records: they are replaced by
-- values of job_head.h when the text of the script is built.
--
-- ARGV[1] is the request: how it is sent (1 byte), the field of its stored answer (11 bytes), its
-- number (8 bytes), the bounds of the clock (3 x 8 bytes, see clock.lua).
--
-- Units: times and durations are microseconds of the partition's clock (clock.lua); other units are
-- named. Numbers in Lua are doubles, exact up to FOREVER (in the year 2255).
--
-- Returns an array of strings; the first one is the header, 32 bytes, see header().
--
-- Rules for scripts:
-- - In a cluster a bucket may have moved to another node already; then each access to it is an
--   error. So a script reads from each bucket that it needs before its first write, or between two
--   jobs, after all writes for the first one.
-- - Half of the time of a script is spent in Lua itself. Concatenating strings is faster than using
--   tables. To make the functions of record.lua, job.lua and entry.lua takes as long as ten commands:
--   push, reserve, end and promote have a fast path, and all functions that it does not need are
--   defined inside the function slow_path(). It handles the other cases, one request at a time, with
--   that request's KEYS and ARGV; that of promote returns functions for them.
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

-- How the request is sent: '0' for the first time; '1' it may have been executed before; '2' and
-- '3' the same, while the cluster's slot is being moved to this node, so that buckets may not have
-- arrived yet. `slot`: the field of its stored answer ('a', daemon, place); `request`: its number.
local again, importing = byte(ARGV[1]) % 2 == 1, byte(ARGV[1]) >= 50
local slot, request = sub(ARGV[1], 2, 12), sub(ARGV[1], 13, 20)

-- The third byte from the end of a name selects the bucket. Names follow the clock, so jobs that
-- were made within the same 65 ms share a bucket, and a batch is read and written by one command.
-- Each bucket is used for 65 ms in 17 s.
local buckets = sub(hash, 1, -2) .. 'j'
local function bucket_of(name)
    return buckets .. byte(name, 6)
end

local function clock()
    return clock_of(ARGV[1])
end

-- The header of an answer: err (OK, NOT_FOUND, ...), state of the job, flags (KEPT, MORE, ...), 0;
-- count (4 bytes); next_us, seq, now (8 bytes each). What these mean depends on the script.
local function header(err, state, flags, count, now, next_us, seq)
    return pack('<BBBBI4I8I8I8', err, state, flags, 0, count, next_us, seq, now)
end

-- Makes requests idempotent: returns the stored answer if this request was executed before, else
-- nil. It looks only if the request is marked as repeated, or is late: then its repetition may have
-- come first, on another connection. Raises an error if the place has the answer of a later
-- request: the daemon has given this one up.
local function stored_answer()
    if not again then clock() end
    local stored = (again or unsure) and call('HGET', hash, slot)
    if not stored then return nil end
    if unpack_bytes('<I8', stored) > unpack_bytes('<I8', request) then error(OVER) end
    return sub(stored, 1, 8) == request and sub(stored, 9) or nil
end

-- A Redis that has reached maxmemory refuses the first write of a script if that command may need
-- memory. It does not check the writes after it. Scripts that free memory, or must not fail, begin
-- with this write, which needs no memory and changes nothing.
local function even_if_full()
    call('HDEL', hash, '')
end

-- Publishes to all daemons. An error is ignored: it would end the script between two writes.
local function publish(notice)
    redis.pcall(PUBLISH, call('HGET', hash, 'c'), notice)
end

-- The next number of this partition after `last`: the current time if possible, and congruent to
-- `last` modulo the number of partitions, so that two partitions never give the same number.
local function number_after(last, partitions, now)
    local number = now - now % partitions + last % partitions
    return number > last and number or last + partitions
end

-- The creation time of a job that is sorted by arrival: not before that of the previous job (number
-- `last`), even if the clock went back a little in between. It is ahead of the clock by AHEAD_MAX
-- at most.
local AHEAD_MAX = 50000
local function arrival_after(last, now)
    return math.max(now, math.min(last, now + AHEAD_MAX))
end
