-- ARGV[3]: { lease, output_tokens_min, output_tokens_max }. Answers with the output tokens granted.

local MAX_TAKES = 8

local id, least, most = unpack(sent(3))
sweep()
local lease = load_lease(id)
if not lease then return 0 end

local accounts, granted = {}, most
for index, hold in ipairs(lease.holds) do
  local account = load_account(hold[1])
  accounts[index] = account
  local bucket = hold[3] and token_bucket(account)
  local more = most
  if bucket then more = math.min(more, bucket.rate > 0 and Bucket.available(bucket, NOW) or 0) end
  if account.budget >= 0 then
    more = math.min(more, affordable(budget_left(account, lease.month), lease.per_token, more))
  end
  granted = math.min(granted, more)
end
if granted < math.max(1, least) then return 0 end

local joins = #lease.takes == MAX_TAKES
local nanos = math.min(granted * lease.per_token, MAX_NANOS - lease.nanos)
for index, hold in ipairs(lease.holds) do
  local account = accounts[index]
  hold_nanos(account, lease.month, nanos)
  if hold[3] and account.tokens then
    if joins then Bucket.give_back(account.tokens, table.remove(hold[3], 2), 0, NOW) end
    hold[3][#hold[3] + 1] = Bucket.take(account.tokens, granted, NOW)
  end
  save_account(hold[1], account)
end
lease.nanos = lease.nanos + nanos
if joins then lease.takes[1] = lease.takes[1] + table.remove(lease.takes, 2) end
lease.takes[#lease.takes + 1] = granted
save_lease(id, lease)
return granted
