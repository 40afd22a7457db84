-- Marks the index complete, if Redis has lost nothing since the process began to rebuild it: then the mark of lost.lua is still there.
-- ARGV: the process, and the number of the loss that it knows.
if redis.call('HGET', REBUILDING, ARGV[1]) == history .. '\0' .. ARGV[2] then
    redis.call('HSET', STATE, 'built', history)
    redis.call('DEL', REBUILDING)
end
