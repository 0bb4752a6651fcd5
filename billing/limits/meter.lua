-- Meters: limits with a state of their own, which Redis forgets once they are idle.

-- An empty bucket says nothing, so it is kept for as long as it leaks.
local function put_bucket(key, now, tat, refunded, born)
  local left_ms = math.ceil((tat - now) / 1000)
  if left_ms <= 0 then return redis.call('DEL', key) end
  redis.call('SET', key, struct.pack(BUCKET, tat, refunded, born), 'PX', left_ms)
end

-- A call at once is a lease: it frees its slot when it lapses, whoever forgot it.
local function take_slot(key, rid, due_ms, lease_ms)
  redis.call('ZADD', key, due_ms, rid)
  redis.call('PEXPIRE', key, lease_ms + SLOT_TTL_MS)
end

-- Where the METERs, their marks and their names stand in a call.
local function meters_in(call)
  local _, n, m, _, _, _, _, _, names_size, size = struct.unpack(CALL, call)
  local at = LIMITS_AT + n * LIMITS_SIZE
  local marks_at = at + m * METER_SIZE + n * MARKS_SIZE
  local names_at = marks_at + m * MARK_SIZE + names_size
  return at, marks_at, string.sub(call, names_at, names_at + size - 1)
end
