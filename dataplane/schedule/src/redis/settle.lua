-- ARGV from 4: tenant, delivery, fence, milliseconds until it is due again ('': it is removed).
local before = next_due()
for i = 4, #ARGV, 4 do
    local key = ARGV[i] .. '\0' .. ARGV[i + 1]
    local kind, w, fence = read(key)
    if kind == 'c' and fence == ARGV[i + 2] then
        end_claim(key, w, ARGV[i + 3] ~= '' and now + ARGV[i + 3] or nil)
    end
end
settle_queues()
notify(before)
