-- Chooses the process that sweeps in an interval.
-- KEYS: the schedule's state. ARGV: the interval in milliseconds. Returns 1 if the process may sweep now; otherwise 0.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local swept = tonumber(redis.call('HGET', KEYS[1], 'swept') or 0)
-- A time in the future was written before the clock was set back.
if swept <= now and now < swept + ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'swept', string.format('%.0f', now))
return 1
