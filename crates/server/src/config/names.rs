//! The names that options have in `CONFIG GET` and `CONFIG SET`, which are Redis's.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;

use super::{AppendFsync, Config};
use crate::command::STRING_MAX;
use crate::command::args::{is, showing, syntax};
use crate::command::glob;
use crate::exec::{Answer, EventClasses, Halt};
use crate::resp::request::integer;

/// What `CONFIG SET` may do with an option.
enum ChangeAllowed {
    /// Nothing: it counts at the start.
    Never,
    /// Nothing, since it is a path.
    Protected,
    /// Nothing but the value that it has, which Redis could change.
    ToItself,
    /// Any value that this function takes; the option of this server has another name.
    To(&'static str, fn(&mut Config, &[u8]) -> Result<(), String>),
}

/// An option.
struct ConfigRow {
    name: &'static str,
    get: fn(&Config) -> String,
    changes: ChangeAllowed,
}

const fn row(name: &'static str, changes: ChangeAllowed, get: fn(&Config) -> String) -> ConfigRow {
    ConfigRow { name, get, changes }
}

/// A number within bounds.
fn number<N: TryFrom<i64>>(text: &[u8], least: i64, most: i64) -> Result<N, String> {
    let number = integer(text).ok_or("argument couldn't be parsed into an integer")?;
    let is_there = |number: &i64| (least..=most).contains(number);
    let number = Some(number).filter(is_there).and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| format!("argument must be between {least} and {most} inclusive"))
}

const MOST: i64 = i32::MAX as i64;

fn yes_or_no(text: &[u8]) -> Result<bool, String> {
    match text {
        _ if is(text, "yes") => Ok(true),
        _ if is(text, "no") => Ok(false),
        _ => Err("argument must be 'yes' or 'no'".to_owned()),
    }
}

fn set_appendfsync(config: &mut Config, text: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(text);
    let why = "argument(s) must be one of the following: everysec, always, no";
    config.appendfsync = AppendFsync::from_str(&text, true).map_err(|_| why)?;
    Ok(())
}

fn set_max_clients(config: &mut Config, text: &[u8]) -> Result<(), String> {
    let (wanted, possible): (u32, _) = (number(text, 1, u32::MAX.into())?, config.clients_possible);
    if wanted > possible {
        return Err(format!(
            "The operating system is not able to handle the specified number of clients, try with \
             {possible}"
        ));
    }
    config.max_clients = wanted;
    Ok(())
}

fn set_password(config: &mut Config, text: &[u8]) -> Result<(), String> {
    let text = str::from_utf8(text).map_err(|_| "a password is a text in UTF-8")?;
    config.requirepass = Some(text.to_owned()).filter(|text| !text.is_empty());
    Ok(())
}

fn shown(path: Option<&PathBuf>) -> String {
    path.map_or_else(String::new, |path| path.display().to_string())
}

fn port(addresses: &[SocketAddr]) -> String {
    addresses.first().map_or(0, |address| address.port()).to_string()
}

fn hosts(config: &Config) -> String {
    let addresses = [&config.listen[..], &config.tls_listen].concat();
    let mut hosts: Vec<_> = addresses.iter().map(|address| address.ip().to_string()).collect();
    hosts.dedup();
    hosts.join(" ")
}

/// How long scripts run.
const SCRIPT_TIME: ChangeAllowed = ChangeAllowed::To("busy_reply_threshold", |config, text| {
    config.busy_reply_threshold = number(text, 0, MOST)?;
    Ok(())
});

/// All options that have a name of Redis.
const ROWS: &[ConfigRow] = &[
    row("aclfile", ChangeAllowed::Never, |config| shown(config.aclfile.as_ref())),
    row(
        "acllog-max-len",
        ChangeAllowed::To("acllog_max_len", |config, text| {
            config.acllog_max_len = number(text, 0, i64::MAX)?;
            Ok(())
        }),
        |config| config.acllog_max_len.to_string(),
    ),
    row("appendfsync", ChangeAllowed::To("appendfsync", set_appendfsync), |config| {
        let fsync = config.appendfsync.to_possible_value();
        fsync.map_or_else(String::new, |value| value.get_name().to_owned())
    }),
    row("appendonly", ChangeAllowed::ToItself, |_| "yes".to_owned()),
    row("bind", ChangeAllowed::ToItself, hosts),
    row("busy-reply-threshold", SCRIPT_TIME, |config| config.busy_reply_threshold.to_string()),
    row("databases", ChangeAllowed::Never, |config| config.databases.to_string()),
    row("dir", ChangeAllowed::Protected, |config| config.dir.display().to_string()),
    // The name that the threshold had before Redis 7.
    row("lua-time-limit", SCRIPT_TIME, |config| config.busy_reply_threshold.to_string()),
    row("maxclients", ChangeAllowed::To("max_clients", set_max_clients), |config| {
        config.max_clients.to_string()
    }),
    row("maxmemory", ChangeAllowed::ToItself, |_| "0".to_owned()),
    row("maxmemory-policy", ChangeAllowed::ToItself, |_| "noeviction".to_owned()),
    row(
        "notify-keyspace-events",
        ChangeAllowed::To("notify_keyspace_events", |config, letters| {
            let classes = EventClasses::of(letters);
            let why = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
            config.notify_keyspace_events = classes.ok_or(why)?;
            Ok(())
        }),
        |config| config.notify_keyspace_events.letters(),
    ),
    row("port", ChangeAllowed::ToItself, |config| port(&config.listen)),
    row("proto-max-bulk-len", ChangeAllowed::ToItself, |_| STRING_MAX.to_string()),
    row(
        "protected-mode",
        ChangeAllowed::To("protected_mode", |config, text| {
            config.protected_mode = yes_or_no(text)?;
            Ok(())
        }),
        |config| if config.protected_mode { "yes" } else { "no" }.to_owned(),
    ),
    row("requirepass", ChangeAllowed::To("requirepass", set_password), |config| {
        config.requirepass.clone().unwrap_or_default()
    }),
    row("save", ChangeAllowed::ToItself, |_| String::new()),
    row(
        "slowlog-log-slower-than",
        ChangeAllowed::To("slowlog_log_slower_than", |config, text| {
            config.slowlog_log_slower_than = number(text, -1, i64::MAX)?;
            Ok(())
        }),
        |config| config.slowlog_log_slower_than.to_string(),
    ),
    row(
        "slowlog-max-len",
        ChangeAllowed::To("slowlog_max_len", |config, text| {
            config.slowlog_max_len = number(text, 0, i64::MAX)?;
            Ok(())
        }),
        |config| config.slowlog_max_len.to_string(),
    ),
    row(
        "tcp-keepalive",
        ChangeAllowed::To("tcp_keepalive", |config, text| {
            config.tcp_keepalive = number(text, 0, MOST)?;
            Ok(())
        }),
        |config| config.tcp_keepalive.to_string(),
    ),
    row(
        "timeout",
        ChangeAllowed::To("timeout", |config, text| {
            config.timeout = number(text, 0, MOST)?;
            Ok(())
        }),
        |config| config.timeout.to_string(),
    ),
    row("tls-auth-clients", ChangeAllowed::ToItself, |config| {
        if config.tls_client_ca.is_some() { "yes" } else { "no" }.to_owned()
    }),
    row("tls-ca-cert-file", ChangeAllowed::Protected, |it| shown(it.tls_client_ca.as_ref())),
    row("tls-cert-file", ChangeAllowed::Protected, |it| shown(it.tls_cert.as_ref())),
    row("tls-key-file", ChangeAllowed::Protected, |it| shown(it.tls_key.as_ref())),
    row("tls-port", ChangeAllowed::ToItself, |config| port(&config.tls_listen)),
    row("unixsocket", ChangeAllowed::Never, |config| shown(config.unix_socket.as_ref())),
    row("unixsocketperm", ChangeAllowed::Never, |config| {
        format!("{:o}", config.unix_socket_perm.unwrap_or_default())
    }),
];

/// The options that are asked for, with their values: one by its name, which is spelled as it was
/// asked, or those that match a pattern.
pub fn get(config: &Config, asked: &[&[u8]]) -> Vec<(Vec<u8>, String)> {
    let mut found: Vec<(Vec<u8>, String)> = Vec::new();
    for asked in asked {
        let is_pattern = asked.iter().any(|byte| b"[*?".contains(byte));
        let pattern = asked.to_ascii_lowercase();
        for row in ROWS.iter().filter(|row| glob::matches(&pattern, row.name.as_bytes())) {
            let name = if is_pattern { row.name.as_bytes() } else { asked };
            if !found.iter().any(|(known, _)| known == name) {
                found.push((name.to_vec(), (row.get)(config)));
            }
        }
    }
    found
}

/// `CONFIG SET name value [name value ...]`: all of them, or none.
pub fn set(config: &mut Config, pairs: &[&[u8]]) -> Answer<()> {
    if pairs.len() % 2 == 1 {
        return Err(syntax());
    }
    let failed = |name: &[u8], why: &str| {
        let before = "ERR CONFIG SET failed (possibly related to argument '";
        showing(before, name, &format!("') - {why}"))
    };
    let mut found: Vec<(&ConfigRow, &[u8])> = Vec::new();
    let mut refused: Option<Halt> = None;
    for pair in pairs.chunks_exact(2) {
        let Some(row) = ROWS.iter().find(|row| is(pair[0], row.name)) else {
            let why = "ERR Unknown option or number of arguments for CONFIG SET - '";
            return Err(refused.unwrap_or_else(|| showing(why, pair[0], "'")));
        };
        let why = match row.changes {
            ChangeAllowed::Never => Some("can't set immutable config"),
            ChangeAllowed::Protected => Some("can't set protected config"),
            _ if found.iter().any(|(other, _)| other.name == row.name) => {
                Some("duplicate parameter")
            }
            _ => None,
        };
        refused = refused.or(why.map(|why| failed(pair[0], why)));
        found.push((row, pair[1]));
    }
    refused.map_or(Ok(()), Err)?;
    for (row, value) in found {
        match row.changes {
            ChangeAllowed::To(option, set) => {
                set(config, value).map_err(|why| failed(row.name.as_bytes(), &why))?;
                config.changed.insert(option, (row.get)(config));
            }
            _ if (row.get)(config).as_bytes() == value => {}
            _ => return Err(failed(row.name.as_bytes(), "can't set immutable config")),
        }
    }
    Ok(())
}
