-- ARGV: for how many milliseconds a pod counts, and a role. Returns how many pods that are alive have it.
local pods, roles = KEYS[1], KEYS[3]
local time = redis.call('TIME')
local oldest = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[1])
local count = 0
for _, pod in ipairs(redis.call('ZRANGEBYSCORE', pods, oldest, '+inf')) do
    if string.find(' ' .. (redis.call('HGET', roles, pod) or '') .. ' ', ' ' .. ARGV[2] .. ' ', 1, true) then
        count = count + 1
    end
end
return count
