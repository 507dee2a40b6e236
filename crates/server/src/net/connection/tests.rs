//! What a connection leaves behind, and what its replies wait for.

use std::io::{Read, Write};

use cleavedb::{Db, Durability, Options};
use cleavedb_storage_sim::faulty::{Fault, Op, Rule};
use cleavedb_storage_sim::{Faulty, Sim};

use super::*;
use crate::acl::Users;
use crate::config::{AppendFsync, Config};
use crate::exec::Store;
use crate::http::PageGuard;
use crate::net::Running;
use crate::observe::Observer;
use crate::topics::TopicKind;

#[tokio::test]
async fn a_panic_in_the_pool_leaves_nothing_of_its_client() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Db::open(dir.path(), Options::default()).unwrap(), 1).unwrap();
    let (config, observer) = (Config::new(dir.path()), Observer::new(Arc::default()));
    let shared = Arc::new(ServerShared::new(config, Users::new(None), store, observer));
    let (socket, _client) = tokio::net::UnixStream::pair().unwrap();
    let (pool, times) = (Handle::current(), shared.observer.worker());
    let rooms = Rooms { shared: shared.clone(), of_strangers: ClientBudget::new(0), pool, times };
    let mut connection = connected(Socket::Unix(socket), rooms).unwrap();
    let subscribe = vec![b"SUBSCRIBE".to_vec(), b"topic".to_vec()];
    connection.run_in_pool(subscribe).await.unwrap();
    assert_eq!(shared.topics.len(TopicKind::Channel), 1);
    let ran: io::Result<()> = connection.in_pool(|_, _| panic!("as a test wants it")).await;
    assert!(ran.is_err());
    drop(connection);
    assert_eq!((shared.topics.len(TopicKind::Channel), shared.clients.all().len()), (0, 0));
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
