//! Scripts: Lua 5.1 as Redis has it. A thread runs one after another in a state whose tables are
//! locked, so that none leaves anything behind; one that has failed, or has changed what the next
//! one would find, is the last one of its state. A library runs as a script does whenever a
//! function of it is called, so that what it keeps in variables ends with the call.

mod digest;
mod thrown;
mod given;
mod values;
mod watch;
mod pattern;
mod bits;
mod json;
mod message_pack;
mod strings;
mod structs;
mod register;
mod native;
mod engine;
mod running;
mod cache;
mod libraries;
#[cfg(test)]
mod tests;

pub use self::cache::{Script, Scripts};
pub use self::engine::{ScriptEnd, ScriptHost, ScriptLimits, ScriptRun, run};
pub use self::libraries::{Libraries, Library, LibrarySet};
pub use self::running::RunningScript;
pub use self::values::MEMORY_MAX;
