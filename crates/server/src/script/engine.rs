//! How a script runs: its state, what it finds there, and what becomes of its end.

use std::cell::{Cell, RefCell};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::time::Instant;

use lru::LruCache;
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value};

use super::native::{self, ScriptChoices};
use super::thrown::{LIBRARY_NAME, NAME, Thrown, text_of};
use super::values::{self, Converter};
use super::watch::{Ended, ScriptWatch};
use crate::resp::reply::Reply;

/// What each state begins with.
const PRELUDE: &str = include_str!("prelude.lua");

/// What runs the commands of a script.
pub trait ScriptHost {
    /// Runs a command. No reply ends the script, and all that it has done is to be dropped.
    fn call(&mut self, args: &[&[u8]]) -> Option<Reply>;

    /// Whether the user of the script may call a command, if there is one.
    fn allows(&mut self, args: &[&[u8]]) -> Option<bool>;
}

/// A script that is to run.
pub struct ScriptRun<'a> {
    /// The digest of the script, or of the library.
    pub sha: &'a str,
    /// The text of the script, or of the library.
    pub code: &'a [u8],
    /// The function of the library that is called.
    pub function: Option<&'a str>,
    /// The keys that it is called with.
    pub keys: &'a [&'a [u8]],
    /// The other arguments.
    pub args: &'a [&'a [u8]],
    /// What it may take.
    pub limits: ScriptLimits,
    /// Says whether it is to end before.
    pub is_killed: Box<dyn Fn() -> bool>,
}

impl<'a> ScriptRun<'a> {
    /// How errors name it.
    fn name(&self) -> &'a str {
        self.function.unwrap_or(self.sha)
    }
}

/// What a script may take.
#[derive(Clone, Copy)]
pub struct ScriptLimits {
    /// When it is ended.
    pub until: Option<Instant>,
    /// Bytes of its Lua.
    pub memory: usize,
}

/// How a script has ended.
#[derive(Debug)]
pub enum ScriptEnd {
    /// By itself, with a reply.
    Reply(Reply),
    /// With an error: all that it has done is to be dropped.
    Failed(Reply),
    /// By its host.
    ByHost,
}

fn failed(error: mlua::Error) -> Vec<u8> {
    text_of(&error).into_bytes()
}

/// Fails with what is wrong with a text that is no script.
pub fn check(code: &[u8]) -> Result<(), Vec<u8>> {
    let lua = Lua::new_with(StdLib::NONE, LuaOptions::default()).map_err(failed)?;
    lua.set_memory_limit(values::MEMORY_MAX).map_err(failed)?;
    let why = |error| [b"Error compiling script (new function): ", &failed(error)[..]].concat();
    compiled(&lua, code, NAME).map(|_| ()).map_err(why)
}

fn compiled(lua: &Lua, code: &[u8], name: &str) -> mlua::Result<Function> {
    if code.first() == Some(&0x1b) {
        return Err(mlua::Error::runtime("user_script:1: unexpected symbol near 'char(27)'"));
    }
    lua.load(code).set_name(name).set_mode(ChunkMode::Text).into_function()
}

/// What a library says of one of its functions.
pub struct Registered {
    /// The name of the function.
    pub name: String,
    /// What it is for, if that is said.
    pub description: Option<Vec<u8>>,
    /// Names of flags.
    pub flags: Vec<String>,
}

/// The functions that a library registers, or why it registers none.
pub fn registered(code: &[u8], limits: ScriptLimits) -> Result<Vec<Registered>, Vec<u8>> {
    let state = ScriptState::new().map_err(failed)?;
    let memory = state.lua.used_memory() + limits.memory;
    state.lua.set_memory_limit(memory).map_err(failed)?;
    state.watch.begin(limits.until, Box::new(|| false));
    let library = compiled(&state.lua, code, LIBRARY_NAME);
    let library =
        library.map_err(|error| [b"Error compiling function: ", &failed(error)[..]].concat())?;
    let ended = state.registered.call::<(bool, Table)>(library);
    let why = match (state.watch.ended(), ended) {
        (Some(Ended::Late), _) => b"ERR FUNCTION LOAD timeout".to_vec(),
        (Some(_), _) => b"ERR it needs more memory than a script may have".to_vec(),
        (None, Ok((true, functions))) => return told(&functions).map_err(failed),
        (None, Ok((false, error))) => values::text_in(&error, "err").unwrap_or_default(),
        (None, Err(error)) => failed(error),
    };
    Err([b"Error registering functions: ", &why[..]].concat())
}

/// What is said of registered functions, in the order of their names.
fn told(functions: &Table) -> mlua::Result<Vec<Registered>> {
    let told = functions.pairs::<String, Table>().map(|pair| {
        let (name, told) = pair?;
        let description: Option<LuaString> = told.raw_get("description")?;
        let description = description.map(|words| words.as_bytes().to_vec());
        Ok(Registered { name, description, flags: told.raw_get("flags")? })
    });
    let mut told = told.collect::<mlua::Result<Vec<_>>>()?;
    told.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(told)
}

/// Most bytes of a state that stays for the next script, and most compiled scripts in it.
const KEPT_MAX: usize = 8 << 20;
const COMPILED_MAX: NonZeroUsize = NonZeroUsize::new(64).unwrap();

thread_local! {
    /// The state that is there for the next script of this thread.
    static READY: Cell<Option<ScriptState>> = const { Cell::new(None) };
}

/// Runs a script, in the state of the last one if that has left it as it was.
pub fn run(run: ScriptRun<'_>, host: &mut dyn ScriptHost) -> ScriptEnd {
    let sha = run.name();
    let ran = READY.take().map_or_else(ScriptState::new, Ok).and_then(|mut state| {
        let end = state.run(run, host)?;
        if matches!(end, ScriptEnd::Reply(_)) && state.is_as_new() {
            READY.set(Some(state));
        }
        Ok(end)
    });
    ran.unwrap_or_else(|error| {
        let why = text_of(&error);
        ScriptEnd::Failed(Reply::error(format!("ERR Error running script {sha}, {why}")))
    })
}

/// A Lua in which scripts run, one after another.
struct ScriptState {
    lua: Lua,
    /// Calls a script.
    main: Function,
    /// Says what a library has.
    registered: Function,
    watch: Rc<ScriptWatch>,
    choices: Rc<ScriptChoices>,
    /// Scripts by their digests.
    compiled: LruCache<String, Function>,
}

impl ScriptState {
    fn new() -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let (watch, choices) = (ScriptWatch::new(&lua)?, Rc::default());
        let native = native::functions(&lua, &watch, &choices)?;
        let (main, registered) = lua.load(PRELUDE).set_name("=prelude").call(native)?;
        let compiled = LruCache::new(COMPILED_MAX);
        Ok(Self { lua, main, registered, watch, choices, compiled })
    }

    /// Whether the next script finds what the first one has found.
    fn is_as_new(&self) -> bool {
        self.watch.is_as_new() && self.lua.used_memory() <= KEPT_MAX
    }

    fn compiled(&mut self, sha: &str, code: &[u8], name: &str) -> mlua::Result<Function> {
        if let Some(script) = self.compiled.get(sha) {
            return Ok(script.clone());
        }
        let script = compiled(&self.lua, code, name)?;
        self.compiled.push(sha.to_owned(), script.clone());
        Ok(script)
    }

    fn run(&mut self, run: ScriptRun<'_>, host: &mut dyn ScriptHost) -> mlua::Result<ScriptEnd> {
        let name = run.name();
        let ScriptRun { sha, code, function, keys, args, limits, is_killed } = run;
        self.lua.set_memory_limit(self.lua.used_memory() + limits.memory)?;
        let chunk = if function.is_some() { LIBRARY_NAME } else { NAME };
        let script = self.compiled(sha, code, chunk)?;
        let (state, host) = (&*self, &RefCell::new(host));
        let Self { lua, main, watch, choices, .. } = state;
        choices.forget();
        watch.begin(limits.until, is_killed);
        let words = |words: &[&[u8]]| {
            lua.create_sequence_from(words.iter().map(|word| values::Bytes(word)))
        };
        let (keys, args) = (words(keys)?, words(args)?);
        let called = lua.scope(|scope| {
            let call = |raises: bool| {
                scope.create_function(move |lua, given: MultiValue| {
                    watch.look(lua)?;
                    state.call(&mut **host.borrow_mut(), raises, &given)
                })
            };
            let allows = |_: &Lua, given: MultiValue| allows(&mut **host.borrow_mut(), &given);
            let functions = (call(true)?, call(false)?, scope.create_function(allows)?);
            main.call((script, functions.0, functions.1, functions.2, keys, args, function))
        });
        // What the reply is made of is there.
        lua.set_memory_limit(0)?;
        let is_over = || watch.look(lua).is_err();
        let ran = called.map(|(is_well, value): (bool, Value)| match is_well {
            true => match Converter::new(choices.protocol.get(), &is_over).reply(&value) {
                Some(reply) => ScriptEnd::Reply(reply),
                None => ScriptEnd::Failed(Reply::error("ERR the reply of the script is too long")),
            },
            false => ScriptEnd::Failed(values::failure(&value, name)),
        });
        watch.ended().map_or(ran, |why| Ok(ended(why, name)))
    }

    /// The value of the reply to a command; its errors are thrown if it `raises`.
    fn call(
        &self,
        host: &mut dyn ScriptHost,
        raises: bool,
        given: &MultiValue,
    ) -> mlua::Result<Value> {
        let reply = match values::arguments(given) {
            Err(why) => Reply::error(why),
            Ok(args) => {
                let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                host.call(&args).ok_or_else(|| self.watch.end(&self.lua, Ended::ByHost))?
            }
        };
        match reply {
            Reply::Error(words) if raises => Err(Thrown::error(&words)),
            reply => values::to_lua(&self.lua, &reply, self.choices.protocol.get()),
        }
    }
}

/// Whether the user may call a command.
fn allows(host: &mut dyn ScriptHost, given: &MultiValue) -> mlua::Result<Value> {
    let args = values::arguments(given).map_err(|why| Thrown::error(why.as_bytes()))?;
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let why = b"ERR Invalid command passed to redis.acl_check_cmd()";
    host.allows(&args).map(Value::Boolean).ok_or_else(|| Thrown::error(why))
}

fn ended(why: Ended, name: &str) -> ScriptEnd {
    let why = match why {
        Ended::ByHost => return ScriptEnd::ByHost,
        Ended::Killed => "Script killed by user with SCRIPT KILL...",
        Ended::Greedy => "Script ended: it needs more memory than a script may have",
        Ended::Late => "Script ended: it has run for longer than busy-reply-threshold allows",
    };
    ScriptEnd::Failed(Reply::error(format!("ERR {why} script: {name}; nothing was written")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::script::digest::sha1_hex;

    /// A host whose commands answer a number, but for `stop`.
    struct Numbers;

    impl ScriptHost for Numbers {
        fn call(&mut self, args: &[&[u8]]) -> Option<Reply> {
            match args[0] {
                b"stop" => None,
                b"fail" => Some(Reply::error("ERR failed")),
                _ => Some(Reply::Double(1.5)),
            }
        }

        fn allows(&mut self, _: &[&[u8]]) -> Option<bool> {
            Some(true)
        }
    }

    const MEMORY: usize = 4 << 20;

    fn run_with(code: &str, keys: &[&[u8]], until: Option<Instant>) -> ScriptEnd {
        let (sha, limits) = (sha1_hex(code.as_bytes()), ScriptLimits { until, memory: MEMORY });
        let (code, is_killed) = (code.as_bytes(), Box::new(|| false));
        let run =
            ScriptRun { sha: &sha, code, function: None, keys, args: keys, limits, is_killed };
        super::run(run, &mut Numbers)
    }

    fn shown(code: &str) -> String {
        match run_with(code, &[], None) {
            ScriptEnd::Reply(reply) | ScriptEnd::Failed(reply) => format!("{reply:?}"),
            ScriptEnd::ByHost => "by host".to_owned(),
        }
    }

    /// Whether the last state of this thread is there for the next script.
    fn is_kept() -> bool {
        let state = READY.take();
        let is_kept = state.is_some();
        READY.set(state);
        is_kept
    }

    /// Says what a script finds.
    const FOUND: &str = r#"
        local found, names = {}, {'_G', '_VERSION', 'assert', 'bit', 'cjson', 'cmsgpack',
            'collectgarbage', 'coroutine', 'error', 'gcinfo', 'getmetatable', 'ipairs', 'load',
            'loadstring', 'math', 'next', 'pairs', 'pcall', 'rawequal', 'rawget', 'rawset', 'redis',
            'select', 'setmetatable', 'string', 'struct', 'table', 'tonumber', 'tostring', 'type',
            'unpack', 'xpcall', 'KEYS', 'ARGV', 'x', 'leak'}
        local inner = {'call', 'pcall', 'sha1hex', 'log', 'encode', 'decode', 'null', 'pack',
            'unpack', 'find', 'gsub', 'rep', 'format', 'upper', 'insert', 'remove', 'sort',
            'concat', 'floor', 'pi', 'huge', 'random', 'wrap', 'resume', 'band', 'x', 'leak', 1, 2,
            '__index'}
        local function add(what) found[#found + 1] = tostring(what):gsub('0x%x+', '') end
        local function seen(name, value, depth)
            add(name) add(type(value))
            if type(value) == 'table' or type(value) == 'string' then
                local meta = getmetatable(value)
                add(meta ~= nil) add(meta ~= nil and getmetatable(meta) == meta)
                if meta then for key in pairs(meta) do add(key) end end
            end
            if type(value) ~= 'table' then return end
            for key, it in next, value do add(key) add(it) end
            if depth == 1 then
                for _, key in ipairs(inner) do
                    local is_there, it = pcall(function() return value[key] end)
                    add(is_there) seen(key, it, 2)
                end
            end
        end
        for _, name in ipairs(names) do
            local is_there, it = pcall(function() return _G[name] end)
            add(is_there) seen(name, it, 1)
        end
        seen('text', 'text', 1)
        add(('abc'):upper()) add(('ab'):rep(2)) add(#KEYS) add(#ARGV)
        add(redis.call('x')) add(type(redis.pcall('x'))) add(redis.pcall('fail').err)
        add(cjson.encode({1, {a = 'b/'}, 1 / 3})) add(cjson.decode('[1.5,null]')[1])
        add(pcall(cjson.encode, {[100] = 1})) add(pcall(cjson.encode, 1 / 0))
        add(select('#', struct.unpack('I', struct.pack('I', 7)))) add(bit.band(7, 2))
        add(coroutine.wrap(function() coroutine.yield(5) end)())
        add(cjson.encode_max_depth()) add(cjson.decode_max_depth())
        add(collectgarbage('setpause', 200)) add(collectgarbage('setstepmul', 200))
        local before = gcinfo() local t for i = 1, 20000 do t = {} end add(gcinfo() < before + 900)
        return table.concat(found, ' ')"#;

    /// Calls a function with each library.
    const EACH: &str = "
        local libraries = {_G, string, table, math, coroutine, redis, cjson, struct, bit}
        local function each(body) for _, t in ipairs(libraries) do pcall(body, t) end end ";

    /// Scripts that try to leave something behind.
    const LEAVING: &str = r#"
        x = 1
        _G.x = 1
        _G[1] = 1
        rawset(_G, 'x', 1)
        rawset(string, 'x', 1)
        each(function(t) pcall(rawset, t, 'x', 1) end)
        each(function(t) pcall(table.insert, t, 'x') end)
        each(function(t) pcall(table.insert, t, 1, 'x') end)
        each(function(t) pcall(setmetatable, t, {}) end)
        each(function(t) pcall(function() t.leak = 1 end) end)
        each(function(t) pcall(function() t.call, t.rep, t.encode = 1, 1, 1 end) end)
        each(function(t) pcall(table.remove, t, 1) pcall(table.sort, t) end)
        each(function(t) rawset(getmetatable(t), 'x', 1) end)
        each(function(t) getmetatable(t).leak = 1 end)
        each(function(t) rawset(getmetatable(getmetatable(t)), 'x', 1) end)
        each(function(t) getmetatable(getmetatable(t)).__newindex = nil end)
        each(function(t) setmetatable(getmetatable(t), nil) end)
        each(function(t) table.insert(getmetatable(t), 1) end)
        local m = getmetatable(_G) getmetatable(m).__newindex = nil m.leak = 1
        getmetatable('').__index = function() return 1 end
        getmetatable('').leak = 1
        rawset(getmetatable(''), '__index', nil)
        local _, e = pcall(redis.call, 'fail') getmetatable(e).x = 1
        rawset(getmetatable(select(2, pcall(redis.call, {}))), '__tostring', nil)
        rawset(getmetatable(select(2, xpcall(error, redis.call))), '__index', {})
        local m = getmetatable(cjson.null) if m then m.__index = {} end
        string.upper = nil
        table.insert(string, 'x')
        table.sort(_G, function() return true end)
        string.gsub('x', 'x', function() rawset(string, 'x', 1) end)
        coroutine.wrap(function() _G.x = 1 end)()
        coroutine.wrap(function() coroutine.yield(rawset(_G, 'x', 1)) end)()
        loadstring('x = 1')()
        load(function() return nil end)()
        KEYS[1] = 'x' ARGV[2] = 'y'
        KEYS = {1, 2}
        redis.setresp(3)
        math.randomseed(7)
        cjson.encode_max_depth(7)
        cjson.decode_max_depth(7)
        cjson.encode_number_precision(3)
        cjson.encode_sparse_array(true)
        cjson.encode_invalid_numbers(true)
        collectgarbage('stop')
        collectgarbage('setpause', 900)
        collectgarbage('setstepmul', 1)
        local t = {} for i = 1, 1000 do t[i] = ('x'):rep(1000) .. i end
        local function f() return coroutine.wrap(f)() end f()
        local function f() return f() + 1 end f()
        error('x')
        error(setmetatable({}, {__tostring = function() leak = 1 end}))
        redis.call('fail')
        redis.call('stop')
        pcall(redis.call, 'stop')
        local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end
        while true do end
    "#;

    fn each_leaving() -> impl Iterator<Item = String> {
        LEAVING.trim().lines().map(|line| format!("{EACH}{line}"))
    }

    #[test]
    fn a_script_leaves_nothing_for_the_next() {
        READY.take();
        let as_new = shown(FOUND);
        assert!(as_new.starts_with("Bulk"), "{as_new}");
        for script in each_leaving() {
            READY.take();
            let soon = Some(Instant::now() + Duration::from_millis(200));
            run_with(&script, &[b"a", b"b"], soon);
            assert_eq!(shown(FOUND), as_new, "{script}");
        }
        // All in one state, as far as it is kept.
        for _ in 0..3 {
            for script in each_leaving() {
                let soon = Some(Instant::now() + Duration::from_millis(20));
                run_with(&script, &[b"a", b"b"], soon);
            }
            assert_eq!(shown(FOUND), as_new);
        }
    }

    #[test]
    fn numbers_are_drawn_anew() {
        let draw = "return tostring(math.random())";
        let seeded = shown(&format!("math.randomseed(7) {draw}"));
        assert_ne!(shown(draw), seeded);
        assert_eq!(shown(&format!("math.randomseed(7) {draw}")), seeded);
    }

    #[test]
    fn a_state_stays_if_its_script_has_ended_well() {
        let kept = ["return 1", "return {1, {2}}", "redis.call('x')", "return pcall(error, 'x')"];
        for script in kept {
            shown(script);
            assert!(is_kept(), "{script}");
        }
        let lost = [
            "error('x')",
            "return x",
            "return redis.call('fail')",
            "redis.call('stop')",
            "pcall(redis.call, 'stop')",
            "cjson.encode_max_depth(7)",
            "collectgarbage('stop')",
            "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
            "pcall(string.rep, 'x', 1e7)",
            "return loadstring(('x = 1 '):rep(3e5))",
            "xpcall(function() return ('x'):rep(1e7) end, function() end)",
            "coroutine.resume(coroutine.create(function() return ('x'):rep(1e7) end))",
            "pcall(cjson.encode, {('x'):rep(2e6), ('x'):rep(2e6)})",
            "local new = ('x'):rep(2 ^ 20)
             local function replace(inner)
                 local left = 40
                 pcall(string.gsub, ('a'):rep(left), 'a', function()
                     left = left - 1
                     return left > 0 and new or inner()
                 end)
             end
             replace(function() replace(error) error() end)",
        ];
        for script in lost {
            let end = run_with(script, &[], None);
            assert!(!is_kept(), "{script}: {end:?}");
            let may_reply = script.starts_with("cjson") || script.starts_with("collect");
            assert_eq!(matches!(end, ScriptEnd::Reply(_)), may_reply, "{script}: {end:?}");
        }
        let pairs = KEPT_MAX / COMPILED_MAX;
        for number in 0..COMPILED_MAX.get() {
            shown(&format!("return '{}'", format!("{number:02}").repeat(pairs)));
            let state = READY.take();
            assert!(state.as_ref().is_none_or(|state| state.lua.used_memory() <= KEPT_MAX));
            READY.set(state);
        }
    }

    #[test]
    fn a_sort_can_be_ended() {
        let looks = |code: &str| {
            let (sha, looks) = (sha1_hex(code.as_bytes()), Rc::new(Cell::new(0)));
            let of_script = looks.clone();
            let is_killed = Box::new(move || {
                of_script.set(of_script.get() + 1);
                false
            });
            let limits = ScriptLimits { until: None, memory: MEMORY };
            let (code, keys, args) = (code.as_bytes(), &[], &[]);
            let run = ScriptRun { sha: &sha, code, function: None, keys, args, limits, is_killed };
            assert!(matches!(super::run(run, &mut Numbers), ScriptEnd::Reply(_)));
            looks.get()
        };
        let list = "local list = {} for i = 1, 10000 do list[i] = i * 7 % 10007 end";
        assert!(looks(&format!("{list} table.sort(list)")) > 5 * looks(list));
    }

    #[test]
    fn compiled_scripts_are_bounded() {
        for number in 0..=COMPILED_MAX.get() {
            shown(&format!("return {number}"));
        }
        let state = READY.take().unwrap();
        assert_eq!(state.compiled.len(), COMPILED_MAX.get());
        assert!(state.compiled.peek(&sha1_hex(b"return 0")).is_none());
    }
}
