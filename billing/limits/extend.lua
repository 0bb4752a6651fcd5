-- Takes the meters of one more model for an open hold: all of them, or none. They go with the hold
-- from then on, as if it had been admitted with them.
-- KEYS: call, then every meter
-- ARGV: rid, every METER, names of the meters, 1: whatever they say
-- Returns new | held (they were taken before) | lost | settled | full (a call has no room for more),
--   or {number of the meter, wait_us} of a refusal, which writes nothing

local call = redis.call('GET', KEYS[1])
if not call then return 'lost' end
if string.sub(call, 1, 1) ~= 'h' then return 'settled' end
local _, n, m, held, input, output, month, due, names_size, meters_size, opened_size =
  struct.unpack(CALL, call)
local more, now = #KEYS - 1, now_us()
local at, marks_at, names = meters_in(call)
if string.find(' ' .. names .. ' ', ' ' .. ARGV[3] .. ' ', 1, true) then return 'held' end
if m + more > SCOPES_MAX then return 'full' end

local marks, buckets, refusal = '', {}
for j = 1, more do
  local kind, _, cost, tolerance = struct.unpack(METER, ARGV[2], METER_SIZE * (j - 1) + 1)
  local mark, life, over = 0, 0
  if kind == 'c' then
    local running = redis.call('ZCOUNT', KEYS[1 + j], math.floor(now / 1000), '+inf')
    if running >= tolerance then over = 0 end
  else
    local state = redis.call('GET', KEYS[1 + j])
    local tat, refunded, born = struct.unpack(BUCKET, state or EMPTY)
    if born == 0 then born = now end
    tat = math.max(tat, now) + cost
    mark, life = tat + refunded, born
    if tat - now > tolerance then over = tat - now - tolerance end
    buckets[j] = {tat, refunded, born}
  end
  if over and not (refusal and refusal[2] >= over) then refusal = {j, over} end
  marks = marks .. struct.pack(MARK, mark, life)
end
if refusal and ARGV[4] ~= '1' then return refusal end

local meters_end = at + m * METER_SIZE
local marks_end = marks_at + m * MARK_SIZE
local names_end = marks_end + names_size + meters_size
redis.call('SET', KEYS[1],
  struct.pack(CALL, 'h', n, m + more, held, input, output, month, due, names_size,
    meters_size + 1 + #ARGV[3], opened_size)
  .. string.sub(call, LIMITS_AT, meters_end - 1) .. ARGV[2]
  .. string.sub(call, meters_end, marks_end - 1) .. marks
  .. string.sub(call, marks_end, names_end - 1) .. ' ' .. ARGV[3] .. string.sub(call, names_end))
for j = 1, more do
  local key = KEYS[1 + j]
  if buckets[j] then
    put_bucket(key, now, unpack(buckets[j]))
  else
    redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('(%d', math.floor(now / 1000)))
    take_slot(key, ARGV[1], due, math.max(0, due - math.floor(now / 1000)))
  end
end
return 'new'
