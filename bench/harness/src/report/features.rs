//! Tables of features: a row for each case on each engine, with medians and how far the rounds lie
//! apart.

use crate::features::FEATURES;
use crate::report::collect::Results;
use crate::report::stats::Spread;
use crate::report::tables::{NONE, Table, apart};
use crate::result::FeatureResult;
use crate::units::short;

/// What stands above the tables.
pub const LEGEND: &str = "\
Medians over the rounds, behind them how far the least and the most lie from the median. -: the \
engine does not have it.";

/// A table for each feature that was measured, with what it is.
pub fn features(results: &Results) -> Vec<(String, Table)> {
    let tables = FEATURES.iter().filter_map(|feature| {
        let found: Vec<_> =
            results.features.iter().filter(|result| result.feature == feature.name).collect();
        let lacking = results.absent.iter().filter(|(task, _)| task.list == feature.name);
        let mut without: Vec<_> = lacking.map(|(task, _)| task.engine.clone()).collect();
        without.dedup();
        let part = found.first()?.part;
        let about = match part {
            1 => format!("{}: {}", feature.name, feature.about),
            _ => format!("{}: {}; divided by {part}", feature.name, feature.about),
        };
        let header = ["", "engine"].iter().chain(feature.figures);
        let mut table = Table::new(header.map(|name| (*name).to_owned()), 2..usize::MAX);
        table.rows = rows(&found, feature.figures);
        table.rows.extend(without.into_iter().map(|engine| {
            let nothing = feature.figures.iter().map(|_| NONE.to_owned());
            [String::new(), engine].into_iter().chain(nothing).collect()
        }));
        Some((about, table))
    });
    tables.collect()
}

/// Rows of cases in the order of their first results, and of engines by their names.
fn rows(found: &[&FeatureResult], figures: &[&str]) -> Vec<Vec<String>> {
    let mut cases: Vec<&str> = Vec::new();
    let mut engines: Vec<&str> = Vec::new();
    for result in found {
        if !cases.contains(&&*result.case) {
            cases.push(&result.case);
        }
        if !engines.contains(&&*result.engine) {
            engines.push(&result.engine);
        }
    }
    engines.sort_unstable();
    let pairs = cases.iter().flat_map(|case| engines.iter().map(move |engine| (*case, *engine)));
    let row = |(case, engine): (&str, &str)| {
        let of = |result: &&&FeatureResult| result.case == case && result.engine == engine;
        let own: Vec<_> = found.iter().filter(of).collect();
        let cell = |name: &&str| {
            let values = own.iter().filter_map(|result| result.figures.get(*name).copied());
            Spread::of(values).map_or(NONE.to_owned(), shown)
        };
        let names = [case.to_owned(), engine.to_owned()];
        (!own.is_empty()).then(|| names.into_iter().chain(figures.iter().map(cell)).collect())
    };
    pairs.filter_map(row).collect()
}

fn shown(spread: Spread) -> String {
    let median = short(spread.median);
    match apart(Some(spread)) {
        apart if apart == NONE => median,
        apart => format!("{median} {apart}"),
    }
}

#[cfg(test)]
mod tests {
    use super::features;
    use crate::report::collect::Results;
    use crate::result::FeatureResult;

    #[test]
    fn rounds_become_one_row_with_their_spread() {
        let result = |engine: &str, value: f64| FeatureResult {
            engine: engine.to_owned(),
            feature: "transactions".to_owned(),
            case: "1 key".to_owned(),
            part: 10,
            figures: [("transactions/s".to_owned(), value)].into(),
        };
        let found = [("b", 90.0), ("a", 5.0), ("b", 100.0), ("b", 120.0)];
        let features_found = found.map(|(engine, value)| result(engine, value)).into();
        let results = Results { features: features_found, ..Results::default() };
        let tables = features(&results);
        let [(about, table)] = &tables[..] else { panic!("one feature was measured") };
        assert!(about.contains("divided by 10"), "{about}");
        assert_eq!(table.rows[0], ["1 key", "a", "-", "5.00", "-", "-"]);
        assert_eq!(table.rows[1], ["1 key", "b", "-", "100 -10/+20%", "-", "-"]);
    }
}
