//! Scripts that run, and what ends all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

/// A call that runs.
pub struct RunningCall {
    /// When it began.
    pub begun: Instant,
    /// The arguments, if they are told.
    pub words: Vec<Vec<u8>>,
}

/// The scripts that run, or the functions.
#[derive(Default)]
pub struct RunningScripts {
    /// The first one first; held while one begins or all are killed, so that none slips between.
    calls: Mutex<Vec<Arc<RunningCall>>>,
    /// How often all were killed.
    kills: Arc<AtomicU64>,
}

impl RunningScripts {
    /// Ends all that run. Returns whether one does.
    pub fn kill(&self) -> bool {
        let calls = self.calls.lock();
        self.kills.fetch_add(1, Ordering::AcqRel);
        !calls.is_empty()
    }

    /// Notes that one runs, until what is returned is dropped.
    pub fn start(&self, words: &[&[u8]]) -> RunningScript<'_> {
        let words = words.iter().map(|word| word.to_vec()).collect();
        let call = Arc::new(RunningCall { begun: Instant::now(), words });
        let mut calls = self.calls.lock();
        calls.push(call.clone());
        let (kills, before) = (self.kills.clone(), self.kills.load(Ordering::Acquire));
        RunningScript { scripts: self, call, kills, before }
    }

    /// The one that has run for longest.
    pub fn first(&self) -> Option<Arc<RunningCall>> {
        self.calls.lock().first().cloned()
    }
}

/// A script that runs.
pub struct RunningScript<'a> {
    scripts: &'a RunningScripts,
    call: Arc<RunningCall>,
    kills: Arc<AtomicU64>,
    before: u64,
}

impl RunningScript<'_> {
    /// Says whether the script was killed.
    pub fn is_killed(&self) -> impl Fn() -> bool + 'static {
        let (kills, before) = (self.kills.clone(), self.before);
        move || kills.load(Ordering::Acquire) != before
    }
}

impl Drop for RunningScript<'_> {
    fn drop(&mut self) {
        self.scripts.calls.lock().retain(|call| !Arc::ptr_eq(call, &self.call));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_script_is_one_that_runs() {
        let scripts = RunningScripts::default();
        assert!(!scripts.kill() && scripts.first().is_none());
        let running = scripts.start(&[b"fcall"]);
        let other = scripts.start(&[]);
        assert_eq!(scripts.first().unwrap().words, [b"fcall"]);
        let is_killed = running.is_killed();
        assert!(!is_killed() && scripts.kill() && is_killed());
        drop(running);
        assert!(scripts.first().unwrap().words.is_empty());
        drop(other);
        assert!(!scripts.kill());
    }
}
