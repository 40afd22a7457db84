-- Claims due entries, in turn from the tenants and from each tenant's webhooks.
-- Own: the room: in all, for webhooks that are not quick, and the part of the latter that is only for tenants without a claim; the lease in
-- milliseconds. Returns of each claim tenant, webhook, delivery, fence, whether its webhook is quick (1 or 0), and for how many milliseconds
-- the entry had been due.
local slots, slow, without_claim, till = tonumber(own[1]), tonumber(own[2]), tonumber(own[3]), now + own[4]
local claimed, is_broken = {}, false
-- How many times AT_ONCE tenants are read to find tenants without a claim.
local MOST_PAGES = 10

-- Returns up to `limit` members of a range. It begins after `last`, if there is one, and continues at the beginning of the range.
local function in_turn(key, from, to, last, limit)
    local members = range(key, last and '(' .. last or from, to, limit)
    if last and #members < limit then
        for _, member in ipairs(range(key, from, '[' .. last, limit - #members)) do members[#members + 1] = member end
    end
    return members
end

-- Reads the names of a tenant's next queues in turn, enough to take `part` entries. The round is complete if these are all ready queues.
local function read_round(class, tenant, part)
    local t = tenant.name
    local names = in_turn(class.READY, '[' .. t .. '\0', '(' .. t .. '\1', tenant.last, part + 1)
    tenant.names, tenant.at, tenant.is_complete = names, 0, #names <= part
    -- The last name only shows that there are more.
    if not tenant.is_complete then names[#names] = nil end
    tenant.last = names[#names] or tenant.last
    tenant.page = math.ceil(part / math.max(1, #names)) + 1
end

-- Moves a queue to its next entry. The queue is done if that entry is not due.
local function advance(queue)
    if queue.at == #queue.heads and queue.has_more then
        queue.heads = range(WAITING, queue.from, '(' .. queue.name .. '\1', queue.page)
        queue.at, queue.has_more = 0, #queue.heads == queue.page
        queue.from = '(' .. (queue.heads[#queue.heads] or '')
    end
    queue.at = queue.at + 1
    queue.head = queue.heads[queue.at]
    queue.is_done = not queue.head or due_of(queue.name, queue.head) > now_text
    if queue.is_done then touched[queue.name] = true end
end

local function open(class, q, page)
    local queue = { name = q, from = '[' .. q .. '\0', heads = {}, at = 0, has_more = true, page = page }
    if class_of(q) ~= class or in_flight(q) >= pace(q).share then
        queue.is_done = true
        touched[q] = true
    else
        advance(queue)
        is_broken = is_broken or not queue.head
    end
    return queue
end

-- Returns the tenant's next queue with an entry that can be claimed; nil: there is none.
local function next_queue(class, tenant, part)
    if tenant.at == #tenant.names then
        if tenant.is_complete then return table.remove(tenant.again, 1) end
        read_round(class, tenant, part)
    end
    while tenant.at < #tenant.names do
        tenant.at = tenant.at + 1
        local q = tenant.names[tenant.at]
        local queue = tenant.queues[q] or open(class, q, tenant.page)
        tenant.queues[q] = queue
        if not queue.is_done then return queue end
    end
    return table.remove(tenant.again, 1)
end

-- Claims the next entry of a tenant. Returns false if the tenant has none that can be claimed.
local function take(class, tenant, part)
    local t = tenant.name
    local queue = in_flight(t) < limits_of(t) and next_queue(class, tenant, part)
    if not queue then
        touched_tenants[t] = true
        return false
    end
    local q, head = queue.name, queue.head
    local w, id = string.sub(q, #t + 2), string.sub(head, #q + 18)
    set(WAITING, head, false)
    claimed[#claimed + 1] = { t, w, id, hold(t, w, id, q, till), class == QUICK and 1 or 0, now - due_of(q, head) }
    set(TURNS, class.mark .. t, w)
    set(STATE, class.turn, t)
    if in_flight(q) < pace(q).share then
        advance(queue)
        if not queue.is_done and tenant.is_complete then tenant.again[#tenant.again + 1] = queue end
    else
        queue.is_done = true
    end
    return true
end

-- Returns up to `places` tenants of the ring, in turn. only_new: only tenants without a claim.
local function tenants_in_turn(class, places, only_new)
    local last = get(STATE, class.turn) or nil
    if not only_new then return in_turn(class.RING, '-', '+', last, places) end
    local found, first = {}, nil
    for _ = 1, MOST_PAGES do
        local names = in_turn(class.RING, '-', '+', last, AT_ONCE)
        load(FLIGHT, names)
        for _, t in ipairs(names) do
            if t == first or #found == places then return found end
            first = first or t
            if in_flight(t) == 0 then found[#found + 1] = t end
        end
        if #names < AT_ONCE then return found end
        last = names[#names]
    end
    return found
end

-- Reads the next tenants in turn, each with the first queues of its round.
local function open_ring(class, places)
    local names = tenants_in_turn(class, places, class == SLOW and places <= without_claim)
    local fields, queues, ring = {}, {}, {}
    for i, t in ipairs(names) do fields[i] = class.mark .. t end
    load(TURNS, fields)
    for i, t in ipairs(names) do
        local tenant = { name = t, queues = {}, again = {} }
        local last = get(TURNS, class.mark .. t)
        tenant.last = last and t .. '\0' .. last
        read_round(class, tenant, math.ceil(places / #names))
        for _, q in ipairs(tenant.names) do queues[#queues + 1] = q end
        ring[i] = tenant
    end
    load(SHARES, queues)
    load(FLIGHT, names)
    load(LIMITS, names)
    load(FLIGHT, queues)
    return ring
end

-- Claims entries of a class: one of each tenant in turn, until there is no place or no entry left.
local function take_in_turn(class, places)
    local ring = places > 0 and open_ring(class, places) or {}
    while #ring > 0 and places > 0 and not is_broken do
        local part, stay = math.ceil(places / #ring), {}
        for _, tenant in ipairs(ring) do
            local is_kept = class == SLOW and places <= without_claim and in_flight(tenant.name) > 0
            if places > 0 and not is_kept and not is_broken and take(class, tenant, part) then
                places = places - 1
                stay[#stay + 1] = tenant
            end
        end
        ring = stay
    end
end

refresh()
load(STATE, { 'fence', SLOW.turn, QUICK.turn })
take_in_turn(SLOW, math.min(slots, slow))
take_in_turn(QUICK, slots - #claimed)
if is_broken then
    reset()
    return {}
end
finish()
return claimed
