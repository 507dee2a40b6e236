//! Who a client is, and what it may not do: `AUTH`, `HELLO`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::{ClientSession, about, client};
use crate::acl::{DEFAULT, Denial, Denied, User};
use crate::command::args::{is, showing, syntax};
use crate::command::table::CommandRow;
use crate::exec::{Answer, Halt};
use crate::resp::reply::{Protocol, Reply};
use crate::resp::request::integer;
use crate::shared::ServerShared;

impl ClientSession {
    /// The session is that of this user from now on.
    pub(super) fn become_user(&mut self, user: Arc<User>, is_known: bool) {
        self.user = user.clone();
        self.is_known = is_known;
        self.client.set_known(is_known);
        self.client.choose(|chosen| chosen.user = Some(user));
    }

    /// Says who the client is, as the command `by` does.
    pub(super) fn log_in(
        &mut self,
        shared: &ServerShared,
        by: &[u8],
        name: &[u8],
        password: &[u8],
    ) -> Answer<()> {
        let user = shared.users.named(name);
        // As much work for a user that is not there.
        let rules = user.as_ref().map(|user| user.rules.load_full()).unwrap_or_default();
        let is_right = rules.admits(password);
        let address = self.client.address.parse::<SocketAddr>().ok();
        let address = address.map(|address| address.ip().to_canonical());
        self.late = self.late.max(shared.guesses.note(address, is_right));
        if !user.is_some_and(|user| is_right && self.becomes(shared, user)) {
            self.log(shared, "auth", by.to_vec(), name.to_vec());
            let why = "WRONGPASS invalid username-password pair or user is disabled.";
            return Err(Halt::error(why));
        }
        Ok(())
    }

    /// Makes the session that of a user, if this one is still there: who removes it ends the
    /// sessions that are its own by then.
    fn becomes(&mut self, shared: &ServerShared, user: Arc<User>) -> bool {
        let before = (self.user.clone(), self.is_known);
        self.become_user(user, true);
        let is_there = shared.users.named(&self.user.name);
        let is_there = is_there.is_some_and(|user| Arc::ptr_eq(&user, &self.user));
        if !is_there {
            self.become_user(before.0, before.1);
        }
        is_there
    }

    /// `AUTH [user] password`
    pub(super) fn auth(&mut self, shared: &ServerShared, args: &[&[u8]]) -> Answer {
        let (user, password) = match args {
            [_, password] => (DEFAULT, *password),
            [_, user, password] => (*user, *password),
            _ => return Err(syntax()),
        };
        if args.len() == 2 && shared.users.default().rules.load().needs_none {
            let why = "ERR AUTH <password> called without any password configured for the default \
                       user. Are you sure your configuration is correct?";
            return Err(Halt::error(why));
        }
        self.log_in(shared, args[0], user, password)?;
        Ok(Reply::OK)
    }

    /// `HELLO [version [AUTH user password] [SETNAME name]]`
    pub(super) fn hello(&mut self, shared: &ServerShared, args: &[&[u8]]) -> Answer {
        let protocol = match args.get(1).map(|text| integer(text)) {
            None => self.protocol,
            Some(Some(2)) => Protocol::Two,
            Some(Some(3)) => Protocol::Three,
            Some(Some(_)) => return Err(Halt::error("NOPROTO unsupported protocol version")),
            Some(None) => {
                let why = "ERR Protocol version is not an integer or out of range";
                return Err(Halt::error(why));
            }
        };
        let mut words = args.get(2..).unwrap_or_default();
        while let [word, rest @ ..] = words {
            words = match rest {
                [user, password, rest @ ..] if is(word, "AUTH") => {
                    self.log_in(shared, args[0], user, password)?;
                    rest
                }
                [text, rest @ ..] if is(word, "SETNAME") => {
                    let name = client::checked_name(text)?;
                    self.client.choose(|chosen| chosen.name = name);
                    rest
                }
                _ => return Err(showing("ERR Syntax error in HELLO option '", word, "'")),
            };
        }
        if !self.is_known {
            let why = "NOAUTH HELLO must be called with the client already authenticated, \
                       otherwise the HELLO AUTH <user> <pass> option can be used to authenticate \
                       the client and select the RESP protocol version at the same time";
            return Err(Halt::error(why));
        }
        self.protocol = protocol;
        self.client.choose(|chosen| chosen.protocol = protocol);
        Ok(about::hello(&self.client))
    }

    /// Why a command is not allowed, if it is not; that is noted.
    pub(super) fn denied(
        &self,
        shared: &ServerShared,
        command: &CommandRow,
        args: &[&[u8]],
    ) -> Option<Denied> {
        let denied = self.user.rules.load().denied(command, args)?;
        self.note_denied(shared, command, args, &denied);
        Some(denied)
    }

    /// Notes why a command is not allowed.
    pub(super) fn note_denied(
        &self,
        shared: &ServerShared,
        command: &CommandRow,
        args: &[&[u8]],
        denied: &Denied,
    ) {
        let (reason, object) = match *denied {
            Denied::Command => ("command", command.name.as_bytes()),
            Denied::Key(at) => ("key", args[at]),
            Denied::Channel(at) => ("channel", args[at]),
        };
        self.log(shared, reason, object.to_vec(), self.user.name.clone());
    }

    fn log(&self, shared: &ServerShared, reason: &'static str, object: Vec<u8>, user: Vec<u8>) {
        let context = match self.transaction.is_open() {
            _ if self.is_in_script => "lua",
            true => "multi",
            false => "toplevel",
        };
        let (when, client) = (Instant::now(), self.client.line(shared.seconds()));
        let client = client.trim_ascii_end().to_vec();
        let denial = Denial { count: 0, reason, context, object, user, when, client };
        shared.denials.add(denial, shared.config.load().acllog_max_len as usize);
    }
}

/// What a client is told that may not call a command.
pub(super) fn refused(command: &CommandRow, denied: &Denied) -> Bytes {
    let what = match denied {
        Denied::Command => format!("run the '{}' command", command.name),
        Denied::Key(_) => "access one of the keys used as arguments".to_owned(),
        Denied::Channel(_) => "access one of the channels used as arguments".to_owned(),
    };
    format!("NOPERM this user has no permissions to {what}").into()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use cleavedb::{Db, Options};

    use super::*;
    use crate::session::RanCommand;

    #[test]
    fn a_client_is_no_user_that_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let shared = ServerShared::of(Db::open(dir.path(), Options::default()).unwrap());
        let (shared, barrier) = (&Arc::new(shared), &Barrier::new(2));
        let mut wrong = 0;
        let session = |number| {
            let client = shared.clients.add(number, String::new(), String::new());
            ClientSession::new(shared, client, Arc::default())
        };
        let is_one = |session: &mut ClientSession, words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let ran = session.run(shared, &words, true).unwrap();
            matches!(ran, RanCommand::Reply(Reply::Integer(1)))
        };
        std::thread::scope(|scope| {
            let admin = scope.spawn(|| {
                let mut admin = session(0);
                for _ in 0..1000 {
                    is_one(&mut admin, &["acl", "setuser", "ann", "on", "nopass"]);
                    barrier.wait();
                    is_one(&mut admin, &["acl", "deluser", "ann"]);
                    barrier.wait();
                }
            });
            for number in 1..=1000 {
                let mut ann = session(number);
                barrier.wait();
                is_one(&mut ann, &["auth", "ann", "x"]);
                barrier.wait();
                let is_ann = ann.client.chosen().user.is_some_and(|user| user.name == b"ann");
                wrong += usize::from(is_ann && !ann.client.killed.is_cancelled());
                shared.clients.remove(number);
            }
            admin.join().unwrap();
        });
        assert_eq!(wrong, 0);
    }
}
