-- ARGV: pod; then either the version that the caller expects in Redis; or '', roles and served. Returns the version
-- in Redis. If it is '', Redis has none, and the caller sends everything.
local pods, served, roles = KEYS[1], KEYS[2], KEYS[3]
local time = redis.call('TIME')
local version
if ARGV[2] == '' then
    version = string.format('%.0f', time[1] * 1000000 + time[2])
    redis.call('HSET', served, ARGV[1], version .. '\0' .. ARGV[3] .. '\0' .. ARGV[4])
    redis.call('HSET', roles, ARGV[1], ARGV[3])
else
    version = string.match(redis.call('HGET', served, ARGV[1]) or '', '^%d*')
end
if version ~= '' then
    redis.call('ZADD', pods, string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)), ARGV[1])
end
return version
