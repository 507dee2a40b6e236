//! One client: what it sends is decoded in place and run in order, and replies go out together.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use smallvec::SmallVec;
use tokio::runtime::Handle;

use super::Rooms;
use super::budget::Share;
use super::socket::{Accepted, Socket};
use crate::clients::Connected;
use crate::command::STRING_MAX;
use crate::exec::{Blind, Effects, Halt, LongReply};
use crate::resp::reply::Reply;
use crate::resp::request::{ClientRequest, Decoder, Limits, ProtocolError};
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

/// A client.
struct Connection {
    socket: Socket,
    shared: Arc<ServerShared>,
    pool: Handle,
    input: BytesMut,
    output: BytesMut,
    /// What both take of the memory of all clients.
    share: Share,
    decoder: Decoder,
    /// Away while a command is in the pool.
    session: Option<ClientSession>,
    /// The client, as others see it; they may end the connection.
    client: Arc<Connected>,
}

/// Serves a client until it goes, or the server stops.
pub(super) async fn serve(socket: Accepted, rooms: Rooms) -> io::Result<()> {
    let Rooms { shared, budget, pool, times } = rooms;
    let socket = socket.enter().await?;
    let id = shared.observer.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let (address, local) = socket.addresses()?;
    let client = shared.clients.add(id, address, local);
    let mut session = ClientSession::new(&shared, client.clone(), times);
    session.takes_long = true;
    shared.observer.clients.fetch_add(1, Ordering::Relaxed);
    let mut connection = Connection {
        socket,
        shared,
        pool,
        input: BytesMut::new(),
        output: BytesMut::new(),
        share: Share::new(budget),
        decoder: Decoder::default(),
        session: Some(session),
        client,
    };
    connection.serve().await
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
            self.begin();
            let goes_on = self.run_all().await?;
            self.flush().await?;
            if !goes_on {
                return self.socket.shutdown().await;
            }
            if self.input.is_empty() {
                // A client that waits holds what its session keeps alone.
                (self.input, self.output) = (BytesMut::new(), BytesMut::new());
                if !self.takes_share().await? {
                    return Ok(());
                }
            }
            self.client.wait(self.shared.seconds.load(Ordering::Relaxed));
            let has_mail = tokio::select! {
                ready = self.socket.readable() => ready.map(|()| false)?,
                () = self.client.mailbox.arrived() => true,
                () = self.client.killed.cancelled() => return Ok(()),
                () = self.shared.stop.cancelled() => return Ok(()),
            };
            if has_mail {
                self.take_messages();
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

    /// Takes what the client needs of the memory of all clients. Without room it is told.
    async fn takes_share(&mut self) -> io::Result<bool> {
        let of_session = self.session.as_ref().map_or(0, ClientSession::memory);
        let has_room = self.share.set(self.input.capacity() + self.decoder.memory() + of_session);
        if !has_room {
            let why = b"-ERR the clients take too much memory: see client-memory\r\n";
            self.socket.write_all(why).await?;
        }
        Ok(has_room)
    }

    /// Adds the messages for the client to what it is sent.
    fn take_messages(&mut self) {
        let Some(session) = &self.session else { return };
        let messages = self.client.mailbox.take();
        messages.iter().for_each(|it| it.write(session.protocol, &mut self.output));
    }

    /// Waits until the client is served, or its time is over; what it sends meanwhile waits, too.
    async fn until_served(&mut self, blocked: BlockedClient) -> io::Result<Reply> {
        let BlockedClient { number, mut reply, timeout } = blocked;
        let shared = self.shared.clone();
        let _place = WaitingPlace { shared: &shared, number };
        self.flush().await?;
        let end = async {
            match timeout {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(end);
        loop {
            let gone = || Err(io::ErrorKind::ConnectionAborted.into());
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
                () = shared.stop.cancelled() => return gone(),
                () = self.client.mailbox.arrived() => {
                    self.take_messages();
                    self.flush().await?;
                    continue;
                }
                ready = self.socket.readable(), if self.input.len() < INPUT_MAX => ready?,
            }
            if !self.read().await? {
                return gone();
            }
        }
    }

    /// Sends a long reply, of which the next piece is read when the client has taken one. Returns
    /// what is left to send.
    async fn send_long(&mut self, mut long: Box<LongReply>) -> io::Result<Reply> {
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

    /// Says that the next command begins now.
    fn begin(&mut self) {
        if let Some(session) = &mut self.session {
            session.begin();
        }
    }

    /// Sends the replies so far. What they tell of survives what it is to survive by then.
    async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            if self.session.as_ref().is_none_or(|session| session.syncs(&self.shared))
                && !self.shared.syncer.until_durable(self.shared.store.written()).await
            {
                return Err(io::Error::other("a sync has failed: what was written is not known"));
            }
            self.client.wait(self.shared.seconds.load(Ordering::Relaxed));
            tokio::select! {
                written = self.socket.write_all(&self.output) => written?,
                () = self.client.killed.cancelled() => {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
            self.client.wake();
            self.shared.observer.sent.fetch_add(self.output.len() as u64, Ordering::Relaxed);
            self.output.clear();
        }
        Ok(())
    }

    /// Runs the commands that are there as a whole. Returns whether the connection goes on.
    async fn run_all(&mut self) -> io::Result<bool> {
        loop {
            let Some(turn) = self.turn() else { return Ok(false) };
            let failed = match turn.committed {
                Ok(failed) => failed,
                Err(effects) => self.commit_in_pool(effects).await?,
            };
            let Some(session) = &self.session else { return Ok(false) };
            for reply in &turn.replies {
                failed.as_ref().unwrap_or(reply).write(session.protocol, &mut self.output);
            }
            let ran = match turn.ran {
                None => return Ok(true),
                Some(Ok(ran)) => ran,
                Some(Err(args)) => {
                    self.until_unpaused(&args).await?;
                    self.run_in_pool(args).await?
                }
            };
            let reply = match ran {
                RanCommand::Reply(reply) => reply,
                RanCommand::Long(long) => self.send_long(long).await?,
                RanCommand::Blocked(blocked) => {
                    let reply = self.until_served(blocked).await?;
                    let Some(session) = &mut self.session else { return Ok(false) };
                    session.wanted(reply)
                }
            };
            self.take_messages();
            let Some(session) = &mut self.session else { return Ok(false) };
            reply.write(session.protocol, &mut self.output);
            let (is_over, late) = (session.is_over, std::mem::take(&mut session.late));
            if !late.is_zero() {
                tokio::select! {
                    () = tokio::time::sleep(late) => {}
                    () = self.shared.stop.cancelled() => {}
                }
            }
            if is_over {
                return Ok(false);
            }
            if self.output.len() > OUTPUT_MAX {
                self.flush().await?;
                self.begin();
            }
        }
    }

    /// Runs what can be run without a wait: writes that need no look at what was there, and the
    /// command behind them. What has to wait is left to the caller, in this order.
    fn turn(&mut self) -> Option<Turn> {
        let (turn, len, count) = self.decided()?;
        self.input.advance(len);
        self.shared.observer.commands.fetch_add(count, Ordering::Relaxed);
        Some(turn)
    }

    /// A turn, its length in the input, and its number of commands.
    fn decided(&mut self) -> Option<(Turn, usize, u64)> {
        let session = self.session.as_mut()?;
        let (shared, blind) = (&*self.shared, Blind { databases: self.shared.store.databases() });
        let gathered = gather(&self.input, &mut self.decoder, session, shared, &blind);
        let Gathered { effects, replies, mut len, next } = gathered;
        let committed = session.commit_blind(shared, &effects, false);
        let committed = committed.map_err(|Waits| effects.to_owned());
        let ran = match next {
            NextCommand::Nothing => None,
            NextCommand::Error(error) => {
                session.is_over = true;
                let error = Reply::error(format!("ERR {}", error.text()));
                Some(Ok(RanCommand::Reply(error)))
            }
            NextCommand::Command(args, of_command) => {
                len += of_command;
                let ran = match &committed {
                    Ok(_) => {
                        let args: SmallVec<[&[u8]; 6]> = args.iter().map(|it| &**it).collect();
                        session.run(&self.shared, &args, false)
                    }
                    Err(_) => Err(Waits),
                };
                Some(ran.map_err(|Waits| args.into_iter().map(Cow::into_owned).collect()))
            }
        };
        let count = replies.len() + usize::from(ran.is_some());
        Some((Turn { committed, replies, ran }, len, count as u64))
    }

    /// Commits what blind commands have changed in a thread that may wait.
    async fn commit_in_pool(&mut self, effects: Effects<'static>) -> io::Result<Option<Reply>> {
        self.in_pool(move |session, shared| session.commit_blind(shared, &effects, true)).await
    }

    /// Runs a command in a thread that may wait.
    async fn run_in_pool(&mut self, args: Vec<Vec<u8>>) -> io::Result<RanCommand> {
        self.in_pool(move |session, shared| {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            session.run(shared, &args, true)
        })
        .await
    }

    /// Waits as long as clients wait with such a command.
    async fn until_unpaused(&mut self, args: &[Vec<u8>]) -> io::Result<()> {
        let shared = self.shared.clone();
        let args: SmallVec<[&[u8]; 6]> = args.iter().map(Vec::as_slice).collect();
        let writes = self.session.as_ref().is_some_and(|session| session.may_write(&args));
        if shared.pause.holds(writes) {
            self.flush().await?;
            tokio::select! {
                () = shared.pause.over(writes) => self.begin(),
                () = self.client.killed.cancelled() => {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                () = shared.stop.cancelled() => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        Ok(())
    }

    /// Runs `job` with the session in a thread that may wait.
    async fn in_pool<T, J>(&mut self, job: J) -> io::Result<T>
    where
        T: Send + 'static,
        J: FnOnce(&mut ClientSession, &Arc<ServerShared>) -> Result<T, Waits> + Send + 'static,
    {
        let Some(mut session) = self.session.take() else { return Err(io::Error::other("away")) };
        self.shared.observer.in_pool.fetch_add(1, Ordering::Relaxed);
        let shared = self.shared.clone();
        let ran = self.pool.spawn_blocking(move || {
            let ran = job(&mut session, &shared);
            (session, ran)
        });
        // A panic there ends this connection, and its session with it.
        let (session, ran) = ran.await.map_err(io::Error::other)?;
        self.session = Some(session);
        ran.map_err(|Waits| io::Error::other("a command waits where it may not"))
    }
}

/// The place of a client among those that wait for keys, which it leaves with the connection.
struct WaitingPlace<'a> {
    shared: &'a ServerShared,
    number: u64,
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.shared.store.waiters.remove(self.number);
    }
}

/// What became of the commands that were there.
struct Turn {
    /// The writes that were gathered: their error, or what is still to be committed.
    committed: Result<Option<Reply>, Effects<'static>>,
    /// The replies of these writes, if they are committed.
    replies: Vec<Reply>,
    /// The reply of the command behind them, or its arguments, if it has to wait.
    ran: Option<Result<RanCommand, Vec<Vec<u8>>>>,
}

/// Most commands whose writes are committed together.
const GATHERED_MAX: usize = 512;

/// What comes behind gathered commands.
enum NextCommand<'a> {
    /// No command that is there as a whole.
    Nothing,
    /// A command that is to be run by itself, and its length.
    Command(SmallVec<[Cow<'a, [u8]>; 6]>, usize),
    /// What is no command.
    Error(ProtocolError),
}

/// Commands at the begin of a buffer that write without a look at what was there.
struct Gathered<'a> {
    effects: Effects<'a>,
    replies: Vec<Reply>,
    /// The length of the commands in the buffer.
    len: usize,
    next: NextCommand<'a>,
}

/// Gathers the writes at the begin of `input`: one batch of them costs less than each by itself,
/// and one sync where there is one.
fn gather<'a>(
    input: &'a [u8],
    decoder: &mut Decoder,
    session: &mut ClientSession,
    shared: &'a ServerShared,
    blind: &'a Blind,
) -> Gathered<'a> {
    let (mut effects, mut replies, mut len) = (Effects::default(), Vec::new(), 0);
    let limits = Limits { argument_max: STRING_MAX, is_known: session.is_known(shared) };
    let next = loop {
        match decoder.decode(&input[len..], limits) {
            Err(error) => break NextCommand::Error(error),
            Ok(None) => {
                len += decoder.skip_empty();
                break NextCommand::Nothing;
            }
            Ok(Some((ClientRequest::Inline(words), of_command))) => {
                break NextCommand::Command(
                    words.into_iter().map(Cow::Owned).collect(),
                    of_command,
                );
            }
            Ok(Some((ClientRequest::Array(ranges), of_command))) => {
                let args: SmallVec<[&[u8]; 6]> =
                    ranges.iter().map(|range| &input[len..][range.clone()]).collect();
                let is_full = replies.len() >= GATHERED_MAX;
                let ran = match is_full {
                    true => None,
                    false => session.run_blind(shared, blind, &args, &mut effects),
                };
                let Some(reply) = ran else {
                    break NextCommand::Command(
                        args.into_iter().map(Cow::Borrowed).collect(),
                        of_command,
                    );
                };
                replies.push(reply);
                len += of_command;
            }
        }
    };
    Gathered { effects, replies, len, next }
}
