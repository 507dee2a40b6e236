//! A trial before a suite that is to fit a time: how many times as slow this machine is now as the
//! one for which the suite's sizes were chosen.

use std::path::Path;
use std::time::Duration;

use crate::error::Result;
use crate::orchestrate::child::{Job, Running, Stand};
use crate::orchestrate::target::Target;
use crate::record::Ended;
use crate::scratch::Scratch;

/// What is run: memory, processors and disk all have a part in it.
const ARGUMENTS: [&str; 7] =
    ["-w", "load,update", "--records", "128k", "--operations", "32k", "--no-verify"];

/// How long that takes with the preset `lsm` on two processors without other work.
const USUAL: Duration = Duration::from_millis(1200);

/// The most parts: below an eighth of its data nothing is to be learnt about an engine.
const PARTS_MAX: u32 = 8;

/// Into how many parts the data of a suite is to be divided; 1 if the trial itself fails, which
/// the suite will tell better. Runs `target` in `directory`; `stop` is asked all the while whether
/// to end.
pub fn parts(target: &Target, directory: &Path, stop: &dyn Fn() -> bool) -> Result<u64> {
    let scratch = Scratch::claim(directory)?;
    let arguments = ARGUMENTS.map(str::to_owned);
    let job = Job::of(target, arguments, (&scratch, "trial"), USUAL * PARTS_MAX)?;
    let end = match Running::start(job, false)? {
        Ok(mut running) => match running.turn(true, &mut |_| Ok(()), stop)? {
            Stand::Ended(end) => Some(end),
            Stand::Waits(_) => None,
        },
        Err(end) => Some(end),
    };
    scratch.delete()?;
    Ok(match end {
        Some(end) if end.ended == Ended::Done => parts_of(end.took),
        Some(end) if end.ended == Ended::TimedOut => PARTS_MAX.into(),
        _ => 1,
    })
}

/// A quarter more than usual is no reason to measure less.
fn parts_of(took: Duration) -> u64 {
    let times = took.div_duration_f64(USUAL);
    (times - 0.25).ceil().clamp(1.0, PARTS_MAX.into()) as u64
}

#[cfg(test)]
mod tests {
    use super::{PARTS_MAX, USUAL, parts_of};

    #[test]
    fn a_slower_machine_gets_less_data() {
        assert_eq!(parts_of(USUAL / 3), 1);
        assert_eq!(parts_of(USUAL * 5 / 4), 1);
        assert_eq!(parts_of(USUAL * 3 / 2), 2);
        assert_eq!(parts_of(USUAL * 3), 3);
        assert_eq!(parts_of(USUAL * 100), u64::from(PARTS_MAX));
    }
}
