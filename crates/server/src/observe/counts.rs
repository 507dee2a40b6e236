//! What happened since the start.

use std::sync::atomic::AtomicU64;

/// Counts since the start.
#[derive(Default)]
pub struct Counts {
    /// Clients that are connected.
    pub clients: AtomicU64,
    /// Clients that have connected.
    pub connections: AtomicU64,
    /// Commands that were run.
    pub commands: AtomicU64,
    /// Commands that had to wait, in threads that may.
    pub in_pool: AtomicU64,
}
