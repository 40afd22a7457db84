-- ARGV from 4: how many at most, the lease in milliseconds. Returns tenant, webhook, delivery and fence of each.
local limit, lease = tonumber(ARGV[4]), tonumber(ARGV[5])
refresh()
local turn = call('HGET', STATE, 'turn') or ''
-- Never a fence that was given before, even if Redis was restored: a late worker must not hold another worker's claim.
local fence = math.max(tonumber(call('HGET', STATE, 'fence') or 0), time[1] * 1000000 + time[2])
local claimed = {}
while #claimed < limit do
    local t = first(RING, '(' .. turn, '+') or first(RING, '-', '+')
    if not t then break end
    local last = call('HGET', TURNS, t) or ''
    local q = first(READY, '(' .. t .. '\0' .. last, '(' .. t .. '\1') or first(READY, '[' .. t .. '\0', '(' .. t .. '\1')
    local head, after
    if q then head, after = unpack(call('ZRANGEBYLEX', WAITING, '[' .. q .. '\0', '(' .. q .. '\1', 'LIMIT', 0, 2)) end
    if not head then
        reset()
        break
    end
    local w, id = string.sub(q, #t + 2), string.sub(head, #q + 18)
    local key = t .. '\0' .. id
    fence = fence + 1
    turn = t
    call('ZREM', WAITING, head)
    call('HSET', ENTRIES, key, 'c\0' .. w .. '\0' .. number(fence))
    call('ZADD', CLAIMS, number(now + lease), key)
    call('HSET', TURNS, t, w)
    local of_tenant, of_webhook = count(t, 1), count(q, 1)
    if not after or of_webhook >= per_webhook or due_of(q, after) > now then
        touch(q)
        settle_queues()
    elseif of_tenant >= per_tenant then
        call('ZREM', RING, t)
    end
    claimed[#claimed + 1] = { t, w, id, number(fence) }
end
if #claimed > 0 then call('HSET', STATE, 'turn', turn, 'fence', number(fence)) end
return claimed
