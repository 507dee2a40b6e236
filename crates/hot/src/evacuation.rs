//! Evacuation: which segments leave a full hot store, and which of their records stay hot.
//!
//! The paper (algorithm 1) moves the coldest pair of a full store to the cold side for each pair
//! that comes in, from a list that is sorted by heat. Here a whole segment leaves at once: its live
//! records that are hot enough are copied to a new segment, the others are demoted, and its space
//! is free. So no list is kept, and the dead space of overwritten records is reclaimed as well.

use cleavedb_base::Location;

/// A segment on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFacts {
    /// The beginning of the segment.
    pub place: Location,
    /// The length of the segment, in bytes.
    pub len: u64,
    /// Bytes of its records that are alive.
    pub live: u64,
    /// Whether it leaves although there is room, since a caller asked for it.
    pub asked: bool,
}

/// The least heat of a key that becomes hot where all accesses are reads: it was read once.
const LIMIT_MIN: u8 = 1;

/// The least heat of a key that becomes hot where all accesses are writes: keys that are written
/// less often are evacuated before they are overwritten, which costs more than their place in the
/// hot store saves. HeatLimit begins with it, until accesses are counted.
pub const LIMIT_MIN_OF_WRITES: u8 = 4;

/// The greatest heat that the sketch can tell.
pub const LIMIT_MAX: u8 = 15;

/// HeatLimit of a hot store that is off: no key is that hot.
pub const LIMIT_OFF: u8 = u8::MAX;

/// Part of the store that live records should fill at most, in hundredths, where all accesses are
/// writes: in a store that is fuller, little space is dead, and an evacuation copies much for
/// little. And the same where all are reads, which leave no record dead.
const FULL: u64 = 70;
const FULL_OF_READS: u64 = 95;

/// Segments that a store may have, beyond twice as many as fill it: short flushes leave short ones.
const SEGMENTS_MORE: u64 = 16;

/// Part of all live values that the hot store may have, a divisor, and its least capacity in bytes:
/// a store for all values would only double what a small database takes.
const PART: u64 = 4;
const CAPACITY_MIN: u64 = 8 << 20;

/// Bytes that a hot store may have whose option is `most`, in a database with `live` bytes of
/// values.
pub fn capacity(most: u64, live: u64) -> u64 {
    most.min((live / PART).max(CAPACITY_MIN))
}

/// See [`victims`].
pub const EXCESS: u64 = 8;

/// Segments beyond its live bytes, and half as many, that a store may have: it is not evacuated to
/// reclaim less.
const SLACK: u64 = 4;

/// What a store of hot records is to have room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that the store may have.
    pub capacity: u64,
    /// Bytes that come in.
    pub incoming: u64,
    /// Most bytes of a segment.
    pub segment: u64,
    /// Whether dead space is needed elsewhere: then a third of the store is dead at most.
    pub reclaims: bool,
    /// Hundredths of the live records of the last evacuation that stayed hot.
    pub staying: u64,
}

/// Least part of a segment that its evacuation is expected to free, a divisor: a store that is full
/// of records that stay hot would be copied again and again.
const FREED: u64 = 8;

/// The segments to evacuate, so that there is `room`: those that a caller asked for first, and then
/// those with the least live part. While space is not short, dead records stay until the store is
/// full: the longer they wait, the fewer live ones are copied for each.
///
/// The bytes to be moved are at most as many as come in. If the store was too long before, they are
/// more by what it was too long, up to one in [`EXCESS`] bytes of its capacity, or one segment at
/// least. If a caller asked for segments, they are more by as many as that. If the store is too
/// long, one segment leaves even if it is expected to free little, to see what stays hot now.
pub fn victims(mut segments: Vec<SegmentFacts>, room: Room) -> Vec<Location> {
    let Room { capacity, incoming, segment, reclaims, staying } = room;
    let mut len: u64 = segments.iter().map(|segment| segment.len).sum();
    let excess = len.saturating_sub(capacity);
    let asked = segments.iter().any(|segment| segment.asked);
    let beyond = if asked { u64::MAX } else { excess };
    let may_move = incoming + beyond.min(capacity / EXCESS);
    let many = 2 * capacity.div_ceil(segment) + SEGMENTS_MORE;
    let live: u64 = segments.iter().map(|segment| segment.live).sum();
    let worth = if reclaims { live + live / 2 + SLACK * segment + incoming } else { u64::MAX };
    let capacity = capacity.min(worth);
    let mut count = segments.len() as u64;
    // Others might take all that may be moved from those that were asked for. Cross-multiplied, so
    // that no division rounds: the least live share first, then the shortest.
    segments.sort_by(|a, b| {
        let (one, other) = (u128::from(a.live), u128::from(b.live));
        let order = (one * u128::from(b.len)).cmp(&(other * u128::from(a.len)));
        b.asked.cmp(&a.asked).then(order).then(a.len.cmp(&b.len)).then(a.place.cmp(&b.place))
    });
    let (mut chosen, mut moved) = (Vec::new(), 0);
    for victim in segments {
        let dead = victim.live == 0;
        let fits = len.saturating_add(incoming) <= capacity && count <= many;
        if !dead && fits && !victim.asked {
            continue;
        }
        let first = beyond > 0 && moved == 0;
        let stays = victim.live.min(victim.len) * staying / 100;
        let frees = count > many || victim.len - stays >= victim.len / FREED;
        if !dead && !first && (moved + victim.live > may_move || !frees && !victim.asked) {
            continue;
        }
        moved += victim.live;
        len -= victim.len;
        count -= 1;
        chosen.push(victim.place);
    }
    chosen
}

/// The next HeatLimit: the heat from which on a key becomes or stays hot. The paper (section 3.2)
/// takes the heat of the coldest pair of a full store. So it is the least one until live records
/// have `filled` seven tenths of the store, in hundredths, or more where there are more `reads`, in
/// hundredths of all accesses. It rises while they fill more, and falls while they fill much less.
pub fn next_limit(limit: u8, filled: u64, reads: u64) -> u8 {
    let reads = reads.min(100);
    let full = FULL + (FULL_OF_READS - FULL) * reads / 100;
    let next = if filled > full {
        limit.saturating_add(1)
    } else if filled > full - full / 8 {
        limit
    } else {
        limit.saturating_sub(1)
    };
    let writes = f64::from(LIMIT_MIN_OF_WRITES - LIMIT_MIN) * (100 - reads) as f64 / 100.0;
    next.clamp(LIMIT_MIN + writes.round() as u8, LIMIT_MAX)
}

#[cfg(test)]
mod tests {
    use cleavedb_base::FileNumber;

    use super::*;

    fn segment(number: u64, len: u64, live: u64) -> SegmentFacts {
        let place = Location { file: FileNumber(number), offset: 4096 };
        SegmentFacts { place, len, live, asked: false }
    }

    #[test]
    fn a_small_database_has_a_small_hot_store() {
        assert_eq!(capacity(256 << 20, 100 << 20), 25 << 20);
        assert_eq!(capacity(256 << 20, 0), 8 << 20);
        assert_eq!(capacity(1 << 20, 1 << 40), 1 << 20);
    }

    #[test]
    fn a_third_of_a_store_with_room_may_be_dead_where_space_is_short() {
        let segments = |live| (0..40).map(|i| segment(i, 100, live)).collect::<Vec<_>>();
        let has_space =
            Room { capacity: 1 << 20, incoming: 600, segment: 100, reclaims: false, staying: 50 };
        assert_eq!(victims(segments(30), has_space), [], "dead space is of no use elsewhere");
        // 1,200 of 4,000 bytes are live: 600 dead ones may stay, and four segments.
        assert_eq!(chosen(&segments(30), 1 << 20, 600).len(), 18);
        assert_eq!(chosen(&segments(80), 1 << 20, 600).len(), 0);
    }

    fn chosen(segments: &[SegmentFacts], capacity: u64, incoming: u64) -> Vec<u64> {
        let room = Room { capacity, incoming, segment: 100, reclaims: true, staying: 50 };
        let victims = victims(segments.to_vec(), room);
        victims.iter().map(|place| place.file.0).collect()
    }

    #[test]
    fn the_segment_with_the_least_live_share_leaves_first() {
        let segments = [segment(1, 100, 60), segment(2, 100, 30), segment(3, 50, 20)];
        assert_eq!(chosen(&segments, 260, 10), [0; 0], "there is room");
        assert_eq!(chosen(&segments, 260, 40), [2]);
        assert_eq!(chosen(&segments, 180, 60), [2, 3]);
    }

    #[test]
    fn no_more_is_moved_than_comes_in_and_dead_segments_always_leave() {
        let segments = [segment(1, 100, 60), segment(2, 100, 30), segment(3, 50, 0)];
        assert_eq!(chosen(&segments, 250, 20), [3]);
        assert_eq!(chosen(&segments, 250, 70), [3, 2]);
        assert_eq!(chosen(&segments, 1000, 0), [3]);
    }

    #[test]
    fn a_store_that_is_too_long_is_evacuated_although_nothing_comes_in() {
        let segments = [segment(1, 100, 90), segment(2, 100, 95)];
        assert_eq!(chosen(&segments, 150, 0), [1], "one segment at least");
        let many: Vec<_> = (0..20).map(|i| segment(i, 100, 90)).collect();
        assert_eq!(chosen(&many, 1600, 0), [0, 1], "and an eighth of the capacity");
    }

    #[test]
    fn where_all_stays_hot_only_dead_records_are_a_reason_to_leave() {
        let full: Vec<_> = (0..20).map(|i| segment(i, 100, 95)).collect();
        let staying = |staying| Room {
            capacity: 1_900,
            incoming: 1_000,
            segment: 100,
            reclaims: true,
            staying,
        };
        assert_eq!(victims(full.clone(), staying(50)).len(), 11);
        assert_eq!(victims(full.clone(), staying(100)).len(), 1, "to see what stays now");
        let some_dead = full.into_iter().map(|facts| match facts.place.file.0 {
            number @ 0..5 => SegmentFacts { live: 80 + number, ..facts },
            _ => facts,
        });
        assert_eq!(victims(some_dead.collect(), staying(100)).len(), 5);
    }

    #[test]
    fn segments_that_a_caller_asked_for_leave_in_rounds() {
        let asked = |segments: Vec<SegmentFacts>| {
            let asked =
                |facts: SegmentFacts| SegmentFacts { asked: facts.place.file.0 > 0, ..facts };
            segments.into_iter().map(asked).collect::<Vec<_>>()
        };
        let many = asked((0..20).map(|i| segment(i, 100, 90)).collect());
        assert_eq!(
            chosen(&many, 1 << 20, 0).len(),
            19,
            "all but the first, which is not asked for"
        );
        assert_eq!(chosen(&many, 4000, 0), [1, 2, 3, 4, 5], "an eighth of the capacity");
        assert_eq!(chosen(&many, 100, 0), [1], "one at least");
    }

    #[test]
    fn many_short_segments_leave_although_there_is_room() {
        let segments: Vec<_> = (0..40).map(|i| segment(i, 2, 1 + i % 2)).collect();
        // Twice ten segments fill the store, and sixteen more are allowed.
        assert_eq!(chosen(&segments, 1000, 100).len(), 4);
    }

    #[test]
    fn many_short_segments_leave_although_all_stays_hot() {
        let segments: Vec<_> = (0..40).map(|i| segment(i, 16, 16)).collect();
        let room =
            Room { capacity: 1000, incoming: 100, segment: 100, reclaims: true, staying: 100 };
        assert_eq!(victims(segments, room).len(), 4);
    }

    #[test]
    fn the_limit_follows_the_room() {
        assert_eq!(next_limit(5, 71, 0), 6);
        assert_eq!(next_limit(LIMIT_MAX, 71, 0), LIMIT_MAX);
        assert_eq!(next_limit(5, 65, 0), 5);
        assert_eq!(next_limit(6, 10, 0), 5);
        let least = |reads| (0..20).fold(LIMIT_MAX, |limit, _| next_limit(limit, 0, reads));
        assert_eq!([0, 50, 95, 100].map(least), [LIMIT_MIN_OF_WRITES, 3, LIMIT_MIN, LIMIT_MIN]);
        let filling = |reads| (1..=100).find(|filled| next_limit(5, *filled, reads) > 5);
        assert_eq!([0, 50, 100].map(filling), [Some(71), Some(83), Some(96)]);
    }
}
