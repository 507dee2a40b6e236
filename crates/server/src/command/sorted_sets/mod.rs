//! Commands of sorted sets.

pub(super) mod stored;
mod span;
pub(super) mod members;
mod ranges;
mod pops;
mod combined;

pub use self::combined::{zdiff, zdiffstore, zinter, zintercard, zinterstore, zunion, zunionstore};
pub use self::members::{
    zadd, zcard, zincrby, zmscore, zrandmember, zrank, zrem, zrevrank, zscan, zscore,
};
pub use self::pops::{bzmpop, bzpopmax, bzpopmin, zmpop, zpopmax, zpopmin};
pub use self::ranges::{
    zcount, zlexcount, zrange, zrangebylex, zrangebyscore, zrangestore, zremrangebylex,
    zremrangebyrank, zremrangebyscore, zrevrange, zrevrangebylex, zrevrangebyscore,
};
