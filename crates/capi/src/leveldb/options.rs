//! Options of LevelDB, and what they are here.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Weak};

use cleavedb::{
    Compression, Durability, Error, ErrorKind, Options, Resources, Result, Snapshot,
    ValueCompression,
};

use super::callbacks::{Comparator, FilterPolicy};
use crate::border::needed;
use crate::handles::{Handle, export};

/// Parts of the memory of a database that a MemTable may take, as a divisor.
const MEMTABLE_PART: usize = 8;

/// What a database is opened with.
pub(super) struct OpenOptions {
    create_if_missing: bool,
    error_if_exists: bool,
    write_buffer_bytes: Option<usize>,
    block_bytes: Option<usize>,
    table_bytes: Option<u64>,
    filter_bits: Option<usize>,
    compressed: bool,
    cache: Option<Resources>,
    /// Why the comparator cannot be used, if it cannot.
    refused: Option<Error>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            create_if_missing: false,
            error_if_exists: false,
            write_buffer_bytes: None,
            block_bytes: None,
            table_bytes: None,
            filter_bits: None,
            compressed: true,
            cache: None,
            refused: None,
        }
    }
}

impl OpenOptions {
    /// The options of the engine. Sizes that it does not take become the nearest that it takes.
    pub(super) fn options(&self) -> Result<Options> {
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        let mut options = Options {
            create_if_missing: self.create_if_missing,
            error_if_exists: self.error_if_exists,
            durability: Durability::Os,
            resources: self.cache.clone(),
            ..Options::default()
        };
        if self.compressed {
            options.compression = Compression::Lz4;
            options.value_compression = ValueCompression::Lz4;
        }
        let tuning = &mut options.tuning;
        if let Some(bytes) = self.write_buffer_bytes {
            let bytes = bytes.clamp(64 << 10, 64 << 30);
            tuning.memtable_bytes = Some(bytes);
            options.memory_bytes = options.memory_bytes.max(bytes * MEMTABLE_PART);
        }
        tuning.block_bytes =
            self.block_bytes.map_or(tuning.block_bytes, |it| it.clamp(256, 1 << 20));
        tuning.table_bytes =
            self.table_bytes.map_or(tuning.table_bytes, |it| it.clamp(4 << 10, 64 << 30));
        tuning.filter_bits = self.filter_bits.map_or(tuning.filter_bits, |it| it.min(64));
        Ok(options)
    }
}

/// What a read is made with.
#[derive(Default)]
pub(super) struct ReadOptions {
    /// A snapshot to read, which `leveldb_release_snapshot` ends although options name it.
    snapshot: Option<Weak<Snapshot>>,
}

impl ReadOptions {
    /// The snapshot to read, if one is set. Fails if it was released.
    #[inline]
    pub(super) fn snapshot(&self) -> Result<Option<Arc<Snapshot>>> {
        let released = || Error::new(ErrorKind::InvalidArgument, "the snapshot was released");
        self.snapshot.as_ref().map(|it| it.upgrade().ok_or_else(released)).transpose()
    }
}

/// What a write is made with.
#[derive(Default)]
pub(super) struct WriteOptions {
    sync: bool,
}

/// What a write with these options survives: by default the death of the process, as LevelDB's.
#[inline]
pub(super) fn durability(options: &Handle<WriteOptions>) -> Durability {
    match options.get() {
        Some(WriteOptions { sync: true }) => Durability::Sync,
        _ => Durability::Os,
    }
}

/// The options of the engine for an open.
pub(super) fn of_open(options: &Handle<OpenOptions>) -> Result<Options> {
    needed(options.get(), "leveldb_options_t")?.options()
}

/// Changes options that are not NULL.
fn set(mut options: Handle<OpenOptions>, change: impl FnOnce(&mut OpenOptions)) {
    if let Some(options) = options.get_mut() {
        change(options);
    }
}

export! {
    fn leveldb_options_create() -> Handle<OpenOptions> {
        Handle::new(OpenOptions::default())
    }

    fn leveldb_options_destroy(options: Handle<OpenOptions>) {
        drop(options.take());
    }

    fn leveldb_options_set_comparator(options: Handle<OpenOptions>,
        comparator: Handle<Comparator>) {
        let refused = comparator.get().and_then(|it| it.check().err());
        set(options, |it| it.refused = refused);
    }

    fn leveldb_options_set_filter_policy(options: Handle<OpenOptions>,
        policy: Handle<FilterPolicy>) {
        set(options, |it| it.filter_bits = policy.get().and_then(|policy| policy.bits));
    }

    fn leveldb_options_set_create_if_missing(options: Handle<OpenOptions>, create: u8) {
        set(options, |it| it.create_if_missing = create != 0);
    }

    fn leveldb_options_set_error_if_exists(options: Handle<OpenOptions>, fail: u8) {
        set(options, |it| it.error_if_exists = fail != 0);
    }

    fn leveldb_options_set_paranoid_checks(_options: Handle<OpenOptions>, _check: u8) {}

    fn leveldb_options_set_env(_options: Handle<OpenOptions>, _env: *mut c_void) {}

    fn leveldb_options_set_info_log(_options: Handle<OpenOptions>, _log: *mut c_void) {}

    fn leveldb_options_set_write_buffer_size(options: Handle<OpenOptions>, bytes: usize) {
        set(options, |it| it.write_buffer_bytes = Some(bytes));
    }

    fn leveldb_options_set_max_open_files(_options: Handle<OpenOptions>, _files: c_int) {}

    fn leveldb_options_set_cache(options: Handle<OpenOptions>, cache: Handle<Resources>) {
        set(options, |it| it.cache = cache.get().cloned());
    }

    fn leveldb_options_set_block_size(options: Handle<OpenOptions>, bytes: usize) {
        set(options, |it| it.block_bytes = Some(bytes));
    }

    fn leveldb_options_set_block_restart_interval(_options: Handle<OpenOptions>, _keys: c_int) {}

    fn leveldb_options_set_max_file_size(options: Handle<OpenOptions>, bytes: usize) {
        set(options, |it| it.table_bytes = Some(bytes as u64));
    }

    fn leveldb_options_set_compression(options: Handle<OpenOptions>, kind: c_int) {
        set(options, |it| it.compressed = kind != 0);
    }

    fn leveldb_readoptions_create() -> Handle<ReadOptions> {
        Handle::new(ReadOptions::default())
    }

    fn leveldb_readoptions_destroy(options: Handle<ReadOptions>) {
        drop(options.take());
    }

    fn leveldb_readoptions_set_verify_checksums(_options: Handle<ReadOptions>, _verify: u8) {}

    fn leveldb_readoptions_set_fill_cache(_options: Handle<ReadOptions>, _fill: u8) {}

    fn leveldb_readoptions_set_snapshot(options: Handle<ReadOptions>,
        snapshot: Handle<Arc<Snapshot>>) {
        if let Some(options) = options.get_mut() {
            options.snapshot = snapshot.get().map(Arc::downgrade);
        }
    }

    fn leveldb_writeoptions_create() -> Handle<WriteOptions> {
        Handle::new(WriteOptions::default())
    }

    fn leveldb_writeoptions_destroy(options: Handle<WriteOptions>) {
        drop(options.take());
    }

    fn leveldb_writeoptions_set_sync(options: Handle<WriteOptions>, sync: u8) {
        if let Some(options) = options.get_mut() {
            options.sync = sync != 0;
        }
    }

    fn leveldb_cache_create_lru(bytes: usize) -> Handle<Resources> {
        Handle::new(Resources::new(bytes, 0))
    }

    fn leveldb_cache_destroy(cache: Handle<Resources>) {
        drop(cache.take());
    }
}
