-- Finds claims of earlier incarnations of this process.
-- Own: a cursor ('0': the first call), and 1 to make these claims due. Returns the cursor of the next call ('0': this was the last), and
-- the tenants of the claims.
local found = call('ZSCAN', CLAIMS, own[1], 'COUNT', AT_ONCE)
local keys, tenants = {}, {}
for i = 1, #found[2], 2 do keys[#keys + 1] = found[2][i] end
load(ENTRIES, keys)
for _, key in ipairs(keys) do
    if read(key) == 'c' then
        local of_incarnation, of_process = string.match(get(ENTRIES, key), '^c%z[^%z]*%z%d+%z([^%z]*)%z(.*)$')
        if of_process == process and of_incarnation ~= incarnation then
            tenants[#tenants + 1] = tenant_of(key)
            -- The next transition ends the claim, because it has expired now.
            if own[2] == '1' then set(CLAIMS, key, number(now)) end
        end
    end
end
finish_and_notify()
return { found[1], tenants }
