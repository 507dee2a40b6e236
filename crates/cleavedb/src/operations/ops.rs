//! Ops: the operations of a commit. Few are held as they are written; of many that would take
//! several times the memory of their entries, so each is encoded where it is needed.

use cleavedb_base::Result;

use crate::operations::encoded_op::EncodedOp;
use crate::store::limit::Need;

/// What an operation is handed to.
pub(crate) type Visit<'v> = dyn FnMut(&EncodedOp<'_>) -> Result<()> + 'v;

/// The operations of a commit, in order.
#[derive(Clone, Copy)]
pub(crate) enum Ops<'o> {
    Few(&'o [EncodedOp<'o>]),
    Many(&'o ManyOps<'o>),
}

/// Operations that are encoded one by one, each time that they are asked for.
pub(crate) struct ManyOps<'o> {
    pub(crate) each: &'o dyn Fn(&mut Visit<'_>) -> Result<()>,
    pub(crate) count: usize,
    /// Bytes of their records.
    pub(crate) len: u64,
    /// Whether all of them make other records dead.
    pub(crate) deletes: bool,
    /// Whether a value of theirs leaves the index.
    pub(crate) separated: bool,
    /// See [`EncodedOp::announced`].
    pub(crate) announced: u64,
}

impl Ops<'_> {
    /// Hands each operation to `visit`, up to the first failure.
    #[inline]
    pub(crate) fn each(&self, mut visit: impl FnMut(&EncodedOp<'_>) -> Result<()>) -> Result<()> {
        match self {
            Self::Few(ops) => ops.iter().try_for_each(visit),
            Self::Many(ops) => (ops.each)(&mut visit),
        }
    }

    /// Number of operations.
    #[inline]
    pub(crate) fn op_count(&self) -> usize {
        match self {
            Self::Few(ops) => ops.len(),
            Self::Many(ops) => ops.count,
        }
    }

    /// Bytes of their records.
    #[inline]
    pub(crate) fn record_bytes(&self) -> u64 {
        match self {
            Self::Few(ops) => ops.iter().map(EncodedOp::len).sum(),
            Self::Many(ops) => ops.len,
        }
    }

    /// The kind of space that they need.
    #[inline]
    pub(crate) fn need(&self) -> Need {
        let deletes = match self {
            Self::Few(ops) => ops.iter().all(|op| op.deletes),
            Self::Many(ops) => ops.deletes,
        };
        if deletes { Need::Deletes } else { Need::Write }
    }

    /// See [`EncodedOp::announced`].
    #[inline]
    pub(crate) fn announced(&self) -> u64 {
        match self {
            Self::Few(ops) => ops.iter().fold(0, |bits, op| bits | op.announced()),
            Self::Many(ops) => ops.announced,
        }
    }

    /// Whether a value of theirs leaves the index.
    pub(crate) fn have_separated(&self) -> bool {
        match self {
            Self::Few(ops) => ops.iter().any(EncodedOp::is_separated),
            Self::Many(ops) => ops.separated,
        }
    }
}
