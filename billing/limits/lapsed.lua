-- A lease that lapses frees its slot at once, by Redis' clock; its hold stays open until somebody
-- settles it. `running` of a scope counts every open hold, so only where that reaches the limit is
-- it looked at whose leases have lapsed. What was found is noted, `ms scope count scope count`: of
-- the open holds of each scope, how many have a lease that ended before `ms`. So each lease is
-- looked at once. The note says nothing that the due times do not, and may be lost at any time.

local function read_note(text)
  local to, counts = 0, {}
  if text then
    to = tonumber(string.match(text, '^%d+'))
    for scope, count in string.gmatch(text, ' (%S+) (%d+)') do counts[scope] = tonumber(count) end
  end
  return to, counts
end

local function write_note(key, to, counts)
  local words = {}
  for scope, count in pairs(counts) do
    if count > 0 then words[#words + 1] = ' ' .. scope .. ' ' .. count end
  end
  if #words == 0 then return redis.call('DEL', key) end
  table.sort(words)
  redis.call('SET', key, string.format('%d', to) .. table.concat(words))
end

-- Notes what has lapsed since the last look; returns the counts.
local function note_lapsed(text, key, due_key, call_prefix, now_ms)
  local to, counts = read_note(text)
  local rids = redis.call('ZRANGEBYSCORE', due_key, to, '(' .. string.format('%d', now_ms))
  for first = 1, #rids, 1000 do
    local calls = {}
    for i = first, math.min(first + 999, #rids) do calls[#calls + 1] = call_prefix .. rids[i] end
    for _, call in ipairs(redis.call('MGET', unpack(calls))) do
      local is_open_hold = call and string.sub(call, 1, 1) == 'h'
      for scope in string.gmatch(is_open_hold and names_of(call) or '', '%S+') do
        counts[scope] = (counts[scope] or 0) + 1
      end
    end
  end
  if #rids > 0 then write_note(key, now_ms, counts) end
  return counts
end

-- A call whose lease ended at `due` is settled or renewed: it no longer counts as lapsed.
local function forget_lapsed(text, key, due, names)
  local to, counts = read_note(text)
  if due >= to then return end
  for scope in string.gmatch(names, '%S+') do counts[scope] = (counts[scope] or 0) - 1 end
  write_note(key, to, counts)
end
