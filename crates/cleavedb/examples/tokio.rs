//! The database in an asynchronous program: calls may wait for the disk, so they run where waiting
//! is allowed, in `spawn_blocking`. Tasks that commit at the same time share a sync.
//!
//! `cargo run -p cleavedb --example tokio`

use cleavedb::{Bytes, Db, Options};
use tokio::task::{JoinSet, spawn_blocking};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A handle is cheap to clone and may go to another thread.
async fn put(db: &Db, key: String, value: String) -> Result<()> {
    let db = db.clone();
    Ok(spawn_blocking(move || db.put(key, value)).await??)
}

async fn get(db: &Db, key: String) -> Result<Option<Bytes>> {
    let db = db.clone();
    Ok(spawn_blocking(move || db.get(key)).await??)
}

async fn serve(db: Db) -> Result<()> {
    let mut tasks = JoinSet::new();
    for user in 0..100 {
        let db = db.clone();
        tasks.spawn(async move { put(&db, format!("user {user}"), "here".to_owned()).await });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    println!("user 99 is {:?}", get(&db, "user 99".to_owned()).await?);
    // A range or a transaction runs in one such call, from its begin to its end.
    let users = spawn_blocking(move || db.range(..).keys_only().count()).await?;
    println!("{users} users");
    Ok(())
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path().join("users.db"), Options::default())?;
    tokio::runtime::Runtime::new()?.block_on(serve(db))
}
