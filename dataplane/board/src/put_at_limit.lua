-- ARGV: tenant and limit of each entry.
for _, member in ipairs(ARGV) do
    redis.call('HSETNX', since, member, number(now))
    redis.call('ZADD', last, number(now), member)
end
