-- What all transitions share: each script is this file and one of the others. docket-redis' keys.rs says what the keys
-- hold. A queue (q) is one webhook's: '<tenant>\0<webhook>'. An entry (key) is '<tenant>\0<delivery>'.
--
-- Commands are most of what a transition costs. So it reads many fields with one command, changes copies, and `finish`
-- writes what has changed, with one or two commands for each key.
--
-- ARGV: the process and its incarnation; the channel; then the transition's own.
--
-- redis.rs puts constants before this text: claims at once of an unknown webhook (start), at most and at least (most,
-- least); claims and entries of a tenant without limits of its own (per_tenant, most_entries); how many webhooks are known
-- (most_known); how many milliseconds a quick claim lasts at most, and a slow one (quick_ms, long_ms); the pause between
-- two decreases (pause_ms); how long an entry must have been due to be a backlog (backlog_ms); how often each process
-- looks for what is due, at least (look_ms).
local ENTRIES, WAITING, CLAIMS, FLIGHT, SHARES, HEADS, READY, RING, READY_QUICK, RING_QUICK, TURNS, SIZES, LIMITS,
    STATE, REBUILDING =
    unpack(KEYS)
local process, incarnation, channel = unpack(ARGV)
local own = { unpack(ARGV, 4) }
local call = redis.call

-- Expired claims, and queues that fell due, per transition: Redis serves no other client while a script runs.
local AT_ONCE = 500

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function number(value)
    return string.format('%.0f', value)
end

local function range(key, from, to, limit)
    return call('ZRANGEBYLEX', key, from, to, 'LIMIT', 0, limit)
end

local function tenant_of(q)
    return string.match(q, '^[^%z]*')
end

-- Due times have 15 digits, so that they compare as text.
local function due_text(due)
    return string.format('%015.0f', due)
end

local now_text = due_text(now)

local function due_of(q, waiting)
    return string.sub(waiting, #q + 2, #q + 16)
end

-- By key: the fields of hashes as they are now, as far as they were read; and what is to be written, the value of a field
-- or the score of a member. False: there is none.
local values, changes = {}, {}

local function forget()
    values, changes = { [ENTRIES] = {}, [FLIGHT] = {}, [SHARES] = {}, [TURNS] = {}, [SIZES] = {}, [LIMITS] = {}, [STATE] = {} }, {}
end
forget()

-- Reads fields of a hash that `get` will ask for.
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

-- The two classes of webhooks: those that are not known to be quick, and the quick ones.
local SLOW = { READY = READY, RING = RING, turn = 'turn', mark = 'w' }
local QUICK = { READY = READY_QUICK, RING = RING_QUICK, turn = 'turn-quick', mark = 'q' }

-- Queues and tenants that may belong elsewhere, until `finish`.
local touched, touched_tenants = {}, {}
-- What is known of webhooks, by queue; whether that became more.
local paces, learned = {}, false

-- The keys contradict each other: another program wrote to them. Deletes all but the last fence, so that no old claim
-- counts again, and marks the index as lost.
local function reset()
    call('DEL', ENTRIES, WAITING, CLAIMS, FLIGHT, SHARES, HEADS, READY, RING, READY_QUICK, RING_QUICK, TURNS, SIZES,
        REBUILDING)
    call('HDEL', STATE, 'built')
    forget()
    touched, touched_tenants, paces, learned = {}, {}, {}, false
end

-- Reads with three commands what the following asks about queues and their tenants.
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

-- How many claims at once and entries a tenant may have.
local function limits_of(t)
    local own_limits = get(LIMITS, t)
    if not own_limits then return per_tenant, most_entries end
    local claims, entries = string.match(own_limits, '^(%d+) (%d+)$')
    return tonumber(claims) or per_tenant, tonumber(entries) or most_entries
end

local function most_entries_of(t)
    local _, entries = limits_of(t)
    return entries
end

local function counted(key, field)
    return tonumber(get(key, field) or 0)
end

-- Moves a count of a hash, which has no field for none. Returns what is left.
local function count(key, field, by)
    local left = counted(key, field) + by
    set(key, field, left > 0 and left)
    return left
end

local function in_flight(field)
    return counted(FLIGHT, field)
end

-- What is known of a webhook. shares.rs has the same rules, and says why.
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

-- An entry was claimed: now so many are.
local function claimed_of(q, of_webhook)
    local p = pace(q)
    if of_webhook < p.share then return end
    touched[q] = true
    if not p.full then learn(q, p.share, p.quick, true, p.decreased) end
end

-- How many shares this transition has changed.
local grown, shrunk = 0, 0

-- An attempt was not quick.
local function shrink(q, to)
    local p = pace(q)
    if p.share > to and math.abs(now - p.decreased) >= pause_ms then
        shrunk = shrunk + 1
        learn(q, math.max(math.floor(p.share / 2), to), false, false, now)
    elseif p.quick then
        learn(q, p.share, false, p.full, p.decreased)
    end
end

-- An attempt ended in good time; `quick`: what its webhook is now. More places only help one that used all.
local function grow(q, to, quick)
    local p = pace(q)
    local share = p.full and p.share < to and math.min(p.share * 2, to) or p.share
    if share ~= p.share then grown = grown + 1 end
    if share ~= p.share or p.quick ~= quick then learn(q, share, quick, p.full and share == p.share, p.decreased) end
end

-- A claim holds its place longer than a quick one. How long it will take is not known yet.
local function renewed(q)
    shrink(q, start)
end

-- The longest of the claims that ended together held its place for so many milliseconds.
local function ended_after(q, held)
    if held <= quick_ms then return grow(q, most, true) end
    if held > long_ms then return shrink(q, least) end
    grow(q, start, pace(q).quick)
    shrink(q, start)
end

-- Forgets webhooks if too many are known.
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

-- Puts a queue where it belongs: due, not due yet, or nowhere while its share is in flight.
local function place_queue(q)
    local head = range(WAITING, '[' .. q .. '\0', '(' .. q .. '\1', 1)[1]
    local class, other = class_of(q)
    local is_open = head ~= nil and in_flight(q) < pace(q).share
    local due = is_open and due_of(q, head)
    set(class.READY, q, is_open and due <= now_text and 0)
    set(other.READY, q, false)
    set(HEADS, q, is_open and due > now_text and due)
end

local function place_tenant(t)
    for _, class in ipairs({ SLOW, QUICK }) do
        local is_ready = range(class.READY, '[' .. t .. '\0', '(' .. t .. '\1', 1)[1] ~= nil
        if not is_ready then set(TURNS, class.mark .. t, false) end
        set(class.RING, t, is_ready and in_flight(t) < limits_of(t) and 0)
    end
end

-- Writes everything.
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

local function wait(t, w, id, due)
    local due = due_text(due)
    set(WAITING, t .. '\0' .. w .. '\0' .. due .. '\0' .. id, 0)
    set(ENTRIES, t .. '\0' .. id, 'w\0' .. w .. '\0' .. due)
    touched[t .. '\0' .. w] = true
end

-- Tenants at their limit of entries.
local full = {}

-- Adds an entry that is not there. Over the tenant's limit it is left out: a sweep finds its row. Returns whether it was
-- added.
local function add(t, w, id, due)
    if counted(SIZES, t) >= most_entries_of(t) then
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

-- The incarnation and the process that hold a claimed entry.
local function holder(key)
    return string.match(get(ENTRIES, key), '^c%z[^%z]*%z%d+%z([^%z]*)%z(.*)$')
end

-- The claims that still hold their entries, of those that the transition's own arguments name: tenant, delivery and fence at
-- each `step` from `at`. Each has its place among the arguments, its entry and its queue.
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

-- Claims an entry of a queue until a time. Returns the fence.
local function hold(t, w, id, q, till)
    -- Never a fence that was given before, even if Redis was restored: a late worker must not hold another worker's claim.
    local fence = math.max(tonumber(get(STATE, 'fence') or 0), time[1] * 1000000 + time[2]) + 1
    set(STATE, 'fence', fence)
    local key = t .. '\0' .. id
    set(ENTRIES, key, 'c\0' .. w .. '\0' .. number(fence) .. '\0' .. incarnation .. '\0' .. process)
    set(CLAIMS, key, till)
    claimed_of(q, count(FLIGHT, q, 1))
    if count(FLIGHT, t, 1) >= limits_of(t) then touched_tenants[t] = true end
    return fence
end

-- Ends the claim of an entry, which is due again at a time, or removed (nil). Over the tenant's limit it is removed too,
-- unless it is due now: a sweep finds its row.
local function end_claim(key, w, due)
    local t, id = string.match(key, '^([^%z]*)%z(.*)$')
    local q = t .. '\0' .. w
    set(CLAIMS, key, false)
    -- Only a full share delayed anything.
    if count(FLIGHT, q, -1) + 1 >= pace(q).share then touched[q] = true end
    if count(FLIGHT, t, -1) + 1 >= limits_of(t) then touched_tenants[t] = true end
    if due and (due <= now or counted(SIZES, t) < most_entries_of(t)) then
        wait(t, w, id, due)
    else
        set(ENTRIES, key, false)
        count(SIZES, t, -1)
    end
end

-- Applies what the passing of time changes.
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

-- In how many milliseconds the next claim can succeed; nil: there is nothing.
local function next_due()
    if call('EXISTS', RING, RING_QUICK) > 0 then return 0 end
    local at
    for _, key in ipairs({ HEADS, CLAIMS }) do
        local soonest = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
        if soonest and (not at or soonest < at) then at = soonest end
    end
    return at and math.max(0, at - now)
end

-- Writes everything, and notifies the other processes if an entry is now due earlier than they know and before they look again, or
-- one of a quick webhook is due: what was due before may be of slow ones only, for which they have no room. A message that is lost,
-- or not allowed, costs the time until they look. Returns 1 if something is due, or due earlier; otherwise 0.
local function finish_and_notify()
    local before, quick_before = next_due(), call('EXISTS', RING_QUICK)
    finish()
    local after, quick_after = next_due(), call('EXISTS', RING_QUICK)
    local is_earlier = after and after < math.min(before or look_ms, look_ms) or quick_before < quick_after
    if is_earlier then redis.pcall('PUBLISH', channel, incarnation) end
    return (is_earlier or after == 0) and 1 or 0
end
