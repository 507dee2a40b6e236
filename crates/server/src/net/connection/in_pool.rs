//! Commands that wait: they are run in a thread of the pool, which has the session meanwhile.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Buf;
use tokio::time::sleep;

use super::Connection;
use crate::net::gathered::{gather, run_with_reads};
use crate::resp::reply::Reply;
use crate::resp::request::Decoder;
use crate::session::{ClientSession, RanCommand, Waits};
use crate::shared::ServerShared;

/// How long a command rests in front of locks that another one holds for long, without a thread.
const LOCKED_REST: Duration = Duration::from_millis(10);

impl Connection {
    /// Runs writes that are committed together in a thread that may wait.
    pub(super) async fn gather_in_pool(&mut self) -> io::Result<()> {
        let mut input = std::mem::take(&mut self.input);
        let ran = self.in_pool(move |session, shared| {
            let (replies, len) = {
                let gathered = gather(&input, &mut Decoder::default(), session, shared, true)?;
                (gathered.replies, gathered.len)
            };
            input.advance(len);
            Ok((replies, std::mem::take(&mut input)))
        });
        let replies;
        (replies, self.input) = ran.await?;
        self.add_all(&replies);
        Ok(())
    }

    /// Runs a command in a thread that may wait, and reads with those that come behind.
    pub(super) async fn run_in_pool(&mut self, args: Vec<Vec<u8>>) -> io::Result<RanCommand> {
        let mut input = std::mem::take(&mut self.input);
        let ran = self.in_pool(move |session, shared| {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let ran = run_with_reads(&args, &input, session, shared)?;
            input.advance(ran.len);
            Ok((ran.replies, ran.last, std::mem::take(&mut input)))
        });
        let (replies, last);
        (replies, last, self.input) = ran.await?;
        self.add_all(&replies);
        Ok(last)
    }

    /// Adds the replies of commands that were run together to what is sent.
    fn add_all(&mut self, replies: &[Reply]) {
        self.add(replies);
        self.shared.observer.commands.fetch_add(replies.len() as u64, Ordering::Relaxed);
    }

    /// Runs `job` with the session in a thread that may wait; again and again, if others hold its
    /// locks for long.
    pub(super) async fn in_pool<T, J>(&mut self, mut job: J) -> io::Result<T>
    where
        T: Send + 'static,
        J: FnMut(&mut ClientSession, &Arc<ServerShared>) -> Result<T, Waits> + Send + 'static,
    {
        self.shared.observer.in_pool.fetch_add(1, Ordering::Relaxed);
        loop {
            let away = || io::Error::other("away");
            let (mut session, shared) =
                (self.session.take().ok_or_else(away)?, self.shared.clone());
            let ran = self.pool.spawn_blocking(move || {
                // A panic ends this connection, which takes leave for its session then.
                let ran = catch_unwind(AssertUnwindSafe(|| job(&mut session, &shared)));
                (session, job, ran)
            });
            let (session, same, ran) = ran.await.map_err(io::Error::other)?;
            (self.session, job) = (Some(session), same);
            match ran {
                Ok(Ok(ran)) => return Ok(ran),
                Ok(Err(Waits)) => {}
                Err(_) => return Err(io::Error::other("a command has panicked")),
            }
            tokio::select! {
                () = sleep(LOCKED_REST) => {}
                () = self.client.killed.cancelled() => {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
        }
    }
}
