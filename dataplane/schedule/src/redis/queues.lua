-- What all transitions share: each script is this file and one of the others. docket-redis' keys.rs says what the keys
-- hold. A queue (q) is one webhook's: '<tenant>\0<webhook>'. An entry (key) is '<tenant>\0<delivery>'.
--
-- ARGV: attempts at once per webhook, per tenant, the channel; then the transition's own.
local ENTRIES, WAITING, CLAIMS, FLIGHT, HEADS, READY, RING, TURNS, STATE, REBUILDING = unpack(KEYS)
local per_webhook, per_tenant, channel = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local call = redis.call

-- Expired claims, and queues that fell due, per transition: Redis serves no other client while a script runs.
local AT_ONCE = 500

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function first(key, from, to)
    return call('ZRANGEBYLEX', key, from, to, 'LIMIT', 0, 1)[1]
end

local function number(value)
    return string.format('%.0f', value)
end

local function in_flight(field)
    return tonumber(call('HGET', FLIGHT, field) or 0)
end

local function count(field, by)
    local left = call('HINCRBY', FLIGHT, field, by)
    if left <= 0 then call('HDEL', FLIGHT, field) end
    return left
end

local function due_of(q, waiting)
    return tonumber(string.sub(waiting, #q + 2, #q + 16))
end

-- Queues whose entries or claims have changed, until settle_queues().
local touched = {}

local function touch(q)
    touched[q] = true
end

local function place_tenant(t)
    if not first(READY, '[' .. t .. '\0', '(' .. t .. '\1') then
        call('ZREM', RING, t)
        call('HDEL', TURNS, t)
    elseif in_flight(t) >= per_tenant then
        call('ZREM', RING, t)
    else
        call('ZADD', RING, 0, t)
    end
end

-- Puts each touched queue where it belongs: due, not due yet, or nowhere while its share is in flight.
local function settle_queues()
    local tenants = {}
    for q in pairs(touched) do
        local head = first(WAITING, '[' .. q .. '\0', '(' .. q .. '\1')
        if not head or in_flight(q) >= per_webhook then
            call('ZREM', READY, q)
            call('ZREM', HEADS, q)
        elseif due_of(q, head) <= now then
            call('ZADD', READY, 0, q)
            call('ZREM', HEADS, q)
        else
            call('ZADD', HEADS, number(due_of(q, head)), q)
            call('ZREM', READY, q)
        end
        tenants[string.match(q, '^[^%z]*')] = true
    end
    touched = {}
    for t in pairs(tenants) do place_tenant(t) end
end

local function wait(t, w, id, due)
    local due = string.format('%015.0f', due)
    call('ZADD', WAITING, 0, t .. '\0' .. w .. '\0' .. due .. '\0' .. id)
    call('HSET', ENTRIES, t .. '\0' .. id, 'w\0' .. w .. '\0' .. due)
    touch(t .. '\0' .. w)
end

-- Returns 'w', webhook, due or 'c', webhook, fence; nothing: there is no such entry.
local function read(key)
    return string.match(call('HGET', ENTRIES, key) or '', '^(%a)%z([^%z]*)%z(.*)$')
end

-- The keys contradict each other: another program wrote to them. Deletes all but the last fence, so that no old claim
-- counts again, and marks the index as lost.
local function reset()
    call('DEL', ENTRIES, WAITING, CLAIMS, FLIGHT, HEADS, READY, RING, TURNS, REBUILDING)
    call('HDEL', STATE, 'built')
    touched = {}
end

-- Ends the claim of an entry, which is due again at a time, or removed (nil).
local function end_claim(key, w, due)
    local t, id = string.match(key, '^([^%z]*)%z(.*)$')
    local q = t .. '\0' .. w
    call('ZREM', CLAIMS, key)
    local of_tenant, of_webhook = count(t, -1), count(q, -1)
    -- Only a full share delayed anything.
    if of_tenant + 1 >= per_tenant or of_webhook + 1 >= per_webhook then touch(q) end
    if due then wait(t, w, id, due) else call('HDEL', ENTRIES, key) end
end

-- Applies what the passing of time changes.
local function refresh()
    if call('EXISTS', FLIGHT) == 1 and call('EXISTS', CLAIMS) == 0 then reset() end
    local over = call('ZRANGEBYSCORE', CLAIMS, '-inf', number(now), 'WITHSCORES', 'LIMIT', 0, AT_ONCE)
    for i = 1, #over, 2 do
        local kind, w = read(over[i])
        if kind ~= 'c' then return reset() end
        end_claim(over[i], w, tonumber(over[i + 1]))
    end
    for _, q in ipairs(call('ZRANGEBYSCORE', HEADS, '-inf', number(now), 'LIMIT', 0, AT_ONCE)) do touch(q) end
    settle_queues()
end

-- In how many milliseconds the next claim can succeed; nil: there is nothing.
local function next_due()
    if call('ZCARD', RING) > 0 then return 0 end
    local at
    for _, key in ipairs({ HEADS, CLAIMS }) do
        local soonest = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
        if soonest and (not at or soonest < at) then at = soonest end
    end
    return at and math.max(0, at - now)
end

-- Notifies the other processes if an entry is now due earlier than they know. A message that is lost, or not allowed,
-- costs one poll interval.
local function notify(before)
    local after = next_due()
    if after and (not before or after < before) then redis.pcall('PUBLISH', channel, '') end
end
