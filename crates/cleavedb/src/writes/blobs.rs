//! Blobs: a value that comes from a reader is written to a file of its own, piece by piece, and
//! stays there.
//!
//! Order: the file is written and synced; one edit names it; a commit puts a pointer to it into the
//! log and the index. A flush makes the file belong to its run, like any file with values, and the
//! drop of the last pointer removes it. Until the flush no table knows of it: it stays while a
//! commit under way or a MemTable names it (`Engine::is_held`). What a crash leaves between
//! edit and commit is dropped as a dead file by the next session.

use std::io::{self, Read};

use cleavedb_base::checksum::hash64;
use cleavedb_base::planted::{Bug, planted};
use cleavedb_base::record::RecordKind;
use cleavedb_base::{
    EncodedKey, EntryRoom, Error, ErrorKind, FileNumber, Lasting, Result, ValuePointer,
};
use cleavedb_storage::segment::blob::{BLOB_PIECE, BlobWriter, LEN_MAX};
use cleavedb_storage::{Access, FileClass, FileKind, Name};
use cleavedb_values::{Blob, ValueFileEdit};

use crate::background::{memtables, reclaim};
use crate::engine::Engine;
use crate::engine::value_files;
use crate::operations::batch::Op;
use crate::operations::catalog::CatalogEntry;
use crate::operations::encoded_op::EncodedOp;
use crate::operations::ops::Ops;
use crate::settings::options::Durability;
use crate::settings::time::{Lifetime, Time};
use crate::store::limit::Need;
use crate::store::manifest::Edit;
use crate::writes::room;
use crate::writes::write::{self, Terms};

/// Bytes of a blob that are written between two looks at the room for more, and at whether the
/// database is closing.
const LOOK: u64 = 1 << 20;

/// Where a blob goes.
#[derive(Clone, Copy)]
pub(crate) struct BlobTarget<'a> {
    pub(crate) keyspace: &'a CatalogEntry,
    pub(crate) key: &'a [u8],
    pub(crate) lifetime: Lifetime,
    pub(crate) durability: Durability,
}

impl BlobTarget<'_> {
    /// Whether the value would be over when it is stored.
    pub(crate) fn is_over(&self, time: &Time) -> bool {
        !self.lasting((), time).is_there(|| time.millis())
    }

    fn lasting<T>(&self, value: T, time: &Time) -> Lasting<T> {
        Lasting { value, until: self.lifetime.end(self.keyspace.lifetime, time) }
    }
}

/// The file of a blob that no entry names yet. Dropped, it lets the file go, unless a MemTable has
/// its entry.
struct NewBlob<'e> {
    engine: &'e Engine,
    number: FileNumber,
    /// Whether an edit names the file, or may do so.
    is_named: bool,
}

impl<'e> NewBlob<'e> {
    fn of(engine: &'e Engine, number: FileNumber) -> Self {
        engine.jobs.lone_files.new.lock().insert(number);
        Self { engine, number, is_named: false }
    }
}

impl Drop for NewBlob<'_> {
    fn drop(&mut self) {
        self.engine.jobs.lone_files.new.lock().remove(&self.number);
        if !self.is_named {
            self.engine.discard(FileKind::Blob, &[self.number]);
            return;
        }
        // If this fails, it is a dead file that the next flush or session drops.
        if !self.engine.is_held(self.number) && self.engine.check_open().is_ok() {
            let _ = value_files::drop_dead_files(self.engine, &mut self.engine.manifest.lock());
        }
    }
}

/// Stores what `first` and then `reader` have as a blob; returns its length.
pub(crate) fn put(
    engine: &Engine,
    target: BlobTarget<'_>,
    first: &[u8],
    reader: &mut dyn Read,
    terms: Terms<'_>,
) -> Result<u64> {
    let BlobTarget { keyspace, key, .. } = target;
    let (number, file) = engine.create_file(FileClass::Blobs, Access::Direct)?;
    let mut new = NewBlob::of(engine, number);
    let name = Name::numbered(FileKind::Blob, number);
    let written = BlobWriter::create(name, engine.database_id, file)
        .and_then(|writer| write_all(engine, writer, first, reader))
        .and_then(|writer| Ok((writer.len(), writer.finish(keyspace.id, key)?)));
    let (len, (pointer, file_len)) = written.map_err(|e| engine.with_volume(e).with_remedy())?;
    engine.counters.blob_written.add(file_len);
    name_blob(engine, &mut new, keyspace, key, file_len)?;
    commit(engine, target, pointer, terms)?;
    engine.counters.blob_bytes.add(len);
    memtables::rotate_lone(engine);
    Ok(len)
}

/// Gives the value of a key, which is a blob, another lifetime: by another entry for the same file,
/// which goes with the last of them. `terms` has the read of the blob, and the caller a snapshot as
/// of that read: so the file stays until the entry is there.
pub(crate) fn renew(
    engine: &Engine,
    target: BlobTarget<'_>,
    blob: &Blob,
    terms: Terms<'_>,
) -> Result<()> {
    if !target.is_over(&engine.time) {
        return commit(engine, target, blob.pointer, terms);
    }
    let op = EncodedOp::new(Op::delete(target.key), target.keyspace, &engine.time);
    let bytes = target.key.len() as u64;
    write::write(engine, Ops::Few(&[op]), bytes, target.durability, terms).map(drop)
}

/// Makes a blob the value of its key.
fn commit(
    engine: &Engine,
    target: BlobTarget<'_>,
    pointer: ValuePointer,
    terms: Terms<'_>,
) -> Result<()> {
    let BlobTarget { keyspace, key, durability, .. } = target;
    let pointer = target.lasting(pointer, &engine.time);
    let mut room: EntryRoom = [0; ValuePointer::ENCODED_LEN_MAX];
    let (_, stored_len) = ValuePointer::encode_entry(pointer, &mut room);
    let (kind, stored) = (RecordKind::Blob.until(pointer.until), &room[..stored_len]);
    let op = EncodedOp::of_kind(kind, keyspace.id, key, stored.into());
    write::write(engine, Ops::Few(&[op]), key.len() as u64, durability, terms).map(drop)
}

/// Writes all that `first` and `reader` have.
fn write_all(
    engine: &Engine,
    mut writer: BlobWriter,
    first: &[u8],
    reader: &mut dyn Read,
) -> Result<BlobWriter> {
    writer.write(first)?;
    let (mut piece, mut looked) = (vec![0; BLOB_PIECE], 0);
    loop {
        if writer.len() >= looked + LOOK {
            looked = writer.len();
            check_room(engine, looked)?;
        }
        match reader.read(&mut piece) {
            Ok(0) => return Ok(writer),
            Ok(len) => writer.write(&piece[..len])?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io("read the value that is to be stored", e)),
        }
    }
}

/// Fails if a blob may not grow beyond `len` bytes: it is too long, or there is no room.
fn check_room(engine: &Engine, len: u64) -> Result<()> {
    engine.check_open()?;
    if len > LEN_MAX {
        let what = format!("a value is longer than the limit of {LEN_MAX} bytes");
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    if engine.full.is_short() {
        room::check_disk(engine, Need::Write)?;
    }
    match engine.space().refuses_long(LOOK) {
        true => reclaim::find_space(engine, Need::Long(LOOK)),
        false => Ok(()),
    }
}

/// Names the file of a blob by an edit, and opens it for readers.
fn name_blob(
    engine: &Engine,
    new: &mut NewBlob<'_>,
    keyspace: &CatalogEntry,
    key: &[u8],
    file_len: u64,
) -> Result<()> {
    let number = new.number;
    engine.sync_dir()?;
    let segment = engine.open_segment(FileKind::Blob, number, None)?;
    let hash = hash64(EncodedKey::new(keyspace.id, key).as_bytes(), 0);
    let add = ValueFileEdit::Add(number, FileKind::Blob);
    let value_files = vec![add, ValueFileEdit::Seal(number, hash, file_len)];
    let mut manifest = engine.manifest.lock();
    // An edit that fails may be there all the same: the file stays, as an orphan perhaps.
    new.is_named = true;
    if !planted(Bug::BlobNotNamed) {
        engine.commit_edit(&mut manifest, &Edit { value_files, ..Edit::default() })?;
    }
    engine.state.swap(|state| {
        state.with_segments(state.segments.with(std::slice::from_ref(&segment), &[]))
    });
    Ok(())
}
