//! The figures of a report: which quantity of which rows, drawn how, and what its title finds.

mod hot_share;

use std::cmp::Ordering;

use crate::counters::CLASSES;
use crate::report::chart::{Axes, Bars, Paint, Series, Strip, bars, lines, named};
use crate::report::collect::{Group, Row};
use crate::report::metric::{
    CPU, HARNESS, LIMITED, Metric, P99, READ_DEVICE, RESIDENT, RUNNING, SETTLED, SPACE_PEAK,
    WRITE_DEVICE,
};
use crate::report::stats::Spread;
use crate::report::tables::class_amplification;
use crate::result::{PhaseResult, Sample};
use crate::units::{bytes, short};

/// A chart with its words.
pub struct Figure {
    /// What it shows, as a finding.
    pub title: String,
    /// The quantity, its unit, and which direction is better.
    pub about: String,
    /// The drawing.
    pub svg: String,
    /// The command that repeats it.
    pub command: String,
}

/// What figures share: the engines in their colours, and whom they are compared to.
pub struct Style<'a> {
    /// All engines of the report; the place in this list is the colour.
    pub engines: &'a [String],
    /// Which of them tell what they mean to stay within.
    pub budgeted: &'a [bool],
    /// The engine to compare with.
    pub baseline: &'a str,
}

impl Style<'_> {
    fn number(&self, engine: &str) -> usize {
        self.engines.iter().position(|known| known == engine).unwrap_or_default()
    }

    /// The colour of `engine`.
    pub fn paint(&self, engine: &str) -> Paint {
        Paint::Engine(self.number(engine))
    }
}

/// A section of figures: its title, and what to draw.
pub struct Kind {
    /// Title of the section.
    pub title: &'static str,
    /// Fragment of its address in the page.
    pub id: &'static str,
    /// What to know before reading it.
    pub about: &'static str,
    /// Draws it for a workload of a group; `None` if nothing was measured.
    pub draw: fn(&Group, &str, &Style<'_>) -> Option<Figure>,
}

/// The sections, in their order.
pub const KINDS: &[Kind] = &[
    Kind {
        title: "Throughput",
        id: "throughput",
        about: "Full colour: operations a second while clients run. Pale: the time until no \
                background work is left is counted. The thin line reaches from the least to the \
                most of the repetitions.",
        draw: throughput,
    },
    Kind {
        title: "Bytes written at the device",
        id: "written",
        about: "From the block device's own counters: the log, the file system and every other \
                user of the device are in it.",
        draw: |group, workload, style| quantity(group, workload, style, &WRITE_DEVICE),
    },
    Kind {
        title: "Bytes written by class",
        id: "classes",
        about: "As each engine counts them itself; engines without such counters are left out.",
        draw: by_class,
    },
    Kind {
        title: "Bytes read at the device",
        id: "read",
        about: "From the block device's own counters.",
        draw: |group, workload, style| quantity(group, workload, style, &READ_DEVICE),
    },
    Kind {
        title: "Space over time",
        id: "space",
        about: "Blocks on disk, sampled while it ran; the broken line is the live data at the end, \
                dots are the budget that an engine means to stay within.",
        draw: space,
    },
    Kind {
        title: "Throughput over time",
        id: "over-time",
        about: "Operations a second between samples; it shows stalls.",
        draw: over_time,
    },
    Kind {
        title: "Hot store over time",
        id: "hot-share",
        about: "Part of the reads and writes between samples whose key was hot; engines without a \
                hot store are left out.",
        draw: hot_share::draw,
    },
    Kind {
        title: "Latency",
        id: "latency",
        about: "The scale is logarithmic: each line of the grid is ten times the one below.",
        draw: latency,
    },
    Kind {
        title: "Processor time",
        id: "cpu",
        about: "User and system time of all threads, until settled.",
        draw: |group, workload, style| quantity(group, workload, style, &CPU),
    },
    Kind {
        title: "Memory",
        id: "memory",
        about: "Full colour: resident memory of the process. Pale: with the page cache, under the \
                limit.",
        draw: memory,
    },
    Kind {
        title: "Cost of the harness",
        id: "harness",
        about: "Measured with an engine that does nothing; up to 10% is tolerable.",
        draw: |group, workload, style| quantity(group, workload, style, &HARNESS),
    },
];

/// What the best engine does, and how it compares.
fn finding(group: &Group, workload: &str, style: &Style<'_>, metric: &Metric) -> Option<String> {
    let value = |row: &&Row| row.spread(metric).map(|spread| spread.median);
    let rows = || group.of(workload).filter(|row| !row.wrong && value(row).is_some());
    let order = |a: &&Row, b: &&Row| value(a).partial_cmp(&value(b)).unwrap_or(Ordering::Equal);
    let best = if metric.more_is_better { rows().max_by(order)? } else { rows().min_by(order)? };
    let reached = format!("{}{}", (metric.show)(value(&best)?), metric.unit);
    let (engine, other) = (&best.engine, style.baseline);
    let meets = |row: &Row| row.engine != *engine && within_spread(best, row, metric);
    let compared = group
        .ratio(best, other, metric)
        .map_or(String::new(), |ratio| format!(", {} times {other}", short(ratio)));
    let equals: Vec<_> = rows().filter(|row| meets(row)).map(|row| &*row.engine).collect();
    if !equals.is_empty() {
        let engines = [&[&**engine], &equals[..]].concat().join(" and ");
        return Some(format!("{workload}: {engines} within their spread, {reached}"));
    }
    let word = if metric.more_is_better { "most" } else { "least" };
    let word = if rows().count() == 1 { "alone" } else { word };
    Some(format!("{workload}: {engine} {word}, {reached}{compared}"))
}

/// Whether neither row is ahead of the other.
fn within_spread(one: &Row, other: &Row, metric: &Metric) -> bool {
    let [Some(one), Some(other)] = [one, other].map(|row| row.spread(metric)) else { return false };
    one.meets(&other)
}

fn about(metric: &Metric) -> String {
    let better = if metric.more_is_better { "higher" } else { "lower" };
    let mut letters = metric.about.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}; {better} is better", letters.as_str())
}

fn strip(row: &Row, style: &Style<'_>, metric: &Metric, pale: bool) -> Option<Strip> {
    let spread = row.spread(metric)?;
    let wrong = if row.wrong { " WRONG" } else { "" };
    Some(Strip {
        parts: vec![(style.paint(&row.engine), spread.median)],
        pale,
        extremes: (spread.count > 1).then_some((spread.least, spread.most)),
        text: format!("{}{wrong}", (metric.show)(spread.median)),
    })
}

fn figure(
    group: &Group,
    workload: &str,
    style: &Style<'_>,
    (main, judged): (&Metric, &Metric),
    strips: &dyn Fn(&Row) -> Vec<Strip>,
) -> Option<Figure> {
    let rows: Vec<_> = group
        .of(workload)
        .map(|row| Bars { label: row.engine.clone(), strips: strips(row) })
        .filter(|bars| !bars.strips.is_empty())
        .collect();
    let any = rows
        .iter()
        .flat_map(|row| &row.strips)
        .any(|strip| strip.parts.iter().any(|(_, value)| *value > 0.0));
    any.then(|| Figure {
        title: finding(group, workload, style, judged).unwrap_or_else(|| workload.to_owned()),
        about: about(main),
        svg: bars(&rows),
        command: group.command.clone(),
    })
}

fn quantity(group: &Group, workload: &str, style: &Style<'_>, metric: &Metric) -> Option<Figure> {
    figure(group, workload, style, (metric, metric), &|row| {
        strip(row, style, metric, false).into_iter().collect()
    })
}

fn pair(
    group: &Group,
    workload: &str,
    style: &Style<'_>,
    (full, pale): (&Metric, &Metric),
    judged: &Metric,
) -> Option<Figure> {
    figure(group, workload, style, (full, judged), &|row| {
        let strips = [strip(row, style, full, false), strip(row, style, pale, true)];
        strips.into_iter().flatten().collect()
    })
}

fn throughput(group: &Group, workload: &str, style: &Style<'_>) -> Option<Figure> {
    // Work that is put off is work: what writes is judged once it is done.
    let writes = group.of(workload).any(|row| row.runs.iter().any(|run| run.user.written > 0));
    let judged = if writes { &SETTLED } else { &RUNNING };
    pair(group, workload, style, (&RUNNING, &SETTLED), judged)
}

fn memory(group: &Group, workload: &str, style: &Style<'_>) -> Option<Figure> {
    pair(group, workload, style, (&RESIDENT, &LIMITED), &RESIDENT)
}

fn by_class(group: &Group, workload: &str, style: &Style<'_>) -> Option<Figure> {
    let strips = |row: &Row| {
        let run = row.typical();
        let known = CLASSES.iter().enumerate().filter_map(|(number, class)| {
            Some((Paint::Class(number), class_amplification(run, class, |of| of.written)?))
        });
        let parts: Vec<_> = known.collect();
        let sum: f64 = parts.iter().map(|(_, value)| value).sum();
        let text = format!("{sum:.2}");
        let strip = Strip { parts, pale: false, extremes: None, text };
        if strip.parts.is_empty() { Vec::new() } else { vec![strip] }
    };
    let figure = figure(group, workload, style, (&WRITE_DEVICE, &WRITE_DEVICE), &strips)?;
    let title = format!("{}, by class", figure.title);
    let about = "Written for a byte of the client, the sum at the end; lower is better".to_owned();
    Some(Figure { title, about, ..figure })
}

/// A line for each engine that `points` has some for.
fn series(
    group: &Group,
    workload: &str,
    style: &Style<'_>,
    points: &dyn Fn(&PhaseResult) -> Vec<(f64, f64)>,
) -> Vec<Series> {
    painted(group, workload, &|row| style.paint(&row.engine), points)
}

/// The series of [`series`], in a paint of one's own choice.
fn painted(
    group: &Group,
    workload: &str,
    paint: &dyn Fn(&Row) -> Paint,
    points: &dyn Fn(&PhaseResult) -> Vec<(f64, f64)>,
) -> Vec<Series> {
    let line = |row: &Row| Series { paint: paint(row), points: points(row.typical()) };
    group.of(workload).map(line).filter(|series| !series.points.is_empty()).collect()
}

const SECONDS: &str = "seconds";

/// How many times as long as the shortest run the longest may be with both over seconds.
const APART: f64 = 4.0;

/// The horizontal axis of figures over time: seconds, or each engine's own time in percent if their
/// times lie far apart. A slow engine would press all others to the edge.
#[derive(Clone, Copy)]
struct Timeline {
    is_relative: bool,
}

impl Timeline {
    fn of(group: &Group, workload: &str) -> Self {
        let time = |row: &Row| row.typical().speed.settled_seconds;
        let times = || group.of(workload).map(time).filter(|time| *time > 0.0);
        let longest = times().fold(0.0, f64::max);
        Self { is_relative: longest > APART * times().fold(f64::MAX, f64::min) }
    }

    fn title(self) -> &'static str {
        if self.is_relative { "% of the engine's own time" } else { SECONDS }
    }

    /// Points of `run` over seconds, as points over this axis.
    fn place(self, run: &PhaseResult, points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
        let whole = run.speed.settled_seconds;
        let unit = if self.is_relative && whole > 0.0 { whole / 100.0 } else { 1.0 };
        points.into_iter().map(|(seconds, value)| (seconds / unit, value)).collect()
    }
}

fn seconds(at: f64) -> String {
    if at >= 10.0 || at == at.trunc() { format!("{at:.0}") } else { format!("{at:.1}") }
}

/// Space at each sample, and at the end.
fn space_points(run: &PhaseResult) -> Vec<(f64, f64)> {
    let sampled = run.samples.iter().map(|sample| (sample.seconds, sample.allocated as f64));
    let end = (run.speed.settled_seconds, run.space.end.allocated as f64);
    let later = run.samples.last().is_none_or(|last| last.seconds < end.0);
    sampled.chain(later.then_some(end).filter(|(_, space)| *space > 0.0)).collect()
}

/// What the engine meant to stay within, at each sample.
fn budget_points(run: &PhaseResult) -> Vec<(f64, f64)> {
    let point = |sample: &Sample| Some((sample.seconds, sample.budget? as f64));
    run.samples.iter().filter_map(point).collect()
}

fn space(group: &Group, workload: &str, style: &Style<'_>) -> Option<Figure> {
    const GIB: f64 = 1073741824.0;
    let written = group.of(workload).any(|row| row.runs.iter().any(|run| run.user.written > 0));
    let live = group.of(workload).find_map(|row| row.typical().user.live);
    let timeline = Timeline::of(group, workload);
    let space = |run: &PhaseResult| timeline.place(run, space_points(run));
    let mut series = series(group, workload, style, &space);
    let points = || series.iter().flat_map(|series| &series.points);
    let peak = points().map(|point| point.1).fold(0.0, f64::max);
    let end = points().map(|point| point.0).fold(0.0, f64::max);
    let live_points = live.map(|live| vec![(0.0, live as f64), (end, live as f64)]);
    series.extend(live_points.map(|points| Series { paint: Paint::Reference, points }));
    let budget = |row: &Row| Paint::Budget(style.number(&row.engine));
    let budgets = |run: &PhaseResult| timeline.place(run, budget_points(run));
    series.extend(painted(group, workload, &budget, &budgets));
    // In the unit of the axis, so that its labels are round.
    let (unit, name) = if peak < GIB { (GIB / 1024.0, "MiB") } else { (GIB, "GiB") };
    for point in series.iter_mut().flat_map(|series| &mut series.points) {
        point.1 /= unit;
    }
    let size = |value: f64| {
        let digits = if value.fract().abs() < 1e-6 { 0 } else { 1 };
        format!("{value:.digits$} {name}")
    };
    let axes = Axes { x: &seconds, y: &size, x_title: timeline.title(), logarithmic: false };
    let against = live.map_or(String::new(), |live| format!("; {} live", bytes(live)));
    let title = finding(group, workload, style, &SPACE_PEAK);
    let title = title.unwrap_or_else(|| format!("{workload}: at most {}", bytes(peak as u64)));
    (written && peak > 0.0).then(|| Figure {
        title: format!("{title}{against}"),
        about: "Blocks on disk over the time of the phase; lower is better".to_owned(),
        svg: lines(&series, &axes),
        command: group.command.clone(),
    })
}

/// Operations a second between one sample and the next.
fn rates(run: &PhaseResult) -> Vec<(f64, f64)> {
    let start = Sample::default();
    let before = [start].into_iter().chain(run.samples.iter().copied());
    let rate = |(before, now): (Sample, &Sample)| {
        let (time, done) = (now.seconds - before.seconds, now.operations - before.operations);
        (time > 0.0).then(|| (now.seconds, done as f64 / time))
    };
    before.zip(&run.samples).filter_map(rate).collect()
}

/// The slowest stretch of a run between two samples, as a share of the middle one.
fn steadiness(run: &PhaseResult) -> Option<f64> {
    let clients = run.samples.iter().filter(|s| s.seconds <= run.speed.running_seconds).count();
    let rates = rates(run).into_iter().take(clients).map(|(_, rate)| rate);
    let spread = Spread::of(rates).filter(|spread| spread.count > 2 && spread.median > 0.0)?;
    Some(spread.least / spread.median)
}

/// Which engine slows down least; all of them that are not told apart by their repetitions.
fn steadiest(group: &Group, workload: &str) -> String {
    let of =
        |row: &Row| Some((Spread::of(row.runs.iter().filter_map(steadiness))?, row.engine.clone()));
    let rows: Vec<_> = group.of(workload).filter(|row| !row.wrong).filter_map(of).collect();
    let best = rows.iter().max_by(|a, b| a.0.median.total_cmp(&b.0.median));
    let Some((best, first)) = best else {
        return format!("{workload}: operations a second over time");
    };
    let equals = rows.iter().filter(|(other, name)| name != first && best.meets(other));
    let names: Vec<_> = [&**first].into_iter().chain(equals.map(|(_, name)| &**name)).collect();
    let (names, percent) = (names.join(" and "), best.median * 100.0);
    format!("{workload}: {names} steadiest, never below {percent:.0}% of its usual speed")
}

fn over_time(group: &Group, workload: &str, style: &Style<'_>) -> Option<Figure> {
    let count = |value: f64| match value {
        value if value >= 1e6 => format!("{:.1}M", value / 1e6),
        value if value >= 1e3 => format!("{:.0}k", value / 1e3),
        value => format!("{value:.0}"),
    };
    let timeline = Timeline::of(group, workload);
    let axes = Axes { x: &seconds, y: &count, x_title: timeline.title(), logarithmic: false };
    let rates = |run: &PhaseResult| timeline.place(run, rates(run));
    let series = series(group, workload, style, &rates);
    (!series.is_empty()).then(|| Figure {
        title: steadiest(group, workload),
        about:
            "Operations a second over time; higher is better; zero after the end of the clients \
                is background work"
                .to_owned(),
        svg: lines(&series, &axes),
        command: group.command.clone(),
    })
}

fn latency(group: &Group, workload: &str, style: &Style<'_>) -> Option<Figure> {
    const NAMES: [&str; 6] = ["50%", "90%", "99%", "99.9%", "99.99%", "max"];
    let place = |x: f64| named(&NAMES, x);
    let time = |us: f64| match us {
        us if us >= 0.999e6 => format!("{:.0} s", us / 1e6),
        us if us >= 999.0 => format!("{:.0} ms", us / 1e3),
        us if us >= 0.999 => format!("{us:.0} us"),
        us => format!("{:.0} ns", us * 1e3),
    };
    let axes = Axes { x: &place, y: &time, x_title: "share of operations", logarithmic: true };
    let points = |run: &PhaseResult| {
        let of = &run.latency;
        let times = [of.p50_us, of.p90_us, of.p99_us, of.p999_us, of.p9999_us, of.max_us];
        let points = times.into_iter().enumerate().filter(|(_, time)| *time > 0.0);
        points.map(|(at, time)| (at as f64, time)).collect()
    };
    let series = series(group, workload, style, &points);
    let title = finding(group, workload, style, &P99)?;
    (!series.is_empty()).then(|| Figure {
        title: format!("{title} for 99%"),
        about: "The time within which a share of operations was done; lower is better".to_owned(),
        svg: lines(&series, &axes),
        command: group.command.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::{SECONDS, Style, Timeline, steadiest, throughput};
    use crate::report::collect::{Group, Row};
    use crate::result::{PhaseResult, Sample};

    /// A run of `seconds`, with a sample for each of four parts, which have `parts` operations.
    fn row(engine: &str, seconds: f64, parts: [u64; 4]) -> Row {
        let mut run = PhaseResult { engine: engine.into(), ..PhaseResult::default() };
        run.workload = "w".into();
        (run.speed.running_seconds, run.speed.settled_seconds) = (seconds, seconds);
        let mut done = 0;
        for (at, part) in (1..).zip(parts) {
            done += part;
            let seconds = seconds * f64::from(at) / 4.0;
            run.samples.push(Sample { seconds, operations: done, ..Sample::default() });
        }
        Row::of_run(run)
    }

    #[test]
    fn times_that_lie_far_apart_are_told_in_parts() {
        let group = |slow| {
            let rows = vec![row("quick", 1.0, [5; 4]), row("slow", slow, [5; 4])];
            Group::of_rows("g", rows)
        };
        assert_eq!(Timeline::of(&group(4.0), "w").title(), SECONDS);
        let apart = group(100.0);
        let timeline = Timeline::of(&apart, "w");
        assert_ne!(timeline.title(), SECONDS);
        let placed = timeline.place(&apart.rows[1].runs[0], vec![(50.0, 7.0)]);
        assert_eq!(placed, [(50.0, 7.0)]);
        assert_eq!(timeline.place(&apart.rows[0].runs[0], vec![(0.25, 7.0)]), [(25.0, 7.0)]);
    }

    /// A row of runs that took so long while clients ran, and until they had settled.
    fn writer(engine: &str, runs: &[(f64, f64)]) -> Row {
        let run = |(running, settled): &(f64, f64)| {
            let run = PhaseResult { engine: engine.into(), ..PhaseResult::default() };
            let mut run = PhaseResult { workload: "w".into(), ..run };
            (run.speed.running_seconds, run.speed.settled_seconds) = (*running, *settled);
            (run.speed.operations, run.user.written) = (1000, 1);
            run
        };
        let mut row = Row::of_run(run(&runs[0]));
        row.runs = runs.iter().map(run).collect();
        row
    }

    #[test]
    fn a_title_judges_writes_once_they_are_done_and_claims_nothing_within_the_spread() {
        let engines = ["late", "early", "one", "other"].map(str::to_owned);
        let style = Style { engines: &engines, budgeted: &[false; 4], baseline: "none" };
        let title = |rows| throughput(&Group::of_rows("g", rows), "w", &style).unwrap().title;
        let late = writer("late", &[(1.0, 10.0), (1.1, 11.0)]);
        let early = writer("early", &[(2.0, 2.0), (2.1, 2.1)]);
        assert!(title(vec![late, early]).starts_with("w: early most"));
        let one = writer("one", &[(1.0, 1.0), (1.4, 1.4)]);
        let other = writer("other", &[(1.2, 1.2), (1.6, 1.6)]);
        let title = title(vec![one, other]);
        assert!(title.starts_with("w: one and other within their spread"), "{title}");
    }

    #[test]
    fn the_steadiest_engine_slows_down_least() {
        let rows = vec![row("even", 1.0, [9, 10, 10, 12]), row("stalls", 1.0, [99, 90, 9, 90])];
        let title = steadiest(&Group::of_rows("g", rows), "w");
        assert_eq!(title, "w: even steadiest, never below 90% of its usual speed");
        let twice = |engine: &str, parts: [[u64; 4]; 2]| {
            let mut both = row(engine, 1.0, parts[0]);
            both.runs.extend(row(engine, 1.0, parts[1]).runs);
            both
        };
        let one = twice("one", [[9, 10, 10, 12], [7, 10, 10, 12]]);
        let other = twice("other", [[8, 10, 10, 12], [6, 10, 10, 12]]);
        let title = steadiest(&Group::of_rows("g", vec![one, other]), "w");
        assert!(title.starts_with("w: one and other steadiest"), "{title}");
    }
}
