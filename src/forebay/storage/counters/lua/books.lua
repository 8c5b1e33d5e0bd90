-- The books of accounts and leases, as forebay.tenancy.reservation keeps them (counters, ledger).
-- KEYS[1] is the index of expiries; the keys of accounts and leases lie beside it, under the same hash tag: one node.
-- ARGV[1]: the time to live of a lease; ARGV[2]: the time, -1 for the server's own clock. Microseconds.

local MAX_NANOS = 9000000000000000
local MONTHS_KEPT = 3
local MAX_EXPIRED_AT_ONCE = 1000
local DAY_US = 86400000000
-- How much longer than it must an idle account is kept.
local SPARE_MS = 60000

local EXPIRIES = KEYS[1]
local ACCOUNTS = KEYS[1] .. ':account:'
local LEASES = KEYS[1] .. ':lease:'
local TTL = tonumber(ARGV[1])
local NOW = tonumber(ARGV[2])
if NOW < 0 then
  local time = redis.call('TIME')
  NOW = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

local function sent(index) return cmsgpack.unpack(ARGV[index]) end

-- The month of NOW (`2026-11`) and the microseconds until the next. The civil calendar by its 400-year cycle, the year
-- begun in March.
local function days_before(year, month)
  if month <= 2 then year = year - 1 end
  local era = math.floor(year / 400)
  local year_of_era = year - era * 400
  local day_of_year = math.floor((153 * ((month + 9) % 12) + 2) / 5)
  return era * 146097 + year_of_era * 365 + math.floor(year_of_era / 4) - math.floor(year_of_era / 100) + day_of_year - 719468
end

local function this_month()
  local days = divided(NOW, DAY_US) + 719468
  local era = math.floor(days / 146097)
  local day_of_era = days - era * 146097
  local year_of_era = math.floor(
    (day_of_era - math.floor(day_of_era / 1460) + math.floor(day_of_era / 36524) - math.floor(day_of_era / 146096)) / 365
  )
  local day_of_year = day_of_era - (365 * year_of_era + math.floor(year_of_era / 4) - math.floor(year_of_era / 100))
  local month = (math.floor((5 * day_of_year + 2) / 153) + 2) % 12 + 1
  local year = year_of_era + era * 400 + (month <= 2 and 1 or 0)
  local next_year, next_month = year, month + 1
  if next_month > 12 then next_year, next_month = year + 1, 1 end
  return string.format('%04d-%02d', year, month), days_before(next_year, next_month) * DAY_US - NOW
end

local function load_account(name)
  local packed = redis.call('GET', ACCOUNTS .. name)
  if packed then return cmsgpack.unpack(packed), true end
  return { outstanding = 0, concurrent = -1, budget = -1, months = {} }, false
end

-- How long an account is kept, in milliseconds; nil for good. What is idle expires by itself: when its buckets are full,
-- and after the month in which it has spent.
local function kept_ms(account)
  if account.outstanding > 0 then return nil end
  local idle_us = 0
  for _, bucket in pairs({ account.requests or false, account.tokens or false }) do
    local full_us = bucket and Bucket.full(bucket, NOW) or 0
    if full_us < 0 then return nil end
    idle_us = math.max(idle_us, full_us)
  end
  for _, spending in pairs(account.months) do
    if spending.spent > 0 then
      local _, left_us = this_month()
      idle_us = math.max(idle_us, left_us)
      break
    end
  end
  return string.format('%.0f', math.ceil(idle_us / 1000) + SPARE_MS)
end

local function save_account(name, account)
  local key, packed, ms = ACCOUNTS .. name, cmsgpack.pack(account), kept_ms(account)
  if ms then
    redis.call('SET', key, packed, 'PX', ms)
  else
    redis.call('SET', key, packed)
  end
end

local function request_bucket(account) return account.requests_limited and account.requests or nil end
local function token_bucket(account) return account.tokens_limited and account.tokens or nil end

local function month_spending(account, month)
  local months = account.months
  if months[month] then return months[month] end
  months[month] = { spent = 0, held = 0 }
  local names = {}
  for name in pairs(months) do names[#names + 1] = name end
  table.sort(names)
  for i = 1, #names - MONTHS_KEPT do
    if names[i] ~= month then months[names[i]] = nil end
  end
  return months[month]
end

local function hold_nanos(account, month, nanos)
  local spending = month_spending(account, month)
  spending.held = math.min(MAX_NANOS, spending.held + nanos)
end

local function spend(account, month, held, used)
  local spending = month_spending(account, month)
  spending.held = math.max(0, spending.held - held)
  spending.spent = math.min(MAX_NANOS, spending.spent + math.min(used, MAX_NANOS))
end

-- Where there is a budget.
local function budget_left(account, month)
  local spending = account.months[month]
  if not spending then return account.budget end
  return account.budget - (spending.spent + spending.held)
end

local function affordable(nanos, nanos_per_token, enough)
  if nanos < 0 then return -1 end
  if nanos_per_token == 0 then return enough end
  return divided(nanos, nanos_per_token)
end

-- A lease is { holds = { { account, request_take or false, { token_take, ... } or false }, ... }, takes, month, nanos,
-- per_token, seen = { tokens, nanos, counts } }.
local function load_lease(id)
  local packed = redis.call('GET', LEASES .. id)
  return packed and cmsgpack.unpack(packed)
end

local function save_lease(id, lease) redis.call('SET', LEASES .. id, cmsgpack.pack(lease)) end

local function live_on(id) redis.call('ZADD', EXPIRIES, string.format('%.0f', NOW + TTL), id) end

local function settle_tokens(bucket, numbers, takes, used)
  local unused = -used
  for i = 1, #takes do unused = unused + takes[i] end
  for i = #takes, 1, -1 do
    local part = math.min(math.max(unused, 0), takes[i])
    Bucket.give_back(bucket, numbers[i], part, NOW)
    unused = unused - part
  end
  if unused < 0 then Bucket.draw(bucket, -unused, NOW) end
end

local function settle(id, tokens, nanos, counts)
  local lease = load_lease(id)
  redis.call('ZREM', EXPIRIES, id)
  if not lease then return 0 end
  redis.call('DEL', LEASES .. id)
  if not counts then tokens, nanos = 0, 0 end
  for _, hold in ipairs(lease.holds) do
    local account = load_account(hold[1])
    account.outstanding = math.max(0, account.outstanding - 1)
    spend(account, lease.month, lease.nanos, nanos)
    if hold[2] and account.requests then
      Bucket.give_back(account.requests, hold[2], counts and 0 or 1, NOW)
    end
    if hold[3] and account.tokens then settle_tokens(account.tokens, hold[3], lease.takes, tokens) end
    save_account(hold[1], account)
  end
  return 1
end

local function sweep()
  local expired = redis.call(
    'ZRANGEBYSCORE', EXPIRIES, '-inf', string.format('%.0f', NOW), 'LIMIT', 0, MAX_EXPIRED_AT_ONCE
  )
  for _, id in ipairs(expired) do
    local lease = load_lease(id)
    if lease then
      settle(id, lease.seen[1], lease.seen[2], lease.seen[3])
    else
      redis.call('ZREM', EXPIRIES, id)
    end
  end
end
