//! The page: what people and programs that watch the server see, over HTTP.
//!
//! It has a thread with a runtime of its own, so that a busy server still says how it is.

mod guard;
mod told;
mod live;
mod bytes;
mod value;
mod keys;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::{Form, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use self::guard::PageGuard;

use self::guard::{ShownToken, protect};
use self::live::Watchers;
use crate::observe::prometheus;
use crate::observe::times::WorkerTimes;
use crate::shared::ServerShared;

/// Most connections at once, and most requests that read keys at once.
const CONNECTIONS_MAX: usize = 128;
const TURNS: usize = 4;

/// Most bytes and lines of the head of a request.
const HEAD_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

/// How long a request may take to arrive, and then to be answered.
const HEAD_TIME: Duration = Duration::from_secs(10);
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// How long a client may take nothing of its answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What every request needs.
#[derive(Clone)]
struct Page {
    shared: Arc<ServerShared>,
    guard: PageGuard,
    watchers: Watchers,
    /// Turns of those that read keys or change them: a value is in memory as a whole.
    turns: Arc<Semaphore>,
    /// Where calls by the page are counted.
    times: Arc<WorkerTimes>,
}

impl Page {
    fn has_database(&self, number: usize) -> bool {
        number < self.shared.store.databases()
    }

    /// Whether keys and values are shown: not if clients may do less without a password, and the
    /// page asks for no token.
    fn browses(&self) -> bool {
        self.guard.browses && self.guard.may_show(&self.shared.users)
    }

    /// Whether keys are changed and clients sent away.
    fn edits(&self) -> bool {
        self.guard.edits && self.guard.may_show(&self.shared.users)
    }
}

/// The page of a server, which runs until it is ended.
pub struct HttpServer {
    address: SocketAddr,
    ended: CancellationToken,
    thread: JoinHandle<()>,
}

impl HttpServer {
    /// Listens at an address.
    pub fn start(
        address: SocketAddr,
        guard: PageGuard,
        shared: Arc<ServerShared>,
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        let (address, ended) = (listener.local_addr()?, CancellationToken::new());
        let (watchers, turns) = (Watchers::default(), Arc::new(Semaphore::new(TURNS)));
        let (guard, times) = (guard.at(address.port()), shared.observer.worker());
        let page = Page { shared, guard, watchers, turns, times };
        let until = ended.clone();
        let thread =
            std::thread::Builder::new().name("cleave-http".to_owned()).spawn(move || {
                runtime.block_on(serve(listener, router(page), until));
                runtime.shutdown_background();
            })?;
        Ok(Self { address, ended, thread })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it, with all its connections.
    pub fn end(self) {
        self.ended.cancel();
        // A panic was reported by its thread.
        let _ = self.thread.join();
    }
}

/// Accepts connections up to the most at once; those above are closed.
async fn serve(listener: TcpListener, router: Router, ended: CancellationToken) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ended.cancelled() => return,
        };
        let Ok((socket, _)) = accepted else {
            // No descriptor is left, or the client has gone.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        // One that takes nothing of its answer is left; where this cannot be said, it stays.
        let _ = sockopt::set_tcp_user_timeout(&socket, PATIENCE.as_millis() as u32);
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let mut connection = http1::Builder::new();
            connection.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
            connection.max_buf_size(HEAD_MAX).max_headers(HEADERS_MAX);
            // A client that has gone is no error of the server.
            let _ = connection.serve_connection(TokioIo::new(socket), service).await;
            drop(place);
        });
    }
}

fn router(page: Page) -> Router {
    let html = "text/html; charset=utf-8";
    Router::new()
        .route("/", file(html, include_str!("page/index.html")))
        .route("/login", file(html, include_str!("page/login.html")).post(login))
        .route("/script.js", file("text/javascript", include_str!("page/script.js")))
        .route("/style.css", file("text/css", include_str!("page/style.css")))
        .route("/icon.svg", file("image/svg+xml", include_str!("page/icon.svg")))
        .route("/health/live", get(async || "live\n"))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics))
        .route("/api/live", get(live::stream))
        .route("/api/keys", get(keys::list))
        .route("/api/key", get(keys::show))
        .route("/api/edit", post(keys::edit))
        .layer(from_fn_with_state(page.clone(), guarded))
        .with_state(page)
}

fn file(kind: &'static str, text: &'static str) -> MethodRouter<Page> {
    get(async move || ([(CONTENT_TYPE, kind)], text))
}

/// Lets a request through if the guard does, for a limited time.
async fn guarded(State(page): State<Page>, request: Request, next: Next) -> Response {
    let late = || (StatusCode::REQUEST_TIMEOUT, "the answer took too long\n").into_response();
    protect(match page.guard.refusal(&request) {
        Some(refusal) => refusal,
        None => {
            let answer = tokio::time::timeout(ANSWER_TIME, next.run(request));
            answer.await.unwrap_or_else(|_| late())
        }
    })
}

async fn login(State(page): State<Page>, Form(shown): Form<ShownToken>) -> Response {
    page.guard.login(Some(shown))
}

/// Whether clients are served: not if writes are refused after a failure, or the server stops.
async fn ready(State(page): State<Page>) -> Response {
    if page.shared.stop.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the server stops\n").into_response();
    }
    match page.shared.store.db().metrics().poisoned {
        None => "ready\n".into_response(),
        Some(why) => {
            let why = format!("writes are refused: {why}\n");
            (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
        }
    }
}

async fn metrics(State(page): State<Page>) -> Response {
    let text = prometheus::text(&page.shared.figures());
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, kind)], text).into_response()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use cleavedb::{Db, Durability, Options};
    use cleavedb_storage_sim::faulty::{Fault, Op, Rule};
    use cleavedb_storage_sim::{Faulty, Sim};

    use super::*;

    #[test]
    fn a_store_that_refuses_writes_is_alive_but_not_ready() {
        let faulty = Arc::new(Faulty::over(&Sim::new()));
        let options = Options { durability: Durability::Os, ..Options::default() };
        let db = Db::open_in(faulty.clone(), options, 7).unwrap();
        let shared = Arc::new(ServerShared::of(db));
        let guard = PageGuard::of(&shared.config.load(), &shared.users).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let page = HttpServer::start(any, guard, shared.clone()).unwrap();
        let answer = |path: &str| {
            let mut client = TcpStream::connect(page.address()).unwrap();
            let lines = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
            client.write_all(lines.as_bytes()).unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            answer
        };
        let db = shared.store.db();
        db.put("key", "value").unwrap();
        assert!(answer("/health/ready").ends_with("\r\n\r\nready\n"));
        faulty.fail_matching(Rule::op(Op::Sync), Fault::Io);
        db.sync().unwrap_err();
        faulty.heal();
        let ready = answer("/health/ready");
        assert!(ready.starts_with("HTTP/1.0 503"), "{ready}");
        assert!(ready.contains("writes are refused: "), "{ready}");
        assert!(answer("/health/live").starts_with("HTTP/1.0 200"));
        let metrics = answer("/metrics");
        for line in ["cleavedb_poisoned 1", "cleavedb_server_advice{name=\"poisoned\"} 1"] {
            assert!(metrics.contains(&format!("\n{line}\n")), "{line}");
        }
        page.end();
    }
}
