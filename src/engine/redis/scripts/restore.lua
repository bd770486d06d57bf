-- Jobs come back from the journal, into this partition. While they do, the hash has the field 'jr':
-- which restore it is (8), until when if it is not renewed, how many more jobs may end (8 each; 0:
-- too many have). Each job that ends leaves a member in `order` (entry.lua): 'ei' and its id, or 'en'
-- and its number if it has none. 'er' and the restore stands for all of these: where it is missing
-- they were lost. A job that was restored is pushed only if there is no such member (push_other.lua).
-- Time does not end a restore by itself: an end that finds it up does, as it leaves no member then.
-- ARGV: 2 what: b it begins, g it goes on, e it has ended, l is this job to be left out?; 3 which
-- restore; '': of e any one, of l none goes on; b and g: 4 for how long, b: 5 how many jobs may end;
-- l: 4 the job's number (8 bytes).
-- Answer: {it}. b: more: call again, what another has left goes first; else state: 1 it has begun,
-- behind the entry seq, 0 there is no journal here. g: state 1 it goes on, 0 it has ended, 2 too many
-- jobs have. e: more: call again. l: state 1 it lives, or has ended since.
local REMOVED = 1000 -- members in one call
local what, run = ARGV[2], ARGV[3]
local first = what == 'b' and answered()
if first then return { first } end
local now = clock()
local found = call('HMGET', hash, 'p', 'j', 'jr')
if not found[1] then return redis.error_reply(CLOSED) end
local field, restore = found[2], found[3]
local ours = restore and sub(restore, 1, 8) == run
local room = restore and unpack_bytes('<I8', restore, 17)

local function answer(state, flags, seq)
    return say(OK, state, flags, 0, now, 0, seq)
end

-- False: there are more.
local function remove()
    local left = call('ZRANGEBYLEX', order, '[e', '(f', 'LIMIT', REMOVED, 1)[1]
    call('ZREMRANGEBYLEX', order, '[e', left and '(' .. left or '(f')
    return not left
end

if what == 'l' then
    if run ~= '' and not (ours and room > 0 and call('ZSCORE', order, 'er' .. run)) then
        return { say(LAPSED, 0, 0, 0, now, 0, 0) }
    end
    local out = fetch(ARGV[4]) or run ~= '' and call('ZSCORE', order, 'en' .. ARGV[4])
    return { answer(out and 1 or 0, 0, 0) }
end

even_if_full()
if what == 'b' then
    if not field or sub(field, 33) == 'x' then return { answer(0, 0, 0) } end
    call('HDEL', hash, 'jr')
    if not remove() then return { keep('', answer(0, MORE, 0))[1] } end
    call('ZADD', order, 0, 'er' .. run)
    call('HSET', hash, 'jr', run .. pack('<I8I8', now + tonumber(ARGV[4]), tonumber(ARGV[5])))
    return { keep('', answer(1, 0, unpack_bytes('<I8', field)))[1] }
end
if what == 'g' then
    if not ours then return { answer(0, 0, 0) } end
    if room == 0 then return { answer(2, 0, 0) } end
    call('HSET', hash, 'jr', run .. pack('<I8I8', now + tonumber(ARGV[4]), room))
    return { answer(1, 0, 0) }
end
if restore and run ~= '' and not ours then return { answer(0, 0, 0) } end
call('HDEL', hash, 'jr')
return { answer(0, remove() and 0 or MORE, 0) }
