-- What each script finds: the libraries of Lua as Redis has them, and its own, all of them locked,
-- so that a script leaves nothing for the next one. Called with functions of the server. Returns a
-- function that calls a script, or a function of a library, and one that says what a library has;
-- both return whether that ended well, and its value or its error.
local native = ...
local error, pairs, rawget, rawset, select, setmetatable, tostring, type =
  error, pairs, rawget, rawset, select, setmetatable, tostring, type
local raw_pcall, raw_xpcall, raw_loadstring, byte = pcall, xpcall, loadstring, string.byte
local READONLY = 'Attempt to modify a readonly table'

local globals, real, locked = _G, {}, {}

-- What is told of the metatable of a locked table, and of its own.
local meta = {}
setmetatable(meta, {__newindex = function() error(READONLY, 2) end, __metatable = meta})
locked[meta] = true

local function unknown(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

-- A table in place of another, which cannot be reached through it, and how it is found there. What
-- is read is the other's; nothing can be written.
local function lock(table, door, is_whole)
  door = door or {}
  locked[door] = true
  if is_whole then setmetatable(table, {__index = unknown}) end
  local found = {
    __index = table,
    __newindex = function() error(READONLY, 2) end,
    __metatable = meta,
  }
  return setmetatable(door, found), found
end

-- Errors are tables with a field `err`. As before Redis 7, scripts catch its text.
local function caught(is_well, first, ...)
  if is_well then return true, first, ... end
  first = native.seen(first)
  if type(first) == 'table' and type(first.err) == 'string' then first = first.err end
  return false, first
end

local function with_place(failure)
  failure = native.seen(failure)
  if type(failure) ~= 'table' then
    failure = {err = 'ERR ' .. tostring(failure)}
  end
  local source, line = native.place()
  if line then
    rawset(failure, 'source', source)
    rawset(failure, 'line', line)
  end
  return failure
end

for name, value in pairs(globals) do real[name] = value end
for name in pairs(real) do globals[name] = nil end
for _, name in pairs {'dofile', 'getfenv', 'loadfile', 'newproxy', 'print', 'setfenv'} do
  real[name] = nil
end

real.pcall = function(...) return caught(raw_pcall(...)) end

-- The handler runs where the error is caught: hooks, which end a script, are off where it came up.
local function handled(handler, is_well, first, ...)
  if is_well then return true, first, ... end
  return false, native.seen(select(2, raw_pcall(handler, native.seen(first))))
end
real.xpcall = function(body, handler) return handled(handler, raw_pcall(body)) end
real.loadstring = function(text, name)
  if type(text) == 'string' and byte(text) == 27 then
    return nil, "unexpected symbol near '\27'"
  end
  local body, why = raw_loadstring(text, name or text)
  return body, native.seen(why)
end
real.load = function(piece, name)
  local pieces = {}
  repeat
    local text = piece()
    pieces[#pieces + 1] = text
  until text == nil or text == ''
  return real.loadstring(real.table.concat(pieces), name or '=(load)')
end
real.rawset = function(table, key, value)
  if locked[table] then error(READONLY, 0) end
  return rawset(table, key, value)
end
real.setmetatable = function(table, meta)
  if locked[table] then error(READONLY, 0) end
  return setmetatable(table, meta)
end

-- Fails, in the script, unless an argument of its call of a function with so many is of a type.
local function need(value, kind, at, name, count)
  if type(value) == kind then return value end
  local got = at > count and 'no value' or type(value)
  error(("bad argument #%d to '%s' (%s expected, got %s)"):format(at, name, kind, got), 3)
end

-- A script that tunes the collector of garbage leaves that to the next one.
local collect = real.collectgarbage
local options = {collect = false, count = false, step = false}
for _, name in pairs {'stop', 'restart', 'setpause', 'setstepmul'} do options[name] = true end
real.collectgarbage = function(option, ...)
  option = need(option == nil and 'collect' or option, 'string', 1, 'collectgarbage', 1)
  if options[option] == nil then
    error(("bad argument #1 to 'collectgarbage' (invalid option '%s')"):format(option), 2)
  end
  if options[option] then native.spend() end
  return collect(option, ...)
end

-- In place of functions of C, which cannot be ended, and write to locked tables.
local function whole(number) return number - number % 1 end

real.table.insert = function(...)
  local count, list, at, value = select('#', ...), ...
  local last = #need(list, 'table', 1, 'insert', count) + 1
  if locked[list] then error(READONLY, 0) end
  if count == 2 then
    rawset(list, last, at)
  elseif count == 3 then
    at = whole(need(real.tonumber(at) or at, 'number', 2, 'insert', count))
    for i = last, at + 1, -1 do rawset(list, i, rawget(list, i - 1)) end
    rawset(list, at, value)
  else
    error("wrong number of arguments to 'insert'", 2)
  end
end

real.table.remove = function(...)
  local count, list, at = select('#', ...), ...
  local last = #need(list, 'table', 1, 'remove', count)
  at = at == nil and last or whole(need(real.tonumber(at) or at, 'number', 2, 'remove', count))
  if not (at >= 1 and at <= last) then return end
  local value = rawget(list, at)
  for i = at, last - 1 do rawset(list, i, rawget(list, i + 1)) end
  rawset(list, last, nil)
  return value
end

local sort, match = real.table.sort, real.string.match
local function is_less(one, other) return one < other end
real.table.sort = function(...)
  local count, list, less = select('#', ...), ...
  need(list, 'table', 1, 'sort', count)
  if less ~= nil then
    need(less, 'function', 2, 'sort', count)
    return sort(list, function(one, other) return less(one, other) end)
  end
  local is_well, why = raw_pcall(sort, list, is_less)
  if not is_well then error(type(why) == 'string' and match(why, '^prelude:%d+: (.*)') or why, 0) end
end

real.table.foreachi = function(...)
  local count, list, body = select('#', ...), ...
  need(list, 'table', 1, 'foreachi', count)
  need(body, 'function', 2, 'foreachi', count)
  for i = 1, #list do
    local found = body(i, rawget(list, i))
    if found ~= nil then return found end
  end
end

local rep = real.string.rep
real.string.rep = function(...)
  local count, text, times = select('#', ...), ...
  local kind = type(text) == 'number' and 'number' or 'string'
  need(text, kind, 1, 'rep', count)
  times = need(real.tonumber(times) or times, 'number', 2, 'rep', count)
  return text == '' and '' or rep(text, times)
end

-- Coroutines in coroutines take room that Lua 5.1 does not count.
local resume, create, depth = real.coroutine.resume, real.coroutine.create, 0
local function resumed(is_well, first, ...)
  depth = depth - 1
  if is_well then return true, first, ... end
  return false, native.seen(first)
end
real.coroutine.resume = function(...)
  if depth >= 16 then return false, 'C stack overflow' end
  depth = depth + 1
  return resumed(resume(...))
end
real.coroutine.wrap = function(body)
  local thread = create(body)
  local function passed(is_well, first, ...)
    if is_well then return first, ... end
    error(first, type(first) == 'string' and 3 or 0)
  end
  return function(...) return passed(real.coroutine.resume(thread, ...)) end
end

real.math.randomseed = native.seed
real.math.random = native.door(function(...)
  local count, drawn = select('#', ...), native.random()
  if count == 0 then return true, drawn end
  local low, high = ...
  if count == 1 then low, high = 1, low end
  if count > 2 then return false, 'wrong number of arguments', true end
  if low > high then
    return false, ("bad argument #%d to 'random' (interval is empty)"):format(count), true
  end
  return true, real.math.floor(drawn * (high - low + 1)) + low
end)

local function single(name)
  return function(...)
    local text = ...
    if select('#', ...) ~= 1 or type(text) ~= 'string' then
      return {err = 'ERR wrong number or type of arguments'}
    end
    if name == 'err' then
      if text:sub(1, 1) == '-' then text = text:sub(2) end
      if not text:find(' ', 1, true) then text = 'ERR ' .. text end
    end
    return {[name] = text}
  end
end

local major, minor, patch = native.version:match('(%d+)%.(%d+)%.(%d+)')
local redis = {
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
  REDIS_VERSION = native.version,
  REDIS_VERSION_NUM = major * 65536 + minor * 256 + patch,
  error_reply = single('err'),
  status_reply = single('ok'),
  replicate_commands = function() return true end,
  breakpoint = function() return false end,
  debug = function() end,
}

redis.sha1hex = native.door(function(...)
  if select('#', ...) ~= 1 then return false, 'wrong number of arguments' end
  local text = ...
  if type(text) == 'number' then text = tostring(text) end
  return true, native.sha1hex(type(text) == 'string' and text or '')
end)

redis.set_repl = native.door(function(...)
  if select('#', ...) ~= 1 then return false, 'redis.set_repl() requires two arguments.' end
  local flags = real.tonumber((...)) or 0
  if flags >= 0 and flags <= 3 then return true end
  return false, 'Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.'
end)

redis.log = native.door(function(...)
  if select('#', ...) < 2 then return false, 'redis.log() requires two arguments or more.' end
  local level = real.tonumber((...))
  if not level then return false, 'First argument must be a number (log level).' end
  if level >= 0 and level <= 3 then return true end
  return false, 'Invalid debug level.'
end)

redis.setresp = native.door(function(...)
  if select('#', ...) ~= 1 then return false, 'redis.setresp() requires one argument.' end
  local version = real.tonumber((...)) or 0
  if version ~= 2 and version ~= 3 then return false, 'RESP version must be 2 or 3.' end
  native.set_protocol(version)
  return true
end)

real.redis = redis
for name, library in pairs(native.libraries) do real[name] = library end
for name, body in pairs(native.string) do real.string[name] = body end
real.string.gfind = real.string.gmatch
for name, library in pairs(real) do
  if type(library) == 'table' and library ~= globals then real[name] = lock(library) end
end
local of_strings = real.getmetatable('')
of_strings.__index, of_strings.__metatable = real.string, meta
real._G = globals
local _, of_globals = lock(real, globals, true)

-- What a library finds while it is loaded, and the functions that it registers meanwhile.
local loading
local api = {register_function = native.door(function(...)
  if not loading then
    return false, 'redis.register_function can only be called on FUNCTION LOAD command'
  end
  return native.register(loading, ...)
end)}
for name, value in pairs(redis) do
  if name:find('^LOG_') or name:find('^REDIS_') or name == 'log' then api[name] = value end
end
api = lock({redis = lock(api, nil, true)}, nil, true)

-- Has a library register its functions, which are returned by their names.
local function registered(library)
  local functions = {}
  loading, of_globals.__index = functions, api
  local is_well, failure = raw_pcall(library)
  loading, of_globals.__index = nil, real
  if is_well then return true, functions end
  failure = native.seen(failure)
  return false, type(failure) == 'table' and failure or {err = 'ERR ' .. tostring(failure)}
end

-- Calls a script, or the function of a library with a name: both find commands of their own, and a
-- script keys and arguments.
local function run(body, call, try, allows, keys, arguments, name)
  redis.call, redis.pcall, redis.acl_check_cmd = call, try, allows
  if not name then
    real.KEYS, real.ARGV = keys, arguments
    return raw_xpcall(body, with_place)
  end
  real.KEYS, real.ARGV = nil, nil
  local is_well, functions = registered(body)
  if not is_well then return false, functions end
  -- A library might name its functions by chance.
  if not functions[name] then return false, {err = 'ERR Function not found'} end
  local callback = functions[name].callback
  return raw_xpcall(function() return callback(keys, arguments) end, with_place)
end

return run, registered
