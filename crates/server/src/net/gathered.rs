//! What a client has sent: writes that are gathered, and the command behind them.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::command::STRING_MAX;
use crate::resp::reply::Reply;
use crate::resp::request::{ClientRequest, Decoder, Limits, ProtocolError};
use crate::session::{ClientSession, GatherStep, GatheredWrites, RanCommand, Waits, WhyGivenUp};
use crate::shared::ServerShared;

/// Most commands whose writes are committed together, and most bytes of them.
const GATHERED_MAX: usize = 128;
const BYTES_MAX: usize = 256 << 10;

/// How long another one is added: meanwhile they hold their keys.
const TIME_MAX: Duration = Duration::from_millis(2);

/// The arguments of a command.
pub(super) type Arguments<'a> = SmallVec<[Cow<'a, [u8]>; 6]>;

/// What became of the commands that were there.
pub(super) enum Turn {
    /// None is there as a whole.
    Nothing,
    /// More may be there.
    More,
    /// Writes have to wait, and are still there.
    Writes,
    /// A command was run, or has to wait.
    Command(Result<RanCommand, Vec<Vec<u8>>>),
}

/// What comes behind gathered writes.
pub(super) enum NextCommand<'a> {
    /// No command that is there as a whole.
    Nothing,
    /// More that may be gathered.
    More,
    /// A command that is to be run by itself, and its length.
    Command(Arguments<'a>, usize),
    /// What is no command.
    Error(ProtocolError),
}

/// Writes at the begin of a buffer that were committed together.
pub(super) struct GatheredInput<'a> {
    pub(super) replies: Vec<Reply>,
    /// The length of the commands in the buffer.
    pub(super) len: usize,
    pub(super) next: NextCommand<'a>,
}

/// Runs and commits the writes at the begin of `input`. If this thread would have to wait, nothing
/// was done.
pub(super) fn gather<'a>(
    input: &'a [u8],
    decoder: &mut Decoder,
    session: &mut ClientSession,
    shared: &ServerShared,
    may_wait: bool,
) -> Result<GatheredInput<'a>, Waits> {
    let mut most = GATHERED_MAX;
    loop {
        match gather_upto(most, input, decoder, session, shared, may_wait) {
            Ok(gathered) => return Ok(gathered),
            Err(GivenUp { why, count }) => {
                session.forget_gathered();
                *decoder = Decoder::default();
                match why {
                    WhyGivenUp::Waits => return Err(Waits),
                    WhyGivenUp::Alone => most = count,
                }
            }
        }
    }
}

/// Why writes were not committed, and how many there were.
struct GivenUp {
    why: WhyGivenUp,
    count: usize,
}

fn gather_upto<'a>(
    most: usize,
    input: &'a [u8],
    decoder: &mut Decoder,
    session: &mut ClientSession,
    shared: &ServerShared,
    may_wait: bool,
) -> Result<GatheredInput<'a>, GivenUp> {
    let (begun, reads) = (Instant::now(), shared.store.reads(may_wait));
    let (mut gathered, mut len) = (GatheredWrites::new(&reads, may_wait), 0);
    let limits = Limits { argument_max: STRING_MAX, is_known: session.is_known(shared) };
    let next = loop {
        if len > BYTES_MAX || begun.elapsed() > TIME_MAX {
            break NextCommand::More;
        }
        match decoder.decode(&input[len..], limits) {
            Err(error) => break NextCommand::Error(error),
            Ok(None) => {
                len += decoder.skip_empty();
                break NextCommand::Nothing;
            }
            Ok(Some((ClientRequest::Inline(words), of_command))) => {
                let words = words.into_iter().map(Cow::Owned).collect();
                break NextCommand::Command(words, of_command);
            }
            Ok(Some((ClientRequest::Array(ranges), of_command))) => {
                let args: SmallVec<[&'a [u8]; 6]> =
                    ranges.iter().map(|range| &input[len..][range.clone()]).collect();
                let step = match gathered.replies.len() < most {
                    true => session.gather(shared, &mut gathered, &args),
                    false if most == GATHERED_MAX => GatherStep::Later,
                    false => GatherStep::Alone,
                };
                match step {
                    GatherStep::Goes => len += of_command,
                    GatherStep::Ends => {
                        len += of_command;
                        break NextCommand::More;
                    }
                    GatherStep::Later => break NextCommand::More,
                    GatherStep::Alone => {
                        let args = args.into_iter().map(Cow::Borrowed).collect();
                        break NextCommand::Command(args, of_command);
                    }
                    GatherStep::GivesUp(why) => {
                        return Err(GivenUp { why, count: gathered.replies.len() });
                    }
                }
            }
        }
    };
    let count = gathered.replies.len();
    let committed = session.commit_gathered(shared, gathered);
    let replies = committed.map_err(|Waits| GivenUp { why: WhyGivenUp::Waits, count })?;
    Ok(GatheredInput { replies, len, next })
}

/// Commands that were run one after the other.
pub(super) struct RanReads {
    /// The replies of all but the last one.
    pub(super) replies: Vec<Reply>,
    pub(super) last: RanCommand,
    /// The length in the input of those behind the first one.
    pub(super) len: usize,
}

/// Runs a command in a thread that may wait, and if that is a read, the reads behind it in `input`:
/// what they need is fetched together, and the way to another thread is gone once.
pub(super) fn run_with_reads(
    first: &[&[u8]],
    input: &[u8],
    session: &mut ClientSession,
    shared: &Arc<ServerShared>,
) -> Result<RanReads, Waits> {
    let begun = Instant::now();
    let reads = match session.reads_named(shared, first) {
        true => reads_at(input, session, shared),
        false => Vec::new(),
    };
    if !reads.is_empty() {
        let behind = reads.iter().map(|(args, _)| &args[..]);
        session.prefetch(shared, std::iter::once(first).chain(behind));
    }
    let mut last = session.run(shared, first, true)?;
    let (mut replies, mut len, mut bytes) = (Vec::new(), 0, 0);
    for (args, end) in &reads {
        let RanCommand::Reply(reply) = &last else { break };
        bytes += reply.memory();
        if bytes > BYTES_MAX || begun.elapsed() > TIME_MAX {
            break;
        }
        let Ok(next) = session.run(shared, args, true) else { break };
        if let RanCommand::Reply(reply) = std::mem::replace(&mut last, next) {
            replies.push(reply);
        }
        len = *end;
    }
    Ok(RanReads { replies, last, len })
}

/// The arguments of the reads at the begin of `input`, and where each ends.
fn reads_at<'a>(
    input: &'a [u8],
    session: &ClientSession,
    shared: &ServerShared,
) -> Vec<(SmallVec<[&'a [u8]; 6]>, usize)> {
    let (mut decoder, mut reads, mut len) = (Decoder::default(), Vec::new(), 0);
    let limits = Limits { argument_max: STRING_MAX, is_known: session.is_known(shared) };
    while reads.len() < GATHERED_MAX && len <= BYTES_MAX {
        let Ok(Some((ClientRequest::Array(ranges), of_command))) =
            decoder.decode(&input[len..], limits)
        else {
            break;
        };
        let args: SmallVec<[&'a [u8]; 6]> =
            ranges.iter().map(|range| &input[len..][range.clone()]).collect();
        if !session.reads_named(shared, &args) {
            break;
        }
        len += of_command;
        reads.push((args, len));
    }
    reads
}
