//! Shared by the tests of this crate: owned entries, files in memory, small worlds of tables.

use std::io;
use std::sync::Arc;

use cleavedb_base::limits::SEQ_MAX;
use cleavedb_base::record::FileIdentity;
use cleavedb_base::sync::Mutex;
use cleavedb_base::sync::atomic::{AtomicU64, Ordering};
use cleavedb_base::{EntryKind, Expiry, FileNumber, Result, SeqNo, ValuePointer};
use cleavedb_storage::{File, Mapping, ObsoleteFiles};
use cleavedb_storage_sim::Sim;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use crate::cache::BlockCache;
use crate::compaction::job::{TableFactory, ValueGcObserver};
use crate::edit::RunPosition;
use crate::entry::{Entry, EntryIter};
use crate::table::Table;
use crate::table_builder::TableBuilder;
use crate::table_format::{Compression, TableMeta, TableOptions};
use crate::table_handle::TableStore;

/// An entry that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub key: Vec<u8>,
    pub seq: SeqNo,
    pub kind: EntryKind,
    pub repeat: bool,
    pub value: Vec<u8>,
}

impl Item {
    pub fn of(entry: Entry<'_>) -> Self {
        let Entry { key, seq, kind, repeat, value } = entry;
        Self { key: key.to_vec(), seq, kind, repeat, value: value.to_vec() }
    }

    pub fn entry(&self) -> Entry<'_> {
        let Self { key, seq, kind, repeat, value } = self;
        Entry { key, seq: *seq, kind: *kind, repeat: *repeat, value }
    }

    pub fn inline(key: &str, seq: SeqNo, value: &str) -> Self {
        let (key, value) = (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        Self { key, seq, kind: EntryKind::Inline, repeat: false, value }
    }

    pub fn pointer(key: &str, seq: SeqNo, offset: u64) -> Self {
        let mut encoded = [0; ValuePointer::ENCODED_LEN_MAX];
        let pointer = ValuePointer { file: FileNumber(9), offset, len: 100 };
        let len = pointer.encode(&mut encoded);
        let value = encoded[..len].to_vec();
        Self { kind: EntryKind::Pointer, value, ..Self::inline(key, seq, "") }
    }

    /// An inline value that expires.
    pub fn expiring(key: &str, seq: SeqNo, value: &str, expiry: u64) -> Self {
        let stored = [&Expiry::at(expiry).encode()[..], value.as_bytes()].concat();
        Self { kind: EntryKind::Inline.expiring(true), value: stored, ..Self::inline(key, seq, "") }
    }

    /// A pointer to a value that expires.
    pub fn expiring_pointer(key: &str, seq: SeqNo, offset: u64, expiry: u64) -> Self {
        let Self { value, .. } = Self::pointer(key, seq, offset);
        let value = [&Expiry::at(expiry).encode()[..], &value].concat();
        Self { kind: EntryKind::Pointer.expiring(true), value, ..Self::inline(key, seq, "") }
    }

    pub fn delete(key: &str, seq: SeqNo) -> Self {
        Self { kind: EntryKind::Delete, ..Self::inline(key, seq, "") }
    }

    pub fn repeated(self) -> Self {
        Self { repeat: true, ..self }
    }
}

/// Sorts into index order; the order of equal entries is unspecified.
pub fn sort(items: &mut [Item]) {
    items.sort_by(|a, b| a.key.cmp(&b.key).then(b.seq.cmp(&a.seq)));
}

/// Sorted entries with few different keys, so that keys have several versions, and unique sequence
/// numbers.
pub fn items(count: usize) -> impl Strategy<Value = Vec<Item>> {
    let value = prop_oneof![3 => 0..20usize, 1 => Just(300usize)];
    let one = (any::<u8>(), 0..7u8, any::<bool>(), value, any::<u16>());
    proptest::collection::vec(one, 1..count).prop_map(|list| {
        let mut items: Vec<Item> = list
            .into_iter()
            .enumerate()
            .map(|(i, (key, kind, repeat, len, jitter))| {
                let name = format!("key{:0width$}", key % 40, width = usize::from(key % 3) + 1);
                let seq = (i as u64 + 1) << 16 | u64::from(jitter);
                let item = match kind {
                    0 => Item::delete(&name, seq),
                    1 | 2 => Item::inline(&name, seq, &"v".repeat(len)),
                    3 => Item::expiring(&name, seq, &"v".repeat(len), jitter.into()),
                    4 => Item::expiring_pointer(&name, seq, seq, jitter.into()),
                    _ => Item::pointer(&name, seq, seq),
                };
                Item { repeat, ..item }
            })
            .collect();
        sort(&mut items);
        items
    })
}

/// Every key of `items`, keys beside them, and the two ends of all keys.
pub fn probes(items: &[Item]) -> Vec<(Vec<u8>, SeqNo)> {
    let mut probes = vec![(vec![], SEQ_MAX), (vec![0xff; 9], 0), (b"key".to_vec(), 0)];
    for item in items {
        for seq in [0, item.seq - 1, item.seq, item.seq + 1, SEQ_MAX] {
            probes.push((item.key.clone(), seq));
        }
        probes.push(([&item.key[..], b"\0"].concat(), SEQ_MAX));
        probes.push((item.key[..item.key.len() - 1].to_vec(), 0));
    }
    probes
}

pub fn forwards(iter: &mut dyn EntryIter) -> Vec<Item> {
    let mut items = Vec::new();
    iter.seek_first().unwrap();
    while iter.valid() {
        items.push(Item::of(iter.entry()));
        iter.next().unwrap();
    }
    items
}

pub fn backwards(iter: &mut dyn EntryIter) -> Vec<Item> {
    let mut items = Vec::new();
    iter.seek_last().unwrap();
    while iter.valid() {
        items.push(Item::of(iter.entry()));
        iter.prev().unwrap();
    }
    items.reverse();
    items
}

fn current(iter: &dyn EntryIter) -> Option<Item> {
    iter.valid().then(|| Item::of(iter.entry()))
}

/// Drives `iter` by `steps` and compares it with a cursor over `items`.
pub fn check_walk(iter: &mut dyn EntryIter, items: &[Item], steps: &[(u8, u16)]) {
    let probes = probes(items);
    let mut at: Option<usize> = None;
    for &(step, pick) in steps {
        let (key, seq) = &probes[usize::from(pick) % probes.len()];
        let first_at = items.partition_point(|item| item.entry().order(key, *seq).is_lt());
        at = match (step % 8, at) {
            (0, _) => {
                iter.seek_first().unwrap();
                Some(0)
            }
            (1, _) => {
                iter.seek_last().unwrap();
                items.len().checked_sub(1)
            }
            (2, _) => {
                iter.seek(key, *seq).unwrap();
                Some(first_at)
            }
            (3, _) => {
                iter.seek_before(key, *seq).unwrap();
                first_at.checked_sub(1)
            }
            (4 | 5, Some(i)) => {
                iter.next().unwrap();
                Some(i + 1)
            }
            (_, Some(i)) => {
                iter.prev().unwrap();
                i.checked_sub(1)
            }
            (_, None) => None,
        };
        at = at.filter(|&i| i < items.len());
        assert_eq!(current(iter), at.map(|i| items[i].clone()), "after step {step} to {key:?}");
    }
}

/// Sorted items as a source.
pub struct VecIter {
    items: Vec<Item>,
    at: Option<usize>,
}

impl VecIter {
    pub fn new(items: Vec<Item>) -> Self {
        Self { items, at: None }
    }

    fn behind(&self, key: &[u8], seq: SeqNo) -> usize {
        self.items.partition_point(|item| item.entry().order(key, seq).is_lt())
    }
}

impl EntryIter for VecIter {
    fn valid(&self) -> bool {
        self.at.is_some_and(|i| i < self.items.len())
    }
    fn entry(&self) -> Entry<'_> {
        self.items[self.at.unwrap()].entry()
    }
    fn seek_first(&mut self) -> Result<()> {
        self.at = Some(0);
        Ok(())
    }
    fn seek_last(&mut self) -> Result<()> {
        self.at = self.items.len().checked_sub(1);
        Ok(())
    }
    fn seek(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.at = Some(self.behind(key, seq));
        Ok(())
    }
    fn seek_before(&mut self, key: &[u8], seq: SeqNo) -> Result<()> {
        self.at = self.behind(key, seq).checked_sub(1);
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        self.at = self.at.map(|i| i + 1);
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        self.at = self.at.and_then(|i| i.checked_sub(1));
        Ok(())
    }
}

/// A file in memory whose bytes a test can damage.
#[derive(Default)]
pub struct MemFile(pub Mutex<Vec<u8>>);

impl File for MemFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = self.0.lock();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
    fn read_resident(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let mut bytes = self.0.lock();
        assert_eq!(bytes.len(), offset as usize, "tables are written front to back");
        bytes.extend_from_slice(buf);
        Ok(buf.len())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn allocate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.lock().truncate(len as usize);
        Ok(())
    }
    fn punch(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().len() as u64)
    }
    fn space(&self) -> io::Result<u64> {
        self.len()
    }
    fn is_copied(&self) -> io::Result<bool> {
        Ok(false)
    }
    fn identity(&self) -> io::Result<u64> {
        Ok(0)
    }
    fn map(&self, _: usize) -> io::Result<Option<Mapping>> {
        Ok(None)
    }
    fn extend_mapped(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn alignment(&self) -> usize {
        1
    }
    fn will_need(&self, _: u64, _: usize) {}
    fn is_in_memory(&self, _: u64) -> bool {
        false
    }
    fn wont_need(&self, _: u64, _: usize) {}
}

pub const NUMBER: FileNumber = FileNumber(7);

pub fn identity() -> FileIdentity {
    FileIdentity::new(1, NUMBER)
}

/// Small blocks, so that a few entries fill several.
pub fn small_blocks(compression: Compression) -> TableOptions {
    TableOptions { block_bytes: 200, compression, ..TableOptions::default() }
}

pub fn build(file: Arc<dyn File>, items: &[Item], options: &TableOptions) -> TableMeta {
    let mut builder = TableBuilder::new(file, identity(), NUMBER, options).unwrap();
    for item in items {
        builder.add(item.entry()).unwrap();
    }
    builder.finish().unwrap()
}

pub fn open(bytes: Vec<u8>) -> Result<Arc<Table>> {
    let file = Arc::new(MemFile(Mutex::new(bytes)));
    let cache = Arc::new(BlockCache::new(1 << 20));
    Table::open(file, identity(), NUMBER, cache).map(Arc::new)
}

/// The bytes of a table of `items`.
pub fn table_bytes(items: &[Item], options: &TableOptions) -> Vec<u8> {
    let file = Arc::new(MemFile::default());
    build(Arc::clone(&file) as Arc<dyn File>, items, options);
    file.0.lock().clone()
}

/// Most bytes of filters and indexes in a [`World`].
pub const PINNED_MAX: u64 = 4 << 10;

/// A simulated directory of tables with a counter of file numbers.
pub struct World {
    pub store: Arc<TableStore>,
    pub obsolete_files: Arc<ObsoleteFiles>,
    pub sim: Sim,
    next: AtomicU64,
}

impl World {
    pub fn new() -> Self {
        // Only a few tables may be open at a time.
        Self::over(BlockCache::new(4 << 20).pinning(PINNED_MAX))
    }

    /// Tables whose blocks lie in `cache`.
    pub fn over(cache: BlockCache) -> Self {
        let sim = Sim::new();
        sim.stop_recording();
        let obsolete_files = Arc::new(ObsoleteFiles::default());
        let cache = Arc::new(cache);
        let storage = Arc::new(sim.clone());
        let store = TableStore::new(storage, 1, cache, Arc::clone(&obsolete_files));
        Self { store: Arc::new(store), obsolete_files, sim, next: AtomicU64::new(1) }
    }

    /// Writes one table.
    pub fn table(&self, items: &[Item]) -> TableMeta {
        let (number, file, identity) = self.create(0).unwrap();
        let options = small_blocks(Compression::None);
        let mut builder = TableBuilder::new(file, identity, number, &options).unwrap();
        for item in items {
            builder.add(item.entry()).unwrap();
        }
        builder.finish().unwrap()
    }
}

impl TableFactory for World {
    fn create(&self, _: u8) -> Result<(FileNumber, Arc<dyn File>, FileIdentity)> {
        let number = FileNumber(self.next.fetch_add(1, Ordering::Relaxed));
        Ok((number, self.store.create(number)?, self.store.identity(number)))
    }
}

/// Records the reported drops.
#[derive(Default)]
pub struct Dropped(pub Vec<Item>);

impl ValueGcObserver for Dropped {
    fn owner_removed(&mut self, entry: Entry<'_>) -> Result<()> {
        self.0.push(Item::of(entry));
        Ok(())
    }

    fn split(&self) -> Self {
        Self::default()
    }

    fn merge(&mut self, part: Self) {
        self.0.extend(part.0);
    }
}

pub fn position(epoch: u64, order: u32) -> RunPosition {
    RunPosition { epoch, order }
}
