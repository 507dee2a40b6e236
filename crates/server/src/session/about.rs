//! Commands about the server and the client.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Session;
use crate::command::args::{is, syntax};
use crate::command::glob;
use crate::command::table::{self, COMMANDS, Command, flag};
use crate::exec::{Answer, Stop};
use crate::resp::reply::{Protocol, Reply};
use crate::shared::Shared;

/// The version of Redis whose commands these are, for clients that ask.
const REDIS_VERSION: &str = "7.0.15";

fn bulk(text: impl Into<String>) -> Reply {
    Reply::Bulk(text.into().into())
}

/// What a client says that it is called.
pub(super) fn checked_name(text: &[u8]) -> Answer<Vec<u8>> {
    match text.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        true => Ok(text.to_vec()),
        false => Err(Stop::error(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        )),
    }
}

/// The reply of `HELLO`.
pub(super) fn hello(session: &Session) -> Reply {
    let version = if session.protocol == Protocol::Two { 2 } else { 3 };
    Reply::Map(vec![
        (bulk("server"), bulk("redis")),
        (bulk("version"), bulk(REDIS_VERSION)),
        (bulk("proto"), Reply::Integer(version)),
        (bulk("id"), Reply::Integer(session.id.cast_signed())),
        (bulk("mode"), bulk("standalone")),
        (bulk("role"), bulk("master")),
        (bulk("modules"), Reply::Array(Vec::new())),
    ])
}

impl Session {
    pub(super) fn client(&mut self, args: &[&[u8]]) -> Answer {
        match args[1] {
            word if is(word, "ID") && args.len() == 2 => Ok(Reply::Integer(self.id.cast_signed())),
            word if is(word, "GETNAME") && args.len() == 2 => Ok(match self.name.is_empty() {
                true => Reply::Nil,
                false => Reply::Bulk(self.name.clone().into()),
            }),
            word if is(word, "SETNAME") && args.len() == 3 => {
                self.name = checked_name(args[2])?;
                Ok(Reply::OK)
            }
            _ => Err(no_subcommand("CLIENT", args[1])),
        }
    }
}

fn no_subcommand(command: &str, word: &[u8]) -> Stop {
    let word = String::from_utf8_lossy(&word[..word.len().min(128)]);
    Stop::error(format!("ERR unknown subcommand '{word}'. Try {command} HELP."))
}

fn described(command: &Command) -> Reply {
    let names = flag::NAMES.iter().filter(|(bit, _)| command.is(*bit));
    let (first, last, step) = command.keys;
    Reply::Array(vec![
        bulk(command.name),
        Reply::Integer(command.arity.into()),
        Reply::Set(names.map(|(_, name)| Reply::Status(name)).collect()),
        Reply::Integer(first as i64),
        Reply::Integer(last as i64),
        Reply::Integer(step as i64),
        Reply::Set(Vec::new()),
        Reply::Set(Vec::new()),
        Reply::Set(Vec::new()),
        Reply::Set(Vec::new()),
    ])
}

/// `COMMAND`, `COMMAND COUNT`, `COMMAND INFO [name ...]`, `COMMAND LIST`
pub(super) fn command(args: &[&[u8]]) -> Answer {
    let all = || COMMANDS.iter().map(described).collect();
    match args {
        [_] => Ok(Reply::Array(all())),
        [_, word] if is(word, "INFO") => Ok(Reply::Array(all())),
        [_, word, names @ ..] if is(word, "INFO") => {
            let found = |name: &&[u8]| table::find(name).map_or(Reply::NilArray, described);
            Ok(Reply::Array(names.iter().map(found).collect()))
        }
        [_, word] if is(word, "COUNT") => Ok(Reply::Integer(COMMANDS.len() as i64)),
        [_, word] if is(word, "LIST") => {
            Ok(Reply::Set(COMMANDS.iter().map(|command| bulk(command.name)).collect()))
        }
        _ => Err(no_subcommand("COMMAND", args[1])),
    }
}

/// `CONFIG GET pattern [pattern ...]`
pub(super) fn config(shared: &Shared, args: &[&[u8]]) -> Answer {
    let [_, word, patterns @ ..] = args else { return Err(syntax()) };
    if !is(word, "GET") || patterns.is_empty() {
        return Err(no_subcommand("CONFIG", word));
    }
    let is_asked = |name: &str| {
        patterns.iter().any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
    };
    let known = shared.config.named();
    let asked = known.into_iter().filter(|(name, _)| is_asked(name));
    Ok(Reply::Map(asked.map(|(name, value)| (bulk(name), bulk(value))).collect()))
}

/// `TIME`
pub(super) fn time() -> Reply {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Reply::bulks([since.as_secs().to_string(), since.subsec_micros().to_string()])
}

/// `INFO [section ...]`
pub(super) fn info(shared: &Shared, args: &[&[u8]]) -> Reply {
    let is_asked = |name: &str| {
        let everything = ["all", "default", "everything"];
        args.len() == 1
            || args[1..].iter().any(|word| {
                is(word, name) || everything.iter().any(|everything| is(word, everything))
            })
    };
    let counts = &shared.counts;
    let number = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed).to_string();
    let sections: [(&str, Vec<(&str, String)>); 3] = [
        (
            "Server",
            vec![
                ("redis_version", REDIS_VERSION.to_owned()),
                ("cleavedb_version", env!("CARGO_PKG_VERSION").to_owned()),
                ("redis_mode", "standalone".to_owned()),
                ("process_id", std::process::id().to_string()),
                ("tcp_port", shared.config.listen.port().to_string()),
                ("uptime_in_seconds", shared.uptime().as_secs().to_string()),
            ],
        ),
        (
            "Clients",
            vec![
                ("connected_clients", number(&counts.clients)),
                ("maxclients", shared.config.max_clients.to_string()),
            ],
        ),
        (
            "Stats",
            vec![
                ("total_connections_received", number(&counts.connections)),
                ("total_commands_processed", number(&counts.commands)),
                ("cleavedb_commands_in_pool", number(&counts.in_pool)),
            ],
        ),
    ];
    let mut text = String::new();
    for (name, lines) in sections.iter().filter(|(name, _)| is_asked(name)) {
        let between = if text.is_empty() { "" } else { "\r\n" };
        let _ = write!(text, "{between}# {name}\r\n");
        lines.iter().for_each(|(name, value)| _ = write!(text, "{name}:{value}\r\n"));
    }
    Reply::Text(text)
}
