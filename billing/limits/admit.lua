-- Checks every scope, then writes all of it; a refusal writes nothing (but see lapsed.lua).
-- KEYS: due, usage, scopes, epoch, lapsed, call, then every scope
-- ARGV: rid, tokens, hold, lease_ms, month, limits and names of the scopes, opened payload, key
--   prefix
-- Returns state (n new, h held, s settled) and LEVELS of every scope, in one string because Redis
--   makes that for less than a table, or {scope number, dimension, wait_us} of a refusal (-1:
--   waiting does not help)

local found = redis.call('MGET', unpack(KEYS, 4))
if not is_open(found[1]) then
  return {1, 'unprimed', -1}
end
local call = found[3]
local state = call and (string.sub(call, 1, 1) == 'h' and 'h' or 's')
local now, hold, month = now_us(), tonumber(ARGV[3]), tonumber(ARGV[5])
local n = #KEYS - 6
local reply, marks, write = state or 'n', '', {KEYS[6], ''}
local worst, dimension, wait, lapsed = 0, '', 0, nil

local function refuse(scope, what, us)
  if wait >= 0 and (us < 0 or worst == 0 or us > wait) then
    worst, dimension, wait = scope, what, us
  end
end

local function name(scope)
  return string.sub(KEYS[6 + scope], #ARGV[9] + 7)
end

for i = 1, n do
  local held, running, high, low, latest, month_high, month_low, rq, rr, tk, tr =
    struct.unpack(SCOPE, found[3 + i] or NEW)
  local request_us, request_tolerance_us, token_us, token_tolerance_us, slots, budget, _, monthly =
    struct.unpack(LIMITS, ARGV[6], LIMITS_SIZE * (i - 1) + 1)
  local request_level, token_level, request_mark, token_mark = -1, -1, 0, 0
  if request_us >= 0 then
    if rq < now then rq = now end
    if not state then rq = rq + request_us end
    request_level, request_mark = rq - now, rq + rr
    local over = request_level - request_tolerance_us
    if over > 0 then refuse(i, 'requests', over) end
  end
  if token_us >= 0 then
    if tk < now then tk = now end
    if not state then tk = tk + token_us end
    token_level, token_mark = tk - now, tk + tr
    local over = token_level - token_tolerance_us
    if over > 0 then refuse(i, 'tokens', over) end
  end
  if running >= slots and not state then
    local now_ms = math.floor(now / 1000)
    lapsed = lapsed or note_lapsed(found[2], KEYS[5], KEYS[1], ARGV[9] .. 'call:', now_ms)
    if running - (lapsed[name(i)] or 0) >= slots then refuse(i, 'concurrency', 0) end
  end
  local spent = high * PART + low
  if monthly == 1 then
    spent = spent_in(month, latest, month_high, month_low, ARGV[9] .. 'past:' .. name(i))
  end
  if held + spent + hold > budget then refuse(i, 'budget', -1) end
  reply = reply .. struct.pack(LEVELS, request_level, token_level)
  marks = marks .. struct.pack(MARKS, token_mark, request_mark)
  write[2 * i + 1] = KEYS[6 + i]
  write[2 * i + 2] = struct.pack(SCOPE, held + hold, running + 1, high, low, latest, month_high,
    month_low, rq, rr, tk, tr)
end

if state then return reply end
if worst > 0 then return {worst, dimension, wait} end

local due = math.floor(now / 1000) + ARGV[4]
write[2] = struct.pack(CALL, 'h', n, hold, ARGV[2], month, due, #ARGV[7], #ARGV[8])
  .. ARGV[6] .. marks .. ARGV[7] .. ARGV[8]
redis.call('XADD', KEYS[2], '*', 'k', 'reserved', 'r', ARGV[1], 'p', ARGV[8])
redis.call('ZADD', KEYS[1], due, ARGV[1])
redis.call('MSET', unpack(write))
for i = 1, n do
  if not found[3 + i] then redis.call('SADD', KEYS[3], name(i)) end
end
return reply
