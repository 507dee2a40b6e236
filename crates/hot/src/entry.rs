//! An entry of the hot index: 8 bytes, so that one atomic word holds it.
//!
//! The paper's entry (HoaKV, section 3.3) is tag, vTableID, heat and pointer, of 2 bytes each. Here
//! heat and pointer have one byte each, and the other two hold the number of the record, so that no
//! search in the segment is needed. From the highest bit: tag 16, segment 16, record 16, heat 8,
//! link 8. A word with tag 0 is empty; it may have a link.

use cleavedb_base::planted::{Bug, planted};

use crate::slot::Slot;

const TAG_AT: u32 = 48;
const SEGMENT_AT: u32 = 32;
const RECORD_AT: u32 = 16;
const HEAT_AT: u32 = 8;

const LINK: u64 = 0xff;
const HEAT: u64 = 0xff << HEAT_AT;
const PLACE: u64 = 0xffff_ffff << RECORD_AT;

/// What a word of the index holds.
#[derive(Clone, Copy)]
pub(crate) struct PackedEntry(u64);

impl PackedEntry {
    /// No entry, and no link.
    pub(crate) const EMPTY: Self = Self(0);

    /// The entry of a record. `tag` is not 0.
    pub(crate) fn new(tag: u16, slot: Slot, heat: u8) -> Self {
        Self(u64::from(tag) << TAG_AT | place(slot) | u64::from(heat) << HEAT_AT)
    }

    pub(crate) fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.tag() == 0
    }

    pub(crate) fn tag(self) -> u16 {
        (self.0 >> TAG_AT) as u16
    }

    pub(crate) fn slot(self) -> Slot {
        Slot { segment: (self.0 >> SEGMENT_AT) as u16, record: (self.0 >> RECORD_AT) as u16 }
    }

    pub(crate) fn heat(self) -> u8 {
        (self.0 >> HEAT_AT) as u8
    }

    pub(crate) fn link(self) -> u8 {
        (self.0 & LINK) as u8
    }

    pub(crate) fn with_link(self, link: u8) -> Self {
        Self(self.0 & !LINK | u64::from(link))
    }

    pub(crate) fn with_slot(self, slot: Slot) -> Self {
        Self(self.0 & !PLACE | place(slot))
    }

    /// With one access more; `None` at the greatest heat.
    pub(crate) fn hotter(self) -> Option<Self> {
        let heat = self.heat().checked_add(1)?;
        Some(self.with_heat(heat))
    }

    /// With half of the heat; `None` if that changes nothing.
    pub(crate) fn cooler(self) -> Option<Self> {
        let heat = self.heat();
        let stays = heat == u8::MAX && planted(Bug::HeatNeverDecays);
        (heat > 0 && !stays).then(|| self.with_heat(heat / 2))
    }

    fn with_heat(self, heat: u8) -> Self {
        Self(self.0 & !HEAT | u64::from(heat) << HEAT_AT)
    }
}

fn place(slot: Slot) -> u64 {
    u64::from(slot.segment) << SEGMENT_AT | u64::from(slot.record) << RECORD_AT
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Slot = Slot { segment: 0x1234, record: 0xfedc };

    fn parts(entry: PackedEntry) -> (u16, Slot, u8, u8) {
        (entry.tag(), entry.slot(), entry.heat(), entry.link())
    }

    #[test]
    fn parts_do_not_touch_each_other() {
        let entry = PackedEntry::new(0xabcd, SLOT, 0x7e).with_link(0x9f);
        assert_eq!(parts(entry), (0xabcd, SLOT, 0x7e, 0x9f));
        assert_eq!(parts(entry.hotter().unwrap()), (0xabcd, SLOT, 0x7f, 0x9f));
        assert_eq!(parts(entry.cooler().unwrap()), (0xabcd, SLOT, 0x3f, 0x9f));
        let other = Slot { segment: u16::MAX, record: 0 };
        assert_eq!(parts(entry.with_slot(other)), (0xabcd, other, 0x7e, 0x9f));
        assert_eq!(parts(entry.with_link(0)), (0xabcd, SLOT, 0x7e, 0));
        assert!(!entry.is_empty() && PackedEntry::EMPTY.with_link(3).is_empty());
    }

    #[test]
    fn heat_stays_within_its_byte() {
        assert!(PackedEntry::new(1, SLOT, u8::MAX).hotter().is_none());
        assert!(PackedEntry::new(1, SLOT, 0).cooler().is_none());
    }
}
