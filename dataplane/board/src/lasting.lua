-- ARGV: after how many milliseconds at a limit a tenant counts. Returns tenant and limit of each that counts.
local counts = {}
for _, member in ipairs(redis.call('ZRANGE', last, 0, -1)) do
    if now - tonumber(redis.call('HGET', since, member) or now) >= tonumber(ARGV[1]) then
        counts[#counts + 1] = member
    end
end
return counts
