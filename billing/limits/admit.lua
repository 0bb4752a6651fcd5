-- Checks every scope, then writes all of it; a refusal writes nothing.
-- KEYS: hold, done, due, usage, epoch, scopes, then per scope: scope, conc
-- ARGV: rid, tokens, hold, lease_ms, month field, opened payload, packed scopes, then eight per
--   scope: scope, request cost_us, request tolerance_us, token cost_us, token tolerance_us,
--   concurrency, budget ('' is none), field the budget counts against
-- Returns {state, request level_us, token level_us, ...} (-1 is no limit)
--   or {'refused', scope number, dimension, wait_us} (-1: waiting does not help)

if not is_open(KEYS[5]) then
  return {'refused', 1, 'unprimed', -1}
end
local state
if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
  state = redis.call('EXISTS', KEYS[1]) == 1 and 'held' or 'settled'
end
local now, hold = now_us(), tonumber(ARGV[3])
local n = (#KEYS - 6) / 2
local reply, held, rq, tk, marks = {state or 'new'}, {}, {}, {}, {}
local worst, dimension, wait = 0, '', 0

local function refuse(scope, what, us)
  if wait >= 0 and (us < 0 or worst == 0 or us > wait) then
    worst, dimension, wait = scope, what, us
  end
end

-- Returns when the bucket will be empty (as text), its level, and the call's mark.
local function fill(tat, refunded, cost)
  tat = tonumber(tat) or 0
  if tat < now then tat = now end
  if not state then tat = tat + cost end
  local text = int(tat)
  return text, tat - now, (refunded or '0') == '0' and text or int(tat + refunded)
end

for i = 1, n do
  local k, a = 5 + 2 * i, 8 * i
  local s = redis.call('HMGET', KEYS[k], 'held', 'rq', 'tk', 'rr', 'tr', ARGV[a + 7])
  local held_now = tonumber(s[1]) or 0
  held[i], rq[i], tk[i] = int(held_now + hold), s[2] or '0', s[3] or '0'
  reply[2 * i], reply[2 * i + 1], marks[2 * i - 1], marks[2 * i] = -1, -1, '0', '0'
  if ARGV[a + 1] ~= '' then
    rq[i], reply[2 * i], marks[2 * i] = fill(s[2], s[4], ARGV[a + 1])
    local over = reply[2 * i] - ARGV[a + 2]
    if over > 0 then refuse(i, 'requests', over) end
  end
  if ARGV[a + 3] ~= '' then
    tk[i], reply[2 * i + 1], marks[2 * i - 1] = fill(s[3], s[5], ARGV[a + 3])
    local over = reply[2 * i + 1] - ARGV[a + 4]
    if over > 0 then refuse(i, 'tokens', over) end
  end
  if ARGV[a + 5] ~= '' and
     redis.call('ZCOUNT', KEYS[k + 1], int(now / 1000), '+inf') >= tonumber(ARGV[a + 5]) then
    refuse(i, 'concurrency', 0)
  end
  if ARGV[a + 6] ~= '' and held_now + (s[6] or 0) + hold > tonumber(ARGV[a + 6]) then
    refuse(i, 'budget', -1)
  end
end

if state then return reply end
if worst > 0 then return {'refused', worst, dimension, wait} end

local due = int(now / 1000 + ARGV[4])
redis.call('XADD', KEYS[4], '*', 'k', 'reserved', 'r', ARGV[1], 'p', ARGV[6])
redis.call('HSET', KEYS[1], 'held', ARGV[3], 'n', ARGV[2], 'm', ARGV[5], 's', ARGV[7],
  'k', table.concat(marks, ' '), 'o', ARGV[6])
redis.call('ZADD', KEYS[3], due, ARGV[1])
for i = 1, n do
  if redis.call('HSET', KEYS[5 + 2 * i], 'held', held[i], 'rq', rq[i], 'tk', tk[i]) > 0 then
    redis.call('SADD', KEYS[6], ARGV[8 * i])
  end
  redis.call('ZADD', KEYS[6 + 2 * i], due, ARGV[1])
end
return reply
