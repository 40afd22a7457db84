-- Finds the server's history, which ends when the server may have lost writes that it had acknowledged: it gets a new replication id
-- whenever it starts from its disk or becomes the primary.
-- KEYS: the schedule's state, and the processes that rebuild.
local STATE, REBUILDING = KEYS[1], KEYS[2]
local function id(section, field)
    local info = redis.pcall('INFO', section)
    return type(info) == 'string' and string.match(info, field .. ':(%x+)') or nil
end
-- Some managed servers do not report the id, and some users may not read it. Then a loss is found only if the server was emptied.
local history = id('replication', 'master_replid') or id('server', 'run_id') or 'unknown'
