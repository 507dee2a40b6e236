//! Jobs, what plans and bounds them, and calls that wait for them.

pub(crate) mod log_retention;
pub(crate) mod log_files;
pub(crate) mod memtables;
pub(crate) mod victims;
pub(crate) mod pressure;
pub(crate) mod jobs;
pub(crate) mod give_back;
pub(crate) mod scheduler;
pub(crate) mod threads;
pub(crate) mod maintenance;
pub(crate) mod range_work;
pub(crate) mod dead_records;
pub(crate) mod range_collection;
pub(crate) mod reclaim;
pub(crate) mod operand_chains;
