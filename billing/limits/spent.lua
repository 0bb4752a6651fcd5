-- What a scope has spent in a month, given the latest month it knows and what was spent in that.
local function spent_in(month, latest, high, low, past_key)
  if month == latest then return high * PART + low end
  return tonumber(redis.call('HGET', past_key, month) or 0)
end
