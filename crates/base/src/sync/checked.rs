//! A checker's primitives in the forms that the engine uses: those of `parking_lot` and `arc-swap`.
//!
//! A checker's lock can be poisoned and its condition variable takes the guard by value; both are
//! hidden here. No wait times out, so that a checker finds every missing wake-up, which a retry
//! would hide. A sleep yields the processor.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

use super::checker::sync;

/// A lock, as `parking_lot::Mutex`.
pub struct Mutex<T>(sync::Mutex<T>);

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Waits for the lock and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
    }
}

/// A lock that is held until dropped.
pub struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("only a wait takes the guard away")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("only a wait takes the guard away")
    }
}

/// A condition variable, as `parking_lot::Condvar`.
#[derive(Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// A condition without waiting threads.
    pub fn new() -> Self {
        Self::default()
    }

    /// Releases the lock until a notification, then takes it again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("only a wait takes the guard away");
        guard.0 = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    /// As [`Condvar::wait`]: time does not pass under a checker.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _timeout: Duration) {
        self.wait(guard);
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

pub use sync::RwLockReadGuard;

/// A lock for many readers or one writer, as `parking_lot::RwLock`.
pub struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    /// Waits until there is no writer.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is no other reader or writer.
    pub fn write(&self) -> sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An atomically swapped `Arc`, as the crate `arc-swap`.
pub mod swap {
    use std::sync::Arc;

    use super::{Deref, Mutex};

    /// A shared value that is replaced as a whole, as `arc_swap::ArcSwap`.
    pub struct ArcSwap<T>(Mutex<Arc<T>>);

    /// What a load gives, as `arc_swap::Guard`.
    pub struct Guard<T>(T);

    impl<T> Deref for Guard<T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.0
        }
    }

    impl<T> ArcSwap<T> {
        /// Begins with `value`.
        pub fn from_pointee(value: T) -> Self {
            Self(Mutex::new(Arc::new(value)))
        }

        /// Begins with `value`.
        pub fn new(value: Arc<T>) -> Self {
            Self(Mutex::new(value))
        }

        /// Replaces the value.
        pub fn store(&self, value: Arc<T>) {
            self.swap(value);
        }

        /// The value now.
        pub fn load_full(&self) -> Arc<T> {
            self.0.lock().clone()
        }

        /// The value now, for a short use.
        pub fn load(&self) -> Guard<Arc<T>> {
            Guard(self.load_full())
        }

        /// Replaces the value, and returns the one before.
        pub fn swap(&self, value: Arc<T>) -> Arc<T> {
            std::mem::replace(&mut *self.0.lock(), value)
        }

        /// Replaces the value by the result of `change`, which is called again after a concurrent
        /// change. Returns the value before.
        pub fn rcu<R: Into<Arc<T>>>(&self, mut change: impl FnMut(&Arc<T>) -> R) -> Arc<T> {
            loop {
                let before = self.load_full();
                let after = change(&before).into();
                let mut now = self.0.lock();
                if Arc::ptr_eq(&now, &before) {
                    *now = after;
                    return before;
                }
            }
        }
    }
}

/// Threads of a checker, as `std::thread`.
pub mod thread {
    use std::time::Duration;

    pub use crate::sync::checker::thread::{Builder, JoinHandle, spawn, yield_now};

    /// Gives up the processor: time does not pass under a checker.
    pub fn sleep(_pause: Duration) {
        yield_now();
    }
}
