//! Writes that need no look at what was there: those at the begin of what a client sends are
//! committed together.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::command::STRING_MAX;
use crate::exec::{Blind, Effects};
use crate::resp::reply::Reply;
use crate::resp::request::{ClientRequest, Decoder, Limits, ProtocolError};
use crate::session::ClientSession;
use crate::shared::ServerShared;

/// Most commands whose writes are committed together.
const GATHERED_MAX: usize = 512;

/// What comes behind gathered commands.
pub(super) enum NextCommand<'a> {
    /// No command that is there as a whole.
    Nothing,
    /// A command that is to be run by itself, and its length.
    Command(SmallVec<[Cow<'a, [u8]>; 6]>, usize),
    /// What is no command.
    Error(ProtocolError),
}

/// Commands at the begin of a buffer that write without a look at what was there.
pub(super) struct Gathered<'a> {
    pub(super) effects: Effects<'a>,
    pub(super) replies: Vec<Reply>,
    /// The length of the commands in the buffer.
    pub(super) len: usize,
    pub(super) next: NextCommand<'a>,
}

/// Gathers the writes at the begin of `input`: one batch of them costs less than each by itself,
/// and one sync where there is one.
pub(super) fn gather<'a>(
    input: &'a [u8],
    decoder: &mut Decoder,
    session: &mut ClientSession,
    shared: &'a ServerShared,
    blind: &'a Blind,
) -> Gathered<'a> {
    let (mut effects, mut replies, mut len) = (Effects::default(), Vec::new(), 0);
    let limits = Limits { argument_max: STRING_MAX, is_known: session.is_known(shared) };
    let next = loop {
        match decoder.decode(&input[len..], limits) {
            Err(error) => break NextCommand::Error(error),
            Ok(None) => {
                len += decoder.skip_empty();
                break NextCommand::Nothing;
            }
            Ok(Some((ClientRequest::Inline(words), of_command))) => {
                break NextCommand::Command(
                    words.into_iter().map(Cow::Owned).collect(),
                    of_command,
                );
            }
            Ok(Some((ClientRequest::Array(ranges), of_command))) => {
                let args: SmallVec<[&[u8]; 6]> =
                    ranges.iter().map(|range| &input[len..][range.clone()]).collect();
                let is_full = replies.len() >= GATHERED_MAX;
                let ran = match is_full {
                    true => None,
                    false => session.run_blind(shared, blind, &args, &mut effects),
                };
                let Some(reply) = ran else {
                    break NextCommand::Command(
                        args.into_iter().map(Cow::Borrowed).collect(),
                        of_command,
                    );
                };
                replies.push(reply);
                len += of_command;
            }
        }
    };
    Gathered { effects, replies, len, next }
}
