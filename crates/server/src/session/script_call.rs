//! Calls of scripts, and the commands about scripts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::command::args::{is, number};
use crate::command::help::{self, help};
use crate::exec::{Answer, Halt};
use crate::resp::reply::Reply;
use crate::script::{RunningScript, Script};
use crate::shared::ServerShared;

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
        "script|kill" if scripts.kill() => Ok(Reply::OK),
        "script|kill" => Err(Halt::error("NOTBUSY No scripts in execution right now.")),
        "script|load" => Ok(Reply::Bulk(loaded(shared, args[2])?.sha.clone().into())),
        _ => Ok(help(help::SCRIPT)),
    }
}

fn loaded(shared: &ServerShared, text: &[u8]) -> Answer<Arc<Script>> {
    shared.scripts.load(text).map_err(|why| Halt::error([b"ERR ", &why[..]].concat()))
}

/// A call of a script.
pub(super) struct ScriptCall<'k> {
    /// The script.
    pub(super) script: Arc<Script>,
    /// The keys that it is called with.
    pub(super) keys: &'k [&'k [u8]],
    /// The other arguments.
    pub(super) args: &'k [&'k [u8]],
    /// Whether it may write nothing.
    pub(super) reads_only: bool,
    /// When it is ended, however often it is run again.
    pub(super) until: Option<Instant>,
    /// What tells of its end.
    pub(super) running: RunningScript<'k>,
}

impl<'k> ScriptCall<'k> {
    /// The call that arguments ask for.
    pub(super) fn of(shared: &'k ServerShared, name: &str, args: &'k [&'k [u8]]) -> Answer<Self> {
        let no_script = || Halt::error("NOSCRIPT No matching script. Please use EVAL.");
        let is_sha = name.starts_with("evalsha");
        if is_sha && args[1].len() != 40 {
            return Err(no_script());
        }
        let (count, words) = (number(args[2])?, &args[3..]);
        if count < 0 {
            return Err(Halt::error("ERR Number of keys can't be negative"));
        }
        let (keys, rest) = usize::try_from(count)
            .ok()
            .and_then(|count| words.split_at_checked(count))
            .ok_or_else(|| {
                Halt::error("ERR Number of keys can't be greater than number of args")
            })?;
        let script = match is_sha {
            true => shared.scripts.named(args[1]).ok_or_else(no_script)?,
            false => loaded(shared, args[1])?,
        };
        let is_ro = name.ends_with("_ro");
        if is_ro && script.writes_nothing == Some(false) {
            let why = "ERR Can not execute a script with write flag using *_ro command.";
            return Err(Halt::error(why));
        }
        let reads_only = is_ro || script.writes_nothing == Some(true);
        let millis = shared.config.load().busy_reply_threshold.into();
        let time = Some(Duration::from_millis(millis)).filter(|time| !time.is_zero());
        let until = time.map(|time| Instant::now() + time);
        let running = shared.scripts.start();
        Ok(Self { script, keys, args: rest, reads_only, until, running })
    }
}
