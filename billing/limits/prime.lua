-- Opens a priming shard with the ledger's sums, unless the stream has moved on since they were read.
-- `held` is summed here from the open holds, so that a renewal meanwhile is not lost.
-- KEYS: epoch, usage, due, scopes
-- ARGV: epoch, last stream id, key prefix, then triples: scope, field, amount
-- Returns 1 if it opened, else 0

if redis.call('GET', KEYS[1]) ~= 'priming:' .. ARGV[1] then return 0 end
local last = '0-0'
if redis.call('EXISTS', KEYS[2]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[2])
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then last = info[i + 1] end
  end
end
if last ~= ARGV[2] then return 0 end

local prefix = ARGV[3] .. 'scope:'
for _, scope in ipairs(redis.call('SMEMBERS', KEYS[4])) do
  for _, field in ipairs(redis.call('HKEYS', prefix .. scope)) do
    if field == 'held' or field == 't' or string.sub(field, 1, 1) == 'm' then
      redis.call('HDEL', prefix .. scope, field)
    end
  end
end
redis.call('DEL', KEYS[4])
for i = 4, #ARGV, 3 do
  redis.call('HSET', prefix .. ARGV[i], ARGV[i + 1], ARGV[i + 2])
  redis.call('SADD', KEYS[4], ARGV[i])
end
for _, rid in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
  local h = redis.call('HMGET', ARGV[3] .. 'hold:' .. rid, 'held', 's')
  for scope in string.gmatch(h[2] or '', SCOPE) do
    redis.call('HINCRBY', prefix .. scope, 'held', h[1])
    redis.call('SADD', KEYS[4], scope)
  end
end
redis.call('SET', KEYS[1], 'open:' .. ARGV[1])
return 1
