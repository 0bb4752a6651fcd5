-- Prepended to every script, after a line `local RUN = '<run id of this Redis process>'` and
-- `now_us`. Times are microseconds of Redis' own clock. All state is plain fields:
--   hold   hash of an open hold: held, n (tokens counted), m (month field), s (scopes), k (marks),
--          o (opened), c (checkpoint)
--   done   string left by a settled one: 'x amount' or 'e amount tokens month-field marks | scopes'
--   scope  hash: held, t and m<YYYYMM> (spent), rq and tk (when the request and the token bucket
--          will be empty), rr and tr (what was ever given back to them)

-- Called without keys, a script only says whether this is the process it was written for.
if #KEYS == 0 then
  return string.find(redis.call('INFO', 'server'), 'run_id:' .. RUN, 1, true) and 1 or 0
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

-- A hold's field `s` lists its scopes, five words each ('-' is none): scope, tokens per minute,
-- request cost, budget, field the budget counts against. `k` lists their marks (see gcra.py), two
-- words each: that of the token bucket, that of the request bucket (0 is forgotten: no refund).
local SCOPE = '(%S+) (%S+) (%S+) (%S+) (%S+)'
local MARKS = '(%d+) (%d+)'
