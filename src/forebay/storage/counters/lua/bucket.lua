-- The token bucket of forebay.tenancy.reservation.bucket, step for step: see there for what it does and why.
-- Numbers are doubles; everything that is kept stays below 2^53, where they are exact. A product that would pass 2^53
-- (rate x elapsed) is only ever compared with something below it, and rounding keeps that order.

local UNIT = 60000000
local MAX_TOKENS = 100000000
local MAX_DEBT_TOKENS = 150000000
local MAX_DRAWN = MAX_DEBT_TOKENS * UNIT
local MAX_LOWS = 64

-- Largest whole number not above a / b, exactly (math.floor(a / b) may round up to the next); b > 0.
local function divided(a, b)
  local rest = math.fmod(a, b)
  if rest < 0 then rest = rest + b end
  return (a - rest) / b
end

local Bucket = {}

function Bucket.new(rate, burst, now)
  return { rate = rate, burst = burst, at = now, drawn = 0, seq = 0, fresh = 0, lows = {} }
end

function Bucket.drawn_at(b, now)
  return math.max(0, b.drawn - b.rate * math.max(0, now - b.at))
end

function Bucket.available(b, now)
  return divided(b.burst * UNIT - Bucket.drawn_at(b, now), UNIT)
end

local function until_drawn(b, most, now)
  if Bucket.drawn_at(b, now) <= most then return 0 end
  return b.at - divided(most - b.drawn, b.rate) - now
end

-- Microseconds, -1 for never.
function Bucket.wait(b, tokens, now)
  if tokens > b.burst or b.rate == 0 then return -1 end
  return until_drawn(b, (b.burst - tokens) * UNIT, now)
end

-- Microseconds, -1 for never.
function Bucket.full(b, now)
  if b.rate == 0 and b.drawn > 0 then return -1 end
  return until_drawn(b, 0, now)
end

local function flow(b, now)
  if now > b.at then
    b.drawn = Bucket.drawn_at(b, now)
    b.at = now
  end
end

-- True where they differ from what they were.
function Bucket.set_limits(b, rate, burst, now)
  if rate == b.rate and burst == b.burst then return false end
  if rate ~= b.rate then
    flow(b, now)
    b.rate = rate
  end
  b.burst = burst
  return true
end

local function merge_nearest(lows)
  local index, least = 1, lows[2].drawn - lows[1].drawn
  for i = 2, #lows - 1 do
    local gap = lows[i + 1].drawn - lows[i].drawn
    if gap < least then index, least = i, gap end
  end
  local earlier = table.remove(lows, index)
  lows[index].drawn = earlier.drawn
  lows[index].leases = lows[index].leases + earlier.leases
end

local function note_low(b)
  b.seq = b.seq + 1
  local leases, lows = b.fresh, b.lows
  b.fresh = 0
  while #lows > 0 and lows[#lows].drawn >= b.drawn do
    leases = leases + table.remove(lows).leases
  end
  if leases > 0 then lows[#lows + 1] = { seq = b.seq, drawn = b.drawn, leases = leases } end
  if #lows > MAX_LOWS then merge_nearest(lows) end
end

function Bucket.draw(b, tokens, now)
  flow(b, now)
  note_low(b)
  local more = math.min(tokens, MAX_DEBT_TOKENS) * UNIT
  if more > MAX_DRAWN - b.drawn then b.drawn = MAX_DRAWN else b.drawn = b.drawn + more end
end

function Bucket.take(b, tokens, now)
  Bucket.draw(b, tokens, now)
  b.fresh = b.fresh + 1
  return b.seq
end

function Bucket.give_back(b, seq, tokens, now)
  flow(b, now)
  local lows, first = b.lows, nil
  for i = 1, #lows do
    if lows[i].seq > seq then
      first = i
      break
    end
  end
  local least = b.drawn
  if first then least = math.min(least, lows[first].drawn) end
  local back = math.min(math.min(tokens, MAX_DEBT_TOKENS) * UNIT, least)
  b.drawn = b.drawn - back
  if not first then
    b.fresh = math.max(0, b.fresh - 1)
    return
  end
  for i = first, #lows do lows[i].drawn = lows[i].drawn - back end
  while first > 1 and lows[first - 1].drawn >= lows[first].drawn do
    lows[first].leases = lows[first].leases + lows[first - 1].leases
    first = first - 1
    table.remove(lows, first)
  end
  lows[first].leases = lows[first].leases - 1
  if lows[first].leases == 0 then table.remove(lows, first) end
end
