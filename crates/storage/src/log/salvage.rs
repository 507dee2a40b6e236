//! Salvage of a damaged log, segment or group file: finds every record with valid checksums,
//! wherever it stands. A valid record header says where the next record begins; behind anything
//! else every offset is tried.

use std::io;
use std::ops::ControlFlow;

use cleavedb_base::FileNumber;
use cleavedb_base::limits::BLOCK;
use cleavedb_base::record::{FileIdentity, HEADER_LEN, Header, RecordKind};

use super::frame::FileHeader;
use crate::api::{File, read_exact_at};

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// The newest part of the log, which may not have reached its files.
pub struct WindowBytes<'a> {
    /// All of the window.
    pub bytes: &'a [u8],
    /// Log position of the file's first byte.
    pub base: u64,
    /// Log position up to which records are looked for.
    pub reach: u64,
}

/// One finding of a scan.
pub enum Met<'a> {
    /// A record with valid checksums, with key and value.
    Record(Header, &'a [u8], &'a [u8]),
    /// A record with a valid header and a damaged key or value.
    Damaged(Header),
    /// The number of bytes that belong to no record, not all of them zeros.
    Rubbish(u64),
    /// A block that the device failed to read, and why.
    Unreadable(io::Error),
}

/// A file, followed by the window.
struct FileAndWindow<'a> {
    file: &'a dyn File,
    file_len: u64,
    window: Option<WindowBytes<'a>>,
    end: u64,
    piece: Vec<u8>,
    /// Offset of the first byte of the piece.
    at: u64,
}

impl FileAndWindow<'_> {
    /// `len` bytes at `offset`; `None` if there are fewer.
    fn get(&mut self, offset: u64, len: usize) -> io::Result<Option<&[u8]>> {
        if offset + len as u64 > self.end {
            return Ok(None);
        }
        let inside = offset >= self.at && offset + len as u64 <= self.at + self.piece.len() as u64;
        if !inside {
            let most = usize::try_from(self.end - offset).unwrap_or(usize::MAX);
            self.fill(offset, len.max(PIECE).min(most))
                // A piece that cannot be read may hold readable blocks.
                .or_else(|_| self.fill(offset, len))?;
        }
        let begin = (offset - self.at) as usize;
        Ok(Some(&self.piece[begin..begin + len]))
    }

    fn fill(&mut self, offset: u64, len: usize) -> io::Result<()> {
        self.piece.clear();
        self.piece.resize(len, 0);
        self.at = offset;
        let in_file = self.file_len.saturating_sub(offset).min(len as u64) as usize;
        let (from_file, from_window) = self.piece.split_at_mut(in_file);
        if let Err(error) = read_exact_at(self.file, from_file, offset) {
            self.piece.clear();
            return Err(error);
        }
        if let Some(window) = &self.window {
            let position = window.base + offset + in_file as u64;
            for (byte, position) in from_window.iter_mut().zip(position..) {
                *byte = window.bytes[(position % window.bytes.len() as u64) as usize];
            }
        }
        Ok(())
    }
}

/// Called with each thing that a scan meets and the offset where it begins; a break ends the scan.
pub type Visit<'v> = dyn FnMut(u64, Met<'_>) -> ControlFlow<()> + 'v;

/// Calls `visit` with every finding in `file` and the offset at which it begins, front to back.
///
/// # Errors
/// If the length of the file cannot be read.
pub fn salvage(
    file: &dyn File,
    window: Option<WindowBytes<'_>>,
    identity: FileIdentity,
    visit: &mut Visit<'_>,
) -> io::Result<()> {
    let file_len = file.len()?;
    let window = window.filter(|window| !window.bytes.is_empty());
    let reach = window.as_ref().map_or(0, |window| window.reach.saturating_sub(window.base));
    let end = file_len.max(reach);
    let mut source = FileAndWindow { file, file_len, window, end, piece: Vec::new(), at: 0 };
    // A scan that its visitor has ended is no failure.
    let _ = scan(&mut source, identity, visit);
    Ok(())
}

fn scan(
    source: &mut FileAndWindow<'_>,
    identity: FileIdentity,
    visit: &mut Visit<'_>,
) -> ControlFlow<()> {
    let (mut offset, mut rubbish) = (0, Rubbish::default());
    loop {
        let header = match source.get(offset, HEADER_LEN) {
            Ok(Some(bytes)) => {
                rubbish.see(offset, bytes[0]);
                // A checksum is never 0, and most bytes outside of records are zeros.
                let may_be = bytes[..4] != [0; 4];
                may_be.then(|| Header::decode(bytes, identity, offset)).flatten()
            }
            Ok(None) => break,
            Err(error) => {
                rubbish.end(offset, visit)?;
                visit(offset, Met::Unreadable(error))?;
                offset = (offset + 1).next_multiple_of(BLOCK as u64);
                continue;
            }
        };
        let whole = header.map(|header| (header, header.record_len()));
        let Some((header, Ok(Some(record)))) =
            whole.map(|(header, len)| (header, source.get(offset, len)))
        else {
            offset += 1;
            continue;
        };
        rubbish.end(offset, visit)?;
        let (key, value) = record[HEADER_LEN..].split_at(usize::from(header.key_len));
        let proved = header.covers(key, value);
        visit(offset, if proved { Met::Record(header, key, value) } else { Met::Damaged(header) })?;
        offset += header.record_len() as u64;
    }
    rubbish.end(offset, visit)
}

/// Bytes between records.
#[derive(Default)]
struct Rubbish {
    /// Offset of the first byte that is not zero.
    begin: Option<u64>,
}

impl Rubbish {
    fn see(&mut self, offset: u64, byte: u8) {
        if byte != 0 && self.begin.is_none() {
            self.begin = Some(offset);
        }
    }

    /// A record or the end follows at `offset`.
    fn end(&mut self, offset: u64, visit: &mut Visit<'_>) -> ControlFlow<()> {
        match self.begin.take().filter(|begin| *begin < offset) {
            Some(begin) => visit(begin, Met::Rubbish(offset - begin)),
            None => ControlFlow::Continue(()),
        }
    }
}

/// The header of a value file, verified by its own content; `None` if it has none.
pub fn proven_header(file: &dyn File) -> Option<FileHeader> {
    let mut bytes = [0; FileHeader::RECORD_LEN];
    read_exact_at(file, &mut bytes, 0).ok()?;
    proven(&bytes)
}

/// The header of log file `number`, if the window holds it.
pub fn header_in_window(number: FileNumber, window: &[u8]) -> Option<FileHeader> {
    headers_in_window(window).find(|header| header.number == number)
}

/// The headers of log files that the window holds.
pub fn headers_in_window(window: &[u8]) -> impl Iterator<Item = FileHeader> {
    window.windows(FileHeader::RECORD_LEN).step_by(BLOCK).filter_map(proven)
}

fn proven(bytes: &[u8]) -> Option<FileHeader> {
    let found = FileHeader::decode(&bytes[HEADER_LEN..]).ok()?;
    let identity = FileIdentity::new(found.database_id, found.number);
    let header = Header::decode(bytes, identity, 0)?;
    let whole = header.kind == RecordKind::FileHeader && header.covers(&[], &bytes[HEADER_LEN..]);
    whole.then_some(found)
}
