-- Purses: what is held and spent of a hard budget in one period of it, or in the parts of a rolling
-- span. Another period is another key, so nothing is ever reset. The sums of the ledger are set when
-- a shard is opened, and count for the life of the shard that they were set for.
local function purses_in(epoch, now)
  local purses, life = {}, string.sub(epoch, #OPEN + 1)

  -- Held, spent, and the parts of a rolling span that still count, each whole.
  function purses.open(state, width, lasts)
    if not state then return 0, 0, '' end
    local held, spent, size = struct.unpack(PURSE, state)
    local at = PURSE_SIZE + 1 + size
    if string.sub(state, PURSE_SIZE + 1, at - 1) ~= life then return 0, 0, '' end
    if width > 0 then
      local from = now - lasts
      from = from - math.fmod(from, width)
      while at <= #state do
        local begins, amount = struct.unpack(SLICE, state, at)
        if begins >= from then break end
        spent, at = spent - amount, at + SLICE_SIZE
      end
    end
    return held, spent, string.sub(state, at)
  end

  function purses.put(key, held, spent, parts, width, lasts)
    local state = struct.pack(PURSE, held, spent, #life) .. life .. parts
    if lasts == 0 then return redis.call('SET', key, state) end
    local left_us = width > 0 and lasts or math.max(0, lasts - now)
    redis.call('SET', key, state, 'PX', string.format('%d', left_us / 1000 + PURSE_TTL_MS))
  end

  -- The parts of a rolling span, with more in one of them: mostly in the last.
  function purses.spend_in(parts, bucket, amount)
    local at = #parts - SLICE_SIZE + 1
    while at > 0 do
      local begins, before = struct.unpack(SLICE, parts, at)
      if begins == bucket then
        return string.sub(parts, 1, at - 1) .. struct.pack(SLICE, bucket, before + amount)
          .. string.sub(parts, at + SLICE_SIZE)
      end
      if begins < bucket then break end
      at = at - SLICE_SIZE
    end
    at = math.max(0, at + SLICE_SIZE - 1)
    return string.sub(parts, 1, at) .. struct.pack(SLICE, bucket, amount)
      .. string.sub(parts, at + 1)
  end

  -- Holds more of every purse of a call, unasked.
  function purses.hold(prefix, call, amount)
    local at, _, names = meters_in(call)
    for name in string.gmatch(names, '%S+') do
      local kind, _, width, lasts = struct.unpack(METER, call, at)
      if kind == 'p' then
        local key = prefix .. 'meter:' .. name
        local held, spent, parts = purses.open(redis.call('GET', key), width, lasts)
        purses.put(key, held + amount, spent, parts, width, lasts)
      end
      at = at + METER_SIZE
    end
  end

  return purses
end
