-- Extends lease and due time, stores the checkpoint, tops the hold up or refuses to.
-- KEYS: hold, done, due, epoch
-- ARGV: rid, lease_ms, top-up, checkpoint payload, key prefix
-- Returns {'renewed', held} | {'refused', scope, dimension, held} | {'lost'} | {'settled'}

local h = redis.call('HMGET', KEYS[1], 'held', 's')
if not h[1] then
  return {redis.call('EXISTS', KEYS[2]) == 1 and 'settled' or 'lost'}
end

local topup, refused, dimension = tonumber(ARGV[3]), nil, nil
if topup > 0 and not is_open(KEYS[4]) then
  refused, dimension = '', 'unprimed'
end
local due = int(now_us() / 1000 + ARGV[2])
redis.call('HSET', KEYS[1], 'c', ARGV[4])
redis.call('ZADD', KEYS[3], due, ARGV[1])
local scopes = {}
for scope, _, _, budget, field in string.gmatch(h[2], SCOPE) do
  scopes[#scopes + 1] = scope
  redis.call('ZADD', ARGV[5] .. 'conc:' .. scope, due, ARGV[1])
  if topup > 0 and not refused and budget ~= '-' then
    local m = redis.call('HMGET', ARGV[5] .. 'scope:' .. scope, 'held', field)
    if (m[1] or 0) + (m[2] or 0) + topup > tonumber(budget) then
      refused, dimension = scope, 'budget'
    end
  end
end
if refused then return {'refused', refused, dimension, h[1]} end
if topup == 0 then return {'renewed', h[1]} end
for _, scope in ipairs(scopes) do
  redis.call('HINCRBY', ARGV[5] .. 'scope:' .. scope, 'held', ARGV[3])
end
return {'renewed', redis.call('HINCRBY', KEYS[1], 'held', ARGV[3])}
