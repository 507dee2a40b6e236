//! The report of result files: rows with medians, spread and ratios, as text, as Markdown and as a
//! page with charts.

pub mod stats;
pub mod metric;
pub mod collect;
pub mod doubt;
pub mod tables;
pub mod features;
pub mod overview;
pub mod summary;
pub mod papers;
pub mod text;
pub mod chart;
pub mod brief;
pub mod figures;
pub mod sweeps;
pub mod html;

pub use collect::{Results, collect};
