//! How a database keeps its values: the choices that its files depend on.
//!
//! A layout is chosen when a database is created, stored in its manifest, and compared at every
//! open. All other options are tuning, which each open may choose anew. A design of a paper is a
//! layout and some tuning; any combination that [`ValueLayout::validate`] accepts works as well.

use std::fmt;

use cleavedb_base::codec::Cursor;
use cleavedb_base::{Error, ErrorKind, Result};

use crate::partition::Partition;

/// Where values are, and how collection finds the live ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueLayout {
    /// The role of the log besides write-ahead logging.
    pub log: LogRole,
    /// The groups into which flushes move values from the log, if there are any.
    pub groups: Option<GroupLayout>,
}

/// The role of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRole {
    /// The write-ahead log: a flush makes it obsolete. Without groups, only long values stay there.
    WriteAhead,
    /// Also the store of values: the index points into it, and its files are collected (WiscKey,
    /// section 3.3).
    ValueStore,
}

/// How values are kept in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLayout {
    /// How keys are divided into groups, and how groups are created, split and merged.
    pub partition: Partition,
    /// Where a collection puts survivors.
    pub survivors: SurvivorRoute,
    /// Whether values of keys that are used often lie apart from the groups, in hot segments
    /// (HoaKV, section 3.3).
    pub hot: bool,
}

/// Bit of the encoding that says whether there is a hot store.
const HOT_SHIFT: u32 = 1;

/// Where a group collection moves survivors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurvivorRoute {
    /// Back to their group.
    Group,
    /// Values that were not updated since their insert to a log of cold values; a tag stays in
    /// their place in the group (HashKV, section 3.4).
    Tagged,
}

impl GroupLayout {
    /// Whether a collection has an entry in its run for each value that it moves.
    pub(crate) fn has_all_entries(self) -> bool {
        self.survivors != SurvivorRoute::Tagged
    }

    /// Whether groups share log segments besides a main segment each, and are collected when those
    /// are used up (HashKV, section 3.2).
    #[doc(hidden)]
    pub fn shares_segments(&self) -> bool {
        self.partition == Partition::Hash
    }
}

impl ValueLayout {
    /// Values lie in the index, with their keys.
    pub const INLINE: Self = Self { log: LogRole::WriteAhead, groups: None };

    /// Values stay in the log.
    pub const LOG: Self = Self { log: LogRole::ValueStore, groups: None };

    /// Values lie in groups.
    pub const fn grouped(groups: GroupLayout) -> Self {
        Self { log: LogRole::WriteAhead, groups: Some(groups) }
    }

    /// Whether values of neighbouring keys go to different groups.
    #[doc(hidden)]
    pub fn scatters(&self) -> bool {
        self.groups.is_some_and(|groups| !groups.partition.keeps_order())
    }

    /// Which group has a key, if there are groups.
    #[doc(hidden)]
    pub fn partition(&self) -> Option<Partition> {
        self.groups.map(|groups| groups.partition)
    }

    /// Whether there is a hot store.
    pub fn has_hot_store(&self) -> bool {
        self.groups.is_some_and(|groups| groups.hot)
    }

    /// Whether short values leave the index.
    pub fn separates(&self) -> bool {
        *self != Self::INLINE
    }

    /// Fails with [`ErrorKind::InvalidOptions`] and the reason if the choices contradict each
    /// other.
    pub fn validate(&self) -> Result<()> {
        let Some(groups) = self.groups else { return Ok(()) };
        let tags = groups.survivors == SurvivorRoute::Tagged;
        let rules = [
            (
                self.log == LogRole::WriteAhead,
                "a log that stores values cannot be combined with groups; use one of them",
            ),
            #[cfg(feature = "experiments")]
            (
                !matches!(groups.partition, Partition::Prefix(bytes) if !(1..=8).contains(&bytes)),
                "groups by prefix need prefixes of 1 to 8 bytes: each prefix is a group",
            ),
            (
                !tags || groups.partition == Partition::Hash,
                "tagging needs groups by hash, whose records tell which of them are alive: a tag \
                 is such a record",
            ),
            (
                !groups.hot || groups.partition != Partition::Hash,
                "a hot store needs groups by range: the index, which tells which of their \
                 records are alive, knows the keys that are hot",
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(Error::new(ErrorKind::InvalidOptions, rule)),
            None => Ok(()),
        }
    }

    /// Appends the encoding. See `docs/format.md`, "Manifest".
    #[doc(hidden)]
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.log == LogRole::ValueStore));
        out.push(u8::from(self.groups.is_some()));
        if let Some(groups) = &self.groups {
            groups.partition.encode(out);
            out.push(u8::from(groups.partition != Partition::Hash));
            out.push(0);
            let tagged = groups.survivors == SurvivorRoute::Tagged;
            out.push(u8::from(tagged) | u8::from(groups.hot) << HOT_SHIFT);
        }
    }

    /// Reads a valid layout.
    #[doc(hidden)]
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let log = if flag(cursor)? { LogRole::ValueStore } else { LogRole::WriteAhead };
        let groups = match flag(cursor)? {
            true => Some(GroupLayout::decode(cursor)?),
            false => None,
        };
        let layout = Self { log, groups };
        let sound = layout.validate();
        sound.map_err(|e| Error::corruption(format!("a layout is not valid: {}", e.message())))?;
        Ok(layout)
    }
}

impl GroupLayout {
    fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let partition = Partition::decode(cursor)?;
        match (flag(cursor)?, flag(cursor)?) {
            (_, true) => return Err(refused("values that are found by soft pointers")),
            (true, false) if partition == Partition::Hash => {
                return Err(refused("groups by hash whose live records the index tells"));
            }
            (by_index, false) if by_index != (partition != Partition::Hash) => {
                return Err(unknown(by_index.into()));
            }
            _ => {}
        }
        let flags = cursor.u8()?;
        if flags >= 1 << (HOT_SHIFT + 1) {
            return Err(unknown(flags));
        }
        let tagged = flags & 1 != 0;
        let survivors = if tagged { SurvivorRoute::Tagged } else { SurvivorRoute::Group };
        Ok(Self { partition, survivors, hot: flags >> HOT_SHIFT != 0 })
    }
}

fn flag(cursor: &mut Cursor<'_>) -> Result<bool> {
    match cursor.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(unknown(other)),
    }
}

/// A layout that builds before this one had.
#[cold]
fn refused(what: &str) -> Error {
    let message = format!(
        "the store has {what}, which this build does not know any more: copy it into a store of a \
         preset with the build that made it"
    );
    Error::new(ErrorKind::LayoutMismatch, message)
}

fn unknown(value: u8) -> Error {
    Error::corruption(format!("a layout has an unknown field value {value}"))
}

impl fmt::Display for ValueLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.log, self.groups) {
            (LogRole::ValueStore, _) => f.write_str("values in the log"),
            (LogRole::WriteAhead, None) => f.write_str("values in the index"),
            (LogRole::WriteAhead, Some(groups)) => write!(f, "values in {groups}"),
        }
    }
}

impl fmt::Display for GroupLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.partition {
            Partition::Hash => f.write_str("groups by hash")?,
            Partition::Range => f.write_str("groups by range")?,
            #[cfg(feature = "experiments")]
            Partition::Prefix(bytes) => write!(f, "groups by prefixes of {bytes} bytes")?,
        }
        f.write_str(match self.survivors {
            SurvivorRoute::Group => "",
            SurvivorRoute::Tagged => ", cold values in a log of their own",
        })?;
        f.write_str(if self.hot { ", hot values in segments of their own" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every combination, valid or not.
    fn all() -> Vec<ValueLayout> {
        let mut all = vec![ValueLayout::INLINE, ValueLayout::LOG];
        for log in [LogRole::WriteAhead, LogRole::ValueStore] {
            for partition in [
                Partition::Hash,
                Partition::Range,
                #[cfg(feature = "experiments")]
                Partition::Prefix(3),
            ] {
                for survivors in [SurvivorRoute::Group, SurvivorRoute::Tagged] {
                    for hot in [false, true] {
                        let groups = GroupLayout { partition, survivors, hot };
                        all.push(ValueLayout { log, groups: Some(groups) });
                    }
                }
            }
        }
        all
    }

    #[test]
    fn layouts_that_make_sense_round_trip_and_others_are_refused() {
        let (sound, unsound): (Vec<_>, Vec<_>) =
            all().into_iter().partition(|layout| layout.validate().is_ok());
        // In the index, in the log; by hash (HashKV) and with a cold log (its tagging); by range
        // (KT-Store) and with a hot store (HoaKV). In experiments also by prefix, as in the paper
        // of KT-Store, with and without a hot store.
        let sound_and_not = if cfg!(feature = "experiments") { (8, 18) } else { (6, 12) };
        assert_eq!((sound.len(), unsound.len()), sound_and_not);
        let decoded = |layout: &ValueLayout| {
            let mut bytes = Vec::new();
            layout.encode(&mut bytes);
            ValueLayout::decode(&mut Cursor::new(&bytes, "test"))
        };
        sound.iter().for_each(|layout| assert_eq!(decoded(layout).unwrap(), *layout));
        unsound.iter().for_each(|layout| assert!(decoded(layout).is_err(), "{layout}"));
        assert!(ValueLayout::decode(&mut Cursor::new(&[2, 0], "test")).is_err());
        let names: std::collections::BTreeSet<String> =
            sound.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), sound.len(), "each has words of its own");
    }
    #[test]
    fn layouts_of_earlier_builds_are_refused_by_name() {
        for (fields, name) in [
            ([1, 1, 1, 0], "soft pointers"),
            ([0, 0, 1, 0], "soft pointers"),
            ([0, 1, 0, 0], "groups by hash whose live records the index tells"),
        ] {
            let bytes = [&[0, 1], &fields[..]].concat();
            let refused = ValueLayout::decode(&mut Cursor::new(&bytes, "test")).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::LayoutMismatch);
            assert!(refused.message().contains(name), "{refused}");
        }
    }
}
