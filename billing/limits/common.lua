-- Prepended to every script, after a line `local RUN, LAYOUT = '<run id of this Redis process>',
-- '<version of the layout>'` and `now_us`. Times are microseconds of Redis' own clock. All state is
-- packed numbers, and all of a call's state is read by one MGET and written by one MSET: what a
-- command costs is mostly that it is one. state.py says the same layouts in Python.

-- Called without keys, a script only says whether this is the process it was written for.
if #KEYS == 0 then
  return string.find(redis.call('INFO', 'server'), 'run_id:' .. RUN, 1, true) and 1 or 0
end

-- Of a scope: held, running (open holds), spent in all (high and low part), the latest month with
-- what was spent in it (high and low part), when the request bucket will be empty and what was ever
-- given back to it, the same of the token bucket. What earlier months spent stands in a hash.
local SCOPE = '<ddddddddddd'
local NEW = string.rep('\0', 88)

-- Of a call: kind (h held, e settled as estimated, x settled exactly), number of scopes, held or
-- settled amount, tokens counted, month, ms until which the lease runs, lengths of the names and of
-- the opened payload; then LIMITS of every scope, MARKS of every scope, the names of the scopes
-- with a space between, the opened payload, and what is left is the checkpoint. An `e` has no
-- payloads, an `x` ends with its amount.
local CALL = '<c1BddddHI4'
local SETTLED = '<c1Bd'
local LIMITS_AT = 41

-- The limits a call was admitted under: request cost, request tolerance, token cost, token
-- tolerance (microseconds; a cost of -1 is no limit), concurrency, budget (infinite is none),
-- tokens per minute (0 is no limit), whether the budget counts the month (1) or all (0).
local LIMITS = '<dddddddd'
local LIMITS_SIZE = 64

-- A call's place in both buckets (see gcra.py), token bucket first; 0 is forgotten: no refund.
local MARKS = '<dd'
local MARKS_SIZE = 16

-- A shard is open only in the Redis process it was opened for: a restarted one starts unprimed.
local OPEN = LAYOUT .. ':open:' .. RUN .. ':'
local function is_open(epoch)
  return epoch and string.sub(epoch, 1, #OPEN) == OPEN
end

-- Sums outgrow what a double adds exactly, so they have a high and a low part.
local PART = 1000000000000000
local function add(high, low, amount)
  local parts = math.floor(amount / PART)
  high, low = high + parts, low + (amount - parts * PART)
  if low >= PART then return high + 1, low - PART end
  if low < 0 then return high - 1, low + PART end
  return high, low
end

local function whole(high, low)
  if tonumber(high) > 0 then return string.format('%d%015d', high, low) end
  return string.format('%d', high * PART + low)
end

-- What a scope has spent in a month, given the latest month it knows and what was spent in that.
local function spent_in(month, latest, high, low, past_key)
  if month == latest then return high * PART + low end
  if month > latest then return 0 end
  return tonumber(redis.call('HGET', past_key, month) or 0)
end

-- The names of a call's scopes, and where they begin.
local function names_of(call)
  local _, n, _, _, _, _, size = struct.unpack(CALL, call)
  local from = LIMITS_AT + n * (LIMITS_SIZE + MARKS_SIZE)
  return string.sub(call, from, from + size - 1), from
end
