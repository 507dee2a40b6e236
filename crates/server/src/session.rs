//! A client's session: what it has chosen, and the commands about that.

mod about;
mod acl;
mod calls;
mod slow_log;
mod subscriptions;
mod client;
mod login;
mod transaction;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::sync::oneshot::Receiver;

use crate::acl::User;
use crate::clients::{Chosen, Connected};
use crate::command::args::{is, number, shown};
use crate::command::keys;
use crate::command::table::{self, CommandAction, CommandRow, flag};
use crate::exec::{Answer, Blind, Effects, Halt, Held, KeyWait, Run, ViewMoment, WaitingCommand};
use crate::model::record::CollectionKind;
use crate::observe::times::WorkerTimes;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::request::integer;
use crate::shared::ServerShared;

use self::calls::SessionCalls;
use self::client::WantedReplies;
use self::login::refused;
use self::subscriptions::Subscriptions;
use self::transaction::ClientTransaction;

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
    calls: SessionCalls,
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
            calls: SessionCalls::new(times),
        }
    }

    /// Lets it in: it has said elsewhere who it is.
    pub fn admit(&mut self) {
        self.is_known = true;
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
            RanCommand::Blocked(_) => {
                self.calls.end(&shared.observer, &self.client, args, &Reply::Nil);
                ran
            }
        })
    }

    /// Says that the next command begins now.
    pub fn begin(&mut self) {
        self.calls.begin();
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
        if self.transaction.is_open() && !command.is(flag::AT_ONCE) {
            self.transaction.queue(command, args);
            return Ok(RanCommand::Reply(Reply::Status("QUEUED")));
        }
        self.calls.run(command);
        let answer = match command.action {
            CommandAction::Data(run) => self.run_data(shared, command, args, may_wait, run),
            CommandAction::Session => {
                self.run_own(shared, command, args, may_wait).map(RanCommand::Reply)
            }
        };
        match answer {
            Ok(ran) => Ok(ran),
            Err(Halt::Error(reply)) => Ok(RanCommand::Reply(reply)),
            Err(Halt::Block(block)) => Ok(RanCommand::Reply(block.in_transaction)),
            Err(Halt::Wait) => Err(Waits),
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
        if self.transaction.is_open() && command.is(flag::NO_MULTI) {
            return Err("ERR Command not allowed inside a transaction".into());
        }
        Ok(command)
    }

    fn run_data(
        &self,
        shared: &ServerShared,
        command: &CommandRow,
        args: &[&[u8]],
        may_wait: bool,
        run: Run,
    ) -> Answer<RanCommand> {
        let store = &shared.store;
        let _held = match command {
            _ if !command.is(flag::WRITE) => Some(Held::new()),
            _ if command.writes_unnamed() => store.locks.take_all(may_wait),
            _ => {
                let keys: SmallVec<[&[u8]; 4]> = command.keys_of(args).collect();
                store.hold(&keys, may_wait)
            }
        }
        .ok_or(Halt::Wait)?;
        // What a write reads is held; several records are read as of one moment.
        let reads = match command.is(flag::WRITE | flag::ONE_RECORD) {
            true => store.reads(may_wait),
            false => store.reads_at_once(may_wait),
        };
        let moment = shared.moment(&reads, now());
        let mut view = moment.view(self.database);
        let reply = match run(args, &mut view) {
            Ok(reply) => reply,
            Err(Halt::Block(block)) => {
                let waiting = self.waiting(command, args, run);
                let (number, reply) = store.waiters.add(waiting);
                let KeyWait { timeout, .. } = block;
                return Ok(RanCommand::Blocked(BlockedClient { number, reply, timeout }));
            }
            Err(halt) => return Err(halt),
        };
        self.commit_serving(shared, view.into_effects(), moment, may_wait)?;
        Ok(RanCommand::Reply(reply))
    }

    /// A command of this client that waits for its keys.
    fn waiting(&self, command: &CommandRow, args: &[&[u8]], run: Run) -> WaitingCommand {
        let keys: Vec<Vec<u8>> = command.keys_of(args).map(<[u8]>::to_vec).collect();
        let counted = Some(command.keys.counted).filter(|counted| *counted > 0);
        let first = counted.map_or(1, |counted| counted + 1);
        // What moves an element waits for the first of its two keys.
        let awaited = first..first + if command.is(flag::DENYOOM) { 1 } else { keys.len() };
        let kind = match command.name.starts_with("bz") {
            true => CollectionKind::SortedSet,
            false => CollectionKind::List,
        };
        let args = args.iter().map(|argument| argument.to_vec()).collect();
        let (client, database) = (self.client.id, self.database);
        WaitingCommand { client, database, kind, run, args, awaited, counted, keys }
    }

    /// Commits what a command has changed, and with it what that gives clients that wait for keys.
    fn commit_serving(
        &self,
        shared: &ServerShared,
        effects: Effects<'_>,
        moment: ViewMoment<'_>,
        may_wait: bool,
    ) -> Answer<()> {
        if effects.ready.is_empty() {
            return self.commit(shared, &effects, may_wait);
        }
        let waiters = &shared.store.waiters;
        let (effects, served) = waiters.serve(effects.to_owned(), moment)?;
        let committed = self.commit(shared, &effects, may_wait);
        waiters.settle(served, committed.is_ok());
        committed
    }

    /// Runs a command that writes without a look at what was there, behind the `effects` of others
    /// like it, and adds its own; none if the command is another one, and is to be run by itself.
    pub fn run_blind<'a>(
        &mut self,
        shared: &'a ServerShared,
        blind: &'a Blind,
        args: &[&'a [u8]],
        effects: &mut Effects<'a>,
    ) -> Option<Reply> {
        let command = self.checked(shared, args).ok().filter(|command| command.is(flag::BLIND))?;
        let CommandAction::Data(run) = command.action else { return None };
        if self.transaction.is_open()
            || self.wanted != WantedReplies::All
            || self.user.rules.load().denied(command, args).is_some()
        {
            return None;
        }
        let view = shared.moment(blind, now()).view(self.database);
        let mut view = view.behind(std::mem::take(effects));
        let answer = run(args, &mut view);
        *effects = view.into_effects();
        match answer {
            Ok(reply) | Err(Halt::Error(reply)) => {
                self.calls.gather(&shared.observer, command, &reply);
                Some(reply)
            }
            Err(Halt::Wait | Halt::Block(_)) => None,
        }
    }

    /// Commits what several such commands have changed; the error is the reply of each.
    pub fn commit_blind(
        &mut self,
        shared: &ServerShared,
        effects: &Effects<'_>,
        may_wait: bool,
    ) -> Result<Option<Reply>, Waits> {
        if !self.calls.are_gathered() {
            return Ok(None);
        }
        let keys = effects.keys.keys().map(|(_, key)| &**key);
        let Some(_held) = shared.store.locks.take(keys.clone(), may_wait) else {
            return Err(Waits);
        };
        let failed = match self.commit(shared, effects, may_wait) {
            Ok(()) => None,
            Err(Halt::Error(error)) => Some(error),
            Err(Halt::Wait | Halt::Block(_)) => return Err(Waits),
        };
        self.calls.end_gathered(&shared.observer, &self.client, keys, failed.as_ref());
        Ok(failed)
    }

    fn commit(&self, shared: &ServerShared, effects: &Effects<'_>, may_wait: bool) -> Answer<()> {
        if effects.is_empty() {
            return Ok(());
        }
        shared.store.commit(effects, may_wait)?;
        shared.store.watches.touch(effects);
        if !effects.events.is_empty() {
            shared.topics.tell(shared.config.load().notify_keyspace_events, &effects.events);
        }
        if !effects.cleared.is_empty() {
            shared.sweeper.wake();
        }
        Ok(())
    }

    fn run_own(
        &mut self,
        shared: &Arc<ServerShared>,
        command: &CommandRow,
        args: &[&[u8]],
        may_wait: bool,
    ) -> Answer {
        match command.name {
            "ping" if self.is_beside_messages() && args.len() <= 2 => {
                let text = args.get(1).map_or_else(Bytes::new, |text| text.to_vec().into());
                Ok(Reply::bulks([Bytes::from_static(b"pong"), text]))
            }
            "ping" => match args {
                [_] => Ok(Reply::Status("PONG")),
                [_, text] => Ok(Reply::Bulk(text.to_vec().into())),
                _ => Err(Halt::error("ERR wrong number of arguments for 'ping' command")),
            },
            "echo" => Ok(Reply::Bulk(args[1].to_vec().into())),
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
                self.client.choose(|chosen| *chosen = Chosen::default());
                *self = Self::new(shared, self.client.clone(), self.calls.times());
                Ok(Reply::Status("RESET"))
            }
            "multi" => self.multi(),
            "exec" => self.exec(shared, may_wait),
            "discard" => self.discard(shared),
            "watch" => self.watch(shared, args, may_wait),
            "unwatch" => {
                self.unwatch(shared);
                Ok(Reply::OK)
            }
            "wait" => wait(args),
            "subscribe" | "psubscribe" | "ssubscribe" => {
                self.subscribe(shared, command.name, &args[1..])
            }
            "unsubscribe" | "punsubscribe" | "sunsubscribe" => {
                self.unsubscribe(shared, command.name, &args[1..])
            }
            "publish" => Ok(Reply::Integer(shared.topics.publish(args[1], args[2]) as i64)),
            "spublish" => {
                Ok(Reply::Integer(shared.topics.publish_to_shard(args[1], args[2]) as i64))
            }
            "shutdown" => {
                shared.stop.cancel();
                self.is_over = true;
                Ok(Reply::OK)
            }
            "config|rewrite" if !may_wait => Err(Halt::Wait),
            name if name.starts_with("slowlog|") => slow_log::slow_log(shared, name, args),
            name if name.starts_with("pubsub|") => subscriptions::about(shared, name, args),
            name if name.starts_with("acl|") => self.acl(shared, name, args, may_wait),
            name if name.starts_with("client|") => self.client(shared, name, args),
            "info" if !may_wait => Err(Halt::Wait),
            name => about::about(shared, name, args),
        }
    }
}

/// `WAIT copies milliseconds`: no copy is there, and none comes while a client waits.
fn wait(args: &[&[u8]]) -> Answer {
    number(args[1])?;
    match integer(args[2]) {
        None => Err(Halt::error("ERR timeout is not an integer or out of range")),
        Some(..0) => Err(Halt::error("ERR timeout is negative")),
        Some(_) => Ok(Reply::Integer(0)),
    }
}

/// What became of a command that was run.
pub enum RanCommand {
    /// The reply.
    Reply(Reply),
    /// The reply comes when a key has elements.
    Blocked(BlockedClient),
}

/// A client that waits for keys.
pub struct BlockedClient {
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
