//! Users: which commands each may call, with which keys and channels, in Redis's words.

mod categories;
mod access;
mod permissions;
pub mod describe;
mod user;
mod users;
mod denials;
mod guesses;

pub use self::categories::{NAMES, commands_of, named, of};
pub use self::denials::{Denial, DenialLog};
pub use self::guesses::Guesses;
pub use self::permissions::{Denied, Permissions};
pub use self::user::User;
pub use self::users::{DEFAULT, Users, has_spaces};
