//! Long replies: the elements of a collection as of one moment, which are read while they are sent,
//! so that a reply takes little memory, however many there are.

use std::ops::Bound;

use bytes::{Bytes, BytesMut};
use cleavedb::{Keyspace, Snapshot};

use super::failed::failed;
use super::{Answer, Halt};
use crate::model::element::{self, KeyBounds, PREFIX_LEN};
use crate::resp::reply::{Protocol, Reply, ReplyForm};

/// Bytes of a long reply that are read at once.
const PIECE: usize = 256 << 10;

/// Elements whose values are read ahead for the first piece.
const EXPECTED_FIRST: usize = 16;

/// What a long reply shows of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementForm {
    /// An array of names.
    Names,
    /// An array of values.
    Values,
    /// A set of names.
    NameSet,
    /// A map of names and values.
    Map,
    /// An array of the members of a sorted set.
    Members,
    /// The members of a sorted set with their scores.
    ScoredMembers,
}

impl ElementForm {
    /// Whether values are read.
    pub fn has_values(self) -> bool {
        matches!(self, Self::Values | Self::Map)
    }

    fn of_reply(self) -> ReplyForm {
        match self {
            Self::Names | Self::Values | Self::Members => ReplyForm::Array,
            Self::NameSet => ReplyForm::Set,
            Self::Map => ReplyForm::Map,
            Self::ScoredMembers => ReplyForm::Pairs,
        }
    }
}

/// Which elements a long reply has.
#[derive(Clone, Debug)]
pub struct LongPlan {
    /// Between which keys they lie.
    pub keys: KeyBounds,
    /// Whether the last one comes first.
    pub is_reversed: bool,
    /// How many are left out at the begin.
    pub skipped: u64,
    /// How many there are.
    pub count: u64,
    /// What is shown of each.
    pub form: ElementForm,
}

/// A long reply that is being sent. Between two pieces it keeps nothing but the moment.
pub struct LongReply {
    plan: LongPlan,
    at: Snapshot,
    elements: Keyspace,
    has_begun: bool,
    /// Elements that the next piece will about have, for what is read ahead.
    expected: usize,
}

impl LongReply {
    /// The reply with elements as they were at a moment.
    pub fn new(plan: LongPlan, at: Snapshot, elements: Keyspace) -> Self {
        Self { plan, at, elements, has_begun: false, expected: EXPECTED_FIRST }
    }

    /// The next piece, and whether another one follows. It waits for the device. After an error
    /// what was sent is no whole reply.
    pub fn next_piece(&mut self, protocol: Protocol) -> Answer<(BytesMut, bool)> {
        let mut out = BytesMut::new();
        if !self.has_begun {
            self.plan.form.of_reply().begin(self.plan.count, protocol, &mut out);
            self.has_begun = true;
        }
        let mut range = self.at.keyspace(&self.elements).range(element::slices(&self.plan.keys));
        range = match self.plan.form.has_values() {
            true => range.with_limit_hint(self.expected),
            false => range.keys_only(),
        };
        let (mut last, mut written) = (Bytes::new(), 0);
        while self.plan.count > 0 && out.len() < PIECE {
            let item = match self.plan.is_reversed {
                true => range.next_back(),
                false => range.next(),
            };
            let Some(item) = item.transpose().map_err(failed)? else {
                return Err(Halt::error(
                    "ERR damaged: a collection has fewer elements than it says",
                ));
            };
            last = item.key.clone();
            if let Some(left) = self.plan.skipped.checked_sub(1) {
                self.plan.skipped = left;
                continue;
            }
            self.plan.count -= 1;
            written += 1;
            self.write(item.key.slice(PREFIX_LEN..), item.value, protocol, &mut out)?;
        }
        self.expected = (PIECE * written / out.len().max(1)).max(1);
        let end = match self.plan.is_reversed {
            true => &mut self.plan.keys.1,
            false => &mut self.plan.keys.0,
        };
        *end = Bound::Excluded(last.to_vec());
        Ok((out, self.plan.count > 0))
    }

    fn write(
        &self,
        name: Bytes,
        value: Bytes,
        protocol: Protocol,
        out: &mut BytesMut,
    ) -> Answer<()> {
        let scored = || {
            let found = element::scored(&name);
            found.ok_or_else(|| Halt::error("ERR damaged: an element of a sorted set has no score"))
        };
        match self.plan.form {
            ElementForm::Names | ElementForm::NameSet => Reply::Bulk(name).write(protocol, out),
            ElementForm::Values => Reply::Bulk(value).write(protocol, out),
            ElementForm::Map => {
                ReplyForm::Map.write_pair(&Reply::Bulk(name), &Reply::Bulk(value), protocol, out);
            }
            ElementForm::Members => {
                let (_, member) = scored()?;
                Reply::Bulk(name.slice_ref(member)).write(protocol, out);
            }
            ElementForm::ScoredMembers => {
                let (score, member) = scored()?;
                let member = Reply::Bulk(name.slice_ref(member));
                ReplyForm::Pairs.write_pair(&member, &Reply::Double(score), protocol, out);
            }
        }
        Ok(())
    }
}
