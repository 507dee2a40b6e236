//! Messages that a client has not been sent yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::budget::{ClientBudget, Share};
use crate::resp::reply::Reply;

/// Most bytes of messages that wait for a client, which is sent away with more.
const WAITING_MAX: usize = 32 << 20;

/// Bytes that a message takes beside its own, about.
const MESSAGE_BYTES: usize = 200;

struct WaitingMessages {
    messages: Vec<Reply>,
    bytes: usize,
    /// What they take of the memory of all clients.
    share: Share,
}

/// The messages for a client.
pub struct Mailbox {
    waiting: Mutex<WaitingMessages>,
    has_some: AtomicBool,
    arrived: Notify,
}

impl Mailbox {
    /// A mailbox without messages, which take of this memory.
    pub fn new(budget: Arc<ClientBudget>) -> Self {
        let waiting = WaitingMessages { messages: Vec::new(), bytes: 0, share: Share::new(budget) };
        Self {
            waiting: Mutex::new(waiting),
            has_some: AtomicBool::new(false),
            arrived: Notify::new(),
        }
    }

    /// Adds a message. Returns whether there is room for it.
    pub fn add(&self, message: Reply) -> bool {
        let mut waiting = self.waiting.lock();
        let bytes = waiting.bytes + MESSAGE_BYTES + message.bulk_len();
        if bytes > WAITING_MAX || !waiting.share.set(bytes) {
            let before = waiting.bytes;
            waiting.share.set(before);
            return false;
        }
        waiting.bytes = bytes;
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
        waiting.bytes = 0;
        waiting.share.set(0);
        std::mem::take(&mut waiting.messages)
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
        let mailbox = Mailbox::new(ClientBudget::new(usize::MAX));
        let message = || Reply::Push(vec![Reply::Bulk(vec![0; WAITING_MAX / 3].into())]);
        assert!(mailbox.add(message()) && mailbox.add(message()));
        assert!(!mailbox.add(message()) && mailbox.take().len() == 2);
        assert!(mailbox.add(message()) && mailbox.take() == [message()]);
    }

    #[test]
    fn messages_take_of_the_memory_of_all_clients() {
        let budget = ClientBudget::new(5 * MESSAGE_BYTES);
        let [first, second] = [(); 2].map(|()| Mailbox::new(budget.clone()));
        let message = || Reply::Push(vec![Reply::Bulk(vec![0; MESSAGE_BYTES].into())]);
        assert!(first.add(message()) && second.add(message()) && !first.add(message()));
        assert!(second.take().len() == 1 && first.add(message()) && !second.add(message()));
        drop(first);
        assert!(second.add(message()) && second.add(message()) && !second.add(message()));
        assert_eq!(second.take().len(), 2);
    }
}
