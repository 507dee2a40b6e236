//! What a client wants to be sent, and what it sends others.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{ClientSession, KEPT_COST};
use crate::command::args::showing;
use crate::command::help::{self, help};
use crate::exec::Answer;
use crate::resp::reply::{Protocol, Reply};
use crate::shared::ServerShared;
use crate::topics::TopicKind;

/// The topics of a client, of each kind.
#[derive(Default)]
pub(super) struct Subscriptions {
    topics: [BTreeSet<Vec<u8>>; 3],
    /// Memory that they take, in bytes.
    pub(super) memory: usize,
}

impl Subscriptions {
    fn of(&self, kind: TopicKind) -> &BTreeSet<Vec<u8>> {
        &self.topics[kind as usize]
    }

    fn add(&mut self, kind: TopicKind, topic: &[u8]) -> bool {
        let is_new = self.topics[kind as usize].insert(topic.to_vec());
        self.memory += if is_new { topic.len() + KEPT_COST } else { 0 };
        is_new
    }

    fn remove(&mut self, kind: TopicKind, topic: &[u8]) -> bool {
        let was_there = self.topics[kind as usize].remove(topic);
        self.memory -= if was_there { topic.len() + KEPT_COST } else { 0 };
        was_there
    }

    /// How many the client is told that it has: those of shards, or all others.
    fn count(&self, kind: TopicKind) -> usize {
        let [channels, patterns, shards] = &self.topics;
        if kind == TopicKind::Shard { shards.len() } else { channels.len() + patterns.len() }
    }

    fn counts(&self) -> [usize; 3] {
        self.topics.each_ref().map(BTreeSet::len)
    }

    fn is_empty(&self) -> bool {
        self.topics.iter().all(BTreeSet::is_empty)
    }
}

/// The commands that a client has in RESP2 while it is sent messages.
const BESIDE_MESSAGES: [&str; 9] = [
    "ping",
    "quit",
    "reset",
    "subscribe",
    "unsubscribe",
    "psubscribe",
    "punsubscribe",
    "ssubscribe",
    "sunsubscribe",
];

fn kind(command: &str) -> TopicKind {
    match command {
        "psubscribe" | "punsubscribe" => TopicKind::Pattern,
        "ssubscribe" | "sunsubscribe" => TopicKind::Shard,
        _ => TopicKind::Channel,
    }
}

impl ClientSession {
    /// Whether replies stand between messages that have no other form.
    pub(super) fn is_beside_messages(&self) -> bool {
        self.protocol == Protocol::Two && !self.subscriptions.is_empty()
    }

    /// Whether a command may be called now, for all that the client is sent.
    pub(super) fn is_free(&self, command: &str) -> bool {
        !self.is_beside_messages() || BESIDE_MESSAGES.contains(&command)
    }

    fn told(&self, name: &'static str, kind: TopicKind, topic: Reply) -> Reply {
        let count = Reply::Integer(self.subscriptions.count(kind) as i64);
        Reply::Push(vec![Reply::Bulk(name.into()), topic, count])
    }

    /// `SUBSCRIBE channel [channel ...]`, and the same for patterns and shards.
    pub(super) fn subscribe(
        &mut self,
        shared: &ServerShared,
        name: &'static str,
        topics: &[&[u8]],
    ) -> Answer {
        let kind = kind(name);
        let mut replies = Vec::with_capacity(topics.len());
        for topic in topics {
            if self.subscriptions.add(kind, topic) {
                shared.topics.add(kind, topic, self.client.clone());
            }
            replies.push(self.told(name, kind, Reply::Bulk(Bytes::copy_from_slice(topic))));
        }
        self.client.set_topics(self.subscriptions.counts());
        Ok(Reply::Several(replies))
    }

    /// `UNSUBSCRIBE [channel ...]`, and the same for patterns and shards: all without a name.
    pub(super) fn unsubscribe(
        &mut self,
        shared: &ServerShared,
        name: &'static str,
        topics: &[&[u8]],
    ) -> Answer {
        let kind = kind(name);
        let mut topics: Vec<Vec<u8>> = topics.iter().map(|topic| topic.to_vec()).collect();
        if topics.is_empty() {
            topics = self.subscriptions.of(kind).iter().cloned().collect();
        }
        let mut replies = Vec::with_capacity(topics.len());
        for topic in topics {
            if self.subscriptions.remove(kind, &topic) {
                shared.topics.remove(kind, &topic, &self.client);
            }
            replies.push(self.told(name, kind, Reply::Bulk(topic.into())));
        }
        if replies.is_empty() {
            replies.push(self.told(name, kind, Reply::Nil));
        }
        self.client.set_topics(self.subscriptions.counts());
        Ok(Reply::Several(replies))
    }

    /// Takes the client off all topics, as the end of a connection does.
    pub fn unsubscribe_all(&mut self, shared: &ServerShared) {
        let Subscriptions { topics, .. } = std::mem::take(&mut self.subscriptions);
        for (kind, topics) in TopicKind::ALL.into_iter().zip(topics) {
            for topic in topics {
                shared.topics.remove(kind, &topic, &self.client);
            }
        }
        self.client.set_topics([0; 3]);
    }
}

/// `PUBSUB CHANNELS | NUMSUB | NUMPAT | SHARDCHANNELS | SHARDNUMSUB | HELP`
pub(super) fn about(shared: &ServerShared, name: &str, args: &[&[u8]]) -> Answer {
    let topics = &shared.topics;
    let names = |kind| {
        if args.len() > 3 {
            let why = "ERR unknown subcommand or wrong number of arguments for '";
            return Err(showing(why, args[1], "'. Try PUBSUB HELP."));
        }
        Ok(Reply::bulks(topics.names(kind, args.get(2).copied())))
    };
    let numbers = |kind| {
        let number = |topic: &&[u8]| {
            let count = Reply::Integer(topics.clients(kind, topic) as i64);
            [Reply::Bulk(Bytes::copy_from_slice(topic)), count]
        };
        Ok(Reply::Array(args[2..].iter().flat_map(number).collect()))
    };
    match name {
        "pubsub|channels" => names(TopicKind::Channel),
        "pubsub|shardchannels" => names(TopicKind::Shard),
        "pubsub|numsub" => numbers(TopicKind::Channel),
        "pubsub|shardnumsub" => numbers(TopicKind::Shard),
        "pubsub|numpat" => Ok(Reply::Integer(topics.len(TopicKind::Pattern) as i64)),
        _ => Ok(help(help::PUBSUB)),
    }
}
