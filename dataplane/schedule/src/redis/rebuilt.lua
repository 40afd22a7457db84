-- ARGV: the process, and the number of the loss that it knows. If its mark is there, the process began in this history and
-- Redis has lost nothing since.
if redis.call('HGET', REBUILDING, ARGV[1]) == history .. '\0' .. ARGV[2] then
    redis.call('HSET', STATE, 'built', history)
    redis.call('DEL', REBUILDING)
end
