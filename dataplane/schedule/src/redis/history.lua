-- KEYS: the schedule's state, and the processes that rebuild. A server's history ends where it may have lost what it had
-- acknowledged: it gets a new replication id whenever it starts from its disk or is made the primary.
local STATE, REBUILDING = KEYS[1], KEYS[2]
local function id(section, field)
    local info = redis.pcall('INFO', section)
    return type(info) == 'string' and string.match(info, field .. ':(%x+)') or nil
end
-- Some managed servers do not report it, and not every user may ask: then only an emptied server is known to have lost
-- something.
local history = id('replication', 'master_replid') or id('server', 'run_id') or 'unknown'
