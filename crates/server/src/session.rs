//! A client's session: what it has chosen, and the commands about that.

mod about;
mod acl;
mod calls;
mod shown;
mod published;
mod slow_log;
mod latency;
mod subscriptions;
mod script_call;
mod functions;
mod sessionless;
mod scripts;
mod data;
mod gathered;
mod changes;
mod own;
mod client;
mod login;
mod transaction;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::sync::oneshot::Receiver;

use crate::acl::{User, Users};
use crate::clients::{Chosen, Connected};
use crate::command::args::{is, shown};
use crate::command::keys;
use crate::command::table::{self, CommandAction, CommandRow, flag};
use crate::config::AppendFsync;
use crate::exec::{Answer, Halt, LongReply};
use crate::observe::times::WorkerTimes;
use crate::resp::reply::{Protocol, Reply};
use crate::shared::ServerShared;

pub use self::functions::load_libraries;

use self::calls::SessionCalls;
use self::client::WantedReplies;
pub use self::gathered::{GatherStep, GatheredWrites, WhyGivenUp};
use self::login::refused;
use self::subscriptions::Subscriptions;
use self::transaction::ClientTransaction;

/// What an item that a session keeps takes beside its own bytes.
const KEPT_COST: usize = 128;

/// Most words of a command, or of the commands of a transaction, that is run where others wait for
/// the thread: each may be a look-up.
const WORDS_AT_ONCE: usize = 1024;

/// What a client has chosen.
pub struct ClientSession {
    /// The client, as others see it.
    client: Arc<Connected>,
    /// The version of the protocol.
    pub protocol: Protocol,
    /// Whether the connection ends behind the reply.
    pub is_over: bool,
    database: usize,
    wanted: WantedReplies,
    /// Whether it has said who it is, or needed not at the time.
    is_known: bool,
    /// Who it is.
    user: Arc<User>,
    /// How late the reply is to come: guesses of passwords shall take time.
    pub late: Duration,
    transaction: ClientTransaction,
    subscriptions: Subscriptions,
    /// Whether replies wait until what they tell of survives a loss of power, if it was chosen.
    syncs: Option<bool>,
    calls: SessionCalls,
    /// Whether a script of it runs.
    is_in_script: bool,
    /// Whether it takes long replies in pieces.
    pub takes_long: bool,
}

impl ClientSession {
    /// The session of a new client, whose calls are counted in `times`.
    pub fn new(shared: &ServerShared, client: Arc<Connected>, times: Arc<WorkerTimes>) -> Self {
        let user = shared.users.default().clone();
        let is_known = user.rules.load().is_open();
        client.set_known(is_known);
        client.choose(|chosen| chosen.user = Some(user.clone()));
        Self {
            client,
            protocol: Protocol::Two,
            is_over: false,
            database: 0,
            wanted: WantedReplies::All,
            is_known,
            user,
            late: Duration::ZERO,
            transaction: ClientTransaction::default(),
            subscriptions: Subscriptions::default(),
            syncs: None,
            calls: SessionCalls::new(times),
            is_in_script: false,
            takes_long: false,
        }
    }

    /// Memory that it takes beyond a command, in bytes: what is queued, watched and subscribed to.
    pub fn memory(&self) -> usize {
        self.transaction.memory() + self.subscriptions.memory
    }

    /// Lets it do everything: it has shown elsewhere that it may.
    pub fn admit(&mut self) {
        self.become_user(Users::new(None).default().clone(), true);
    }

    /// Whether it has said who it is, or need not.
    pub fn is_known(&self, shared: &ServerShared) -> bool {
        self.is_known || shared.users.default().rules.load().is_open()
    }

    /// Runs a command. Without `may_wait` it stops where it would have to, having done nothing.
    pub fn run(
        &mut self,
        shared: &Arc<ServerShared>,
        args: &[&[u8]],
        may_wait: bool,
    ) -> Result<RanCommand, Waits> {
        let ran = self.answer(shared, args, may_wait)?;
        Ok(match ran {
            RanCommand::Reply(reply) => {
                self.calls.end(&shared.observer, &self.client, args, &reply);
                RanCommand::Reply(self.wanted(reply))
            }
            RanCommand::Long(_) | RanCommand::Blocked(_) => {
                self.calls.end(&shared.observer, &self.client, args, &Reply::Nil);
                ran
            }
        })
    }

    /// The reply to a command that has waited, as it is sent; an error is counted.
    pub fn served(&mut self, shared: &ServerShared, command: &CommandRow, reply: Reply) -> Reply {
        self.calls.end_wait(&shared.observer, command, &reply);
        self.wanted(reply)
    }

    /// Whether replies wait until what they tell of survives a loss of power.
    pub fn syncs(&self, shared: &ServerShared) -> bool {
        self.syncs.unwrap_or_else(|| shared.config.load().appendfsync == AppendFsync::Always)
    }

    /// Says that the next command begins at a time.
    pub fn begin(&mut self, at: Instant) {
        self.calls.begin(at);
    }

    /// When the next command begins: at the end of the last one, if nothing else was said.
    pub fn begun(&self) -> Instant {
        self.calls.begun()
    }

    fn answer(
        &mut self,
        shared: &Arc<ServerShared>,
        args: &[&[u8]],
        may_wait: bool,
    ) -> Result<RanCommand, Waits> {
        let allowed = self.checked(shared, args).and_then(|command| {
            match self.denied(shared, command, args) {
                None => Ok(command),
                Some(denied) => Err(refused(command, &denied)),
            }
        });
        let command = match allowed {
            Ok(command) => command,
            Err(why) if is(args[0], "EXEC") => {
                self.calls.reject(args);
                self.end_transaction(shared);
                let why = why.strip_prefix(b"ERR ").unwrap_or(&why);
                let before = b"EXECABORT Transaction discarded because of: ";
                return Ok(RanCommand::Reply(Reply::error([before, why].concat())));
            }
            Err(why) => {
                self.calls.reject(args);
                self.transaction.refuse();
                return Ok(RanCommand::Reply(Reply::error(why)));
            }
        };
        let is_long = args.len() > WORDS_AT_ONCE;
        if !may_wait && (is_long || shared.pause.holds(self.writes(command))) {
            return Err(Waits);
        }
        if self.transaction.is_open() && !command.is(flag::AT_ONCE) {
            let queued = self.transaction.queue(command, args);
            self.client.set_queued(Some(queued));
            return Ok(RanCommand::Reply(Reply::Status("QUEUED")));
        }
        self.calls.run(command);
        self.client.set_command(command);
        let answer = match command.action {
            CommandAction::Data(run) => self.run_data(shared, command, args, may_wait, run),
            CommandAction::Session => {
                self.run_own(shared, command, args, may_wait).map(RanCommand::Reply)
            }
        };
        if !matches!(answer, Err(Halt::Wait | Halt::Hold)) && !self.is_over {
            self.show(shared, &self.client.address, command, args);
        }
        match answer {
            Ok(ran) => Ok(ran),
            Err(Halt::Error(reply)) => Ok(RanCommand::Reply(reply)),
            Err(Halt::Block(block)) => Ok(RanCommand::Reply(block.in_transaction)),
            Err(Halt::Wait | Halt::Hold | Halt::Long(_)) => Err(Waits),
        }
    }

    /// The command that is called, if this client may call it so, or why not.
    fn checked(&self, shared: &ServerShared, args: &[&[u8]]) -> Result<&'static CommandRow, Bytes> {
        let Some(command) = table::find(args) else { return Err(unknown(args)) };
        if !command.takes(args.len()) {
            let name = command.name;
            return Err(format!("ERR wrong number of arguments for '{name}' command").into());
        }
        if !command.is(flag::NO_AUTH) && !self.is_known(shared) {
            return Err("NOAUTH Authentication required.".into());
        }
        if !self.is_free(command.name) {
            return Err(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                 RESET are allowed in this context",
                command.name
            )
            .into());
        }
        if self.client.is_monitor() && command.is(flag::WRITE | flag::READONLY) {
            return Err("ERR Replica can't interact with the keyspace".into());
        }
        if self.transaction.is_open() && command.is(flag::NO_MULTI) {
            return Err("ERR Command not allowed inside a transaction".into());
        }
        Ok(command)
    }

    /// Whether a call may write, or publish.
    pub fn may_write(&self, args: &[&[u8]]) -> bool {
        table::find(args).is_some_and(|command| self.writes(command))
    }

    fn writes(&self, command: &CommandRow) -> bool {
        command.may_write() || command.name == "exec" && self.transaction.may_write()
    }

    fn run_own(
        &mut self,
        shared: &Arc<ServerShared>,
        command: &CommandRow,
        args: &[&[u8]],
        may_wait: bool,
    ) -> Answer {
        if command.is(flag::WAITS) && !may_wait {
            return Err(Halt::Wait);
        }
        match command.name {
            "ping" if self.is_beside_messages() && args.len() <= 2 => {
                let text = args.get(1).map_or_else(Bytes::new, |text| text.to_vec().into());
                Ok(Reply::bulks([Bytes::from_static(b"pong"), text]))
            }
            "select" => {
                self.database = keys::database(args[1], shared.store.databases())?;
                self.client.choose(|chosen| chosen.database = self.database);
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
                self.unsubscribe_all(shared);
                shared.monitors.remove(&self.client);
                self.client.set_queued(None);
                self.client.choose(|chosen| *chosen = Chosen::default());
                let takes_long = self.takes_long;
                *self = Self::new(shared, self.client.clone(), self.calls.times());
                self.takes_long = takes_long;
                Ok(Reply::Status("RESET"))
            }
            "monitor" => match shared.monitors.add(&self.client) {
                true => Ok(Reply::OK),
                false => Ok(Reply::Silence),
            },
            "multi" => self.multi(),
            "exec" => self.exec(shared, may_wait),
            "discard" => self.discard(shared),
            "watch" => self.watch(shared, args, may_wait),
            "unwatch" => {
                self.unwatch(shared);
                Ok(Reply::OK)
            }
            "subscribe" | "psubscribe" | "ssubscribe" => {
                self.subscribe(shared, command.name, &args[1..])
            }
            "unsubscribe" | "punsubscribe" | "sunsubscribe" => {
                self.unsubscribe(shared, command.name, &args[1..])
            }
            "shutdown" => {
                about::check_shutdown(&args[1..])?;
                shared.stop.cancel();
                self.is_over = true;
                Ok(Reply::OK)
            }
            "save" | "bgsave" | "bgrewriteaof" | "waitaof" => {
                own::run(self, shared, command.name, args)
            }
            name if name.starts_with("cleave.") => own::run(self, shared, name, args),
            _ if command.is_script() => self.eval(shared, command, args, may_wait),
            name if name.starts_with("acl|") => self.acl(shared, name, args, may_wait),
            name if name.starts_with("client|") => self.client(shared, name, args),
            name => sessionless::run(shared, name, args),
        }
    }
}

/// What became of a command that was run.
pub enum RanCommand {
    /// The reply.
    Reply(Reply),
    /// The reply is read while it is sent.
    Long(Box<LongReply>),
    /// The reply comes when a key has elements.
    Blocked(BlockedClient),
}

/// A client that waits for keys.
pub struct BlockedClient {
    /// The command that waits.
    pub command: &'static CommandRow,
    /// The number of the command that waits.
    pub number: u64,
    /// Where its reply comes.
    pub reply: Receiver<Reply>,
    /// How long it waits; for ever without a time.
    pub timeout: Option<Duration>,
}

/// The command would have to wait; it has done nothing.
#[derive(Debug)]
pub struct Waits;

/// The time in milliseconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn unknown(args: &[&[u8]]) -> Bytes {
    let name = shown(args[0], 128);
    if let (Some(_), Some(word)) = (table::find(&args[..1]), args.get(1)) {
        let name = name.to_ascii_uppercase();
        let parts = [b"ERR unknown subcommand '", shown(word, 128), b"'. Try ", &name, b" HELP."];
        return parts.concat().into();
    }
    let mut listed = Vec::new();
    for argument in &args[1..] {
        if listed.len() >= 128 {
            break;
        }
        listed.extend([b"'", shown(argument, 128 - listed.len()), b"' "].concat());
    }
    let before = b"', with args beginning with: ";
    [b"ERR unknown command '", name, before, &listed].concat().into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cleavedb::{Db, Options};

    use super::*;
    use crate::clients::Clients;

    /// A client of a store in a directory.
    fn client(dir: &tempfile::TempDir) -> (Arc<ServerShared>, ClientSession) {
        let db = Db::open(dir.path(), Options::default()).unwrap();
        let (shared, times) = (Arc::new(ServerShared::of(db)), Arc::default());
        let client = Clients::new(0).add(1, String::new(), String::new());
        let session = ClientSession::new(&shared, client, times);
        (shared, session)
    }

    #[test]
    fn a_long_pattern_is_looked_for_where_none_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let (shared, mut session) = client(&dir);
        for (len, waits_for_it) in [(1 << 10, false), (2 << 10, true)] {
            let pattern = vec![b'?'; len];
            let scans: [&[&[u8]]; 3] = [
                &[b"keys", &pattern],
                &[b"scan", b"0", b"match", &pattern],
                &[b"hscan", b"hash", b"0", b"match", &pattern],
            ];
            session.run(&shared, &[b"hset", b"hash", b"field", b"value"], true).unwrap();
            for words in scans {
                let ran = session.run(&shared, words, false);
                assert_eq!(ran.is_err(), waits_for_it, "{len} {:?}", words[0]);
            }
        }
    }

    #[test]
    fn what_was_in_an_emptied_database_is_swept_soon() {
        let dir = tempfile::tempdir().unwrap();
        let (shared, mut session) = client(&dir);
        let calls: [&[&[u8]]; 2] = [&[b"HSET", b"hash", b"field", b"value"], &[b"FLUSHDB"]];
        for call in calls {
            assert!(session.run(&shared, call, true).is_ok());
        }
        let elements = shared.store.db().keyspace("elements").unwrap();
        assert_eq!(elements.range(..).count(), 1);
        std::thread::scope(|scope| {
            scope.spawn(|| shared.sweeper.run(&shared.store));
            let begun = Instant::now();
            while elements.range(..).count() > 0 && begun.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(1));
            }
            shared.sweeper.end();
        });
        assert_eq!(elements.range(..).count(), 0);
    }

    #[test]
    fn a_scan_finds_as_many_as_it_is_told_and_a_long_one_is_run_where_none_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let (shared, mut session) = client(&dir);
        for number in 0..3000 {
            let key = format!("{number:04}");
            assert!(session.run(&shared, &[b"SET", key.as_bytes(), b""], true).is_ok());
        }
        let mut found = |count: &[u8], may_wait| {
            let ran = session.run(&shared, &[b"SCAN", b"0", b"COUNT", count], may_wait).ok()?;
            let RanCommand::Reply(Reply::Array(parts)) = ran else { panic!() };
            let [Reply::Bulk(_), Reply::Array(keys)] = &parts[..] else { panic!("{parts:?}") };
            Some(keys.len())
        };
        assert_eq!(found(b"2", false), Some(2));
        assert_eq!((found(b"3000", false), found(b"3000", true)), (None, Some(3000)));
    }

    #[test]
    fn what_has_many_words_is_run_where_none_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let (shared, mut session) = client(&dir);
        let mut waits = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            session.run(&shared, &words, false).is_err()
        };
        let many = [&["exists"][..], &["key"; WORDS_AT_ONCE]].concat();
        assert!(waits(&many) && !waits(&many[..WORDS_AT_ONCE]));
        for (commands, waits_for_it) in [(WORDS_AT_ONCE / 2, false), (WORDS_AT_ONCE / 2 + 1, true)]
        {
            assert!(!waits(&["multi"]));
            (0..commands).for_each(|_| assert!(!waits(&["get", "key"])));
            assert_eq!(waits(&["exec"]), waits_for_it);
        }
    }
}
