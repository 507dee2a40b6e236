//! Both servers, and what goes over their sockets.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cleavedb_server::{Config, Running, start};
use tempfile::TempDir;

/// A server that does not answer for so long hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A reply, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A line with its first byte, also that of no bytes and of no array.
    Line(Vec<u8>),
    /// The first byte, and bytes of a length that stands before them.
    Bulk(u8, Vec<u8>),
    /// The first byte, and several replies.
    Many(u8, Vec<Value>),
}

impl Value {
    /// The reply at the begin of `bytes`, and its length; none if it is not there as a whole.
    fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let (line, mut at) = (&bytes[..end], end + 2);
        let count = || str::from_utf8(&line[1..]).unwrap().parse::<i64>().unwrap();
        let kind = line[0];
        match kind {
            b'$' | b'=' if count() >= 0 => {
                let content = bytes.get(at..at + count() as usize)?;
                bytes.get(at + content.len()..at + content.len() + 2)?;
                Some((Self::Bulk(kind, content.to_vec()), at + content.len() + 2))
            }
            b'*' | b'~' | b'>' | b'%' if count() >= 0 => {
                let mut items = Vec::new();
                for _ in 0..count() * if kind == b'%' { 2 } else { 1 } {
                    let (item, len) = Self::parse(&bytes[at..])?;
                    items.push(item);
                    at += len;
                }
                Some((Self::Many(kind, items), at))
            }
            _ => Some((Self::Line(line.to_vec()), at)),
        }
    }

    /// The replies of an array, a set, or a map.
    pub fn items(&self) -> Option<&[Self]> {
        if let Self::Many(_, items) = self { Some(items) } else { None }
    }

    /// The bytes of a bulk.
    pub fn bulk(&self) -> Option<&[u8]> {
        if let Self::Bulk(_, bytes) = self { Some(bytes) } else { None }
    }

    /// The number of an integer.
    pub fn integer(&self) -> Option<i64> {
        let Self::Line(line) = self else { return None };
        str::from_utf8(line.strip_prefix(b":")?).ok()?.parse().ok()
    }

    /// Whether this was published, and is no reply.
    pub fn is_message(&self) -> bool {
        let names: [&[u8]; 3] = [b"message", b"pmessage", b"smessage"];
        let name = self.items().and_then(|items| items.first()?.bulk());
        name.is_some_and(|name| names.contains(&name))
    }

    /// Whether a command was refused.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Line(line) if line[0] == b'-')
    }

    /// One line for people.
    pub fn shown(&self) -> String {
        match self {
            Self::Line(line) => line.escape_ascii().to_string(),
            Self::Bulk(kind, bytes) => {
                format!("{}{} \"{}\"", *kind as char, bytes.len(), bytes.escape_ascii())
            }
            Self::Many(kind, items) => {
                let items: Vec<_> = items.iter().map(Self::shown).collect();
                format!("{}[{}]", *kind as char, items.join(", "))
            }
        }
    }
}

/// A socket, whatever kind.
trait Socket: Read + Write + Send {}
impl<T: Read + Write + Send> Socket for T {}

/// A connection to a server.
pub struct Client {
    socket: Box<dyn Socket>,
    received: Vec<u8>,
}

impl Client {
    /// Sends bytes in pieces that end at `cuts`. A server may have closed the connection before.
    pub fn send(&mut self, bytes: &[u8], cuts: &[usize]) {
        let mut begin = 0;
        for end in cuts.iter().copied().chain([bytes.len()]) {
            let end = end.clamp(begin, bytes.len());
            let _ = self.socket.write_all(&bytes[begin..end]);
            if end < bytes.len() {
                // The server shall read what is there before the next piece comes.
                std::thread::sleep(Duration::from_micros(50));
            }
            begin = end;
        }
    }

    /// The next reply; none if the connection has ended.
    pub fn receive(&mut self) -> Option<Value> {
        let mut piece = [0; 64 << 10];
        loop {
            if let Some((value, len)) = Value::parse(&self.received) {
                self.received.drain(..len);
                return Some(value);
            }
            match self.socket.read(&mut piece) {
                Ok(0) => return None,
                Ok(len) => self.received.extend_from_slice(&piece[..len]),
                // A process was stopped and goes on: a read with a time limit is not restarted.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => return Some(Value::Line(format!("no reply: {error}").into())),
            }
        }
    }

    /// The reply to one command.
    pub fn call(&mut self, args: &[&[u8]]) -> Value {
        self.send(&array(args), &[]);
        self.receive().expect("the connection ended")
    }
}

/// A command in its usual form.
pub fn array<T: AsRef<[u8]>>(args: &[T]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for argument in args {
        let argument = argument.as_ref();
        bytes.extend(format!("${}\r\n", argument.len()).bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Our server, in this process.
pub struct Ours {
    running: Option<Running>,
    _dir: TempDir,
}

impl Ours {
    /// A server of a fresh store.
    pub fn start(password: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::new(dir.path().join("store"));
        config.listen = vec!["127.0.0.1:0".parse().unwrap()];
        config.requirepass = password.map(str::to_owned);
        Self { running: Some(start(config).unwrap()), _dir: dir }
    }

    fn address(&self) -> SocketAddr {
        self.running.as_ref().unwrap().addresses()[0]
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        let socket = TcpStream::connect(self.address()).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { socket: Box::new(socket), received: Vec::new() }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        let wrong = running.audit();
        running.stop();
        let stopped = running.wait();
        if !std::thread::panicking() {
            assert_eq!(wrong.unwrap(), Vec::<String>::new());
            stopped.unwrap();
        }
    }
}

/// Debian's server, in a process of its own that ends with this value.
pub struct Theirs {
    child: Child,
    socket: PathBuf,
    _dir: TempDir,
}

impl Theirs {
    /// A server that keeps nothing, with our limit of strings; none without the program.
    pub fn start(password: Option<&str>) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no"]);
        command.args(["--proto-max-bulk-len", "64mb", "--unixsocket"]).arg(&socket);
        // Small sorted sets have an order for each text; what large ones have is drawn.
        command.args(["--zset-max-listpack-value", "1000000"]);
        command.args(["--requirepass", password.unwrap_or_default()]);
        let child = command.current_dir(&dir).stdout(Stdio::null()).spawn();
        let Ok(child) = child else {
            println!("NOT CHECKED: there is no redis-server");
            return None;
        };
        let begun = Instant::now();
        let theirs = Self { child, socket, _dir: dir };
        while UnixStream::connect(&theirs.socket).is_err() {
            assert!(begun.elapsed() < PATIENCE, "redis-server does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(theirs)
    }

    fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection to each of both servers.
pub struct Pair {
    /// To ours.
    pub ours: Client,
    /// To Redis.
    pub theirs: Client,
}

impl Pair {
    /// A new connection to each.
    pub fn new(ours: &Ours, theirs: &Theirs) -> Self {
        let ours = ours.client();
        let socket = UnixStream::connect(theirs.socket()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { ours, theirs: Client { socket: Box::new(socket), received: Vec::new() } }
    }

    /// The replies of both to one command.
    pub fn call(&mut self, args: &[&[u8]]) -> [Value; 2] {
        [self.ours.call(args), self.theirs.call(args)]
    }
}
