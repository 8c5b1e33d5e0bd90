-- ARGV[3]: { lease, prompt_tokens, output_tokens_min, output_tokens_max, prompt_nanos, nanos_per_output_token,
-- { limits of an account, ... } }, as `adopt_all` takes them.
-- Answers { 1, output_tokens, standing of requests (3), of tokens (3) }, or { 0, kind, index of the account, limit,
-- available, wait or -1, never, standings (6) }.

local REQUESTS, TOKENS, CONCURRENCY, BUDGET = 0, 1, 2, 3
local LONGEST_RESET = 31536000000000

local id, prompt, least, most, prompt_nanos, per_token, asked_accounts = unpack(sent(3))
local month, month_left = this_month()

local worst = nil

local function short(kind, index, limit, available, wait, never)
  if not worst or (never and not worst.never) or (never == worst.never and wait > worst.wait) then
    worst = { kind = kind, index = index, limit = limit, available = available, wait = wait, never = never }
  end
end

local function check_bucket(kind, index, bucket, asked)
  local available = Bucket.available(bucket, NOW)
  if asked > available or bucket.rate == 0 then
    local wait = Bucket.wait(bucket, asked, NOW)
    local limit = bucket.rate > 0 and bucket.burst or 0
    short(kind, index, limit, math.max(0, math.min(available, limit)), wait, wait < 0)
  end
end

-- Finds what is short; otherwise the output tokens that the account covers.
local function check(index, account)
  local covered = most
  if request_bucket(account) then check_bucket(REQUESTS, index, account.requests, 1) end
  if token_bucket(account) then
    check_bucket(TOKENS, index, account.tokens, prompt + least)
    covered = math.min(covered, Bucket.available(account.tokens, NOW) - prompt)
  end
  if account.concurrent >= 0 and account.outstanding >= account.concurrent then
    short(CONCURRENCY, index, account.concurrent, 0, -1, account.concurrent == 0)
  end
  if account.budget >= 0 then
    local left = budget_left(account, month)
    local asked = prompt_nanos + least * per_token
    if asked > left then
      local never = asked > account.budget
      short(BUDGET, index, account.budget, math.max(0, left), never and -1 or month_left, never)
    end
    covered = math.min(covered, affordable(left - prompt_nanos, per_token, covered))
  end
  return covered
end

local function add_standing(answer, accounts, bucket_of)
  local least_bucket, remaining = nil, nil
  for _, account in ipairs(accounts) do
    local bucket = bucket_of(account)
    if bucket then
      local available = Bucket.available(bucket, NOW)
      if not least_bucket or available < remaining then least_bucket, remaining = bucket, available end
    end
  end
  if not least_bucket then
    answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = -1, 0, 0
    return
  end
  local full = Bucket.full(least_bucket, NOW)
  if full < 0 then full = LONGEST_RESET end
  local size = #answer
  answer[size + 1], answer[size + 2], answer[size + 3] =
    least_bucket.burst, math.max(0, remaining), math.min(full, LONGEST_RESET)
end

local function take(account, granted, nanos)
  account.outstanding = account.outstanding + 1
  hold_nanos(account, month, nanos)
  local requests, tokens = request_bucket(account), token_bucket(account)
  return requests and Bucket.take(requests, 1, NOW) or false,
    tokens and { Bucket.take(tokens, prompt + granted, NOW) } or false
end

sweep()
settle(id, 0, 0, false)
local accounts, granted = {}, most
for index, limits in ipairs(asked_accounts) do
  local account, known = load_account(limits[1])
  if adopt_all(account, limits) and known then save_account(limits[1], account) end
  accounts[index] = account
  granted = math.min(granted, check(index, account))
end

local answer
if worst then
  answer = { 0, worst.kind, worst.index - 1, worst.limit, worst.available, worst.wait, worst.never and 1 or 0 }
else
  local nanos = math.min(MAX_NANOS, prompt_nanos + granted * per_token)
  local holds = {}
  for index, account in ipairs(accounts) do
    local name = asked_accounts[index][1]
    local request_take, token_takes = take(account, granted, nanos)
    holds[index] = { name, request_take, token_takes }
    save_account(name, account)
  end
  save_lease(id, {
    holds = holds,
    takes = { prompt + granted },
    month = month,
    nanos = nanos,
    per_token = per_token,
    seen = { 0, 0 },
    charged = { 0, 0 },
  })
  live_on(id)
  answer = { 1, granted }
end
add_standing(answer, accounts, request_bucket)
add_standing(answer, accounts, token_bucket)
return answer
