//! One client: commands of one kind that follow one another are run together, in the worker where
//! nothing waits, else in the pool.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use crate::resp::reply::{Protocol, Reply};
use crate::resp::request::{ClientRequest, Decoder, Limits};
use crate::store::RocksStore;

/// Bytes that a read asks for at least, as in the server.
const INPUT_MIN: usize = 16 << 10;

/// Most commands that are run together, as in the server.
const TOGETHER_MAX: usize = 128;

const LIMITS: Limits = Limits { argument_max: 64 << 20, is_known: true };

/// Commands that are run together, by where their arguments lie in the input.
enum Commands {
    /// Keys that are read.
    Gets(Vec<Range<usize>>),
    /// Keys that are written, and their values.
    Sets(Vec<[Range<usize>; 2]>),
    /// Any other command, with its reply.
    Other(Reply),
}

impl Commands {
    /// The command whose arguments lie in `input`.
    fn of(input: &[u8], args: Vec<Range<usize>>) -> Self {
        let name = args.first().map(|name| input[name.clone()].to_ascii_uppercase());
        match (name.as_deref().unwrap_or_default(), &args[..]) {
            (b"GET", [_, key]) => Self::Gets(vec![key.clone()]),
            (b"SET", [_, key, value]) => Self::Sets(vec![[key.clone(), value.clone()]]),
            (b"PING", [_]) => Self::Other(Reply::Status("PONG")),
            (b"CONFIG", _) => Self::Other(Reply::Array(Vec::new())),
            _ => Self::Other(Reply::error("ERR only GET, SET, PING and CONFIG are there")),
        }
    }

    /// Adds the command `next`, if it can be run together with these.
    fn join(&mut self, next: Self) -> bool {
        match (self, next) {
            (Self::Gets(keys), Self::Gets(next)) if keys.len() < TOGETHER_MAX => keys.extend(next),
            (Self::Sets(all), Self::Sets(next)) if all.len() < TOGETHER_MAX => all.extend(next),
            _ => return false,
        }
        true
    }

    /// The commands at the begin of `input`, and their length there; none if none is there as a
    /// whole.
    fn next(input: &[u8], decoder: &mut Decoder) -> io::Result<Option<(Self, usize)>> {
        let mut found: Option<(Self, usize)> = None;
        loop {
            let begin = found.as_ref().map_or(0, |found| found.1);
            let decoded = decoder.decode(&input[begin..], LIMITS);
            let decoded = decoded.map_err(|error| io::Error::other(error.text()))?;
            let Some((request, len)) = decoded else { return Ok(found) };
            let command = match request {
                ClientRequest::Array(args) => {
                    let moved = args.iter().map(|it| it.start + begin..it.end + begin);
                    Self::of(input, moved.collect())
                }
                ClientRequest::Inline(_) => Self::Other(Reply::error("ERR no lines of words")),
            };
            match &mut found {
                None => found = Some((command, len)),
                Some((commands, end)) => match commands.join(command) {
                    true => *end += len,
                    false => return Ok(found),
                },
            }
        }
    }
}

/// A client's connection.
struct Connection {
    input: BytesMut,
    output: BytesMut,
    store: Arc<RocksStore>,
    /// Where commands run that wait.
    pool: Handle,
}

/// Serves a client until it goes, or sends what is no command.
pub async fn serve(
    socket: std::net::TcpStream,
    store: Arc<RocksStore>,
    pool: Handle,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)?;
    let mut socket = TcpStream::from_std(socket)?;
    let mut it = Connection { input: BytesMut::new(), output: BytesMut::new(), store, pool };
    let mut decoder = Decoder::default();
    loop {
        while let Some((commands, len)) = Commands::next(&it.input, &mut decoder)? {
            it.run(commands, len).await?;
        }
        socket.write_all(&it.output).await?;
        it.output.clear();
        if it.input.is_empty() {
            (it.input, it.output) = (BytesMut::new(), BytesMut::new());
        }
        socket.readable().await?;
        let missing = decoder.wanted().unwrap_or_default().saturating_sub(it.input.len());
        it.input.reserve(missing.max(INPUT_MIN));
        match socket.try_read_buf(&mut it.input) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
}

impl Connection {
    /// Runs the commands that are the first `len` bytes of the input.
    async fn run(&mut self, commands: Commands, len: usize) -> io::Result<()> {
        let Self { input, output, store, pool } = self;
        let store = store.clone();
        let waits = match commands {
            Commands::Other(reply) => {
                reply.write(Protocol::Two, output);
                input.advance(len);
                return Ok(());
            }
            Commands::Gets(keys) => {
                let is_there =
                    |key: &&Range<usize>| store.get_resident(&input[(*key).clone()], output);
                let done = keys.iter().take_while(is_there).count();
                let input = input.split_to(len);
                if done == keys.len() {
                    return Ok(());
                }
                pool.spawn_blocking(move || {
                    let keys = keys[done..].iter().map(|key| &input[key.clone()]);
                    store.get(&keys.collect::<Vec<_>>())
                })
            }
            Commands::Sets(pairs) => {
                let input = input.split_to(len);
                if store.set(&input, &pairs, false, output) {
                    return Ok(());
                }
                pool.spawn_blocking(move || {
                    let mut replies = BytesMut::new();
                    store.set(&input, &pairs, true, &mut replies);
                    replies
                })
            }
        };
        output.unsplit(waits.await.map_err(io::Error::other)?);
        Ok(())
    }
}
