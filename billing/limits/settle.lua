-- Closes a hold once: leases back, held to spent, buckets corrected, record into the stream.
-- KEYS: hold, done, due, usage, epoch, scopes
-- ARGV: rid, amount, tokens, source (x exact | e estimated), refund (1|0), only if due (1|0),
--   settled payload, key prefix, and for a lost hold: month field, packed scopes, amount booked;
--   seconds to remember an exact and an estimated settlement
-- Returns settled | already | corrected | lost | live

local rid, amount, tokens, source = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local prefix = ARGV[8]
local h = redis.call('HMGET', KEYS[1], 'held', 'n', 's', 'k', 'm')
local held, counted, packed, marks, month = h[1], h[2], h[3], h[4], h[5]
local answer, charge, now = 'settled', amount, now_us()

if held then
  if ARGV[6] == '1' and tonumber(redis.call('ZSCORE', KEYS[3], rid) or 0) > now / 1000 then
    return 'live'
  end
else
  local done = redis.call('GET', KEYS[2])
  if done and (source == 'e' or string.sub(done, 1, 1) == 'x') then return 'already' end
  if done then
    local before
    before, counted, month, marks, packed =
      string.match(done, '^e (%d+) (%d+) (%S+) ([%d ]+) | (.*)$')
    answer, charge = 'corrected', int(amount - before)
  else
    packed, month, marks = ARGV[10], ARGV[9], '0 0 0 0 0 0'
    answer, charge = 'lost', int(amount - ARGV[11])
  end
end

local function cost_us(units, per_minute)
  local us = units * 60000000
  local rest = math.fmod(us, per_minute)
  return (us - rest) / per_minute + (rest > 0 and 1 or 0)
end

-- A debt fills the bucket; of too much only what has not leaked yet comes back (see gcra.py).
local function correct(delta, mark, tat, refunded)
  tat, refunded = tat or '0', refunded or '0'
  if delta > 0 then
    local from = tonumber(tat)
    return int((from < now and now or from) + delta), refunded
  end
  local back = math.min(0 - delta, mark - refunded - now)
  if back <= 0 then return tat, refunded end
  return int(tat - back), int(refunded + back)
end

local EXACT = 9007199254740992 -- beyond it a double cannot add exactly: Redis does, not Lua

redis.call('XADD', KEYS[4], '*', 'k', 'settled', 'r', rid, 'p', ARGV[7])
local open, refund = is_open(KEYS[5]), held and ARGV[5] == '1'
counted = tonumber(counted) or tokens
local mark = string.gmatch(marks, MARKS)
for scope, tpm, request_cost in string.gmatch(packed, SCOPE) do
  local key = prefix .. 'scope:' .. scope
  local token_mark, request_mark = mark()
  local s = redis.call('HMGET', key, 'held', 't', month, 'tk', 'tr')
  local tk, tr = s[4] or '0', s[5] or '0'
  if tpm ~= '-' and tokens ~= counted then
    local delta = cost_us(tokens, tonumber(tpm)) - cost_us(counted, tonumber(tpm))
    tk, tr = correct(delta, token_mark, tk, tr)
  end
  if refund and request_cost ~= '-' then
    local r = redis.call('HMGET', key, 'rq', 'rr')
    local rq, rr = correct(0 - request_cost, request_mark, r[1], r[2])
    redis.call('HSET', key, 'rq', rq, 'rr', rr)
  end
  if not open then
    if held then redis.call('HSET', key, 'tk', tk, 'tr', tr) end
  elseif held and charge ~= '0' and (s[2] or 0) + charge < EXACT then
    redis.call('HSET', key, 'held', int(s[1] - held), 'tk', tk, 'tr', tr,
      't', int((s[2] or 0) + charge), month, int((s[3] or 0) + charge))
  else
    redis.call('HSET', key, 'held', int((s[1] or 0) - (held or 0)), 'tk', tk, 'tr', tr)
    if charge ~= '0' then
      redis.call('HINCRBY', key, 't', charge)
      redis.call('HINCRBY', key, month, charge)
    end
  end
  if held then
    redis.call('ZREM', prefix .. 'conc:' .. scope, rid)
  elseif open then
    redis.call('SADD', KEYS[6], scope)
  end
end

if held then
  redis.call('ZREM', KEYS[3], rid)
  redis.call('DEL', KEYS[1])
end
if source == 'x' then
  redis.call('SET', KEYS[2], 'x ' .. amount, 'EX', ARGV[12])
else
  local done = table.concat({'e', amount, ARGV[3], month, marks, '|', packed}, ' ')
  redis.call('SET', KEYS[2], done, 'EX', ARGV[13])
end
return answer
