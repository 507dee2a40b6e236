//! Messages that a client has not been sent yet.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::resp::reply::Reply;

/// Most bytes of messages that wait for a client, which is sent away with more.
const WAITING_MAX: usize = 32 << 20;

/// Bytes that a message takes beside its own, about.
const MESSAGE_BYTES: usize = 200;

#[derive(Default)]
struct WaitingMessages {
    messages: Vec<Reply>,
    bytes: usize,
}

/// The messages for a client.
#[derive(Default)]
pub struct Mailbox {
    waiting: Mutex<WaitingMessages>,
    has_some: AtomicBool,
    arrived: Notify,
}

impl Mailbox {
    /// Adds a message. Returns whether there is room for it.
    pub fn add(&self, message: Reply) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.bytes += MESSAGE_BYTES + message.bulk_len();
        if waiting.bytes > WAITING_MAX {
            return false;
        }
        waiting.messages.push(message);
        self.has_some.store(true, Ordering::Release);
        self.arrived.notify_one();
        true
    }

    /// Takes all messages.
    pub fn take(&self) -> Vec<Reply> {
        if !self.has_some.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut waiting = self.waiting.lock();
        self.has_some.store(false, Ordering::Release);
        std::mem::take(&mut *waiting).messages
    }

    /// Waits until messages may be there.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_is_full_at_some_time() {
        let mailbox = Mailbox::default();
        let message = || Reply::Push(vec![Reply::Bulk(vec![0; WAITING_MAX / 3].into())]);
        assert!(mailbox.add(message()) && mailbox.add(message()));
        assert!(!mailbox.add(message()) && mailbox.take().len() == 2);
        assert!(mailbox.add(message()) && mailbox.take() == [message()]);
    }
}
