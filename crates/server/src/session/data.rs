//! Commands of records in a session: what they hold, and how what they did is committed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bumpalo::Bump;
use smallvec::SmallVec;

use super::script_call::ScriptCall;
use super::scripts::HowRun;
use super::{BlockedClient, ClientSession, RanCommand, WantedReplies, now};
use crate::command::table::{CommandRow, flag};
use crate::exec::{
    Answer, Effects, Halt, Held, KeyWait, ResumedCommand, Run, ViewMoment, WaitingCommand,
};
use crate::model::record::CollectionKind;
use crate::shared::ServerShared;

impl ClientSession {
    pub(super) fn run_data(
        &self,
        shared: &ServerShared,
        command: &'static CommandRow,
        args: &[&[u8]],
        may_wait: bool,
        run: Run,
    ) -> Answer<RanCommand> {
        let holds = command.is(flag::WRITE | flag::KEEPS);
        match self.run_holding(shared, command, args, may_wait, run, holds) {
            Err(Halt::Hold) => self.run_holding(shared, command, args, may_wait, run, true),
            answer => answer,
        }
    }

    /// Runs a command, which `holds` its keys meanwhile.
    fn run_holding(
        &self,
        shared: &ServerShared,
        command: &'static CommandRow,
        args: &[&[u8]],
        may_wait: bool,
        run: Run,
        holds: bool,
    ) -> Answer<RanCommand> {
        let store = &shared.store;
        let _held = match command {
            _ if !holds => Some(Held::new()),
            _ if command.writes_unnamed() => store.locks.take_all(may_wait),
            _ => {
                let keys: SmallVec<[&[u8]; 4]> = command.keys_of(args).collect();
                store.hold(&keys, may_wait)
            }
        }
        .ok_or(Halt::Wait)?;
        // What a write reads is held; several records are read as of one moment.
        let reads = match holds || command.is(flag::ONE_RECORD) {
            true => store.reads(may_wait),
            false => store.reads_at_once(may_wait),
        };
        let moment = shared.moment(&reads, now());
        let sends_long = self.takes_long && may_wait && self.wanted == WantedReplies::All;
        let mut view = moment.view(self.database).sending_long(sends_long);
        let reply = match run(args, &mut view) {
            Ok(reply) => reply,
            Err(Halt::Long(plan)) => return Ok(RanCommand::Long(Box::new(reads.long_reply(plan)))),
            // Between a look and a wait nothing may be added.
            Err(Halt::Block(_)) if !holds => return Err(Halt::Hold),
            Err(Halt::Block(KeyWait { timeout, resumed, .. })) => {
                let waiting = self.waiting(command, args, run, resumed);
                let (number, reply) = store.waiters.add(waiting);
                let blocked = BlockedClient { command, number, reply, timeout };
                return Ok(RanCommand::Blocked(blocked));
            }
            Err(halt) => return Err(halt),
        };
        match self.commit_serving(shared, view.into_effects(), moment, may_wait) {
            // A read has its answer, whether or not that could be kept.
            Ok(()) | Err(Halt::Error(_)) if command.is(flag::READONLY) => {}
            committed => committed?,
        }
        Ok(RanCommand::Reply(reply))
    }

    /// `EVAL script count [key ...] [argument ...]`, and the same by a digest: all that a script
    /// does is committed at its end, or nothing.
    pub(super) fn eval(
        &mut self,
        shared: &Arc<ServerShared>,
        command: &CommandRow,
        args: &[&[u8]],
        may_wait: bool,
    ) -> Answer {
        let call = ScriptCall::of(shared, command.name, args, may_wait)?;
        let store = &shared.store;
        let mut holds = !call.reads_only;
        loop {
            let holds_all = call.script.uses_others.load(Ordering::Relaxed);
            let _held = match holds {
                false => Some(Held::new()),
                true if holds_all => store.locks.take_all(may_wait),
                true => store.hold(call.keys, may_wait),
            }
            .ok_or(Halt::Wait)?;
            let reads = match holds {
                false => store.reads_at_once(may_wait),
                true => store.reads(may_wait),
            };
            let arena = Bump::new();
            let moment = shared.moment(&reads, now());
            let view = moment.view(self.database);
            let how = HowRun { has_all: holds_all || !holds, may_wait };
            let ran = self.run_script(shared, &call, how, &arena, view);
            let (Some(answer), view, published) = ran else {
                call.script.uses_others.store(true, Ordering::Relaxed);
                continue;
            };
            if matches!(answer, Err(Halt::Hold)) {
                holds = true;
                continue;
            }
            let reply = answer?;
            self.commit_serving(shared, view.into_effects(), moment, may_wait)?;
            published.send(&shared.topics);
            return Ok(reply);
        }
    }

    /// A command of this client that waits for its keys.
    fn waiting(
        &self,
        command: &CommandRow,
        args: &[&[u8]],
        run: Run,
        resumed: Option<ResumedCommand>,
    ) -> WaitingCommand {
        let keys: Vec<Vec<u8>> = command.keys_of(args).map(<[u8]>::to_vec).collect();
        let (client, database) = (self.client.id, self.database);
        if let Some(ResumedCommand { run, calls, needs_keys }) = resumed {
            let kind = CollectionKind::Stream;
            return WaitingCommand { client, database, kind, run, calls, keys, needs_keys };
        }
        let counted = Some(command.keys.counted).filter(|counted| *counted > 0);
        let first = counted.map_or(1, |counted| counted + 1);
        // What moves an element waits for the first of its two keys.
        let awaited = first..first + if command.is(flag::DENYOOM) { 1 } else { keys.len() };
        let kind = match command.name.starts_with("bz") {
            true => CollectionKind::SortedSet,
            false => CollectionKind::List,
        };
        let call = |key: &Vec<u8>| {
            let mut args: Vec<Vec<u8>> = args.iter().map(|argument| argument.to_vec()).collect();
            args.splice(awaited.clone(), [key.clone()]);
            if let Some(counted) = counted {
                args[counted] = b"1".into();
            }
            (key.clone(), args)
        };
        let calls = keys[..awaited.len()].iter().map(call).collect();
        WaitingCommand { client, database, kind, run, calls, keys, needs_keys: false }
    }

    /// Commits what a command has changed, and with it what that gives clients that wait for keys.
    pub(super) fn commit_serving(
        &self,
        shared: &ServerShared,
        effects: Effects<'_>,
        moment: ViewMoment<'_>,
        may_wait: bool,
    ) -> Answer<()> {
        let waiters = &shared.store.waiters;
        let swaps = !effects.origins.is_empty() && !waiters.is_empty();
        let takes_keys = swaps || !effects.cleared.is_empty() && waiters.need_keys();
        if effects.ready.is_empty() && !takes_keys {
            return self.commit(shared, &effects, may_wait);
        }
        let arena = Bump::new();
        let (effects, served) = waiters.serve(effects, moment, &arena)?;
        self.commit(shared, &effects, may_wait)?;
        waiters.settle(served);
        Ok(())
    }

    fn commit(&self, shared: &ServerShared, effects: &Effects<'_>, may_wait: bool) -> Answer<()> {
        if effects.is_empty() {
            return Ok(());
        }
        let watches = &shared.store.watches;
        if !effects.origins.is_empty() {
            let (reads, now) = (shared.store.reads(true), now());
            // What cannot be read may be there.
            let has = |database, key: &[u8]| {
                shared.moment(&reads, now).view(database).exists(key).unwrap_or(true)
            };
            watches.touch_swapped(effects, has);
        }
        let told = shared.store.commit(effects, now(), may_wait)?;
        watches.touch(effects);
        if !told.is_empty() {
            shared.topics.tell(shared.config.load().notify_keyspace_events, &told);
        }
        if !effects.cleared.is_empty() {
            shared.sweeper.wake();
        }
        Ok(())
    }
}
