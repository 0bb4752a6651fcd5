-- Prepended to every script, with `now_us` before it. Names in capitals are constants that
-- scripts.py writes in: the layouts of state.py, and RUN, the id of the Redis process a script is
-- for. Times are microseconds of Redis' own clock. All state is packed numbers, and all of a call's
-- state is read by one MGET and written by one MSET: what a command costs is mostly that it is one.
-- So with functions: to make one costs little, to let it capture variables costs more.

-- Called without keys, a script only says whether this is the process it was written for.
if #KEYS == 0 then
  return string.find(redis.call('INFO', 'server'), 'run_id:' .. RUN, 1, true) and 1 or 0
end

-- A shard is open only in the Redis process it was opened for: a restarted one starts unprimed.
local function is_open(epoch)
  return epoch and string.sub(epoch, 1, #OPEN) == OPEN
end

-- The names of a call's scopes, and where they begin.
local function names_of(call)
  local _, n, m, _, _, _, _, _, size = struct.unpack(CALL, call)
  local from = LIMITS_AT + n * (LIMITS_SIZE + MARKS_SIZE) + m * (METER_SIZE + MARK_SIZE)
  return string.sub(call, from, from + size - 1), from
end
