-- KEYS[1]: the repeat's key. ARGV: the first request, seconds to live. Answers with what is there, or false.

local known = redis.call('GET', KEYS[1])
if not known then
  redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
end
return known
