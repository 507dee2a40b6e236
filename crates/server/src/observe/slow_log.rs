//! Commands that took long, as `SLOWLOG` tells of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::config::Config;

/// Most arguments and bytes of each that are kept, as in Redis.
const ARGUMENTS_MAX: usize = 32;
const ARGUMENT_MAX: usize = 128;

/// A command that took long.
#[derive(Clone, Debug)]
pub struct SlowCall {
    /// The number since the start.
    pub id: u64,
    /// When it ended, in seconds since 1970.
    pub at: u64,
    /// How long it took.
    pub time: Duration,
    /// The arguments, shortened.
    pub args: Vec<Vec<u8>>,
    /// Where the client is.
    pub address: String,
    /// What the client says that it is called.
    pub name: Vec<u8>,
}

/// The last commands that took long.
#[derive(Default)]
pub struct SlowLog {
    /// Microseconds from which a command takes long; none does if it is negative.
    slower_than: AtomicI64,
    /// Most commands that are kept.
    max_len: AtomicUsize,
    calls: Mutex<SlowCalls>,
}

#[derive(Default)]
struct SlowCalls {
    /// The youngest first.
    kept: VecDeque<SlowCall>,
    next_id: u64,
}

impl SlowLog {
    /// Takes what the options say; commands above the most are forgotten with the next one.
    pub fn configure(&self, config: &Config) {
        self.slower_than.store(config.slowlog_log_slower_than, Ordering::Relaxed);
        self.max_len.store(config.slowlog_max_len, Ordering::Relaxed);
    }

    /// Whether a command took long.
    pub fn is_slow(&self, time: Duration) -> bool {
        let slower_than = self.slower_than.load(Ordering::Relaxed);
        u64::try_from(slower_than).is_ok_and(|least| time.as_micros() >= least.into())
    }

    /// Keeps a command that took long.
    pub fn add(&self, time: Duration, args: &[&[u8]], address: &str, name: Vec<u8>) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let (args, address) = (shortened(args), address.to_owned());
        let mut calls = self.calls.lock();
        let id = calls.next_id;
        calls.next_id += 1;
        calls.kept.push_front(SlowCall { id, at, time, args, address, name });
        calls.kept.truncate(self.max_len.load(Ordering::Relaxed));
    }

    /// The youngest commands, at most `count`.
    pub fn last(&self, count: usize) -> Vec<SlowCall> {
        self.calls.lock().kept.iter().take(count).cloned().collect()
    }

    /// The name that took the most time of those that are kept.
    pub fn slowest(&self) -> Option<String> {
        let mut times = BTreeMap::<String, Duration>::new();
        for SlowCall { args, time, .. } in &self.calls.lock().kept {
            let name = args.first().map(|name| String::from_utf8_lossy(name).to_ascii_uppercase());
            *times.entry(name.unwrap_or_default()).or_default() += *time;
        }
        times.into_iter().max_by_key(|(_, time)| *time).map(|(name, _)| name)
    }

    /// Number of commands that are kept.
    pub fn len(&self) -> usize {
        self.calls.lock().kept.len()
    }

    /// Forgets them.
    pub fn reset(&self) {
        self.calls.lock().kept.clear();
    }
}

/// Arguments as Redis shortens them: the last one says how many more there were.
fn shortened(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let short = |argument: &&[u8]| match argument.split_at_checked(ARGUMENT_MAX) {
        Some((begin, rest @ [_, ..])) => {
            [begin, format!("... ({} more bytes)", rest.len()).as_bytes()].concat()
        }
        _ => argument.to_vec(),
    };
    if args.len() <= ARGUMENTS_MAX {
        return args.iter().map(short).collect();
    }
    let (begin, rest) = args.split_at(ARGUMENTS_MAX - 1);
    let more = format!("... ({} more arguments)", rest.len()).into_bytes();
    begin.iter().map(short).chain([more]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_shortened_as_redis_does() {
        let (fits, long) = ([b'x'; 128], [b'x'; 200]);
        let short = shortened(&[b"set", &fits, &long]);
        assert_eq!(short[..2], [b"set".to_vec(), fits.to_vec()]);
        assert_eq!(short[2], [&fits[..], b"... (72 more bytes)"].concat());
        assert_eq!(shortened(&[&b"a"[..]; 32]), vec![b"a".to_vec(); 32]);
        let many = shortened(&[&b"a"[..]; 81]);
        assert_eq!((many.len(), &*many[31]), (32, &b"... (50 more arguments)"[..]));
    }

    #[test]
    fn the_youngest_are_kept() {
        let (log, mut config) = (SlowLog::default(), Config::new(""));
        config.slowlog_max_len = 2;
        log.configure(&config);
        for micros in 0..3 {
            log.add(Duration::from_micros(micros), &[b"get"], "", Vec::new());
        }
        let ids = || log.last(9).iter().map(|call| call.id).collect::<Vec<_>>();
        assert_eq!(ids(), [2, 1]);
        assert_eq!(log.slowest(), Some("GET".to_owned()));
        log.reset();
        assert_eq!((log.len(), ids(), log.slowest()), (0, vec![], None));
        log.add(Duration::ZERO, &[b"get"], "", Vec::new());
        assert_eq!(ids(), [3]);
        for (least, is_slow) in [(-1, false), (0, true), (5, true), (6, false)] {
            config.slowlog_log_slower_than = least;
            log.configure(&config);
            assert_eq!(log.is_slow(Duration::from_nanos(5_999)), is_slow, "{least}");
        }
    }
}
