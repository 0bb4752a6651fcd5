local function now_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
