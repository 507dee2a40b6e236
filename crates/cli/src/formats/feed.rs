//! A pipe as a source: read by its own thread, so that signals are handled while no byte arrives.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::interrupt;

/// Bytes of a piece, and pieces that are read ahead.
const PIECE: usize = 1 << 18;
const AHEAD: usize = 4;

const LISTEN_EVERY: Duration = Duration::from_millis(50);

/// The bytes of standard input, or of a file that is not a regular one.
pub struct Feed {
    pieces: Receiver<io::Result<Vec<u8>>>,
    /// The current piece, and how many of its bytes were returned.
    piece: Vec<u8>,
    taken: usize,
}

impl Feed {
    /// The bytes of standard input.
    pub fn stdin() -> Self {
        Self::of(|| Ok(io::stdin()))
    }

    /// The bytes of `path`; waits until its other end is opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = path.to_owned();
        let mut feed = Self::of(move || File::open(path));
        // A failed open must show here: the next step may create a database.
        feed.fetch()?;
        Ok(feed)
    }

    fn of<T: Read>(open: impl FnOnce() -> io::Result<T> + Send + 'static) -> Self {
        let (sender, pieces) = sync_channel(AHEAD);
        // Not joined: it may wait for input without end, and ends with the process.
        thread::spawn(move || match open() {
            Ok(source) => pump(source, &sender),
            Err(error) => drop(sender.send(Err(error))),
        });
        Self { pieces, piece: Vec::new(), taken: 0 }
    }

    /// Fetches the next piece if there is none; an empty one is the end.
    fn fetch(&mut self) -> io::Result<()> {
        while self.taken == self.piece.len() {
            match self.pieces.recv_timeout(LISTEN_EVERY) {
                Ok(piece) => {
                    (self.piece, self.taken) = (piece?, 0);
                    if self.piece.is_empty() {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) if interrupt::interrupted() => {
                    return Err(io::Error::other("interrupted"));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(())
    }
}

/// Sends the bytes of `source`, with an empty piece at the end.
fn pump(mut source: impl Read, sender: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut piece = vec![0; PIECE];
        let read = match source.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read,
        };
        let piece = read.map(|len| {
            piece.truncate(len);
            piece
        });
        let last = piece.as_ref().map_or(true, Vec::is_empty);
        if sender.send(piece).is_err() || last {
            return;
        }
    }
}

impl Read for Feed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.fetch()?;
        let len = buf.len().min(self.piece.len() - self.taken);
        buf[..len].copy_from_slice(&self.piece[self.taken..self.taken + len]);
        self.taken += len;
        Ok(len)
    }
}
