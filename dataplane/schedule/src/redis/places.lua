-- Reads the places of a tenant and of some of its webhooks. Writes nothing.
-- Own: the tenant and the webhooks. Returns how many claims the tenant has and how many it may have, and of each webhook its claims, its
-- share, and whether the share was reduced (1 or 0).
local t, queues = own[1], {}
for i = 2, #own do queues[i - 1] = t .. '\0' .. own[i] end
load_queues(queues)
local of = {}
for i, q in ipairs(queues) do
    local p = pace(q)
    of[i] = { in_flight(q), p.share, (not p.quick and p.decreased > 0) and 1 or 0 }
end
local claims = limits_of(t)
return { in_flight(t), claims, of }
