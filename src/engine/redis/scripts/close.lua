-- Two jobs are close if they have the same priority, and the later one is due (or was made, if they
-- are in order of arrival) at most CLOSE_US after the first (topic_cache.h: RANK_CLOSE_US).
local CLOSE_US = 50000
local CLOSE_JOBS_MAX = 4 -- an answer counts at most so many jobs (script_answer.h: SCRIPT_CLOSE_JOBS_MAX)

-- `places`: of one topic's ready jobs, in order. Returns how many jobs from `from` on are close to the
-- job at `from`, including it; at most `most`.
local function close_jobs(places, from, most)
    local first, count = places[from], 1
    if not first then return 0 end
    local begin = #first - 19
    local priority, rank = struct.unpack('>I4I8', first, begin)
    while count < most and places[from + count] do
        local of, at = struct.unpack('>I4I8', places[from + count], begin)
        if of ~= priority or at - rank > CLOSE_US then break end
        count = count + 1
    end
    return count
end
