-- Re-creates a live hold that Redis forgot, without checks; nothing happens if it is known.
-- KEYS: due, usage, scopes, epoch, call
-- ARGV: rid, tokens, held, lease_ms, month, limits and names of the scopes, opened payload,
--   checkpoint payload or '', key prefix
-- Returns 1 if it was re-created, else 0

if redis.call('EXISTS', KEYS[5]) == 1 then return 0 end
local due, n = math.floor(now_us() / 1000) + ARGV[4], #ARGV[6] / LIMITS_SIZE
redis.call('XADD', KEYS[2], '*', 'k', 'reserved', 'r', ARGV[1], 'p', ARGV[8])
redis.call('SET', KEYS[5],
  struct.pack(CALL, 'h', n, ARGV[3], ARGV[2], ARGV[5], due, #ARGV[7], #ARGV[8]) .. ARGV[6]
  .. string.rep(struct.pack(MARKS, 0, 0), n) .. ARGV[7] .. ARGV[8] .. ARGV[9])
redis.call('ZADD', KEYS[1], due, ARGV[1])
if is_open(redis.call('GET', KEYS[4])) then
  hold_in_scopes(ARGV[10], KEYS[3], ARGV[7], ARGV[3])
end
return 1
