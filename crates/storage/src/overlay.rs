//! Overlay: bytes that were written over a file, in memory; the file itself stays as it is.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use crate::api::{File, read_exact_at};

/// Changes of one file.
pub(crate) struct Overlay {
    /// Length of the file with its changes, in bytes.
    len: u64,
    /// Bytes of the file below that can still be seen: a cut hides those behind it for good.
    shown: u64,
    /// Written bytes by their offsets; no two pieces overlap.
    pieces: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    /// No changes yet, over a file of `len` bytes.
    pub(crate) fn over(len: u64) -> Self {
        Self { len, shown: len, pieces: BTreeMap::new() }
    }

    /// Length of the changed file, in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Reads as [`File::read_at`] does; `below` is the file, if there is one.
    pub(crate) fn read(
        &self,
        below: Option<&dyn File>,
        buf: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        let len = self.len.saturating_sub(offset).min(buf.len() as u64);
        let buf = &mut buf[..len as usize];
        let shown = self.shown.saturating_sub(offset).min(len);
        let (front, back) = buf.split_at_mut(shown as usize);
        if let Some(below) = below {
            read_exact_at(below, front, offset)?;
        }
        back.fill(0);
        let end = offset + len;
        let before = self.pieces.range(..offset).next_back();
        for (at, piece) in before.into_iter().chain(self.pieces.range(offset..end)) {
            let from = offset.max(*at);
            let to = end.min(at + piece.len() as u64);
            if from < to {
                let written = &piece[(from - at) as usize..(to - at) as usize];
                buf[(from - offset) as usize..(to - offset) as usize].copy_from_slice(written);
            }
        }
        Ok(len as usize)
    }

    /// Writes `bytes` at `offset`; a gap behind the old end reads as zeros.
    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.forget(offset..end);
        // What is appended bit by bit, as a manifest is, stays one piece.
        match self.pieces.range_mut(..offset).next_back() {
            Some((at, piece)) if at + piece.len() as u64 == offset => {
                piece.extend_from_slice(bytes);
            }
            _ => _ = self.pieces.insert(offset, bytes.to_vec()),
        }
        self.len = self.len.max(end);
        Ok(())
    }

    /// Cuts the file, or extends it with zeros.
    pub(crate) fn truncate(&mut self, len: u64) {
        self.forget(len..u64::MAX);
        self.shown = self.shown.min(len);
        self.len = len;
    }

    /// Drops what was written in `range`.
    fn forget(&mut self, range: Range<u64>) {
        self.split(range.start);
        self.split(range.end);
        let gone: Vec<u64> = self.pieces.range(range).map(|(at, _)| *at).collect();
        gone.iter().for_each(|at| _ = self.pieces.remove(at));
    }

    /// Divides the piece around `at` in two.
    fn split(&mut self, at: u64) {
        let Some((begin, piece)) = self.pieces.range_mut(..at).next_back() else { return };
        let kept = at - begin;
        if kept < piece.len() as u64 {
            let rest = piece.split_off(kept as usize);
            self.pieces.insert(at, rest);
        }
    }
}
