-- ARGV[3]: { lease, output_tokens_min, output_tokens_max, { limits of an account, ... } }, as `adopt_all` takes them.
-- Answers with the output tokens granted.

local MAX_TAKES = 8

local id, least, most, named = unpack(sent(3))
sweep()
local lease = load_lease(id) or take_up(id, 0, 0)
if not lease then return 0 end

local limits_of = {}
for _, limits in ipairs(named) do limits_of[limits[1]] = limits end

local function more(hold, account)
  local covered = most
  local bucket = hold[3] and token_bucket(account)
  if bucket then covered = math.min(covered, bucket.rate > 0 and Bucket.available(bucket, NOW) or 0) end
  if account.budget >= 0 then
    covered = math.min(covered, affordable(budget_left(account, lease.month), lease.per_token, covered))
  end
  return covered
end

local accounts, granted = {}, most
for index, hold in ipairs(lease.holds) do
  local account = load_account(hold[1])
  accounts[index] = account
  local limits = limits_of[hold[1]]
  if limits then
    if adopt_all(account, limits) then save_account(hold[1], account) end
    granted = math.min(granted, more(hold, account))
  end
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
