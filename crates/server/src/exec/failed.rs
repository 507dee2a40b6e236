//! Errors of the engine, as clients are told of them.

use cleavedb::{Error, ErrorKind};

use super::Halt;
use crate::resp::reply::Reply;

/// What a client is told of an error of the engine: first the word that clients know.
pub fn failed(error: Error) -> Halt {
    let word = match error.kind() {
        ErrorKind::WouldWait => return Halt::Wait,
        ErrorKind::NoSpace => "OOM command not allowed when the disk is full:",
        ErrorKind::Poisoned => "MISCONF writes have failed:",
        ErrorKind::Corruption => "ERR damaged:",
        _ => "ERR",
    };
    Halt::Error(Reply::error(format!("{word} {error}")))
}
