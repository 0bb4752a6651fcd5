-- Checks every scope, then writes all of it; a refusal writes nothing.
-- KEYS: hold, done, due, usage, epoch, scopes, then per scope: scope, conc
-- ARGV: rid, tokens, hold, lease_ms, month field, opened payload, then nine per scope:
--   scope, request cost_us, request tolerance_us, token cost_us, token tolerance_us,
--   tokens per minute, concurrency, budget ('' is none), field the budget counts against
-- Returns {state, request level_us, token level_us, ...} (-1 is no limit)
--   or {'refused', scope number, dimension, wait_us} (-1: waiting does not help)

if not is_open(KEYS[5]) then
  return {'refused', 1, 'unprimed', -1}
end
local state
if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
  state = redis.call('EXISTS', KEYS[1]) == 1 and 'held' or 'settled'
end
local now = now_us()
local n = (#KEYS - 6) / 2
local reply, writes, packed = {state or 'new'}, {}, {}
local worst, dimension, wait = 0, '', 0

local function refuse(scope, what, us)
  if wait >= 0 and (us < 0 or worst == 0 or us > wait) then
    worst, dimension, wait = scope, what, us
  end
end

local function filled(tat, cost)
  tat = tonumber(tat) or 0
  if tat < now then tat = now end
  return state and tat or tat + cost
end

for i = 1, n do
  local k, a = 5 + 2 * i, 9 * i - 2
  local field = ARGV[a + 8]
  local s = redis.call('HMGET', KEYS[k], 'held', 'rq', 'tk', 'rr', 'tr', field)
  local write = {KEYS[k], 'held', int((s[1] or 0) + ARGV[3])}
  local req_mark, tok_mark, req_level, tok_level = '-', '-', -1, -1
  if ARGV[a + 1] ~= '' then
    local tat = filled(s[2], ARGV[a + 1])
    req_level, req_mark = tat - now, int(tat + (s[4] or 0))
    write[4], write[5] = 'rq', int(tat)
    local over = req_level - ARGV[a + 2]
    if over > 0 then refuse(i, 'requests', over) end
  end
  if ARGV[a + 3] ~= '' then
    local tat = filled(s[3], ARGV[a + 3])
    tok_level, tok_mark = tat - now, int(tat + (s[5] or 0))
    write[#write + 1] = 'tk'
    write[#write + 1] = int(tat)
    local over = tok_level - ARGV[a + 4]
    if over > 0 then refuse(i, 'tokens', over) end
  end
  if ARGV[a + 6] ~= '' and
     redis.call('ZCOUNT', KEYS[k + 1], int(now / 1000), '+inf') >= tonumber(ARGV[a + 6]) then
    refuse(i, 'concurrency', 0)
  end
  local budget = ARGV[a + 7]
  if budget == '' then
    budget = '-'
  elseif (s[1] or 0) + (s[6] or 0) + ARGV[3] > tonumber(budget) then
    refuse(i, 'budget', -1)
  end
  reply[2 * i], reply[2 * i + 1] = req_level, tok_level
  writes[i] = write
  packed[i] = ARGV[a] .. ' ' .. (tok_mark == '-' and '-' or ARGV[a + 5]) .. ' ' .. tok_mark .. ' ' ..
    (req_mark == '-' and '-' or ARGV[a + 1]) .. ' ' .. req_mark .. ' ' .. budget .. ' ' .. field
  if not s[1] and not state then writes[i].new = true end
end

if state then return reply end
if worst > 0 then return {'refused', worst, dimension, wait} end

local due = int(now / 1000 + ARGV[4])
redis.call('XADD', KEYS[4], '*', 'k', 'reserved', 'r', ARGV[1], 'p', ARGV[6])
redis.call('HSET', KEYS[1], 'held', ARGV[3], 'n', ARGV[2], 'm', ARGV[5],
  's', table.concat(packed, ' '), 'o', ARGV[6])
redis.call('ZADD', KEYS[3], due, ARGV[1])
for i = 1, n do
  redis.call('HSET', unpack(writes[i]))
  redis.call('ZADD', KEYS[6 + 2 * i], due, ARGV[1])
  if writes[i].new then redis.call('SADD', KEYS[6], ARGV[9 * i - 2]) end
end
return reply
