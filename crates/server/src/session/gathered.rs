//! Writes in a row that are committed as one: a batch of them costs less than each by itself, and
//! one sync where there is one.
//!
//! Each runs behind what the ones before it have changed, as in a transaction, but has a reply of
//! its own. Their keys are held from the first look at them until the commit.

use smallvec::SmallVec;

use super::{ClientSession, WORDS_AT_ONCE, Waits, WantedReplies, now};
use crate::command::table::{CommandAction, CommandRow};
use crate::exec::{Effects, Halt, Held, Reads};
use crate::resp::reply::Reply;
use crate::shared::ServerShared;

/// Most bytes of an argument of a command that is gathered: less than a key may have.
const ARGUMENT_MAX: usize = 32 << 10;

/// Most bytes of a reply, and of all changes, behind which another command is gathered.
const SHORT_REPLY: usize = 4 << 10;
const CHANGED_MAX: usize = 256 << 10;

/// Most keys that are fetched together.
const PREFETCHED_MAX: usize = 256;

/// Writes that are not committed yet.
pub struct GatheredWrites<'a> {
    reads: &'a dyn Reads,
    may_wait: bool,
    now: u64,
    held: Held<'a>,
    effects: Effects<'a>,
    /// The arguments of the first one.
    first: SmallVec<[&'a [u8]; 6]>,
    /// The replies, which hold once all is committed.
    pub replies: Vec<Reply>,
}

/// What became of a command that might be gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherStep {
    /// The command is gathered, and so may be the next one.
    Goes,
    /// The command is gathered as the last one.
    Ends,
    /// The command cannot be gathered.
    Alone,
    /// Another client has the keys: the command comes behind the commit.
    Later,
    /// All that is gathered is given up.
    GivesUp(WhyGivenUp),
}

/// Why gathered writes are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyGivenUp {
    /// A thread that may not wait would have to.
    Waits,
    /// The last command is to be run by itself.
    Alone,
}

impl<'a> GatheredWrites<'a> {
    /// None yet, in a thread that may wait or not, as its `reads` may.
    pub fn new(reads: &'a dyn Reads, may_wait: bool) -> Self {
        Self {
            reads,
            may_wait,
            now: now(),
            held: Held::new(),
            effects: Effects::default(),
            first: SmallVec::new(),
            replies: Vec::new(),
        }
    }
}

impl ClientSession {
    /// The command, if this client may have it gathered now.
    fn gatherable(&self, shared: &ServerShared, args: &[&[u8]]) -> Option<&'static CommandRow> {
        let command = self.checked(shared, args).ok().filter(|it| it.can_be_gathered())?;
        // What is too long fails by itself, and with long values nothing is gained.
        let is_plain = args.len() <= WORDS_AT_ONCE
            && args.iter().all(|argument| argument.len() <= ARGUMENT_MAX)
            && !self.transaction.is_open()
            && self.wanted == WantedReplies::All
            && shared.monitors.is_empty()
            && !shared.pause.holds(true);
        let is_allowed = || self.user.rules.load().denied(command, args).is_none();
        (is_plain && is_allowed()).then_some(command)
    }

    /// Runs a command behind those that are gathered, if it is one like them.
    pub fn gather<'a>(
        &mut self,
        shared: &'a ServerShared,
        gathered: &mut GatheredWrites<'a>,
        args: &[&'a [u8]],
    ) -> GatherStep {
        let Some(command) = self.gatherable(shared, args) else { return GatherStep::Alone };
        let CommandAction::Data(run) = command.action else { return GatherStep::Alone };
        let GatheredWrites { reads, may_wait, now, held, effects, first, replies } = gathered;
        let keys: SmallVec<[&[u8]; 4]> = command.keys_of(args).collect();
        if !shared.store.hold_more(held, &keys, *may_wait) {
            return match replies.is_empty() {
                true => GatherStep::GivesUp(WhyGivenUp::Waits),
                false => GatherStep::Later,
            };
        }
        // Clients that wait for a key are known once that is held.
        let view = shared.moment(*reads, *now).view(self.database);
        let mut view = view.behind(std::mem::take(effects));
        let reply = match run(args, &mut view) {
            Ok(reply) => reply,
            Err(Halt::Wait) => return GatherStep::GivesUp(WhyGivenUp::Waits),
            // What a command has changed before it failed must not be committed with the others.
            Err(Halt::Error(_) | Halt::Hold | Halt::Long(_) | Halt::Block(_)) => {
                return GatherStep::GivesUp(WhyGivenUp::Alone);
            }
        };
        *effects = view.into_effects();
        if replies.is_empty() {
            first.extend_from_slice(args);
        }
        self.calls.gather(command);
        self.client.set_command(command);
        // Clients that wait are served before another command gets at what they wait for.
        let is_served = effects.ready.is_empty();
        let goes_on = is_served && reply.memory() <= SHORT_REPLY && effects.bytes <= CHANGED_MAX;
        replies.push(reply);
        if goes_on { GatherStep::Goes } else { GatherStep::Ends }
    }

    /// Whether a command of this client only reads keys that it names.
    pub fn reads_named(&self, shared: &ServerShared, args: &[&[u8]]) -> bool {
        let command = self.checked(shared, args);
        command.is_ok_and(CommandRow::reads_named) && !self.transaction.is_open()
    }

    /// Has the keys of such commands fetched together.
    pub fn prefetch<'a>(
        &self,
        shared: &ServerShared,
        commands: impl Iterator<Item = &'a [&'a [u8]]>,
    ) {
        let keys_of = |args| self.checked(shared, args).map(|command| command.keys_of(args));
        let keys = commands.filter_map(|args| keys_of(args).ok()).flatten();
        shared.store.prefetch(self.database, &keys.take(PREFETCHED_MAX).collect::<Vec<_>>());
    }

    /// Forgets commands whose writes are not committed, and which are run again.
    pub fn forget_gathered(&mut self) {
        self.calls.forget_gathered();
    }

    /// Commits what was gathered: the replies.
    pub fn commit_gathered(
        &mut self,
        shared: &ServerShared,
        gathered: GatheredWrites<'_>,
    ) -> Result<Vec<Reply>, Waits> {
        let GatheredWrites { reads, may_wait, now, held, effects, first, mut replies } = gathered;
        if replies.is_empty() {
            return Ok(replies);
        }
        match self.commit_serving(shared, effects, shared.moment(reads, now), may_wait) {
            Ok(()) => {}
            Err(Halt::Error(error)) => replies.fill(error),
            Err(Halt::Wait | Halt::Hold | Halt::Long(_) | Halt::Block(_)) => return Err(Waits),
        }
        drop(held);
        self.calls.end_gathered(&shared.observer, &self.client, &first, &replies);
        Ok(replies)
    }
}
