//! Groups that read a stream: what they, their consumers and their pending entries have.

use bytes::{Buf, BufMut, Bytes};

use super::stream::StreamId;

/// What a group has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupState {
    /// The last entry that it was given.
    pub last: StreamId,
    /// Number of entries up to that one that were ever added, if it is known.
    pub read: Option<u64>,
    /// Number of consumers.
    pub consumers: u64,
    /// Number of pending entries.
    pub pending: u64,
}

/// Stands for a number of entries that is not known.
const UNKNOWN: u64 = u64::MAX;

impl GroupState {
    /// The value of its element.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.last.to_bytes().to_vec();
        for number in [self.read.unwrap_or(UNKNOWN), self.consumers, self.pending] {
            bytes.put_u64(number);
        }
        bytes
    }

    /// The group in the value of an element; none if it is damaged.
    pub fn of_bytes(mut bytes: Bytes) -> Option<Self> {
        let last = StreamId::take(&mut bytes)?;
        let read = Some(bytes.try_get_u64().ok()?).filter(|read| *read != UNKNOWN);
        let consumers = bytes.try_get_u64().ok()?;
        let pending = bytes.try_get_u64().ok()?;
        bytes.is_empty().then_some(Self { last, read, consumers, pending })
    }
}

/// What a consumer has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerState {
    /// When it last asked for entries, in milliseconds since 1970.
    pub seen: u64,
    /// Number of pending entries.
    pub pending: u64,
}

impl ConsumerState {
    /// The value of its element.
    pub fn to_bytes(self) -> [u8; 16] {
        StreamId::new(self.seen, self.pending).to_bytes()
    }

    /// The consumer in the value of an element; none if it is damaged.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let numbers = StreamId::of_bytes(bytes)?;
        Some(Self { seen: numbers.ms(), pending: numbers.seq() })
    }
}

/// An entry that a group has given a consumer, and that is not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingEntry {
    /// When it was last given, in milliseconds since 1970.
    pub given: u64,
    /// How often.
    pub times: u64,
    /// The consumer that has it.
    pub consumer: Bytes,
}

impl PendingEntry {
    /// The value of its element.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&StreamId::new(self.given, self.times).to_bytes()[..], &self.consumer].concat()
    }

    /// The entry in the value of an element; none if it is damaged.
    pub fn of_bytes(mut bytes: Bytes) -> Option<Self> {
        let (given, times) = (bytes.try_get_u64().ok()?, bytes.try_get_u64().ok()?);
        Some(Self { given, times, consumer: bytes })
    }
}

/// The begin of the names of what a group has: its own name, behind the length.
pub fn within_group(group: &[u8]) -> Vec<u8> {
    [&(group.len() as u32).to_be_bytes()[..], group].concat()
}

/// The begin of the names of the entries that a consumer of a group has.
pub fn within_consumer(group: &[u8], consumer: &[u8]) -> Vec<u8> {
    [within_group(group), within_group(consumer)].concat()
}

/// The name of an entry, behind such a begin.
pub fn of_entry(begin: &[u8], id: StreamId) -> Vec<u8> {
    [begin, &id.to_bytes()].concat()
}

/// The group, or the consumer, in front of the rest of a name; none if it is damaged.
pub fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = name.split_first_chunk()?;
    rest.split_at_checked(u32::from_be_bytes(*len) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_what_was_written() {
        let last = StreamId::new(1, 2);
        for read in [None, Some(0), Some(7)] {
            let group = GroupState { last, read, consumers: 3, pending: 4 };
            let written = group.to_bytes();
            assert_eq!(GroupState::of_bytes(written.clone().into()), Some(group));
            assert_eq!(GroupState::of_bytes(written[1..].to_vec().into()), None);
            assert_eq!(GroupState::of_bytes([&*written, b"x"].concat().into()), None);
        }
        let consumer = ConsumerState { seen: 5, pending: 6 };
        assert_eq!(ConsumerState::of_bytes(&consumer.to_bytes()), Some(consumer));
        let entry = PendingEntry { given: 7, times: 8, consumer: Bytes::from_static(b"c") };
        assert_eq!(PendingEntry::of_bytes(entry.to_bytes().into()), Some(entry));
        assert_eq!(PendingEntry::of_bytes(Bytes::from_static(b"short")), None);
    }

    #[test]
    fn names_begin_with_their_group() {
        let name = of_entry(&within_consumer(b"group", b""), StreamId::MAX);
        let (group, rest) = split(&name).unwrap();
        let (consumer, rest) = split(rest).unwrap();
        assert_eq!((group, consumer), (&b"group"[..], &b""[..]));
        assert_eq!(StreamId::of_bytes(rest), Some(StreamId::MAX));
        assert_eq!((split(b"\0\0\0"), split(b"\0\0\0\x02a")), (None, None));
    }
}
