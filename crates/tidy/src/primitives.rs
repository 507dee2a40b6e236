//! The source of locks, atomics and threads: a checker cannot control those of other crates.

use crate::repo::{Finding, Repo};
use crate::source::line_of;

/// Crates of the engine, and the simulator, which runs under the checkers too; what they share
/// between threads comes from `cleavedb_base::sync`.
const ENGINE: [&str; 7] = ["base", "storage", "storage-sim", "index", "values", "hot", "cleavedb"];

/// The folder that may name the real ones.
const SEAM: &str = "crates/base/src/sync/";

/// Paths to primitives that a checker cannot replace.
const REAL: [&str; 9] = [
    "parking_lot",
    "arc_swap",
    "std::sync::atomic",
    "std::sync::Mutex",
    "std::sync::RwLock",
    "std::sync::Condvar",
    "std::thread::Builder",
    "std::thread::sleep",
    "std::thread::yield_now",
];

/// Primitives in product code of the engine from other sources.
pub fn elsewhere(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in &repo.sources {
        let of = |name: &str| source.path.starts_with(&format!("crates/{name}/src/"));
        if source.path.starts_with(SEAM) || !ENGINE.into_iter().any(of) {
            continue;
        }
        let code = source.product_code();
        for real in REAL {
            for (at, _) in code.match_indices(real) {
                let what = format!("takes {real} from elsewhere than cleavedb_base::sync");
                found.push(Finding::new(&source.path, line_of(code, at), what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_primitive_in_the_engine_is_found() {
        let text = "use cleavedb_base::sync::Mutex;\nuse std::sync::Arc;\n\
                    use std::sync::atomic::AtomicBool;\nfn f() { std::thread::sleep(d); }\n\n\
                    #[cfg(test)]\nmod tests {\n    use std::sync::Mutex;\n}\n";
        let lines = |path| -> Vec<_> {
            elsewhere(&Repo::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
        };
        assert_eq!(lines("crates/values/src/set.rs"), [3, 4]);
        for fine in ["crates/base/src/sync/mod.rs", "bench/harness/src/a.rs", "crates/a/tests/b.rs"]
        {
            assert_eq!(lines(fine), [0; 0], "{fine}");
        }
    }
}
