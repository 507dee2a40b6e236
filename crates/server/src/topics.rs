//! Messages: what is published, and which clients get it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::clients::Connected;
use crate::command::glob;
use crate::exec::{EventClasses, KeyEvent};
use crate::resp::reply::Reply;

/// How clients name what they want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicKind {
    /// A channel.
    Channel,
    /// A pattern of channels.
    Pattern,
    /// A channel of a shard, which is one by itself.
    Shard,
}

impl TopicKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];
}

type Subscribers = HashMap<Vec<u8>, Vec<Arc<Connected>>>;

/// What clients want, of each kind.
#[derive(Default)]
pub struct Topics {
    tables: [Mutex<Subscribers>; 3],
    /// Topics that have clients.
    count: AtomicUsize,
}

impl Topics {
    fn table(&self, kind: TopicKind) -> &Mutex<Subscribers> {
        &self.tables[kind as usize]
    }

    /// Adds a client to a topic that it does not have.
    pub fn add(&self, kind: TopicKind, topic: &[u8], client: Arc<Connected>) {
        let mut table = self.table(kind).lock();
        let subscribers = table.entry(topic.to_vec()).or_default();
        if subscribers.is_empty() {
            self.count.fetch_add(1, Ordering::AcqRel);
        }
        subscribers.push(client);
    }

    /// Takes a client off a topic.
    pub fn remove(&self, kind: TopicKind, topic: &[u8], client: &Arc<Connected>) {
        let mut table = self.table(kind).lock();
        let Some(subscribers) = table.get_mut(topic) else { return };
        subscribers.retain(|other| other.id != client.id);
        if subscribers.is_empty() {
            table.remove(topic);
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Ends the connections of clients that have a topic which they may not have.
    pub fn end(&self, may_not_have: impl Fn(&Connected, TopicKind, &[u8]) -> bool) {
        for kind in TopicKind::ALL {
            for (topic, clients) in self.table(kind).lock().iter() {
                let ended = clients.iter().filter(|client| may_not_have(client, kind, topic));
                ended.for_each(|client| client.killed.cancel());
            }
        }
    }

    /// Sends a message to the clients of a channel; their number. One that wants it by its channel
    /// and by patterns gets it for each.
    pub fn publish(&self, channel: &[u8], message: &[u8]) -> usize {
        if self.count.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let (channel, message) = (Bytes::copy_from_slice(channel), Bytes::copy_from_slice(message));
        let mut sent = self.send(TopicKind::Channel, "message", &channel, &message);
        let patterns = self.table(TopicKind::Pattern).lock();
        let fitting = patterns.iter().filter(|(pattern, _)| fits(pattern, &channel));
        for (pattern, clients) in fitting {
            let pattern = Bytes::copy_from_slice(pattern);
            for client in clients {
                let parts = [Bytes::from_static(b"pmessage"), pattern.clone(), channel.clone()];
                client.deliver(push(parts.into_iter().chain([message.clone()])));
            }
            sent += clients.len();
        }
        sent
    }

    /// To how many clients a message to a channel would go.
    pub fn reach(&self, channel: &[u8]) -> usize {
        let patterns = self.table(TopicKind::Pattern).lock();
        let fitting = patterns.iter().filter(|(pattern, _)| fits(pattern, channel));
        fitting.map(|(_, clients)| clients.len()).sum::<usize>()
            + self.clients(TopicKind::Channel, channel)
    }

    /// Sends a message to the clients of a channel of a shard; their number.
    pub fn publish_to_shard(&self, channel: &[u8], message: &[u8]) -> usize {
        let (channel, message) = (Bytes::copy_from_slice(channel), Bytes::copy_from_slice(message));
        self.send(TopicKind::Shard, "smessage", &channel, &message)
    }

    fn send(&self, kind: TopicKind, word: &'static str, topic: &Bytes, message: &Bytes) -> usize {
        let table = self.table(kind).lock();
        let clients = table.get(&**topic).map(Vec::as_slice).unwrap_or_default();
        for client in clients {
            client.deliver(push([word.into(), topic.clone(), message.clone()].into_iter()));
        }
        clients.len()
    }

    /// Tells of keys that were changed.
    pub fn tell(&self, classes: EventClasses, events: &[KeyEvent]) {
        for KeyEvent { name, database, key, .. } in events {
            if classes.by_key() {
                let channel = [format!("__keyspace@{database}__:").as_bytes(), key].concat();
                self.publish(&channel, name.as_bytes());
            }
            if classes.by_event() {
                self.publish(format!("__keyevent@{database}__:{name}").as_bytes(), key);
            }
        }
    }

    /// Topics of a kind that have clients and fit a pattern, if there is one, in their order.
    pub fn names(&self, kind: TopicKind, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
        let table = self.table(kind).lock();
        let is_wanted = |name: &&Vec<u8>| pattern.is_none_or(|pattern| fits(pattern, name));
        let mut names: Vec<Vec<u8>> = table.keys().filter(is_wanted).cloned().collect();
        names.sort_unstable();
        names
    }

    /// Number of clients of a topic.
    pub fn clients(&self, kind: TopicKind, topic: &[u8]) -> usize {
        self.table(kind).lock().get(topic).map_or(0, Vec::len)
    }

    /// Number of topics of a kind that have clients.
    pub fn len(&self, kind: TopicKind) -> usize {
        self.table(kind).lock().len()
    }
}

/// Whether a channel fits a pattern; with Redis, one without a name fits no `*`.
fn fits(pattern: &[u8], channel: &[u8]) -> bool {
    channel.is_empty() == pattern.is_empty() && glob::matches(pattern, channel)
}

fn push(parts: impl Iterator<Item = Bytes>) -> Reply {
    Reply::Push(parts.map(Reply::Bulk).collect())
}
