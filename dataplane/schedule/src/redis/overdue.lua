-- Counts due entries of the queues that follow a queue in the order of names. The first call counts expired claims too. Writes nothing.
-- Own: the queue ('': the first call), and the largest number of queues with waiting entries to read. Returns how many due entries wait for
-- a worker, for how many milliseconds the oldest of them has been due (-1: there are none), how many due entries wait for a place of their
-- webhook or tenant, and the last queue that was read ('': there are no more).
local from, last = own[1] == '' and '-' or '[' .. own[1] .. '\1', ''
local entries, held, since = 0, 0, nil
local function count_due(found, at)
    entries = entries + found
    if found > 0 and (not since or at < since) then since = at end
end
if own[1] == '' then
    local soonest = tonumber(call('ZRANGE', CLAIMS, 0, 0, 'WITHSCORES')[2])
    count_due(call('ZCOUNT', CLAIMS, '-inf', number(now)), soonest)
end
local queues, dues = {}, {}
for _ = 1, tonumber(own[2]) do
    local head = range(WAITING, from, '+', 1)[1]
    if not head then
        last = ''
        break
    end
    last = string.match(head, '^[^%z]*%z[^%z]*')
    local due = due_of(last, head)
    if due <= now_text then
        queues[#queues + 1], dues[#dues + 1] = last, tonumber(due)
    end
    from = '[' .. last .. '\1'
end
load_queues(queues)
for i, q in ipairs(queues) do
    local found = call('ZLEXCOUNT', WAITING, '[' .. q .. '\0', '(' .. q .. '\0' .. due_text(now + 1))
    local t = tenant_of(q)
    if in_flight(q) < pace(q).share and in_flight(t) < limits_of(t) then
        count_due(found, dues[i])
    else
        held = held + found
    end
end
return { entries, since and now - since or -1, held, last }
