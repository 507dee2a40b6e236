//! Presets: the default, and the designs of the papers, a row each.

use cleavedb_index::compaction::Level0;
use cleavedb_values::{GroupLayout, Partition, SurvivorRoute, ValueLayout};

/// A named design. Users need not choose: the default fits whatever they store. A database stores
/// the preset that it was created with, whose tuning tools use for it; its [`ValueLayout`] decides
/// how it can be opened. [`crate::Db::migrate`] changes both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Preset {
    /// The default, which combines the papers' ideas: short values lie in the tree, with a level 0
    /// in partitions (OHDB), others in groups of neighbouring keys (KT-Store), and the log window
    /// gathers as many writes as it holds (WiscKey), so that most of what is overwritten soon is
    /// never moved.
    #[default]
    Cleave,
    /// Baseline: a log-structured merge tree that holds keys and values.
    Lsm,
    /// WiscKey (Lu et al., FAST 2016): values stay in the log, which is also the write-ahead log.
    WiscKey,
    /// HashKV (Chan et al., ATC 2018): large values lie in groups by the hash of their key, and a
    /// group is collected without the index.
    HashKv,
    /// KT-Store (2019): large values lie in groups of neighbouring keys, so that a range reads them
    /// in few long pieces.
    KtStore,
    /// HoaKV: as KT-Store, and values of keys that are used often lie in hot segments, which a hash
    /// index in memory finds.
    HoaKv,
    /// OHDB (Liu, Wang, Zhou): the baseline with a level 0 in partitions that are compacted in
    /// parallel.
    Ohdb,
}

/// The definition of a preset: how values are kept, which leave the index if no length is saved
/// with the data, and its tuning.
pub(crate) struct PresetRow {
    pub(crate) preset: Preset,
    name: &'static str,
    pub(crate) layout: ValueLayout,
    pub(crate) min_separated: Option<usize>,
    pub(crate) level0: Level0,
    pub(crate) memtables_max: usize,
    /// Whether a MemTable gathers as much of the log as the window holds.
    pub(crate) gathers: bool,
}

/// HashKV: sections 3.2 and 3.3; tagging (3.4) is an option of the paper.
const HASHKV: ValueLayout = ValueLayout::grouped(GroupLayout {
    partition: Partition::Hash,
    survivors: SurvivorRoute::Group,
    hot: false,
});

/// KT-Store: sections 3.2 and 3.3, with ranges that follow the data instead of its fixed levels.
const KTSTORE: ValueLayout = ValueLayout::grouped(GroupLayout {
    partition: Partition::Range,
    survivors: SurvivorRoute::Group,
    hot: false,
});

/// HoaKV: sections 3.3 to 3.5, with the groups of KT-Store as its cold side.
const HOAKV: ValueLayout = ValueLayout::grouped(GroupLayout {
    partition: Partition::Range,
    survivors: SurvivorRoute::Group,
    hot: true,
});

const INLINE: ValueLayout = ValueLayout::INLINE;
const LOG: ValueLayout = ValueLayout::LOG;
const NONE: Option<usize> = None;
const ALL: Option<usize> = Some(0);
const LARGE: Option<usize> = Some(192);
const MEASURED: Option<usize> = Some(768);
const WHOLE: Level0 = Level0::Whole;
const PARTS: Level0 = Level0::Partitions(10);

// The preset, its name, where values are, which leave the index, level 0, the MemTables that may
// wait, and whether one gathers what the window holds. The default is first: a layout without a
// name is that of the first row that has it.
#[rustfmt::skip]
const ROWS: [PresetRow; 7] = [
    row(Preset::Cleave,  "cleave",  KTSTORE, MEASURED, PARTS, 2, true),
    row(Preset::Lsm,     "lsm",     INLINE,  NONE,     WHOLE, 2, false),
    row(Preset::WiscKey, "wisckey", LOG,     ALL,      WHOLE, 3, false),
    row(Preset::HashKv,  "hashkv",  HASHKV,  LARGE,    WHOLE, 2, false),
    row(Preset::KtStore, "ktstore", KTSTORE, LARGE,    WHOLE, 2, false),
    row(Preset::HoaKv,   "hoakv",   HOAKV,   LARGE,    WHOLE, 2, false),
    row(Preset::Ohdb,    "ohdb",    INLINE,  NONE,     PARTS, 2, false),
];

const fn row(
    preset: Preset,
    name: &'static str,
    layout: ValueLayout,
    min_separated: Option<usize>,
    level0: Level0,
    memtables_max: usize,
    gathers: bool,
) -> PresetRow {
    PresetRow { preset, name, layout, min_separated, level0, memtables_max, gathers }
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 7] = [
        Self::Cleave,
        Self::Lsm,
        Self::WiscKey,
        Self::HashKv,
        Self::KtStore,
        Self::HoaKv,
        Self::Ohdb,
    ];

    /// The definition of the preset.
    pub(crate) fn row(self) -> &'static PresetRow {
        let row = ROWS.iter().find(|row| row.preset == self);
        row.expect("each preset has a row, as a test makes sure")
    }

    /// The name on the command line and in the data.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The preset of this name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        let row = ROWS.iter().find(|row| row.name.eq_ignore_ascii_case(name));
        row.map(|row| row.preset)
    }

    /// The first preset with this layout, or else the first one with a similar layout.
    pub fn of_layout(layout: &ValueLayout) -> Self {
        let by_hash =
            |layout: &ValueLayout| layout.groups.map(|groups| groups.partition == Partition::Hash);
        let like = |row: &&PresetRow| {
            (row.layout.log, by_hash(&row.layout)) == (layout.log, by_hash(layout))
        };
        let same = ROWS.iter().find(|row| row.layout == *layout);
        same.or_else(|| ROWS.iter().find(like)).map_or_else(Self::default, |row| row.preset)
    }

    /// Length from which on values leave the index under `layout`, if none is saved with the data:
    /// as under this preset, if that is valid for the layout; `None` if none leaves.
    pub(crate) fn min_separated(self, layout: &ValueLayout) -> Option<usize> {
        match self.row() {
            row if row.layout.separates() == layout.separates() => row.min_separated,
            _ => Self::of_layout(layout).row().min_separated,
        }
    }
}

impl std::fmt::Display for Preset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::options::Options;

    #[test]
    fn every_preset_has_a_row_a_name_and_a_layout_that_makes_sense() {
        assert_eq!(ROWS.each_ref().map(|row| row.preset), Preset::ALL);
        for preset in Preset::ALL {
            Options::preset(preset).validate().unwrap();
            assert_eq!(Preset::from_name(preset.name()), Some(preset));
            let first = Preset::of_layout(&preset.row().layout);
            assert_eq!(first.row().layout, preset.row().layout);
        }
        assert_eq!(Preset::from_name("btree"), None);
    }

    #[test]
    fn a_layout_of_ones_own_has_the_separation_that_it_needs() {
        for preset in Preset::ALL {
            for other in Preset::ALL {
                let layout = Some(other.row().layout);
                let options = Options { layout, ..Options::preset(preset) }.resolved(None);
                options.validate().unwrap();
                assert_eq!(options.preset, Some(preset));
                assert_eq!(options.least_separated().is_some(), other.row().layout.separates());
            }
        }
        let tagged = GroupLayout { survivors: SurvivorRoute::Tagged, ..HASHKV.groups.unwrap() };
        assert_eq!(Preset::of_layout(&ValueLayout::grouped(tagged)), Preset::HashKv);
        #[cfg(feature = "experiments")]
        {
            let prefix = GroupLayout { partition: Partition::Prefix(2), ..KTSTORE.groups.unwrap() };
            assert_eq!(Preset::of_layout(&ValueLayout::grouped(prefix)), Preset::Cleave);
        }
    }
}
