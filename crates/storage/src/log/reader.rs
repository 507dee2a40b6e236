//! Reading a log file back: every record from an offset to the end, and why it ended there.
//!
//! The source is the file and, beyond its length, the window: the drain extends the file as it
//! writes, so anything beyond was only in the window when the process died. The file may end before
//! the replay head, if the drain skipped log that a flush had released: then everything behind the
//! head is in the window. After a power loss the window may hold anything; checksums, seeded with
//! file and offset, decide.
//!
//! A separated value is checked and left out, since its pointer suffices. So no record in memory is
//! longer than a value that the index holds.

use cleavedb_base::limits::BLOCK;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::{FileIdentity, HEADER_LEN, Header, PayloadCheck, Record, RecordKind};
use cleavedb_base::{Error, Result};

use super::frame::{FileHeader, MARK_ALIGNMENT, SyncMarker};
use crate::api::{File, read_exact_at};
use crate::left_window::LeftWindow;

/// Bytes read at once while replaying.
const CHUNK_LEN: usize = 1 << 20;

/// One log file as recovery finds it.
pub struct LogReader<'a> {
    file: &'a dyn File,
    window: Option<&'a LeftWindow>,
    identity: FileIdentity,
    base: u64,
    /// Bytes that lie in the file; those up to `extent` would lie in the window.
    file_len: u64,
    extent: u64,
    offset: u64,
    buf: Vec<u8>,
    /// Offset of `buf[0]`.
    buf_at: u64,
}

impl<'a> LogReader<'a> {
    /// A reader at `offset` of a file whose first byte has log position `base`. With `window`,
    /// bytes are looked for there from the end of the file on, or from where it was drained to if
    /// that ends files, up to one window's length behind there or behind `offset`. `limit` is the
    /// valid length, if it is known.
    pub fn new(
        file: &'a dyn File,
        window: Option<&'a LeftWindow>,
        identity: FileIdentity,
        base: u64,
        offset: u64,
        limit: Option<u64>,
    ) -> Result<Self> {
        let file_len = file.len().map_err(|e| Error::io("get the length of a log file", e))?;
        let ends = window.and_then(LeftWindow::end_of_files);
        let file_len = ends.map_or(file_len, |to| file_len.min(to.saturating_sub(base)));
        let in_window = window.map_or(0, LeftWindow::len);
        let from = if planted(Bug::WindowBehindTheFile) { file_len } else { file_len.max(offset) };
        let extent = limit.unwrap_or(u64::MAX).min(from + in_window);
        Ok(Self {
            file,
            window,
            identity,
            base,
            file_len: file_len.min(extent),
            extent,
            offset,
            buf: Vec::new(),
            buf_at: 0,
        })
    }

    /// Offset behind the last record that was read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Offset from which on records come from the window.
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Reads `len` bytes at `offset` into the buffer; `false` if the source ends before.
    fn fill(&mut self, offset: u64, len: usize) -> Result<bool> {
        let have = self.buf_at + self.buf.len() as u64;
        if offset >= self.buf_at && offset + len as u64 <= have {
            return Ok(true);
        }
        let in_window = self.window.map_or(0, LeftWindow::len);
        let most = (self.extent.saturating_sub(offset))
            .min(self.file_len.saturating_sub(offset) + in_window) as usize;
        if len > most {
            return Ok(false);
        }
        let want = len.max(CHUNK_LEN).min(most);
        self.buf.resize(want, 0);
        self.buf_at = offset;
        let in_file = self.file_len.saturating_sub(offset).min(want as u64) as usize;
        let (from_file, from_window) = self.buf.split_at_mut(in_file);
        read_exact_at(self.file, from_file, offset)
            .map_err(|e| Error::io("read the log", e).with("offset", offset))?;
        if let (Some(window), false) = (self.window, from_window.is_empty()) {
            // A record that is longer than the log buffer cannot be in a window.
            let len = from_window.len().min(in_window as usize);
            window
                .load(self.base + offset + in_file as u64, &mut from_window[..len])
                .map_err(|e| Error::io("read the log window", e))?;
        }
        Ok(true)
    }

    fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        let start = (offset - self.buf_at) as usize;
        &self.buf[start..start + len]
    }

    /// The `len` bytes at `offset`, which the reader has already passed.
    pub fn read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let known = self.fill(offset, len)?;
        assert!(known, "only bytes that were read before may be read again");
        Ok(self.bytes(offset, len).to_vec())
    }

    /// Header of the whole and valid record at `offset`; `None` if there is none.
    fn valid_at(&mut self, offset: u64) -> Result<Option<Header>> {
        if !self.fill(offset, HEADER_LEN)? {
            return Ok(None);
        }
        let Some(header) = Header::decode(self.bytes(offset, HEADER_LEN), self.identity, offset)
        else {
            return Ok(None);
        };
        if header.kind.is_separated() && header.record_len() > CHUNK_LEN {
            return self.valid_in_pieces(offset, header);
        }
        if !self.fill(offset, header.record_len())? {
            return Ok(None);
        }
        let record = self.bytes(offset, header.record_len());
        let (key, value) = record[HEADER_LEN..].split_at(usize::from(header.key_len));
        let whole = header.covers(key, value) || planted(Bug::TornRecordReplayed);
        Ok(whole.then_some(header))
    }

    /// As `valid_at`, for a record too long for the buffer; its key, and the expiry of its value,
    /// end up in the buffer.
    fn valid_in_pieces(&mut self, offset: u64, header: Header) -> Result<Option<Header>> {
        let key_end = HEADER_LEN + usize::from(header.key_len);
        let head = key_end + header.kind.front_len();
        if !self.fill(offset, head)? {
            return Ok(None);
        }
        let key = self.bytes(offset, key_end)[HEADER_LEN..].to_vec();
        let mut check = PayloadCheck::new(&header);
        let (mut at, end) = (offset + key_end as u64, offset + header.record_len() as u64);
        while at < end {
            let len = CHUNK_LEN.min((end - at) as usize);
            if !self.fill(at, len)? {
                return Ok(None);
            }
            check.update(self.bytes(at, len));
            at += len as u64;
        }
        let whole = check.matches(&header, &key) || planted(Bug::TornRecordReplayed);
        Ok((whole && self.fill(offset, head)?).then_some(header))
    }

    /// Key and value of a record in the buffer; of a separated value only its expiry.
    fn body(&self, offset: u64, header: &Header) -> (&[u8], &[u8]) {
        let value_len = match header.kind.is_separated() {
            true => header.kind.front_len(),
            false => header.value_len as usize,
        };
        let len = HEADER_LEN + usize::from(header.key_len) + value_len;
        self.bytes(offset, len)[HEADER_LEN..].split_at(usize::from(header.key_len))
    }

    /// The next record and its offset, a separated one without its value, which was checked, but
    /// with its expiry; `None` at the end of the log, torn or not. Marks are checked and skipped.
    pub fn next_record(&mut self) -> Result<Option<(u64, Record<'_>)>> {
        let (offset, header) = loop {
            let Some((offset, header)) = self.find_next()? else { return Ok(None) };
            self.offset = offset + header.record_len() as u64;
            if header.kind != RecordKind::SyncMarker {
                break (offset, header);
            }
        };
        let (key, value) = self.body(offset, &header);
        Ok(Some((offset, Record { header, key, value })))
    }

    /// The record at the current offset, or the mark behind the gap that begins there.
    fn find_next(&mut self) -> Result<Option<(u64, Header)>> {
        if let Some(header) = self.valid_at(self.offset)? {
            return Ok(Some((self.offset, header)));
        }
        if planted(Bug::MarkIgnored) {
            return Ok(None);
        }
        let mut offset = self.offset.next_multiple_of(MARK_ALIGNMENT);
        while offset <= self.offset.next_multiple_of(BLOCK as u64) {
            if let Some((header, mark)) = self.mark_at(offset)? {
                let joins = mark.previous_end == self.base + self.offset;
                return Ok(joins.then_some((offset, header)));
            }
            offset += MARK_ALIGNMENT;
        }
        Ok(None)
    }

    fn mark_at(&mut self, offset: u64) -> Result<Option<(Header, SyncMarker)>> {
        let Some(header) = self.valid_at(offset)? else { return Ok(None) };
        if header.kind != RecordKind::SyncMarker {
            return Ok(None);
        }
        let mark = SyncMarker::decode(self.body(offset, &header).1)?;
        Ok(Some((header, mark)))
    }

    /// Whether a mark further on says that log positions above `stopped` were durable: then the
    /// missing bytes are damage, not a torn write. Returns the mark's offset.
    pub fn proof_of_loss(&mut self, stopped: u64) -> Result<Option<u64>> {
        let mut offset = (self.offset + 1).next_multiple_of(MARK_ALIGNMENT);
        while offset + SyncMarker::RECORD_LEN as u64 <= self.extent {
            if let Some((_, mark)) = self.mark_at(offset)?
                && mark.durable > stopped
            {
                return Ok(Some(offset));
            }
            offset += MARK_ALIGNMENT;
        }
        Ok(None)
    }

    /// Bytes of the file behind the last record, up to the last one that is not zero: what is lost
    /// at a torn end.
    pub fn rest(&mut self) -> Result<u64> {
        let mut rest = 0;
        let mut offset = self.offset;
        while offset < self.file_len {
            let len = CHUNK_LEN.min((self.file_len - offset) as usize);
            self.fill(offset, len)?;
            if let Some(last) = self.bytes(offset, len).iter().rposition(|byte| *byte != 0) {
                rest = offset + last as u64 + 1 - self.offset;
            }
            offset += len as u64;
        }
        Ok(rest)
    }

    /// Reads and checks the file's header record, leaving the reader behind it; `None` if there is
    /// no valid one, as in a file that was never written.
    pub fn header(&mut self) -> Result<Option<FileHeader>> {
        let Some(record) = self.valid_at(0)? else { return Ok(None) };
        if record.kind != RecordKind::FileHeader {
            return Ok(None);
        }
        let header = FileHeader::decode(self.body(0, &record).1)?;
        self.offset = record.record_len() as u64;
        Ok(Some(header))
    }
}
