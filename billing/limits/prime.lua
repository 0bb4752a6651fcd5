-- Opens a priming shard with the ledger's sums, unless the stream has moved on since they were
-- read. `held` and `running` are summed here from the open holds, so that a renewal meanwhile is
-- not lost.
-- KEYS: epoch, usage, due, scopes, lapsed
-- ARGV: epoch, last stream id, key prefix, number of purses, of each its name, METER and every SLICE,
--   then per scope: name, spent in all (high and low part), number of months, the latest month with
--   what was spent in it (high and low part), and every earlier one with its amount
-- Returns 1 if it opened, else 0

if redis.call('GET', KEYS[1]) ~= LAYOUT .. ':priming:' .. ARGV[1] then return 0 end
local last = '0-0'
if redis.call('EXISTS', KEYS[2]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[2])
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then last = info[i + 1] end
  end
end
if last ~= ARGV[2] then return 0 end

local prefix = ARGV[3]

-- Sets a scope's sums; what its buckets hold is no business of the ledger.
local function set_spent(name, high, low, month, month_high, month_low)
  local s = {struct.unpack(SCOPE, redis.call('GET', prefix .. 'scope:' .. name) or NEW)}
  redis.call('SET', prefix .. 'scope:' .. name,
    struct.pack(SCOPE, 0, 0, high, low, month, month_high, month_low, s[8], s[9], s[10], s[11]))
  redis.call('DEL', prefix .. 'past:' .. name)
  redis.call('SADD', KEYS[4], name)
end

for _, name in ipairs(redis.call('SMEMBERS', KEYS[4])) do
  set_spent(name, 0, 0, 0, 0, 0)
end
local opened = LAYOUT .. ':open:' .. ARGV[1]
local at, purses = 5, purses_in(opened, now_us())
for _ = 1, ARGV[4] do
  local name, meter, parts = unpack(ARGV, at, at + 2)
  local _, _, width, lasts = struct.unpack(METER, meter)
  local spent = 0
  for slice = 1, #parts, SLICE_SIZE do
    local _, amount = struct.unpack(SLICE, parts, slice)
    spent = spent + amount
  end
  purses.put(prefix .. 'meter:' .. name, 0, spent, width > 0 and parts or '', width, lasts)
  at = at + 3
end
while ARGV[at] do
  local name, high, low, months = unpack(ARGV, at, at + 3)
  at = at + 4
  if months == '0' then
    set_spent(name, high, low, 0, 0, 0)
  else
    set_spent(name, high, low, unpack(ARGV, at, at + 2))
    at = at + 3
    for _ = 2, months do
      redis.call('HSET', prefix .. 'past:' .. name, ARGV[at], ARGV[at + 1])
      at = at + 2
    end
  end
end
redis.call('DEL', KEYS[5]) -- it may be of another machine's clock
for _, rid in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
  local call = redis.call('GET', prefix .. 'call:' .. rid)
  if call and string.sub(call, 1, 1) == 'h' then
    local _, _, m, held = struct.unpack(CALL, call)
    hold_in_scopes(prefix, KEYS[4], names_of(call), held)
    if m > 0 then purses.hold(prefix, call, held) end
  end
end
redis.call('SET', KEYS[1], opened)
return 1
