//! What is written: keyspaces, batches, operations, and the commit.

pub(crate) mod bounds;
pub(crate) mod direction;
pub(crate) mod catalog;
pub(crate) mod expiry;
pub(crate) mod batch;
pub(crate) mod own_writes;
pub(crate) mod recent_writes;
pub(crate) mod encoded_op;
pub(crate) mod ops;
pub(crate) mod fronts;
pub(crate) mod commit;
