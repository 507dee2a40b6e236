//! `CLIENT`: about this client, and about the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::ClientSession;
use crate::acl::User;
use crate::clients::Connected;
use crate::command::args::{is, number, showing, syntax, wrong_subcommand};
use crate::command::help::{self, help};
use crate::exec::{Answer, Halt};
use crate::resp::reply::Reply;
use crate::resp::request::integer;
use crate::shared::ServerShared;

/// Which replies a client wants, since `CLIENT REPLY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WantedReplies {
    /// All.
    #[default]
    All,
    /// All, but not this one and the next one.
    NotThisAndNext,
    /// All, but not this one.
    NotThis,
    /// None.
    Nothing,
}

/// What a client says that it is called.
pub(super) fn checked_name(text: &[u8]) -> Answer<Vec<u8>> {
    match text.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        true => Ok(text.to_vec()),
        false => Err(Halt::error(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        )),
    }
}

/// What tells whether a client is of a type.
fn of_type(type_name: &[u8]) -> Answer<fn(&Connected) -> bool> {
    let others = ["master", "replica", "slave"];
    match type_name {
        _ if is(type_name, "normal") => Ok(|client| !client.is_subscribed()),
        _ if is(type_name, "pubsub") => Ok(Connected::is_subscribed),
        _ if others.iter().any(|other| is(type_name, other)) => Ok(|_| false),
        _ => Err(showing("ERR Unknown client type '", type_name, "'")),
    }
}

fn on_or_off(word: &[u8]) -> Answer {
    if is(word, "ON") || is(word, "OFF") { Ok(Reply::OK) } else { Err(syntax()) }
}

impl ClientSession {
    pub(super) fn client(&mut self, shared: &ServerShared, name: &str, args: &[&[u8]]) -> Answer {
        match name {
            "client|id" => Ok(Reply::Integer(self.client.id.cast_signed())),
            "client|getname" => Ok(match self.client.chosen().name {
                name if name.is_empty() => Reply::Nil,
                name => Reply::Bulk(name.into()),
            }),
            "client|getredir" => Ok(Reply::Integer(-1)),
            "client|help" => Ok(help(help::CLIENT)),
            "client|info" => Ok(Reply::Text(self.client.line(shared.seconds()).into())),
            "client|kill" => self.kill(shared, &args[2..]),
            "client|list" => list(shared, &args[2..]),
            "client|no-evict" => on_or_off(args[2]),
            "client|pause" => pause(shared, args),
            "client|unpause" => {
                shared.pause.end();
                Ok(Reply::OK)
            }
            "client|reply" => self.choose_replies(args[2]),
            "client|setname" => {
                let name = checked_name(args[2])?;
                self.client.choose(|chosen| chosen.name = name);
                Ok(Reply::OK)
            }
            _ => unblock(shared, args),
        }
    }

    fn choose_replies(&mut self, word: &[u8]) -> Answer {
        self.wanted = match word {
            _ if is(word, "ON") => WantedReplies::All,
            _ if is(word, "OFF") => WantedReplies::Nothing,
            _ if is(word, "SKIP") && self.wanted == WantedReplies::Nothing => {
                WantedReplies::Nothing
            }
            _ if is(word, "SKIP") => WantedReplies::NotThisAndNext,
            _ => return Err(syntax()),
        };
        Ok(Reply::OK)
    }

    /// The reply to a command, if the client wants it. What is told of topics is sent as messages
    /// are, which are no replies.
    pub fn wanted(&mut self, reply: Reply) -> Reply {
        match self.wanted {
            WantedReplies::All => return reply,
            WantedReplies::NotThisAndNext => self.wanted = WantedReplies::NotThis,
            WantedReplies::NotThis => self.wanted = WantedReplies::All,
            WantedReplies::Nothing => {}
        }
        if matches!(reply, Reply::Several(_)) { reply } else { Reply::Silence }
    }

    /// `CLIENT KILL address`, `CLIENT KILL word value [word value ...]`
    fn kill(&mut self, shared: &ServerShared, words: &[&[u8]]) -> Answer {
        let victims = match words {
            [address] => {
                Victims { address: Some(address), spares_own: false, ..Victims::default() }
            }
            _ => Victims::of(shared, words)?,
        };
        let mut killed = 0;
        for client in shared.clients.all() {
            let is_own = client.id == self.client.id;
            if !victims.has(&client) || is_own && victims.spares_own {
                continue;
            }
            killed += 1;
            // The connection ends a bit later; for others it has ended.
            shared.clients.remove(client.id);
            if is_own { self.is_over = true } else { client.killed.cancel() }
        }
        match words {
            [_] if killed == 0 => Err(Halt::error("ERR No such client")),
            [_] => Ok(Reply::OK),
            _ => Ok(Reply::Integer(killed)),
        }
    }
}

/// The clients that are to be killed.
struct Victims<'a> {
    id: Option<u64>,
    address: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    user: Option<Arc<User>>,
    is_of_type: fn(&Connected) -> bool,
    spares_own: bool,
}

impl Default for Victims<'_> {
    fn default() -> Self {
        let is_of_type = |_: &Connected| true;
        Self { id: None, address: None, local: None, user: None, is_of_type, spares_own: true }
    }
}

impl<'a> Victims<'a> {
    fn of(shared: &ServerShared, words: &[&'a [u8]]) -> Answer<Self> {
        let mut victims = Self::default();
        for pair in words.chunks(2) {
            let [word, value] = pair else { return Err(syntax()) };
            match word {
                _ if is(word, "ID") => {
                    let id = integer(value).filter(|id| *id > 0).map(i64::cast_unsigned);
                    let why = "ERR client-id should be greater than 0";
                    victims.id = Some(id.ok_or_else(|| Halt::error(why))?);
                }
                _ if is(word, "ADDR") => victims.address = Some(value),
                _ if is(word, "LADDR") => victims.local = Some(value),
                _ if is(word, "TYPE") => victims.is_of_type = of_type(value)?,
                _ if is(word, "USER") => {
                    let no_user = || showing("ERR No such user '", value, "'");
                    victims.user = Some(shared.users.named(value).ok_or_else(no_user)?);
                }
                _ if is(word, "SKIPME") && is(value, "yes") => victims.spares_own = true,
                _ if is(word, "SKIPME") && is(value, "no") => victims.spares_own = false,
                _ => return Err(syntax()),
            }
        }
        Ok(victims)
    }

    fn has(&self, client: &Connected) -> bool {
        (self.is_of_type)(client)
            && self.id.is_none_or(|id| id == client.id)
            && self.address.is_none_or(|address| address == client.address.as_bytes())
            && self.local.is_none_or(|local| local == client.local.as_bytes())
            && self.user.as_ref().is_none_or(|user| {
                client.chosen().user.is_some_and(|other| Arc::ptr_eq(user, &other))
            })
    }
}

/// `CLIENT LIST [TYPE type | ID id [id ...]]`
fn list(shared: &ServerShared, words: &[&[u8]]) -> Answer {
    let all = shared.clients.all();
    let listed: Vec<Arc<Connected>> = match words {
        [] => all,
        [word, type_name] if is(word, "TYPE") => {
            let is_of_type = of_type(type_name)?;
            all.into_iter().filter(|client| is_of_type(client)).collect()
        }
        [word, ids @ ..] if is(word, "ID") && !ids.is_empty() => {
            let id = |id: &&[u8]| integer(id).ok_or_else(|| Halt::error("ERR Invalid client ID"));
            let ids = ids.iter().map(id).collect::<Answer<Vec<_>>>()?;
            let found = |id: i64| all.iter().find(|client| client.id.cast_signed() == id).cloned();
            ids.into_iter().filter_map(found).collect()
        }
        _ => return Err(syntax()),
    };
    let lines: Vec<_> = listed.iter().map(|client| client.line(shared.seconds())).collect();
    Ok(Reply::Text(Bytes::from(lines.concat())))
}

/// `CLIENT PAUSE milliseconds [WRITE | ALL]`
fn pause(shared: &ServerShared, args: &[&[u8]]) -> Answer {
    let all = match &args[3..] {
        [] => true,
        [word] if is(word, "ALL") => true,
        [word] if is(word, "WRITE") => false,
        [_] => return Err(Halt::error("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(wrong_subcommand(args)),
    };
    let millis = integer(args[2]);
    let millis =
        millis.ok_or_else(|| Halt::error("ERR timeout is not an integer or out of range"))?;
    let millis = u64::try_from(millis).map_err(|_| Halt::error("ERR timeout is negative"))?;
    let end = Instant::now().checked_add(Duration::from_millis(millis));
    let end = end.ok_or_else(|| Halt::error("ERR timeout is out of range"))?;
    shared.pause.begin(end, all);
    Ok(Reply::OK)
}

/// `CLIENT UNBLOCK id [TIMEOUT | ERROR]`
fn unblock(shared: &ServerShared, args: &[&[u8]]) -> Answer {
    let reply = match &args[2..] {
        [_] => Reply::NilArray,
        [_, word] if is(word, "TIMEOUT") => Reply::NilArray,
        [_, word] if is(word, "ERROR") => {
            Reply::error("UNBLOCKED client unblocked via CLIENT UNBLOCK")
        }
        [_, _] => {
            return Err(Halt::error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
        _ => return Err(wrong_subcommand(args)),
    };
    let client = number(args[2])?.cast_unsigned();
    Ok(Reply::Integer(shared.store.waiters.end(client, reply).into()))
}
