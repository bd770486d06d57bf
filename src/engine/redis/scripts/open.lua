-- Registers this daemon in the partition, and creates the partition if it does not exist. It also
-- converts layout 2 and 3, and detects what Redis has lost. The first call to each partition on a
-- new connection. Idempotent.
--
-- ARGV:
--   2   number of the partition
--   3   number of partitions
--   4   channel of the notices
--   5   version of the layout
--   6   places in this daemon's ring of stored answers, until the daemon changes it
--   7   how often the clock counts as set, in a partition that is created
--   8   the highest number or lease of this partition that this daemon has seen, 0: none
--   9   the most bytes of journal entries that are not taken; '': this daemon wants no journal
--   10  what happens with a push beyond that (entry.lua)
--   11  the highest age of the oldest entry
--   12  'k' do not convert an older layout
--   13  how long after it was sent the request may run: then it is late, and Redis' clock has not leapt
--   14  's' all partitions of the queue are on this server: if this one does not exist, and others have
--       another number of partitions, it is not created
-- Returns {header, clock}, the latter as in set_clock.lua. state: 1 this Redis has restarted since
-- the partition was last opened, or is another one. count: 1 if the daemon was unknown here.
-- REPLACED: the partition was created. LOST: a sorted set was lost, or buckets existed without the
-- partition: rebuild.lua must restore members. LOOK: rebuild.lua must also read the hash, where
-- layout 2 stored jobs. MISSED: buckets were lost, and were created again, empty. Errors: INVALID,
-- the queue has count partitions of layout seq; or, as {header, key}: that key is of a wrong type.
-- WRONG_STATE: with 'k', the older layout seq was not converted.
-- Cost: some 300 commands. With 's', if this partition does not exist, one of 64 keys more; if others
-- exist, up to 64 commands.
local daemon, number, partitions = sub(slot, 2, 9), tonumber(ARGV[2]), tonumber(ARGV[3])
-- `held` is the queue's time within the daemon's bounds, used for all that is written; `shown`,
-- below, is without the bounds: it is returned, so that the daemon notices a leap.
local filler, held, flags = string.rep('\255', 65), clock(), 0
local LOOKED_AT = 64

local names = {}
for i = 1, BUCKETS do names[i] = buckets .. (i - 1) end

local function make_buckets()
    for i = 1, BUCKETS do call('HSET', names[i], '!', '') end
end

-- All four keys are checked before anything is written.
local found, wrong_type_key = redis.pcall('HMGET', hash, 'p', 'v', 'o', 'n', 'y', 's'), nil
if found.err then wrong_type_key = hash end

-- Makes daemons of older layouts fail before they write. One that starts finds the number of
-- partitions, and a layout that it does not know, and refuses the queue. Scripts of one that still
-- runs fail: `s` has fewer numbers than they read; `l` is not a time, which their promote.lua needs;
-- the first daemon that their reap_dead.lua reads (`d`) has no time, else they would remove all
-- daemons as dead; and the buckets have other names.
local function block_older_daemons(of)
    redis.pcall('ZADD', order, 0, 'd') -- of another type: see below
    call('HSET', hash, 's', pack('<I8I8I8', 0, 0, of), 'v', ARGV[5], 'l', 'layout ' .. ARGV[5])
    call('HSET', hash, 'd', '')
end

local older = not found.err and found[2] ~= '4' and found[6]
if older then found[1] = older end
if older and ARGV[12] == 'k' and (found[2] == '2' or found[2] == '3') then
    local of = unpack_bytes('<I8', older, 17)
    return { header(of == partitions and WRONG_STATE or INVALID, 0, 0, of, held, 0, tonumber(found[2])) }
end
-- Layout 2 has two keys of the same names, and jobs in the hash. Its set of reserved jobs is
-- renamed, so that a daemon of layout 2 ends no lease of a job that it cannot find. Its scripts
-- cannot read a number of seven bytes, either. Delayed jobs are moved to their topics' places step by
-- step, by promote_slow.lua.
if older and found[2] == '2' and ARGV[5] == '4' then
    local last, pushed, of, promote_at =
        unpack_bytes(#found[1] == 32 and '<I8I8I8I8' or '<I8I8I8I7', found[1])
    if of ~= partitions then return { header(INVALID, 0, 0, of, held, 0, 2) } end
    if importing then error(MISSING) end
    local old_key = sub(hash, 1, -2) .. 'r'
    make_buckets() -- fails, with nothing done, while the slot is being moved to another node
    if call('EXISTS', old_key) == 1 and call('EXISTS', reserved) == 0 then
        call('RENAME', old_key, reserved)
    end
    found[1], found[2] = pack('<I8I8I8I7', last, pushed, of, promote_at), ARGV[5]
    call('HDEL', hash, 'm') -- layout 2's list of daemons: now each has a record
    call('HSET', hash, 'p', found[1], 'x', '', 'k', '+inf')
    block_older_daemons(of)
end
-- In layout 3 only the names of buckets differ. New records may have a form that it did not have
-- (COMPACT); existing ones are not changed.
if older and found[2] == '3' and ARGV[5] == '4' then
    local of = unpack_bytes('<I8', older, 17)
    if of ~= partitions then return { header(INVALID, 0, 0, of, held, 0, 3) } end
    if importing then error(MISSING) end
    local old_key, there = sub(hash, 1, -2) .. 'b', {}
    for i = 1, BUCKETS do -- one fails, with nothing done, while the slot is being moved
        there[i] = call('EXISTS', old_key .. (i - 1)) == 1 and call('EXISTS', names[i]) == 0
    end
    for i = 1, BUCKETS do
        if there[i] then call('RENAME', old_key .. (i - 1), names[i]) end
    end
    local moved_upto = call('HGET', hash, 'l')
    call('HSET', hash, 'p', older, unpack(moved_upto and { 'k', moved_upto } or {}))
    block_older_daemons(of)
    found[2] = ARGV[5]
end
-- How many partitions the queue has by the first of the others; nil: none of the first 64 is there.
local function partitions_of_others()
    local keys, begin = {}, string.match(hash, '^.*:()%d+}:h$')
    for i = 0, LOOKED_AT - 1 do keys[i + 1] = sub(hash, 1, begin - 1) .. i .. '}:h' end
    table.remove(keys, number + 1)
    if redis.pcall('EXISTS', unpack(keys)) == 0 then return nil end
    for _, key in ipairs(keys) do
        local fields = redis.pcall('HMGET', key, 'p', 's')
        local state = fields[1] or fields[2] -- the latter in an older layout
        if state then return unpack_bytes('<I8', state, 17) end
    end
end
local others = ARGV[14] == 's' and not found.err and not found[1] and partitions_of_others()
if others and others ~= partitions then return { header(INVALID, 0, 0, others, held, 0, 0) } end
for i = 2, 4 do
    local score = redis.pcall('ZSCORE', KEYS[i], filler)
    if type(score) == 'table' then wrong_type_key = wrong_type_key or KEYS[i] end
    if not score then flags = LOST end
end
-- How many buckets exist; nil: unknown, as some have already moved to another node with their slot. In
-- a new partition there are no such keys, which one command tells.
local there = 0
local none = not found[1] and redis.pcall('EXISTS', unpack(names)) == 0
for i = 1, none and 0 or BUCKETS do
    local has = redis.pcall('HEXISTS', names[i], '!')
    if has == 0 or has == 1 then
        there = there and there + has
    elseif string.find(has.err, 'WRONGTYPE', 1, true) then
        wrong_type_key = wrong_type_key or names[i]
    else
        there = nil
    end
end
local lost = there and there < BUCKETS and not importing
if wrong_type_key then return { header(INVALID, 0, 0, 0, held, 0, 0), wrong_type_key } end

-- The value that clock() has read: a later one would set a new queue's clock back by the difference.
local redis_now = redis_time[1] * 1000000 + redis_time[2]
local ahead, set = tonumber(found[3] or 0), found[4] or '0 0'
-- After a restart Redis may have lost the last numbers and leases that were given. They are not
-- given again: each lost one is at most SKIPPED above the last saved one, or not ahead of the clock,
-- or was seen by a daemon. How many numbers are skipped differs between histories of writes (`run`),
-- so that two which continue from the same number do not give the same ones.
local SKIPPED = 30000000
local function info_of(section, field)
    local info = redis.pcall('INFO', section)
    info = type(info) == 'string' and info or info.verbatim_string or ''
    return string.match(info, field .. ':(%w+)') or ''
end
-- Identifies the start of the server, and its history of writes: each failover begins a new one, but
-- a server that was replaced, and is the master again, still has its old run_id.
local run = info_of('server', 'run_id') .. ' ' .. info_of('replication', 'master_replid')
local restarted, seen = found[5] ~= run, tonumber(ARGV[8])

local function first_after(least)
    return least - least % partitions + partitions + number
end

-- In layout 3 the journal's field lacked the time of the oldest change that is not taken, and how
-- old that may become. The former is set to now, until some entries are taken (journal.lua).
local function upgrade_journal_field()
    local field = call('HGET', hash, 'j')
    if not field or #field >= 49 or sub(field, 33) == 'x' then return end
    local _, bytes, taken = unpack_bytes('<I8I8I8', field)
    call('HSET', hash, 'j', sub(field, 1, 33) .. pack('<I8I8', bytes > taken and held or 0, 0))
end

-- From now on each change adds an entry. If an earlier journal was given up, its entries must be
-- removed first, and one number is skipped, so that readers notice the gap.
local function begin_journal()
    local field, limits = call('HGET', hash, 'j'), pack('<I8', tonumber(ARGV[9])) .. ARGV[10]
    local span = pack('<I8', tonumber(ARGV[11]))
    local given_up = field and sub(field, 33) == 'x'
    if field and not given_up then
        local whole = sub(field, 1, 24) .. limits .. sub(field, 34, 41) .. span
        if field ~= whole then call('HSET', hash, 'j', whole) end
    else
        local left = call('ZLEXCOUNT', order, '[j', '(k')
        if left > 0 then
            -- The hash was lost with the field, but not the entries: journal.lua removes them.
            if not field then
                local first = call('ZRANGEBYLEX', order, '[j', '(k', 'LIMIT', 0, 1)[1]
                local last = unpack_bytes('>I8', first, 2) + left - 1
                call('HSET', hash, 'j', pack('<I8I8I8', last, 0, 0) .. sub(limits, 1, 8) .. 'x')
            end
            return
        end
        local last = field and unpack_bytes('<I8', field) + 1 or 0
        call('HDEL', hash, 'jr') -- of an earlier journal
        journal = pack('<I8I8I8', last, 0, 0) .. limits .. pack('<I8', 0) .. span
        add_entry('o', slot .. request, held)
    end
end

local counts_lost = false
if not found[1] then
    if importing then error(MISSING) end
    -- The new clock starts at `held`, so that it continues the one that the daemon knows. A late
    -- request must not set it back: `held` is what the clock showed at most when it was sent. If
    -- Redis' clock has leapt ahead instead, the answer shows it, and the daemon sets the clock; one
    -- that began less than two seconds ago sets it when it is that old. (Another daemon as young
    -- follows the leap until then.)
    local least, most, queue = unpack_bytes('<I8I8I8', ARGV[1], 21)
    local ran_late = redis_now > most and redis_now <= most + tonumber(ARGV[13] or 0)
    ahead = ran_late and queue - least or held - redis_now
    set = ARGV[7] .. string.format(' %.0f', held)
    -- Each key gets a member that stays (`filler`): so no key is ever empty, or small enough for
    -- Redis' compact encodings, which are slower. The first number is near the time: number_after().
    found = { pack('<I8I8I8I7', first_after(held), 0, partitions, FOREVER), ARGV[5] }
    make_buckets()
    call('HSET', hash, filler, filler, 'p', found[1], 'c', ARGV[4],
        'o', string.format('%.0f', ahead), 'n', set, 'y', run)
    block_older_daemons(partitions)
    call('ZADD', delayed, '+inf', filler)
    call('ZADD', reserved, '+inf', filler)
    -- Jobs and settings may exist though the hash does not: rebuild.lua restores ids and topics. Until it
    -- has, `order` counts as lost, so that another daemon does it if this one ends.
    local left = there ~= 0 or redis.pcall('EXISTS', sub(hash, 1, -2) .. 's') == 1
    if left then
        call('ZREM', order, filler)
    else
        call('ZADD', order, 0, filler)
    end
    counts_lost = left
    flags, lost = left and REPLACED + LOST or REPLACED, false
    publish('n' .. ARGV[2] .. ' ' .. daemon) -- other daemons' marks and answers, if there were any, are lost
end
local stored = unpack_bytes('<I8', found[1], 17)
if stored ~= partitions or found[2] ~= ARGV[5] then
    return { header(INVALID, 0, 0, stored, held, 0, tonumber(found[2])) }
end
local shown = redis_now + ahead
if unpack_bytes('<I8', ARGV[1], 37) == 0 then held = shown end -- the daemon has no bounds yet
even_if_full()
-- Removes records of layout 3's daemons, which nothing reads now. One that still runs adds another.
local former = call('HGET', hash, 'u')
if former then
    for at = 1, #former, 8 do call('HDEL', hash, 'm' .. sub(former, at, at + 7)) end
    call('HDEL', hash, 'u')
end
if lost then
    make_buckets()
    flags = flags + MISSED
end
local last = unpack_bytes('<I8', found[1])
-- If only the hash was lost, there are jobs whose numbers may be ahead of the clock (see also
-- rebuild.lua): one that is given again would overwrite such a job.
if restarted and (flags % 4 < REPLACED or seen > 0 or counts_lost) then
    local more = tonumber(sub(redis.sha1hex(run), 1, 6), 16)
    seen = math.max(seen, last, held) + (SKIPPED + more) * partitions
    call('HSET', hash, 'y', run)
end
if seen > last then
    last = first_after(seen)
    call('HSET', hash, 'p', pack('<I8', last) .. sub(found[1], 9))
end
if counts_lost then call('HSET', hash, 'z', string.format('%.0f 0', last)) end -- counts.lua
call('ZADD', order, 0, 'd' .. daemon)
upgrade_journal_field()
if ARGV[9] ~= '' then begin_journal() end
-- A daemon that is being removed is unknown, too: some of its answers are already deleted.
local since = call('HGET', hash, 'd' .. daemon)
local unknown = since and unpack_bytes('<I8', since) > 0 and 0 or 1
call('HSET', hash, 'c', ARGV[4], 'd' .. daemon, pack('<I8I2', held, tonumber(ARGV[6])))
if call('HEXISTS', hash, 'x') == 1 then flags = flags + LOOK end
return { header(OK, restarted and 1 or 0, flags, unknown, shown, 0, 0),
    string.format('%.0f ', ahead) .. set }
