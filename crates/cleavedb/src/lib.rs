//! CleaveDB: an embedded, ordered key-value store for values larger than their keys.
//!
//! Keys live in a log-structured merge tree; values can stay outside it, where compaction does not
//! rewrite them. How values are kept is a [`Preset`]. Start with [`Db::open`].
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! use cleavedb::{Db, Options, WriteBatch};
//!
//! let db = Db::open(&path, Options::default())?;
//! let mut batch = WriteBatch::new();
//! batch.put("apple", "red")?.put("banana", "yellow")?;
//! db.write(&batch)?;
//! for item in db.prefix("a") {
//!     println!("{:?}", item?);
//! }
//! # Ok::<(), cleavedb::Error>(())
//! ```
//!
//! - Options with defaults and units: [`Options`]; what a write survives: [`Durability`].
//! - Reads and writes: [`Keyspace`], to which a [`Db`] derefs; several as one: [`WriteBatch`],
//!   [`Db::transact`]; one moment: [`Keyspace::snapshot`]; any position: [`Cursor`].
//! - Spaces of keys: [`Db::keyspace`]; times to live: [`Keyspace::put_with_ttl`]; counters:
//!   [`Keyspace::merge`]; long values: [`Keyspace::put_reader`]; keys of parts: [`encode`].
//! - Copies: [`Db::backup`], [`Db::checkpoint`], [`Db::changes`], [`Db::open_secondary`];
//!   checks and figures: [`Db::verify`], [`Db::metrics`]; what failed: [`ErrorKind`].

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod time;
mod merge;
mod filter;
mod volume;
mod group_options;
mod flush_parts;
mod flush_pace;
mod progress;
mod totals;
mod latency;
mod metrics;
mod failures;
mod pace;
mod events;
mod crew;
mod resources;
mod options;
mod poison;
mod gate;
mod publish;
mod bounds;
mod compressor;
mod catalog;
mod batch;
mod spare_pages;
mod state;
mod manifest;
mod snapshot;
mod retained_log;
mod throttle;
mod limit;
mod full_disk;
mod own_writes;
mod recent_writes;
mod encoded_op;
mod ops;
mod fronts;
mod commit;
mod survivors;
mod dead;
mod stale_blobs;
mod job_state;
mod engine;
mod read_points;
mod range_tombstones;
mod range_deletes;
mod encoded_changes;
mod value_files;
mod space;
mod log_retention;
mod log_files;
mod memtables;
mod victims;
mod pressure;
mod panic_guard;
mod jobs;
mod scheduler;
mod threads;
mod maintenance;
mod range_work;
mod dead_records;
mod range_collection;
mod reclaim;
mod operand_chains;
mod write;
mod bulk_load;
mod blobs;
mod value_reader;
mod read;
mod dictionaries;
pub mod encode;
mod item;
mod outside_ranges;
mod pending_writes;
mod cursor;
mod range;
mod view;
mod stats;
mod range_size;
mod check;
mod replay;
mod directories;
mod recovery;
mod session;
mod full_collection;
mod hot_load;
mod catalog_load;
mod build;
mod moment;
mod follow;
mod changes;
mod checkpoint;
mod backup_record;
mod destroy;
mod backup;
mod transaction;
mod db;
mod backups;
mod unopened;
mod salvage;
mod dump;
mod debug;

/// The examples of README compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(all(test, feature = "loom"))]
mod loom_tests;
#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;

pub use backup::{BackupMode, BackupReport};
pub use backups::{Backup, Backups, RestoreMode};
pub use batch::{BatchOperation, KeyspaceBatch, PutLifetime, WriteBatch};
pub use bounds::{KeyRange, Prefix};
pub use bulk_load::IngestReport;
pub use bytes::Bytes;
pub use catalog::{KeyspaceOptions, KeyspaceRef};
pub use changes::{Change, ChangeBatch, ChangeKind, Changes};
pub use check::CheckReport;
pub use cleavedb_base::limits::{BATCH_BYTES_MAX, KEY_LEN_MAX, VALUE_LEN_MAX};
pub use cleavedb_base::{Error, ErrorKind, Result};
pub use cleavedb_hot::HotStats;
pub use cleavedb_index::Compression;
pub use cleavedb_index::compaction::Level0;
pub use cleavedb_storage::{FileClass, open_files};
pub use cleavedb_values::groups::victim::VictimPolicy;
pub use cleavedb_values::{
    GroupLayout, LivenessRule, LogRole, Partition, Relocation, SurvivorRoute, ValueCompression,
    ValueLayout,
};
pub use cursor::Cursor;
pub use db::{Builder, BulkLoad, Db, Keyspace};
pub use destroy::DestroyReport;
pub use dump::{Dump, DumpFact, DumpKind, DumpLine, DumpRequest, DumpVisit, Dumped};
pub use events::{Event, EventListener};
pub use failures::JobKind;
pub use filter::{Filter, FilterDecision, FilteredValue};
pub use follow::CatchUp;
pub use group_options::GroupOptions;
pub use item::Item;
pub use latency::{Operation, OperationLatency};
pub use merge::{MergeOperator, MergeOperators, Operand};
pub use metrics::{
    DirectoryMetrics, HotMetrics, JobFailure, LevelMetrics, Metrics, Stall, StallCause, Step,
    ValueFileMetrics,
};
pub use moment::CheckpointReport;
pub use options::{Background, Durability, MinSeparated, Options, Preset};
pub use progress::Progress;
pub use range::Range;
pub use range_size::RangeSize;
pub use replay::RecoveryReport;
pub use resources::Resources;
pub use salvage::{Salvage, SalvageReport, Saved};
pub use time::{ManualTime, TimeSource};
pub use totals::Totals;
pub use transaction::{KeyspaceTransaction, Savepoint, Transaction};
pub use value_reader::ValueReader;
pub use view::Snapshot;
pub use volume::Volume;
