-- Re-creates a live hold that Redis forgot, without checks; nothing happens if it is known.
-- KEYS: hold, done, due, usage, epoch, scopes
-- ARGV: rid, tokens, held, lease_ms, month field, opened payload, checkpoint payload or '',
--   packed scopes, marks, key prefix
-- Returns 1 if it was re-created, else 0

if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then return 0 end
redis.call('XADD', KEYS[4], '*', 'k', 'reserved', 'r', ARGV[1], 'p', ARGV[6])
redis.call('HSET', KEYS[1], 'held', ARGV[3], 'n', ARGV[2], 'm', ARGV[5], 's', ARGV[8],
  'k', ARGV[9], 'o', ARGV[6])
if ARGV[7] ~= '' then redis.call('HSET', KEYS[1], 'c', ARGV[7]) end
local due = int(now_us() / 1000 + ARGV[4])
redis.call('ZADD', KEYS[3], due, ARGV[1])
local open = is_open(KEYS[5])
for scope in string.gmatch(ARGV[8], SCOPE) do
  redis.call('ZADD', ARGV[10] .. 'conc:' .. scope, due, ARGV[1])
  if open then
    redis.call('HINCRBY', ARGV[10] .. 'scope:' .. scope, 'held', ARGV[3])
    redis.call('SADD', KEYS[6], scope)
  end
end
return 1
