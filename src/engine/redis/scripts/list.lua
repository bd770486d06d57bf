-- Shows jobs of a topic in one state. Changes nothing.
--
-- ARGV:
--   2       'l' without content, 'p' (peek) with content
--   3 to 5  as in walk.lua
--   6, 7    with state reserved: the last job that the caller has: end of its lease (-1: none) and
--           its number. Jobs up to that one are left out
--   8       the most jobs
--   9       'r' backwards
-- Returns {header, where to continue, job, ...}, in the order of the sorted set. count: jobs. MORE:
-- there may be more. Error NOT_FOUND: there is no such topic.
-- Cost: at most 600 places and ARGV[8] jobs are read.
local after, after_seq, most = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local backwards = ARGV[9] == 'r'
local parts, now = { '', '' }, clock()

-- Reserved jobs of all topics are in one sorted set. It is not read for a topic that has none.
local function has_none()
    return state == 3 and ARGV[5] == '' and tonumber(call('HGET', hash, '#h' .. topic) or 0) <= 0
end
local function is_shown(name, score)
    if state ~= 3 or after < 0 then return false end
    local till = tonumber(score)
    if till ~= after then return (till > after) == backwards end
    local seq = unpack_bytes('>I8', name)
    if backwards then return seq >= after_seq end
    return seq <= after_seq
end
local more, from = false, ''
if not has_none() then more, from = walk(function(name, _, score)
    if #parts - 2 == most then return false end
    if is_shown(name, score) then return true end -- skipped without reading it: a whole slice may be
    local job = fetch(name)
    if job then
        parts[#parts + 1] = ARGV[2] == 'p' and job_with_content(job) or job_without_content(job)
    end
    return true
end, backwards) end
local count = #parts - 2
if count == 0 and not more and not call('ZSCORE', order, 't' .. topic) then
    return { header(NOT_FOUND, 0, 0, 0, now, 0, 0), '' }
end
parts[1], parts[2] = header(OK, 0, more and MORE or 0, count, now, 0, 0), from
return parts
