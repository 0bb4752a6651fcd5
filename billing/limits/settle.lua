-- Closes a hold once: leases back, held to spent, buckets corrected, record into the stream.
-- KEYS: due, usage, epoch, lapsed, call, then the scopes the call should have
-- ARGV: rid, ENDED, names of the scopes the call should have, settled payload, and where it has
--   purses the METER of each and their names
-- Returns settled | already | corrected | lost | live

local amount, input, output, is_exact, is_refund, only_if_due, month, booked, ended =
  struct.unpack(ENDED, ARGV[2])
local found = redis.call('MGET', unpack(KEYS, 3))
local call, open, now = found[3], is_open(found[1]), now_us()
local was = call and string.sub(call, 1, 1)

if was == 'x' or was == 'e' and is_exact == 0 then return 'already' end
if not was then -- lost: nothing is known of its limits and marks
  local n, purses, names = #KEYS - 5, ARGV[5] or '', ARGV[6] or ''
  local m = #purses / METER_SIZE
  call = struct.pack(CALL, 'e', n, m, booked, input, output, month, 0, #ARGV[3], #names, 0)
    .. string.rep(struct.pack(LIMITS, -1, 0, 0, -1, 0, 0, 0, 0, 0), n) .. purses
    .. string.rep(struct.pack(MARKS, 0, 0), n) .. string.rep(struct.pack(MARK, 0, 0), m)
    .. ARGV[3] .. names
end
local _, n, m, before, counted_input, counted_output, admitted, due, names_size, meters_size =
  struct.unpack(CALL, call)
local tokens, counted = input + output, counted_input + counted_output
local marks_at = LIMITS_AT + n * LIMITS_SIZE + m * METER_SIZE
local names_at = marks_at + n * MARKS_SIZE + m * MARK_SIZE
local names = string.sub(call, names_at, names_at + names_size - 1)
local held, charge = 0, amount
if was == 'h' then
  if only_if_due == 1 and due > now / 1000 then return 'live' end
  held = before
else
  charge = amount - before
end

local scope_keys, before_keys, states, before_states = KEYS, 5, found, 3
if names ~= ARGV[3] then
  scope_keys, before_keys, before_states = {}, 0, 0
  for name in string.gmatch(names, '%S+') do
    scope_keys[#scope_keys + 1] = string.sub(KEYS[1], 1, -4) .. 'scope:' .. name
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

-- Sums outgrow what a double adds exactly, so they have a high and a low part.
local function add(high, low, amount)
  local sum = low + amount
  if sum >= 0 and sum < PART then return high, sum end
  local parts = math.floor(amount / PART)
  high, low = high + parts, low + (amount - parts * PART)
  if low >= PART then return high + 1, low - PART end
  return high, low
end

local function past_key_of(scope_key)
  return (string.gsub(scope_key, ':scope:', ':past:', 1))
end

-- A month that is not the latest any more stands in the hash.
local function put_by(past_key, month, high, low)
  if month == 0 then return end
  local amount = string.format('%d', high * PART + low)
  if high > 0 then amount = string.format('%d%015d', high, low) end
  redis.call('HSET', past_key, month, amount)
end

local write = {}
for i = 1, n do
  local key, state = scope_keys[before_keys + i], states[before_states + i]
  local scope_held, running, high, low, latest, month_high, month_low, rq, rr, tk, tr =
    struct.unpack(SCOPE, state or NEW)
  local request_us, per_minute = struct.unpack('<dd', call, LIMITS_AT + LIMITS_SIZE * (i - 1))
  local token_mark, request_mark = struct.unpack(MARKS, call, marks_at + MARKS_SIZE * (i - 1))
  if per_minute > 0 and tokens ~= counted then
    local delta = cost_us(tokens, per_minute) - cost_us(counted, per_minute)
    tk, tr = correct(delta, token_mark, tk, tr, now)
  end
  if was == 'h' and is_refund == 1 and request_us >= 0 then
    rq, rr = correct(0 - request_us, request_mark, rq, rr, now)
  end
  if open then
    if was == 'h' then scope_held, running = scope_held - held, running - 1 end
    if charge ~= 0 then
      high, low = add(high, low, charge)
      if admitted > latest then
        put_by(past_key_of(key), latest, month_high, month_low)
        latest, month_high, month_low = admitted, 0, 0
      end
      if admitted == latest then
        month_high, month_low = add(month_high, month_low, charge)
      else
        redis.call('HINCRBY', past_key_of(key), admitted, string.format('%d', charge))
      end
    end
  end
  write[2 * i - 1] = key
  write[2 * i] = struct.pack(SCOPE, scope_held, running, high, low, latest, month_high, month_low,
    rq, rr, tk, tr)
end

redis.call('XADD', KEYS[2], '*', 'k', 'settled', 'r', ARGV[1], 'p', ARGV[4])
if open or was == 'h' then
  redis.call('MSET', unpack(write))
  for i = 1, n do
    if not states[before_states + i] then
      local name = string.match(scope_keys[before_keys + i], ':scope:(.*)$')
      redis.call('SADD', string.sub(KEYS[1], 1, -4) .. 'scopes', name)
    end
  end
end
if m > 0 then
  local prefix = string.sub(KEYS[1], 1, -4) .. 'meter:'
  local at, meter_marks_at, meter_names = meters_in(call)
  local meter_keys, purses = {}
  for name in string.gmatch(meter_names, '%S+') do meter_keys[#meter_keys + 1] = prefix .. name end
  local deltas = {t = {tokens, counted}, i = {input, counted_input}, o = {output, counted_output}}
  for j, state in ipairs(redis.call('MGET', unpack(meter_keys))) do
    local kind, per_minute, cost, lasts = struct.unpack(METER, call, at + METER_SIZE * (j - 1))
    if kind == 'c' then
      if was == 'h' then redis.call('ZREM', meter_keys[j], ARGV[1]) end
    elseif kind == 'p' then
      local mark_at = meter_marks_at + MARK_SIZE * (j - 1)
      local bucket = struct.unpack(MARK, call, mark_at)
      if bucket == 0 and cost > 0 then
        bucket = ended - math.fmod(ended, cost)
        call = string.sub(call, 1, mark_at - 1) .. struct.pack(MARK, bucket, 0)
          .. string.sub(call, mark_at + MARK_SIZE)
      end
      if open then
        purses = purses or purses_in(found[1], now)
        local of_purse, spent, parts = purses.open(state, cost, lasts)
        if was == 'h' then of_purse = math.max(0, of_purse - held) end
        if cost > 0 and charge ~= 0 then parts = purses.spend_in(parts, bucket, charge) end
        purses.put(meter_keys[j], of_purse, spent + charge, parts, cost, lasts)
      end
    else
      local delta = 0
      if kind ~= 'r' then
        delta = cost_us(deltas[kind][1], per_minute) - cost_us(deltas[kind][2], per_minute)
      elseif was == 'h' and is_refund == 1 then
        delta = 0 - cost
      end
      local mark, life = struct.unpack(MARK, call, meter_marks_at + MARK_SIZE * (j - 1))
      local tat, refunded, born = struct.unpack(BUCKET, state or EMPTY)
      if delta > 0 or delta < 0 and born == life then
        tat, refunded = correct(delta, mark, tat, refunded, now)
        put_bucket(meter_keys[j], now, tat, refunded, born == 0 and now or born)
      end
    end
  end
end
if was == 'h' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  if found[2] then lapsed_note(found[2]).forget(KEYS[4], due, names) end
end
if is_exact == 1 then
  redis.call('SET', KEYS[5], struct.pack(SETTLED, 'x', 0, amount), 'EX', EXACT_REMEMBERED_S)
else
  local settled = struct.pack(CALL, 'e', n, m, amount, input, output, admitted, 0, names_size,
    meters_size, 0)
  local rest = string.sub(call, LIMITS_AT, names_at + names_size + meters_size - 1)
  redis.call('SET', KEYS[5], settled .. rest, 'EX', ESTIMATED_REMEMBERED_S)
end
return was == 'h' and 'settled' or was == 'e' and 'corrected' or 'lost'
