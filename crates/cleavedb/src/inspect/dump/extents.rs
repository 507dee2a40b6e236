//! A group file: its extents as the manifest names them, and everything that stands in them.
//!
//! Without a manifest the places of extents are unknown; records, filters, key blocks and key
//! directories are shown all the same, since each has a checksum of its own.

use std::iter::Peekable;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::vec::IntoIter;

use cleavedb_base::Error;
use cleavedb_base::filter::BloomFilter;
use cleavedb_base::limits::BLOCK;
use cleavedb_base::record::{FileIdentity, Header, RecordKind};
use cleavedb_storage::log::salvage::{Met, salvage};
use cleavedb_storage::segment::Segment;
use cleavedb_storage::{File, Name, ObsoleteFiles};
use cleavedb_values::groups::{Extent, key_block};

use super::line::{Facts, Out};
use super::{records, words};

/// Dumps the group file `name`. `extents` are those that the manifest names in it, in order; none
/// if it does not name the file.
pub(super) fn dump(
    name: Name,
    file: Arc<dyn File>,
    identity: FileIdentity,
    extents: Option<Vec<Extent>>,
    out: &mut Out<'_>,
) -> ControlFlow<()> {
    let segment =
        Segment::new(name, identity, file.clone(), None, Arc::new(ObsoleteFiles::default()));
    let is_known = extents.is_some();
    let extents = extents.unwrap_or_default().into_iter().peekable();
    let mut walk = ExtentWalk { segment, out, is_known, extents, extent: None, at: 0 };
    let mut done = ControlFlow::Continue(());
    let scanned = salvage(&*file, None, identity, &mut |offset, met| {
        done = walk.meet(offset, met);
        done
    });
    done?;
    match scanned {
        Ok(()) => walk.go_to(u64::MAX),
        Err(e) => walk.out.damage(Error::io("get the length of a file", e)),
    }
}

struct ExtentWalk<'o, 'v> {
    segment: Segment,
    out: &'o mut Out<'v>,
    /// Whether the manifest says which extents there are.
    is_known: bool,
    /// The extents that come.
    extents: Peekable<IntoIter<Extent>>,
    /// The one whose bytes are read.
    extent: Option<Extent>,
    /// Offset behind its last record so far.
    at: u64,
}

impl ExtentWalk<'_, '_> {
    fn meet(&mut self, offset: u64, met: Met<'_>) -> ControlFlow<()> {
        self.go_to(offset)?;
        match met {
            Met::Record(header, key, value) => self.record(offset, &header, key, value),
            Met::Damaged(header) => {
                records::damaged(offset, &header, self.out)?;
                self.pass(offset, &header);
                if self.is_known && self.extent.is_none() {
                    return ControlFlow::Continue(());
                }
                self.out.damage_at(offset, "key or value of a record do not match their checksum")
            }
            Met::Rubbish(len) => self.rubbish(offset, len),
            Met::Unreadable(error) => {
                let error = Error::io("read a block", error).with("offset", offset);
                self.out.damage(error)
            }
        }
    }

    /// Leaves the extents that end at or below `offset`, and enters the one that has it.
    fn go_to(&mut self, offset: u64) -> ControlFlow<()> {
        loop {
            if self.extent.as_ref().is_some_and(|e| offset >= e.place.offset + e.len()) {
                self.leave()?;
            }
            let reached = self.extent.is_none();
            let next = self.extents.next_if(|next| reached && next.place.offset <= offset);
            let Some(next) = next else { return ControlFlow::Continue(()) };
            self.out.line(next.place.offset, "extent", words::extent(&next))?;
            self.at = next.place.offset;
            self.extent = Some(next);
        }
    }

    /// The extent that was read is over: its records must end where the manifest says.
    fn leave(&mut self) -> ControlFlow<()> {
        let Some(extent) = self.extent.take() else { return ControlFlow::Continue(()) };
        let end = extent.place.offset + extent.records_len;
        if self.at == end {
            return ControlFlow::Continue(());
        }
        let what = "the records of an extent do not end where the manifest says";
        let error = Error::corruption(what).with("offset", self.at);
        self.out.damage(error.with("end", end))
    }

    /// A record of the current extent was passed, whole or not.
    fn pass(&mut self, offset: u64, header: &Header) {
        let is_own = header.kind.is_of_key();
        if self.extent.is_some() && is_own && offset == self.at {
            self.at += header.record_len() as u64;
        }
    }

    fn record(
        &mut self,
        offset: u64,
        header: &Header,
        key: &[u8],
        value: &[u8],
    ) -> ControlFlow<()> {
        self.pass(offset, header);
        match header.kind {
            RecordKind::FileHeader => records::file_header(value, self.out).map_continue(|_| ()),
            RecordKind::Filter => self.filter(offset, value),
            RecordKind::KeyBlock => self.key_block(offset, value),
            kind => {
                let mut facts = Facts::new();
                if self.is_known && self.extent.is_none() {
                    facts.push(("counts", "no, no extent has it: its space was given back".into()));
                }
                if kind == RecordKind::Delete || kind.is_inline() {
                    facts.push(("tombstone", "it only hides older records of its key".into()));
                }
                records::operation(offset, header, key, value, facts, self.out)
            }
        }
    }

    fn rubbish(&mut self, offset: u64, len: u64) -> ControlFlow<()> {
        match &self.extent {
            Some(_) => self.out.damage_at(offset, "bytes belong to no record"),
            None if self.is_known && offset >= BLOCK as u64 => {
                let why = "no extent has them: their space was given back";
                let facts = vec![("length", len.into()), ("why", why.into())];
                self.out.line(offset, "no record", facts)
            }
            None if self.is_known => self.out.damage_at(offset, "bytes belong to no record"),
            None => {
                let why = "padding or damage: no manifest says which";
                let facts = vec![("length", len.into()), ("why", why.into())];
                self.out.line(offset, "no record", facts)
            }
        }
    }

    fn filter(&mut self, offset: u64, value: &[u8]) -> ControlFlow<()> {
        match BloomFilter::decode(value) {
            Ok(filter) => {
                let facts = vec![("bytes", (filter.memory() as u64).into())];
                self.out.line(offset, "filter", facts)
            }
            Err(error) => self.out.damage(error.with("offset", offset)),
        }
    }

    fn key_block(&mut self, offset: u64, value: &[u8]) -> ControlFlow<()> {
        let mut facts: Facts<'_> = vec![("length", (value.len() as u64).into())];
        let Some(extent) = &self.extent else { return self.out.line(offset, "key block", facts) };
        let end = extent.place.offset + extent.records_len;
        let mut count = 0u64;
        let told = key_block::visit(value, self.segment.identity(), extent.place, end, |_, _| {
            count += 1;
            Ok(())
        });
        if let Err(error) = told {
            return self.out.damage(error.with("key block", offset));
        }
        facts.push(("records", count.into()));
        self.out.line(offset, "key block", facts)
    }
}
