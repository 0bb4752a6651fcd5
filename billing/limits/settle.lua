-- Closes a hold once: leases back, held to spent, buckets corrected, record into the stream.
-- KEYS: hold, done, due, usage, epoch, scopes
-- ARGV: rid, amount, tokens, source (x exact | e estimated), refund (1|0), only if due (1|0),
--   settled payload, key prefix, and for a lost hold: month field, packed scopes, amount booked;
--   seconds to remember an exact and an estimated settlement
-- Returns settled | already | corrected | lost | live

local rid, amount, tokens, source = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local prefix = ARGV[8]
local h = redis.call('HMGET', KEYS[1], 'held', 'n', 's', 'm')
local held, counted, packed, month = h[1], h[2], h[3], h[4]
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
    before, counted, month, packed = string.match(done, '^e (%d+) (%d+) (%S+) (.*)$')
    answer, charge = 'corrected', int(amount - before)
  else
    packed, month = ARGV[10], ARGV[9]
    answer, charge = 'lost', int(amount - ARGV[11])
  end
end

local function cost_us(units, per_minute)
  local us = units * 60000000
  local rest = math.fmod(us, per_minute)
  return (us - rest) / per_minute + (rest > 0 and 1 or 0)
end

-- A debt fills the bucket; of too much only what has not leaked yet comes back (see gcra.py).
local function correct(write, delta, mark, tat_field, tat, refunded_field, refunded)
  tat, refunded = tonumber(tat) or 0, tonumber(refunded) or 0
  if delta > 0 then
    if tat < now then tat = now end
    write[#write + 1] = tat_field
    write[#write + 1] = int(tat + delta)
    return
  end
  local back = math.min(0 - delta, mark - refunded - now)
  if back > 0 then
    write[#write + 1] = tat_field
    write[#write + 1] = int(tat - back)
    write[#write + 1] = refunded_field
    write[#write + 1] = int(refunded + back)
  end
end

-- Sums may outgrow what a double carries exactly; then Redis adds, not Lua.
local function add(write, field, sum, delta)
  local total = (sum or 0) + delta
  if total < 9007199254740992 then
    write[#write + 1] = field
    write[#write + 1] = int(total)
  else
    redis.call('HINCRBY', write[1], field, delta)
  end
end

redis.call('XADD', KEYS[4], '*', 'k', 'settled', 'r', rid, 'p', ARGV[7])
local open = is_open(KEYS[5])
counted = tonumber(counted) or tokens
for scope, tpm, tok_mark, req_cost, req_mark in string.gmatch(packed, SCOPE) do
  local key = prefix .. 'scope:' .. scope
  local s = redis.call('HMGET', key, 'held', 't', month, 'tk', 'tr', 'rq', 'rr')
  local write = {key}
  if tpm ~= '-' and tokens ~= counted then
    local delta = cost_us(tokens, tonumber(tpm)) - cost_us(counted, tonumber(tpm))
    if delta ~= 0 then correct(write, delta, tok_mark, 'tk', s[4], 'tr', s[5]) end
  end
  if ARGV[5] == '1' and held and req_cost ~= '-' then
    correct(write, 0 - req_cost, req_mark, 'rq', s[6], 'rr', s[7])
  end
  if open then
    if held then
      write[#write + 1] = 'held'
      write[#write + 1] = int((s[1] or 0) - held)
    end
    if charge ~= '0' then
      add(write, 't', s[2], charge)
      add(write, month, s[3], charge)
      if answer == 'lost' then redis.call('SADD', KEYS[6], scope) end
    end
  end
  if write[2] then redis.call('HSET', unpack(write)) end
  if held then redis.call('ZREM', prefix .. 'conc:' .. scope, rid) end
end

if held then
  redis.call('ZREM', KEYS[3], rid)
  redis.call('DEL', KEYS[1])
end
if source == 'x' then
  redis.call('SET', KEYS[2], 'x ' .. amount, 'EX', ARGV[12])
else
  local done = 'e ' .. amount .. ' ' .. ARGV[3] .. ' ' .. month .. ' ' .. packed
  redis.call('SET', KEYS[2], done, 'EX', ARGV[13])
end
return answer
