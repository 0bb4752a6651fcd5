"""The Lua of `tapes.py`, one step each, by Redis' own clock (6.2 and later).

A claim is a hash: `d` digest of what was asked, `r` request id, `s` state, `u` until when (ms) the
runner's lease lasts. A tape is a list of parts. Per organization, `due` (request id -> ms at which
its tape expires) and `sizes` (request id -> bytes, and their `total`) bound what is kept.

A command that Redis carries out after its sender has given it up changes nothing: each says until
when it counts, by Redis' clock, and is answered `late` after that. Every answer ends with the time.
"""

_NOW = """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
"""

CLAIM = (
    _NOW
    + """
if now > tonumber(ARGV[5]) then return {'late', '', now} end
local asked, rid = unpack(redis.call('HMGET', KEYS[1], 'd', 'r'))
if asked and asked ~= ARGV[1] then return {'other', rid, now} end
if asked and rid ~= ARGV[2] then return {'taken', rid, now} end
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local epoch, open = redis.call('GET', KEYS[2]) or '', ARGV[6] .. run .. ':'
if not asked and string.sub(epoch, 1, #open) ~= open then return {'unknown', '', now} end
redis.call('HSET', KEYS[1], 'd', ARGV[1], 'r', ARGV[2], 's', 'running', 'u', now + ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'claimed', ARGV[2], now}
"""
)
"""KEYS: claim, epoch of the shard. ARGV: digest, request id, lease, time to live, until when this
counts, what the epoch of an open shard begins with.

A key of which Redis knows nothing is claimed only in a shard that was opened for this process: all
that ran before is in the ledger then, and what still runs has been announced.
"""

WRITE = (
    _NOW
    + """
local claim, tape, due, sizes = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local asked, rid, becomes, written = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local lease_ms, ttl_ms, bytes_max, counts_until = ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8]
local parts_at = 9
local unkept = {too_large = true, no_room = true, torn = true}

local function forget(old)
  local size = redis.call('HGET', sizes, old)
  if size then
    redis.call('HINCRBY', sizes, 'total', '-' .. size)
    redis.call('HDEL', sizes, old)
  end
  redis.call('ZREM', due, old)
end

if becomes ~= 'released' and now > tonumber(counts_until) then return {'late', now} end
local holder, state = unpack(redis.call('HMGET', claim, 'r', 's'))
if holder and holder ~= rid then return {'gone', now} end
if not holder then redis.call('HSET', claim, 'd', asked, 'r', rid) end
local has_beginning = redis.call('LLEN', tape) >= written
if becomes ~= 'released' then
  if unkept[state] then
    becomes = state
  elseif not has_beginning and not unkept[becomes] then
    becomes = 'torn'
  end
end

for _, old in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, 100)) do
  forget(old)
end

if has_beginning and not unkept[becomes] and not unkept[state] then
  local first = parts_at + redis.call('LLEN', tape) - written
  local added = 0
  for i = first, #ARGV do added = added + #ARGV[i] end
  local fits = tonumber(redis.call('HGET', sizes, 'total') or 0) + added <= bytes_max
  if not fits and becomes ~= 'released' then
    becomes = 'no_room'
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
if unkept[becomes] then
  forget(rid)
  redis.call('DEL', tape)
elseif redis.call('PEXPIRE', tape, ttl_ms) == 1 then
  redis.call('ZADD', due, now + ttl_ms, rid)
  redis.call('PEXPIRE', due, 2 * ARGV[6])
  redis.call('PEXPIRE', sizes, 2 * ARGV[6])
end
return {becomes, now}
"""
)
"""Parts already there are not written twice, so a write without an answer may be repeated. Of a
Redis that was emptied the claim is made again, though the tape has no beginning any more (`torn`):
the call must not run a second time. What is released can be read for as long as a lease by who
follows it, and a release is never late.
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
return {state, redis.call('LRANGE', KEYS[2], ARGV[2], ARGV[2] + ARGV[3] - 1), now}
"""
)
