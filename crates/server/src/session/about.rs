//! Commands about the server and the client.

use std::ops::ControlFlow;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::acl;
use crate::clients::Connected;
use crate::command::args::{is, syntax};
use crate::command::glob;
use crate::command::help::{self, help};
use crate::command::table::{self, COMMANDS, CommandRow, KeyPlaces, flag};
use crate::config;
use crate::exec::{Answer, Halt};
use crate::observe::info::{self, DatabaseKeys, REDIS_VERSION};
use crate::resp::reply::Reply;
use crate::shared::ServerShared;

/// The reply of `MEMORY DOCTOR`.
const MEMORY_ADVICE: &str = "What the server's memory is for, and what to do where it is too \
                             much, is in INFO memory and INFO cleavedb.\n";

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
        "command|getkeys" | "command|getkeysandflags" => keys_of(name, &args[2..]),
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
            shared.observer.reset();
            Ok(Reply::OK)
        }
        "config|rewrite" => match config::rewrite(&shared.config.load()) {
            Ok(()) => Ok(Reply::OK),
            Err(why) => Err(Halt::error(format!("ERR {why}"))),
        },
        "config|set" => {
            let before = shared.config.load().requirepass.clone();
            shared.change_config(|config| config::set(config, &args[2..]))?;
            let password = &shared.config.load().requirepass;
            if *password != before {
                shared.users.set_password(password.as_deref());
            }
            Ok(Reply::OK)
        }
        "info" => {
            let keys = about_keys(shared)?;
            Ok(Reply::Text(info::text(&shared.figures(), &keys, &args[1..]).into()))
        }
        "lolwut" => {
            Ok(Reply::Text(concat!("CleaveDB ver. ", env!("CARGO_PKG_VERSION"), "\n").into()))
        }
        "memory|doctor" => Ok(Reply::Text(MEMORY_ADVICE.into())),
        "memory|stats" => memory_stats(shared),
        "replicaof" | "slaveof" if is(args[1], "NO") && is(args[2], "ONE") => Ok(Reply::OK),
        "replicaof" | "slaveof" => Err(Halt::error("ERR a server is no copy of another one here")),
        "role" => {
            let (offset, copies) = (Reply::Integer(0), Reply::Array(Vec::new()));
            Ok(Reply::Array(vec![bulk("master"), offset, copies]))
        }
        "time" => Ok(time()),
        "lastsave" => {
            let started = shared.observer.started.as_secs();
            let last = shared.saves.last().map_or(started, |millis| millis / 1000);
            Ok(Reply::Integer(last.cast_signed()))
        }
        other => Err(Halt::error(format!("ERR '{other}' is not there"))),
    }
}

/// Checks the words of `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`. They change nothing: what
/// was written stays, and a stop that has begun ends no later than it can.
pub(super) fn check_shutdown(words: &[&[u8]]) -> Answer<()> {
    let has = |known| words.iter().any(|word| is(word, known));
    let is_known = |word: &&[u8]| {
        ["NOSAVE", "SAVE", "NOW", "FORCE", "ABORT"].iter().any(|known| is(word, known))
    };
    match has("ABORT") {
        _ if !words.iter().all(is_known) || has("NOSAVE") && has("SAVE") => Err(syntax()),
        true if words.iter().all(|word| is(word, "ABORT")) => {
            Err(Halt::error("ERR No shutdown in progress."))
        }
        true => Err(syntax()),
        false => Ok(()),
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
    let names = flag::NAMES.iter().filter(|(bit, _)| command.is(*bit)).map(|(_, name)| *name);
    let names = names.chain(command.has_movable_keys().then_some("movablekeys"));
    let categories = acl::of(command);
    let categories = acl::NAMES.iter().enumerate().filter(|(at, _)| categories & 1 << at != 0);
    let KeyPlaces { first, last, step, .. } = command.keys;
    let within = |other: &&CommandRow| {
        command.is(flag::CONTAINER)
            && other.name.strip_prefix(command.name).is_some_and(|rest| rest.starts_with('|'))
    };
    Reply::Array(vec![
        bulk(command.name),
        Reply::Integer(command.arity.into()),
        Reply::Set(names.map(Reply::Status).collect()),
        Reply::Integer(first as i64),
        Reply::Integer(last as i64),
        Reply::Integer(step as i64),
        Reply::Set(categories.map(|(_, name)| Reply::Status(name)).collect()),
        Reply::Set(command.tips().map(|tip| Reply::Bulk(tip.into())).collect()),
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
                let category = acl::named(text).unwrap_or_default();
                return Ok(Reply::bulks(acl::commands_of(category).map(|row| row.name)));
            }
            _ => return Err(syntax()),
        },
        _ => return Err(syntax()),
    };
    let names = COMMANDS.iter().map(|command| command.name);
    Ok(Reply::bulks(names.filter(|name| glob::matches(&pattern, name.as_bytes()))))
}

/// `COMMAND GETKEYS command [argument ...]`, and `COMMAND GETKEYSANDFLAGS`
fn keys_of(name: &str, args: &[&[u8]]) -> Answer {
    let command = table::find(args).ok_or_else(|| Halt::error("ERR Invalid command specified"))?;
    let is_of_channels = ["subscribe", "publish"].iter().any(|it| command.name.ends_with(it));
    if command.keys.is_empty() || is_of_channels {
        return Err(Halt::error("ERR The command has no key arguments"));
    }
    if !command.takes(args.len()) {
        return Err(Halt::error("ERR Invalid number of arguments specified for command"));
    }
    let KeyPlaces { first, counted, .. } = command.keys;
    // A number of keys may say that there are none, but to scripts alone.
    let least = usize::from(first > 0 && counted > 0) + 1;
    if command.keys_of(args).count() < least && !command.is_script() {
        return Err(Halt::error("ERR Invalid arguments specified for command"));
    }
    if name == "command|getkeys" {
        return Ok(Reply::bulks(command.keys_of(args).map(<[u8]>::to_vec)));
    }
    let told = command.used_keys(args).map(|(key, uses)| {
        let uses = Reply::Set(uses.split(' ').map(Reply::Status).collect());
        Reply::Array(vec![Reply::Bulk(key.to_vec().into()), uses])
    });
    Ok(Reply::Array(told.collect()))
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

/// `MEMORY STATS`: what the process takes of the machine, if the system tells, and what the store
/// does of that; and the number of keys.
fn memory_stats(shared: &ServerShared) -> Answer {
    let figures = shared.figures();
    let keys = about_keys(shared)?.iter().map(|database| database.keys).sum();
    let process = figures.process.iter();
    let process = process.flat_map(|process| {
        [("peak.allocated", process.resident_peak), ("total.allocated", process.resident)]
    });
    let told = process.chain([("dataset.bytes", figures.store_memory()), ("keys.count", keys)]);
    let told = told.map(|(name, number)| (bulk(name), Reply::Integer(number.cast_signed())));
    Ok(Reply::Map(told.collect()))
}

/// Keys of a database that are counted one by one.
const COUNTED_MAX: u64 = 10_000;

/// About how many keys each database has.
fn about_keys(shared: &ServerShared) -> Answer<Vec<DatabaseKeys>> {
    let reads = shared.store.reads_at_once(true);
    let of = |database| {
        let view = shared.moment(&reads, super::now()).view(database);
        let mut keys = 0;
        view.walk(b"", false, &mut |_, _| {
            keys += 1;
            if keys < COUNTED_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let is_estimate = keys == COUNTED_MAX;
        if is_estimate {
            keys = keys.max(shared.store.about_keys(database)?);
        }
        Ok(DatabaseKeys { database, keys, is_estimate })
    };
    (0..shared.store.databases()).map(of).collect()
}
