//! The engine through its own doors: one program for all suites, so that they are linked once and
//! share the processors to the end. What needs a process of its own runs the program again.
//!
//! `cargo test -p cleavedb --test engine crash::` runs one of them.

mod at_once;
mod backup;
mod blobs;
mod bulk_load;
mod changes;
mod changes_followed;
mod checkpoint;
mod close;
mod compression;
mod corruption;
mod crash;
mod create;
mod cursor;
mod dead_space;
mod default_preset;
mod descriptors;
mod destroy;
mod detached;
mod directory;
mod dump;
mod events;
mod exhaustive;
#[cfg(feature = "experiments")]
mod experiments;
mod expiry;
mod extremes;
mod fault;
mod filter;
mod fork;
mod fronts;
mod full_disk;
mod golden;
mod groups;
mod hot;
mod keys;
mod keyspaces;
mod kill;
mod links;
mod listeners;
mod live_copies;
mod liveness;
mod long_values;
mod merges;
mod migrate;
mod min_separated;
mod model;
mod modelled;
mod one_group;
mod pace;
#[cfg(feature = "test-planted-bugs")]
mod planted;
mod prometheus;
mod range_collection;
mod range_sizes;
mod read_only;
mod record_cache;
mod regressions;
mod resources;
mod salvage;
mod secondary;
mod sessions;
mod side_by_side;
mod smoke;
mod space;
mod statistics;
mod stress;
mod tagging;
mod threads;
mod together;
mod transactions;
mod volumes;

/// Millions of stores are opened here; the system's allocator took more than a tenth of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
