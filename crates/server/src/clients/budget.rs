//! Memory that all clients share for what they send and are sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much memory clients may take together.
pub struct ClientBudget {
    most: usize,
    used: AtomicUsize,
}

impl ClientBudget {
    /// A budget of `most` bytes.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, used: AtomicUsize::new(0) })
    }
}

/// What one client takes of the budget, which gets it back when this is dropped.
pub struct Share {
    budget: Arc<ClientBudget>,
    bytes: usize,
}

impl Share {
    /// The share of a client that takes nothing.
    pub fn new(budget: Arc<ClientBudget>) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Takes `bytes` in all. Returns whether there is room for what is more than before; a share
    /// that shrinks always has.
    pub fn set(&mut self, bytes: usize) -> bool {
        let (before, used) = (std::mem::replace(&mut self.bytes, bytes), &self.budget.used);
        match bytes.checked_sub(before) {
            Some(more) => used.fetch_add(more, Ordering::AcqRel) + more <= self.budget.most,
            None => {
                used.fetch_sub(before - bytes, Ordering::AcqRel);
                true
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_gives_back_another_may_take() {
        let budget = ClientBudget::new(100);
        let mut shares = [Share::new(budget.clone()), Share::new(budget)];
        assert!(shares[0].set(60) && shares[1].set(40) && !shares[1].set(41));
        assert!(shares[0].set(10) && shares[1].set(90) && !shares[0].set(11));
        let [first, mut second] = shares;
        drop(first);
        assert!(second.set(100));
    }
}
