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
//! # Map
//!
//! | | begin with |
//! | --- | --- |
//! | Opening | [`Db::open`], [`Options`], [`Db::open_read_only`] |
//! | Reading | [`Db::get`], [`Db::range`], [`Cursor`] |
//! | Writing | [`Db::put`], [`WriteBatch`], [`Durability`] |
//! | Counters, expiry, long values | [`Db::merge`], [`PutOptions`], [`Keyspace::put_reader`] |
//! | Keyspaces | [`Db::keyspace`], [`KeyspaceOptions`], [`Db::drop_keyspace`] |
//! | Transactions | [`Db::transact`], [`Keyspace::compare_and_swap`], [`Snapshot`] |
//! | Event loops | [`Db::get_resident`], [`Range::resident`], [`Db::try_write`], [`Db::sync_to`] |
//! | Copies | [`Db::backup`], [`Db::checkpoint`], [`Db::changes`] |
//! | Watching | [`Db::metrics`], [`EventListener`], [`Db::verify`] |
//! | Failures | [`ErrorKind`], [`Salvage`], [`Db::recovery_report`] |

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod control;
mod settings;
mod store;
mod operations;
mod engine;
mod background;
mod reads;
mod writes;
mod open;
mod inspect;
mod copies;
mod api;

/// The examples of README compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(all(test, feature = "test-loom"))]
mod loom_tests;
#[cfg(all(test, feature = "test-shuttle"))]
mod shuttle_tests;

/// How values are kept, as data ([`Options::layout`]).
pub mod layout {
    pub use cleavedb_values::{GroupLayout, LogRole, Partition, SurvivorRoute, ValueLayout};
}

/// Parts of [`Tuning`].
pub mod tuning {
    pub use cleavedb_index::compaction::Level0;
    #[cfg(feature = "experiments")]
    pub use cleavedb_values::groups::victim::VictimPolicy;

    #[cfg(feature = "experiments")]
    pub use crate::settings::group_options::GroupExperiments;
    pub use crate::settings::group_options::GroupOptions;
}

/// Parts of [`Metrics`] and of what listeners are told.
pub mod metrics {
    pub use cleavedb_hot::HotStats;

    pub use crate::control::failures::JobKind;
    pub use crate::control::latency::{Operation, OperationLatency};
    pub use crate::control::metrics::{
        Decisions, DirectoryMetrics, HotMetrics, JobFailure, LevelMetrics, Stall, StallCause, Step,
        ValueFileMetrics,
    };
    pub use crate::control::totals::Totals;
}

/// What long calls say that they have done.
pub mod reports {
    pub use crate::api::db::MigrateReport;
    pub use crate::copies::backup::BackupReport;
    pub use crate::copies::destroy::DestroyReport;
    pub use crate::copies::follow::CatchUp;
    pub use crate::copies::moment::CheckpointReport;
    pub use crate::inspect::check::CheckReport;
    pub use crate::inspect::salvage::SalvageReport;
    pub use crate::open::replay::RecoveryReport;
    pub use crate::reads::range_size::RangeSize;
    pub use crate::writes::bulk_load::IngestReport;
}

/// The files of a database, record by record ([`dump::Dump`]).
pub mod dump {
    pub use crate::inspect::dump::{
        Dump, DumpFact, DumpKind, DumpLine, DumpRequest, DumpVisit, Dumped,
    };
}

pub use api::backups::{Backup, Backups, RestoreMode};
pub use api::db::{Builder, BulkLoad, Db, Keyspace};
pub use api::transaction::{KeyspaceTransaction, Savepoint, Transaction};
pub use bytes::Bytes;
pub use cleavedb_base::limits::{BATCH_BYTES_MAX, KEY_LEN_MAX, VALUE_LEN_MAX};
pub use cleavedb_base::{Error, ErrorKind, Result};
pub use cleavedb_index::Compression;
pub use cleavedb_storage::{FileClass, open_files};
pub use cleavedb_values::ValueCompression;
pub use control::events::{Event, EventListener};
pub use control::metrics::Metrics;
pub use control::progress::Progress;
pub use copies::backup::BackupMode;
pub use copies::changes::{Change, ChangeBatch, ChangeKind, Changes};
pub use inspect::salvage::{Salvage, Saved};
pub use operations::batch::{BatchOperation, KeyspaceBatch, PutLifetime, WriteBatch};
pub use operations::bounds::{KeyRange, Prefix};
pub use operations::catalog::KeyspaceRef;
pub use reads::cursor::Cursor;
pub use reads::item::Item;
pub use reads::range::Range;
pub use reads::read::Resident;
pub use reads::value_reader::ValueReader;
pub use reads::view::Snapshot;
pub use settings::encode;
pub use settings::filter::{Filter, FilterDecision, FilteredValue};
pub use settings::keyspace_options::KeyspaceOptions;
pub use settings::merge::{MergeOperator, MergeOperators, Operand};
pub use settings::options::{Background, Durability, Options, Preset};
pub use settings::put_options::PutOptions;
pub use settings::resources::Resources;
pub use settings::time::{ManualTime, TimeSource};
pub use settings::tuning::Tuning;
pub use settings::volume::Volume;
