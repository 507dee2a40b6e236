//! The clients that are connected, as others see them.

mod budget;
mod mailbox;
mod monitors;
mod pause;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use self::budget::{ClientBudget, Share};
use self::mailbox::Mailbox;
pub use self::monitors::Monitors;
pub use self::pause::ClientPause;
use crate::acl::User;
use crate::command::table::{COMMANDS, CommandRow};
use crate::resp::reply::{Protocol, Reply};

/// What a client has chosen.
#[derive(Clone, Default)]
pub struct Chosen {
    /// What it says that it is called.
    pub name: Vec<u8>,
    /// The number of its database.
    pub database: usize,
    /// The version of the protocol.
    pub protocol: Protocol,
    /// Who it is.
    pub user: Option<Arc<User>>,
}

/// A client that is connected.
pub struct Connected {
    /// Number, which no other client of this process has.
    pub id: u64,
    /// Where it is.
    pub address: String,
    /// Where it has connected to.
    pub local: String,
    /// Says that its connection is to end.
    pub killed: CancellationToken,
    since: Instant,
    /// Seconds since the start of the server when it began to wait for the client; all bits while
    /// it does not.
    waits: AtomicU32,
    is_known: AtomicBool,
    is_monitor: AtomicBool,
    /// Topics of each kind whose messages it is sent.
    topics: [AtomicU32; 3],
    /// Commands of its transaction, or -1.
    queued: AtomicI64,
    /// The row of its last command, from 1 on.
    row: AtomicUsize,
    /// Messages for it.
    pub mailbox: Mailbox,
    chosen: Mutex<Chosen>,
}

/// [`Connected::waits`] while the server works for a client.
const WORKS: u32 = u32::MAX;

impl Connected {
    /// Says that the server waits for the client, from a time in seconds since its start.
    pub fn wait(&self, now: u32) {
        self.waits.store(now, Ordering::Relaxed);
    }

    /// Says that the server does not wait for the client.
    pub fn wake(&self) {
        self.waits.store(WORKS, Ordering::Relaxed);
    }

    /// Seconds that the server has waited for the client, if it does.
    pub fn waited(&self, now: u32) -> Option<u32> {
        let since = self.waits.load(Ordering::Relaxed);
        (since != WORKS).then(|| now.saturating_sub(since))
    }

    /// Time since it has connected.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Says whether it has said who it is, or need not.
    pub fn set_known(&self, is_known: bool) {
        self.is_known.store(is_known, Ordering::Relaxed);
    }

    /// Whether it has said who it is, or need not.
    pub fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Says how many topics of each kind it has.
    pub fn set_topics(&self, counts: [usize; 3]) {
        for (topics, count) in self.topics.iter().zip(counts) {
            topics.store(count as u32, Ordering::Relaxed);
        }
    }

    /// Whether it is sent messages.
    pub fn is_subscribed(&self) -> bool {
        self.topics.iter().any(|topics| topics.load(Ordering::Relaxed) > 0)
    }

    /// Says whether it is shown what others call; whether it was.
    fn set_monitor(&self, is_monitor: bool) -> bool {
        self.is_monitor.swap(is_monitor, Ordering::Relaxed)
    }

    /// Whether it is shown what others call.
    pub fn is_monitor(&self) -> bool {
        self.is_monitor.load(Ordering::Relaxed)
    }

    /// Whether it may be silent for ever, since others send it what it waits for.
    pub fn takes_messages(&self) -> bool {
        self.is_subscribed() || self.is_monitor()
    }

    /// Says how many commands its transaction has, if one is open.
    pub fn set_queued(&self, commands: Option<usize>) {
        self.queued.store(commands.map_or(-1, |count| count as i64), Ordering::Relaxed);
    }

    /// Says what it calls.
    pub fn set_command(&self, command: &CommandRow) {
        let row = COMMANDS.element_offset(command).map_or(0, |row| row + 1);
        self.row.store(row, Ordering::Relaxed);
    }

    /// Has a message sent to it; one that takes them too slowly is sent away.
    pub fn deliver(&self, message: Reply) {
        if !self.mailbox.add(message) {
            self.killed.cancel();
        }
    }

    /// What it has chosen.
    pub fn chosen(&self) -> Chosen {
        self.chosen.lock().clone()
    }

    /// Changes what it has chosen.
    pub fn choose(&self, change: impl FnOnce(&mut Chosen)) {
        change(&mut self.chosen.lock());
    }

    /// The line of `CLIENT LIST`, with its end, at a time in seconds since the server's start.
    pub fn line(&self, now: u32) -> Vec<u8> {
        let Self { id, address, local, .. } = self;
        let Chosen { name, database, protocol, user } = self.chosen();
        let (age, idle) = (self.age().as_secs(), self.waited(now).unwrap_or(0));
        let [sub, psub, ssub] = self.topics.each_ref().map(|it| it.load(Ordering::Relaxed));
        let queued = self.queued.load(Ordering::Relaxed);
        let row = self.row.load(Ordering::Relaxed).checked_sub(1);
        let command = row.and_then(|row| COMMANDS.get(row)).map_or("NULL", |row| row.name);
        let letters = [
            (self.is_monitor(), "O"),
            (self.is_subscribed(), "P"),
            (queued >= 0, "x"),
            (!self.is_monitor() && !self.is_subscribed() && queued < 0, "N"),
        ];
        let flags: String = letters.iter().filter(|(is_so, _)| *is_so).map(|(_, it)| *it).collect();
        let before = format!("id={id} addr={address} laddr={local} name=");
        let between = format!(
            " age={age} idle={idle} flags={flags} db={database} sub={sub} psub={psub} ssub={ssub} \
             multi={queued} cmd={command} user="
        );
        let user = user.map(|user| user.name.clone()).unwrap_or_default();
        let behind = format!(" resp={}\n", protocol.number());
        [before.as_bytes(), &name, between.as_bytes(), &user, behind.as_bytes()].concat()
    }
}

/// All clients.
pub struct Clients {
    /// By their numbers.
    all: Mutex<BTreeMap<u64, Arc<Connected>>>,
    /// Memory that they take together.
    pub budget: Arc<ClientBudget>,
}

impl Clients {
    /// No clients, which may take `memory` bytes together.
    pub fn new(memory: usize) -> Self {
        Self { all: Mutex::default(), budget: ClientBudget::new(memory) }
    }

    /// Adds a client.
    pub fn add(&self, id: u64, address: String, local: String) -> Arc<Connected> {
        let (killed, chosen) = (CancellationToken::new(), Mutex::default());
        let since = Instant::now();
        let client = Arc::new(Connected {
            id,
            address,
            local,
            killed,
            since,
            waits: AtomicU32::new(WORKS),
            is_known: AtomicBool::new(true),
            is_monitor: AtomicBool::new(false),
            topics: Default::default(),
            queued: AtomicI64::new(-1),
            row: AtomicUsize::new(0),
            mailbox: Mailbox::new(self.budget.clone()),
            chosen,
        });
        self.all.lock().insert(id, client.clone());
        client
    }

    /// Removes a client.
    pub fn remove(&self, id: u64) {
        self.all.lock().remove(&id);
    }

    /// All clients, the oldest first.
    pub fn all(&self) -> Vec<Arc<Connected>> {
        self.all.lock().values().cloned().collect()
    }
}
