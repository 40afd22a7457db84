-- ARGV: the process. Answers 1 if the index is not known to be complete; the process is then one that may rebuild it.
if redis.call('HGET', STATE, 'built') == history then return 0 end
redis.call('HSET', REBUILDING, ARGV[1], history)
return 1
