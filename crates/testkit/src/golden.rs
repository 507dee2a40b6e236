//! Golden stores: small databases as a release has written them, one of each preset after a close
//! and one after a kill, and two with blobs, which later releases must read. Each is an archive
//! with what it holds.

use std::fmt::Write;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cleavedb::{
    Db, Durability, Keyspace, KeyspaceOptions, ManualTime, Operand, Options, Prefix, Preset,
    PutOptions, Salvage, ValueCompression, WriteBatch,
};
use cleavedb_base::checksum::hash64;

use crate::compressed::json;
use crate::setup::{millis, tiny};

/// The directory of the golden stores of this release, below that of all.
pub const CURRENT: &str = "1";

/// Name of the list of what a store holds, in its archive.
const CONTENT: &str = "content";

/// Keys of a keyspace in the order of their numbers.
const KEYS: u32 = 36;

/// When the stores were written, in seconds since the beginning of 1970.
const WRITTEN: u64 = 1_790_000_000;

/// How a store was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The store was closed.
    Closed,
    /// The process that wrote the store was killed.
    Killed,
    /// The process was killed, and the store has blobs.
    KilledWithBlobs,
}

/// A store of this release: its preset, and how it was left.
pub fn all() -> impl Iterator<Item = (Preset, Left)> {
    let all = [Left::Closed, Left::Killed].map(|left| Preset::ALL.map(|preset| (preset, left)));
    let blobs = [Preset::HashKv, Preset::WiscKey].map(|preset| (preset, Left::KilledWithBlobs));
    all.into_iter().flatten().chain(blobs)
}

/// The file of a store of this release, in the directory of all golden stores.
pub fn file_of(golden: &Path, preset: Preset, left: Left) -> PathBuf {
    let left = match left {
        Left::Closed => "closed",
        Left::Killed => "killed",
        Left::KilledWithBlobs => "blobs",
    };
    golden.join(CURRENT).join(format!("{}-{left}.tar.zst", preset.name()))
}

/// The options with which golden stores are opened: small files, and a clock that shows when they
/// were written.
pub fn options(preset: Preset) -> Options {
    let now = UNIX_EPOCH + Duration::from_secs(WRITTEN);
    Options { time: Arc::new(ManualTime::new(now)), ..tiny(preset) }
}

/// What a database holds: a line for each key, with its keyspace, and length, hash and expiry of
/// its value.
pub fn content(db: &Db) -> cleavedb::Result<String> {
    let mut lines = String::new();
    let mut keyspaces = db.keyspaces()?;
    keyspaces.insert(0, db.keyspace("default")?);
    for keyspace in keyspaces {
        let mut cursor = keyspace.cursor(..);
        cursor.seek_to_first()?;
        while let Some(key) = cursor.key() {
            let (key, expires) = (key.to_vec(), cursor.expiry());
            let value = cursor.value()?.unwrap_or_default();
            add_line(&mut lines, keyspace.name(), &key, &value, expires);
            cursor.next()?;
        }
    }
    Ok(lines)
}

fn add_line(
    lines: &mut String,
    keyspace: &str,
    key: &[u8],
    value: &[u8],
    expires: Option<SystemTime>,
) {
    let expires = millis(expires).map_or("-".to_owned(), |millis| millis.to_string());
    let (key, hash) = (key.escape_ascii(), hash64(value, 0));
    _ = writeln!(lines, "{keyspace} {key} {} {hash:016x} {expires}", value.len());
}

/// What salvage finds in a directory, as [`content`] lists it.
pub fn salvaged(dir: &Path) -> cleavedb::Result<String> {
    let mut lines = Vec::new();
    let report = Salvage::search(dir)?.hand_out(&mut |saved| {
        let mut line = String::new();
        add_line(&mut line, saved.keyspace, saved.key, saved.value, saved.expires);
        lines.push((
            (saved.keyspace != "default", saved.keyspace.to_owned()),
            saved.key.to_vec(),
            line,
        ));
        Ok(())
    })?;
    assert_eq!((report.lost_keys, report.uncertain_keys), (0, 0), "{report:?}");
    lines.sort();
    Ok(lines.into_iter().map(|(_, _, line)| line).collect())
}

/// The value of a write: short, long enough to leave the index, or a text that compresses.
fn value(number: u32, round: u32) -> Vec<u8> {
    let n = u64::from(number * 100 + round);
    match number % 4 {
        0 => format!("value {number} of round {round}").into_bytes(),
        1 => (0..700).map(|at| (hash64(&[at as u8, (at >> 8) as u8], n) >> 7) as u8).collect(),
        2 => json(n),
        _ => format!("{number} again and {round} again. ").repeat(60).into_bytes(),
    }
}

fn key(number: u32) -> String {
    format!("key{number:04}")
}

/// One round of every kind of write.
fn write_round(db: &Db, keyspace: &Keyspace, round: u32) -> cleavedb::Result<()> {
    let later = UNIX_EPOCH + Duration::from_secs(WRITTEN + 1_000_000_000);
    for number in (0..KEYS).filter(|number| number % (round + 1) == 0) {
        match (number + round) % 9 {
            0 => keyspace.put_with(
                key(number),
                value(number, round),
                PutOptions::new().until(Some(later)),
            )?,
            1 => keyspace.delete_with(key(number), Durability::Os)?,
            // Nothing is merged with it, since that would depend on the clock of the reader.
            2 if number % 7 != 0 => {
                keyspace.put_with(
                    key(number),
                    "gone soon",
                    PutOptions::new().ttl(Duration::from_secs(1)),
                )?;
            }
            _ => keyspace.put_with(key(number), value(number, round), Durability::Os)?,
        }
    }
    for number in (0..KEYS).step_by(7) {
        keyspace.merge(format!("counter{}", number % 3), &Operand::add(1 + i64::from(number)))?;
        keyspace.merge(key(number), &Operand::append(format!(" and {round}")))?;
    }
    keyspace.merge("greatest", &Operand::max(format!("{:04}", round * 37 % 100)))?;
    let mut batch = WriteBatch::new();
    batch.keyspace(keyspace).put(format!("batch{round}"), value(2, round))?;
    batch.put(format!("batch of {}", keyspace.name()), value(3, round))?;
    batch.delete_range(format!("key{:04}", 10 * round + 3)..format!("key{:04}", 10 * round + 6))?;
    db.write(&batch)?;
    keyspace.delete_range(Prefix(format!("key000{round}")))
}

/// Fills a new database: most of it is flushed, compacted and collected, the rest is in the log.
fn fill(db: &Db) -> cleavedb::Result<()> {
    let orders = KeyspaceOptions {
        min_separated: db.options().layout().separates().then_some(200),
        compression: Some(ValueCompression::ZstdDictionary),
        ..KeyspaceOptions::default()
    };
    let sessions = KeyspaceOptions {
        ttl: Some(Duration::from_secs(3600)),
        compression: Some(ValueCompression::Lz4),
        ..KeyspaceOptions::default()
    };
    let (orders, dropped) = (db.create_keyspace("orders", orders)?, db.keyspace("dropped")?);
    let sessions = db.create_keyspace("sessions", sessions)?;
    // A dictionary, whose first values go again.
    for n in 0..800 {
        orders.put_with(format!("order{n:04}"), json(n), Durability::Os)?;
    }
    orders.delete_range("order0020"..)?;
    db.flush().and_then(|()| db.compact()).and_then(|()| db.collect())?;
    let default = db.keyspace("default")?;
    for round in 0..4 {
        write_round(db, &default, round)?;
        if round < 3 {
            write_round(db, &orders, round)?;
            write_round(db, &dropped, round)?;
            db.flush()?;
        }
        if round == 1 {
            let loaded = (0..KEYS).map(|number| (format!("load{number:04}"), value(number, 9)));
            default.ingest(loaded)?;
            db.compact().and_then(|()| db.collect())?;
            // Some become hot, where there is a store for these.
            for number in (0..KEYS).cycle().take(400) {
                default.get(key(number))?;
            }
        }
    }
    db.drop_keyspace("dropped")?;
    // To salvage, a dead file that is still there would look like a lost edit of the manifest.
    db.flush().and_then(|()| db.wait_idle())?;
    orders.put_with("last", json(7), Durability::Os)?;
    orders.put_with("order0001", json(8), Durability::Os)?;
    for number in 0..8 {
        sessions.put(key(number), value(number, 0))?;
    }
    default.merge("counter1", &Operand::add(1000))?;
    default.delete_range(Prefix("load000"))?;
    Ok(())
}

/// Adds blobs: in tables, in the log alone, replaced, and expiring.
fn add_blobs(db: &Db) -> cleavedb::Result<()> {
    let blob = |seed: u8, len: usize| [seed; 37].into_iter().chain(0..=seed).cycle().take(len);
    let put = |key: &str, seed, len| {
        db.default_keyspace().put_reader(key, &blob(seed, len).collect::<Vec<u8>>()[..])
    };
    for (seed, key) in (1..).zip(["blob1", "blob2", "key0005", "key0009"]) {
        put(key, seed, 20_000 * usize::from(seed))?;
    }
    db.flush()?;
    put("blob1", 11, 131_072)?;
    // See `fill`.
    db.flush().and_then(|()| db.wait_idle())?;
    put("blob3", 11, 7)?;
    put("blob5", 12, 1)?;
    db.put("blob2", "short again")?;
    let later = Duration::from_secs(1_000_000_000);
    db.default_keyspace().put_reader_with(
        "blob6",
        &blob(13, 20_000).collect::<Vec<u8>>()[..],
        PutOptions::new().ttl(later),
    )?;
    Ok(())
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(error)
}

/// Writes a store of this release to `archive`, a new file.
///
/// # Errors
/// If it is there already, or a call fails.
pub fn write(archive: &Path, preset: Preset, left: Left) -> io::Result<()> {
    let dir = tempfile::tempdir()?;
    let (store, copy) = (dir.path().join("store"), dir.path().join("copy"));
    let mut options = options(preset);
    options.tuning.blob_bytes = 1;
    let db = Db::open(&store, options).map_err(failed)?;
    fill(&db).map_err(failed)?;
    if left == Left::KilledWithBlobs {
        add_blobs(&db).map_err(failed)?;
    }
    let content = content(&db).map_err(failed)?;
    let store = match left {
        Left::Closed => {
            db.close().map_err(failed)?;
            store
        }
        Left::Killed | Left::KilledWithBlobs => {
            fs::create_dir(&copy)?;
            for entry in fs::read_dir(&store)? {
                let entry = entry?;
                fs::copy(entry.path(), copy.join(entry.file_name()))?;
            }
            drop(db);
            copy
        }
    };
    fs::create_dir_all(archive.parent().unwrap_or(Path::new(".")))?;
    let file = zstd::Encoder::new(File::create_new(archive)?, 19)?.auto_finish();
    let mut tar = tar::Builder::new(file);
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, CONTENT, content.as_bytes())?;
    tar.append_dir_all("store", store)?;
    tar.finish()
}

/// Unpacks a store into `dir`; returns its directory, and what it must hold.
///
/// # Errors
/// If the archive cannot be read.
pub fn unpack(archive: &Path, dir: &Path) -> io::Result<(PathBuf, String)> {
    tar::Archive::new(zstd::Decoder::new(File::open(archive)?)?).unpack(dir)?;
    let mut content = String::new();
    File::open(dir.join(CONTENT))?.read_to_string(&mut content)?;
    Ok((dir.join("store"), content))
}
