-- Own: tenant, claims at once, entries.
local tenants = {}
for i = 1, #own, 3 do tenants[#tenants + 1] = own[i] end
load(LIMITS, tenants)
for i = 1, #own, 3 do
    local t, claims, entries = own[i], tonumber(own[i + 1]), tonumber(own[i + 2])
    local is_usual = claims == per_tenant and entries == most_entries
    local limits = not is_usual and own[i + 1] .. ' ' .. own[i + 2]
    if get(LIMITS, t) ~= limits then
        set(LIMITS, t, limits)
        -- It may have been at the lower limit.
        touched_tenants[t] = true
    end
end
return finish_and_notify()
