-- Extends lease and due time, stores the checkpoint, tops the hold up or refuses to.
-- KEYS: due, epoch, lapsed, call
-- ARGV: rid, lease_ms, top-up, checkpoint payload, key prefix
-- Returns {'renewed', held} | {'refused', scope, dimension, held} | {'lost'} | {'settled'}

local found = redis.call('MGET', unpack(KEYS, 2))
local call = found[3]
if not call then return {'lost'} end
if string.sub(call, 1, 1) ~= 'h' then return {'settled'} end
local _, n, m, held, input, output, month, due, names_size, meters_size, opened_size =
  struct.unpack(CALL, call)

local names, names_at = names_of(call)
local topup, refused, dimension, write = tonumber(ARGV[3]), nil, nil, {}
local now, purses, taken = now_us()
if topup > 0 and not is_open(found[1]) then
  refused, dimension = '', 'unprimed'
elseif topup > 0 then
  local scopes, scope_keys = {}, {}
  for name in string.gmatch(names, '%S+') do
    scopes[#scopes + 1], scope_keys[#scopes + 1] = name, ARGV[5] .. 'scope:' .. name
  end
  for i, state in ipairs(redis.call('MGET', unpack(scope_keys))) do
    local s = {struct.unpack(SCOPE, state or NEW)}
    local _, _, _, _, _, _, budget, monthly, ceiling =
      struct.unpack(LIMITS, call, LIMITS_AT + LIMITS_SIZE * (i - 1))
    local spent = s[3] * PART + s[4]
    if not refused and s[1] + spent + topup > ceiling then
      refused, dimension = scopes[i], 'credit'
    end
    if monthly == 1 then
      spent = spent_in(month, s[5], s[6], s[7], ARGV[5] .. 'past:' .. scopes[i])
    end
    if not refused and s[1] + spent + topup > budget then
      refused, dimension = scopes[i], 'budget'
    end
    s[1] = s[1] + topup
    write[2 * i - 1], write[2 * i] = scope_keys[i], struct.pack(SCOPE, unpack(s, 1, 11))
  end
end

if topup > 0 and m > 0 and not refused then
  local at, _, meter_names = meters_in(call)
  for name in string.gmatch(meter_names, '%S+') do
    local kind, most, width, lasts = struct.unpack(METER, call, at)
    if kind == 'p' then
      if not purses then purses, taken = purses_in(found[1], now), {} end
      local key = ARGV[5] .. 'meter:' .. name
      local of_purse, spent, parts = purses.open(redis.call('GET', key), width, lasts)
      if not refused and of_purse + spent + topup > most then
        refused, dimension = name, 'budget'
      end
      taken[#taken + 1] = {key, of_purse + topup, spent, parts, width, lasts}
    end
    at = at + METER_SIZE
  end
end

local now_due = math.floor(now / 1000) + ARGV[2]
if not refused then held = held + topup else write = {} end
write[#write + 1] = KEYS[4]
local header = struct.pack(CALL, 'h', n, m, held, input, output, month, now_due, names_size,
  meters_size, opened_size)
write[#write + 1] = header
  .. string.sub(call, LIMITS_AT, names_at + names_size + meters_size + opened_size - 1) .. ARGV[4]
redis.call('MSET', unpack(write))
redis.call('ZADD', KEYS[1], now_due, ARGV[1])
if taken and not refused then
  for _, purse in ipairs(taken) do purses.put(unpack(purse)) end
end
if m > 0 then
  local at, _, meter_names = meters_in(call)
  for name in string.gmatch(meter_names, '%S+') do
    if string.sub(call, at, at) == 'c' then
      take_slot(ARGV[5] .. 'meter:' .. name, ARGV[1], now_due, ARGV[2])
    end
    at = at + METER_SIZE
  end
end
if found[2] then lapsed_note(found[2]).forget(KEYS[3], due, names) end
if refused then return {'refused', refused, dimension, held} end
return {'renewed', held}
