//! What the server does now, told each second to those that watch.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval};

use super::{Page, told};

/// Most that watch at once.
const WATCHERS_MAX: usize = 32;

/// How often watchers are told.
const PERIOD: Duration = Duration::from_secs(1);

/// The clients that watch.
#[derive(Clone)]
pub(super) struct Watchers(Arc<WatchedPage>);

struct WatchedPage {
    places: Arc<Semaphore>,
    /// What was told last, and when.
    told: Mutex<Option<(Instant, String)>>,
}

impl Default for Watchers {
    fn default() -> Self {
        let (places, told) = (Arc::new(Semaphore::new(WATCHERS_MAX)), Mutex::default());
        Self(Arc::new(WatchedPage { places, told }))
    }
}

impl Watchers {
    /// What the server does now; those that watch at about the same time are told the same.
    fn tell(&self, page: &Page) -> String {
        let mut told = self.0.told.lock();
        match &*told {
            Some((at, text)) if at.elapsed() < PERIOD / 2 => text.clone(),
            _ => told.insert((Instant::now(), told::now(page).to_string())).1.clone(),
        }
    }
}

/// A line of JSON each second, as an event stream.
pub(super) async fn stream(State(page): State<Page>) -> Response {
    let Ok(place) = page.watchers.0.places.clone().try_acquire_owned() else {
        let why = format!("{WATCHERS_MAX} watch already: close another page\n");
        return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    };
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let events = stream::unfold((page, ticks, place), async |(page, mut ticks, place)| {
        ticks.tick().await;
        let event = Event::default().data(page.watchers.tell(&page));
        Some((Ok::<_, Infallible>(event), (page, ticks, place)))
    });
    Sse::new(events).into_response()
}
