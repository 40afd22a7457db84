-- ARGV: for how many milliseconds a pod counts as alive; then pod and version of each pod that the caller knows.
-- Returns pod, version, roles and served of each live pod; roles and served are '' if the caller knows the version.
local pods, served = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local oldest = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[1])
for _, pod in ipairs(redis.call('ZRANGEBYSCORE', pods, '-inf', '(' .. oldest)) do
    redis.call('ZREM', pods, pod)
    redis.call('HDEL', served, pod)
    redis.call('HDEL', KEYS[3], pod)
end
local known = {}
for i = 2, #ARGV, 2 do known[ARGV[i]] = ARGV[i + 1] end
local alive = {}
for _, pod in ipairs(redis.call('ZRANGE', pods, 0, -1)) do
    local version, roles, map = string.match(redis.call('HGET', served, pod) or '', '^(%d+)%z([^%z]*)%z(.*)$')
    if version and known[pod] == version then
        alive[#alive + 1] = { pod, version, '', '' }
    elseif version then
        alive[#alive + 1] = { pod, version, roles, map }
    end
end
return alive
