-- Checks every scope, then writes all of it; a refusal writes nothing.
-- KEYS: hold, due, usage, epoch, scopes, then per scope: rate, conc, money
-- ARGV: rid, tokens, hold, lease_ms, month field, opened payload, then nine per scope:
--   scope, request cost_us, request tolerance_us, token cost_us, token tolerance_us,
--   tokens per minute, concurrency, budget, budget window ('' is none)
-- Returns {state, request level_us, token level_us, ...} (-1 is no limit)
--   or {'refused', scope number, dimension, wait_us} (-1: waiting does not help)

if not is_open(KEYS[4]) then
  return {'refused', 1, 'unprimed', -1}
end
local state = redis.call('HGET', KEYS[1], 'st')
local now = now_us()
local n = (#KEYS - 5) / 3
local reply = {state and (state == 'h' and 'held' or 'settled') or 'new'}
local rates, packed = {}, {}
local worst, dimension, wait = 0, '', 0

local function refuse(scope, what, us)
  if wait >= 0 and (us < 0 or worst == 0 or us > wait) then
    worst, dimension, wait = scope, what, us
  end
end

local function level(tat, cost)
  tat = tonumber(tat) or 0
  if tat < now then tat = now end
  if not state then tat = tat + cost end
  return tat
end

for i = 1, n do
  local k, a = 2 + 3 * i, 9 * i - 3
  local req_cost, tok_cost = tonumber(ARGV[a + 2]), tonumber(ARGV[a + 4])
  local req_tat, tok_tat, req_mark, tok_mark = nil, nil, '-', '-'
  if req_cost or tok_cost then
    local r = redis.call('HMGET', KEYS[k + 1], 'rq', 'tk', 'rr', 'tr')
    if req_cost then
      req_tat = level(r[1], req_cost)
      req_mark = int(req_tat + (tonumber(r[3]) or 0))
      local over = req_tat - now - ARGV[a + 3]
      if over > 0 then refuse(i, 'requests', over) end
    end
    if tok_cost then
      tok_tat = level(r[2], tok_cost)
      tok_mark = int(tok_tat + (tonumber(r[4]) or 0))
      local over = tok_tat - now - ARGV[a + 5]
      if over > 0 then refuse(i, 'tokens', over) end
    end
  end
  local concurrency, budget = tonumber(ARGV[a + 7]), tonumber(ARGV[a + 8])
  if concurrency and
     redis.call('ZCOUNT', KEYS[k + 2], int(now / 1000), '+inf') >= concurrency then
    refuse(i, 'concurrency', 0)
  end
  if budget then
    local m = redis.call('HMGET', KEYS[k + 3], 'held', ARGV[a + 9] == 'm' and ARGV[5] or 't')
    if (tonumber(m[1]) or 0) + (tonumber(m[2]) or 0) + ARGV[3] > budget then
      refuse(i, 'budget', -1)
    end
  end
  reply[2 * i] = req_tat and req_tat - now or -1
  reply[2 * i + 1] = tok_tat and tok_tat - now or -1
  rates[i] = {req_tat, tok_tat}
  packed[i] = table.concat({ARGV[a + 1], tok_cost and ARGV[a + 6] or '-', tok_mark,
    req_cost and ARGV[a + 2] or '-', req_mark, budget and ARGV[a + 8] or '-', ARGV[a + 9]}, ' ')
end

if state then return reply end
if worst > 0 then return {'refused', worst, dimension, wait} end

local due = int(now / 1000 + ARGV[4])
redis.call('XADD', KEYS[3], '*', 'k', 'reserved', 'r', ARGV[1], 'p', ARGV[6])
redis.call('HSET', KEYS[1], 'st', 'h', 'held', ARGV[3], 'n', ARGV[2], 'm', ARGV[5],
  's', table.concat(packed, ' '), 'o', ARGV[6])
redis.call('ZADD', KEYS[2], due, ARGV[1])
for i = 1, n do
  local k, r = 2 + 3 * i, rates[i]
  if r[1] and r[2] then
    redis.call('HSET', KEYS[k + 1], 'rq', int(r[1]), 'tk', int(r[2]))
  elseif r[1] then
    redis.call('HSET', KEYS[k + 1], 'rq', int(r[1]))
  elseif r[2] then
    redis.call('HSET', KEYS[k + 1], 'tk', int(r[2]))
  end
  redis.call('ZADD', KEYS[k + 2], due, ARGV[1])
  local held = redis.call('HINCRBY', KEYS[k + 3], 'held', ARGV[3])
  if held == tonumber(ARGV[3]) then
    redis.call('SADD', KEYS[5], ARGV[9 * i - 2])
  end
end
return reply
