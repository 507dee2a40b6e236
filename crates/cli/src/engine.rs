//! CleaveDB as the benchmark sees it.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use cleavedb::{
    Db, Durability, Level0, Metrics, Modelled, Options, Preset, Separation, VictimPolicy,
};
use cleavedb_bench::counters::SPACE_BUDGET;
use cleavedb_bench::engine::{VisitPair, no_option};
use cleavedb_bench::{BenchError, Engine, Opener, Result, units};

use crate::device::{Device, OnDevice};
use crate::interrupt;

/// Opens databases of one preset with one durability.
#[derive(Clone)]
pub struct CleaveOpener {
    name: String,
    options: Options,
    device: Device,
}

impl CleaveOpener {
    /// Databases of `preset`, whose writes wait for `durability`.
    pub fn new(preset: Preset, durability: Durability) -> Self {
        let options = Options { durability, ..Options::preset(preset) };
        Self { name: format!("cleave-{preset}"), options, device: Device::default() }
    }

    /// The same on the device that `text` names, if it names one.
    pub fn on(mut self, text: Option<&str>) -> Result<Self> {
        if let Some(text) = text {
            self.set("device", text)?;
        }
        Ok(self)
    }

    /// Sets one option from its text. The names are those of the experiments; sizes are in bytes.
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let malformed = |why: &dyn Display| {
            let what = format!("--option {name}={value}: {why}");
            BenchError::Usage(what)
        };
        let number = units::parse(value.trim_end_matches('%')).map_err(|why| malformed(&why));
        let options = &mut self.options;
        let grouped = matches!(options.preset, Preset::HashKv | Preset::KtStore);
        match name {
            "device" => self.device.model(value).map_err(|why| malformed(&why))?,
            "page-cache" => self.device.set_page_cache(number?),
            "threshold" if options.separation == Separation::Never => {
                return Err(malformed(&format!("{} separates nothing", self.name)));
            }
            "threshold" => options.separation = Separation::AtLeast(number? as usize),
            // What the space goal tolerates beyond the live bytes is the paper's reserved space.
            "reserved-space" => {
                options.groups.reserved_space = number? as f64 / 100.0;
                options.space_amplification = 1.0 + options.groups.reserved_space;
                options.space_floor = 0;
            }
            "log-segment" if options.preset == Preset::HashKv => {
                options.groups.log_segment_bytes = number?;
            }
            "segment" if grouped => {
                options.groups.main_segment_bytes = number?;
            }
            "victim-policy" if grouped => {
                options.groups.victim = victim_policy(value)
                    .ok_or_else(|| malformed(&"greedy, cost-benefit, greedy-random, random"))?;
            }
            "partitions" => {
                options.level0 = match number? {
                    0 | 1 => Level0::Whole,
                    count => Level0::Partitions(count as usize),
                }
            }
            // What the paper of OHDB compares with.
            "level0" if value == "one-table" => options.level0 = Level0::OneTable,
            "level0" if value == "whole" => options.level0 = Level0::Whole,
            "level0" => return Err(malformed(&"there are whole and one-table")),
            "level0-size" => options.level0_bytes = number?,
            "level1-size" => options.level1_bytes = number?,
            "memtable" => options.memtable_bytes = number? as usize,
            "table" => options.table_bytes = number?,
            "segment" => {
                options.segment_bytes = number?;
                options.log_file_bytes = options.segment_bytes;
            }
            "levels" if options.preset == Preset::KtStore => {
                options.groups.levels = Some(value.parse::<u8>().map_err(|why| malformed(&why))?);
            }
            "cache" => options.cache_bytes = number? as usize,
            _ => return Err(no_option(&self.name, name)),
        }
        Ok(())
    }
}

/// The policy of that name. The paper does not say among how many groups its greedy-random draws.
fn victim_policy(name: &str) -> Option<VictimPolicy> {
    const AMONG: usize = 4;
    Some(match name {
        "greedy" => VictimPolicy::Greedy,
        "cost-benefit" => VictimPolicy::CostBenefit,
        "greedy-random" => VictimPolicy::GreedyRandom(AMONG),
        "random" => VictimPolicy::Random,
        _ => return None,
    })
}

impl Opener for CleaveOpener {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, directory: &Path) -> Result<Box<dyn Engine>> {
        let (name, options) = (self.name.clone(), self.options.clone());
        let opened = self.device.open(directory, options);
        let OnDevice { db, model } = opened.map_err(|e| BenchError::engine(&name, "open", e))?;
        Ok(Box::new(Cleave { name, db, device: self.device.describe(), model }))
    }

    fn configured(&self, options: &[(String, String)]) -> Result<Box<dyn Opener>> {
        let mut opener = self.clone();
        for (name, value) in options {
            opener.set(name, value)?;
        }
        Ok(Box::new(opener))
    }
}

/// An open database.
struct Cleave {
    name: String,
    db: Db,
    device: String,
    model: Option<Arc<Modelled>>,
}

impl Cleave {
    /// Names the operation that failed. Ctrl-C makes every operation fail, which ends the run.
    fn done<T>(&self, action: &'static str, result: cleavedb::Result<T>) -> Result<T> {
        if interrupt::interrupted() {
            return Err(BenchError::engine(&self.name, action, "interrupted"));
        }
        result.map_err(|error| BenchError::engine(&self.name, action, error))
    }
}

impl Cleave {
    /// What the space goal allows now: for values by their live bytes, for the index what it takes.
    fn space_budget(&self, metrics: &Metrics) -> u64 {
        let options = self.db.options();
        let live = metrics.live_bytes.saturating_sub(metrics.hidden_bytes);
        let scaled = (live as f64 * options.space_amplification) as u64;
        scaled.max(live + options.space_floor) + metrics.index_bytes
    }
}

impl Cleave {
    /// What a modelled device did; nothing of a real one, which the kernel counts.
    fn device_counters(&self) -> Vec<(String, f64)> {
        let Some(model) = &self.model else { return Vec::new() };
        let totals = model.totals();
        [
            ("modelled_reads", totals.reads as f64),
            ("modelled_writes", totals.writes as f64),
            ("modelled_bytes_read", totals.bytes_read as f64),
            ("modelled_bytes_written", totals.bytes_written as f64),
            ("modelled_positionings", totals.positionings as f64),
            ("modelled_flushes", totals.flushes as f64),
            ("modelled_busy_seconds", totals.busy.as_secs_f64()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
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

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.done("delete", self.db.delete(key))
    }

    fn scan(&self, from: &[u8], limit: usize, visit: VisitPair<'_>) -> Result<usize> {
        let mut visited = 0;
        for item in self.db.range(Some(from), None).expecting(limit).take(limit) {
            let item = self.done("scan", item)?;
            visit(&item.key, &item.value);
            visited += 1;
        }
        Ok(visited)
    }

    fn settle(&self) -> Result<()> {
        let settled = self.db.flush().and_then(|()| self.db.settle());
        self.done("settle", settled)
    }

    fn describe(&self) -> Vec<(String, String)> {
        let options = self.db.options();
        let size = |size: usize| units::bytes(size as u64);
        let separation = match options.separation {
            Separation::Never => "never".to_owned(),
            Separation::AtLeast(len) => format!("values of at least {len} B"),
        };
        [
            ("preset", options.preset.to_string()),
            ("device", self.device.clone()),
            ("durability", format!("{:?}", options.durability).to_lowercase()),
            ("separation", separation),
            (
                "memtables",
                format!("{} and {} full", size(options.memtable_bytes), options.memtables_max),
            ),
            ("log window", size(options.window_bytes)),
            ("log file", units::bytes(options.log_file_bytes)),
            ("cache", size(options.cache_bytes)),
            ("table block", size(options.block_bytes)),
            ("table", units::bytes(options.table_bytes)),
            ("compression", format!("{:?}", options.compression).to_lowercase()),
            ("filter", format!("{} bits a key", options.filter_bits)),
            ("level 0", format!("{:?}, {}", options.level0, units::bytes(options.level0_bytes))),
            ("level 1", units::bytes(options.level1_bytes)),
            ("space goal", format!("{} x live", options.space_amplification)),
            ("background", format!("{:?}", options.background)),
            ("settled", "memtables flushed, no job due".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
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
            ("memtable_memory", metrics.memtable_memory),
            ("cache_memory", metrics.cache_memory),
            ("cache_hits", metrics.cache_hits),
            ("cache_misses", metrics.cache_misses),
            (SPACE_BUDGET, self.space_budget(&metrics)),
        ];
        let stalls = metrics.stalls.iter().flat_map(|stall| {
            let cause = stall.cause.name();
            let seconds = stall.time.as_secs_f64();
            [
                (format!("stalls_{cause}"), stall.count as f64),
                (format!("stalled_seconds_{cause}"), seconds),
            ]
        });
        let named = named.map(|(name, value)| (name.to_owned(), value as f64));
        named.into_iter().chain(stalls).chain(self.device_counters()).collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Self { name, db, .. } = *self;
        db.close().map_err(|error| BenchError::engine(&name, "close", error))
    }
}
