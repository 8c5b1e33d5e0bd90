-- KEYS[1]: the repeat's key. ARGV: the first request, seconds to live.

redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
