-- ARGV from 4: tenant, webhook, delivery, milliseconds to wait.
local before = next_due()
for i = 4, #ARGV, 4 do
    local t, w, id, due = ARGV[i], ARGV[i + 1], ARGV[i + 2], now + ARGV[i + 3]
    local key = t .. '\0' .. id
    local kind, was_w, was_due = read(key)
    if not kind then
        wait(t, w, id, due)
    elseif kind == 'w' then
        -- What is due already keeps its place before what came later.
        local due_either_way = tonumber(was_due) <= now and due <= now
        local waiting = t .. '\0' .. was_w .. '\0' .. was_due .. '\0' .. id
        if was_w ~= w or not due_either_way then
            call('ZREM', WAITING, waiting)
            touch(t .. '\0' .. was_w)
            wait(t, w, id, due)
        else
            -- Repairs the index, wherever the entry was missing.
            call('ZADD', WAITING, 0, waiting)
            touch(t .. '\0' .. w)
        end
    elseif not call('ZSCORE', CLAIMS, key) then
        -- A claim that never expires.
        reset()
        wait(t, w, id, due)
    end
end
settle_queues()
notify(before)
