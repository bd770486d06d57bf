-- Shows a topic's jobs in one state. ARGV: 2 l or p (a peek: with its content), 6 after this time
-- (of delayed jobs when they are due, of reserved ones when their ttr ends; -1: any) and 7 number, 8
-- how many. Answer: {it, where to go on, head, …, content (p)}; `more`: there may be. Jobs come in
-- the order of the set; those of the cursor's time that were shown are left out.
local after, after_seq, most = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local parts, now = { '', '' }, clock()

-- Others' jobs are not looked through for a topic that has none itself. Of those that ended each is
-- counted once, so what is neither ready, buried nor reserved is delayed.
local function has_none()
    if ARGV[5] ~= '' or (state ~= 1 and state ~= 3) then return false end
    local of = call('HMGET', hash, '#p' .. topic, '#f' .. topic, '#d' .. topic, '#x' .. topic,
        '#h' .. topic)
    for i = 1, 5 do of[i] = tonumber(of[i] or 0) end
    if state == 3 then return of[5] <= 0 end
    local left = of[1] - of[2] - of[3] - of[4] - of[5]
    for letter in string.gmatch('rb', '.') do
        left = left - call('ZLEXCOUNT', order, '[' .. letter .. key,
            '(' .. letter .. key .. string.rep('\255', 21))
    end
    return left <= 0
end
local more, from = false, ''
if not has_none() then more, from = walk(function(name)
    if #parts - 2 == most then return false end
    local raw = call('HGET', hash, 'j' .. name)
    if not raw then return true end
    local at = unpack_bytes(HEAD.DUE_FORMAT, raw, state == 3 and HEAD.UNTIL or HEAD.DUE)
    local seq = unpack_bytes(HEAD.SEQ_FORMAT, raw, HEAD.SEQ)
    if at > after or (at == after and seq > after_seq) then parts[#parts + 1] = raw end
    return true
end) end
local count = #parts - 2
if count == 0 and not more and not call('ZSCORE', order, 't' .. topic) then
    return { say(NOT_FOUND, 0, 0, 0, now, 0, 0), '' }
end
parts[1], parts[2] = say(OK, 0, more and MORE or 0, count, now, 0, 0), from
if ARGV[2] == 'p' and count > 0 then
    parts[4] = call('HGET', hash, 'b' .. read(parts[3]).name) or ''
end
return parts
