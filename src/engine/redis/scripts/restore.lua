-- Controls a restore: jobs come back from the journal into this partition. 'b' and 'e' must be
-- called again while they return MORE.
--
-- While a restore is under way the hash has the field 'jr': number of the restore (8 bytes), when
-- it ends unless it is renewed (8), how many more jobs may end before the restore must stop (8; 0:
-- too many did). Each job that ends adds a member to `order` (entry.lua): 'ei' and its id, or 'en'
-- and its number if it has no id. push_slow.lua pushes a job of the restore only if there is no
-- such member. The member 'er' and the number of the restore shows that these members were not
-- lost: without it the restore is void. Time alone does not end a restore that was not renewed: the
-- next job that ends does, and adds no member. So no end is missing while 'jr' exists.
--
-- ARGV:
--   2  'b' begin, 'g' renew, 'e' end, 'l' check one job
--   3  number of the restore (8 bytes); '' with 'e': any, with 'l': no restore is under way
--   4  'b', 'g': how long until it must be renewed; 'l': the job's number (8 bytes)
--   5  'b': how many jobs may end meanwhile
-- Returns {header}:
--   'b'  state 1: it has begun, seq is the last entry of the journal; 0: this partition has no
--        journal. MORE: members of an earlier restore are being deleted, call again
--   'g'  state 1: renewed; 0: the restore has ended; 2: too many jobs have ended
--   'e'  MORE: members are left to delete, call again
--   'l'  state 1: the job exists, or has ended since the restore began; else 0. Error LAPSED: the
--        restore is over
-- 'b' is idempotent by a stored answer, 'g', 'e' and 'l' by what they do.
-- Cost: at most REMOVED members deleted in one call.
local REMOVED = 1000 -- members in one call
local what, restore_id = ARGV[2], ARGV[3]
local stored = what == 'b' and stored_answer()
if stored then return { stored } end
local now = clock()
local found = call('HMGET', hash, 'p', 'j', 'jr')
if not found[1] then return redis.error_reply(CLOSED) end
local field, restore = found[2], found[3]
local ours = restore and sub(restore, 1, 8) == restore_id
local room = restore and unpack_bytes('<I8', restore, 17)

local function answer(state, flags, seq)
    return header(OK, state, flags, 0, now, 0, seq)
end

-- Deletes up to REMOVED members. False: there are more.
local function remove()
    local left = call('ZRANGEBYLEX', order, '[e', '(f', 'LIMIT', REMOVED, 1)[1]
    call('ZREMRANGEBYLEX', order, '[e', left and '(' .. left or '(f')
    return not left
end

if what == 'l' then
    if restore_id ~= '' and not (ours and room > 0 and call('ZSCORE', order, 'er' .. restore_id)) then
        return { header(LAPSED, 0, 0, 0, now, 0, 0) }
    end
    local out = fetch(ARGV[4]) or restore_id ~= '' and call('ZSCORE', order, 'en' .. ARGV[4])
    return { answer(out and 1 or 0, 0, 0) }
end

even_if_full()
if what == 'b' then
    if not field or sub(field, 33) == 'x' then return { answer(0, 0, 0) } end
    call('HDEL', hash, 'jr')
    if not remove() then return { store_answer('', answer(0, MORE, 0))[1] } end
    call('ZADD', order, 0, 'er' .. restore_id)
    call('HSET', hash, 'jr', restore_id .. pack('<I8I8', now + tonumber(ARGV[4]), tonumber(ARGV[5])))
    return { store_answer('', answer(1, 0, unpack_bytes('<I8', field)))[1] }
end
if what == 'g' then
    if not ours then return { answer(0, 0, 0) } end
    if room == 0 then return { answer(2, 0, 0) } end
    call('HSET', hash, 'jr', restore_id .. pack('<I8I8', now + tonumber(ARGV[4]), room))
    return { answer(1, 0, 0) }
end
if restore and restore_id ~= '' and not ours then return { answer(0, 0, 0) } end
call('HDEL', hash, 'jr')
return { answer(0, remove() and 0 or MORE, 0) }
