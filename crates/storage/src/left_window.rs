//! The window of another process, as recovery reads it after its death, and a reader beside it.
//!
//! It is read as an ordinary file: after the death of the process the kernel has every byte that
//! was stored, and after a loss of power it may hold any mix of old and new sectors. Its header has
//! checks of its own; records in the log buffer are checked by the reader of the log.

use std::io;
use std::sync::Arc;

use cleavedb_base::limits::BLOCK;

use crate::api::{Access, File, Mode, Storage, read_exact_at};
use crate::name::{FileKind, Name};
use crate::window_header::{
    HEADER_LEN, IDENTITY_LEN, Watermark, WindowIdentity, decode_identity, mark_check,
};

/// What recovery finds under the name of the window.
pub enum FoundWindow {
    /// No file.
    Missing,
    /// A file whose header never reached the disk: it is too short, or begins with zeros.
    Unwritten,
    /// A file with a header that is not valid: damaged, or its place held something else before.
    Blank,
    /// The window of another database, or an older one of this database.
    Foreign(WindowIdentity),
    /// The window of this database that was looked for.
    Ours(LeftWindow),
}

/// The values of the watermarks, as far as they are trustworthy.
type Marks = [Option<u64>; 3];

/// A window that an earlier process left, or that another one uses.
#[derive(Clone)]
pub struct LeftWindow {
    file: Arc<dyn File>,
    identity: WindowIdentity,
    same_boot: bool,
    /// Length of the log buffer.
    len: u64,
    marks: Marks,
    /// Whether log files end where it was drained to, whatever their lengths say.
    ends_files: bool,
}

impl LeftWindow {
    /// Looks for the window of `identity`; `same_boot` says whether the machine has not been
    /// restarted since it was made, so that every store is there.
    pub fn find(
        storage: &dyn Storage,
        identity: WindowIdentity,
        same_boot: bool,
    ) -> io::Result<FoundWindow> {
        let name = Name::fixed(FileKind::Window);
        let file = match storage.open(&name, Mode::Read, Access::Random) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(FoundWindow::Missing),
            Err(e) => return Err(e),
        };
        let read = Self::read(&*file, same_boot)?;
        Ok(match read {
            None if is_unwritten(&*file)? => FoundWindow::Unwritten,
            None => FoundWindow::Blank,
            Some((found, ..)) if found != identity => FoundWindow::Foreign(found),
            Some((_, len, marks)) => {
                FoundWindow::Ours(Self { file, identity, same_boot, len, marks, ends_files: false })
            }
        })
    }

    /// Looks again how far the process has come that uses the window; none if it is that window no
    /// more.
    pub fn again(&self) -> io::Result<Option<Self>> {
        let found = Self::read(&*self.file, self.same_boot)?;
        let same = found.filter(|(identity, ..)| *identity == self.identity);
        Ok(same.map(|(_, len, marks)| Self { len, marks, ..self.clone() }))
    }

    /// The identity in `file`, the length of its log buffer, and its watermarks; none if it has no
    /// valid header.
    fn read(file: &dyn File, same_boot: bool) -> io::Result<Option<(WindowIdentity, u64, Marks)>> {
        let len = file.len()?.saturating_sub(HEADER_LEN as u64);
        // An invalid length means that the extension did not reach the disk.
        let len = len - len % BLOCK as u64;
        if len == 0 {
            return Ok(None);
        }
        let mut header = vec![0; HEADER_LEN];
        read_exact_at(file, &mut header, 0)?;
        let Some(identity) = decode_identity(&header) else { return Ok(None) };
        let word = |at: usize| {
            let bytes = header[at..at + 8].try_into().expect("eight bytes of the header");
            u64::from_le_bytes(bytes)
        };
        let mark = |mark: Watermark| {
            let value = word(mark.offset());
            let believed = match mark {
                Watermark::Durable => word(mark.offset() + 8) == mark_check(value),
                Watermark::Visible | Watermark::Drained => same_boot,
            };
            believed.then_some(value)
        };
        let marks = [Watermark::Visible, Watermark::Drained, Watermark::Durable].map(mark);
        Ok(Some((identity, len, marks)))
    }

    /// The window for readers that take log files to end where it was drained to, if it says so:
    /// bytes behind there were appended by someone else. Not to be believed before the lengths of
    /// the files: the mark may be older than they are, if the disk lost what was not synced.
    #[must_use]
    pub fn ending_files(&self) -> Option<Self> {
        self.mark(Watermark::Drained).map(|_| Self { ends_files: true, ..self.clone() })
    }

    /// Log position at which log files end, if their lengths do not count.
    pub(crate) fn end_of_files(&self) -> Option<u64> {
        self.mark(Watermark::Drained).filter(|_| self.ends_files)
    }

    /// Length of the log buffer, in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a window is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The value of a watermark, if it is trustworthy.
    pub fn mark(&self, mark: Watermark) -> Option<u64> {
        self.marks[mark as usize]
    }

    /// Copies the bytes at log position `at` to `out`, which is at most as long as the log buffer.
    /// Where the process has made it shorter meanwhile, `out` gets zeros: the log was in its files
    /// before.
    pub fn load(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let position = at % self.len;
        let first = (self.len - position).min(out.len() as u64) as usize;
        let (front, back) = out.split_at_mut(first);
        let read = read_exact_at(&*self.file, front, HEADER_LEN as u64 + position)
            .and_then(|()| read_exact_at(&*self.file, back, HEADER_LEN as u64));
        match read {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                out.fill(0);
                Ok(())
            }
            read => read,
        }
    }
}

/// Whether the header of `file` never reached the disk.
fn is_unwritten(file: &dyn File) -> io::Result<bool> {
    if file.len()? < (HEADER_LEN + BLOCK) as u64 {
        return Ok(true);
    }
    let mut identity = [0; IDENTITY_LEN];
    read_exact_at(file, &mut identity, 0)?;
    Ok(identity == [0; IDENTITY_LEN])
}
