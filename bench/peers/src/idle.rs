//! Waiting for background work of engines that can only be asked whether there is any.

use std::thread::sleep;
use std::time::Duration;

use cleavedb_bench::Result;

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// Looks in a row that must find nothing: between two jobs an engine looks idle for a moment.
const LOOKS: u32 = 10;

/// What `settled` reads in the settings of an engine that is asked by [`wait`].
pub const HOW: &str = "found so at 10 looks, 5 ms apart (50 ms that count as its own)";

/// Returns once `busy` was false at [`LOOKS`] looks in a row. An engine that gave up for an error
/// may look busy for ever: `busy` must find that error.
pub fn wait(mut busy: impl FnMut() -> Result<bool>) -> Result<()> {
    let mut idle = 0;
    while idle < LOOKS {
        idle = if busy()? { 0 } else { idle + 1 };
        sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{LOOKS, wait};

    #[test]
    fn a_job_between_two_looks_starts_the_wait_anew() {
        let mut looks = 0;
        wait(|| {
            looks += 1;
            Ok(looks == LOOKS)
        })
        .unwrap();
        assert_eq!(looks, 2 * LOOKS);
    }
}
