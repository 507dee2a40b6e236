//! What was denied to whom, for `ACL LOG`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long equal denials are counted as one.
const GROUPED: Duration = Duration::from_secs(60);

/// How far equal ones are looked for.
const SEARCHED: usize = 10;

/// Something that was denied, once or several times.
#[derive(Clone, Debug)]
pub struct Denial {
    /// How often.
    pub count: i64,
    /// `command`, `key`, `channel` or `auth`.
    pub reason: &'static str,
    /// `toplevel`, `multi` or `lua`.
    pub context: &'static str,
    /// The command, key or channel.
    pub object: Vec<u8>,
    /// The name of the user.
    pub user: Vec<u8>,
    /// When it was last.
    pub when: Instant,
    /// The client, as `CLIENT LIST` has it.
    pub client: Vec<u8>,
}

impl Denial {
    fn is_alike(&self, other: &Self) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && self.object == other.object
            && self.user == other.user
            && self.when.duration_since(other.when) <= GROUPED
    }
}

/// The last denials, newest first.
#[derive(Default)]
pub struct DenialLog(Mutex<VecDeque<Denial>>);

impl DenialLog {
    /// Adds a denial, and drops the oldest ones beyond `most`.
    pub fn add(&self, denial: Denial, most: usize) {
        let mut log = self.0.lock();
        let known = log.iter().take(SEARCHED).position(|known| denial.is_alike(known));
        let count = known.and_then(|at| log.remove(at)).map_or(0, |known| known.count);
        log.push_front(Denial { count: count + 1, ..denial });
        log.truncate(most);
    }

    /// The newest ones.
    pub fn newest(&self, count: usize) -> Vec<Denial> {
        self.0.lock().iter().take(count).cloned().collect()
    }

    /// Forgets all.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}
