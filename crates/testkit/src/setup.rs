//! How the engine is run in a test: its options, and the abilities of the disk under it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cleavedb::layout::{GroupLayout, SurvivorRoute};
use cleavedb::tuning::{GroupOptions, Level0};
use cleavedb::{
    Background, Compression, Durability, FileClass, ManualTime, MergeOperators, Options, Preset,
    TimeSource, Tuning, ValueCompression, Volume,
};

use crate::budget::in_turn;
use crate::merges::Plait;

/// Options, and whether the log window outlives the process.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Name, for messages.
    pub name: String,
    /// Options of the engine.
    pub options: Options,
    /// Whether bytes in the window survive the death of the process.
    pub window_survives: bool,
    /// The clock of the options, by which values expire.
    pub clock: Arc<ManualTime>,
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The smallest sizes that options allow, so that few writes make every job run.
pub fn tiny(preset: Preset) -> Options {
    let usual = Options::preset(preset);
    Options {
        hot_bytes: if usual.layout().has_hot_store() { 32 << 10 } else { usual.hot_bytes },
        durability: Durability::Os,
        expired_within: Duration::from_millis(100),
        background: Background::Manual,
        tuning: Tuning {
            memtable_bytes: Some(64 << 10),
            memtable_log_bytes: 32 << 10,
            memtables_max: Some(2),
            log_file_bytes: 32 << 10,
            segment_bytes: 32 << 10,
            window_bytes: Some(64 << 10),
            cache_bytes: Some(64 << 10),
            block_bytes: 512,
            table_bytes: 4 << 10,
            level0_bytes: Some(8 << 10),
            level1_bytes: Some(16 << 10),
            space_floor: 128 << 10,
            groups: usual.layout().groups.map(tiny_groups).unwrap_or_default(),
            ..usual.tuning
        },
        ..usual
    }
}

/// Least length of a blob where there are some.
const BLOB_BYTES: u64 = 200;

/// The time at which a test begins, in milliseconds.
const NOON: u64 = 1_000_000;

/// A time in milliseconds since the beginning of 1970.
pub fn millis(time: Option<SystemTime>) -> Option<u64> {
    Some(time?.duration_since(UNIX_EPOCH).ok()?.as_millis() as u64)
}

/// Sets the segment lengths of groups, if there are groups with such segments.
pub fn set_segments(options: &mut Options, main: u64, log: u64) {
    let Some(layout) = options.layout().groups else { return };
    options.tuning.groups.main_segment_bytes = main;
    if layout.shares_segments() {
        options.tuning.groups.log_segment_bytes = log;
    }
}

fn tiny_groups(layout: GroupLayout) -> GroupOptions {
    let usual = GroupOptions::default();
    let shared = layout.shares_segments();
    GroupOptions {
        capacity_bytes: 64 << 10,
        main_segment_bytes: 16 << 10,
        log_segment_bytes: if shared { 4 << 10 } else { usual.log_segment_bytes },
        key_block_record_bytes: 1000,
        hot_segment_bytes: if layout.hot { 16 << 10 } else { usual.hot_segment_bytes },
        ..usual
    }
}

/// A name, and the change of options that it stands for.
type Change = (&'static str, fn(&mut Options));

impl Setup {
    /// The setup with `classes` on a volume.
    #[must_use]
    pub fn on_two_disks(mut self, classes: impl IntoIterator<Item = FileClass>) -> Self {
        let volume = Volume::new("/volume/1", classes);
        let names: Vec<_> = volume.classes.iter().map(|class| class.name()).collect();
        self.name = format!("{self}, {} on a second disk", names.join(" and "));
        self.options.volumes = vec![volume];
        self
    }

    /// The setup with everything in one directory.
    #[must_use]
    pub fn in_one_directory(mut self) -> Self {
        self.options.volumes.clear();
        self
    }

    /// Number of its disks.
    pub fn disks(&self) -> usize {
        1 + self.options.volumes.len()
    }

    /// Tiny sizes.
    pub fn tiny(preset: Preset, window_survives: bool) -> Self {
        let window = if window_survives { "" } else { " without a lasting window" };
        let (name, options) = (format!("{preset}{window}"), tiny(preset));
        let clock = Arc::new(ManualTime::default());
        clock.advance(Duration::from_millis(NOON));
        let merge_operators = MergeOperators::default().with(Plait);
        let options = Options { time: clock.clone(), merge_operators, ..options };
        Self { name, options, window_survives, clock }
    }

    /// The time that its clock shows, in milliseconds.
    pub fn now(&self) -> u64 {
        millis(Some(self.clock.now())).unwrap_or_default()
    }

    /// The setup with a clock of its own that shows this time, in milliseconds.
    #[must_use]
    pub fn at(&self, now: u64) -> Self {
        let clock = Arc::new(ManualTime::default());
        clock.advance(Duration::from_millis(now));
        let options = Options { time: clock.clone(), ..self.options.clone() };
        Self { options, clock, ..self.clone() }
    }

    /// Tiny sizes, `hashkv` with a cold log, which is collected often.
    pub fn tagged(window_survives: bool) -> Self {
        let base = Self::tiny(Preset::HashKv, window_survives);
        let mut setup = Self { name: format!("{base}, tagging"), ..base };
        setup.groups().survivors = SurvivorRoute::Tagged;
        (setup.options.space_amplification, setup.options.tuning.space_floor) = (1.1, 24 << 10);
        setup
    }

    /// The setup's group layout, which must exist.
    pub fn groups(&mut self) -> &mut GroupLayout {
        let layout = self.options.layout();
        self.options.layout.insert(layout).groups.as_mut().expect("its layout has groups")
    }

    /// Tiny sizes, `hoakv` whose hot store takes every key and is evacuated all the time.
    pub fn hot(window_survives: bool) -> Self {
        let base = Self::tiny(Preset::HoaKv, window_survives);
        let mut setup = Self { name: format!("{base}, all keys hot"), ..base };
        setup.options.tuning.groups.heat_limit = Some(1);
        (setup.options.space_amplification, setup.options.tuning.space_floor) = (1.1, 24 << 10);
        setup
    }

    /// Tiny sizes, `hoakv` whose hot store is too small for its keys, so that HeatLimit rises and
    /// keys leave.
    pub fn crowded_hot_store() -> Self {
        let base = Self::tiny(Preset::HoaKv, true);
        let mut setup = Self { name: format!("{base}, crowded hot store"), ..base };
        setup.options.hot_bytes = 8 << 10;
        setup
    }

    /// Tiny sizes, long values beside an index that holds all others, collected often.
    pub fn long_values(preset: Preset, window_survives: bool) -> Self {
        let base = Self::tiny(preset, window_survives);
        let mut setup = Self { name: format!("{base}, long values"), ..base };
        setup.options.tuning.long_value_bytes = Some(1 << 10);
        (setup.options.space_amplification, setup.options.tuning.space_floor) = (1.1, 24 << 10);
        setup
    }

    /// Whether some values from readers get files of their own.
    pub fn has_blobs(&self) -> bool {
        self.options.tuning.blob_bytes == BLOB_BYTES
    }

    /// The setup with values from readers of 200 bytes and more in files of their own.
    #[must_use]
    pub fn with_blobs(mut self) -> Self {
        self.name = format!("{self}, blobs");
        self.options.tuning.blob_bytes = BLOB_BYTES;
        self
    }

    /// The setup with a cache of records that is so small that it evicts some, and refuses others
    /// as too long.
    #[must_use]
    pub fn with_record_cache(mut self) -> Self {
        self.name = format!("{self}, a cache of records");
        self.options.record_cache_bytes = 128 << 10;
        self
    }

    /// A cache of records over every kind of place where separated values lie.
    pub fn record_caches() -> [Self; 5] {
        [
            Self::tiny(Preset::WiscKey, true),
            Self::tiny(Preset::HashKv, false),
            Self::tiny(Preset::KtStore, true),
            Self::tagged(false),
            Self::long_values(Preset::Lsm, true),
        ]
        .map(Self::with_record_cache)
    }

    /// Tiny sizes, with log files longer than the window, which holds everything that was not
    /// flushed: no part of the log is in a file.
    pub fn log_in_window(preset: Preset) -> Self {
        let base = Self::tiny(preset, true);
        let mut setup = Self { name: format!("{base}, log in its window"), ..base };
        (setup.options.tuning.log_file_bytes, setup.options.tuning.window_bytes) =
            (512 << 10, Some(128 << 10));
        setup
    }

    /// The setup with level 0 kept in this way, and so small that parts of it leave in a workload
    /// of 40 operations. Only long values leave the index: entries with pointers are so short that
    /// runs would not be cut, and buckets would not fill.
    #[must_use]
    pub fn with_small_level0(mut self, level0: Level0) -> Self {
        self.name = format!("{self}, small level 0: {level0:?}");
        let options = &mut self.options;
        options.tuning.level0 = Some(level0);
        (options.tuning.level0_bytes, options.tuning.level1_bytes) = (Some(4 << 10), Some(4 << 10));
        if options.layout().separates() {
            options.min_separated = Some(4000);
        }
        self
    }

    /// Level 0 in partitions under every preset that keeps values outside the index; buckets leave.
    pub fn partitioned() -> [Self; 4] {
        [
            Self::tiny(Preset::WiscKey, true),
            Self::tiny(Preset::HashKv, false),
            Self::tiny(Preset::KtStore, true),
            Self::tagged(false),
        ]
        .map(|setup| setup.with_small_level0(Level0::Partitions(3)))
    }

    /// The setup with level 0 kept in this way, and so large that it merges within itself before
    /// any part of it leaves.
    #[must_use]
    pub fn with_large_level0(mut self, level0: Level0) -> Self {
        self.name = format!("{self}, large level 0: {level0:?}");
        (self.options.tuning.level0, self.options.tuning.level0_bytes) =
            (Some(level0), Some(96 << 10));
        self
    }

    /// Level 0 in partitions whose slices merge before they leave: inline, separated and grouped.
    pub fn crowded_partitions() -> [Self; 4] {
        [Preset::Ohdb, Preset::WiscKey, Preset::HashKv, Preset::Cleave]
            .map(|preset| Self::tiny(preset, true).with_large_level0(Level0::Partitions(3)))
    }

    /// Designs of [`Setup::every_design`] whose turn it is in the calling test.
    pub fn designs() -> Vec<Self> {
        in_turn(Self::every_design())
    }

    /// Every design once: each preset, `hashkv` with a cold log, and `lsm` with long values.
    pub fn every_design() -> Vec<Self> {
        let presets = Preset::ALL.into_iter().map(|preset| Self::tiny(preset, true));
        let long = [Self::long_values(Preset::Lsm, true)];
        let tagged = [Self::tagged(true)];
        presets.chain(tagged).chain(long).collect()
    }

    /// Every preset with each kind of window, in three sizes.
    fn all_presets() -> Vec<Self> {
        let mut all = Vec::new();
        for preset in Preset::ALL {
            for window_survives in [true, false] {
                let base = Self::tiny(preset, window_survives);
                let changes: [Change; 3] = [
                    ("tiny", |_| {}),
                    ("small tables, lz4, blobs", |o| {
                        o.tuning.blob_bytes = BLOB_BYTES;
                        (o.tuning.block_bytes, o.compression) = (256, Compression::Lz4);
                        o.value_compression = ValueCompression::Lz4;
                        (o.tuning.level0_bytes, o.tuning.level1_bytes) =
                            (Some(4 << 10), Some(4 << 10));
                        o.tuning.memtables_max = Some(1);
                    }),
                    ("long logs, zstd, eager collection", |o| {
                        (o.tuning.log_file_bytes, o.tuning.memtable_log_bytes) =
                            (128 << 10, 96 << 10);
                        (o.tuning.window_bytes, o.tuning.memtables_max) =
                            (Some(256 << 10), Some(3));
                        (o.compression, o.tuning.filter_bits) = (Compression::Zstd, 0);
                        o.value_compression = ValueCompression::Zstd;
                        (o.space_amplification, o.tuning.space_floor) = (1.05, 256 << 10);
                    }),
                ];
                for (name, change) in changes {
                    let mut setup = base.clone();
                    setup.name = format!("{base}, {name}");
                    change(&mut setup.options);
                    all.push(setup);
                }
            }
        }
        all
    }

    /// Setups of [`Setup::all`] whose turn it is in the calling test.
    pub fn some() -> Vec<Self> {
        in_turn(Self::all())
    }

    /// Every setup, all of which must give the same answers: presets, windows, sizes, compression.
    pub fn all() -> Vec<Self> {
        let mut all = Self::all_presets();
        all.extend(Self::crowded_partitions());
        all.extend(Self::partitioned());
        all.extend(Self::record_caches());
        all.extend(Self::two_disks());
        for len in [64, 1000] {
            let mut setup = Self::tiny(Preset::WiscKey, true);
            setup.name = format!("wisckey, values of {len} bytes separated");
            setup.options.min_separated = Some(len);
            all.push(setup);
        }
        for (preset, len) in [
            (Preset::HashKv, 0),
            (Preset::HashKv, 1000),
            (Preset::KtStore, 0),
            (Preset::KtStore, 1000),
        ] {
            let mut setup = Self::tiny(preset, true);
            setup.name = format!("{preset}, values of {len} bytes separated");
            setup.options.min_separated = Some(len);
            all.push(setup);
        }
        all.extend([Self::tagged(true), Self::tagged(false).with_blobs()]);
        for preset in [Preset::Lsm, Preset::Ohdb] {
            all.extend([true, false].map(|window| Self::long_values(preset, window)));
        }
        all.extend([Preset::HashKv, Preset::Cleave].map(Self::log_in_window));
        all.push(Self::crowded_hot_store());
        all.extend([Self::hot(true).with_blobs(), Self::hot(false)]);
        #[cfg(feature = "experiments")]
        all.extend(Self::experiments());
        all
    }

    /// Setups of what only figures of papers need.
    #[cfg(feature = "experiments")]
    pub fn experiments() -> [Self; 6] {
        use cleavedb::layout::Partition;
        use cleavedb::tuning::VictimPolicy;

        let base = |name: &str, preset, change: fn(&mut Self)| {
            let mut setup = Self::tiny(preset, true);
            setup.name = format!("{setup}, {name}");
            change(&mut setup);
            setup
        };
        [
            Self::tiny(Preset::Lsm, true).with_large_level0(Level0::HyperLevelDb),
            base("victims by cost and benefit", Preset::HashKv, |setup| {
                setup.options.tuning.groups.experiments.victim = VictimPolicy::CostBenefit;
            }),
            base("one victim of two", Preset::KtStore, |setup| {
                setup.options.tuning.groups.experiments.victim = VictimPolicy::GreedyRandom(2);
            }),
            base("a cold log without a limit", Preset::HashKv, |setup| {
                setup.groups().survivors = SurvivorRoute::Tagged;
                setup.options.min_separated = Some(0);
                setup.options.tuning.groups.experiments.cold_log_counts = false;
            }),
            base("one group at first", Preset::KtStore, |setup| {
                setup.options.tuning.groups.experiments.one_at_first = true;
            }),
            base("two levels", Preset::KtStore, |setup| {
                setup.groups().partition = Partition::Prefix(2);
            }),
        ]
    }

    /// A placement for every preset: OHDB's own, and those of values and of the log.
    pub fn two_disks() -> [Self; 5] {
        use FileClass::{Groups, Level0, Levels, Log, Segments, Survivors};
        [
            Self::tiny(Preset::Lsm, false).on_two_disks([Log, Level0]),
            Self::tiny(Preset::WiscKey, true).on_two_disks([Segments, Level0]),
            Self::tiny(Preset::HashKv, true).on_two_disks([Survivors, Levels]),
            Self::tiny(Preset::KtStore, true).on_two_disks([Groups, Log]),
            Self::tiny(Preset::Ohdb, true).on_two_disks([Levels]),
        ]
    }
}
