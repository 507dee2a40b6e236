//! What a connection leaves behind, and what its replies wait for.

use std::io::{Read, Write};

use cleavedb::{Db, Durability, Options};
use cleavedb_storage_sim::faulty::{Fault, Op, Rule};
use cleavedb_storage_sim::{Faulty, Sim};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::*;
use crate::acl::Users;
use crate::config::{AppendFsync, Config};
use crate::exec::Store;
use crate::http::PageGuard;
use crate::net::Running;
use crate::observe::Observer;
use crate::topics::TopicKind;

/// What the clients of a store in a directory share.
fn shared(dir: &tempfile::TempDir, appendfsync: AppendFsync) -> Arc<ServerShared> {
    let store = Store::open(Db::open(dir.path(), Options::default()).unwrap(), 1).unwrap();
    let config = Config { appendfsync, ..Config::new(dir.path()) };
    let observer = Observer::new(Arc::default());
    Arc::new(ServerShared::new(config, Users::new(None), store, observer))
}

/// A connection, and its other end.
fn connect(shared: &Arc<ServerShared>) -> (Connection, UnixStream) {
    let (socket, client) = UnixStream::pair().unwrap();
    let (pool, times) = (Handle::current(), shared.observer.worker());
    let rooms = Rooms { shared: shared.clone(), of_strangers: ClientBudget::new(0), pool, times };
    (connected(Socket::Unix(socket), rooms).unwrap(), client)
}

#[tokio::test]
async fn who_reads_waits_for_the_sync_of_what_another_client_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(&dir, AppendFsync::Always);
    let mut clients = [connect(&shared), connect(&shared)];
    for ((connection, client), line) in clients.iter_mut().zip(["SET key value", "GET key"]) {
        client.write_all(format!("{line}\r\n").as_bytes()).await.unwrap();
        connection.socket.readable().await.unwrap();
        assert!(connection.read().await.unwrap() && connection.run_all().await.unwrap());
        assert!(timeout(Duration::from_millis(50), connection.flush()).await.is_err(), "{line}");
    }
    let syncing = shared.clone();
    let syncing = std::thread::spawn(move || syncing.syncer.run(syncing.store.db()));
    for ((connection, client), reply) in clients.iter_mut().zip(["+OK\r\n", "$5\r\nvalue\r\n"]) {
        connection.flush().await.unwrap();
        let mut replied = vec![0; reply.len()];
        client.read_exact(&mut replied).await.unwrap();
        assert_eq!(replied, reply.as_bytes());
    }
    shared.syncer.end();
    syncing.join().unwrap();
}

#[tokio::test]
async fn a_panic_in_the_pool_leaves_nothing_of_its_client() {
    let dir = tempfile::tempdir().unwrap();
    let shared = shared(&dir, AppendFsync::default());
    let (mut connection, _client) = connect(&shared);
    let subscribe = vec![b"SUBSCRIBE".to_vec(), b"topic".to_vec()];
    connection.run_in_pool(subscribe).await.unwrap();
    assert_eq!(shared.topics.len(TopicKind::Channel), 1);
    let ran: io::Result<()> = connection.in_pool(|_, _| panic!("as a test wants it")).await;
    assert!(ran.is_err());
    drop(connection);
    assert_eq!((shared.topics.len(TopicKind::Channel), shared.clients.all().len()), (0, 0));
}

/// Half of the pages of a simulated disk are not in memory.
#[tokio::test]
async fn reads_that_wait_are_run_together_and_answered_in_order() {
    let options = Options { durability: Durability::Os, ..Options::default() };
    let db = Db::open_in(Arc::new(Sim::new()), options, 7).unwrap();
    let shared = Arc::new(ServerShared::of(db));
    let (mut connection, mut client) = connect(&shared);
    let mut asked = async |commands: &[Vec<String>]| {
        let word = |word: &String| format!("${}\r\n{word}\r\n", word.len());
        let sent = |words: &Vec<String>| {
            format!("*{}\r\n{}", words.len(), words.iter().map(word).collect::<String>())
        };
        let sent = commands.iter().map(sent).collect::<String>();
        client.write_all(sent.as_bytes()).await.unwrap();
        connection.socket.readable().await.unwrap();
        assert!(connection.read().await.unwrap() && connection.run_all().await.unwrap());
        String::from_utf8(connection.output.split().to_vec()).unwrap()
    };
    let words = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let value = |i: usize| format!("{i}-{}", "v".repeat(300));
    let sets: Vec<_> = (0..40).map(|i| words(format!("SET key{i} {}", value(i)))).collect();
    assert_eq!(asked(&sets).await, "+OK\r\n".repeat(40));
    asked(&[words("LPUSH list element".into())]).await;
    shared.store.db().flush().unwrap();
    let mut gets: Vec<_> = (0..40).map(|i| words(format!("GET key{i}"))).collect();
    gets.insert(10, words("GET none".into()));
    gets.insert(20, words("GET list".into()));
    gets.insert(30, words("PING".into()));
    let mut replies: Vec<_> =
        (0..40).map(|i| format!("${}\r\n{}\r\n", value(i).len(), value(i))).collect();
    replies.insert(10, "$-1\r\n".into());
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    replies.insert(20, wrong.into());
    replies.insert(30, "+PONG\r\n".into());
    let (ran, in_pool) = (&shared.observer.commands, &shared.observer.in_pool);
    let before = [ran, in_pool].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(asked(&gets).await, replies.concat());
    assert_eq!(ran.load(Ordering::Relaxed) - before[0], 43);
    let visits = in_pool.load(Ordering::Relaxed) - before[1];
    assert!((1..5).contains(&visits), "{visits}");
}

#[test]
fn a_reply_waits_for_the_sync_that_was_chosen_before_its_command() {
    let faulty = Arc::new(Faulty::over(&Sim::new()));
    let options = Options { durability: Durability::Os, ..Options::default() };
    let shared = Arc::new(ServerShared::of(Db::open_in(faulty.clone(), options, 7).unwrap()));
    let change = |config: &mut Config| {
        config.listen = vec!["127.0.0.1:0".parse().unwrap()];
        config.appendfsync = AppendFsync::Always;
        Ok::<(), ()>(())
    };
    shared.change_config(change).unwrap();
    let guard = PageGuard::of(&shared.config.load(), &shared.users).unwrap();
    let running = Running::start(shared, guard).unwrap();
    let replies = |lines: &str| {
        let mut client = std::net::TcpStream::connect(running.addresses()[0]).unwrap();
        client.write_all(lines.as_bytes()).unwrap();
        let mut replies = String::new();
        client.read_to_string(&mut replies).unwrap();
        replies
    };
    let lines = "SET key value\r\nCLEAVE.DURABILITY OS\r\nQUIT\r\n";
    assert_eq!(replies(lines), "+OK\r\n".repeat(3));
    faulty.fail_matching(Rule::op(Op::Sync), Fault::Io);
    assert_eq!(replies(lines), "");
    running.stop();
    running.wait().unwrap_err();
}
