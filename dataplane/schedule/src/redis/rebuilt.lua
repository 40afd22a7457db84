-- ARGV: the process, and its number of the loss. It began in this history, and Redis has lost nothing since, or its mark
-- were gone as well.
if redis.call('HGET', REBUILDING, ARGV[1]) == history .. '\0' .. ARGV[2] then
    redis.call('HSET', STATE, 'built', history)
    redis.call('DEL', REBUILDING)
end
