//! What a hot store can win at most, by a model without an engine: bytes written for an update, and
//! bytes fetched for a read, with and without one, in the same space and memory.
//!
//! Updates: flushes of MemTables, values in groups of which the one with the largest dead part is
//! collected when files exceed 1.3 times the live bytes, and a hot store as decision 0036 has it,
//! whose segments leave with the least live part first. Reads: records lie one after another in
//! pages, hot ones together; the page cache keeps what was read last (approximation of Che, Tung
//! and Wang, "Hierarchical web caching systems", 2002). The index is left out.
//!
//! `cargo run --release --manifest-path bench/harness/Cargo.toml --example hot_store_model`

use cleavedb_bench::distribution::{Chooser, Distribution, Skew, ZIPFIAN_CONSTANT, Zipfian};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Records, all of one size.
const RECORDS: usize = 1_000_000;

/// Updates that a MemTable of 64 MiB takes, and records of a hot segment of 2 MiB, at 1 KiB.
const MEMTABLE: usize = 61_000;
const SEGMENT: usize = 1_950;

const GROUPS: usize = 128;

/// Files may be longer than live data by this factor.
const SPACE: f64 = 1.3;

/// Length of a record of 1 KiB on disk, and of a page.
const RECORD: f64 = 1_070.0;
const PAGE: f64 = 4_096.0;

/// Draws that tell how popular each record is.
const DRAWS: usize = 30_000_000;

/// Draws records: the two meanings of "Zipf 0.99".
enum Draw {
    /// YCSB's: ranks of ten billion items, whose hashes are folded onto the records.
    Scrambled(Chooser),
    /// Ranks of the records themselves.
    Plain(Zipfian),
}

impl Draw {
    fn new(plain: bool) -> Self {
        match plain {
            true => Self::Plain(Zipfian::new(RECORDS as u64, ZIPFIAN_CONSTANT)),
            false => Self::Scrambled(Chooser::new(
                Distribution::Zipfian,
                RECORDS as u64,
                1,
                Skew::default(),
            )),
        }
    }

    fn next(&mut self, random: &mut Xoshiro256PlusPlus) -> usize {
        match self {
            Self::Scrambled(chooser) => chooser.next(random, RECORDS as u64) as usize,
            // A prime that scatters neighbours in rank.
            Self::Plain(zipfian) => (zipfian.next(random) as usize * 7_368_787) % RECORDS,
        }
    }
}

/// Where the newest version of a record is.
const COLD: usize = usize::MAX;
const NEW: usize = usize::MAX - 1;

/// Records written for an update: to the log, to groups, to the hot store, by evacuations, and by
/// collections.
#[derive(Clone, Copy, Default)]
struct Written {
    cold: usize,
    hot: usize,
    evacuated: usize,
    collected: usize,
}

struct Store {
    /// Accesses from which on a record is hot; none without a hot store.
    limit: Option<u32>,
    place: Vec<usize>,
    heat: Vec<u32>,
    /// Records and live records of each hot segment, and of each group.
    segments: Vec<(usize, usize)>,
    groups: Vec<(usize, usize)>,
    written: Written,
}

impl Store {
    fn new(limit: Option<u32>) -> Self {
        let group = RECORDS.div_ceil(GROUPS);
        Self {
            limit,
            place: vec![COLD; RECORDS],
            heat: vec![0; RECORDS],
            segments: Vec::new(),
            groups: vec![(group, group); GROUPS],
            written: Written::default(),
        }
    }

    fn group(record: usize) -> usize {
        record * GROUPS / RECORDS
    }

    /// Appends a record to its group.
    fn demote(&mut self, record: usize) {
        self.place[record] = COLD;
        let (all, live) = &mut self.groups[Self::group(record)];
        (*all, *live) = (*all + 1, *live + 1);
    }

    fn flush(&mut self, draw: &mut Draw, random: &mut Xoshiro256PlusPlus) {
        let mut records: Vec<usize> = (0..MEMTABLE).map(|_| draw.next(random)).collect();
        records.iter().for_each(|record| self.heat[*record] += 1);
        records.sort_unstable();
        records.dedup();
        let mut hot = Vec::new();
        for record in records {
            let was = self.place[record];
            match was {
                COLD => self.groups[Self::group(record)].1 -= 1,
                segment => self.segments[segment].1 -= 1,
            }
            let is_hot = self.limit.is_some_and(|limit| self.heat[record] >= limit);
            if is_hot || was != COLD {
                self.place[record] = NEW;
                hot.push(record);
            } else {
                self.demote(record);
                self.written.cold += 1;
            }
        }
        self.written.hot += hot.len();
        self.evacuate(&mut hot);
        for records in hot.chunks(SEGMENT) {
            records.iter().for_each(|record| self.place[*record] = self.segments.len());
            self.segments.push((records.len(), records.len()));
        }
        self.collect();
    }

    /// Evacuates segments until a third of the hot store is dead at most, and adds to `hot` what
    /// stays hot.
    fn evacuate(&mut self, hot: &mut Vec<usize>) {
        let (incoming, all, live) = (hot.len(), self.hot_records(), self.hot_live());
        let mut order: Vec<usize> = (0..self.segments.len()).collect();
        order.retain(|segment| self.segments[*segment].0 > 0);
        let share = |segment: &usize| {
            let (all, live) = self.segments[*segment];
            live * 1_000_000 / all
        };
        order.sort_by_key(share);
        let (mut rest, mut moved, mut leaves) = (all, 0, vec![false; self.segments.len()]);
        for segment in order {
            let (all, live_here) = self.segments[segment];
            let full = rest + incoming > live + live / 2 + 4 * SEGMENT + incoming;
            if live_here > 0 && (!full || moved + live_here > incoming) {
                continue;
            }
            (rest, moved) = (rest - all, moved + live_here);
            leaves[segment] = true;
        }
        for record in 0..RECORDS {
            if leaves.get(self.place[record]).copied().unwrap_or(false) {
                self.written.evacuated += 1;
                if self.limit.is_some_and(|limit| self.heat[record] >= limit) {
                    self.place[record] = NEW;
                    hot.push(record);
                } else {
                    self.demote(record);
                }
            }
        }
        let gone = leaves.iter().enumerate().filter(|(_, leaves)| **leaves);
        gone.for_each(|(segment, _)| self.segments[segment] = (0, 0));
    }

    fn hot_records(&self) -> usize {
        self.segments.iter().map(|(all, _)| all).sum()
    }

    fn hot_live(&self) -> usize {
        self.segments.iter().map(|(_, live)| live).sum()
    }

    fn collect(&mut self) {
        let dead = |(all, live): &(usize, usize)| (all - live) * 1_000_000 / all;
        loop {
            let all: usize = self.groups.iter().map(|(all, _)| all).sum();
            if all + self.hot_records() <= (RECORDS as f64 * SPACE) as usize {
                return;
            }
            let Some(victim) = self.groups.iter_mut().max_by_key(|group| dead(group)) else {
                return;
            };
            self.written.collected += victim.1;
            victim.0 = victim.1;
        }
    }

    /// Halves all heat: once in four fills of a hot store of a quarter of the records.
    fn cool(&mut self) {
        self.heat.iter_mut().for_each(|heat| *heat /= 2);
    }
}

/// Updates until nothing changes any more, then as many again: the latter are counted.
fn updates(plain: bool, limit: Option<u32>) {
    const FLUSHES: usize = 32;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut draw, mut store) = (Draw::new(plain), Store::new(limit));
    for flush in 0..2 * FLUSHES {
        if flush == FLUSHES {
            store.written = Written::default();
        }
        store.flush(&mut draw, &mut random);
        if (flush + 1) % (RECORDS / MEMTABLE) == 0 {
            store.cool();
        }
    }
    let each = |records: usize| records as f64 / (FLUSHES * MEMTABLE) as f64;
    let Written { cold, hot, evacuated, collected } = store.written;
    println!(
        "  {:>9}  {:.2} = log 1 + groups {:.2} + hot {:.2} + evacuated {:.2} + collected {:.2}; \
         {:.1}% of the records are hot",
        limit.map_or("none".to_owned(), |limit| format!("limit {limit}")),
        1.0 + each(cold + hot + evacuated + collected),
        each(cold),
        each(hot),
        each(evacuated),
        each(collected),
        100.0 * store.hot_live() as f64 / RECORDS as f64,
    );
}

/// Popularity of records, the most popular first.
fn popularity(plain: bool) -> Vec<f64> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let (mut draw, mut counts) = (Draw::new(plain), vec![0u32; RECORDS]);
    (0..DRAWS).for_each(|_| counts[draw.next(&mut random)] += 1);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts.into_iter().map(|count| f64::from(count) / DRAWS as f64).collect()
}

/// Bytes fetched for a read, if the `hot` most popular records lie together without a gap, the
/// others with a fifth of dead records between them, and the page cache has `memory` bytes.
fn fetched(popularity: &[f64], hot: usize, memory: f64) -> f64 {
    let mut pages = vec![0.0; (RECORDS as f64 * RECORD * 1.25 / PAGE) as usize + 3];
    let (warm, cold) = popularity.split_at(hot);
    let mut offset = 0.0;
    // A stride scatters records of like popularity.
    for (records, length) in [(warm, RECORD), (cold, RECORD * 1.25)] {
        for at in 0..records.len() {
            let read = records[(at * 7_368_787) % records.len()];
            let (first, last) = ((offset / PAGE) as usize, ((offset + RECORD) / PAGE) as usize);
            (first..=last).for_each(|page| pages[page] += read);
            offset += length;
        }
    }
    // The time, in reads, for which a page stays: so that as many stay as there is memory for.
    let resident = |time: f64| pages.iter().map(|rate| 1.0 - (-rate * time).exp()).sum::<f64>();
    let (mut low, mut high) = (0.0, 1e10);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match resident(middle) < memory / PAGE {
            true => low = middle,
            false => high = middle,
        }
    }
    pages.iter().map(|rate| rate * (-rate * low).exp()).sum::<f64>() * PAGE
}

fn main() {
    for (plain, name) in [(false, "YCSB's scrambled Zipf"), (true, "Zipf over the records")] {
        println!("{name}: records written for an update, by HeatLimit");
        for limit in [None, Some(2), Some(3), Some(4), Some(6)] {
            updates(plain, limit);
        }
        let popularity = popularity(plain);
        println!("{name}: bytes fetched for a read, by hot records, in 150, 250 and 340 MB");
        for hot in [0, 16_000, 64_000, 160_000] {
            let bytes = [150e6, 250e6, 340e6].map(|memory| fetched(&popularity, hot, memory));
            println!("  {hot:>9}  {:>6.0} {:>6.0} {:>6.0}", bytes[0], bytes[1], bytes[2]);
        }
    }
}
