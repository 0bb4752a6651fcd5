-- Closes a hold once: leases back, held to spent, buckets corrected, record into the stream.
-- KEYS: due, usage, scopes, epoch, lapsed, call, then the scopes the call should have
-- ARGV: rid, amount, tokens, source (x exact | e estimated), refund (1|0), only if due (1|0),
--   settled payload, key prefix, and for a lost hold: month, names of the scopes, amount booked;
--   seconds to remember an exact and an estimated settlement
-- Returns settled | already | corrected | lost | live

local rid, amount, tokens, source = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local found = redis.call('MGET', unpack(KEYS, 4))
local call, open, now = found[3], is_open(found[1]), now_us()
local was = call and string.sub(call, 1, 1)

if was == 'x' or was == 'e' and source == 'e' then return 'already' end
if not was then -- lost: nothing is known of its limits and marks
  local n = #KEYS - 6
  call = struct.pack(CALL, 'e', n, ARGV[11], tokens, ARGV[9], 0, #ARGV[10], 0)
    .. string.rep(struct.pack(LIMITS, -1, 0, -1, 0, 0, 0, 0, 0), n)
    .. string.rep(struct.pack(MARKS, 0, 0), n) .. ARGV[10]
end
local _, n, before, counted, month, due, names_size = struct.unpack(CALL, call)
local marks_at = LIMITS_AT + n * LIMITS_SIZE
local names_at = marks_at + n * MARKS_SIZE
local names = string.sub(call, names_at, names_at + names_size - 1)
local held, charge = 0, amount
if was == 'h' then
  if ARGV[6] == '1' and due > now / 1000 then return 'live' end
  held = before
else
  charge = amount - before
end

local scope_keys, before_keys, states, before_states = KEYS, 6, found, 3
if names ~= ARGV[10] then
  scope_keys, before_keys, before_states = {}, 0, 0
  for name in string.gmatch(names, '%S+') do
    scope_keys[#scope_keys + 1] = ARGV[8] .. 'scope:' .. name
  end
  states = redis.call('MGET', unpack(scope_keys))
end

local function cost_us(units, per_minute)
  local us = units * 60000000
  local rest = math.fmod(us, per_minute)
  return (us - rest) / per_minute + (rest > 0 and 1 or 0)
end

-- A debt fills the bucket; of too much only what has not leaked yet comes back (see gcra.py).
local function correct(delta, mark, tat, refunded, now)
  if delta > 0 then return (tat < now and now or tat) + delta, refunded end
  local back = math.min(0 - delta, mark - refunded - now)
  if back <= 0 then return tat, refunded end
  return tat - back, refunded + back
end

-- The latest month stands in the scope's state, earlier ones in a hash.
local function add_to_month(month, charge, past_key, latest, high, low)
  if month < latest then
    redis.call('HINCRBY', past_key, month, string.format('%d', charge))
    return latest, high, low
  end
  if latest > 0 then redis.call('HSET', past_key, latest, whole(high, low)) end
  return month, add(0, 0, charge)
end

local write = {}
for i = 1, n do
  local key, state = scope_keys[before_keys + i], states[before_states + i]
  local scope_held, running, high, low, latest, month_high, month_low, rq, rr, tk, tr =
    struct.unpack(SCOPE, state or NEW)
  local request_us, _, _, _, _, _, per_minute =
    struct.unpack(LIMITS, call, LIMITS_AT + LIMITS_SIZE * (i - 1))
  local token_mark, request_mark = struct.unpack(MARKS, call, marks_at + MARKS_SIZE * (i - 1))
  if per_minute > 0 and tokens ~= counted then
    local delta = cost_us(tokens, per_minute) - cost_us(counted, per_minute)
    tk, tr = correct(delta, token_mark, tk, tr, now)
  end
  if was == 'h' and ARGV[5] == '1' and request_us >= 0 then
    rq, rr = correct(0 - request_us, request_mark, rq, rr, now)
  end
  if open then
    if was == 'h' then scope_held, running = scope_held - held, running - 1 end
    if charge ~= 0 then
      high, low = add(high, low, charge)
      if month == latest then
        month_high, month_low = add(month_high, month_low, charge)
      else
        local past_key = ARGV[8] .. 'past:' .. string.sub(key, #ARGV[8] + 7)
        latest, month_high, month_low =
          add_to_month(month, charge, past_key, latest, month_high, month_low)
      end
    end
  end
  write[2 * i - 1] = key
  write[2 * i] = struct.pack(SCOPE, scope_held, running, high, low, latest, month_high, month_low,
    rq, rr, tk, tr)
end

redis.call('XADD', KEYS[2], '*', 'k', 'settled', 'r', rid, 'p', ARGV[7])
if open or was == 'h' then
  redis.call('MSET', unpack(write))
  for i = 1, n do
    if not states[before_states + i] then
      redis.call('SADD', KEYS[3], string.sub(scope_keys[before_keys + i], #ARGV[8] + 7))
    end
  end
end
if was == 'h' then
  redis.call('ZREM', KEYS[1], rid)
  if found[2] then forget_lapsed(found[2], KEYS[5], due, names) end
end
if source == 'x' then
  redis.call('SET', KEYS[6], struct.pack(SETTLED, 'x', 0, amount), 'EX', ARGV[12])
else
  local settled = struct.pack(CALL, 'e', n, amount, tokens, month, 0, names_size, 0)
  local rest = string.sub(call, LIMITS_AT, names_at + names_size - 1)
  redis.call('SET', KEYS[6], settled .. rest, 'EX', ARGV[13])
end
return was == 'h' and 'settled' or was == 'e' and 'corrected' or 'lost'
