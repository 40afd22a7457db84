-- The beginning of both scripts about tenants at their limits: removes entries that have ended.
local last, since = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function number(value)
    return string.format('%.0f', value)
end
local over_after = tonumber(table.remove(ARGV, 1))
for _, member in ipairs(redis.call('ZRANGEBYSCORE', last, '-inf', number(now - over_after))) do
    redis.call('ZREM', last, member)
    redis.call('HDEL', since, member)
end
