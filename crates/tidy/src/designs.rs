//! Lines that check the design of a database outside of the files of the designs.
//!
//! How values are kept is one struct, each question about it has a file per answer, and the presets
//! are a table. A check elsewhere is a branch that must be extended for each new design.

use crate::repo::{Finding, Repo};

/// Crates of the engine.
const ENGINE: [&str; 6] = ["base", "storage", "index", "values", "hot", "cleavedb"];

/// Files and folders that answer, whose lines do not count: the layout and its codec, a strategy
/// with its answers, the table of presets, and the rules of options that may stand together.
const ANSWERS: [&str; 9] = [
    "crates/values/src/layout.rs",
    "crates/values/src/partition.rs",
    "crates/values/src/groups/sizing/",
    "crates/values/src/groups/liveness/",
    "crates/cleavedb/src/settings/options/presets.rs",
    "crates/cleavedb/src/settings/options/log.rs",
    "crates/cleavedb/src/settings/options/validate.rs",
    "crates/index/src/compaction/level0.rs",
    "crates/index/src/compaction/level0/",
];

/// Code that checks a design: the answers by name, and predicates derived from them.
const QUESTIONS: [&str; 31] = [
    "layout.groups",
    ".layout()",
    "Partition::Hash",
    "Partition::Range",
    "Partition::Prefix",
    "LivenessRule::",
    "Relocation::",
    "SurvivorRoute::",
    "LogRole::",
    "LogPolicy::Stay",
    "LogPolicy::ToGroups",
    "LogPolicy::ToTables",
    "Preset::Lsm",
    "Preset::WiscKey",
    "Preset::HashKv",
    "Preset::KtStore",
    "Preset::Ohdb",
    ".separates()",
    ".writes_run()",
    ".needs_tombstones()",
    ".keeps_order()",
    ".has_cold_log()",
    ".merges()",
    "MinSeparated::Never",
    "cold_log_counts",
    "groups.is_empty()",
    "Level0::",
    ".packs()",
    ".compacts_on_seeks()",
    "WriteBack::",
    ".writes_back_on_pressure()",
];

/// Kinds of value files, which stand for designs where they are compared.
const KINDS: [&str; 3] = ["FileKind::Log", "FileKind::Segment", "FileKind::Group"];
const COMPARED: [&str; 4] = ["==", "!=", "=>", "matches!"];

/// Lines of product code with such a check.
pub fn asked(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &repo.sources {
        let of = |name: &str| source.path.starts_with(&format!("crates/{name}/src/"));
        let answers = ANSWERS.into_iter().any(|answer| source.path.starts_with(answer));
        if answers || !ENGINE.into_iter().any(of) {
            continue;
        }
        for (at, line) in source.product_code().lines().enumerate() {
            let line = line.trim();
            let names = ["use ", "pub use ", "pub(crate) use "];
            let kind = KINDS.into_iter().any(|kind| line.contains(kind));
            let compares = kind && COMPARED.into_iter().any(|how| line.contains(how));
            let asks = QUESTIONS.into_iter().any(|question| line.contains(question));
            if (asks || compares) && !names.into_iter().any(|name| line.starts_with(name)) {
                found.push(Finding::new(&source.path, at + 1, line.to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_asks_is_found() {
        let text = "use cleavedb_values::LogRole::WriteAhead;\n// LogRole::WriteAhead\n\
                    fn f() {\n    if layout.log == LogRole::WriteAhead {}\n    \
                    if kind == FileKind::Log {}\n    let name = FileKind::Log;\n    \
                    if table.needs_tombstones() {}\n}\n\n\
                    #[cfg(test)]\nmod tests {\n    const A: LogRole = LogRole::WriteAhead;\n}\n";
        let lines = |path| -> Vec<_> {
            asked(&Repo::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
        };
        assert_eq!(lines("crates/values/src/set.rs"), [4, 5, 7]);
        for fine in ["crates/values/src/layout.rs", "crates/cli/src/a.rs", "crates/a/tests/b.rs"] {
            assert_eq!(lines(fine), [0; 0], "{fine}");
        }
    }
}
