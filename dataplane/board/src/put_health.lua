-- ARGV: for how many milliseconds a webhook's health is kept; then the webhook and its health, for each webhook.
local webhooks, health = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 2, #ARGV, 2 do
    redis.call('ZADD', webhooks, string.format('%.0f', now), ARGV[i])
    redis.call('HSET', health, ARGV[i], ARGV[i + 1])
end
local oldest = string.format('%.0f', now - ARGV[1])
for _, webhook in ipairs(redis.call('ZRANGEBYSCORE', webhooks, '-inf', '(' .. oldest, 'LIMIT', 0, 1000)) do
    redis.call('ZREM', webhooks, webhook)
    redis.call('HDEL', health, webhook)
end
