//! How commands run: what they see, what they hold, and how what they did is committed.

mod failed;
mod long_reply;
mod ranks;
mod reads;
mod events;
mod effects;
mod view;
mod locks;
mod watch;
mod waiters;
mod ids;
mod register;
mod store;
mod rests;
mod sweeper;
mod expirer;
mod syncer;

#[cfg(test)]
pub use self::effects::Change;
pub use self::effects::Effects;
pub use self::events::{EventClasses, KeyEvent, event};
pub use self::expirer::Expirer;
pub use self::failed::failed;
pub use self::locks::{Held, Locks};
pub use self::long_reply::{ElementForm, LongPlan, LongReply};
pub use self::ranks::{BLOCK_MAX, Ranks};
pub use self::reads::Reads;
#[cfg(test)]
pub use self::reads::{KeyPlace, KeyWalk, Visit};
#[cfg(test)]
pub use self::store::Audit;
pub use self::store::{Ends, Store, key_place, placed};
pub use self::sweeper::Sweeper;
pub use self::syncer::Syncer;
pub use self::view::{
    CUT_ALONE, ElementRange, OpenCollection, Run, View, ViewMoment, VisitElement, wrong_type,
};
pub use self::waiters::{AwaitedCall, Waiters, WaitingCommand};
pub use self::watch::{ClientWatch, WatchedKey, Watches};

use std::time::Duration;

use crate::resp::reply::Reply;

/// Why a command has no reply of success.
#[derive(Debug)]
pub enum Halt {
    /// The command would have to wait: it has done nothing, and is to be run again where it may.
    Wait,
    /// The command reads what is kept in memory of its keys, whose locks it does not hold: it has
    /// done nothing, and is to be run again with them.
    Hold,
    /// The reply is this error, and the command has done nothing.
    Error(Reply),
    /// The reply is long, and is read while it is sent: the command has done nothing else.
    Long(LongPlan),
    /// The command waits for a key that has elements: it has done nothing, and is to be run again
    /// when one has.
    Block(KeyWait),
}

/// How a command waits for a key.
#[derive(Debug)]
pub struct KeyWait {
    /// How long; for ever without a time.
    pub timeout: Option<Duration>,
    /// The reply in a transaction, in which none waits.
    pub in_transaction: Reply,
    /// What is run when a key has elements, if not the command itself for that key alone.
    pub resumed: Option<ResumedCommand>,
}

/// What is run for a command that waited.
#[derive(Debug)]
pub struct ResumedCommand {
    /// What runs it.
    pub run: Run,
    /// Each key that it waits for, and the arguments if that key has elements.
    pub calls: Vec<AwaitedCall>,
    /// Whether it is run, too, when a key has lost what it had.
    pub needs_keys: bool,
}

impl Halt {
    /// An error with a text.
    pub fn error(text: impl Into<bytes::Bytes>) -> Self {
        Self::Error(Reply::error(text))
    }
}

/// What a command answers.
pub type Answer<T = Reply> = Result<T, Halt>;
