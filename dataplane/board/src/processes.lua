-- ARGV: for how many milliseconds a pod counts as alive; then roles. Returns the number of live pods with one of these roles.
local pods, served, roles = KEYS[1], KEYS[2], KEYS[3]
local time = redis.call('TIME')
local oldest = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[1])
-- Without an operator, only this script removes dead pods.
for _, pod in ipairs(redis.call('ZRANGEBYSCORE', pods, '-inf', '(' .. oldest)) do
    redis.call('ZREM', pods, pod)
    redis.call('HDEL', served, pod)
    redis.call('HDEL', roles, pod)
end
local count = 0
for _, pod in ipairs(redis.call('ZRANGE', pods, 0, -1)) do
    local own = ' ' .. (redis.call('HGET', roles, pod) or '') .. ' '
    for i = 2, #ARGV do
        if string.find(own, ' ' .. ARGV[i] .. ' ', 1, true) then
            count = count + 1
            break
        end
    end
end
return count
