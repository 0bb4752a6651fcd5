-- Prepended to every script, after a line `local RUN = '<run id of this Redis process>'`.
-- Times are microseconds of Redis' own clock; money passes through as decimal strings.

local function now_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- A shard is open only in the Redis process it was opened for: a restarted one starts unprimed.
local OPEN = 'open:' .. RUN .. ':'
local function is_open(epoch_key)
  local epoch = redis.call('GET', epoch_key)
  return epoch and string.sub(epoch, 1, #OPEN) == OPEN
end

local function int(x)
  return string.format('%d', x)
end

-- A hold's field `s` lists its scopes, seven words each ('-' is none):
-- scope, tokens per minute, token mark, request cost, request mark, budget, budget window (t|m)
local SCOPE = '(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)'
