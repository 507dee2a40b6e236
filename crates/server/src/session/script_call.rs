//! Calls of scripts, and the commands about scripts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::command::args::{is, number};
use crate::command::help::{self, help};
use crate::exec::{Answer, Halt};
use crate::resp::reply::Reply;
use crate::script::{MEMORY_MAX, RunningScript, Script, ScriptLimits};
use crate::shared::ServerShared;

/// What each argument counts besides its bytes.
pub(super) const ARGUMENT_BYTES: usize = 64;

/// What a run where it may not wait takes at most: bytes of arguments, time, and bytes of its Lua.
const SHORT_BYTES: usize = 64 << 10;
const SHORT_TIME: Duration = Duration::from_millis(1);
const SHORT_MEMORY: usize = 1 << 20;

/// `SCRIPT EXISTS | FLUSH | HELP | KILL | LOAD`
pub(super) fn about(shared: &ServerShared, name: &str, args: &[&[u8]]) -> Answer {
    let scripts = &shared.scripts;
    match name {
        "script|exists" => {
            let known = |sha: &&[u8]| Reply::Integer(scripts.named(sha).is_some().into());
            Ok(Reply::Array(args[2..].iter().map(known).collect()))
        }
        "script|flush" => match &args[2..] {
            [] => Ok(()),
            [word] if is(word, "SYNC") || is(word, "ASYNC") => Ok(()),
            _ => Err(Halt::error("ERR SCRIPT FLUSH only support SYNC|ASYNC option")),
        }
        .map(|()| {
            scripts.flush();
            Reply::OK
        }),
        "script|kill" if scripts.running.kill() => Ok(Reply::OK),
        "script|kill" => Err(Halt::error("NOTBUSY No scripts in execution right now.")),
        "script|load" => {
            let script = shared.scripts.load(args[2]).map_err(no_script_of)?;
            Ok(Reply::Bulk(script.sha.clone().into()))
        }
        _ => Ok(help(help::SCRIPT)),
    }
}

/// The error of a text that is no script.
fn no_script_of(why: Vec<u8>) -> Halt {
    Halt::error([b"ERR ", &why[..]].concat())
}

/// A call of a script.
pub(super) struct ScriptCall<'k> {
    /// The script.
    pub(super) script: Arc<Script>,
    /// All arguments of the call.
    pub(super) words: &'k [&'k [u8]],
    /// The keys that it is called with.
    pub(super) keys: &'k [&'k [u8]],
    /// The other arguments.
    pub(super) args: &'k [&'k [u8]],
    /// Whether it may write nothing.
    pub(super) reads_only: bool,
    /// What it may take, however often it is run again.
    pub(super) limits: ScriptLimits,
    /// What tells of its end.
    pub(super) running: RunningScript<'k>,
}

impl<'k> ScriptCall<'k> {
    /// The call that arguments ask for. Without `may_wait` it is of a short run, or none.
    pub(super) fn of(
        shared: &'k ServerShared,
        name: &str,
        args: &'k [&'k [u8]],
        may_wait: bool,
    ) -> Answer<Self> {
        let no_script = || Halt::error("NOSCRIPT No matching script. Please use EVAL.");
        let (is_sha, is_function) = (name.starts_with("evalsha"), name.starts_with("fcall"));
        if is_sha && args[1].len() != 40 {
            return Err(no_script());
        }
        let function = match is_function {
            true => {
                let known = shared.libraries.now().function(args[1]);
                Some(known.ok_or_else(|| Halt::error("ERR Function not found"))?)
            }
            false => None,
        };
        let count = number(args[2]).map_err(|halt| match is_function {
            true => Halt::error("ERR Bad number of keys provided"),
            false => halt,
        })?;
        let words = &args[3..];
        if count < 0 {
            return Err(Halt::error("ERR Number of keys can't be negative"));
        }
        let (keys, rest) = usize::try_from(count)
            .ok()
            .and_then(|count| words.split_at_checked(count))
            .ok_or_else(|| {
                Halt::error("ERR Number of keys can't be greater than number of args")
            })?;
        let script = match function {
            Some(function) => function,
            None if is_sha => shared.scripts.named(args[1]).ok_or_else(no_script)?,
            None if may_wait => shared.scripts.load(args[1]).map_err(no_script_of)?,
            None => shared.scripts.of_text(args[1]).ok_or(Halt::Wait)?,
        };
        let bytes = || args.iter().map(|argument| argument.len() + ARGUMENT_BYTES).sum::<usize>();
        if !may_wait && (bytes() > SHORT_BYTES || !script.is_to_be_tried()) {
            return Err(Halt::Wait);
        }
        let is_ro = name.ends_with("_ro");
        if is_ro && script.writes_nothing == Some(false) {
            let why = "ERR Can not execute a script with write flag using *_ro command.";
            return Err(Halt::error(why));
        }
        let reads_only = is_ro || script.writes_nothing == Some(true);
        let limits = match may_wait {
            true => ScriptLimits { until: until(shared), memory: MEMORY_MAX },
            false => {
                ScriptLimits { until: Some(Instant::now() + SHORT_TIME), memory: SHORT_MEMORY }
            }
        };
        let running = match is_function {
            true => shared.libraries.running.start(args),
            false => shared.scripts.running.start(&[]),
        };
        Ok(Self { script, words: args, keys, args: rest, reads_only, limits, running })
    }
}

/// When a script that begins now is ended.
fn until(shared: &ServerShared) -> Option<Instant> {
    let millis = shared.config.load().busy_reply_threshold.into();
    let time = Some(Duration::from_millis(millis)).filter(|time| !time.is_zero());
    time.map(|time| Instant::now() + time)
}
