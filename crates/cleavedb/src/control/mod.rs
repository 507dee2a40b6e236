//! What keeps threads in step, and what is counted and told: metrics, events, pace, throttle.

pub(crate) mod debug;
pub(crate) mod flush_parts;
pub(crate) mod flush_pace;
pub(crate) mod progress;
pub(crate) mod totals;
pub(crate) mod latency;
pub(crate) mod metrics;
pub(crate) mod failures;
pub(crate) mod pace;
pub(crate) mod events;
pub(crate) mod poison;
pub(crate) mod gate;
pub(crate) mod publish;
pub(crate) mod compressor;
pub(crate) mod throttle;
