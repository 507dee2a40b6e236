//! Dumps one file of a database that is not opened: finds its facts in the manifest and the seed of
//! its checksums, and calls the dump of its kind.

use std::ops::ControlFlow;
use std::sync::Arc;

use cleavedb_base::record::FileIdentity;
use cleavedb_base::{Error, ErrorKind, FileNumber};
use cleavedb_index::TableMeta;
use cleavedb_storage::log::FileHeader;
use cleavedb_storage::log::salvage::{header_in_window, proven_header};
use cleavedb_storage::{File, FileKind, Name};
use cleavedb_values::{RetainedFile, ValueFileMeta};

use super::line::Out;
use super::request::{DumpKind, DumpRequest};
use super::{edits, extents, log, table};
use crate::inspect::unopened::{Unopened, window_behind};
use crate::settings::options::LogPolicy;
use crate::store::manifest::LiveFiles;

/// The inputs of one request's dumps.
pub(super) struct Reading<'a> {
    pub(super) files: &'a Unopened,
    pub(super) database_id: Option<u64>,
    /// The live files of the manifest.
    pub(super) live: Option<&'a LiveFiles>,
    /// All bytes of the window; empty if there is none.
    pub(super) window: &'a [u8],
    pub(super) request: &'a DumpRequest,
}

impl Reading<'_> {
    /// Dumps the file `name`.
    pub(super) fn file(
        &self,
        name: Name,
        file: Arc<dyn File>,
        out: &mut Out<'_>,
    ) -> ControlFlow<()> {
        let len = match file.len() {
            Ok(len) => len,
            Err(e) => {
                return out.damage(Error::io("get the length of a file", e).with("file", name));
            }
        };
        let facts = vec![("length", len.into()), ("manifest_says", self.said(name).into())];
        out.line(None, "file", facts)?;
        let Some(identity) = self.identity(name, &*file, out)? else {
            let what = "nothing says which database the file belongs to, and without that nothing \
                        in it can be proved; give the id, which `current` and log files name";
            return out.damage(Error::new(ErrorKind::NotADatabase, what).with("file", name));
        };
        match self.request.kind {
            DumpKind::Manifest => {
                let tables = self.files.tables(self.database_id.unwrap_or_default());
                edits::dump(&*file, identity, self.request.state.then_some(&tables), out)
            }
            DumpKind::Table => {
                let known = self.live.and_then(|live| table_of(live, name.number()));
                table::dump(file, identity, name.number(), known.map(|(_, meta)| meta), out)
            }
            DumpKind::Values if name.kind().has_extents() => {
                let known = self.live.filter(|_| self.facts(name).is_some());
                let extents =
                    |live: &LiveFiles| live.groups.extents_in(name.number()).cloned().collect();
                extents::dump(name, file, identity, known.map(extents), out)
            }
            DumpKind::Log | DumpKind::Values => {
                log::dump(self.log_file(name, identity, &*file, len), out)
            }
        }
    }

    /// The identity with which the file's checksums are seeded. A file with a header has it there.
    fn identity(
        &self,
        name: Name,
        file: &dyn File,
        out: &mut Out<'_>,
    ) -> ControlFlow<(), Option<FileIdentity>> {
        let id = self.database_id;
        if let Some(own) = proven_header(file) {
            if own.number != name.number() || id.is_some_and(|id| id != own.database_id) {
                let what = "the file is another one than its name and its directory say; it is \
                            read as what its header says";
                let error = Error::corruption(what).with("file", name).with("number", own.number);
                out.damage(error.with("database", format!("{:016x}", own.database_id)))?;
            }
            return ControlFlow::Continue(Some(FileIdentity::new(own.database_id, own.number)));
        }
        ControlFlow::Continue(id.map(|id| FileIdentity::new(id, name.number())))
    }

    /// The manifest's facts about a log or value file.
    fn facts(&self, name: Name) -> Option<&ValueFileMeta> {
        self.live?.value_files.get(name.number()).filter(|facts| facts.kind == name.kind())
    }

    /// What the manifest says of a log file that is kept for readers of changes only.
    fn retained(&self, name: Name) -> Option<RetainedFile> {
        self.live?.value_files.get_retained(name.number())
    }

    /// The manifest's facts about a file, in words.
    fn said(&self, name: Name) -> String {
        let Some(live) = self.live else {
            return match (name.kind(), &self.files.current) {
                (FileKind::Manifest, Some(current)) if current.manifest == name.number() => {
                    "it is the current one".to_owned()
                }
                _ => "nothing: none was read".to_owned(),
            };
        };
        if name.kind() == FileKind::Table {
            return match table_of(live, name.number()) {
                Some((level, _)) => format!("in level {level}"),
                None => "nothing: no part of the index".to_owned(),
            };
        }
        if let Some(RetainedFile { len, .. }) = self.retained(name) {
            return format!("kept for readers of changes only, valid up to {len}");
        }
        match self.facts(name).map(|facts| facts.len) {
            Some(Some(len)) => format!("valid up to {len}"),
            Some(None) => "still written, or left by a crash".to_owned(),
            None => "nothing: not used any more, or not yet".to_owned(),
        }
    }

    fn log_file<'f>(
        &'f self,
        name: Name,
        identity: FileIdentity,
        file: &'f dyn File,
        len: u64,
    ) -> log::DumpedLog<'f> {
        let number = name.number();
        let is_segment = self.request.kind == DumpKind::Values;
        let head = self.live.and_then(|live| live.head);
        let whole = self.retained(name).map(|RetainedFile { base, len }| (base, len));
        let of_facts = |facts: &ValueFileMeta| facts.len.map(|len| (facts.base, len));
        let whole = whole.or_else(|| self.facts(name).and_then(of_facts));
        let sealed = whole.map(|(_, len)| len);
        let header = proven_header(file).or_else(|| header_in_window(number, self.window));
        let sealed_base = || whole.map(|(base, _)| base);
        let head_base = || head.filter(|head| head.file == number).map(|head| head.base);
        let base = header.map(|header| header.base).or_else(sealed_base).or_else(head_base);
        let base = base.filter(|_| !is_segment);
        let needless = head.filter(|_| self.may_have_holes(name)).zip(base);
        let needless = needless.map_or(0, |(head, base)| head.position.saturating_sub(base));
        let is_young = sealed.is_none() && !self.window.is_empty();
        let window = base.filter(|_| is_young);
        log::DumpedLog {
            file,
            identity,
            len,
            base,
            is_segment,
            sealed,
            needless,
            window: window.map(|base| window_behind(self.window, base, len, head)),
            next: self.header_behind(number).filter(|_| !is_segment),
        }
    }

    /// Whether the part of a log file below the replay head may never have been written to it.
    fn may_have_holes(&self, name: Name) -> bool {
        let Some(live) = self.live else { return false };
        let of_records = self.facts(name).map_or(0, |facts| facts.live);
        let may = |layout| !LogPolicy::of(&layout).is_whole(of_records);
        let may_go = self.retained(name).is_none() && name.number() <= live.head_file();
        may_go && live.layout.is_some_and(may)
    }

    /// The header of the log file that follows `number`.
    fn header_behind(&self, number: FileNumber) -> Option<FileHeader> {
        let names = self.files.names(FileKind::Log).ok()?;
        let name = names.into_iter().find(|name| name.number() > number)?;
        let file = self.files.open(&name).ok()?;
        proven_header(&*file).or_else(|| header_in_window(name.number(), self.window))
    }
}

/// The level of a table, and the manifest's facts about it.
fn table_of(live: &LiveFiles, number: FileNumber) -> Option<(u8, &TableMeta)> {
    let found = live.version.tables().find(|(_, table)| table.number() == number);
    found.map(|(level, table)| (level, table.meta()))
}
