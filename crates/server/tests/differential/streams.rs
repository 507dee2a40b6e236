//! Streams: scripts of one client and of several, played on both servers.

mod entries;
mod groups;
mod waits;
