//! The protocol of Redis: requests as they come in, and replies as they go out.

pub mod inline;
pub mod reply;
pub mod request;
