-- Re-creates a live hold that Redis forgot, without checks; nothing happens if it is known.
-- KEYS: hold, due, usage, epoch, scopes
-- ARGV: rid, tokens, held, lease_ms, month field, opened payload, checkpoint payload or '',
--   packed scopes, key prefix
-- Returns 1 if it was re-created, else 0

if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('XADD', KEYS[3], '*', 'k', 'reserved', 'r', ARGV[1], 'p', ARGV[6])
redis.call('HSET', KEYS[1], 'st', 'h', 'held', ARGV[3], 'n', ARGV[2], 'm', ARGV[5],
  's', ARGV[8], 'o', ARGV[6])
if ARGV[7] ~= '' then redis.call('HSET', KEYS[1], 'c', ARGV[7]) end
local due = int(now_us() / 1000 + ARGV[4])
redis.call('ZADD', KEYS[2], due, ARGV[1])
local open = is_open(KEYS[4])
for scope in string.gmatch(ARGV[8], SCOPE) do
  redis.call('ZADD', ARGV[9] .. 'conc:' .. scope, due, ARGV[1])
  if open then
    redis.call('HINCRBY', ARGV[9] .. 'money:' .. scope, 'held', ARGV[3])
    redis.call('SADD', KEYS[5], scope)
  end
end
return 1
