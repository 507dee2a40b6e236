//! What the server does now, told each second to those that watch.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval};

use super::Page;

/// Most that watch at once.
const WATCHERS_MAX: usize = 32;

/// How often watchers are told.
const PERIOD: Duration = Duration::from_secs(1);

/// The places of those that watch.
#[derive(Clone)]
pub(super) struct Watchers(Arc<Semaphore>);

impl Default for Watchers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(WATCHERS_MAX)))
    }
}

/// A line of JSON each second, as an event stream.
pub(super) async fn stream(State(page): State<Page>) -> Response {
    let Ok(place) = page.watchers.0.clone().try_acquire_owned() else {
        let why = format!("{WATCHERS_MAX} watch already: close another page\n");
        return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    };
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let events = stream::unfold((page, ticks, place), async |(page, mut ticks, place)| {
        ticks.tick().await;
        let event = Event::default().data(figures(&page).to_string());
        Some((Ok::<_, Infallible>(event), (page, ticks, place)))
    });
    Sse::new(events).into_response()
}

fn figures(page: &Page) -> Value {
    let counts = &page.shared.counts;
    let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
    json!({
        "uptime": page.shared.uptime().as_secs(),
        "clients": number(&counts.clients),
        "commands": number(&counts.commands),
        "browses": page.guard.browses,
        "edits": page.guard.edits,
    })
}
