//! How a script runs: its state, what it finds there, and what becomes of its end.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Value};

use super::native;
use super::thrown::{NAME, Thrown, text_of};
use super::values::{self, Converter};
use super::watch::{Ended, ScriptWatch};
use crate::resp::reply::{Protocol, Reply};

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
    /// The digest of the script.
    pub sha: &'a str,
    /// The text of the script.
    pub code: &'a [u8],
    /// The keys that it is called with.
    pub keys: &'a [&'a [u8]],
    /// The other arguments.
    pub args: &'a [&'a [u8]],
    /// When it is ended.
    pub until: Option<Instant>,
    /// Says whether it is to end before.
    pub is_killed: Box<dyn Fn() -> bool>,
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

/// Fails with what is wrong with a text that is no script.
pub fn check(code: &[u8]) -> Result<(), Vec<u8>> {
    let failed = |error: mlua::Error| text_of(&error).into_bytes();
    let lua = Lua::new_with(StdLib::NONE, LuaOptions::default()).map_err(failed)?;
    lua.set_memory_limit(values::MEMORY_MAX).map_err(failed)?;
    let why = |error| [b"Error compiling script (new function): ", &failed(error)[..]].concat();
    compiled(&lua, code).map(|_| ()).map_err(why)
}

fn compiled(lua: &Lua, code: &[u8]) -> mlua::Result<Function> {
    if code.first() == Some(&0x1b) {
        return Err(mlua::Error::runtime("user_script:1: unexpected symbol near 'char(27)'"));
    }
    lua.load(code).set_name(NAME).set_mode(ChunkMode::Text).into_function()
}

/// Runs a script.
pub fn run(run: ScriptRun<'_>, host: &mut dyn ScriptHost) -> ScriptEnd {
    let sha = run.sha;
    try_run(run, host).unwrap_or_else(|error| {
        let why = text_of(&error);
        ScriptEnd::Failed(Reply::error(format!("ERR Error running script {sha}, {why}")))
    })
}

fn try_run(run: ScriptRun<'_>, host: &mut dyn ScriptHost) -> mlua::Result<ScriptEnd> {
    let ScriptRun { sha, code, keys, args, until, is_killed } = run;
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    let watch = ScriptWatch::new(until, is_killed);
    let (host, protocol) = (RefCell::new(host), Cell::new(Protocol::Two));
    let (host, protocol, of_calls) = (&host, &protocol, &watch);
    lua.scope(|scope| {
        let native = native::functions(&lua, of_calls)?;
        let call = |raises: bool| {
            scope.create_function(move |lua, given: MultiValue| {
                of_calls.look(lua)?;
                let reply = match values::arguments(&given) {
                    Err(why) => Reply::error(why),
                    Ok(args) => {
                        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                        let reply = host.borrow_mut().call(&args);
                        reply.ok_or_else(|| of_calls.end(lua, Ended::ByHost))?
                    }
                };
                match reply {
                    Reply::Error(words) if raises => Err(Thrown::error(&words)),
                    reply => values::to_lua(lua, &reply, protocol.get()),
                }
            })
        };
        let allows = scope.create_function(move |_, given: MultiValue| {
            let args = values::arguments(&given).map_err(|why| Thrown::error(why.as_bytes()))?;
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let why = b"ERR Invalid command passed to redis.acl_check_cmd()";
            host.borrow_mut().allows(&args).ok_or_else(|| Thrown::error(why))
        })?;
        let set_protocol = scope.create_function(move |_, number: i64| {
            protocol.set(if number == 3 { Protocol::Three } else { Protocol::Two });
            Ok(())
        })?;
        native.set("call", call(true)?)?;
        native.set("pcall", call(false)?)?;
        native.set("allows", allows)?;
        native.set("set_protocol", set_protocol)?;
        let words = |words: &[&[u8]]| {
            lua.create_sequence_from(words.iter().map(|word| values::Bytes(word)))
        };
        let prelude = lua.load(PRELUDE).set_name("=prelude");
        let main: Function = prelude.call((native, words(keys)?, words(args)?))?;
        lua.set_memory_limit(values::MEMORY_MAX)?;
        watch.begin(&lua)?;
        let is_over = || watch.look(&lua).is_err();
        let end = |(is_well, value): (bool, Value)| match is_well {
            true => match Converter::new(protocol.get(), &is_over).reply(&value) {
                Some(reply) => ScriptEnd::Reply(reply),
                None => ScriptEnd::Failed(Reply::error("ERR the reply of the script is too long")),
            },
            false => ScriptEnd::Failed(values::failure(&value, sha)),
        };
        let ran = compiled(&lua, code).and_then(|script| main.call(script)).map(end);
        watch.ended().map_or(ran, |why| Ok(ended(why, sha)))
    })
}

fn ended(why: Ended, sha: &str) -> ScriptEnd {
    let why = match why {
        Ended::ByHost => return ScriptEnd::ByHost,
        Ended::Killed => "Script killed by user with SCRIPT KILL...",
        Ended::Late => "Script ended: it has run for longer than busy-reply-threshold allows",
    };
    ScriptEnd::Failed(Reply::error(format!("ERR {why} script: {sha}; nothing was written")))
}
