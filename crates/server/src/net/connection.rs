//! One client: what it sends is decoded in place and run in order, and replies go out together.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Buf, BytesMut};
use smallvec::SmallVec;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use crate::command::STRING_MAX;
use crate::resp::reply::Reply;
use crate::resp::request::{Decoder, Limits, Request};
use crate::session::{Session, Waits};
use crate::shared::Shared;

/// Bytes that a read asks for at least.
const INPUT_MIN: usize = 16 << 10;

/// Bytes of replies that are sent before the next command runs.
const OUTPUT_MAX: usize = 1 << 20;

/// Tells a client that it is not let in. It is not waited for.
pub(super) fn refuse(mut socket: std::net::TcpStream, why: &'static str) {
    let mut out = BytesMut::new();
    Reply::error(why).write(Default::default(), &mut out);
    let _ = socket.write(&out);
}

/// A client.
struct Connection {
    socket: TcpStream,
    shared: Arc<Shared>,
    pool: Handle,
    input: BytesMut,
    output: BytesMut,
    decoder: Decoder,
    /// Away while a command is in the pool.
    session: Option<Session>,
}

/// Serves a client until it goes, or the server stops.
pub(super) async fn serve(
    socket: std::net::TcpStream,
    shared: Arc<Shared>,
    pool: Handle,
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = TcpStream::from_std(socket)?;
    let id = shared.counts.connections.fetch_add(1, Ordering::Relaxed) + 1;
    let session = Some(Session::new(&shared, id));
    shared.counts.clients.fetch_add(1, Ordering::Relaxed);
    let mut connection = Connection {
        socket,
        shared,
        pool,
        input: BytesMut::new(),
        output: BytesMut::new(),
        decoder: Decoder::default(),
        session,
    };
    let served = connection.serve().await;
    if let Some(session) = &mut connection.session {
        session.end_transaction(&connection.shared);
    }
    connection.shared.counts.clients.fetch_sub(1, Ordering::Relaxed);
    served
}

impl Connection {
    async fn serve(&mut self) -> io::Result<()> {
        loop {
            let goes_on = self.run_all().await?;
            self.flush().await?;
            if !goes_on {
                return self.socket.shutdown().await;
            }
            let wanted = self.decoder.wanted().unwrap_or_default();
            let missing = wanted.saturating_sub(self.input.len());
            self.input.reserve(missing.max(INPUT_MIN));
            tokio::select! {
                read = self.socket.read_buf(&mut self.input) => if read? == 0 { return Ok(()) },
                () = self.shared.stop.cancelled() => return Ok(()),
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            self.socket.write_all(&self.output).await?;
            self.output.clear();
        }
        Ok(())
    }

    /// Runs the commands that are there as a whole. Returns whether the connection goes on.
    async fn run_all(&mut self) -> io::Result<bool> {
        loop {
            let Some(session) = &mut self.session else { return Ok(false) };
            let limits = Limits { argument_max: STRING_MAX, is_known: session.is_known() };
            let decoded = self.decoder.decode(&self.input, limits);
            let (ran, len) = match decoded {
                Ok(None) => {
                    self.input.advance(self.decoder.skip_empty());
                    return Ok(true);
                }
                Err(error) => {
                    Reply::error(format!("ERR {}", error.text()))
                        .write(session.protocol, &mut self.output);
                    return Ok(false);
                }
                Ok(Some((request, len))) => {
                    let args: SmallVec<[&[u8]; 8]> = match &request {
                        Request::Array(ranges) => {
                            ranges.iter().map(|range| &self.input[range.clone()]).collect()
                        }
                        Request::Inline(words) => words.iter().map(Vec::as_slice).collect(),
                    };
                    let ran = session.run(&self.shared, &args, false);
                    (ran.map_err(|Waits| args.iter().map(|it| it.to_vec()).collect::<Vec<_>>()), len)
                }
            };
            self.input.advance(len);
            self.shared.counts.commands.fetch_add(1, Ordering::Relaxed);
            let reply = match ran {
                Ok(reply) => reply,
                Err(args) => self.run_in_pool(args).await?,
            };
            let Some(session) = &mut self.session else { return Ok(false) };
            reply.write(session.protocol, &mut self.output);
            if session.is_over {
                return Ok(false);
            }
            if self.output.len() > OUTPUT_MAX {
                self.flush().await?;
            }
        }
    }

    /// Runs a command in a thread that may wait, with the session.
    async fn run_in_pool(&mut self, args: Vec<Vec<u8>>) -> io::Result<Reply> {
        let Some(mut session) = self.session.take() else { return Err(io::Error::other("away")) };
        self.shared.counts.in_pool.fetch_add(1, Ordering::Relaxed);
        let shared = self.shared.clone();
        let ran = self.pool.spawn_blocking(move || {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let ran = session.run(&shared, &args, true);
            (session, ran)
        });
        // A panic there ends this connection, and its session with it.
        let (session, ran) = ran.await.map_err(io::Error::other)?;
        self.session = Some(session);
        Ok(ran.unwrap_or_else(|Waits| Reply::error("ERR the command waits where it may not")))
    }
}
