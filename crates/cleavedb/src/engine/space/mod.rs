//! The engine's use of space: the length at which files end, the reserve for a full disk, and the
//! budget below a space limit.

pub(crate) mod rest;
pub(crate) mod sizes;
pub(crate) mod reserve;
pub(crate) mod budget;

use cleavedb_base::sync::Mutex;
use cleavedb_storage::MultiDirStorage;
use cleavedb_storage::log::Log;

use crate::control::metrics::Counters;
use crate::control::throttle::Throttle;
use crate::engine::job_state::Jobs;
use crate::engine::space::rest::StoreAtRest;
use crate::settings::options::Options;
use crate::store::dead::DeadReads;
use crate::store::full_disk::FullDisk;
use crate::store::limit::Limit;
use crate::store::manifest::Manifest;
use crate::store::state::ReadStates;

/// What tells how much space there is, and what takes it.
#[derive(Clone, Copy)]
pub(crate) struct SpaceContext<'e> {
    pub(crate) options: &'e Options,
    pub(crate) storage: &'e MultiDirStorage,
    pub(crate) log: &'e Log,
    pub(crate) state: &'e ReadStates,
    pub(crate) manifest: &'e Mutex<Manifest>,
    pub(crate) jobs: &'e Jobs,
    pub(crate) throttle: &'e Throttle,
    pub(crate) limit: Option<&'e Limit>,
    pub(crate) full: &'e FullDisk,
    pub(crate) counters: &'e Counters,
    pub(crate) dead_reads: &'e DeadReads,
    pub(crate) rest: &'e StoreAtRest,
}
