//! Scripts: Lua 5.1 as Redis has it, in a state of its own for each run, so that none leaves
//! anything behind for another, whatever it does to its libraries.

mod digest;
mod thrown;
mod values;
mod watch;
mod given;
mod pattern;
mod bits;
mod json;
mod message_pack;
mod strings;
mod structs;
mod native;
mod engine;
mod cache;

pub use self::cache::{RunningScript, Script, Scripts};
pub use self::engine::{ScriptEnd, ScriptHost, ScriptRun, run};
