//! Test tools for the engine: a model, operations, a session that compares, a crash loop.
//!
//! Everything is a function of a seed. [`Session`] runs operations against the engine and the
//! [`State`], a sorted map; [`Recording`] runs them on a simulated disk and records when each was
//! acknowledged; [`Explorer`] rebuilds the disks that a crash may leave and checks them with the
//! oracle in [`check`]. Modules are listed bottom first; a module uses only those above it.

#![forbid(unsafe_code)]

pub mod budget;
pub mod listing;
pub mod merges;
pub mod op;
pub mod records;
pub mod state;
pub mod generator;
pub mod setup;
pub mod disks;
pub mod read;
pub mod full;
pub mod brim;
pub mod blobs;
pub mod walk;
pub mod session;
pub mod secondary;
pub mod sharing;
pub mod expiry;
pub mod gated;
pub mod loads;
pub mod follow;
pub mod followed_changes;
pub mod copies;
pub mod backups;
pub mod live_copies;
pub mod transactions;
pub mod keyspaces;
pub mod endless;
pub mod fronts;
pub mod heat;
pub mod hot;
pub mod hot_damage;
pub mod drawn;
pub mod torn;
pub mod numbered;
pub mod check;
pub mod recording;
pub mod explorer;
pub mod churn;
pub mod rounds;
pub mod needles;
pub mod held_collections;
pub mod compressed;
pub mod together;
pub mod golden;
pub mod destroyed;
pub mod migrated;
pub mod child;
pub mod program;

pub use check::{Bounds, Oracle};
pub use churn::Churn;
pub use disks::Disks;
pub use explorer::{Explorer, Plan, Totals};
pub use gated::Gated;
pub use generator::{Generator, Profile};
pub use listing::listing;
pub use needles::Needles;
pub use op::{Op, Scan, Write};
pub use recording::Recording;
pub use session::Session;
pub use setup::Setup;
pub use state::State;

/// Makes a test of every planted mistake: the caller's function `caught` gets the mistake and the
/// check that must notice it, if the budget has room for it.
#[macro_export]
macro_rules! caught {
    ($($test:ident: $bug:ident by $check:ident;)*) => {
        $(#[test]
        fn $test() {
            if $crate::budget::tries_bug(stringify!($bug)) {
                caught(::cleavedb_base::planted::Bug::$bug, $check);
            }
        })*
    };
}
