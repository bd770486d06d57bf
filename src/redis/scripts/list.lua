-- Shows a topic's jobs in one state. ARGV: 2 l or p (a peek: with its content), 6 after this due
-- time 7 and number, 8 how many. Answer: {it, where to go on, head, …, content (p)}; `more`: there
-- may be. Jobs come in the order of the set; those in the way of a cursor are left out.
local after_due, after_seq, most = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local parts, now = { '', '' }, clock()
local more, from = walk(function(name)
    if #parts - 2 == most then return false end
    local raw = call('HGET', hash, 'j' .. name)
    if not raw then return true end
    local due, seq = unpack_bytes('<I8', raw, 49), unpack_bytes('<I8', raw, 57)
    if due > after_due or (due == after_due and seq > after_seq) then parts[#parts + 1] = raw end
    return true
end)
local count = #parts - 2
if count == 0 and not more and not call('ZSCORE', order, 't' .. topic) then
    return { say(NOT_FOUND, 0, 0, 0, now, 0, 0), '' }
end
parts[1], parts[2] = say(OK, 0, more and MORE or 0, count, now, 0, 0), from
if ARGV[2] == 'p' and count > 0 then
    parts[4] = call('HGET', hash, 'b' .. read(parts[3]).name) or ''
end
return parts
