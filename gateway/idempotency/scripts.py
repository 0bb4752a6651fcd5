"""The Lua of `tapes.py`, one step each, by Redis' own clock (6.2 and later).

A claim is a hash: `d` digest of what was asked, `r` request id, `s` state, `u` until when (ms) the
runner's lease lasts. A tape is a list of parts. Per organization, `due` (request id -> ms at which
its tape expires) and `sizes` (request id -> bytes, and their `total`) bound what is kept.
"""

_NOW = """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
"""

CLAIM = (
    _NOW
    + """
local asked, rid = unpack(redis.call('HMGET', KEYS[1], 'd', 'r'))
if asked and asked ~= ARGV[1] then return {'other', rid} end
if asked and rid ~= ARGV[2] then return {'taken', rid} end
redis.call('HSET', KEYS[1], 'd', ARGV[1], 'r', ARGV[2], 's', 'running', 'u', now + ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'claimed', ARGV[2]}
"""
)

WRITE = (
    _NOW
    + """
local claim, tape, due, sizes = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local asked, rid, becomes, written = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local lease_ms, ttl_ms, bytes_max = ARGV[5], ARGV[6], tonumber(ARGV[7])

local function forget(old)
  local size = redis.call('HGET', sizes, old)
  if size then
    redis.call('HINCRBY', sizes, 'total', '-' .. size)
    redis.call('HDEL', sizes, old)
  end
  redis.call('ZREM', due, old)
end

local holder, state = unpack(redis.call('HMGET', claim, 'r', 's'))
if holder and holder ~= rid then return 'gone' end
if not holder then redis.call('HSET', claim, 'd', asked, 'r', rid) end
local is_whole = redis.call('LLEN', tape) >= written and state ~= 'too_large'
if not is_whole and becomes ~= 'released' then becomes = 'too_large' end

for _, old in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, 100)) do
  forget(old)
end

if is_whole and becomes ~= 'too_large' then
  local first = 8 + redis.call('LLEN', tape) - written
  local added = 0
  for i = first, #ARGV do added = added + #ARGV[i] end
  local fits = tonumber(redis.call('HGET', sizes, 'total') or 0) + added <= bytes_max
  if not fits and becomes ~= 'released' then
    becomes = 'too_large'
  elseif fits and added > 0 then
    for i = first, #ARGV do redis.call('RPUSH', tape, ARGV[i]) end
    redis.call('HINCRBY', sizes, rid, added)
    redis.call('HINCRBY', sizes, 'total', added)
  end
end

if becomes == 'released' then
  redis.call('DEL', claim)
  ttl_ms = lease_ms
else
  redis.call('HSET', claim, 's', becomes, 'u', now + lease_ms)
  redis.call('PEXPIRE', claim, ttl_ms)
end
if becomes == 'too_large' then
  forget(rid)
  redis.call('DEL', tape)
elseif redis.call('PEXPIRE', tape, ttl_ms) == 1 then
  redis.call('ZADD', due, now + ttl_ms, rid)
  redis.call('PEXPIRE', due, 2 * ARGV[6])
  redis.call('PEXPIRE', sizes, 2 * ARGV[6])
end
return becomes
"""
)
"""Parts already there are not written twice, so a write without an answer may be repeated. Of a
Redis that was wiped the claim is made again, though the tape has no beginning any more: the call
must not run a second time. What is released can be read for as long as a lease by who follows it.
"""

ABANDON = """
if redis.call('HGET', KEYS[1], 'r') == ARGV[1] then redis.call('HSET', KEYS[1], 'u', 0) end
"""

READ = (
    _NOW
    + """
local holder, state, lease = unpack(redis.call('HMGET', KEYS[1], 'r', 's', 'u'))
if holder ~= ARGV[1] then
  state = 'gone'
elseif state == 'running' and tonumber(lease) < now then
  state = 'lapsed'
end
return {state, redis.call('LRANGE', KEYS[2], ARGV[2], ARGV[2] + ARGV[3] - 1)}
"""
)
