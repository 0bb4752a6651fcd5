-- Closes a hold once: leases back, held to spent, token bucket corrected, record into the stream.
-- KEYS: hold, due, usage, epoch, scopes
-- ARGV: rid, amount, tokens, source (x exact | e estimated), refund (1|0), only if due (1|0),
--   settled payload, key prefix, and for a lost hold: month field, packed scopes, amount booked;
--   seconds to remember an exact and an estimated settlement
-- Returns settled | already | corrected | lost | live

local rid, amount, tokens, source = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local prefix = ARGV[8]
local h = redis.call('HMGET', KEYS[1], 'st', 'held', 'n', 's', 'm', 'a')
local state = h[1]
if state == 'x' or (state == 'e' and source == 'e') then return 'already' end

local now = now_us()
if state == 'h' and ARGV[6] == '1' then
  local due = redis.call('ZSCORE', KEYS[2], rid)
  if due and tonumber(due) > now / 1000 then return 'live' end
end

redis.call('XADD', KEYS[3], '*', 'k', 'settled', 'r', rid, 'p', ARGV[7])
local open = is_open(KEYS[4])
local packed, month, answer = h[4], h[5], 'settled'
local charge = amount
if state == 'e' then
  answer, charge = 'corrected', int(amount - h[6])
elseif not state then
  packed, month, answer = ARGV[10], ARGV[9], 'lost'
  charge = int(amount - ARGV[11])
end

local function cost_us(units, per_minute)
  local us = units * 60000000
  local rest = math.fmod(us, per_minute)
  return (us - rest) / per_minute + (rest > 0 and 1 or 0)
end

-- A debt fills the bucket; of too much only what has not leaked yet comes back (see gcra.py).
local function correct(rate, delta, mark, tat_field, refunded_field)
  if delta == 0 then return end
  local r = redis.call('HMGET', rate, tat_field, refunded_field)
  local tat, refunded = tonumber(r[1]) or 0, tonumber(r[2]) or 0
  if delta > 0 then
    if tat < now then tat = now end
    redis.call('HSET', rate, tat_field, int(tat + delta))
    return
  end
  local back = math.min(0 - delta, mark - refunded - now)
  if back > 0 then
    redis.call('HSET', rate, tat_field, int(tat - back), refunded_field, int(refunded + back))
  end
end

local was = tonumber(h[3]) or tokens
local unhold = state == 'h' and h[2] ~= '0' and int(0 - h[2])
for scope, tpm, tok_mark, req_cost, req_mark in string.gmatch(packed, SCOPE) do
  if tpm ~= '-' and tokens ~= was then
    local delta = cost_us(tokens, tonumber(tpm)) - cost_us(was, tonumber(tpm))
    correct(prefix .. 'rate:' .. scope, delta, tonumber(tok_mark), 'tk', 'tr')
  end
  if ARGV[5] == '1' and req_cost ~= '-' then
    correct(prefix .. 'rate:' .. scope, 0 - req_cost, tonumber(req_mark), 'rq', 'rr')
  end
  if state == 'h' then
    redis.call('ZREM', prefix .. 'conc:' .. scope, rid)
  end
  if open then
    local money = prefix .. 'money:' .. scope
    if unhold then redis.call('HINCRBY', money, 'held', unhold) end
    if charge ~= '0' then
      redis.call('HINCRBY', money, 't', charge)
      redis.call('HINCRBY', money, month, charge)
      if not state then redis.call('SADD', KEYS[5], scope) end
    end
  end
end

if state == 'h' then
  redis.call('ZREM', KEYS[2], rid)
  redis.call('HDEL', KEYS[1], 'held', 'o', 'c')
end
redis.call('HSET', KEYS[1], 'st', source, 'a', amount, 'n', ARGV[3], 'm', month, 's', packed)
redis.call('EXPIRE', KEYS[1], source == 'x' and ARGV[12] or ARGV[13])
return answer
