//! Transactions: commands that are queued and run as one, if no watched key was written.

use std::sync::Arc;
use std::time::Instant;

use bumpalo::Bump;

use super::calls::{InnerCall, error_of};
use super::published::Published;
use super::{ClientSession, KEPT_COST, WORDS_AT_ONCE, now};
use crate::acl::Denied;
use crate::command::table::{CommandAction, CommandRow};
use crate::exec::{Answer, ClientWatch, Halt, Held, Store, WatchedKey};
use crate::resp::reply::Reply;
use crate::shared::ServerShared;

/// A command that waits for `EXEC`.
struct Queued {
    command: &'static CommandRow,
    args: Vec<Vec<u8>>,
}

/// A queued command with its arguments, as it is called.
type QueuedCall<'a> = (&'static CommandRow, Vec<&'a [u8]>);

/// The transaction of a session.
#[derive(Default)]
pub(super) struct ClientTransaction {
    /// The commands so far, if one is open.
    queue: Option<Vec<Queued>>,
    /// Whether one of them was refused.
    is_refused: bool,
    keys: Vec<WatchedKey>,
    watched: ClientWatch,
    /// Calls of `WATCH`.
    watches: usize,
    /// Memory of the queue, and of the watched keys, in bytes.
    queued_bytes: usize,
    watched_bytes: usize,
}

impl ClientTransaction {
    /// Whether commands are queued.
    pub(super) fn is_open(&self) -> bool {
        self.queue.is_some()
    }

    /// Whether one of its commands may write.
    pub(super) fn may_write(&self) -> bool {
        let mut queue = self.queue.iter().flatten();
        queue.any(|queued| queued.command.may_write())
    }

    /// Notes that a command was refused: the transaction will be, too.
    pub(super) fn refuse(&mut self) {
        self.is_refused = self.is_open();
    }

    /// Adds a command; the number of commands.
    pub(super) fn queue(&mut self, command: &'static CommandRow, args: &[&[u8]]) -> usize {
        self.queued_bytes += args.iter().map(|it| it.len() + KEPT_COST).sum::<usize>();
        let args = args.iter().map(|argument| argument.to_vec()).collect();
        let queue = self.queue.get_or_insert_default();
        queue.push(Queued { command, args });
        queue.len()
    }

    /// Memory that it takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.queued_bytes + self.watched_bytes
    }
}

impl ClientSession {
    pub(super) fn multi(&mut self) -> Answer {
        if self.transaction.is_open() {
            return Err(Halt::error("ERR MULTI calls can not be nested"));
        }
        self.transaction.queue = Some(Vec::new());
        self.client.set_queued(Some(0));
        Ok(Reply::OK)
    }

    pub(super) fn discard(&mut self, shared: &ServerShared) -> Answer {
        if !self.transaction.is_open() {
            return Err(Halt::error("ERR DISCARD without MULTI"));
        }
        self.end_transaction(shared);
        Ok(Reply::OK)
    }

    /// Forgets the queue and the watched keys, as the end of a connection does.
    pub fn end_transaction(&mut self, shared: &ServerShared) {
        self.unwatch(shared);
        (self.transaction.queue, self.transaction.is_refused) = (None, false);
        self.transaction.queued_bytes = 0;
        self.client.set_queued(None);
    }

    pub(super) fn unwatch(&mut self, shared: &ServerShared) {
        let ClientTransaction { keys, watched, watches, watched_bytes, .. } = &mut self.transaction;
        if *watches > 0 {
            shared.store.watches.remove(keys, watched, *watches);
        }
        keys.clear();
        (*watched, *watches, *watched_bytes) = (ClientWatch::default(), 0, 0);
    }

    pub(super) fn watch(
        &mut self,
        shared: &ServerShared,
        args: &[&[u8]],
        may_wait: bool,
    ) -> Answer {
        if self.transaction.is_open() {
            return Err(Halt::error("ERR WATCH inside MULTI is not allowed"));
        }
        let keys = || args[1..].iter().copied();
        let _held = shared.store.locks.take(keys(), may_wait).ok_or(Halt::Wait)?;
        let reads = shared.store.reads(may_wait);
        let view = shared.moment(&reads, now()).view(self.database);
        let record = |key: &[u8]| {
            let record = view.record(key)?;
            let was_there = record.is_some();
            let until = record.and_then(|record| record.until);
            Ok(WatchedKey { database: self.database, key: key.to_vec(), was_there, until })
        };
        let found = keys().map(record).collect::<Answer<Vec<_>>>()?;
        shared.store.watches.add(&found, &self.transaction.watched);
        self.transaction.watched_bytes += keys().map(|key| key.len() + KEPT_COST).sum::<usize>();
        self.transaction.keys.extend(found);
        self.transaction.watches += 1;
        Ok(Reply::OK)
    }

    pub(super) fn exec(&mut self, shared: &Arc<ServerShared>, may_wait: bool) -> Answer {
        let Some(queue) = self.transaction.queue.take() else {
            return Err(Halt::error("ERR EXEC without MULTI"));
        };
        if self.transaction.is_refused {
            self.end_transaction(shared);
            let why = "EXECABORT Transaction discarded because of previous errors.";
            return Err(Halt::error(why));
        }
        // What waits is run again as a whole, and what a session has done cannot be taken back.
        let of_session = |queued: &Queued| matches!(queued.command.action, CommandAction::Session);
        let is_long = queue.iter().map(|it| it.args.len()).sum::<usize>() > WORDS_AT_ONCE;
        let answer = match !may_wait && (is_long || queue.iter().any(of_session)) {
            true => Err(Halt::Wait),
            false => self.run_queue(shared, &queue, may_wait),
        };
        if matches!(answer, Err(Halt::Wait)) {
            self.transaction.queue = Some(queue);
        } else {
            self.end_transaction(shared);
        }
        answer
    }

    /// Takes the locks of what commands use, and of what is watched.
    fn hold<'s>(
        &self,
        store: &'s Store,
        calls: &[QueuedCall<'_>],
        may_wait: bool,
    ) -> Option<Held<'s>> {
        // Which keys a script uses is not known before it has run.
        let takes_all =
            |(command, _): &QueuedCall<'_>| command.writes_unnamed() || command.is_script();
        if calls.iter().any(takes_all) {
            return store.locks.take_all(may_wait);
        }
        let watched = self.transaction.keys.iter().map(|watched| &*watched.key);
        let named = calls.iter().flat_map(|(command, args)| command.keys_of(args));
        store.hold(&named.chain(watched).collect::<Vec<_>>(), may_wait)
    }

    fn run_queue(
        &mut self,
        shared: &Arc<ServerShared>,
        queue: &[Queued],
        may_wait: bool,
    ) -> Answer {
        let calls: Vec<QueuedCall<'_>> = queue
            .iter()
            .map(|queued| (queued.command, queued.args.iter().map(Vec::as_slice).collect()))
            .collect();
        let _held = self.hold(&shared.store, &calls, may_wait).ok_or(Halt::Wait)?;
        let (mut begun, now) = (Instant::now(), now());
        let has_ended = |watched: &WatchedKey| watched.until.is_some_and(|until| until <= now);
        if self.transaction.watched.is_touched() || self.transaction.keys.iter().any(has_ended) {
            return Ok(Reply::NilArray);
        }
        let (reads, arena) = (shared.store.reads(may_wait), Bump::new());
        let moment = shared.moment(&reads, now);
        let mut view = moment.view(self.database);
        let mut replies = Vec::with_capacity(calls.len());
        let mut inner = Vec::with_capacity(calls.len());
        let mut published = Published::default();
        let changes_protocol = calls.iter().any(|(command, _)| command.name == "hello");
        for (command, args) in &calls {
            let edits = view.effects().edits;
            let answer = match command.action {
                _ if let Some(denied) = self.denied(shared, command, args) => Err(refused(&denied)),
                CommandAction::Data(run) => run(args, &mut view),
                CommandAction::Session if command.name == "ssubscribe" => {
                    let why = "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client";
                    Err(Halt::error(why))
                }
                CommandAction::Session if command.name == "monitor" => {
                    let why = "ERR MONITOR isn't allowed for DENY BLOCKING client";
                    Err(Halt::error(why))
                }
                CommandAction::Session if command.is_script() => {
                    let answer;
                    (answer, view) =
                        self.eval_within(shared, command, args, &arena, view, &mut published);
                    answer
                }
                CommandAction::Session if command.publishes() => {
                    Ok(published.add(&shared.topics, command, args))
                }
                CommandAction::Session => {
                    let answer = self.run_own(shared, command, args, may_wait);
                    view.database = self.database;
                    answer
                }
            };
            let reply = match answer {
                Err(Halt::Error(error)) if view.effects().edits != edits => {
                    return Err(failed_halfway(&error));
                }
                Ok(reply) | Err(Halt::Error(reply)) => reply,
                Err(Halt::Block(block)) => block.in_transaction,
                Err(halt @ (Halt::Wait | Halt::Hold | Halt::Long(_))) => return Err(halt),
            };
            view.hold(reply.memory())?;
            let (ended, error) = (Instant::now(), error_of(&reply).cloned());
            let time = ended.duration_since(std::mem::replace(&mut begun, ended));
            let is_counted = std::mem::take(&mut self.calls.is_counted);
            inner.push(InnerCall { command, args, time, error, is_counted });
            replies.push(match changes_protocol {
                true => Reply::Fixed(self.protocol, Box::new(reply)),
                false => reply,
            });
        }
        self.commit_serving(shared, view.into_effects(), moment, may_wait)?;
        published.send(&shared.topics);
        self.end_inner(shared, &self.client.address, &inner);
        Ok(Reply::Array(replies))
    }
}

/// What a client is told if a command failed behind a change of its own: nothing is written.
fn failed_halfway(error: &Reply) -> Halt {
    let error = error_of(error).map(|error| error.escape_ascii().to_string()).unwrap_or_default();
    Halt::error(format!(
        "EXECABORT Transaction discarded because a command failed half-way: {error}"
    ))
}

/// What a client is told whose command was allowed before `EXEC`, and is not then.
fn refused(denied: &Denied) -> Halt {
    let why = match denied {
        Denied::Command => "no permission to execute the command or subcommand",
        Denied::Key(_) => "no permission to touch the specified keys",
        Denied::Channel(_) => "no permission to access one of the channels used as arguments",
    };
    Halt::error(format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
         call. This command is no longer allowed for the following reason: {why}"
    ))
}
