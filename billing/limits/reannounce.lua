-- Re-creates a live hold that Redis forgot, without checks; nothing happens if it is known.
-- KEYS: due, usage, scopes, epoch, call
-- ARGV: rid, REQUEST with the LIMITS of every scope and every METER, names of the scopes, of the
--   meters, opened payload, checkpoint payload or '', key prefix
-- Returns 1 if it was re-created, else 0

if redis.call('EXISTS', KEYS[5]) == 1 then return 0 end
local input, output, hold, lease_ms, month, m = struct.unpack(REQUEST, ARGV[2])
local now = now_us()
local due = math.floor(now / 1000) + lease_ms
local n = (#ARGV[2] - REQUEST_SIZE - m * METER_SIZE) / LIMITS_SIZE
local call =
  struct.pack(CALL, 'h', n, m, hold, input, output, month, due, #ARGV[3], #ARGV[4], #ARGV[5])
  .. string.sub(ARGV[2], REQUEST_SIZE + 1)
  .. string.rep(struct.pack(MARKS, 0, 0), n) .. string.rep(struct.pack(MARK, 0, 0), m)
  .. ARGV[3] .. ARGV[4] .. ARGV[5] .. ARGV[6]
redis.call('XADD', KEYS[2], '*', 'k', 'reserved', 'r', ARGV[1], 'p', ARGV[5])
redis.call('SET', KEYS[5], call)
redis.call('ZADD', KEYS[1], due, ARGV[1])
local at = meters_in(call)
for name in string.gmatch(ARGV[4], '%S+') do
  if string.sub(call, at, at) == 'c' then
    take_slot(ARGV[7] .. 'meter:' .. name, ARGV[1], due, lease_ms)
  end
  at = at + METER_SIZE
end
local epoch = redis.call('GET', KEYS[4])
if is_open(epoch) then
  hold_in_scopes(ARGV[7], KEYS[3], ARGV[3], hold)
  if m > 0 then purses_in(epoch, now).hold(ARGV[7], call, hold) end
end
return 1
