//! Writes the chunks of a bulk load behind its caller, who fills the next one meanwhile.

use cleavedb_base::sync::thread::{Builder, JoinHandle};
use cleavedb_base::{Error, ErrorKind, Result};

use super::chunk::SortedChunk;
use super::output::LoadOutput;
use crate::settings::options::Background;

/// An output, to which a thread may be writing.
pub(super) enum Behind {
    /// No chunk is being written.
    Idle(Box<LoadOutput>, SortedChunk),
    /// A thread returns the output, the chunk, and what has become of it.
    Running(JoinHandle<(Box<LoadOutput>, SortedChunk, Result<()>)>),
    /// A call has failed.
    Failed,
}

impl Behind {
    pub(super) fn new(output: LoadOutput) -> Self {
        Self::Idle(Box::new(output), SortedChunk::default())
    }

    /// Waits for the chunk before, and begins to write this one; returns one to fill.
    pub(super) fn write(&mut self, mut chunk: SortedChunk) -> Result<SortedChunk> {
        let (mut output, spare) = self.wait()?;
        if output.engine.options.background == Background::Manual {
            // Here, so that tests can be replayed.
            output.write(&chunk)?;
            chunk.clear();
            *self = Self::Idle(output, chunk);
            return Ok(spare);
        }
        let work = move || {
            let written = output.write(&chunk);
            chunk.clear();
            (output, chunk, written)
        };
        let spawned = Builder::new().name("cleavedb load".to_owned()).spawn(work);
        *self = Self::Running(spawned.map_err(|e| Error::io("start a thread for a load", e))?);
        Ok(spare)
    }

    /// Waits for the chunk before, and takes the output; returns it with a chunk to fill. Without
    /// a call of `write` behind it no more can be written.
    pub(super) fn wait(&mut self) -> Result<(Box<LoadOutput>, SortedChunk)> {
        match std::mem::replace(self, Self::Failed) {
            Self::Idle(output, spare) => Ok((output, spare)),
            Self::Running(thread) => {
                let returned = thread.join();
                let (output, chunk, written) =
                    returned.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                written.map(|()| (output, chunk))
            }
            Self::Failed => {
                Err(Error::new(ErrorKind::InvalidArgument, "the bulk load has failed before"))
            }
        }
    }
}
