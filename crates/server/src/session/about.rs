//! Commands about the server and the client.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::clients::Connected;
use crate::command::args::{is, syntax};
use crate::command::glob;
use crate::command::help::{self, help};
use crate::command::table::{self, COMMANDS, CommandRow, KeyPlaces, flag};
use crate::config;
use crate::exec::{Answer, Halt};
use crate::resp::reply::Reply;
use crate::shared::ServerShared;

/// The version of Redis whose commands these are, for clients that ask.
const REDIS_VERSION: &str = "7.0.15";

fn bulk(text: impl Into<String>) -> Reply {
    Reply::Bulk(text.into().into())
}

/// The reply of `HELLO`.
pub(super) fn hello(client: &Connected) -> Reply {
    Reply::Map(vec![
        (bulk("server"), bulk("redis")),
        (bulk("version"), bulk(REDIS_VERSION)),
        (bulk("proto"), Reply::Integer(client.chosen().protocol.number())),
        (bulk("id"), Reply::Integer(client.id.cast_signed())),
        (bulk("mode"), bulk("standalone")),
        (bulk("role"), bulk("master")),
        (bulk("modules"), Reply::Array(Vec::new())),
    ])
}

/// The commands about the server, by their names.
pub(super) fn about(shared: &ServerShared, name: &str, args: &[&[u8]]) -> Answer {
    match name {
        "command" => Ok(Reply::Array(all_described())),
        "command|count" => Ok(Reply::Integer(commands().count() as i64)),
        "command|docs" => Ok(Reply::Map(Vec::new())),
        "command|getkeys" => keys_of(&args[2..]),
        "command|help" => Ok(help(help::COMMAND)),
        "command|info" => Ok(Reply::Array(match &args[2..] {
            [] => all_described(),
            names => {
                let found = |name: &&[u8]| table::named(name).map_or(Reply::Nil, described);
                names.iter().map(found).collect()
            }
        })),
        "command|list" => list(&args[2..]),
        "config|get" => Ok(config_get(shared, &args[2..])),
        "config|help" => Ok(help(help::CONFIG)),
        "config|resetstat" => {
            shared.counts.commands.store(0, Ordering::Relaxed);
            shared.counts.in_pool.store(0, Ordering::Relaxed);
            Ok(Reply::OK)
        }
        "config|rewrite" => match config::rewrite(&shared.config.load()) {
            Ok(()) => Ok(Reply::OK),
            Err(why) => Err(Halt::error(format!("ERR {why}"))),
        },
        "config|set" => {
            shared.change_config(|config| config::set(config, &args[2..]))?;
            Ok(Reply::OK)
        }
        "info" => Ok(info(shared, args)),
        "time" => Ok(time()),
        "lastsave" => Ok(Reply::Integer(shared.started.as_secs().cast_signed())),
        other => Err(Halt::error(format!("ERR '{other}' is not there"))),
    }
}

/// The commands without their subcommands.
fn commands() -> impl Iterator<Item = &'static CommandRow> {
    COMMANDS.iter().filter(|command| !command.is_subcommand())
}

fn all_described() -> Vec<Reply> {
    commands().map(described).collect()
}

fn described(command: &CommandRow) -> Reply {
    let names = flag::NAMES.iter().filter(|(bit, _)| command.is(*bit));
    let KeyPlaces { first, last, step, .. } = command.keys;
    let within = |other: &&CommandRow| {
        command.is(flag::CONTAINER)
            && other.name.strip_prefix(command.name).is_some_and(|rest| rest.starts_with('|'))
    };
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
        Reply::Array(COMMANDS.iter().filter(within).map(described).collect()),
    ])
}

/// `COMMAND LIST [FILTERBY PATTERN pattern]`: commands and subcommands.
fn list(words: &[&[u8]]) -> Answer {
    let pattern = match words {
        [] => b"*".to_vec(),
        [filter, kind, text] if is(filter, "FILTERBY") => match kind {
            _ if is(kind, "PATTERN") => text.to_ascii_lowercase(),
            // No command comes from a module.
            _ if is(kind, "MODULE") => return Ok(Reply::Array(Vec::new())),
            _ if is(kind, "ACLCAT") => {
                return Err(Halt::error("ERR categories of commands are not there"));
            }
            _ => return Err(syntax()),
        },
        _ => return Err(syntax()),
    };
    let names = COMMANDS.iter().map(|command| command.name);
    Ok(Reply::bulks(names.filter(|name| glob::matches(&pattern, name.as_bytes()))))
}

/// `COMMAND GETKEYS command [argument ...]`
fn keys_of(args: &[&[u8]]) -> Answer {
    let command = table::find(args).ok_or_else(|| Halt::error("ERR Invalid command specified"))?;
    if command.keys.first == 0 && command.keys.counted == 0 {
        return Err(Halt::error("ERR The command has no key arguments"));
    }
    if !command.takes(args.len()) {
        return Err(Halt::error("ERR Invalid number of arguments specified for command"));
    }
    Ok(Reply::bulks(command.keys_of(args).map(<[u8]>::to_vec)))
}

/// `CONFIG GET pattern [pattern ...]`
fn config_get(shared: &ServerShared, patterns: &[&[u8]]) -> Reply {
    let asked = config::get(&shared.config.load(), patterns);
    let pair = |(name, value): (Vec<u8>, String)| (Reply::Bulk(name.into()), bulk(value));
    Reply::Map(asked.into_iter().map(pair).collect())
}

/// `TIME`
fn time() -> Reply {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Reply::bulks([since.as_secs().to_string(), since.subsec_micros().to_string()])
}

/// `INFO [section ...]`
fn info(shared: &ServerShared, args: &[&[u8]]) -> Reply {
    let is_asked = |name: &str| {
        let everything = ["all", "default", "everything"];
        args.len() == 1
            || args[1..].iter().any(|word| {
                is(word, name) || everything.iter().any(|everything| is(word, everything))
            })
    };
    let (config, counts) = (shared.config.load(), &shared.counts);
    let number = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed).to_string();
    let sections: [(&str, Vec<(&str, String)>); 3] = [
        (
            "Server",
            vec![
                ("redis_version", REDIS_VERSION.to_owned()),
                ("cleavedb_version", env!("CARGO_PKG_VERSION").to_owned()),
                ("redis_mode", "standalone".to_owned()),
                ("process_id", std::process::id().to_string()),
                ("tcp_port", config.listen.first().map_or(0, |it| it.port()).to_string()),
                ("uptime_in_seconds", shared.uptime().as_secs().to_string()),
            ],
        ),
        (
            "Clients",
            vec![
                ("connected_clients", number(&counts.clients)),
                ("maxclients", config.max_clients.to_string()),
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
    Reply::Text(text.into())
}
