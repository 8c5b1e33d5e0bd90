-- KEYS[1]: the repeat's key.

return redis.call('DEL', KEYS[1])
