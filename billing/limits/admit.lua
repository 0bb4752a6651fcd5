-- Checks every scope, then writes all of it; a refusal writes nothing (but see lapsed.lua).
-- KEYS: due, usage, epoch, lapsed, call, then every scope and every meter, purses last
-- ARGV: rid, REQUEST with the LIMITS of every scope and every METER, names of the scopes, of the
--   meters, opened payload
-- Returns state (n new, h held, s settled), LEVELS of every scope and the level of every meter, in
--   one string because Redis makes that for less than a table, or {number of scope or meter,
--   dimension, wait_us, levels} of a refusal (-1: waiting does not help)

local found = redis.call('MGET', unpack(KEYS, 3))
if not is_open(found[1]) then
  return {1, 'unprimed', -1}
end
local call = found[3]
local state = call and (string.sub(call, 1, 1) == 'h' and 'h' or 's')
local input, output, hold, lease_ms, month, m = struct.unpack(REQUEST, ARGV[2])
local now, n = now_us(), #KEYS - 5 - m
local reply, marks, write = state or 'n', '', {KEYS[5], ''}
local refusal, lapsed

-- Of two refusals the one that no waiting helps, else the longer wait.
local function worse(a, b)
  if a and (a[3] < 0 or b[3] >= 0 and b[3] <= a[3]) then return a end
  return b
end

local function name(scope)
  return string.match(KEYS[5 + scope], ':scope:(.*)$')
end

for i = 1, n do
  local held, running, high, low, latest, month_high, month_low, rq, rr, tk, tr =
    struct.unpack(SCOPE, found[3 + i] or NEW)
  local request_us, _, request_tolerance_us, token_us, token_tolerance_us, slots, budget, monthly,
    ceiling = struct.unpack(LIMITS, ARGV[2], REQUEST_SIZE + LIMITS_SIZE * (i - 1) + 1)
  local request_level, token_level, request_mark, token_mark = -1, -1, 0, 0
  if request_us >= 0 then
    if rq < now then rq = now end
    if not state then rq = rq + request_us end
    request_level, request_mark = rq - now, rq + rr
    local over = request_level - request_tolerance_us
    if over > 0 then refusal = worse(refusal, {i, 'requests', over}) end
  end
  if token_us >= 0 then
    if tk < now then tk = now end
    if not state then tk = tk + token_us end
    token_level, token_mark = tk - now, tk + tr
    local over = token_level - token_tolerance_us
    if over > 0 then refusal = worse(refusal, {i, 'tokens', over}) end
  end
  if running >= slots and not state then
    lapsed = lapsed or lapsed_note(found[2]).look(KEYS[4], KEYS[1],
      string.sub(KEYS[1], 1, -4) .. 'call:', math.floor(now / 1000))
    if running - (lapsed[name(i)] or 0) >= slots then
      refusal = worse(refusal, {i, 'concurrency', 0})
    end
  end
  local spent = high * PART + low
  if held + spent + hold > ceiling then refusal = worse(refusal, {i, 'credit', -1}) end
  if monthly == 1 then
    local past_key = string.sub(KEYS[1], 1, -4) .. 'past:' .. name(i)
    spent = spent_in(month, latest, month_high, month_low, past_key)
  end
  if held + spent + hold > budget then refusal = worse(refusal, {i, 'budget', -1}) end
  reply = reply .. struct.pack(LEVELS, request_level, token_level)
  marks = marks .. struct.pack(MARKS, token_mark, request_mark)
  write[2 * i + 1] = KEYS[5 + i]
  write[2 * i + 2] = struct.pack(SCOPE, held + hold, running + 1, high, low, latest, month_high,
    month_low, rq, rr, tk, tr)
end

local buckets, purses, taken = {}
for j = 1, m do
  local kind, most, cost, tolerance =
    struct.unpack(METER, ARGV[2], REQUEST_SIZE + LIMITS_SIZE * n + METER_SIZE * (j - 1) + 1)
  local level, mark, life = -1, 0, 0
  if kind == 'c' then
    local running = redis.call('ZCOUNT', KEYS[5 + n + j], math.floor(now / 1000), '+inf')
    if running >= tolerance and not state then
      refusal = worse(refusal, {n + j, 'concurrency', 0})
    end
  elseif kind == 'p' then
    if not purses then purses, taken = purses_in(found[1], now), {} end
    local held, spent, parts = purses.open(found[3 + n + j], cost, tolerance)
    if held + spent + hold > most then refusal = worse(refusal, {n + j, '', -1}) end
    taken[j] = {held + hold, spent, parts, cost, tolerance}
  else
    local tat, refunded, born = struct.unpack(BUCKET, found[3 + n + j] or EMPTY)
    if born == 0 then born = now end
    if tat < now then tat = now end
    if not state then tat = tat + cost end
    level, mark, life = tat - now, tat + refunded, born
    if level > tolerance then refusal = worse(refusal, {n + j, '', level - tolerance}) end
    buckets[j] = {tat, refunded, born}
  end
  reply = reply .. struct.pack(LEVEL, level)
  marks = marks .. struct.pack(MARK, mark, life)
end

if state then return reply end
if refusal then
  refusal[4] = reply
  return refusal
end

local due = math.floor(now / 1000) + lease_ms
write[2] =
  struct.pack(CALL, 'h', n, m, hold, input, output, month, due, #ARGV[3], #ARGV[4], #ARGV[5])
  .. string.sub(ARGV[2], REQUEST_SIZE + 1) .. marks .. ARGV[3] .. ARGV[4] .. ARGV[5]
redis.call('XADD', KEYS[2], '*', 'k', 'reserved', 'r', ARGV[1], 'p', ARGV[5])
redis.call('ZADD', KEYS[1], due, ARGV[1])
redis.call('MSET', unpack(write))
for j = 1, m do
  local key = KEYS[5 + n + j]
  if buckets[j] then
    put_bucket(key, now, unpack(buckets[j]))
  elseif taken and taken[j] then
    purses.put(key, unpack(taken[j]))
  else
    redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('(%d', math.floor(now / 1000)))
    take_slot(key, ARGV[1], due, lease_ms)
  end
end
for i = 1, n do
  if not found[3 + i] then redis.call('SADD', string.sub(KEYS[1], 1, -4) .. 'scopes', name(i)) end
end
return reply
