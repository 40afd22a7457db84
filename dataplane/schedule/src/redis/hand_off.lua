-- Claims new entries, or lets them wait for one lease.
-- Own: the room: in all, for webhooks that are not quick, and the part of the latter that is only for tenants without a claim; the lease in
-- milliseconds; then tenant, webhook and delivery of each entry. Returns of each claimed entry its index from 0, the fence, and whether its
-- webhook is quick (1 or 0); the tenants of entries that were left out; the tenants at their limit of claims; and how many entries of quick
-- webhooks wait.
local slots, slow, without_claim, till = tonumber(own[1]), tonumber(own[2]), tonumber(own[3]), now + own[4]
local keys, queues = {}, {}
for i = 5, #own, 3 do
    keys[#keys + 1] = own[i] .. '\0' .. own[i + 2]
    queues[#queues + 1] = own[i] .. '\0' .. own[i + 1]
end
load(ENTRIES, keys)
load_queues(queues)

-- Whether a queue has a backlog, by queue.
local overtaken, backlog_text = {}, due_text(now - backlog_ms)
local function overtakes(q)
    if overtaken[q] == nil then
        local head = first_of(WAITING, q)
        overtaken[q] = head ~= nil and due_of(q, head) <= backlog_text
    end
    return overtaken[q]
end

local claimed, waits, quick_waiting, busy = {}, false, 0, {}
for place, key in ipairs(keys) do
    local t, w, id = unpack(own, place * 3 + 2, place * 3 + 4)
    local q = queues[place]
    local p = pace(q)
    if not get(ENTRIES, key) then
        local kept = in_flight(t) > 0 and without_claim or 0
        local has_room = slots > 0 and (p.quick or slow > kept)
        local is_busy = in_flight(t) >= limits_of(t)
        if is_busy then busy[t] = true end
        if has_room and in_flight(q) < p.share and not is_busy and not overtakes(q) then
            slots = slots - 1
            count(SIZES, t, 1)
            if not p.quick then slow = slow - 1 end
            claimed[#claimed + 1] = { place - 1, hold(t, w, id, q, till), p.quick and 1 or 0 }
        else
            waits = add(t, w, id, till) or waits
            if p.quick then quick_waiting = quick_waiting + 1 end
        end
    end
end
if waits then finish_and_notify() else finish() end
return { claimed, names_of(full), names_of(busy), quick_waiting }
