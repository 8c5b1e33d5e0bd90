-- ARGV[3]: { account, ... }. Answers with the number of leases of each.

sweep()
local counts = {}
for index, name in ipairs(sent(3)) do
  counts[index] = load_account(name).outstanding
end
return counts
