//! Turns: programs that measure different engines at the same time, a piece of work each, while the
//! others wait.
//!
//! What a disk gives changes by a tenth from one second to the next where others use it too, and
//! drifts over minutes. Pieces that follow each other closely meet the same disk. The program that
//! gives the turns ([`crate::orchestrate`]) reads `turn STEP` on another's standard output and
//! answers with a line on its standard input; programs with the lowest step come first, so that
//! none drops the caches while another reads.

use std::io::{self, Write};
use std::path::Path;

use crate::error::{BenchError, Result};

/// The word before the number of the step.
pub const TURN: &str = "turn ";

/// Tells when the next piece of work may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turns {
    /// The program itself: at once.
    #[default]
    Own,
    /// The program that reads standard output and writes to standard input.
    Given,
}

impl Turns {
    /// Ends the piece before, and returns when the next one, of step `step`, may begin.
    pub fn wait(self, step: u32) -> Result<()> {
        if self == Self::Own {
            return Ok(());
        }
        let standard = Path::new("standard output");
        let mut output = io::stdout().lock();
        writeln!(output, "{TURN}{step}")
            .and_then(|()| output.flush())
            .map_err(BenchError::io("write to", standard))?;
        let read = io::stdin().read_line(&mut String::new());
        match read.map_err(BenchError::io("read", Path::new("standard input")))? {
            0 => Err(BenchError::Usage("the program that gives the turns has ended".to_owned())),
            _ => Ok(()),
        }
    }
}
