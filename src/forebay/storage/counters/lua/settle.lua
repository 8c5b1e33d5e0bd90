-- ARGV[3]: { lease, tokens, nanos, counts }. Answers 1 where the lease was held, else 0.

local id, tokens, nanos, counts = unpack(sent(3))
sweep()
return settle(id, tokens, nanos, counts)
