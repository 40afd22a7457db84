-- Checks whether the index is complete.
-- ARGV: the process, the number of the loss that it knows, and the number for a new loss. Returns 0: the index is complete; 1: the index is
-- not complete, and from now on the process may rebuild it; 2: the process may rebuild it already, and nothing was lost since.
if redis.call('HGET', STATE, 'built') == history then return 0 end
if redis.call('HGET', REBUILDING, ARGV[1]) == history .. '\0' .. ARGV[2] then return 2 end
redis.call('HSET', REBUILDING, ARGV[1], history .. '\0' .. ARGV[3])
return 1
