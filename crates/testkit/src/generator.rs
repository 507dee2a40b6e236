//! Operations from a seed, shaped by a profile.
//!
//! Keys come from a small pool, so that keys get several versions; values contain the number of
//! their write, so that all are different and an old one cannot pass for a new one.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use cleavedb::Durability;
use cleavedb_base::checksum::hash64;
use cleavedb_storage_sim::sim::Rng;

use crate::merges;
use crate::op::{Op, Scan, Write};

/// The mix of operations.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Lengths of values, equally likely; each varies by a sixteenth.
    pub value_lens: Vec<usize>,
    /// Keys in the pool.
    pub keys: usize,
    /// Whether the pool has long keys and keys of 0xFF bytes.
    pub odd_keys: bool,
    /// Whether to generate operations that only read.
    pub reads: bool,
    /// Chance, in percent, that a write goes to memory only.
    pub buffered: u64,
    /// Chance, in percent, that a write is synced.
    pub synced: u64,
    /// Whether to generate collections, compactions and flushes; otherwise only the engine starts
    /// them.
    pub collects: bool,
    /// Chance, in percent, that a write is one of several of a batch.
    pub batches: u64,
    /// Chance, in percent, that a write deletes a range.
    pub ranges: u64,
    /// Chance, in percent, that the value of a put expires; if there is one, time passes now and
    /// then.
    pub ttls: u64,
    /// Chance, in percent, that a write is a merge, of every other key.
    pub merges: u64,
    /// Whether merges go to all keys, and numbers are added to counters.
    pub merges_anywhere: bool,
    /// Chance, in percent, that an operation loads several keys in bulk.
    pub loads: u64,
    /// Chance, in percent, that a session ends with an operation, in addition to the others that
    /// end it.
    pub endings: u64,
    /// Whether the process may be killed; only if no write goes to memory only.
    pub kills: bool,
}

impl Profile {
    /// Few keys, small values and a long one, no operations that only read: for crash tests.
    pub fn crash() -> Self {
        Self {
            value_lens: vec![0, 10, 300, 1500, 3000, 20_000],
            keys: 8,
            odd_keys: false,
            reads: false,
            buffered: 0,
            synced: 20,
            collects: true,
            batches: 20,
            ranges: 0,
            ttls: 0,
            merges: 0,
            merges_anywhere: false,
            loads: 0,
            endings: 0,
            kills: true,
        }
    }

    /// Batches in short sessions, most of which resume the log of the one before.
    pub fn sessions() -> Self {
        let value_lens = vec![0, 40, 90, 300, 900, 5000, 20_000];
        Self { value_lens, batches: 70, endings: 30, ..Self::crash() }
    }

    /// All keys and all lengths, with reads: for comparing answers.
    pub fn model() -> Self {
        Self {
            value_lens: vec![0, 1, 60, 300, 1000, 4000, 17_000, 40_000],
            keys: 24,
            odd_keys: true,
            reads: true,
            buffered: 0,
            synced: 10,
            collects: true,
            batches: 20,
            ranges: 0,
            ttls: 0,
            merges: 0,
            merges_anywhere: false,
            loads: 0,
            endings: 0,
            kills: true,
        }
    }
}

/// An endless source of operations.
pub struct Generator {
    rng: Rng,
    profile: Profile,
    pool: Vec<Vec<u8>>,
    writes: u64,
}

impl Generator {
    /// Operations of `profile` from `seed`.
    pub fn new(seed: u64, profile: Profile) -> Self {
        let mut rng = Rng::new(seed);
        let pool = pool(&mut rng, &profile);
        Self { rng, profile, pool, writes: seed << 20 }
    }

    /// The pool of keys.
    pub fn keys(&self) -> &[Vec<u8>] {
        &self.pool
    }

    /// The next `count` operations.
    pub fn take(&mut self, count: usize) -> Vec<Op> {
        (0..count).map(|_| self.op()).collect()
    }

    /// A key of the pool.
    pub fn key(&mut self) -> Vec<u8> {
        // The smaller of two draws: some keys are written more often than others.
        let at = self.rng.index(self.pool.len()).min(self.rng.index(self.pool.len()));
        self.pool[at].clone()
    }

    /// A durability as the profile has it.
    pub fn durability(&mut self) -> Durability {
        let draw = self.rng.below(100);
        if draw < self.profile.buffered {
            Durability::Buffered
        } else if draw < self.profile.buffered + self.profile.synced {
            Durability::Sync
        } else {
            Durability::Os
        }
    }

    /// A write, to one key or a range.
    pub fn write(&mut self) -> Write {
        let key = self.key();
        if self.profile.ranges > 0 && self.rng.chance(self.profile.ranges) {
            let other = self.key();
            return match key.cmp(&other) {
                Ordering::Less => Write::delete_range(&key, &other),
                Ordering::Greater => Write::delete_range(&other, &key),
                Ordering::Equal => Write::delete_range(&key, &[&key[..], b"\0"].concat()),
            };
        }
        if self.may_merge(&key) && self.rng.chance(self.profile.merges) {
            self.writes += 1;
            let operand = match self.profile.merges_anywhere {
                true => merges::draw_any(&mut self.rng, &key, self.writes),
                false => merges::draw(&mut self.rng, self.writes),
            };
            return Write::merge(&key, operand);
        }
        if self.rng.chance(25) {
            return Write::delete(&key);
        }
        self.put_to(&key)
    }

    /// Whether merges go to this key.
    fn may_merge(&self, key: &[u8]) -> bool {
        let anywhere = self.profile.merges_anywhere;
        self.profile.merges > 0 && (anywhere || hash64(key, 0).is_multiple_of(2))
    }

    fn put(&mut self) -> Write {
        let key = self.key();
        self.put_to(&key)
    }

    /// A put of a new value.
    pub fn put_to(&mut self, key: &[u8]) -> Write {
        let len = self.profile.value_lens[self.rng.index(self.profile.value_lens.len())];
        let len = len + self.rng.index(len / 16 + 1);
        self.writes += 1;
        let put = match merges::is_counter(key) {
            true => Write::put(key, self.writes.to_string().into_bytes()),
            false => Write::put(key, value(self.writes, len)),
        };
        if self.profile.ttls == 0 || !self.rng.chance(self.profile.ttls) {
            return put;
        }
        // Most die soon, some at once, some never in this test.
        let ttl = match self.rng.below(10) {
            0 => 0,
            1 => 1 << 40,
            _ => 1 + self.rng.below(300),
        };
        Write { ttl: Some(ttl), ..put }
    }

    fn writes(&mut self) -> Op {
        let count = if self.rng.chance(self.profile.batches) { 2 + self.rng.index(4) } else { 1 };
        let writes = (0..count).map(|_| self.write()).collect();
        Op::Write(writes, self.durability())
    }

    /// Ascending puts to some keys of the pool, and to some that follow them: for a load.
    pub fn puts(&mut self) -> Vec<Write> {
        let mut puts = BTreeMap::new();
        for _ in 0..1 + self.rng.index(12) {
            let mut put = self.put();
            if self.rng.chance(30) {
                put.key.push(b'+');
            }
            puts.insert(put.key.clone(), put);
        }
        puts.into_values().collect()
    }

    fn scan(&mut self) -> Scan {
        match self.rng.below(3) {
            0 => Scan::Forward,
            1 => Scan::Backward,
            _ => Scan::Both(self.rng.next_u64()),
        }
    }

    fn bound(&mut self) -> Option<Vec<u8>> {
        (!self.rng.chance(30)).then(|| self.key())
    }

    fn read(&mut self) -> Op {
        match self.rng.below(10) {
            0..4 => Op::Get(self.key()),
            4 => Op::MultiGet((0..1 + self.rng.index(5)).map(|_| self.key()).collect()),
            5..7 => {
                let (a, b) = (self.bound(), self.bound());
                Op::Range(a, b, self.scan())
            }
            7 => {
                let key = self.key();
                let len = self.rng.index(key.len().min(6) + 1);
                Op::Prefix(key[..len].to_vec(), self.scan())
            }
            _ => Op::ReadSnapshot(self.rng.index(8), self.key()),
        }
    }

    fn op(&mut self) -> Op {
        if self.profile.reads && self.rng.chance(30) {
            return self.read();
        }
        if self.profile.ttls > 0 && self.rng.chance(8) {
            return Op::Wait(1 + self.rng.below(200));
        }
        if self.profile.loads > 0 && self.rng.chance(self.profile.loads) {
            return Op::Load(self.puts());
        }
        if self.profile.endings > 0 && self.rng.chance(self.profile.endings) {
            return if self.profile.kills && self.rng.chance(50) { Op::Kill } else { Op::Reopen };
        }
        match self.rng.below(100) {
            0..62 => self.writes(),
            62..78 => Op::Step(1 + self.rng.index(2)),
            78..88 if !self.profile.collects => Op::Step(1),
            78..82 => Op::Flush,
            82..86 => Op::Collect,
            86..88 => Op::Compact,
            88..92 => Op::Snapshot,
            92..95 => Op::DropSnapshot(self.rng.index(8)),
            95..97 => Op::Sync,
            97 if self.profile.kills => Op::Kill,
            98 if self.profile.reads => Op::Verify,
            _ => Op::Reopen,
        }
    }
}

/// A value that contains the number of its write.
pub fn value(write: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut rng = Rng::new(write);
    // Half of it repeats, so that it can be compressed.
    let (noise, rest) = bytes.split_at_mut(len.div_ceil(2));
    rng.fill(noise);
    rest.fill(write as u8);
    bytes
}

fn pool(rng: &mut Rng, profile: &Profile) -> Vec<Vec<u8>> {
    let mut pool: Vec<Vec<u8>> = (0..profile.keys)
        .map(|i| match i % 3 {
            // An empty key is valid.
            _ if i == 0 => Vec::new(),
            0 => format!("key{i:04}").into_bytes(),
            1 => format!("k{}", i / 3).into_bytes(),
            _ => format!("key{i:04}/a longer tail of the key").into_bytes(),
        })
        .collect();
    if profile.merges_anywhere {
        pool.extend([b"#1".to_vec(), b"#2".to_vec(), b"#3".to_vec()]);
    }
    if profile.odd_keys {
        pool.push(vec![0xff]);
        pool.push(vec![0xff; 7]);
        pool.push(vec![0]);
        pool.push(b"key0003\0".to_vec());
        pool.push([b"key0003".as_slice(), &[0xff; 3]].concat());
        pool.push([b"long".as_slice(), &[b'x'; 700]].concat());
        pool.push(vec![b'y'; 3000]);
    }
    rng.shuffle(&mut pool);
    pool
}
