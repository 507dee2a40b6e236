//! The part of all accesses that meets a hot store, over time: it shows how fast a store follows
//! keys that become popular.

use super::{Figure, Style, Timeline, seconds, series};
use crate::report::chart::{Axes, lines};
use crate::report::collect::Group;
use crate::result::{HotSample, PhaseResult, Sample};

/// Percent of the accesses between one sample and the next that were of hot keys.
fn shares(run: &PhaseResult) -> Vec<(f64, f64)> {
    let samples: Vec<(f64, HotSample)> = run
        .samples
        .iter()
        .filter_map(|sample: &Sample| Some((sample.seconds, sample.hot?)))
        .collect();
    let between = |pair: &[(f64, HotSample)]| {
        let ((_, before), (at, now)) = (pair[0], pair[1]);
        let accesses = now.accesses.saturating_sub(before.accesses);
        let hits = now.hits.saturating_sub(before.hits);
        (accesses > 0).then(|| (at, 100.0 * hits as f64 / accesses as f64))
    };
    samples.windows(2).filter_map(between).collect()
}

/// The figure, if an engine of the group has a hot store.
pub(super) fn draw(group: &Group, workload: &str, style: &Style<'_>) -> Option<Figure> {
    let percent = |value: f64| format!("{value:.0}%");
    let timeline = Timeline::of(group, workload);
    let axes = Axes { x: &seconds, y: &percent, x_title: timeline.title(), logarithmic: false };
    let shares = |run: &PhaseResult| timeline.place(run, shares(run));
    let series = series(group, workload, style, &shares);
    series.iter().any(|series| !series.points.is_empty()).then(|| Figure {
        title: format!("{workload}: accesses of hot keys"),
        about: "Percent of the reads and writes between samples; higher is better".to_owned(),
        svg: lines(&series, &axes),
        command: group.command.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_that_of_the_accesses_between_two_samples() {
        let sample = |seconds, hot: Option<(u64, u64)>| Sample {
            seconds,
            hot: hot.map(|(accesses, hits)| HotSample { accesses, hits }),
            ..Sample::default()
        };
        let run = PhaseResult {
            samples: vec![
                sample(0.5, Some((100, 10))),
                sample(1.0, Some((200, 60))),
                sample(1.5, Some((200, 60))),
                sample(2.0, None),
                sample(2.5, Some((400, 60))),
            ],
            ..PhaseResult::default()
        };
        assert_eq!(shares(&run), [(1.0, 50.0), (2.5, 0.0)]);
    }
}
