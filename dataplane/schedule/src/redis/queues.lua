-- The functions that all transitions share: each script is this file and one of the others. docket-redis' keys.rs describes the keys.
-- A queue (q) has the entries of one webhook; its name is '<tenant>\0<webhook>'. The key of an entry is '<tenant>\0<delivery>'.
--
-- A transition spends most of its time on commands. So it reads many fields with one command and changes copies of them. Then `finish`
-- writes the changes, with one or two commands for each key.
--
-- ARGV: the process and its incarnation; the channel; then the transition's own arguments.
--
-- redis.rs puts constants before this text: the share of a new webhook, the largest and the smallest share (start, most, least); the
-- limits of a tenant without limits of its own (per_tenant, most_entries); the largest number of known webhooks (most_known); the longest
-- quick and the longest slow attempt in milliseconds (quick_ms, long_ms); the pause between two decreases (pause_ms); how long an entry
-- has been due when it is a backlog (backlog_ms); how often each process looks for due entries, at least (look_ms).
local ENTRIES, WAITING, CLAIMS, FLIGHT, SHARES, HEADS, READY, RING, READY_QUICK, RING_QUICK, TURNS, SIZES, LIMITS,
    STATE, REBUILDING =
    unpack(KEYS)
local process, incarnation, channel = unpack(ARGV)
local own = { unpack(ARGV, 4) }
local call = redis.call

-- The largest number of expired claims, and of queues that fell due, in one transition: Redis serves no other client while a script runs.
local AT_ONCE = 500

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function number(value)
    return string.format('%.0f', value)
end

local function range(key, from, to, limit)
    return call('ZRANGEBYLEX', key, from, to, 'LIMIT', 0, limit)
end

-- Returns the first member that begins with a name and '\0'; nil: there is none.
local function first_of(key, name)
    return range(key, '[' .. name .. '\0', '(' .. name .. '\1', 1)[1]
end

local function tenant_of(q)
    return string.match(q, '^[^%z]*')
end

-- A due time as text. It has 15 digits, so that the order of texts is the order of times.
local function due_text(due)
    return string.format('%015.0f', due)
end

local now_text = due_text(now)

local function due_of(q, waiting)
    return string.sub(waiting, #q + 2, #q + 16)
end

-- By key: the fields of hashes that were read or changed, as they are now; and the changes to write, which are values of fields or scores
-- of members. False: there is no such field or member.
local values, changes = {}, {}

local function forget()
    values, changes = { [ENTRIES] = {}, [FLIGHT] = {}, [SHARES] = {}, [TURNS] = {}, [SIZES] = {}, [LIMITS] = {}, [STATE] = {} }, {}
end
forget()

-- Reads fields of a hash with one command, for later calls of `get`.
local function load(key, fields)
    local known, missing = values[key], {}
    for _, field in ipairs(fields) do
        if known[field] == nil then
            known[field] = false
            missing[#missing + 1] = field
        end
    end
    if #missing == 0 then return end
    for i, value in ipairs(call('HMGET', key, unpack(missing))) do known[missing[i]] = value end
end

local function get(key, field)
    local known = values[key]
    if known[field] == nil then known[field] = call('HGET', key, field) end
    return known[field]
end

local function set(key, member, value)
    local of_key, known = changes[key], values[key]
    if of_key then of_key[member] = value else changes[key] = { [member] = value } end
    if known then known[member] = value end
end

-- Writes the changes.
local function flush()
    for key, members in pairs(changes) do
        local is_hash = values[key] ~= nil
        local added, add, removed, remove = {}, 0, {}, 0
        for member, value in pairs(members) do
            if not value then
                remove = remove + 1
                removed[remove] = member
            else
                added[add + 1] = is_hash and member or value
                added[add + 2] = is_hash and value or member
                add = add + 2
            end
        end
        if add > 0 then call(is_hash and 'HSET' or 'ZADD', key, unpack(added)) end
        if remove > 0 then call(is_hash and 'HDEL' or 'ZREM', key, unpack(removed)) end
    end
    changes = {}
end

-- The two classes of webhooks: webhooks that are not known to be quick, and quick webhooks.
local SLOW = { READY = READY, RING = RING, turn = 'turn', mark = 'w' }
local QUICK = { READY = READY_QUICK, RING = RING_QUICK, turn = 'turn-quick', mark = 'q' }

-- Queues and tenants that `finish` puts where they belong.
local touched, touched_tenants = {}, {}
-- What is known of webhooks, by queue; whether this transition has learned of a new webhook.
local paces, learned = {}, false

-- Deletes everything except the last fence, and marks the index as lost, because the keys contradict each other: another program wrote
-- to them. Without the last fence, an old claim could count again.
local function reset()
    call('DEL', ENTRIES, WAITING, CLAIMS, FLIGHT, SHARES, HEADS, READY, RING, READY_QUICK, RING_QUICK, TURNS, SIZES,
        REBUILDING)
    call('HDEL', STATE, 'built')
    forget()
    touched, touched_tenants, paces, learned = {}, {}, {}, false
end

-- Reads with three commands what `pace`, `in_flight` and `limits_of` need of these queues and their tenants.
local function load_queues(queues)
    load(SHARES, queues)
    local fields, tenants, is_named = {}, {}, {}
    for _, q in ipairs(queues) do
        if not is_named[q] then
            is_named[q] = true
            fields[#fields + 1] = q
            tenants[#tenants + 1] = tenant_of(q)
        end
    end
    load(LIMITS, tenants)
    for _, t in ipairs(tenants) do fields[#fields + 1] = t end
    load(FLIGHT, fields)
end

-- Returns the largest number of claims, and of entries, that a tenant may have.
local function limits_of(t)
    local own_limits = get(LIMITS, t)
    if not own_limits then return per_tenant, most_entries end
    local claims, entries = string.match(own_limits, '^(%d+) (%d+)$')
    return tonumber(claims) or per_tenant, tonumber(entries) or most_entries
end

local function counted(key, field)
    return tonumber(get(key, field) or 0)
end

-- Adds to a count of a hash, and returns the result. A count of 0 has no field.
local function count(key, field, by)
    local left = counted(key, field) + by
    set(key, field, left > 0 and left)
    return left
end

local function in_flight(field)
    return counted(FLIGHT, field)
end

-- What is known of a webhook. shares.rs has the same rules, and their reasons.
local UNKNOWN = { share = start, quick = false, full = false, decreased = 0 }

local function pace(q)
    if not get(SHARES, q) then return UNKNOWN end
    if not paces[q] then
        local share, quick, full, decreased = string.match(get(SHARES, q) or '', '^(%d+) (%d) (%d) (%d+)$')
        paces[q] = {
            share = tonumber(share) or start,
            quick = quick == '1',
            full = full == '1',
            decreased = tonumber(decreased) or 0,
        }
    end
    return paces[q]
end

local function class_of(q)
    if pace(q).quick then return QUICK, SLOW end
    return SLOW, QUICK
end

local function learn(q, share, quick, full, decreased)
    learned = learned or not get(SHARES, q)
    set(SHARES, q, string.format('%d %d %d %s', share, quick and 1 or 0, full and 1 or 0, number(decreased)))
    paces[q] = nil
    touched[q] = true
end

-- Learns that an entry was claimed. of_webhook: the number of the webhook's claims with it.
local function claimed_of(q, of_webhook)
    local p = pace(q)
    if of_webhook < p.share then return end
    touched[q] = true
    if not p.full then learn(q, p.share, p.quick, true, p.decreased) end
end

-- The number of shares that this transition has changed.
local grown, shrunk = 0, 0

-- Halves a share, but not below `to`, because an attempt was not quick.
local function shrink(q, to)
    local p = pace(q)
    if p.share > to and math.abs(now - p.decreased) >= pause_ms then
        shrunk = shrunk + 1
        learn(q, math.max(math.floor(p.share / 2), to), false, false, now)
    elseif p.quick then
        learn(q, p.share, false, p.full, p.decreased)
    end
end

-- Doubles a share up to `to`, if the webhook has used all of it. quick: whether the webhook is quick now.
local function grow(q, to, quick)
    local p = pace(q)
    local share = p.full and p.share < to and math.min(p.share * 2, to) or p.share
    if share ~= p.share then grown = grown + 1 end
    if share ~= p.share or p.quick ~= quick then learn(q, share, quick, p.full and share == p.share, p.decreased) end
end

-- Learns that an attempt takes longer than a quick one. How long it will take is not known yet.
local function renewed(q)
    shrink(q, start)
end

-- Learns that claims have ended together. `held`: how many milliseconds their longest attempt took.
local function ended_after(q, held)
    if held <= quick_ms then return grow(q, most, true) end
    if held > long_ms then return shrink(q, least) end
    grow(q, start, pace(q).quick)
    shrink(q, start)
end

-- Forgets some webhooks if too many are known.
local function forget_some()
    if not learned then return end
    learned = false
    local over = call('HLEN', SHARES) - most_known
    if over <= 0 then return end
    for _, q in ipairs(call('HRANDFIELD', SHARES, over)) do
        set(SHARES, q, false)
        paces[q] = nil
        touched[q] = true
    end
end

-- Puts a queue where it belongs: among the ready queues if it is due, in HEADS if it is not due yet, and nowhere while its whole share is
-- in flight.
local function place_queue(q)
    local head = first_of(WAITING, q)
    local class, other = class_of(q)
    local is_open = head ~= nil and in_flight(q) < pace(q).share
    local due = is_open and due_of(q, head)
    set(class.READY, q, is_open and due <= now_text and 0)
    set(other.READY, q, false)
    set(HEADS, q, is_open and due > now_text and due)
end

-- Puts a tenant into the ring of each class in which it has a ready queue, unless it has as many claims as it may.
local function place_tenant(t)
    for _, class in ipairs({ SLOW, QUICK }) do
        local is_ready = first_of(class.READY, t) ~= nil
        if not is_ready then set(TURNS, class.mark .. t, false) end
        set(class.RING, t, is_ready and in_flight(t) < limits_of(t) and 0)
    end
end

-- Writes everything, and puts queues and tenants where they belong.
local function finish()
    flush()
    forget_some()
    local queues = {}
    for q in pairs(touched) do queues[#queues + 1] = q end
    touched = {}
    load_queues(queues)
    for _, q in ipairs(queues) do
        place_queue(q)
        touched_tenants[tenant_of(q)] = true
    end
    flush()
    for t in pairs(touched_tenants) do place_tenant(t) end
    touched_tenants = {}
    flush()
end

-- Lets an entry wait in its queue.
local function wait(t, w, id, due)
    local due = due_text(due)
    set(WAITING, t .. '\0' .. w .. '\0' .. due .. '\0' .. id, 0)
    set(ENTRIES, t .. '\0' .. id, 'w\0' .. w .. '\0' .. due)
    touched[t .. '\0' .. w] = true
end

-- The tenants at their limit of entries.
local full = {}

-- Adds a new entry. Returns false if it leaves the entry out, because the tenant has as many as it may: a sweep finds its row later.
local function add(t, w, id, due)
    if counted(SIZES, t) >= select(2, limits_of(t)) then
        full[t] = true
        return false
    end
    count(SIZES, t, 1)
    wait(t, w, id, due)
    return true
end

-- Returns 'w', webhook, due or 'c', webhook, fence; nothing: there is no such entry.
local function read(key)
    return string.match(get(ENTRIES, key) or '', '^(%a)%z([^%z]*)%z(%d+)')
end

-- Returns the claims among the transition's own arguments that still hold their entries. The arguments name tenant, delivery and fence of
-- a claim at each `step` from `at`. A returned claim has its place among the arguments (at), its entry (key), webhook (w) and queue (q).
local function named_claims(at, step)
    local keys, found, queues, is_known = {}, {}, {}, {}
    for i = at, #own, step do keys[#keys + 1] = own[i] .. '\0' .. own[i + 1] end
    load(ENTRIES, keys)
    for n, key in ipairs(keys) do
        local i = at + (n - 1) * step
        local kind, w, fence = read(key)
        if kind == 'c' and fence == own[i + 2] and not is_known[key] then
            is_known[key] = true
            queues[#queues + 1] = own[i] .. '\0' .. w
            found[#found + 1] = { at = i, key = key, w = w, q = queues[#queues] }
        end
    end
    load_queues(queues)
    return found
end

-- Claims an entry until the time `till`. Returns the fence.
local function hold(t, w, id, q, till)
    -- The time makes the fence new even if Redis was restored: a late worker must not hold another worker's claim.
    local fence = math.max(tonumber(get(STATE, 'fence') or 0), time[1] * 1000000 + time[2]) + 1
    set(STATE, 'fence', fence)
    local key = t .. '\0' .. id
    set(ENTRIES, key, 'c\0' .. w .. '\0' .. number(fence) .. '\0' .. incarnation .. '\0' .. process)
    set(CLAIMS, key, till)
    claimed_of(q, count(FLIGHT, q, 1))
    if count(FLIGHT, t, 1) >= limits_of(t) then touched_tenants[t] = true end
    return fence
end

-- Ends the claim of an entry. The entry is due again at `due`; nil: it is removed. An entry that is not due now is also removed if the
-- tenant has as many entries as it may: a sweep finds its row later.
local function end_claim(key, w, due)
    local t, id = string.match(key, '^([^%z]*)%z(.*)$')
    local q = t .. '\0' .. w
    set(CLAIMS, key, false)
    -- Only a queue or a tenant without a free place was kept from claims.
    if count(FLIGHT, q, -1) + 1 >= pace(q).share then touched[q] = true end
    if count(FLIGHT, t, -1) + 1 >= limits_of(t) then touched_tenants[t] = true end
    if due and (due <= now or counted(SIZES, t) < select(2, limits_of(t))) then
        wait(t, w, id, due)
    else
        set(ENTRIES, key, false)
        count(SIZES, t, -1)
    end
end

-- Ends claims that have expired, and makes queues ready that fell due.
local function refresh()
    if call('EXISTS', FLIGHT) == 1 and call('EXISTS', CLAIMS) == 0 then reset() end
    local over = call('ZRANGEBYSCORE', CLAIMS, '-inf', number(now), 'WITHSCORES', 'LIMIT', 0, AT_ONCE)
    local keys = {}
    for i = 1, #over, 2 do keys[#keys + 1] = over[i] end
    load(ENTRIES, keys)
    for i, key in ipairs(keys) do
        local kind, w = read(key)
        if kind ~= 'c' then return reset() end
        end_claim(key, w, tonumber(over[i * 2]))
    end
    for _, q in ipairs(call('ZRANGEBYSCORE', HEADS, '-inf', number(now), 'LIMIT', 0, AT_ONCE)) do touched[q] = true end
    finish()
end

local function names_of(set)
    local names = {}
    for name in pairs(set) do names[#names + 1] = name end
    return names
end

-- Returns the milliseconds until the next claim can succeed; nil: there is no entry to wait for.
local function next_due()
    if call('EXISTS', RING, RING_QUICK) > 0 then return 0 end
    local at
    for _, key in ipairs({ HEADS, CLAIMS }) do
        local soonest = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
        if soonest and (not at or soonest < at) then at = soonest end
    end
    return at and math.max(0, at - now)
end

-- Writes everything. Notifies the other processes if an entry is due earlier than they know and before they look again, or if an entry of
-- a quick webhook has become due: they may have no room for the slow webhooks whose entries were due before. If a message is lost or not
-- allowed, the other processes find the entry when they look. Returns 1 if an entry is due, or due earlier; otherwise 0.
local function finish_and_notify()
    local before, quick_before = next_due(), call('EXISTS', RING_QUICK)
    finish()
    local after, quick_after = next_due(), call('EXISTS', RING_QUICK)
    local is_earlier = after and after < math.min(before or look_ms, look_ms) or quick_before < quick_after
    if is_earlier then redis.pcall('PUBLISH', channel, incarnation) end
    return (is_earlier or after == 0) and 1 or 0
end
