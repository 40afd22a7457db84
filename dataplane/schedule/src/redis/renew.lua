-- ARGV from 4: the lease in milliseconds; then tenant, delivery, fence.
local lease = tonumber(ARGV[4])
for i = 5, #ARGV, 3 do
    local key = ARGV[i] .. '\0' .. ARGV[i + 1]
    local kind, _, fence = read(key)
    if kind == 'c' and fence == ARGV[i + 2] then call('ZADD', CLAIMS, number(now + lease), key) end
end
