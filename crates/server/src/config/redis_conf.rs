//! A redis.conf: which of its lines mean something here.

use std::path::Path;

use super::setting::Setting;
use crate::resp::inline;

/// Directives with an option, if its name is another one.
const RENAMED: [(&str, &str); 6] = [
    ("lua-time-limit", "busy-reply-threshold"),
    ("tls-cert-file", "tls-cert"),
    ("tls-key-file", "tls-key"),
    ("maxclients", "max-clients"),
    ("unixsocket", "unix-socket"),
    ("unixsocketperm", "unix-socket-perm"),
];

/// Directives with an option of this name.
const ALIKE: [&str; 12] = [
    "aclfile",
    "acllog-max-len",
    "appendfsync",
    "busy-reply-threshold",
    "databases",
    "notify-keyspace-events",
    "protected-mode",
    "requirepass",
    "slowlog-log-slower-than",
    "slowlog-max-len",
    "tcp-keepalive",
    "timeout",
];

/// Directives that protect something, so that a server without them would be open.
const PROTECTS: [(&str, &str); 3] = [
    ("rename-command", "say with a user's rules which commands are refused"),
    ("user", "put users into a file of their own, and name it with aclfile"),
    ("include", "name that file instead, or put its lines here"),
];

/// The options that a redis.conf tells; a note for each line that has no meaning here.
pub(super) fn settings(
    path: &Path,
    text: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<Setting>, String> {
    let mut settings = Vec::new();
    let (mut hosts, mut ports) =
        (vec!["127.0.0.1".to_owned()], ["6379".to_owned(), "0".to_owned()]);
    let (mut authorities, mut checks_clients) = (None, true);
    for (number, line) in text.lines().enumerate() {
        let place = format!("{}, line {}", path.display(), number + 1);
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let words =
            inline::words(line.as_bytes()).ok_or_else(|| format!("{place}: unbalanced quotes"))?;
        let words: Vec<_> =
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let name = words[0].to_ascii_lowercase();
        let renamed = RENAMED.iter().find(|(known, _)| *known == name).map(|(_, option)| *option);
        let same = ALIKE.iter().find(|known| **known == name).copied();
        match (&*name, renamed.or(same), &words[1..]) {
            ("bind", _, addresses) => hosts = bound(&place, addresses, notes),
            ("port", _, [number]) => ports[0].clone_from(number),
            ("tls-port", _, [number]) => ports[1].clone_from(number),
            ("tls-auth-clients", _, [word]) if word == "no" || word == "yes" => {
                checks_clients = word == "yes";
            }
            ("tls-ca-cert-file", _, [path]) => {
                let (name, value) = ("tls-client-ca".to_owned(), path.into());
                authorities = Some(Setting { place, name, value });
            }
            (_, Some(_), [value]) if value.is_empty() => {}
            (_, Some(option), [value]) => {
                settings.push(Setting { place, name: option.to_owned(), value: value.into() })
            }
            _ => match PROTECTS.iter().find(|(known, _)| *known == name) {
                Some((_, advice)) => return Err(format!("{place}: {name} is not there: {advice}")),
                None => notes.push(format!("{place}: {name} has no meaning here")),
            },
        }
    }
    settings.extend(authorities.filter(|_| checks_clients));
    for (option, port) in ["listen", "tls-listen"].into_iter().zip(ports) {
        settings.extend(hosts.iter().filter(|_| port != "0").map(|host| Setting {
            place: format!("{}: bind and port", path.display()),
            name: option.to_owned(),
            value: format!("{host}:{port}").into(),
        }));
    }
    Ok(settings)
}

/// The addresses of a `bind`. Those that Redis would do without are left out.
fn bound(place: &str, addresses: &[String], notes: &mut Vec<String>) -> Vec<String> {
    let mut hosts = Vec::new();
    for address in addresses {
        match &**address {
            "*" => hosts.push("0.0.0.0".to_owned()),
            "::*" => hosts.push("[::]".to_owned()),
            optional if optional.starts_with('-') => {
                notes.push(format!("{place}: {optional} may be missing, so it is left out"));
            }
            six if six.contains(':') => hosts.push(format!("[{six}]")),
            host => hosts.push(host.to_owned()),
        }
    }
    hosts
}
