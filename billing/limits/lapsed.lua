-- A lease that lapses frees its slot at once, by Redis' clock; its hold stays open until somebody
-- settles it. `running` of a scope counts every open hold, so only where that reaches the limit is
-- it looked at whose leases have lapsed. What was found is noted, `ms scope count scope count`: of
-- the open holds of each scope, how many have a lease that ended before `ms`. So each lease is
-- looked at once. The note says nothing that the due times do not, and may be lost at any time.

local function lapsed_note(text)
  local note = {to = 0, counts = {}}
  if text then
    note.to = tonumber(string.match(text, '^%d+'))
    for scope, count in string.gmatch(text, ' (%S+) (%d+)') do
      note.counts[scope] = tonumber(count)
    end
  end

  local function count(names, change)
    for scope in string.gmatch(names, '%S+') do
      note.counts[scope] = (note.counts[scope] or 0) + change
    end
  end

  local function write(key)
    local words = {}
    for scope, number in pairs(note.counts) do
      if number > 0 then words[#words + 1] = ' ' .. scope .. ' ' .. number end
    end
    if #words == 0 then return redis.call('DEL', key) end
    table.sort(words)
    redis.call('SET', key, string.format('%d', note.to) .. table.concat(words))
  end

  -- Adds what has lapsed since the last look.
  function note.look(key, due_key, call_prefix, now_ms)
    local now = string.format('%d', now_ms)
    local rids = redis.call('ZRANGEBYSCORE', due_key, note.to, '(' .. now)
    for first = 1, #rids, 1000 do
      local calls = {}
      for i = first, math.min(first + 999, #rids) do calls[#calls + 1] = call_prefix .. rids[i] end
      for _, call in ipairs(redis.call('MGET', unpack(calls))) do
        if call and string.sub(call, 1, 1) == 'h' then count(names_of(call), 1) end
      end
    end
    note.to = now_ms
    if #rids > 0 then write(key) end
    return note.counts
  end

  -- A call whose lease ended at `due` is settled or renewed: it no longer counts as lapsed.
  function note.forget(key, due, names)
    if due >= note.to then return end
    count(names, -1)
    write(key)
  end

  return note
end
