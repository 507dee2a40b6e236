//! Clients that wait for keys, as `BLPOP` does: a write that gives such a key elements serves them
//! in its own batch, before another command gets at the key, in the order in which they came.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bumpalo::Bump;
use parking_lot::Mutex;
use tokio::sync::oneshot::{Receiver, Sender, channel};

use super::effects::Effects;
use super::view::{Run, ViewMoment};
use super::{Answer, Halt};
use crate::model::record::{CollectionKind, KeyContent};
use crate::resp::reply::Reply;

/// A key that a command waits for, and the arguments of what is run for it when that has elements.
pub type AwaitedCall = (Vec<u8>, Vec<Vec<u8>>);

/// A command that waits.
pub struct WaitingCommand {
    /// The number of its client.
    pub client: u64,
    /// The number of the client's database.
    pub database: usize,
    /// The type that it takes elements of.
    pub kind: CollectionKind,
    /// What runs it.
    pub run: Run,
    /// The keys that it waits for, and how it is called for each.
    pub calls: Vec<AwaitedCall>,
    /// All its keys, which it holds when it runs.
    pub keys: Vec<Vec<u8>>,
    /// Whether it is run, too, when a key has lost what it had.
    pub needs_keys: bool,
}

impl WaitingCommand {
    /// The arguments for one of the keys that it waits for, which lie in `arena`.
    fn args_for<'a>(&self, key: &[u8], arena: &'a Bump) -> Vec<&'a [u8]> {
        let call = self.calls.iter().find(|(awaited, _)| awaited == key);
        let args = call.into_iter().flat_map(|(_, args)| args);
        args.map(|argument| &*arena.alloc_slice_copy(argument)).collect()
    }
}

struct WaitingClient {
    command: Arc<WaitingCommand>,
    reply: Sender<Reply>,
    /// Whether a command has run for it and is to be committed.
    is_claimed: bool,
    /// Whether it waits no more, if that is not committed.
    is_cancelled: bool,
}

#[derive(Default)]
struct WaitersState {
    last: u64,
    clients: HashMap<u64, WaitingClient>,
    /// The commands that wait for each key, in whatever database, the first one first.
    keys: HashMap<Vec<u8>, Vec<u64>>,
}

/// A client for which a command runs. If this is dropped, it waits on.
pub struct ClaimedClient<'w> {
    waiters: &'w Waiters,
    number: u64,
    command: Arc<WaitingCommand>,
}

impl Drop for ClaimedClient<'_> {
    fn drop(&mut self) {
        self.waiters.release(self.number);
    }
}

/// The place of a command among those that wait.
pub struct WaitingPlace<'w> {
    waiters: &'w Waiters,
    number: u64,
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.waiters.remove(self.number);
    }
}

/// A client for which a command was run; it gets the reply once that is committed.
pub type Served<'w> = (ClaimedClient<'w>, Reply);

/// The clients that wait for keys.
#[derive(Default)]
pub struct Waiters {
    state: Mutex<WaitersState>,
    count: AtomicUsize,
    /// Number of commands among them that need their keys.
    with_needs: AtomicUsize,
}

impl Waiters {
    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Number of clients that wait.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether one waits that is run, too, when a key has lost what it had.
    pub fn need_keys(&self) -> bool {
        self.with_needs.load(Ordering::Acquire) > 0
    }

    /// Adds a command, whose keys the caller holds: its number, and where its reply comes.
    pub fn add(&self, command: WaitingCommand) -> (u64, Receiver<Reply>) {
        let (reply, receiver) = channel();
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        for (key, _) in &command.calls {
            let waiting = state.keys.entry(key.clone()).or_default();
            if !waiting.contains(&number) {
                waiting.push(number);
            }
        }
        self.with_needs.fetch_add(command.needs_keys.into(), Ordering::AcqRel);
        let command = Arc::new(command);
        let client = WaitingClient { command, reply, is_claimed: false, is_cancelled: false };
        state.clients.insert(number, client);
        self.count.fetch_add(1, Ordering::AcqRel);
        (number, receiver)
    }

    /// Removes a command. Returns whether it gets no reply: else one may come.
    pub fn remove(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        match state.clients.get_mut(&number) {
            Some(client) if client.is_claimed => {
                client.is_cancelled = true;
                false
            }
            Some(_) => self.take(&mut state, number).is_some(),
            None => false,
        }
    }

    /// The place of a command, which is left when this is dropped.
    pub fn place(&self, number: u64) -> WaitingPlace<'_> {
        WaitingPlace { waiters: self, number }
    }

    /// Ends the wait of a client with a reply, as `CLIENT UNBLOCK` does. Returns whether it waited.
    pub fn end(&self, client: u64, reply: Reply) -> bool {
        let mut state = self.state.lock();
        let is_it = |waiting: &WaitingClient| waiting.command.client == client;
        let mut all = state.clients.iter();
        let found = all.find(|(_, waiting)| is_it(waiting) && !waiting.is_claimed);
        let Some(number) = found.map(|(number, _)| *number) else { return false };
        let Some(waiting) = self.take(&mut state, number) else { return false };
        let _ = waiting.reply.send(reply);
        true
    }

    /// The other keys that who changes `keys` has to hold: those of commands that wait for them.
    pub fn more_keys(&self, keys: &[&[u8]]) -> BTreeSet<Vec<u8>> {
        let mut more = BTreeSet::new();
        if self.is_empty() {
            return more;
        }
        let state = self.state.lock();
        let mut left = keys.to_vec();
        while let Some(key) = left.pop() {
            let waiting = state.keys.get(key).into_iter().flatten();
            let commands = waiting.filter_map(|number| state.clients.get(number));
            for key in commands.flat_map(|client| &client.command.keys) {
                if !more.contains(key) {
                    more.insert(key.clone());
                    left.push(key);
                }
            }
        }
        more
    }

    /// Runs the commands that wait for keys which `effects` has given elements, or which lost what
    /// they had while a command needs it, or whose database was swapped, behind these. What was run
    /// is to be committed, and then given to [`Waiters::settle`].
    pub fn serve<'a>(
        &self,
        mut effects: Effects<'a>,
        moment: ViewMoment<'a>,
        arena: &'a Bump,
    ) -> Answer<(Effects<'a>, Vec<Served<'_>>)> {
        let (mut served, mut at) = (Vec::new(), 0);
        let cleared = effects.cleared.iter().copied().filter(|_| self.need_keys());
        let others: Vec<_> = cleared.chain(effects.swapped().map(|(_, origin)| origin)).collect();
        for origin in others {
            let state = self.state.lock();
            effects.ready.extend(state.keys.keys().map(|key| (origin, key.clone())));
        }
        while let Some((origin, key)) = effects.ready.get(at).cloned() {
            at += 1;
            let database = effects.number(origin);
            for number in self.waiting(&key) {
                let Some(claim) = self.claim(number, database) else { continue };
                let args = claim.command.args_for(&key, arena);
                let mut view = moment.view(database).behind(effects);
                let answer = (claim.command.run)(&args, &mut view);
                let is_of_kind = || {
                    let kind = |content| match content {
                        KeyContent::Collection(collection) => Some(collection.kind),
                        KeyContent::String(_) => None,
                    };
                    let record = view.record(&key).ok().flatten();
                    record.and_then(|record| kind(record.content)) == Some(claim.command.kind)
                };
                let reply = match answer {
                    Ok(reply) => Some(reply),
                    // The key to which an element was to go has another type.
                    Err(Halt::Error(error)) if is_of_kind() => Some(error),
                    Err(Halt::Error(_) | Halt::Block(_)) => None,
                    Err(Halt::Wait | Halt::Hold | Halt::Long(_)) => return Err(Halt::Wait),
                };
                effects = view.into_effects();
                served.extend(reply.map(|reply| (claim, reply)));
            }
        }
        Ok((effects, served))
    }

    /// Gives clients their replies: what was run for them is committed.
    pub fn settle(&self, served: Vec<Served<'_>>) {
        for (claim, reply) in served {
            if let Some(client) = self.take(&mut self.state.lock(), claim.number) {
                // A client that has gone loses the element, as one does that goes a bit later.
                let _ = client.reply.send(reply);
            }
        }
    }

    fn take(&self, state: &mut WaitersState, number: u64) -> Option<WaitingClient> {
        let client = state.clients.remove(&number)?;
        for (key, _) in &client.command.calls {
            if let Some(waiting) = state.keys.get_mut(key) {
                waiting.retain(|other| *other != number);
                if waiting.is_empty() {
                    state.keys.remove(key);
                }
            }
        }
        self.count.fetch_sub(1, Ordering::AcqRel);
        self.with_needs.fetch_sub(client.command.needs_keys.into(), Ordering::AcqRel);
        Some(client)
    }

    fn waiting(&self, key: &[u8]) -> Vec<u64> {
        self.state.lock().keys.get(key).cloned().unwrap_or_default()
    }

    fn claim(&self, number: u64, database: usize) -> Option<ClaimedClient<'_>> {
        let mut state = self.state.lock();
        let client = state.clients.get_mut(&number)?;
        if client.is_claimed || client.command.database != database {
            return None;
        }
        client.is_claimed = true;
        Some(ClaimedClient { waiters: self, number, command: client.command.clone() })
    }

    fn release(&self, number: u64) {
        let mut state = self.state.lock();
        let Some(client) = state.clients.get_mut(&number) else { return };
        client.is_claimed = false;
        if client.is_cancelled {
            self.take(&mut state, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(client: u64, keys: &[&str]) -> WaitingCommand {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        WaitingCommand {
            client,
            database: 0,
            kind: CollectionKind::List,
            run: |_, _| Ok(Reply::OK),
            calls: keys.iter().map(|key| (key.clone(), vec![key.clone()])).collect(),
            keys,
            needs_keys: false,
        }
    }

    #[test]
    fn who_waits_no_more_gets_nothing() {
        let waiters = Waiters::default();
        let (first, _receiver) = waiters.add(waiting(7, &["a", "b"]));
        assert_eq!(waiters.waiting(b"b"), [first]);
        assert!(waiters.remove(first) && !waiters.remove(first) && waiters.is_empty());
        assert!(waiters.waiting(b"a").is_empty());
        // While it is served the reply may come; if it does not, the wait is over.
        let (second, mut receiver) = waiters.add(waiting(7, &["a"]));
        assert!(waiters.claim(second, 1).is_none());
        let claim = waiters.claim(second, 0).unwrap();
        assert!(waiters.claim(second, 0).is_none() && !waiters.end(7, Reply::Nil));
        assert!(!waiters.remove(second));
        drop((claim, Reply::OK));
        assert!(receiver.try_recv().is_err() && waiters.is_empty());
        let (third, mut receiver) = waiters.add(waiting(7, &["a"]));
        waiters.settle(vec![(waiters.claim(third, 0).unwrap(), Reply::OK)]);
        assert_eq!((receiver.try_recv(), waiters.len()), (Ok(Reply::OK), 0));
        let (_, mut receiver) = waiters.add(waiting(8, &["a"]));
        assert!(!waiters.end(7, Reply::Nil) && waiters.end(8, Reply::Nil));
        assert_eq!(receiver.try_recv(), Ok(Reply::Nil));
    }

    #[test]
    fn who_changes_a_key_holds_those_of_who_waits_for_it() {
        let waiters = Waiters::default();
        let more = |key: &str| waiters.more_keys(&[key.as_bytes()]);
        assert!(more("a").is_empty());
        let mut to_b = waiting(1, &["a"]);
        to_b.keys.push(b"b".into());
        waiters.add(to_b);
        waiters.add(waiting(2, &["b", "c"]));
        assert_eq!(more("a"), ["a", "b", "c"].map(|key| key.as_bytes().to_vec()).into());
        assert!(more("d").is_empty());
    }
}
