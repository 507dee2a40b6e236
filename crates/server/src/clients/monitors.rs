//! Clients that are shown what others call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::Connected;
use crate::resp::reply::Reply;

/// Clients that have called `MONITOR`. One that takes what it is shown too slowly is sent away.
#[derive(Default)]
pub struct Monitors {
    clients: Mutex<Vec<Arc<Connected>>>,
    count: AtomicUsize,
}

impl Monitors {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Adds a client; whether it was none before.
    pub fn add(&self, client: &Arc<Connected>) -> bool {
        let is_new = !client.set_monitor(true);
        if is_new {
            self.clients.lock().push(client.clone());
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        is_new
    }

    /// Removes a client, if it is one.
    pub fn remove(&self, client: &Connected) {
        if client.set_monitor(false) {
            self.clients.lock().retain(|other| other.id != client.id);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Shows a call by a client at an address.
    pub fn show(&self, database: usize, address: &str, args: &[&[u8]]) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, micros) = (since.as_secs(), since.subsec_micros());
        let mut line = format!("{seconds}.{micros:06} [{database} {address}]").into_bytes();
        for argument in args {
            line.extend_from_slice(b" \"");
            argument.iter().for_each(|byte| quote(*byte, &mut line));
            line.push(b'"');
        }
        let line = bytes::Bytes::from(line);
        self.clients.lock().iter().for_each(|client| client.deliver(Reply::Line(line.clone())));
    }
}

/// Appends a byte as Redis quotes it.
fn quote(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'\\' | b'"' => out.extend([b'\\', byte]),
        b'\n' => out.extend(b"\\n"),
        b'\r' => out.extend(b"\\r"),
        b'\t' => out.extend(b"\\t"),
        0x07 => out.extend(b"\\a"),
        0x08 => out.extend(b"\\b"),
        b' '..=b'~' => out.push(byte),
        _ => out.extend(format!("\\x{byte:02x}").bytes()),
    }
}
