//! The engine through its own doors: one process for all suites that need none of their own, so
//! that they are linked once and share the processors to the end.
//!
//! `cargo test -p cleavedb --test engine crash::` runs one of them.

mod backup;
mod blobs;
mod bulk_load;
mod changes;
mod changes_followed;
mod checkpoint;
mod compression;
mod corruption;
mod crash;
mod create;
mod cursor;
mod dead_space;
mod destroy;
mod detached;
mod dump;
mod exhaustive;
mod expiry;
mod extremes;
mod fault;
mod filter;
mod fronts;
mod full_disk;
mod groups;
mod keys;
mod keyspaces;
mod links;
mod listeners;
mod liveness;
mod long_values;
mod merges;
mod model;
mod modelled;
mod read_only;
mod record_cache;
mod pace;
mod prometheus;
mod range_collection;
mod range_sizes;
mod regressions;
mod resources;
mod salvage;
mod live_copies;
mod secondary;
mod hot;
mod min_separated;
mod one_group;
mod sessions;
mod side_by_side;
mod smoke;
mod space;
mod statistics;
mod tagging;
mod together;
mod transactions;
mod volumes;

/// Millions of stores are opened here; the system's allocator took more than a tenth of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
