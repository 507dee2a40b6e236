//! What threads share: locks, atomics, the swap of a picture, and threads themselves.
//!
//! The engine takes them from here and from nowhere else, so that a checker can put its own in
//! their place and run the very code that users run. In a build for users these are the types of
//! `parking_lot`, `arc-swap` and `std` by re-export: nothing is wrapped. The feature `loom` puts
//! loom's there, for all schedules of small pieces with every stale value that the memory model
//! allows; the feature `shuttle` puts shuttle's there, for schedules of large pieces, drawn by a
//! seed. With either feature the code runs under that checker only.

mod plain;
#[cfg(feature = "checked")]
mod checked;

#[cfg(all(feature = "loom", feature = "shuttle"))]
compile_error!("the features loom and shuttle exclude each other: run one checker at a time");

#[cfg(feature = "loom")]
pub use loom as checker;
#[cfg(feature = "shuttle")]
pub use shuttle as checker;

#[cfg(not(feature = "checked"))]
pub use arc_swap as swap;
#[cfg(feature = "checked")]
pub use checked::{Condvar, Mutex, MutexGuard, RwLock, swap, thread};
#[cfg(feature = "checked")]
pub use checker::{hint, sync::atomic};
#[cfg(not(feature = "checked"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(feature = "checked"))]
pub use std::{hint, sync::atomic, thread};

pub use plain::{Plain, PlainRange};

/// Does `one` and `other` at the same time, or one after the other if there is no thread to be had,
/// or under a checker, since what they share is not what it is there for. If one panics, so does
/// this.
pub fn join<A, B: Send>(one: impl FnOnce() -> A, other: impl Fn() -> B + Sync) -> (A, B) {
    #[cfg(feature = "checked")]
    return (one(), other());
    #[cfg(not(feature = "checked"))]
    thread::scope(|scope| match thread::Builder::new().spawn_scoped(scope, &other) {
        Ok(spawned) => {
            let one = one();
            (one, spawned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        }
        Err(_) => (one(), other()),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(not(feature = "checked"))]
    fn users_get_the_real_types_and_nothing_else() {
        let _: parking_lot::Mutex<u8> = super::Mutex::new(0);
        let _: parking_lot::Condvar = super::Condvar::new();
        let _: parking_lot::RwLock<u8> = super::RwLock::new(0);
        let _: arc_swap::ArcSwap<u8> = super::swap::ArcSwap::from_pointee(0);
        let _: std::sync::atomic::AtomicU64 = super::atomic::AtomicU64::new(0);
        assert_eq!((size_of::<super::Plain>(), size_of::<super::PlainRange>()), (0, 0));
    }
}
