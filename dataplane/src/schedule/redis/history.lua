-- KEYS: the last of the schedule's, and who rebuilds. A server's history ends where it may have lost what it had
-- acknowledged: it gets a new replication id whenever it starts with what is on its disk, or is made the primary.
local STATE, REBUILDING = KEYS[1], KEYS[2]
local function id(section, field)
    return string.match(redis.call('INFO', section), field .. ':(%x+)')
end
-- Some managed servers do not tell.
local history = id('replication', 'master_replid') or id('server', 'run_id') or 'unknown'
