//! Text as a source: without the byte order mark that some editors and spreadsheets begin it with.

use std::io::{self, Read};
use std::path::Path;

use super::open;
use crate::failure::Result;

/// The mark, in UTF-8.
const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// The bytes behind a mark, or all bytes if there is none.
pub struct Text {
    inner: Box<dyn Read>,
    /// Bytes at the begin that were taken for a mark, and are to be returned if they are none.
    begin: Vec<u8>,
    /// Whether it is known if there is one: a line of a terminal may be shorter than a mark.
    known: bool,
}

impl Text {
    /// The text of `path`, or of the standard input that `-` stands for.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { inner: open(path)?, begin: Vec::new(), known: false })
    }

    fn look_for_mark(&mut self) -> io::Result<()> {
        while !self.known {
            let read = self.inner.by_ref().take(1).read_to_end(&mut self.begin)?;
            let is_mark = self.begin == MARK;
            if is_mark {
                self.begin.clear();
            }
            self.known = is_mark || read == 0 || !MARK.starts_with(&self.begin);
        }
        Ok(())
    }
}

impl Read for Text {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.look_for_mark()?;
        if self.begin.is_empty() {
            return self.inner.read(buf);
        }
        let len = buf.len().min(self.begin.len());
        self.begin.drain(..len).zip(buf).for_each(|(byte, place)| *place = byte);
        Ok(len)
    }
}
