-- Ends claims, and changes the shares of their webhooks.
-- Own: of each claim tenant, delivery, fence, the milliseconds until the entry is due again ('': it is removed), and how many milliseconds
-- the attempt took ('': there was none). Returns 1 if an entry is due, or due earlier, otherwise 0; and how many shares grew and shrank.
local longest = {}
for _, claim in ipairs(named_claims(1, 5)) do
    local again, held = own[claim.at + 3], own[claim.at + 4]
    end_claim(claim.key, claim.w, again ~= '' and now + again or nil)
    if held ~= '' then longest[claim.q] = math.max(longest[claim.q] or 0, held) end
end
for q, held in pairs(longest) do ended_after(q, held) end
return { finish_and_notify(), grown, shrunk }
