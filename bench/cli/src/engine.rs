//! CleaveDB as an engine of the benchmark.

mod described;
mod features;

use std::fmt::Display;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;
use std::time::Duration;

use cleavedb::layout::{LogRole, Partition, SurvivorRoute, ValueLayout};
use cleavedb::metrics::Step;
use cleavedb::tuning::Level0;
use cleavedb::{Db, Options, Preset, Volume};
use cleavedb_bench::capabilities::{Capabilities, Needs};
use cleavedb_bench::counters::{
    MEMORY_BOUND, OPEN_FILES, SPACE_BUDGET, SPACE_LIMIT, WINDOW_BYTES, WINDOW_MAPPED, step_seconds,
};
use cleavedb_bench::engine::{MINIATURE, VisitPair, no_option, of_preset};
use cleavedb_bench::scratch::Scratch;
use cleavedb_bench::{BenchError, Engine, Opener, Result, units};
use cleavedb_cli::interrupt;
use cleavedb_cli::placement::{self, Placement};
use cleavedb_named::{self as named, level0};
use cleavedb_storage_sim::SimulatedDevice;

use crate::device::{Device, OnDevice};
use crate::hot_counters;
use crate::variant;

/// The engine of a preset, as results name it: `cleave`, and `cleave-lsm` of a paper.
pub fn engine_of(preset: Preset) -> String {
    match preset {
        Preset::Cleave => preset.name().to_owned(),
        _ => format!("cleave-{preset}"),
    }
}

/// Opens databases of one preset with one durability.
#[derive(Clone)]
pub struct CleaveOpener {
    name: String,
    options: Options,
    device: Device,
    /// The placement of its volumes; those without a directory are beside the database.
    placements: Vec<Placement>,
}

impl CleaveOpener {
    /// Databases with these options.
    pub fn with(options: Options) -> Self {
        let (device, placements) = (Device::default(), Vec::new());
        Self { name: engine_of(options.chosen_preset()), options, device, placements }
    }

    /// The opener with stores on the named devices.
    pub fn on(mut self, devices: &[String], placements: &[Placement]) -> Result<Self> {
        devices.iter().try_for_each(|device| self.set("device", device))?;
        self.placements.extend_from_slice(placements);
        Ok(self)
    }

    /// Paths of the database and its volumes for a benchmark in `directory`. Volumes without a
    /// directory are within it, beside the database, which then has a subdirectory; the others are
    /// below their named directory, in one that is emptied for a new database.
    fn layout(&self, directory: &Path) -> Result<(PathBuf, Vec<Volume>)> {
        if self.placements.is_empty() {
            return Ok((directory.to_owned(), Vec::new()));
        }
        let (own, beside) = (directory.join("own"), directory.join("volume"));
        let is_new = !own.exists();
        let mut volumes = placement::volumes(&self.placements, &beside);
        for volume in volumes.iter_mut().filter(|volume| volume.directory != beside) {
            let scratch = Scratch::claim(&volume.directory)?;
            volume.directory = match is_new {
                true => scratch.emptied(&self.name)?,
                false => volume.directory.join(&self.name),
            };
        }
        for volume in &mut volumes {
            let failed = BenchError::io("find", &volume.directory);
            volume.directory = absolute(&volume.directory).map_err(failed)?;
        }
        Ok((own, volumes))
    }

    /// Sets one option from text. The names are those of the experiments; sizes are in bytes.
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        if let Some((preset, name)) = of_preset(name) {
            let own = self.options.chosen_preset().name() == preset;
            return if own { self.set(name, value) } else { Ok(()) };
        }
        if self.set_group(name, value)? {
            return Ok(());
        }
        let malformed = |why: &dyn Display| malformed(name, value, why);
        let number = units::parse(value.trim_end_matches('%')).map_err(|why| malformed(&why));
        let options = &mut self.options;
        match name {
            "device" => self.device.model(value).map_err(|why| malformed(&why))?,
            // The stores that OHDB's paper compares.
            "variant" => {
                let options = variant::options(value).map_err(|why| malformed(&why))?;
                return options.iter().try_for_each(|(name, value)| self.set(name, value));
            }
            // OHDB's two disk components; without a directory for a modelled device.
            "place" => {
                self.placements.push(Placement::somewhere(value).map_err(|why| malformed(&why))?);
            }
            "page-cache" => self.device.set_page_cache(number?),
            "threshold" if !options.layout().separates() => {
                return Err(no_option(&self.name, name));
            }
            "threshold" => options.min_separated = Some(number? as usize),
            // The paper's reserved space is the space goal's tolerance beyond the live bytes.
            "reserved-space" => {
                let reserved = number? as f64 / 100.0;
                if options.layout().groups.is_some_and(|groups| groups.shares_segments()) {
                    options.tuning.groups.reserved_space = reserved;
                }
                options.space_amplification = 1.0 + reserved;
                options.tuning.space_floor = 0;
            }
            // The goal alone, where the reserve of log segments is to be what starts collections.
            "space-goal" => options.space_amplification = 1.0 + number? as f64 / 100.0,
            "space-limit" => options.space_limit = Some(number?),
            "memory" => options.memory_bytes = number? as usize,
            "record-cache" => options.record_cache_bytes = number? as usize,
            MINIATURE => {
                let part = number?.max(1);
                self.options = self.options.clone().miniature(part);
                self.device.divide(part);
            }
            _ => return self.set_tuning(name, value),
        }
        Ok(())
    }

    /// Sets a size or a policy.
    fn set_tuning(&mut self, name: &str, value: &str) -> Result<()> {
        let malformed = |why: &dyn Display| malformed(name, value, why);
        let number = units::parse(value).map_err(|why| malformed(&why));
        let tuning = &mut self.options.tuning;
        match name {
            "partitions" => {
                tuning.level0 = Some(match number? {
                    0 | 1 => Level0::Whole,
                    count => Level0::Partitions(count as usize),
                });
            }
            "level0" => {
                let level0 = level0::parse(value).map_err(|why| malformed(&why))?;
                tuning.level0 = Some(level0);
            }
            "level0-size" => tuning.level0_bytes = Some(number?),
            "level1-size" => tuning.level1_bytes = Some(number?),
            "memtable" => tuning.memtable_bytes = Some(number? as usize),
            "memtables" => tuning.memtables_max = Some(number? as usize),
            "window" => tuning.window_bytes = Some(number? as usize),
            "table" => tuning.table_bytes = number?,
            "segment" => {
                tuning.segment_bytes = number?;
                tuning.log_file_bytes = tuning.segment_bytes;
            }
            "cache" => tuning.cache_bytes = Some(number? as usize),
            "open-files" => tuning.open_tables_max = Some(number? as usize),
            "read-ahead" => tuning.read_ahead_bytes = number? as usize,
            _ => return Err(no_option(&self.name, name)),
        }
        Ok(())
    }

    /// Sets an option of groups; returns whether the preset has it.
    fn set_group(&mut self, name: &str, value: &str) -> Result<bool> {
        let malformed = |why: &dyn Display| malformed(name, value, why);
        let layout = self.options.layout();
        let layout = self.options.layout.insert(layout).groups.as_mut();
        let Some(layout) = layout else { return Ok(false) };
        let (by_hash, groups) =
            (layout.partition == Partition::Hash, &mut self.options.tuning.groups);
        let bytes = || units::parse(value).map_err(|why| malformed(&why));
        match name {
            "segment" => groups.main_segment_bytes = bytes()?,
            "listing" => groups.key_block_record_bytes = bytes()?,
            "log-segment" if layout.shares_segments() => groups.log_segment_bytes = bytes()?,
            "victim-policy" => {
                groups.experiments.victim = named::victim_policy(value)
                    .ok_or_else(|| malformed(&"greedy, cost-benefit, greedy-random[:D], random"))?;
            }
            "tagging" if by_hash => {
                let on = switch(value).ok_or_else(|| malformed(&"there are on and off"))?;
                layout.survivors = if on { SurvivorRoute::Tagged } else { SurvivorRoute::Group };
            }
            "cold-log" if by_hash => match value {
                "counted" => groups.experiments.cold_log_counts = true,
                "unlimited" => groups.experiments.cold_log_counts = false,
                _ => return Err(malformed(&"there are counted and unlimited")),
            },
            "capacity" => groups.capacity_bytes = bytes()?,
            // HoaKV's names: bytes of a cold group, and of the hot store.
            "group" if layout.hot => groups.main_segment_bytes = bytes()?,
            "one-group" if layout.partition == Partition::Range => {
                groups.experiments.one_at_first =
                    switch(value).ok_or_else(|| malformed(&"there are on and off"))?;
            }
            "hot-store" if layout.hot => self.options.hot_bytes = bytes()?,
            "heat-limit" if layout.hot => {
                groups.heat_limit = Some(value.parse().map_err(|why| malformed(&why))?);
            }
            "value-size-limit" if layout.hot => {
                self.options.min_separated = Some(bytes()? as usize);
            }
            "levels" if !by_hash => {
                let levels = value.parse::<u8>().map_err(|why| malformed(&why))?;
                layout.partition = Partition::Prefix(levels);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn malformed(name: &str, value: &str, why: &dyn Display) -> BenchError {
    BenchError::Usage(format!("--option {name}={value}: {why}"))
}

/// Files of a database that stay in the page cache when others are evicted: the window, which is
/// memory, and logs without pointers into them, which are mostly removed before the kernel would
/// write them (docs/format.md, "Directory").
pub fn stays_cached(layout: &ValueLayout) -> fn(&Path) -> bool {
    fn window(path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == "window")
    }
    fn window_and_log(path: &Path) -> bool {
        window(path) || path.extension().is_some_and(|kind| kind == "log")
    }
    match layout.log {
        LogRole::ValueStore => window,
        LogRole::WriteAhead => window_and_log,
    }
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

impl Opener for CleaveOpener {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        let name = self.name.clone();
        let directory = absolute(directory).map_err(BenchError::io("find", directory))?;
        let (own, volumes) = self.layout(&directory)?;
        let device = self.device.describe(&volumes);
        let outside = volumes.iter().map(|volume| volume.directory.clone());
        let outside = outside.filter(|path| !path.starts_with(&directory)).collect();
        self.device.check(&volumes).map_err(BenchError::Usage)?;
        let options = Options { volumes, ..self.options.clone() };
        let opened = self.device.open(&own, options);
        let OnDevice { db, models } = opened.map_err(|e| BenchError::engine(&name, "open", e))?;
        Ok(Box::new(Cleave { name, db, device, models, outside }))
    }

    fn open_for(&self, directory: &Path, needs: &Needs) -> Result<Option<Box<dyn Engine>>> {
        features::opener(self, needs).map(|opener| opener.open(directory)).transpose()
    }

    fn configured(&self, options: &[(String, String)]) -> Result<Box<dyn Opener>> {
        let mut opener = self.clone();
        for (name, value) in options {
            opener.set(name, value)?;
        }
        // An experiment that compares tagging on and off also sets options of the cold log, which
        // exists only with tagging.
        let layout = opener.options.layout().groups;
        if layout.is_some_and(|groups| groups.survivors == SurvivorRoute::Group) {
            opener.options.tuning.groups.experiments.cold_log_counts = true;
        }
        Ok(Box::new(opener))
    }
}

/// An open database.
struct Cleave {
    name: String,
    db: Db,
    device: String,
    models: Vec<(PathBuf, Arc<SimulatedDevice>)>,
    /// Volumes outside of the benchmark's directory.
    outside: Vec<PathBuf>,
}

impl Cleave {
    /// Adds the name of the operation to an error. Ctrl-C makes every operation fail, which ends
    /// the run.
    fn done<T>(&self, action: &'static str, result: cleavedb::Result<T>) -> Result<T> {
        if interrupt::interrupted() {
            return Err(BenchError::engine(&self.name, action, "interrupted"));
        }
        result.map_err(|error| BenchError::engine(&self.name, action, error))
    }
}

impl Cleave {
    /// Counters of modelled devices; none for real ones, which the kernel counts.
    fn device_counters(&self) -> Vec<(String, f64)> {
        let volumes = &self.db.options().volumes;
        let mut counters = Vec::new();
        for (path, model) in &self.models {
            let volume = volumes.iter().position(|volume| volume.directory == *path);
            let device = volume.map_or("modelled".to_owned(), |at| format!("modelled_{}", at + 1));
            let totals = model.totals();
            let named = [
                ("reads", totals.reads as f64),
                ("writes", totals.writes as f64),
                ("bytes_read", totals.bytes_read as f64),
                ("bytes_written", totals.bytes_written as f64),
                ("positionings", totals.positionings as f64),
                ("flushes", totals.flushes as f64),
                ("busy_seconds", totals.busy.as_secs_f64()),
            ];
            counters.extend(named.map(|(name, value)| (format!("{device}_{name}"), value)));
        }
        counters
    }
}

impl Engine for Cleave {
    fn name(&self) -> &str {
        &self.name
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.done("put", self.db.put(key, value))
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.done("get", self.db.get(key))?;
        value.as_deref().map(visit);
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[&[u8]], visit: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (at, value) in self.db.multi_get(keys).into_iter().enumerate() {
            if let Some(value) = self.done("multi_get", value)? {
                visit(at, &value);
            }
        }
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.done("delete", self.db.delete(key))
    }

    fn pop_first(&self, visit: VisitPair<'_>) -> Result<bool> {
        let first = self.done("pop_first", self.db.default_keyspace().pop_first())?;
        Ok(first.inspect(|item| visit(&item.key, &item.value)).is_some())
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        let mut visited = 0;
        for item in self.db.range(from..).with_limit_hint(limit).take(limit) {
            let item = self.done("scan", item)?;
            visit(&item.key, &item.value);
            visited += 1;
        }
        Ok(visited)
    }

    fn wait_idle(&self) -> Result<()> {
        let settled = self.db.flush().and_then(|()| self.db.wait_idle());
        self.done("settle", settled)
    }

    fn describe(&self) -> Vec<(String, String)> {
        described::settings(self.db.options(), &self.device)
    }

    fn counters(&self) -> Vec<(String, f64)> {
        let metrics = self.db.metrics();
        let named = [
            ("user_bytes", metrics.user_bytes),
            ("log_written", metrics.log_written),
            ("flush_written", metrics.flush_written),
            ("compaction_written", metrics.compaction_written),
            ("compaction_read", metrics.compaction_read),
            ("collection_written", metrics.collection_written),
            ("collection_read", metrics.collection_read),
            ("manifest_written", metrics.manifest_written),
            ("flushes", metrics.flushes),
            ("compactions", metrics.compactions),
            ("compaction_moves", metrics.compaction_moves),
            ("collections", metrics.collections),
            ("value_bytes", metrics.value_bytes),
            ("live_bytes", metrics.live_bytes),
            ("index_bytes", metrics.index_bytes),
            ("cold_log_bytes", metrics.cold_log_bytes),
            ("tags", metrics.tags),
            ("group_tombstones", metrics.group_tombstones),
            ("group_filter_memory", metrics.group_filter_memory),
            ("memtable_memory", metrics.memtable_memory),
            ("cache_memory", metrics.cache_memory),
            ("cache_hits", metrics.cache_hits),
            ("cache_misses", metrics.cache_misses),
            ("record_cache_memory", metrics.record_cache_memory),
            ("record_cache_entries", metrics.record_cache_entries),
            ("record_cache_hits", metrics.record_cache_hits),
            ("record_cache_misses", metrics.record_cache_misses),
            (SPACE_BUDGET, metrics.values_allowed + metrics.index_bytes),
            (WINDOW_BYTES, metrics.window_memory),
            (WINDOW_MAPPED, metrics.window_is_mapped.into()),
            (OPEN_FILES, metrics.open_files as u64),
            (MEMORY_BOUND, metrics.memory_limit),
        ];
        let stalls = metrics.stalls.iter().flat_map(|stall| {
            let cause = stall.cause.name();
            let seconds = stall.time.as_secs_f64();
            [
                (format!("stalls_{cause}"), stall.count as f64),
                (format!("stalled_seconds_{cause}"), seconds),
            ]
        });
        let limit = metrics.space_limit.map(|limit| (SPACE_LIMIT, limit));
        let named = named.into_iter().chain(limit).chain(hot_counters::of(metrics.hot));
        let named = named.map(|(name, value)| (name.to_owned(), value as f64));
        let step =
            |(step, time): &(Step, Duration)| (step_seconds(step.name()), time.as_secs_f64());
        let steps = metrics.steps.iter().map(step);
        named.chain(stalls).chain(steps).chain(self.device_counters()).collect()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        features::of(self)
    }

    fn outside(&self) -> &[PathBuf] {
        &self.outside
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Self { name, db, .. } = *self;
        db.close().map(drop).map_err(|error| BenchError::engine(&name, "close", error))
    }
}
