//! One client: what it sends is decoded in place and run in order, and replies go out together.

mod in_pool;

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::Rooms;
use super::gathered::{GatheredInput, NextCommand, Turn, gather};
use super::socket::{Accepted, Socket};
use crate::clients::{ClientBudget, Connected, Share};
use crate::exec::{Halt, LongReply};
use crate::resp::reply::Reply;
use crate::resp::request::Decoder;
use crate::session::{BlockedClient, ClientSession, RanCommand, Waits};
use crate::shared::ServerShared;

/// Bytes that a read asks for at least, and at most, however long the argument that it brings.
const INPUT_MIN: usize = 16 << 10;
const INPUT_MAX: usize = 1 << 20;

/// Bytes of replies that are sent before the next command runs.
const OUTPUT_MAX: usize = 1 << 20;

/// How long a client may take for a piece of a reply that is read while it is sent: meanwhile the
/// store keeps what it had when the reply began.
const TAKEN_MAX: Duration = Duration::from_secs(60);

/// How long a client may take nothing of its replies once the server stops.
const STOP_TAKEN_MAX: Duration = Duration::from_secs(1);

/// How long the commands of a client run before other clients of the worker get their turn.
const TURN_TIME: Duration = Duration::from_millis(1);

/// What a client is told that would take more memory than all may take together.
const TOO_MUCH: &[u8] = b"-ERR the clients take too much memory: see client-memory\r\n";

/// A client.
struct Connection {
    socket: Socket,
    shared: Arc<ServerShared>,
    pool: Handle,
    input: BytesMut,
    output: BytesMut,
    /// Whether replies that are there are to wait for a sync, whatever is chosen since.
    owes_sync: bool,
    /// What both take of the memory of all clients.
    share: Share,
    /// The memory of clients that have said who they are, until this is one.
    budget: Option<Arc<ClientBudget>>,
    decoder: Decoder,
    /// Away while a command is in the pool.
    session: Option<ClientSession>,
    /// The client, as others see it; they may end the connection.
    client: Arc<Connected>,
}

/// Serves a client until it goes, or the server stops.
pub(super) async fn serve(socket: Accepted, rooms: Rooms) -> io::Result<()> {
    let socket = tokio::select! {
        socket = socket.enter() => socket?,
        () = rooms.shared.stop.cancelled() => return Ok(()),
    };
    connected(socket, rooms)?.serve().await
}

/// The connection of a new client.
fn connected(socket: Socket, rooms: Rooms) -> io::Result<Connection> {
    let Rooms { shared, of_strangers, pool, times } = rooms;
    let budget = shared.clients.budget.clone();
    let id = shared.observer.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let (address, local) = socket.addresses()?;
    let client = shared.clients.add(id, address, local);
    let mut session = ClientSession::new(&shared, client.clone(), times);
    session.takes_long = true;
    shared.observer.clients.fetch_add(1, Ordering::Relaxed);
    Ok(Connection {
        socket,
        shared,
        pool,
        input: BytesMut::new(),
        output: BytesMut::new(),
        owes_sync: false,
        share: Share::new(of_strangers),
        budget: Some(budget),
        decoder: Decoder::default(),
        session: Some(session),
        client,
    })
}

/// Nothing is left of a client, even if a panic has ended its connection.
impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(session) = &mut self.session {
            session.end_transaction(&self.shared);
            session.unsubscribe_all(&self.shared);
        }
        self.shared.monitors.remove(&self.client);
        self.shared.clients.remove(self.client.id);
        self.shared.observer.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection {
    async fn serve(&mut self) -> io::Result<()> {
        loop {
            let goes_on = self.run_all().await?;
            self.flush().await?;
            if !goes_on {
                return self.socket.shutdown().await;
            }
            if self.input.is_empty() {
                // A client that waits holds what its session keeps alone.
                (self.input, self.output) = (BytesMut::new(), BytesMut::new());
                self.decoder = Decoder::default();
                if !self.takes_share().await? {
                    return Ok(());
                }
            }
            self.client.wait(self.shared.seconds());
            let has_mail = tokio::select! {
                ready = self.socket.readable() => ready.map(|()| false)?,
                () = self.client.mailbox.arrived() => true,
                () = self.client.killed.cancelled() => return Ok(()),
                () = self.shared.stop.cancelled() => return Ok(()),
            };
            if has_mail {
                self.add(&[]);
                self.flush().await?;
                continue;
            }
            self.client.wake();
            if !self.read().await? {
                return Ok(());
            }
        }
    }

    /// Reads what is there. Returns whether the client is, too.
    async fn read(&mut self) -> io::Result<bool> {
        let missing = self.decoder.wanted().unwrap_or_default();
        let missing = missing.saturating_sub(self.input.len());
        self.input.reserve(missing.clamp(INPUT_MIN, INPUT_MAX));
        if !self.takes_share().await? {
            return Ok(false);
        }
        match self.socket.read(&mut self.input).await {
            Ok(len) => {
                self.shared.observer.received.fetch_add(len as u64, Ordering::Relaxed);
                Ok(len > 0)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// Takes what the client needs of the memory of all clients. Without room it is told in place
    /// of what it would be sent.
    async fn takes_share(&mut self) -> io::Result<bool> {
        let session = self.session.as_ref();
        let is_known = |_: &mut _| session.is_some_and(|session| session.is_known(&self.shared));
        if let Some(budget) = self.budget.take_if(is_known) {
            self.share = Share::new(budget);
        }
        let of_session = session.map_or(0, ClientSession::memory);
        let buffers = self.input.capacity() + self.decoder.memory() + self.output.capacity();
        let has_room = self.share.set(buffers + of_session);
        if !has_room {
            self.output = BytesMut::from(TOO_MUCH);
            self.send().await?;
        }
        Ok(has_room)
    }

    /// Adds replies to what the client is sent, behind the messages for it.
    fn add(&mut self, replies: &[Reply]) {
        let Some(session) = &self.session else { return };
        let messages = self.client.mailbox.take();
        messages.iter().chain(replies).for_each(|it| it.write(session.protocol, &mut self.output));
    }

    /// Waits until the client is served, or its time is over; what it sends meanwhile waits, too.
    async fn until_served(&mut self, blocked: BlockedClient) -> io::Result<Reply> {
        let BlockedClient { number, mut reply, timeout, .. } = blocked;
        let shared = self.shared.clone();
        let _place = shared.store.waiters.place(number);
        self.flush().await?;
        let end = async {
            match timeout {
                Some(time) => sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(end);
        loop {
            let gone = || Err(io::ErrorKind::ConnectionAborted.into());
            let (is_full, socket) = (self.input.len() >= INPUT_MAX, &mut self.socket);
            let heard =
                async { if is_full { socket.ended().await } else { socket.readable().await } };
            tokio::select! {
                // What was taken for the client is sent, whatever else is there.
                biased;
                served = &mut reply => return Ok(served.unwrap_or(Reply::NilArray)),
                () = &mut end => {
                    if shared.store.waiters.remove(number) {
                        return Ok(Reply::NilArray);
                    }
                    return Ok(reply.await.unwrap_or(Reply::NilArray));
                }
                () = self.client.killed.cancelled() => return gone(),
                () = shared.stop.cancelled() => match shared.store.waiters.remove(number) {
                    true => return gone(),
                    false => return Ok(reply.await.unwrap_or(Reply::NilArray)),
                },
                () = self.client.mailbox.arrived() => {
                    self.add(&[]);
                    self.flush().await?;
                    continue;
                }
                heard = heard => heard?,
            }
            if is_full || !self.read().await? {
                return gone();
            }
        }
    }

    /// Sends a long reply, of which the next piece is read when the client has taken one. Returns
    /// what is left to send.
    async fn send_long(&mut self, mut long: Box<LongReply>) -> io::Result<Reply> {
        self.add(&[]);
        let Some(session) = &self.session else { return Err(io::Error::other("away")) };
        let (protocol, mut goes_on, mut has_begun) = (session.protocol, true, false);
        while goes_on {
            let read = move || {
                let piece = long.next_piece(protocol);
                (long, piece)
            };
            let piece;
            (long, piece) = self.pool.spawn_blocking(read).await.map_err(io::Error::other)?;
            let bytes;
            (bytes, goes_on) = match piece {
                Ok(piece) => piece,
                Err(Halt::Error(error)) if !has_begun => return Ok(error),
                Err(_) => return Err(io::Error::other("the rest of a reply cannot be read")),
            };
            has_begun = true;
            self.output.unsplit(bytes);
            let sent = tokio::time::timeout(TAKEN_MAX, self.flush()).await;
            sent.map_err(|_| io::ErrorKind::TimedOut)??;
        }
        Ok(Reply::Silence)
    }

    /// Says that the next command begins now, and when that is.
    fn begin(&mut self) -> Instant {
        let now = Instant::now();
        self.session.iter_mut().for_each(|session| session.begin(now));
        now
    }

    /// Sends the replies so far. What they tell of survives what it is to survive by then.
    async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            let syncs = self.session.as_ref().is_none_or(|session| session.syncs(&self.shared));
            if (std::mem::take(&mut self.owes_sync) || syncs)
                && !self.shared.syncer.until_durable(self.shared.store.written()).await
            {
                return Err(io::Error::other("a sync has failed: what was written is not known"));
            }
            if !self.takes_share().await? {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            self.send().await?;
        }
        Ok(())
    }

    /// Sends what is there, unless it is taken too slowly.
    async fn send(&mut self) -> io::Result<()> {
        let stop = &self.shared.stop;
        self.client.wait(self.shared.seconds());
        while !self.output.is_empty() {
            let sent = tokio::select! {
                biased;
                sent = self.socket.write(&self.output) => sent?,
                () = self.client.killed.cancelled() => {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                () = async { stop.cancelled().await; sleep(STOP_TAKEN_MAX).await } => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            };
            self.output.advance(sent);
            self.shared.observer.sent.fetch_add(sent as u64, Ordering::Relaxed);
        }
        self.client.wake();
        Ok(())
    }

    /// Runs the commands that are there as a whole. Returns whether the connection goes on.
    async fn run_all(&mut self) -> io::Result<bool> {
        let mut begun = self.begin();
        loop {
            let ran = match self.turn()? {
                Turn::Nothing => return Ok(true),
                Turn::More => None,
                Turn::Writes => {
                    self.gather_in_pool().await?;
                    None
                }
                Turn::Command(Ok(ran)) => Some(ran),
                Turn::Command(Err(args)) => {
                    self.until_unpaused(&args).await?;
                    Some(self.run_in_pool(args).await?)
                }
            };
            if let Some(ran) = ran
                && !self.reply(ran).await?
            {
                return Ok(false);
            }
            if self.output.len() > OUTPUT_MAX {
                self.flush().await?;
                self.begin();
            }
            if self.session.as_ref().is_some_and(|it| it.begun() > begun + TURN_TIME) {
                tokio::task::yield_now().await;
                if self.client.killed.is_cancelled() {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                begun = self.begin();
            }
        }
    }

    /// Adds the reply of a command to what is sent. Returns whether the connection goes on.
    async fn reply(&mut self, ran: RanCommand) -> io::Result<bool> {
        let reply = match ran {
            RanCommand::Reply(reply) => reply,
            RanCommand::Long(long) => self.send_long(long).await?,
            RanCommand::Blocked(blocked) => {
                let command = blocked.command;
                let reply = self.until_served(blocked).await?;
                let Some(session) = &mut self.session else { return Ok(false) };
                session.served(&self.shared, command, reply)
            }
        };
        self.add(&[reply]);
        let Some(session) = &mut self.session else { return Ok(false) };
        let (is_over, late) = (session.is_over, std::mem::take(&mut session.late));
        if !late.is_zero() {
            tokio::select! {
                () = sleep(late) => {}
                () = self.shared.stop.cancelled() => {}
            }
        }
        Ok(!is_over)
    }

    /// Runs what can be run without a wait: writes that are committed together, and the command
    /// behind them. What has to wait is left to the caller, in this order.
    fn turn(&mut self) -> io::Result<Turn> {
        let (turn, len, count) = self.decided()?;
        self.input.advance(len);
        self.shared.observer.commands.fetch_add(count, Ordering::Relaxed);
        Ok(turn)
    }

    /// A turn, its length in the input, and its number of commands.
    fn decided(&mut self) -> io::Result<(Turn, usize, u64)> {
        let Self { input, output, decoder, shared, client, owes_sync, .. } = self;
        let Some(session) = &mut self.session else { return Err(io::Error::other("away")) };
        // The next command may choose otherwise.
        *owes_sync |= session.syncs(shared);
        let gathered = match gather(input, decoder, session, shared, false) {
            Ok(gathered) => gathered,
            Err(Waits) => return Ok((Turn::Writes, 0, 0)),
        };
        let GatheredInput { replies, mut len, next } = gathered;
        let messages = client.mailbox.take();
        messages.iter().chain(&replies).for_each(|it| it.write(session.protocol, output));
        let turn = match next {
            NextCommand::Nothing => Turn::Nothing,
            NextCommand::More => Turn::More,
            NextCommand::Error(error) => {
                session.is_over = true;
                let error = Reply::error(format!("ERR {}", error.text()));
                Turn::Command(Ok(RanCommand::Reply(error)))
            }
            NextCommand::Command(args, of_command) => {
                len += of_command;
                let words: SmallVec<[&[u8]; 6]> = args.iter().map(|it| &**it).collect();
                let ran = session.run(shared, &words, false);
                drop(words);
                Turn::Command(ran.map_err(|Waits| args.into_iter().map(Cow::into_owned).collect()))
            }
        };
        let count = replies.len() + usize::from(matches!(turn, Turn::Command(_)));
        Ok((turn, len, count as u64))
    }

    /// Waits as long as clients wait with such a command.
    async fn until_unpaused(&mut self, args: &[Vec<u8>]) -> io::Result<()> {
        let shared = self.shared.clone();
        let args: SmallVec<[&[u8]; 6]> = args.iter().map(Vec::as_slice).collect();
        let writes = self.session.as_ref().is_some_and(|session| session.may_write(&args));
        if shared.pause.holds(writes) {
            self.flush().await?;
            tokio::select! {
                () = shared.pause.over(writes) => {
                    self.begin();
                }
                () = self.client.killed.cancelled() => {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                () = shared.stop.cancelled() => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
