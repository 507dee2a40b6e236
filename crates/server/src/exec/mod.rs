//! How commands run: what they see, what they hold, and how what they did is committed.

mod reads;
mod effects;
mod view;
mod locks;
mod watch;
mod ids;
mod register;
mod audit;
mod store;
mod syncer;

pub use self::audit::Audit;
#[cfg(test)]
pub use self::effects::Change;
pub use self::effects::{Effects, event};
pub use self::locks::{Held, Locks};
pub use self::reads::Blind;
#[cfg(test)]
pub use self::reads::{Reads, Space, Visit, Walk};
pub use self::register::Sweeper;
pub use self::store::Store;
pub use self::syncer::Syncer;
pub use self::view::{ElementRange, View};
pub use self::watch::{ClientWatch, WatchedKey, Watches};

use crate::resp::reply::Reply;

/// Why a command has no reply of success.
#[derive(Debug)]
pub enum Halt {
    /// The command would have to wait: it has done nothing, and is to be run again where it may.
    Wait,
    /// The reply is this error, and the command has done nothing.
    Error(Reply),
}

impl Halt {
    /// An error with a text.
    pub fn error(text: impl Into<bytes::Bytes>) -> Self {
        Self::Error(Reply::error(text))
    }
}

/// What a command answers.
pub type Answer<T = Reply> = Result<T, Halt>;
