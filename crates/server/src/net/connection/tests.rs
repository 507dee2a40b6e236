//! What a connection leaves behind.

use cleavedb::{Db, Options};

use super::*;
use crate::acl::Users;
use crate::config::Config;
use crate::exec::Store;
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
    let [budget, of_strangers] = [(); 2].map(|()| ClientBudget::new(0));
    let rooms = Rooms { shared: shared.clone(), budget, of_strangers, pool, times };
    let mut connection = connected(Socket::Unix(socket), rooms).unwrap();
    let subscribe = vec![b"SUBSCRIBE".to_vec(), b"topic".to_vec()];
    connection.run_in_pool(subscribe).await.unwrap();
    assert_eq!(shared.topics.len(TopicKind::Channel), 1);
    let ran: io::Result<()> = connection.in_pool(|_, _| panic!("as a test wants it")).await;
    assert!(ran.is_err());
    drop(connection);
    assert_eq!((shared.topics.len(TopicKind::Channel), shared.clients.all().len()), (0, 0));
}
