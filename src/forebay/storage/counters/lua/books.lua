-- The books of accounts and leases, as forebay.tenancy.reservation keeps them (counters, ledger).
-- KEYS[1] is the index of expiries; the keys of accounts and leases lie beside it, under the same hash tag: one node.
-- ARGV[1]: the time to live of a lease; ARGV[2]: the time, -1 for the server's own clock. Microseconds.

local MAX_NANOS = 9000000000000000
local MONTHS_KEPT = 3
local MAX_EXPIRED_AT_ONCE = 1000
local DAY_US = 86400000000
local LAPSED_TTLS = 20
local MAX_LAPSED = 10000

local EXPIRIES = KEYS[1]
local ACCOUNTS = KEYS[1] .. ':account:'
local LEASES = KEYS[1] .. ':lease:'
local LAPSED = KEYS[1] .. ':lapsed:'
local FORGETTINGS = KEYS[1] .. ':forgettings'
local TTL = tonumber(ARGV[1])
local NOW = tonumber(ARGV[2])
-- How much longer than it must an idle account is kept: so long that none is forgotten which a lease that has expired,
-- and is remembered, is under.
local SPARE_MS = 60000 + math.ceil(LAPSED_TTLS * TTL / 1000)
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

-- True where they differ from what they were.
local function adopt(account, field, rate, burst)
  local limited = rate >= 0
  local changed = (account[field .. '_limited'] or false) ~= limited
  account[field .. '_limited'] = limited
  if not limited then return changed end
  rate = math.min(rate, MAX_TOKENS)
  burst = burst < 0 and rate or math.min(burst, MAX_TOKENS)
  if not account[field] then
    account[field] = Bucket.new(rate, burst, NOW)
    return true
  end
  return Bucket.set_limits(account[field], rate, burst, NOW) or changed
end

-- Go on under these limits: { account, tokens_per_minute, token_burst, requests_per_minute, request_burst, concurrent,
-- budget }, a limit that is not there being -1. True where they differ from what they were.
local function adopt_all(account, limits)
  local budget = math.min(limits[7], MAX_NANOS)
  local changed = account.concurrent ~= limits[6] or account.budget ~= budget
  account.concurrent, account.budget = limits[6], budget
  local tokens = adopt(account, 'tokens', limits[2], limits[3])
  local requests = adopt(account, 'requests', limits[4], limits[5])
  return changed or tokens or requests
end

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
-- per_token, seen = { tokens, nanos }, charged = { tokens, nanos } }; one that has expired has covered = { tokens, nanos }
-- besides, and lies under another key.
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

-- What it has used, beyond what was charged before; the rest of what it holds is given back.
local function charge(lease, tokens, nanos, requests_unused, slots)
  local tokens_due = math.max(0, tokens - lease.charged[1])
  local nanos_due = math.max(0, nanos - lease.charged[2])
  for _, hold in ipairs(lease.holds) do
    local account = load_account(hold[1])
    account.outstanding = math.max(0, account.outstanding - slots)
    spend(account, lease.month, lease.nanos, nanos_due)
    if hold[2] and account.requests then Bucket.give_back(account.requests, hold[2], requests_unused, NOW) end
    if hold[3] and account.tokens then settle_tokens(account.tokens, hold[3], lease.takes, tokens_due) end
    save_account(hold[1], account)
  end
end

local function load_lapsed(id)
  local packed = redis.call('GET', LAPSED .. id)
  return packed and cmsgpack.unpack(packed)
end

local function forget(id)
  redis.call('DEL', LAPSED .. id)
  redis.call('ZREM', FORGETTINGS, id)
end

local function settle(id, tokens, nanos, counts)
  local lease, slots = load_lease(id), 1
  redis.call('ZREM', EXPIRIES, id)
  if lease then
    redis.call('DEL', LEASES .. id)
  else
    lease, slots = load_lapsed(id), 0
    if not lease then return 0 end
    forget(id)
  end
  if not counts then tokens, nanos = 0, 0 end
  charge(lease, tokens, nanos, counts and 0 or 1, slots)
  return 1
end

local function lapse(id, lease)
  local seen, charged, held = lease.seen, lease.charged, 0
  redis.call('ZREM', EXPIRIES, id)
  redis.call('DEL', LEASES .. id)
  charge(lease, seen[1], seen[2], 0, 1)
  for i = 1, #lease.takes do held = held + lease.takes[i] end
  lease.covered = { charged[1] + held, math.min(MAX_NANOS, charged[2] + lease.nanos) }
  lease.charged = { math.max(charged[1], seen[1]), math.max(charged[2], seen[2]) }
  lease.takes, lease.nanos = {}, 0
  for _, hold in ipairs(lease.holds) do
    hold[2] = false
    hold[3] = hold[3] and {}
  end
  redis.call('SET', LAPSED .. id, cmsgpack.pack(lease))
  redis.call('ZADD', FORGETTINGS, string.format('%.0f', NOW + LAPSED_TTLS * TTL), id)
  while redis.call('ZCARD', FORGETTINGS) > MAX_LAPSED do
    forget(redis.call('ZRANGE', FORGETTINGS, 0, 0)[1])
  end
end

-- A lease that has expired holds again what it held, or has used if that is more, whether it is there or not. Nil where
-- there is no such lease.
local function take_up(id, tokens, nanos)
  local lease = load_lapsed(id)
  if not lease then return nil end
  forget(id)
  local more = math.max(0, math.max(lease.covered[1], tokens) - lease.charged[1])
  lease.nanos = math.max(0, math.max(lease.covered[2], nanos) - lease.charged[2])
  lease.takes, lease.covered = { more }, nil
  for _, hold in ipairs(lease.holds) do
    local account = load_account(hold[1])
    account.outstanding = account.outstanding + 1
    hold_nanos(account, lease.month, lease.nanos)
    hold[3] = hold[3] and account.tokens and { Bucket.take(account.tokens, more, NOW) } or false
    save_account(hold[1], account)
  end
  save_lease(id, lease)
  live_on(id)
  return lease
end

local function due(index)
  return redis.call('ZRANGEBYSCORE', index, '-inf', string.format('%.0f', NOW), 'LIMIT', 0, MAX_EXPIRED_AT_ONCE)
end

local function sweep()
  for _, id in ipairs(due(EXPIRIES)) do
    local lease = load_lease(id)
    if lease then
      lapse(id, lease)
    else
      redis.call('ZREM', EXPIRIES, id)
    end
  end
  for _, id in ipairs(due(FORGETTINGS)) do forget(id) end
end
