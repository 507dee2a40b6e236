//! LevelDB through its C API (`leveldb/c.h` of 1.23), made safe.
//!
//! LevelDB maps the first 1000 tables into memory, and a fault in a map fetches the disk's whole
//! read-ahead window. No option turns that off; `EnvPosixTestHelper::SetReadOnlyMMapLimit` of
//! `util/env_posix_test_helper.h` does, if it is called before anything else of the library.

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::slice;
use std::sync::Once;

/// An error in LevelDB's own words.
pub type Result<T> = std::result::Result<T, String>;

/// Types of the library that are seen through pointers only.
macro_rules! opaque {
    ($($name:ident),*) => {
        $(#[repr(C)] struct $name { _private: [u8; 0] })*
    };
}

opaque!(Db, Options, ReadOptions, WriteOptions, WriteBatch, Cache, FilterPolicy, Iterator);

/// `leveldb_no_compression`.
const NO_COMPRESSION: c_int = 0;

// Declared as in `leveldb/c.h`; lengths follow their bytes, an error is null or a string to free.
unsafe extern "C" {
    #[link_name = "_ZN7leveldb18EnvPosixTestHelper20SetReadOnlyMMapLimitEi"]
    fn set_mmap_limit(limit: c_int);
    fn leveldb_options_create() -> *mut Options;
    fn leveldb_options_set_create_if_missing(options: *mut Options, yes: u8);
    fn leveldb_options_set_compression(options: *mut Options, kind: c_int);
    fn leveldb_options_set_write_buffer_size(options: *mut Options, bytes: usize);
    fn leveldb_options_set_max_open_files(options: *mut Options, files: c_int);
    fn leveldb_options_set_filter_policy(options: *mut Options, policy: *mut FilterPolicy);
    fn leveldb_options_set_cache(options: *mut Options, cache: *mut Cache);
    fn leveldb_options_destroy(options: *mut Options);
    fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut FilterPolicy;
    fn leveldb_filterpolicy_destroy(policy: *mut FilterPolicy);
    fn leveldb_cache_create_lru(bytes: usize) -> *mut Cache;
    fn leveldb_cache_destroy(cache: *mut Cache);
    fn leveldb_readoptions_create() -> *mut ReadOptions;
    fn leveldb_readoptions_destroy(options: *mut ReadOptions);
    fn leveldb_writeoptions_create() -> *mut WriteOptions;
    fn leveldb_writeoptions_destroy(options: *mut WriteOptions);
    fn leveldb_open(
        options: *const Options,
        name: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut Db;
    fn leveldb_close(db: *mut Db);
    fn leveldb_put(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
        error: *mut *mut c_char,
    );
    fn leveldb_delete(
        db: *mut Db,
        options: *const WriteOptions,
        key: *const c_char,
        key_len: usize,
        error: *mut *mut c_char,
    );
    fn leveldb_get(
        db: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        key_len: usize,
        value_len: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;
    fn leveldb_writebatch_create() -> *mut WriteBatch;
    fn leveldb_writebatch_destroy(batch: *mut WriteBatch);
    fn leveldb_write(
        db: *mut Db,
        options: *const WriteOptions,
        batch: *mut WriteBatch,
        error: *mut *mut c_char,
    );
    fn leveldb_writebatch_put(
        batch: *mut WriteBatch,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
    );
    fn leveldb_property_value(db: *mut Db, name: *const c_char) -> *mut c_char;
    fn leveldb_compact_range(
        db: *mut Db,
        start: *const c_char,
        start_len: usize,
        limit: *const c_char,
        limit_len: usize,
    );
    fn leveldb_create_iterator(db: *mut Db, options: *const ReadOptions) -> *mut Iterator;
    fn leveldb_iter_destroy(iterator: *mut Iterator);
    fn leveldb_iter_seek(iterator: *mut Iterator, key: *const c_char, key_len: usize);
    fn leveldb_iter_next(iterator: *mut Iterator);
    fn leveldb_iter_prev(iterator: *mut Iterator);
    fn leveldb_iter_valid(iterator: *const Iterator) -> u8;
    fn leveldb_iter_key(iterator: *const Iterator, len: *mut usize) -> *const c_char;
    fn leveldb_iter_value(iterator: *const Iterator, len: *mut usize) -> *const c_char;
    fn leveldb_iter_get_error(iterator: *const Iterator, error: *mut *mut c_char);
    fn leveldb_major_version() -> c_int;
    fn leveldb_minor_version() -> c_int;
    fn leveldb_free(memory: *mut std::ffi::c_void);
}

/// Version of the library, as it numbers itself: "1.23".
pub fn version() -> String {
    // SAFETY: both return a constant.
    let (major, minor) = unsafe { (leveldb_major_version(), leveldb_minor_version()) };
    format!("{major}.{minor}")
}

/// What a store is opened with; the rest is LevelDB's default.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of its cache of blocks.
    pub cache: usize,
    /// Bytes of a write buffer.
    pub write_buffer: usize,
    /// Bits of the Bloom filter for each key.
    pub bloom_bits: u8,
    /// Tables that are kept open.
    pub open_files: u16,
}

/// An open store that does not sync its log.
pub struct LevelDb {
    db: *mut Db,
    options: *mut Options,
    policy: *mut FilterPolicy,
    cache: *mut Cache,
    read: *mut ReadOptions,
    write: *mut WriteOptions,
}

// SAFETY: "a database may be safely shared by multiple threads without any external
// synchronization" (`leveldb/db.h`); the other objects are only read after the store is open.
unsafe impl Send for LevelDb {}
// SAFETY: as above.
unsafe impl Sync for LevelDb {}

impl LevelDb {
    /// Opens the store in `directory`, creating it if it is not there. With settings it neither
    /// compresses nor maps its tables; without, it has its own defaults.
    pub fn open(directory: &Path, settings: Option<&Settings>) -> Result<Self> {
        let name = CString::new(directory.as_os_str().as_bytes())
            .map_err(|_| "the path of the store holds a zero byte".to_owned())?;
        static MMAP_OFF: Once = Once::new();
        if settings.is_some() {
            // SAFETY: stores a number that the library reads when its environment is first used,
            // and that is below: `leveldb_options_create` is called nowhere else.
            MMAP_OFF.call_once(|| unsafe { set_mmap_limit(0) });
        }
        // SAFETY: these take numbers and return objects of their own. What the options point to
        // lives as long as the store: both belong to it and go after it, see `drop`.
        let mut store = unsafe {
            let options = leveldb_options_create();
            leveldb_options_set_create_if_missing(options, 1);
            let (mut policy, mut cache) = (ptr::null_mut(), ptr::null_mut());
            if let Some(settings) = settings {
                policy = leveldb_filterpolicy_create_bloom(settings.bloom_bits.into());
                cache = leveldb_cache_create_lru(settings.cache);
                leveldb_options_set_compression(options, NO_COMPRESSION);
                leveldb_options_set_write_buffer_size(options, settings.write_buffer);
                leveldb_options_set_max_open_files(options, settings.open_files.into());
                leveldb_options_set_filter_policy(options, policy);
                leveldb_options_set_cache(options, cache);
            }
            let (read, write) = (leveldb_readoptions_create(), leveldb_writeoptions_create());
            Self { db: ptr::null_mut(), options, policy, cache, read, write }
        };
        let mut error = ptr::null_mut();
        // SAFETY: the options are whole, the name ends with a zero.
        store.db = unsafe { leveldb_open(store.options, name.as_ptr(), &mut error) };
        check(error)?;
        Ok(store)
    }

    /// Stores `value` under `key`.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let (key_at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
        let mut error = ptr::null_mut();
        // SAFETY: the store is open, and both slices outlive the call, which copies them.
        unsafe {
            let (db, write) = (self.db, self.write);
            leveldb_put(db, write, key_at, key.len(), value_at, value.len(), &mut error);
        }
        check(error)
    }

    /// Removes `key`.
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: the store is open, and the key outlives the call, which copies it.
        unsafe {
            let key_at = key.as_ptr().cast();
            leveldb_delete(self.db, self.write, key_at, key.len(), &mut error);
        }
        check(error)
    }

    /// Shows the value of `key` to `visit`, if there is one; returns whether there is.
    pub fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let (mut error, mut len) = (ptr::null_mut(), 0);
        // SAFETY: the store is open, and the key outlives the call.
        let value = unsafe {
            let key_at = key.as_ptr().cast();
            leveldb_get(self.db, self.read, key_at, key.len(), &mut len, &mut error)
        };
        check(error)?;
        if value.is_null() {
            return Ok(false);
        }
        let value = Allocated(value);
        // SAFETY: `leveldb_get` returned `len` bytes, which stay until `value` is dropped.
        visit(unsafe { slice::from_raw_parts(value.0.cast(), len) });
        Ok(true)
    }

    /// Shows up to `limit` pairs from `from` on to `visit`; returns how many.
    pub fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut cursor = self.cursor();
        cursor.seek(from);
        let mut visited = 0;
        while visited < limit {
            let Some((key, value)) = cursor.item() else { break };
            visit(key, value);
            visited += 1;
            // The step beyond the last record asked for may cost a read: it is not taken.
            if visited < limit {
                cursor.next();
            }
        }
        cursor.status()?;
        Ok(visited)
    }

    /// A new cursor, on no pair yet.
    pub fn cursor(&self) -> Cursor<'_> {
        // SAFETY: the store is open and stays so for as long as the cursor borrows it.
        let iterator = unsafe { leveldb_create_iterator(self.db, self.read) };
        Cursor { iterator, _store: self }
    }

    /// What the library says of the property `name` (`leveldb/db.h`, `GetProperty`).
    pub fn property(&self, name: &CStr) -> Option<String> {
        // SAFETY: the store is open, the name ends with a zero.
        let text = unsafe { leveldb_property_value(self.db, name.as_ptr()) };
        if text.is_null() { None } else { Some(Allocated(text).text()) }
    }

    /// The error for which the store takes no more writes, if there is one.
    pub fn check(&self) -> Result<()> {
        self.write(&[])
    }

    /// Stores all of `pairs` as one.
    pub fn write(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: the store is open; the batch is made and given back here, and copies the slices,
        // which outlive the calls.
        unsafe {
            let batch = leveldb_writebatch_create();
            for (key, value) in pairs {
                let (key_at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
                leveldb_writebatch_put(batch, key_at, key.len(), value_at, value.len());
            }
            leveldb_write(self.db, self.write, batch, &mut error);
            leveldb_writebatch_destroy(batch);
        }
        check(error)
    }

    /// Returns once the write buffer is flushed and the compaction that ran then is over.
    pub fn flush(&self) {
        // A range without keys: `DBImpl::CompactRange` flushes first, then finds nothing to do.
        let nothing: *const c_char = c"".as_ptr();
        // SAFETY: the store is open, and the one byte, a zero, is a constant.
        unsafe { leveldb_compact_range(self.db, nothing, 1, nothing, 1) };
    }
}

impl Drop for LevelDb {
    fn drop(&mut self) {
        // SAFETY: each object was made by the library and is given back once; the store, which uses
        // the others, goes first. It is null if it could not be opened, and so are policy and cache
        // without settings; only a cache must not be null.
        unsafe {
            if !self.db.is_null() {
                leveldb_close(self.db);
            }
            leveldb_options_destroy(self.options);
            leveldb_filterpolicy_destroy(self.policy);
            if !self.cache.is_null() {
                leveldb_cache_destroy(self.cache);
            }
            leveldb_readoptions_destroy(self.read);
            leveldb_writeoptions_destroy(self.write);
        }
    }
}

/// A position in a store, which it cannot outlive.
pub struct Cursor<'a> {
    iterator: *mut Iterator,
    _store: &'a LevelDb,
}

impl Cursor<'_> {
    /// Moves to the first key that is not below `key`.
    pub fn seek(&mut self, key: &[u8]) {
        // SAFETY: the iterator lives, and the key outlives the call.
        unsafe { leveldb_iter_seek(self.iterator, key.as_ptr().cast(), key.len()) };
    }

    /// Steps to the next pair; stays if there is none here.
    pub fn next(&mut self) {
        if self.is_valid() {
            // SAFETY: the iterator lives, and is valid, as the library demands.
            unsafe { leveldb_iter_next(self.iterator) };
        }
    }

    /// Steps to the pair before; stays if there is none here.
    pub fn prev(&mut self) {
        if self.is_valid() {
            // SAFETY: the iterator lives, and is valid, as the library demands.
            unsafe { leveldb_iter_prev(self.iterator) };
        }
    }

    /// Whether there is a pair at this position.
    pub fn is_valid(&self) -> bool {
        // SAFETY: the iterator lives.
        unsafe { leveldb_iter_valid(self.iterator) != 0 }
    }

    /// The pair at this position, or `None` at the end.
    pub fn item(&self) -> Option<(&[u8], &[u8])> {
        if !self.is_valid() {
            return None;
        }
        let (mut key_len, mut value_len) = (0, 0);
        // SAFETY: the iterator lives and is valid; the bytes of key and value stay until it moves,
        // for which it must be borrowed anew.
        unsafe {
            let key = leveldb_iter_key(self.iterator, &mut key_len);
            let value = leveldb_iter_value(self.iterator, &mut value_len);
            let key = slice::from_raw_parts(key.cast(), key_len);
            Some((key, slice::from_raw_parts(value.cast(), value_len)))
        }
    }

    /// The error that ended it, if there is one.
    pub fn status(&self) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: the iterator lives.
        unsafe { leveldb_iter_get_error(self.iterator, &mut error) };
        check(error)
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: made by the library, given back once, before its store.
        unsafe { leveldb_iter_destroy(self.iterator) };
    }
}

/// Memory that the library allocated and the caller frees; never null.
struct Allocated(*mut c_char);

impl Allocated {
    /// The string that it holds.
    fn text(&self) -> String {
        // SAFETY: used for properties and errors only, which end with a zero.
        unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned()
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: the library returned it and expects it back, once.
        unsafe { leveldb_free(self.0.cast()) };
    }
}

/// The library's error, if it reported one.
fn check(error: *mut c_char) -> Result<()> {
    if error.is_null() { Ok(()) } else { Err(Allocated(error).text()) }
}
