-- Shows a topic's jobs in one state. ARGV: 2 l or p (a peek: with its content), 6 after this time
-- (of reserved jobs, when their ttr ends; -1: any) and 7 number, 8 how many, 9 r backwards, before those.
-- Answer: {it, where to go on, job, …}, for p with its content; `more`: there may be. Jobs come in the
-- order of the set; those of the cursor's time that were shown are left out.
local after, after_seq, most = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local backwards = ARGV[9] == 'r'
local parts, now = { '', '' }, clock()

-- Others' reserved jobs are not looked through for a topic that has none itself.
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
    if is_shown(name, score) then return true end -- not even read: it may be all of a slice
    local job = fetch(name)
    if job then parts[#parts + 1] = ARGV[2] == 'p' and whole_job(job) or shown_job(job) end
    return true
end, backwards) end
local count = #parts - 2
if count == 0 and not more and not call('ZSCORE', order, 't' .. topic) then
    return { say(NOT_FOUND, 0, 0, 0, now, 0, 0), '' }
end
parts[1], parts[2] = say(OK, 0, more and MORE or 0, count, now, 0, 0), from
return parts
