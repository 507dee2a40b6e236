//! Copies and changes of a database, also beside its writer.

pub(crate) mod moment;
pub(crate) mod follow;
pub(crate) mod changes;
pub(crate) mod checkpoint;
pub(crate) mod backup_record;
pub(crate) mod destroy;
pub(crate) mod migration;
pub(crate) mod backup;
