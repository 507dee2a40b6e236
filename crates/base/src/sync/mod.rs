//! What threads share: locks, atomics, atomically swapped values, and threads themselves.
//!
//! The engine takes them from here only, so that a checker can put its own in their place and run
//! the code that users run. In a build for users these are re-exports of the types of
//! `parking_lot`, `arc-swap` and `std`, without wrappers. The feature `test-loom` selects loom's,
//! for all schedules of small pieces with every stale value that the memory model allows; the
//! feature `test-shuttle` selects shuttle's, for schedules of large pieces, drawn by a seed. With
//! either feature the code runs under that checker only.

mod plain;
#[cfg(feature = "test-checked")]
mod checked;

#[cfg(all(feature = "test-loom", feature = "test-shuttle"))]
compile_error!(
    "the features test-loom and test-shuttle exclude each other: run one checker at a time"
);

#[cfg(feature = "test-loom")]
pub use loom as checker;
#[cfg(feature = "test-shuttle")]
pub use shuttle as checker;

#[cfg(not(feature = "test-checked"))]
pub use arc_swap as swap;
#[cfg(feature = "test-checked")]
pub use checked::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, swap, thread};
#[cfg(feature = "test-checked")]
pub use checker::{hint, sync::atomic};
#[cfg(not(feature = "test-checked"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
#[cfg(not(feature = "test-checked"))]
pub use std::{hint, sync::atomic, thread};

pub use plain::{Plain, PlainRange};

/// Types that no checker replaces: atomics in a mapped page, which the engine does not allocate; a
/// length that changes only while no other thread uses the object; and state of the whole process,
/// since a checker knows only what was made in the schedule that it runs.
pub mod real {
    pub use arc_swap::{ArcSwap, ArcSwapOption, Guard};
    pub use parking_lot::Mutex;
    pub use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
}

/// Does `work` for all `parts` in parallel, each but the first on its own thread if one can be
/// started; returns the results in the order of the parts. Under a checker the parts run one after
/// the other, since the checker does not test what they share. A panic of one part is passed on.
pub fn side_by_side<P: Copy + Send, T: Send>(parts: &[P], work: impl Fn(P) -> T + Sync) -> Vec<T> {
    #[cfg(feature = "test-checked")]
    return parts.iter().map(|part| work(*part)).collect();
    #[cfg(not(feature = "test-checked"))]
    thread::scope(|scope| {
        let Some((first, others)) = parts.split_first() else { return Vec::new() };
        let work = &work;
        let spawn = |part: P| thread::Builder::new().spawn_scoped(scope, move || work(part));
        let spawned: Vec<_> = others.iter().map(|part| (part, spawn(*part))).collect();
        let mut done = vec![work(*first)];
        done.extend(spawned.into_iter().map(|(part, thread)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => work(*part),
        }));
        done
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_done_side_by_side_comes_out_in_order() {
        let squares = super::side_by_side(&[3, 1, 2], |n| n * n);
        assert_eq!(squares, [9, 1, 4]);
        assert!(super::side_by_side(&[0; 0], |n| n).is_empty());
    }

    #[test]
    #[cfg(not(feature = "test-checked"))]
    fn users_get_the_real_types_and_nothing_else() {
        let _: parking_lot::Mutex<u8> = super::Mutex::new(0);
        let _: parking_lot::Condvar = super::Condvar::new();
        let _: parking_lot::RwLock<u8> = super::RwLock::new(0);
        let _: arc_swap::ArcSwap<u8> = super::swap::ArcSwap::from_pointee(0);
        let _: std::sync::atomic::AtomicU64 = super::atomic::AtomicU64::new(0);
        assert_eq!((size_of::<super::Plain>(), size_of::<super::PlainRange>()), (0, 0));
    }
}
