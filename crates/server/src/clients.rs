//! The clients that are connected, as others see them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::resp::reply::Protocol;

/// What a client has chosen.
#[derive(Clone, Default)]
pub struct Chosen {
    /// What it says that it is called.
    pub name: Vec<u8>,
    /// The number of its database.
    pub database: usize,
    /// The version of the protocol.
    pub protocol: Protocol,
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
    chosen: Mutex<Chosen>,
}

impl Connected {
    /// What it has chosen.
    pub fn chosen(&self) -> Chosen {
        self.chosen.lock().clone()
    }

    /// Changes what it has chosen.
    pub fn choose(&self, change: impl FnOnce(&mut Chosen)) {
        change(&mut self.chosen.lock());
    }

    /// The line of `CLIENT LIST`, with its end.
    pub fn line(&self) -> Vec<u8> {
        let Self { id, address, local, .. } = self;
        let Chosen { name, database, protocol } = self.chosen();
        let age = self.since.elapsed().as_secs();
        let before = format!("id={id} addr={address} laddr={local} name=");
        let behind = format!(" age={age} db={database} user=default resp={}\n", protocol.number());
        [before.as_bytes(), &name, behind.as_bytes()].concat()
    }
}

/// All clients, by their numbers.
#[derive(Default)]
pub struct Clients(Mutex<BTreeMap<u64, Arc<Connected>>>);

impl Clients {
    /// Adds a client.
    pub fn add(&self, id: u64, address: String, local: String) -> Arc<Connected> {
        let (killed, chosen) = (CancellationToken::new(), Mutex::default());
        let since = Instant::now();
        let client = Arc::new(Connected { id, address, local, killed, since, chosen });
        self.0.lock().insert(id, client.clone());
        client
    }

    /// Removes a client.
    pub fn remove(&self, id: u64) {
        self.0.lock().remove(&id);
    }

    /// All clients, the oldest first.
    pub fn all(&self) -> Vec<Arc<Connected>> {
        self.0.lock().values().cloned().collect()
    }
}
