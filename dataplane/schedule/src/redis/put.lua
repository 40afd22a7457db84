-- Adds entries, or moves them to another time.
-- Own: of each entry tenant, webhook, delivery, and the milliseconds until it is due. Returns the tenants of entries that were left out.
local keys = {}
for i = 1, #own, 4 do keys[#keys + 1] = own[i] .. '\0' .. own[i + 2] end
load(ENTRIES, keys)
for i = 1, #own, 4 do
    local t, w, id, due = own[i], own[i + 1], own[i + 2], now + own[i + 3]
    local key = t .. '\0' .. id
    local kind, was_w, was_due = read(key)
    if not kind then
        add(t, w, id, due)
    elseif kind == 'w' then
        -- An entry that is due keeps its place before entries that came later.
        local due_either_way = was_due <= now_text and due <= now
        local was = t .. '\0' .. was_w .. '\0' .. was_due .. '\0' .. id
        if was_w ~= w or not due_either_way then
            set(WAITING, was, false)
            touched[t .. '\0' .. was_w] = true
            wait(t, w, id, due)
        else
            -- Repairs the index, if the entry was missing in some keys.
            set(WAITING, was, 0)
            touched[t .. '\0' .. w] = true
        end
    elseif not call('ZSCORE', CLAIMS, key) then
        -- The claim would never expire.
        reset()
        add(t, w, id, due)
    end
end
finish_and_notify()
return names_of(full)
