//! What transactions and scripts publish: it is sent once they are committed.

use crate::command::table::CommandRow;
use crate::resp::reply::Reply;
use crate::topics::{TopicKind, Topics};

/// Calls of `PUBLISH` and `SPUBLISH` that are not sent yet, in their order.
#[derive(Default)]
pub(super) struct Published<'a>(Vec<(&'static CommandRow, &'a [&'a [u8]])>);

impl<'a> Published<'a> {
    /// Adds a call. Its reply: how many clients the message goes to as things are.
    pub(super) fn add(
        &mut self,
        topics: &Topics,
        command: &'static CommandRow,
        args: &'a [&'a [u8]],
    ) -> Reply {
        self.0.push((command, args));
        Reply::Integer(match command.name {
            "publish" => topics.reach(args[1]),
            _ => topics.clients(TopicKind::Shard, args[1]),
        } as i64)
    }

    /// Adds the calls of a script that has ended.
    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Sends the messages.
    pub(super) fn send(self, topics: &Topics) {
        for (command, args) in self.0 {
            match command.name {
                "publish" => topics.publish(args[1], args[2]),
                _ => topics.publish_to_shard(args[1], args[2]),
            };
        }
    }
}
