-- Sets all times in the keys of a schedule back, as if time had passed. ARGV: the time in milliseconds.
local by = tonumber(ARGV[1])
local ENTRIES, WAITING, CLAIMS, SHARES, HEADS, STATE = KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[6], KEYS[14]
for _, key in ipairs({ CLAIMS, HEADS }) do
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, -by, member) end
end
for _, member in ipairs(redis.call('ZRANGE', WAITING, 0, -1)) do
    local t, w, due, id = string.match(member, '^([^%z]*)%z([^%z]*)%z(%d+)%z(.*)$')
    due = string.format('%015.0f', due - by)
    redis.call('ZREM', WAITING, member)
    redis.call('ZADD', WAITING, 0, t .. '\0' .. w .. '\0' .. due .. '\0' .. id)
    redis.call('HSET', ENTRIES, t .. '\0' .. id, 'w\0' .. w .. '\0' .. due)
end
local shares = redis.call('HGETALL', SHARES)
for i = 1, #shares, 2 do
    local rest, decreased = string.match(shares[i + 1], '^(.* )(%d+)$')
    redis.call('HSET', SHARES, shares[i], rest .. string.format('%.0f', math.max(0, decreased - by)))
end
local swept = redis.call('HGET', STATE, 'swept')
if swept then redis.call('HSET', STATE, 'swept', string.format('%.0f', swept - by)) end
