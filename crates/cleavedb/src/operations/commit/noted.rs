//! What commits note of their keys: for open transactions, and for the fronts of ranges.

use cleavedb_base::SeqNo;
use cleavedb_base::key::KeptKey;

use super::Commit;
use crate::operations::bounds::Bounds;
use crate::operations::direction::Direction;
use crate::operations::encoded_op::EncodedOp;
use crate::operations::ops::Ops;
use crate::operations::recent_writes::WrittenKeys;

impl Commit {
    /// Notes the keys of a commit for open transactions and for fronts, under the append lock.
    #[inline]
    pub(super) fn note(&self, first_seq: SeqNo, ops: Ops<'_>) {
        self.fronts.note(first_seq + ops.op_count() as u64 - 1, ops);
        let written = |op: &EncodedOp<'_>| match op.range {
            Some((begin, end)) => WrittenKeys::Range(begin.into(), end.into()),
            None => WrittenKeys::Key(KeptKey::from_slice(op.encoded_key.as_bytes())),
        };
        self.recent_writes.note(first_seq, |noted| {
            // The closure has no failure to hand on.
            let _ = ops.each(|op| {
                noted(written(op));
                Ok(())
            });
        });
    }

    /// Has every commit that is not visible yet noted for a transaction. Returns the sequence
    /// number up to which everything is visible.
    pub(crate) fn watch(&self) -> SeqNo {
        // Mostly another transaction has had commits noted for some time. Then this one waits
        // neither for commits under way nor for the lock of those that begin.
        let visible = self.visible();
        if self.recent_writes.watch_too(visible) {
            return visible;
        }
        let append = self.append.lock();
        let (seq, ticket) = (append.last_seq(), append.next_ticket.checked_sub(1));
        self.recent_writes.watch(seq);
        drop(append);
        if let Some(ticket) = ticket {
            self.publisher.wait(ticket);
        }
        seq
    }

    /// Begins to watch an end of a range for its front, unless a commit is just being numbered.
    #[cold]
    pub(crate) fn watch_front(&self, bounds: &Bounds, to: Direction) {
        if let Some(append) = self.append.try_lock() {
            self.fronts.watch(bounds, to, append.last_seq());
        }
    }
}
