"""The scripts of the cache: everything that must be true at one moment is decided inside Valkey, in one call.

    playhead:state                     "<run id> <generation> <bucket>", with a time to live: there is a cache
    playhead:floors:<generation>:<n>   hash: cache key → version; what is older must not be shown
    playhead:entry:<generation>:<key>  hash: what was read, and which versions of which keys it was read at
    playhead:fill:<generation>:<key>   token of the one who may fill it
    playhead:offsets:<generation>      hash: partition → next offset of cache.invalidated; topic → its id
    playhead:newest                    the generation opened last

Nothing here trusts what eviction could take away. An evicted entry or token is a miss. Floors do not lie in a key
each: all of half an hour are one hash, and while one of the two hashes is missing nothing is shown at all. An entry
lives shorter than a floor, so what a floor forbids is gone before the floor is.

A restarted server, or another one that took over, has another run id: then there is no cache until the worker has
begun a new generation. Needs a single server (or one with replicas), no cluster: keys are made up in the scripts.
"""

from __future__ import annotations

from typing import Final

STATE_KEY: Final = "playhead:state"
BUCKET_S: Final = 1_800
"""How long floors are collected in one hash; each is kept for two of these, so for at least one."""
ENTRY_TTL_S: Final = 900
TOKEN_TTL_MS: Final = 3_000
_FLOORS_TTL_S: Final = 3 * BUCKET_S  # for generations nobody is in any more
assert ENTRY_TTL_S + TOKEN_TTL_MS / 1000 < BUCKET_S, "an entry must not outlive the floors that forbid it"

_COMMON: Final = """
local function run_id()
    return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
end
-- generation and bucket of the open cache, or nil
local function opened()
    local state = redis.call('GET', 'playhead:state')
    if not state then return nil end
    local run, generation, bucket = string.match(state, '^(%x+) (%x+) (%d+)$')
    if run ~= run_id() then return nil end
    return generation, tonumber(bucket)
end
local function floors_of(generation, bucket) return 'playhead:floors:' .. generation .. ':' .. bucket end
local function new_floors(generation, bucket)
    local name = floors_of(generation, bucket)
    redis.call('HSET', name, '', '0.0.-1')
    redis.call('EXPIRE', name, FLOORS_TTL_S)
end
local function whole(generation, bucket)
    return redis.call('EXISTS', floors_of(generation, bucket), floors_of(generation, bucket - 1)) == 2
end
local function parts(text)
    local m, l, v = string.match(text, '^(%-?%d+)%.(%-?%d+)%.(%-?%d+)$')
    return tonumber(m), tonumber(l), tonumber(v)
end
-- whether version a is older than b
local function older(a, b)
    local am, al, av = parts(a)
    local bm, bl, bv = parts(b)
    if am ~= bm then return am < bm end
    if al ~= bl then return al < bl end
    return av < bv
end
-- nothing below this version of the key is shown from now on
local function raise(generation, bucket, key, version)
    local floors = floors_of(generation, bucket)
    local known = redis.call('HGET', floors, key)
    if not known or older(known, version) then redis.call('HSET', floors, key, version) end
    local entry = 'playhead:entry:' .. generation .. ':' .. key
    local own = redis.call('HGET', entry, 'own')
    if own and older(own, version) then redis.call('UNLINK', entry) end
end
-- whether everything read at these versions is still to be shown
local function above(generation, bucket, deps)
    for one = bucket - 1, bucket do
        local asked = {}
        for index = 1, #deps do asked[index] = deps[index][1] end
        local found = redis.call('HMGET', floors_of(generation, one), unpack(asked))
        for index = 1, #deps do
            if found[index] and older(deps[index][2], found[index]) then return false end
        end
    end
    return true
end
""".replace("FLOORS_TTL_S", str(_FLOORS_TTL_S))

LOOK: Final = (
    _COMMON
    + """
-- ARGV: key, variant, token, its time to live in ms, '1' to read anew whatever there is
local generation, bucket = opened()
if not generation or not whole(generation, bucket) then return {'closed'} end
local entry = 'playhead:entry:' .. generation .. ':' .. ARGV[1]
local fill = 'playhead:fill:' .. generation .. ':' .. ARGV[1]
if ARGV[5] ~= '1' then
    local found = redis.call('HMGET', entry, 'deps:' .. ARGV[2], 'value:' .. ARGV[2])
    if found[1] and found[2] then
        if above(generation, bucket, cjson.decode(found[1])) then return {'hit', generation, found[2]} end
        redis.call('UNLINK', entry)
    end
    if not redis.call('SET', fill, ARGV[3], 'NX', 'PX', ARGV[4]) then return {'busy', generation} end
else
    -- Whoever reads now reads newer: an older reader's answer is not taken any more.
    redis.call('SET', fill, ARGV[3], 'PX', ARGV[4])
end
return {'fill', generation}
"""
)

OFFER: Final = (
    _COMMON
    + """
-- ARGV: key, variant, token, generation it was given in, deps as JSON, value, time to live in s, then what it shows:
-- key, version, key, version…
-- Empty token: what was read is only told, so that nothing older is shown from now on.
local generation, bucket = opened()
if not generation or not whole(generation, bucket) then return 'closed' end
local entry = 'playhead:entry:' .. generation .. ':' .. ARGV[1]
local fill = 'playhead:fill:' .. generation .. ':' .. ARGV[1]
local deps = cjson.decode(ARGV[5])
for index = 8, #ARGV, 2 do raise(generation, bucket, ARGV[index], ARGV[index + 1]) end
local ours = ARGV[3] ~= '' and ARGV[4] == generation and redis.call('GET', fill) == ARGV[3]
-- Ours is used up; another's was given for a read that may be older than this one.
redis.call('DEL', fill)
if ours then
    if not above(generation, bucket, deps) then return 'stale' end
    -- own: the oldest version of the key that any of the answers was read at.
    local own = redis.call('HGET', entry, 'own')
    if not own or older(deps[1][2], own) then redis.call('HSET', entry, 'own', deps[1][2]) end
    redis.call('HSET', entry, 'deps:' .. ARGV[2], ARGV[5], 'value:' .. ARGV[2], ARGV[6])
    -- Only from the first: a hash that was prolonged would outlive floors.
    redis.call('EXPIRE', entry, ARGV[7], 'NX')
    return 'stored'
end
local own = redis.call('HGET', entry, 'own')
if own and older(own, deps[1][2]) then
    redis.call('UNLINK', entry)
    return 'replaced'
end
local known = redis.call('HGET', entry, 'deps:' .. ARGV[2])
if known then
    local at = {}
    for _, dep in ipairs(cjson.decode(known)) do at[dep[1]] = dep[2] end
    for _, dep in ipairs(deps) do
        if not at[dep[1]] or older(at[dep[1]], dep[2]) then
            redis.call('UNLINK', entry)
            return 'replaced'
        end
    end
end
return 'told'
"""
)

RAISE: Final = (
    _COMMON
    + """
-- ARGV: generation or '' for the one that is open, offsets as JSON {partition: next}, then key, version, key, version…
local generation, bucket = opened()
if not generation or (ARGV[1] ~= '' and ARGV[1] ~= generation) then return 'closed' end
if not whole(generation, bucket) then return 'closed' end
for index = 3, #ARGV, 2 do raise(generation, bucket, ARGV[index], ARGV[index + 1]) end
for partition, offset in pairs(cjson.decode(ARGV[2])) do
    local at = redis.call('HGET', 'playhead:offsets:' .. generation, partition)
    if not at or tonumber(at) < offset then
        redis.call('HSET', 'playhead:offsets:' .. generation, partition, string.format('%.0f', offset))
    end
end
return 'raised'
"""
)

RENEW: Final = (
    _COMMON
    + """
-- ARGV: generation, time to live in ms, bucket length in s
local generation, bucket = opened()
if generation ~= ARGV[1] then return generation and 'another' or 'lapsed' end
if not whole(generation, bucket) then
    redis.call('DEL', 'playhead:state')
    return 'lapsed'
end
local now = math.floor(tonumber(redis.call('TIME')[1]) / tonumber(ARGV[3]))
if now > bucket then
    redis.call('DEL', floors_of(generation, bucket - 1))
    if now > bucket + 1 then
        redis.call('RENAME', floors_of(generation, bucket), floors_of(generation, now - 1))
    end
    new_floors(generation, now)
    bucket = now
end
redis.call('EXPIRE', 'playhead:offsets:' .. generation, FLOORS_TTL_S)
redis.call('SET', 'playhead:state', run_id() .. ' ' .. generation .. ' ' .. bucket, 'PX', ARGV[2])
return 'renewed'
""".replace("FLOORS_TTL_S", str(_FLOORS_TTL_S))
)

OPEN: Final = (
    _COMMON
    + """
-- ARGV: run id it was prepared under, new generation, time to live in ms, bucket length in s, offsets as JSON,
-- topic id, the newest generation there was when it was prepared
if run_id() ~= ARGV[1] then return 'restarted' end
if opened() or (redis.call('GET', 'playhead:newest') or '') ~= ARGV[7] then return 'another' end
local bucket = math.floor(tonumber(redis.call('TIME')[1]) / tonumber(ARGV[4]))
new_floors(ARGV[2], bucket)
new_floors(ARGV[2], bucket - 1)
for partition, offset in pairs(cjson.decode(ARGV[5])) do
    redis.call('HSET', 'playhead:offsets:' .. ARGV[2], partition, string.format('%.0f', offset))
end
redis.call('HSET', 'playhead:offsets:' .. ARGV[2], 'topic', ARGV[6])
redis.call('EXPIRE', 'playhead:offsets:' .. ARGV[2], FLOORS_TTL_S)
redis.call('SET', 'playhead:newest', ARGV[2])
redis.call('SET', 'playhead:state', ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. bucket, 'PX', ARGV[3])
return 'opened'
""".replace("FLOORS_TTL_S", str(_FLOORS_TTL_S))
)

CLOSE: Final = (
    _COMMON
    + """
-- ARGV: generation. From here on nothing of it is shown; what it left behind ends by its time to live.
local generation = opened()
if generation == ARGV[1] then redis.call('DEL', 'playhead:state') end
return 'closed'
"""
)

JOIN: Final = (
    _COMMON
    + """
-- run id, newest generation, and when that is open its offsets: another worker can go on from there
local newest = redis.call('GET', 'playhead:newest') or ''
local generation = opened()
if not generation then return {run_id(), newest} end
return {run_id(), generation, redis.call('HGETALL', 'playhead:offsets:' .. generation)}
"""
)
