//! The search for a threshold of selective separation (HashKV, section 3.5): from which size on
//! values had better leave the index, on this disk.
//!
//! [`curve`] decides, [`search`] measures.

pub mod curve;
pub mod search;

pub use curve::{Curve, Pair, Row, Threshold};
pub use search::Search;
