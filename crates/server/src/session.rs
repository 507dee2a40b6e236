//! A client's session: what it has chosen, and the commands about that.

mod about;
mod transaction;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use subtle::ConstantTimeEq;

use crate::command::args::{is, number};
use crate::command::keys;
use crate::command::table::{self, Action, Command, flag};
use crate::exec::{Answer, Blind, Effects, Held, Stop, View};
use crate::resp::reply::{Protocol, Reply};
use crate::shared::Shared;

use self::transaction::Transaction;

/// What a client has chosen.
pub struct Session {
    /// Its number, which no other client of this process has.
    pub id: u64,
    /// The version of the protocol.
    pub protocol: Protocol,
    /// Whether the connection ends behind the reply.
    pub is_over: bool,
    database: usize,
    name: Vec<u8>,
    /// Whether it has said who it is, or need not.
    is_known: bool,
    transaction: Transaction,
}

impl Session {
    /// The session of a new client.
    pub fn new(shared: &Shared, id: u64) -> Self {
        Self {
            id,
            protocol: Protocol::Two,
            is_over: false,
            database: 0,
            name: Vec::new(),
            is_known: shared.config.password.is_none(),
            transaction: Transaction::default(),
        }
    }

    /// Whether it has said who it is, or need not.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Runs a command. Without `may_wait` it stops where it would have to, having done nothing.
    pub fn run(
        &mut self,
        shared: &Arc<Shared>,
        args: &[&[u8]],
        may_wait: bool,
    ) -> Result<Reply, Waits> {
        let command = match self.checked(args) {
            Ok(command) => command,
            Err(error) => {
                self.transaction.refuse();
                return Ok(error);
            }
        };
        if self.transaction.is_open() && !command.is(flag::NO_MULTI) {
            self.transaction.queue(command, args);
            return Ok(Reply::Status("QUEUED"));
        }
        let answer = match command.action {
            Action::Data(run) => self.run_data(shared, command, args, may_wait, run),
            Action::Session => self.run_own(shared, command, args, may_wait),
        };
        match answer {
            Ok(reply) | Err(Stop::Error(reply)) => Ok(reply),
            Err(Stop::Wait) => Err(Waits),
        }
    }

    /// The command that is called, if this client may call it so.
    fn checked(&self, args: &[&[u8]]) -> Result<&'static Command, Reply> {
        let Some(command) = table::find(args[0]) else { return Err(unknown(args)) };
        if !command.takes(args.len()) {
            let name = command.name;
            return Err(Reply::error(format!(
                "ERR wrong number of arguments for '{name}' command"
            )));
        }
        if !self.is_known && !command.is(flag::NO_AUTH) {
            return Err(Reply::error("NOAUTH Authentication required."));
        }
        Ok(command)
    }

    fn run_data(
        &self,
        shared: &Shared,
        command: &Command,
        args: &[&[u8]],
        may_wait: bool,
        run: crate::command::Run,
    ) -> Answer {
        let locks = &shared.store.locks;
        let _held = match command {
            _ if !command.is(flag::WRITE) => Some(Held::new()),
            _ if command.keys.2 == 0 => locks.take_all(may_wait),
            _ => locks.take(command.keys_of(args), may_wait),
        }
        .ok_or(Stop::Wait)?;
        let reads = shared.store.reads(may_wait);
        let mut view = View::new(&reads, &shared.scans, self.database, now());
        let reply = run(args, &mut view)?;
        self.commit(shared, &view.into_effects(), may_wait)?;
        Ok(reply)
    }

    /// Runs a command that writes without a look at what was there, behind the `effects` of others
    /// like it, and adds its own; none if the command is another one, and is to be run by itself.
    pub fn run_blind<'a>(
        &self,
        shared: &'a Shared,
        blind: &'a Blind,
        args: &[&'a [u8]],
        effects: &mut Effects<'a>,
    ) -> Option<Reply> {
        let command = self.checked(args).ok().filter(|command| command.is(flag::BLIND))?;
        let Action::Data(run) = command.action else { return None };
        if self.transaction.is_open() {
            return None;
        }
        let view = View::new(blind, &shared.scans, self.database, now());
        let mut view = view.behind(std::mem::take(effects));
        let answer = run(args, &mut view);
        *effects = view.into_effects();
        match answer {
            Ok(reply) | Err(Stop::Error(reply)) => Some(reply),
            Err(Stop::Wait) => None,
        }
    }

    /// Commits what several such commands have changed; the error is the reply of each.
    pub fn commit_blind(
        &self,
        shared: &Shared,
        effects: &Effects<'_>,
        may_wait: bool,
    ) -> Result<Option<Reply>, Waits> {
        let keys = effects.keys.keys().map(|(_, key)| &**key);
        let Some(_held) = shared.store.locks.take(keys, may_wait) else { return Err(Waits) };
        match self.commit(shared, effects, may_wait) {
            Ok(()) => Ok(None),
            Err(Stop::Error(error)) => Ok(Some(error)),
            Err(Stop::Wait) => Err(Waits),
        }
    }

    fn commit(&self, shared: &Shared, effects: &Effects<'_>, may_wait: bool) -> Answer<()> {
        if effects.is_empty() {
            return Ok(());
        }
        shared.store.commit(effects, may_wait)?;
        shared.store.watches.touch(effects);
        Ok(())
    }

    fn run_own(
        &mut self,
        shared: &Arc<Shared>,
        command: &Command,
        args: &[&[u8]],
        may_wait: bool,
    ) -> Answer {
        match command.name {
            "ping" => match args {
                [_] => Ok(Reply::Status("PONG")),
                [_, text] => Ok(Reply::Bulk(text.to_vec().into())),
                _ => Err(Stop::error("ERR wrong number of arguments for 'ping' command")),
            },
            "echo" => Ok(Reply::Bulk(args[1].to_vec().into())),
            "select" => {
                let invalid = |_| Stop::error("ERR invalid DB index");
                number(args[1]).map_err(invalid)?;
                self.database = keys::database(args[1], shared.store.databases())?;
                Ok(Reply::OK)
            }
            "hello" => self.hello(shared, args),
            "auth" => self.auth(shared, args),
            "quit" => {
                self.is_over = true;
                Ok(Reply::OK)
            }
            "reset" => {
                self.unwatch(shared);
                *self = Self::new(shared, self.id);
                Ok(Reply::Status("RESET"))
            }
            "client" => self.client(args),
            "command" => about::command(args),
            "config" => about::config(shared, args),
            "info" => Ok(about::info(shared, args)),
            "time" => Ok(about::time()),
            "lastsave" => Ok(Reply::Integer(shared.started.as_secs().cast_signed())),
            "multi" => self.multi(),
            "exec" => self.exec(shared, may_wait),
            "discard" => self.discard(shared),
            "watch" => self.watch(shared, args, may_wait),
            "unwatch" => {
                self.unwatch(shared);
                Ok(Reply::OK)
            }
            "shutdown" => {
                shared.stop.cancel();
                self.is_over = true;
                Ok(Reply::OK)
            }
            other => Err(Stop::error(format!("ERR '{other}' is not there"))),
        }
    }

    fn auth(&mut self, shared: &Shared, args: &[&[u8]]) -> Answer {
        let (user, password) = match args {
            [_, password] => (&b"default"[..], *password),
            [_, user, password] => (*user, *password),
            _ => return Err(Stop::error("ERR syntax error")),
        };
        let Some(expected) = &shared.config.password else {
            let why = "ERR AUTH <password> called without any password configured for the default \
                       user. Are you sure your configuration is correct?";
            return if args.len() == 2 { Err(Stop::error(why)) } else { Ok(Reply::OK) };
        };
        if user != b"default" || !bool::from(expected.as_bytes().ct_eq(password)) {
            let why = "WRONGPASS invalid username-password pair or user is disabled.";
            return Err(Stop::error(why));
        }
        self.is_known = true;
        Ok(Reply::OK)
    }

    /// `HELLO [version [AUTH user password] [SETNAME name]]`
    fn hello(&mut self, shared: &Shared, args: &[&[u8]]) -> Answer {
        let protocol = match args.get(1) {
            None => self.protocol,
            Some(text) => match number(text) {
                Ok(2) => Protocol::Two,
                Ok(3) => Protocol::Three,
                Ok(_) => return Err(Stop::error("NOPROTO unsupported protocol version")),
                Err(_) => {
                    let why = "ERR Protocol version is not an integer or out of range";
                    return Err(Stop::error(why));
                }
            },
        };
        let (mut words, mut name) = (args.get(2..).unwrap_or_default(), None);
        while let [word, rest @ ..] = words {
            words = match rest {
                [user, password, rest @ ..] if is(word, "AUTH") => {
                    self.auth(shared, &[b"auth", user, password])?;
                    rest
                }
                [text, rest @ ..] if is(word, "SETNAME") => {
                    name = Some(about::checked_name(text)?);
                    rest
                }
                _ => {
                    let word = String::from_utf8_lossy(word);
                    let why = format!("ERR Syntax error in HELLO option '{word}'");
                    return Err(Stop::error(why));
                }
            };
        }
        if !self.is_known {
            let why = "NOAUTH HELLO must be called with the client already authenticated, otherwise \
                       the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the \
                       client and select the RESP protocol version at the same time";
            return Err(Stop::error(why));
        }
        self.protocol = protocol;
        self.name = name.unwrap_or_else(|| std::mem::take(&mut self.name));
        Ok(about::hello(self))
    }
}

/// The command would have to wait; it has done nothing.
#[derive(Debug)]
pub struct Waits;

/// The time in milliseconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn unknown(args: &[&[u8]]) -> Reply {
    let cut = |text: &[u8], most: usize| {
        String::from_utf8_lossy(&text[..text.len().min(most)]).into_owned()
    };
    let mut shown = String::new();
    for argument in &args[1..] {
        if shown.len() >= 128 {
            break;
        }
        shown += &format!("'{}' ", cut(argument, 128 - shown.len()));
    }
    let name = cut(args[0], 128);
    Reply::error(format!("ERR unknown command '{name}', with args beginning with: {shown}"))
}
