-- ARGV: the process, the number of the loss that it heard of last, and that of the next one. Answers 0: the index is known
-- to be complete; 1: it is not, and the process is from now on one that may rebuild it; 2: it is one already, and nothing
-- was lost since.
if redis.call('HGET', STATE, 'built') == history then return 0 end
if redis.call('HGET', REBUILDING, ARGV[1]) == history .. '\0' .. ARGV[2] then return 2 end
redis.call('HSET', REBUILDING, ARGV[1], history .. '\0' .. ARGV[3])
return 1
