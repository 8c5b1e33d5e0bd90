-- ARGV[3]: { account, month, nanos }.

local name, month, nanos = unpack(sent(3))
local account = load_account(name)
local spending = month_spending(account, month)
spending.spent = math.max(spending.spent, math.min(nanos, MAX_NANOS))
save_account(name, account)
return 0
