-- Sets the limits of tenants.
-- Own: of each tenant its uid, the largest number of claims, and the largest number of entries. Returns 1 if an entry is due, or due earlier;
-- otherwise 0.
local tenants = {}
for i = 1, #own, 3 do tenants[#tenants + 1] = own[i] end
load(LIMITS, tenants)
for i = 1, #own, 3 do
    local t, claims, entries = own[i], tonumber(own[i + 1]), tonumber(own[i + 2])
    local is_usual = claims == per_tenant and entries == most_entries
    local limits = not is_usual and own[i + 1] .. ' ' .. own[i + 2]
    if get(LIMITS, t) ~= limits then
        set(LIMITS, t, limits)
        -- The tenant may have been at its lower limit.
        touched_tenants[t] = true
    end
end
return finish_and_notify()
