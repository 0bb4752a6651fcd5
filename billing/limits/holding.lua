-- Adds an open hold to each of its scopes.
local function hold_in_scopes(prefix, scopes_key, names, amount)
  for name in string.gmatch(names, '%S+') do
    local key = prefix .. 'scope:' .. name
    local s = {struct.unpack(SCOPE, redis.call('GET', key) or NEW)}
    s[1], s[2] = s[1] + amount, s[2] + 1
    redis.call('SET', key, struct.pack(SCOPE, unpack(s, 1, 11)))
    redis.call('SADD', scopes_key, name)
  end
end
